"""The hourly starts: of the dispatch, and of the reconcile that looks after it."""

import json
from typing import Any, NamedTuple

import pytest

from tests.infra.template import StackTemplate


class Start(NamedTuple):
    """A schedule as it must be."""

    schedule: str
    machine: str
    expression: str

    @property
    def dead_letters(self) -> str:
        return f"{self.schedule.removesuffix('Hourly')}DeadLetters"


STARTS = {
    "dispatch": Start("ScheduleHourly", "<WorkflowDispatch>", "cron(1 * * * ? *)"),
    "reconcile": Start("ReconcileScheduleHourly", "<WorkflowReconcile>", "cron(30 * * * ? *)"),
}


@pytest.fixture(params=list(STARTS.values()), ids=list(STARTS))
def start(request: pytest.FixtureRequest) -> Start:
    one: Start = request.param
    return one


@pytest.fixture
def schedule(sandbox: StackTemplate, start: Start) -> dict[str, Any]:
    return dict(sandbox.properties("AWS::Scheduler::Schedule")[start.schedule])


def test_there_is_no_other_schedule(sandbox: StackTemplate) -> None:
    assert sandbox.properties("AWS::Scheduler::Schedule").keys() == {one.schedule for one in STARTS.values()}


def test_the_input_is_the_scheduled_time_and_never_now(schedule: dict[str, Any]) -> None:
    assert json.loads(schedule["Target"]["Input"]) == {"ExecuteTime": "<aws.scheduler.scheduled-time>"}


def test_it_fires_every_hour_of_utc_at_a_fixed_minute(schedule: dict[str, Any], start: Start) -> None:
    assert schedule["ScheduleExpression"] == start.expression
    assert schedule["ScheduleExpressionTimezone"] == "UTC"
    assert schedule["FlexibleTimeWindow"] == {"Mode": "OFF"}


def test_a_start_that_fails_for_an_hour_lies_in_a_dead_letter_queue(schedule: dict[str, Any], start: Start) -> None:
    assert schedule["Target"]["Arn"] == start.machine
    assert schedule["Target"]["RetryPolicy"] == {
        "MaximumEventAgeInSeconds": 3600,
        "MaximumRetryAttempts": 185,
    }
    assert schedule["Target"]["DeadLetterConfig"] == {"Arn": f"<{start.dead_letters}.Arn>"}


def test_its_dead_letter_queue_is_no_fifo_queue(sandbox: StackTemplate, start: Start) -> None:
    assert "FifoQueue" not in sandbox.properties("AWS::SQS::Queue")[start.dead_letters]


def test_its_role_starts_the_machine_and_nothing_else(
    sandbox: StackTemplate, schedule: dict[str, Any], start: Start
) -> None:
    role = schedule["Target"]["RoleArn"].removeprefix("<").removesuffix(".Arn>")
    assert sandbox.rights(role) == {
        ("states:StartExecution", start.machine),
        ("sqs:SendMessage", f"<{start.dead_letters}.Arn>"),
    }


def test_only_a_schedule_of_this_account_may_take_its_role(sandbox: StackTemplate, schedule: dict[str, Any]) -> None:
    role = schedule["Target"]["RoleArn"].removeprefix("<").removesuffix(".Arn>")
    [trust] = sandbox.properties("AWS::IAM::Role")[role]["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"]["StringEquals"]["aws:SourceAccount"] == "<AWS::AccountId>"


@pytest.mark.parametrize(("stage", "state"), [("Local", "DISABLED"), ("Sandbox", "ENABLED"), ("Production", "ENABLED")])
def test_nothing_starts_by_itself_on_the_embedded_aws(
    templates: dict[str, StackTemplate], stage: str, state: str, start: Start
) -> None:
    assert templates[stage].properties("AWS::Scheduler::Schedule")[start.schedule]["State"] == state
