"""What tells a person."""

from typing import Any, NamedTuple

import pytest

from functions.domain.reconcile import Difference
from infra.monitoring import COUNTED
from infra.queues import RECEIVES, VISIBILITY
from tests.infra.template import StackTemplate

RUNBOOK = "docs/operate.md"
FIVE_MINUTES, TWO_HOURS = 300, 2 * 3600
LONG_RUN, OLDEST_TASK = 50 * 60, 90 * 60


class Watched(NamedTuple):
    """A metric, and from which value on somebody is told."""

    namespace: str
    metric: str
    dimension: tuple[str, str]
    statistic: str
    threshold: float = 1


def of_machine(metric: str, machine: str) -> Watched:
    return Watched("AWS/States", metric, ("StateMachineArn", machine), "Sum")


def of_functions(metric: str, statistic: str = "Sum", threshold: float = 1) -> Watched:
    return Watched("BookingtimeDispatcher", metric, ("service", "dispatcher"), statistic, threshold)


def of_queue(metric: str, queue: str, threshold: float = 1) -> Watched:
    return Watched("AWS/SQS", metric, ("QueueName", f"<{queue}.QueueName>"), "Maximum", threshold)


MACHINES = {"": "<WorkflowDispatch>", "Reconcile": "<WorkflowReconcile>"}
WATCHED = {
    **{
        f"{prefix}Executions{end}": of_machine(f"Executions{end}", machine)
        for prefix, machine in MACHINES.items()
        for end in ("Failed", "TimedOut", "Aborted")
    },
    "RedoExecutionsTimedOut": of_machine("ExecutionsTimedOut", "<WorkflowRedo>"),
    **{
        name: of_functions(name)
        for name in ("SetAside", "MissingInLedger", "Duplicate", "InDoubt", "MissingHour", "RedoFailed")
    },
    "LongRun": of_functions("RunSeconds", "Maximum", LONG_RUN),
    **{
        f"{name}Oldest": of_queue("ApproximateAgeOfOldestMessage", queue, OLDEST_TASK)
        for name, queue in (("PointTasks", "QueuesPointQueue"), ("CouponTasks", "QueuesCouponQueue"))
    },
    **{
        f"{name}DeadLetters": of_queue("ApproximateNumberOfMessagesVisible", queue)
        for name, queue in (
            ("PointTasks", "QueuesPointDeadLetters"),
            ("CouponTasks", "QueuesCouponDeadLetters"),
            ("Schedule", "ScheduleDeadLetters"),
            ("ReconcileSchedule", "ReconcileScheduleDeadLetters"),
            ("Watch", "WatchDeadLetters"),
        )
    },
}
NOT_STARTED = {f"{prefix}NotStarted": machine for prefix, machine in MACHINES.items()}


def alarms_of(template: StackTemplate) -> dict[str, Any]:
    described = template.properties("AWS::CloudWatch::Alarm")
    return {name.removeprefix("Monitoring"): alarm for name, alarm in described.items()}


@pytest.fixture(scope="module")
def alarms(sandbox: StackTemplate) -> dict[str, Any]:
    return alarms_of(sandbox)


def test_exactly_what_needs_a_person_is_watched(alarms: dict[str, Any]) -> None:
    assert alarms.keys() == WATCHED.keys() | NOT_STARTED.keys()


@pytest.mark.parametrize("name", WATCHED)
def test_one_occurrence_in_five_minutes_raises_the_alarm_and_silence_does_not(
    alarms: dict[str, Any], name: str
) -> None:
    alarm = alarms[name]
    [dimension] = alarm["Dimensions"]
    found = (alarm["Namespace"], alarm["MetricName"], (dimension["Name"], dimension["Value"]), alarm["Statistic"])
    assert Watched(*found, alarm["Threshold"]) == WATCHED[name]
    assert (alarm["ComparisonOperator"], alarm["EvaluationPeriods"]) == ("GreaterThanOrEqualToThreshold", 1)
    assert (alarm["Period"], alarm["TreatMissingData"]) == (FIVE_MINUTES, "notBreaching")


@pytest.mark.parametrize("name", NOT_STARTED)
def test_two_hours_without_a_start_raise_the_alarm(alarms: dict[str, Any], name: str) -> None:
    alarm = alarms[name]
    filled, started = alarm["Metrics"]
    assert (filled["Expression"], filled["ReturnData"]) == (f"FILL({started['Id']}, 0)", True)
    assert started["MetricStat"] == {
        "Metric": {
            "Namespace": "AWS/States",
            "MetricName": "ExecutionsStarted",
            "Dimensions": [{"Name": "StateMachineArn", "Value": NOT_STARTED[name]}],
        },
        "Period": TWO_HOURS,
        "Stat": "Sum",
    }
    assert started["ReturnData"] is False
    assert (alarm["ComparisonOperator"], alarm["Threshold"], alarm["EvaluationPeriods"]) == ("LessThanThreshold", 1, 1)
    assert alarm["TreatMissingData"] == "breaching"


def test_where_nothing_starts_by_itself_nobody_is_told_that_nothing_did(templates: dict[str, StackTemplate]) -> None:
    assert alarms_of(templates["Local"]).keys() == WATCHED.keys()
    assert alarms_of(templates["Production"]).keys() == WATCHED.keys() | NOT_STARTED.keys()


@pytest.mark.parametrize("name", [*WATCHED, *NOT_STARTED])
def test_every_alarm_goes_to_the_topic_and_says_what_it_means_and_where_to_read_what_to_do(
    alarms: dict[str, Any], name: str
) -> None:
    assert alarms[name]["AlarmActions"] == ["<AlarmsTopic>"]
    meaning, _, link = alarms[name]["AlarmDescription"].rpartition(" ")
    assert meaning.endswith(".")
    assert link == f"{RUNBOOK}#{name.lower()}"


def test_the_links_begin_with_the_address_that_the_deployment_was_given(templates: dict[str, StackTemplate]) -> None:
    links = [alarm["AlarmDescription"].split()[-1] for alarm in alarms_of(templates["Linked"]).values()]
    assert all(link.startswith("https://example.org/operate.md#") for link in links)


def test_what_a_reconcile_counts_goes_by_the_names_of_its_classes() -> None:
    assert set(COUNTED) - {"SetAside", "RedoFailed"} < {kind.value for kind in Difference}


def test_a_task_that_cannot_be_worked_is_a_dead_letter_before_it_is_an_old_one() -> None:
    assert RECEIVES * VISIBILITY.to_seconds() < OLDEST_TASK


def test_the_topic_lets_this_accounts_alarms_in_and_refuses_plain_http(sandbox: StackTemplate) -> None:
    [policy] = sandbox.properties("AWS::SNS::TopicPolicy").values()
    statements = {statement["Effect"]: statement for statement in policy["PolicyDocument"]["Statement"]}
    assert statements["Allow"] == {
        "Sid": "AllowAlarms",
        "Effect": "Allow",
        "Principal": {"Service": "cloudwatch.amazonaws.com"},
        "Action": "sns:Publish",
        "Resource": "<AlarmsTopic>",
        "Condition": {"StringEquals": {"aws:SourceAccount": "<AWS::AccountId>"}},
    }
    assert statements["Deny"]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_nothing_that_the_embedded_aws_refuses_is_used(local: StackTemplate) -> None:
    assert not local.kinds() & {
        "AWS::CloudWatch::CompositeAlarm",
        "AWS::StepFunctions::StateMachineVersion",
        "AWS::StepFunctions::StateMachineAlias",
        "Custom::S3AutoDeleteObjects",
    }
