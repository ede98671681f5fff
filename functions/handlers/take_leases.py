"""Take leases: `{"Run"}` to `{"Held", "Holder", "Others"}`."""

from typing import Any

from functions.domain.run import Run
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.take_leases import take_leases, to_state


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Hold the window's edges, or say who does; raises `WindowBusy` where a neighbouring window's run does."""
    run = Run.from_state(event["Run"])
    answer = to_state(take_leases(run, wiring.leases()))
    logger.info("leases asked for", extra={"RunId": run.run_id, **answer})
    return answer
