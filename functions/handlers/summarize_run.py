"""Summarize run: `{"Run", "Progress"}` to the machine's output."""

import time
from typing import Any

from functions.domain.budget import CALL_SECONDS
from functions.domain.run import Progress, Run
from functions.handlers import wiring
from functions.handlers.observed import deadline_of, logger
from functions.usecases.summarize_run import delete_staged, summarize_run


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Give the window back, sum up, and delete what was staged."""
    run, progress = Run.from_state(event["Run"]), Progress.from_state(event["Progress"])
    summary = summarize_run(run, progress, wiring.leases(), wiring.journal(), time.time())
    last_call = deadline_of(context) - CALL_SECONDS

    def in_time() -> bool:
        return time.time() < last_call

    deleted = delete_staged(run, progress, wiring.journal(), wiring.staging(), in_time)
    # A stopped run's token holds a record's key.
    logger.info(
        "run ended",
        extra={**{name: value for name, value in summary.items() if name != "Token"}, "StagedDeleted": deleted},
    )
    return summary
