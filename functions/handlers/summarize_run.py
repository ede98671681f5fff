"""Summarize run: `{"Run", "Progress"}` to the machine's output."""

import time
from typing import Any

from functions.domain.run import Progress, Run
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.summarize_run import summarize_run


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Give the window back and sum up."""
    run, progress = Run.from_state(event["Run"]), Progress.from_state(event["Progress"])
    summary = summarize_run(run, progress, wiring.leases(), wiring.journal(), time.time())
    # A stopped run's token holds a record's key.
    logger.info("run ended", extra={name: value for name, value in summary.items() if name != "Token"})
    return summary
