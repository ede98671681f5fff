"""Read objects: `{"Reconcile", "Loop"}` to where the loop goes on."""

from typing import Any

from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.handlers.piece_task import do_piece
from functions.usecases.read_objects import read_objects


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Stage the next keys of the window's task data; raises by the stable error names."""
    return do_piece(
        event,
        context,
        lambda reconcile, loop, has_time: read_objects(
            reconcile, loop, wiring.task_objects(), wiring.recorder(), has_time
        ),
    )
