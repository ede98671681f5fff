"""What the handlers log and count: run, window, page and counts, nothing of a booking."""

import time
from typing import Any, Final

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from functions.adapters.clients import retries
from functions.domain.errors import DispatcherError, InvalidInput, NotApproved
from functions.domain.execution import start_of
from functions.domain.failure import Failure
from functions.domain.run import Path, Progress, Run, State

REDO_ENDS: Final = (InvalidInput, NotApproved)
"""How a redo may end that is none: it was refused, or nobody approved it."""

logger = Logger()
metrics = Metrics()


def deadline_of(context: Any) -> float:
    """When Lambda will end this invocation, in epoch seconds."""
    return time.time() + float(context.get_remaining_time_in_millis()) / 1000


def report_progress(run: Run, before: Progress, after: Progress) -> None:
    """Log and count what one call did: the difference of two totals, and how often it had to ask AWS again.

    The retries of a call that failed stand with those of the process's next one.  `RunSeconds` is how long the run's
    execution has been at work by now.  A dry run did nothing: it is logged and not counted.
    """
    counts = {**(after.totals - before.totals).to_state(), "Retries": retries.take()}
    if not run.dry_run:
        for name, value in counts.items():
            metrics.add_metric(name, MetricUnit.Count, value)
        started = start_of(run.execution_id)
        if started is not None and run.path is not Path.REDO:  # a redo has waited for its approval
            metrics.add_metric("RunSeconds", MetricUnit.Seconds, max(0.0, time.time() - started))
        metrics.flush_metrics()
    logger.info(
        "dispatched",
        extra={
            "RunId": run.run_id,
            "WindowStart": run.window.start_text,
            "Lane": before.lane,
            "Page": before.page,
            **counts,
        },
    )


def count_redo_failure(state: State, error: DispatcherError) -> None:
    """Count the failure of a redo that was planned: it may come a day after its start, when nobody waits for it."""
    if Failure.of_state(state).run.get("Path") == Path.REDO and not isinstance(error, REDO_ENDS):
        metrics.add_metric("RedoFailed", MetricUnit.Count, 1)
        metrics.flush_metrics()
