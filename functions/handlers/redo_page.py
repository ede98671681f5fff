"""Redo page: `{"Run", "Redo", "Others", "Progress"}` to the next `Progress`."""

from typing import Any

from functions.domain.redo import Redo
from functions.domain.run import Others, Progress, Run
from functions.handlers import wiring
from functions.handlers.observed import deadline_of, logger, report_progress
from functions.usecases.redo_page import redo_page


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Do one page and return where the next one starts; raises by the stable error names."""
    run, progress = Run.from_state(event["Run"]), Progress.from_state(event["Progress"])
    redo, others = Redo.from_state(event["Redo"]), Others.from_state(event["Others"])
    following = redo_page(
        run,
        redo,
        progress,
        others,
        reports=wiring.reports(),
        dispatch=wiring.dispatch(),
        deadline=deadline_of(context),
    )
    report_progress(run, progress, following)
    return following.to_state()
