"""Record end: a status change of an execution, which may have died outside its failure branch."""

from typing import Any

from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.record_end import record_end


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> None:
    """Note the end if nobody has, give the window back, tell a person."""
    change = event["detail"]
    news = record_end(change, wiring.leases(), wiring.journal(), wiring.notifier())
    logger.info(
        "execution ended", extra={"Execution": change["executionArn"], "Status": change["status"], "News": news}
    )
