"""Compare records: `{"Reconcile", "Loop"}` to where the loop goes on."""

from typing import Any

from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.handlers.piece_task import do_piece
from functions.usecases.compare_records import compare_records


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Compare the next share of the records; raises by the stable error names."""
    return do_piece(
        event,
        context,
        lambda reconcile, loop, _: compare_records(reconcile, loop, wiring.recorder()),
    )
