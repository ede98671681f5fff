"""Dispatch whole window: `{"Run", "Others", "Progress"}` to the final `Progress`."""

from typing import Any

from functions.domain.run import Others, Progress, Run
from functions.handlers import wiring
from functions.handlers.observed import deadline_of, logger, report_progress
from functions.usecases.dispatch_window import dispatch_window


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Read the whole window at once and dispatch it, the old way; raises by the stable error names."""
    run, progress = Run.from_state(event["Run"]), Progress.from_state(event["Progress"])
    others, deadline = Others.from_state(event["Others"]), deadline_of(context)
    following = dispatch_window(run, progress, others, wiring.dispatch(), deadline)
    report_progress(run, progress, following)
    return following.to_state()
