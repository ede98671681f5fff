"""Write report: `{"Reconcile"}` to the machine's output."""

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit

from functions.domain.reconcile import Reconcile
from functions.handlers import wiring
from functions.handlers.observed import logger, metrics
from functions.usecases.write_report import write_report


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Write what was found, and count it by class."""
    settings = wiring.report_settings()
    output = write_report(
        Reconcile.from_state(event["Reconcile"]),
        settings.stack_name,
        settings.booking_key_attributes,
        wiring.recorder(),
        wiring.reports(),
    )
    for name, count in output["Counts"].items():
        metrics.add_metric(name, MetricUnit.Count, count)
    metrics.flush_metrics()
    logger.info("window reconciled", extra=output)
    return output
