"""Take leases: `{"Run", "Progress"}` to `{"Run", "Progress", "Leases"}`."""

from typing import Any

from functions.domain.run import Progress, Run
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.take_leases import take_leases


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Hold the window's edges, or say who does; raises `WindowBusy` where a neighbouring window's run does."""
    run, progress = Run.from_state(event["Run"]), Progress.from_state(event["Progress"])
    state = take_leases(run, progress, wiring.leases(), wiring.journal()).to_state()
    logger.info("leases asked for", extra={"RunId": state["Run"]["RunId"], **state["Leases"]})
    return state
