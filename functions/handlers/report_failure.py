"""Report failure: `{"State": $}` to the raised error that ends the execution."""

from typing import Any, NoReturn

from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.report_failure import report_failure


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> NoReturn:
    """Give the window back, then raise the recorded error by its stable name, its message the report as JSON."""
    error = report_failure(event["State"], wiring.leases())
    logger.error("window failed", extra={"Kind": type(error).__name__, "Report": str(error)})
    raise error
