"""What the tasks that do a reconcile's pieces have in common: `{"Reconcile", "Loop"}` to where the loop goes on."""

import time
from collections.abc import Callable
from typing import Any

from functions.domain.budget import CALL_SECONDS
from functions.domain.reconcile import Loop, Reconcile
from functions.handlers.observed import deadline_of, logger


def do_piece(
    event: dict[str, Any], context: Any, task: Callable[[Reconcile, Loop, Callable[[], bool]], Loop]
) -> dict[str, Any]:
    """Do the piece that the state names; the task asks between two calls of AWS whether there is time for more."""
    reconcile, loop = Reconcile.from_state(event["Reconcile"]), Loop.from_state(event["Loop"])
    last_start = deadline_of(context) - 2 * CALL_SECONDS
    following = task(reconcile, loop, lambda: time.time() < last_start)
    logger.info(
        "piece done",
        extra={
            "ExecutionId": reconcile.execution_id,
            "WindowStart": reconcile.window.start_text,
            "Function": context.function_name,
            "Piece": loop.piece,
            "HasMore": following.has_more,
        },
    )
    return following.to_state()
