"""What the functions count, by the names that they count it under."""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.lambda_function import METRICS_NAMESPACE, SERVICE

PERIOD: Final = Duration.minutes(5)
SUM: Final = cloudwatch.Stats.SUM
MAXIMUM: Final = cloudwatch.Stats.MAXIMUM


def counted(name: str, statistic: str = SUM, period: Duration = PERIOD) -> cloudwatch.Metric:
    """A metric of the functions.  Its one dimension is the service: a shop or an hour would make it thousands."""
    return cloudwatch.Metric(
        namespace=METRICS_NAMESPACE,
        metric_name=name,
        dimensions_map={"service": SERVICE},
        period=period,
        statistic=statistic,
    )
