"""What the handlers log and count: run, window, page and counts, nothing of a booking."""

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from functions.domain.run import Progress, Run

logger = Logger()
metrics = Metrics()


def report_progress(run: Run, before: Progress, after: Progress) -> None:
    """Log and count what one call did: the difference of two totals."""
    counts = (after.totals - before.totals).to_state()
    for name, value in counts.items():
        metrics.add_metric(name, MetricUnit.Count, value)
    metrics.flush_metrics()
    logger.info(
        "dispatched",
        extra={"RunId": run.run_id, "WindowStart": run.window.start_text, "Page": before.page, **counts},
    )
