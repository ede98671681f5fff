"""What every handler does around its use case: its logger's state, its metrics; nothing of a booking is logged."""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from functions.domain.run import Progress, Run

logger = Logger()
metrics = Metrics()

Handler: TypeAlias = Callable[[dict[str, Any], Any], Any]


def observed(handler: Handler) -> Handler:
    """Give the handler fresh log keys for each call and write its metrics at the end, also of a failed call."""
    with_log: Handler = logger.inject_lambda_context(handler, clear_state=True)
    with_metrics: Handler = metrics.log_metrics(with_log, raise_on_empty_metrics=False)
    return functools.wraps(handler)(with_metrics)


def report_progress(run: Run, before: Progress, after: Progress) -> None:
    """Log and count what one call did: the difference of two totals."""
    counts = (after.totals - before.totals).to_state()
    for name, value in counts.items():
        metrics.add_metric(name, MetricUnit.Count, value)
    logger.info(
        "dispatched",
        extra={"RunId": run.run_id, "WindowStart": run.window.start_text, "Page": before.page, **counts},
    )
