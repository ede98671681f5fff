"""The hourly start."""

import json
from typing import Any

import pytest

from tests.infra.template import StackTemplate


@pytest.fixture(scope="module")
def schedule(sandbox: StackTemplate) -> dict[str, Any]:
    [described] = sandbox.properties("AWS::Scheduler::Schedule").values()
    return dict(described)


def test_the_input_is_the_scheduled_time_and_never_now(schedule: dict[str, Any]) -> None:
    assert json.loads(schedule["Target"]["Input"]) == {"ExecuteTime": "<aws.scheduler.scheduled-time>"}


def test_it_fires_every_hour_of_utc_at_a_fixed_minute(schedule: dict[str, Any]) -> None:
    assert schedule["ScheduleExpression"] == "cron(1 * * * ? *)"
    assert schedule["ScheduleExpressionTimezone"] == "UTC"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}


def test_a_start_that_fails_for_an_hour_lies_in_a_dead_letter_queue(schedule: dict[str, Any]) -> None:
    assert schedule["Target"]["Arn"] == "<WorkflowDispatch>"
    assert schedule["Target"]["RetryPolicy"] == {
        "MaximumEventAgeInSeconds": 3600,
        "MaximumRetryAttempts": 185,
    }
    assert schedule["Target"]["DeadLetterConfig"] == {"Arn": "<ScheduleDeadLetters.Arn>"}


def test_its_dead_letter_queue_is_no_fifo_queue(sandbox: StackTemplate) -> None:
    assert "FifoQueue" not in sandbox.properties("AWS::SQS::Queue")["ScheduleDeadLetters"]


def test_its_role_starts_the_machine_and_nothing_else(sandbox: StackTemplate, schedule: dict[str, Any]) -> None:
    role = schedule["Target"]["RoleArn"].removeprefix("<").removesuffix(".Arn>")
    assert sandbox.rights(role) == {
        ("states:StartExecution", "<WorkflowDispatch>"),
        ("sqs:SendMessage", "<ScheduleDeadLetters.Arn>"),
    }


def test_only_a_schedule_of_this_account_may_take_its_role(sandbox: StackTemplate, schedule: dict[str, Any]) -> None:
    role = schedule["Target"]["RoleArn"].removeprefix("<").removesuffix(".Arn>")
    [trust] = sandbox.properties("AWS::IAM::Role")[role]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"]["StringEquals"]["aws:SourceAccount"] == "<AWS::AccountId>"


@pytest.mark.parametrize(("stage", "state"), [("Local", "DISABLED"), ("Sandbox", "ENABLED"), ("Production", "ENABLED")])
def test_nothing_starts_by_itself_on_the_embedded_aws(
    templates: dict[str, StackTemplate], stage: str, state: str
) -> None:
    [described] = templates[stage].properties("AWS::Scheduler::Schedule").values()
    assert described["State"] == state
