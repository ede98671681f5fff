"""Read bookings: `{"Reconcile", "Loop"}` to where the loop goes on."""

from typing import Any

from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.handlers.piece_task import do_piece
from functions.usecases.read_bookings import read_bookings


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Stage the next bookings of the window; raises by the stable error names."""
    return do_piece(
        event,
        context,
        lambda reconcile, loop, has_time: read_bookings(
            reconcile, loop, wiring.bookings(), wiring.recorder(), has_time
        ),
    )
