"""What the handlers log and count: run, window, page and counts, nothing of a booking."""

import time
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from functions.adapters.clients import retries
from functions.domain.run import Progress, Run

logger = Logger()
metrics = Metrics()


def deadline_of(context: Any) -> float:
    """When Lambda will end this invocation, in epoch seconds."""
    return time.time() + float(context.get_remaining_time_in_millis()) / 1000


def report_progress(run: Run, before: Progress, after: Progress) -> None:
    """Log and count what one call did: the difference of two totals, and how often it had to ask AWS again.

    The retries of a call that failed stand with those of the process's next one.  A dry run did nothing: it is logged
    and not counted.
    """
    counts = {**(after.totals - before.totals).to_state(), "Retries": retries.take()}
    if not run.dry_run:
        for name, value in counts.items():
            metrics.add_metric(name, MetricUnit.Count, value)
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
