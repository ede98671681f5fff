"""Audit table: `{"Reconcile", "Loop"}` to where the loop goes on."""

from typing import Any

from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.handlers.piece_task import do_piece
from functions.usecases.audit_table import audit_table


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Stage the next records that the index does not hold; raises by the stable error names."""
    return do_piece(
        event,
        context,
        lambda reconcile, loop, has_time: audit_table(
            reconcile, loop, wiring.booking_table(), wiring.recorder(), has_time
        ),
    )
