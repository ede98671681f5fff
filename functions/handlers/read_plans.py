"""Read plans: `{"Reconcile", "Loop"}` to where the loop goes on."""

from typing import Any

from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.handlers.piece_task import do_piece
from functions.usecases.read_plans import read_plans


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Stage the next plans of the window and of those around it; raises by the stable error names."""
    return do_piece(
        event,
        context,
        lambda reconcile, loop, has_time: read_plans(reconcile, loop, wiring.ledger(), wiring.recorder(), has_time),
    )
