"""Ask for approval: `{"Run", "Redo", "Count", "Execution", "Token"}`; the answer comes back with the token."""

from typing import Any

from functions.domain.redo import Redo
from functions.domain.run import Run
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.approval import ask_for_approval


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> None:
    """Note the token and tell a person."""
    run, redo = Run.from_state(event["Run"]), Redo.from_state(event["Redo"])
    ask_for_approval(
        run,
        redo,
        event["Count"],
        execution=event["Execution"],
        token=event["Token"],
        repairs=wiring.repairs(),
        notifier=wiring.notifier(),
    )
    logger.info("approval asked for", extra={"RunId": run.run_id, "Missing": redo.missing})
