"""Plan run: `{"Execution": $$.Execution}` to the state's `{"Run", "Progress"}`."""

from typing import Any

from functions.domain.run import Progress
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.plan_run import plan_run


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Decide what holds for the whole run; raises `InvalidInput` by name."""
    run = plan_run(event["Execution"], wiring.parameters(), wiring.deployment())
    logger.info("run planned", extra=run.to_state())
    return {"Run": run.to_state(), "Progress": Progress().to_state()}
