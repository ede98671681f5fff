"""Plan compare: `{"Execution": $$.Execution}` to the state's `{"Run"}`."""

from typing import Any

from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.plan_compare import plan_compare


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Decide what is read; raises `InvalidInput` by name."""
    run = plan_compare(event["Execution"], wiring.parameters(), wiring.deployment())
    logger.info("compare planned", extra=run.to_state())
    return {"Run": run.to_state()}
