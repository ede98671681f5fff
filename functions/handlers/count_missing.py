"""Count missing: `{"Run", "Redo", "Count"}` to the next `Count`."""

from typing import Any

from functions.domain.redo import Redo
from functions.domain.run import Progress, Run
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.redo_page import Count, count_page


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Count one page of what would be dispatched; changes nothing."""
    run, redo = Run.from_state(event["Run"]), Redo.from_state(event["Redo"])
    count = Count(Progress.from_state(event["Count"]["Progress"]), tuple(event["Count"]["Samples"]))
    counted = count_page(
        run, redo, count, journal=wiring.journal(), reports=wiring.reports(), dispatch=wiring.dispatch()
    )
    logger.info("missing counted", extra={"RunId": run.run_id, **counted.progress.totals.to_state()})
    return counted.to_state(wiring.approval_settings().redo_without_approval)
