"""Report failure: `{"State": $, "Execution": $$.Execution}` to the raised error, or to `{"Run", "Progress"}`."""

from typing import Any

from functions.domain.errors import DispatcherError
from functions.handlers import wiring
from functions.handlers.observed import count_redo_failure, logger
from functions.usecases.report_failure import report_failure


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Note the failure, give the window back, tell a person, and raise the error by its stable name."""
    try:
        return report_failure(event["State"], event["Execution"], wiring.leases(), wiring.journal(), wiring.notifier())
    except DispatcherError as error:
        logger.error("run failed", extra={"Kind": type(error).__name__, "Report": str(error)})
        count_redo_failure(event["State"], error)
        raise
