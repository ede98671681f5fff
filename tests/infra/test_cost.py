"""What `dispatchctl cost` says of the stack is what the stack is."""

from functions.domain.reconcile import Difference
from functions.domain.run import Counts
from infra.functions import COUNTING, PAGE, SMALL, WINDOW
from infra.lambda_function import LOG_RETENTION
from infra.monitoring import COUNTED
from infra.stage import LEAST_TASK_EXPIRY_DAYS
from tests.infra.template import StackTemplate
from tools.cost import bill as cost
from tools.cost import usage


def test_functions_have_the_memory_that_is_paid_for() -> None:
    memory = [size.memory_mb for size in (SMALL, PAGE, COUNTING, WINDOW)]
    assert memory == [usage.SMALL_MEMORY_MB, usage.PAGE_MEMORY_MB, usage.COUNTING_MEMORY_MB, usage.WINDOW_MEMORY_MB]


def test_the_alarms_and_dashboards_that_are_paid_for_are_all_there_are(production: StackTemplate) -> None:
    assert len(production.resources("AWS::CloudWatch::Alarm")) == cost.ALARMS
    assert len(production.resources("AWS::CloudWatch::Dashboard")) == cost.DASHBOARDS


def test_every_metric_that_an_alarm_watches_is_paid_for() -> None:
    assert COUNTED.keys() <= {*Counts().to_state(), "Retries", "RunSeconds", "RedoFailed", *Difference}


def test_logs_and_task_objects_are_kept_as_long_as_is_paid_for() -> None:
    assert LOG_RETENTION.name == "THREE_MONTHS"
    assert cost.LOG_DAYS == 90
    assert cost.LEAST_TASK_DAYS == LEAST_TASK_EXPIRY_DAYS
