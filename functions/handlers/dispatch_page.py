"""Dispatch page: `{"Run", "Others", "Progress"}` to the next `Progress`."""

from typing import Any

from functions.domain.run import Others, Progress, Run
from functions.handlers import wiring
from functions.handlers.observed import deadline_of, logger, report_progress
from functions.usecases.dispatch_page import dispatch_page


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Do one page and return where the next one starts; raises by the stable error names."""
    run, progress = Run.from_state(event["Run"]), Progress.from_state(event["Progress"])
    others, deadline = Others.from_state(event["Others"]), deadline_of(context)
    following = dispatch_page(run, progress, others, wiring.dispatch(), deadline)
    report_progress(run, progress, following)
    return following.to_state()
