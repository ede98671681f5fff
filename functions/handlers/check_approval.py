"""Check approval: `{"Redo", "Answer"}` to `{"By"}`; without an answer it has expired."""

from typing import Any

from functions.domain.redo import Redo, redo_run_id
from functions.handlers.observed import logger
from functions.usecases.approval import check_approval


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Say who approved; raises `NotApproved` by name."""
    redo = Redo.from_state(event["Redo"])
    approval = check_approval(redo, event["Answer"])
    logger.info("approved", extra={"RunId": redo_run_id(redo.report_key), "Missing": redo.missing})
    return {**approval}
