"""What tells a person."""

from typing import Any

import pytest

from functions.domain.reconcile import Difference
from infra.monitoring import COUNTED
from tests.infra.template import StackTemplate

MACHINES = {"": "<WorkflowDispatch>", "Reconcile": "<WorkflowReconcile>"}
WATCHED = {
    **{
        f"{prefix}Executions{end}": (
            "AWS/States",
            f"Executions{end}",
            [{"Name": "StateMachineArn", "Value": machine}],
            "Sum",
        )
        for prefix, machine in MACHINES.items()
        for end in ("Failed", "TimedOut", "Aborted")
    },
    **{
        name: ("BookingtimeDispatcher", name, [{"Name": "service", "Value": "dispatcher"}], "Sum")
        for name in ("SetAside", "MissingInLedger", "Duplicate", "InDoubt", "MissingHour")
    },
    **{
        f"{name}DeadLetters": (
            "AWS/SQS",
            "ApproximateNumberOfMessagesVisible",
            [{"Name": "QueueName", "Value": f"<{queue}.QueueName>"}],
            "Maximum",
        )
        for name, queue in (
            ("PointTasks", "QueuesPointDeadLetters"),
            ("CouponTasks", "QueuesCouponDeadLetters"),
            ("Schedule", "ScheduleDeadLetters"),
            ("ReconcileSchedule", "ReconcileScheduleDeadLetters"),
            ("Watch", "WatchDeadLetters"),
        )
    },
}


@pytest.fixture(scope="module")
def alarms(sandbox: StackTemplate) -> dict[str, Any]:
    described = sandbox.properties("AWS::CloudWatch::Alarm")
    return {name.removeprefix("Monitoring"): alarm for name, alarm in described.items()}


def test_exactly_what_needs_a_person_is_watched(alarms: dict[str, Any]) -> None:
    assert {
        name: (alarm["Namespace"], alarm["MetricName"], alarm["Dimensions"], alarm["Statistic"])
        for name, alarm in alarms.items()
    } == WATCHED


def test_what_a_reconcile_counts_goes_by_the_names_of_its_classes() -> None:
    assert set(COUNTED) - {"SetAside"} < {kind.value for kind in Difference}


@pytest.mark.parametrize("name", WATCHED)
def test_one_occurrence_raises_the_alarm_and_silence_does_not(alarms: dict[str, Any], name: str) -> None:
    alarm = alarms[name]
    assert alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold"
    assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["Period"]) == (1, 1, 300)
    assert alarm["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("name", WATCHED)
def test_every_alarm_goes_to_the_topic_and_says_what_it_means(alarms: dict[str, Any], name: str) -> None:
    assert alarms[name]["AlarmActions"] == ["<AlarmsTopic>"]
    assert alarms[name]["AlarmDescription"]


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
