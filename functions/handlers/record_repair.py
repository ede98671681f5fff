"""Record repair: `{"Run", "Redo", "Count", "Approval", "Progress"}` to the machine's output."""

from typing import Any

from functions.domain.redo import Redo
from functions.domain.run import Progress, Run
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.record_repair import record_repair


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Keep what was done, and say it."""
    run, redo = Run.from_state(event["Run"]), Redo.from_state(event["Redo"])
    progress = Progress.from_state(event["Progress"])
    output = record_repair(
        run, redo, progress, count=event["Count"], approval=event["Approval"], repairs=wiring.repairs()
    )
    logger.info("repair kept", extra=output)
    return output
