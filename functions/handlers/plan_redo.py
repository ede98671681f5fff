"""Plan redo: `{"Execution": $$.Execution}` to the state's `{"Run", "Progress", "Redo", "Count"}`."""

from typing import Any

from functions.domain.run import Progress
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.plan_redo import plan_redo


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Decide what is looked for; raises `InvalidInput` by name."""
    settings = wiring.redo_settings()
    run, redo = plan_redo(event["Execution"], settings.stack_name, settings.booking_shards, wiring.reports())
    logger.info("redo planned", extra={**run.to_state(), "Report": redo.report_key, "Missing": redo.missing})
    progress = Progress().to_state()
    return {
        "Run": run.to_state(),
        "Progress": progress,
        "Redo": redo.to_state(),
        "Count": {"Progress": progress, "Samples": []},
    }
