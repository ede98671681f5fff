"""What sees an execution die outside its own failure branch."""

from typing import Any

import pytest

from tests.infra.template import StackTemplate

TWO_HOURS = 2 * 3600


@pytest.fixture(scope="module")
def rule(sandbox: StackTemplate) -> dict[str, Any]:
    [described] = sandbox.properties("AWS::Events::Rule").values()
    return dict(described)


def test_it_hears_of_every_bad_end_of_a_machine_that_holds_windows_and_of_nothing_else(rule: dict[str, Any]) -> None:
    assert rule["State"] == "ENABLED"
    assert rule["EventPattern"] == {
        "source": ["aws.states"],
        "detail-type": ["Step Functions Execution Status Change"],
        "detail": {
            "stateMachineArn": ["<WorkflowDispatch>", "<WorkflowRedo>"],
            "status": ["FAILED", "TIMED_OUT", "ABORTED"],
        },
    }


@pytest.mark.parametrize("stage", ["Local", "Sandbox", "Production"])
def test_every_stage_is_watched(templates: dict[str, StackTemplate], stage: str) -> None:
    [described] = templates[stage].properties("AWS::Events::Rule").values()
    assert described["State"] == "ENABLED"


def test_it_calls_the_recorder_with_the_whole_event_and_a_call_that_cannot_be_made_lies_in_a_dead_letter_queue(
    rule: dict[str, Any],
) -> None:
    [target] = rule["Targets"]
    assert {key: value for key, value in target.items() if key != "Id"} == {
        "Arn": "<FunctionsRecordEndFunction.Arn>",
        "DeadLetterConfig": {"Arn": "<WatchDeadLetters.Arn>"},
        "RetryPolicy": {"MaximumEventAgeInSeconds": TWO_HOURS, "MaximumRetryAttempts": 20},
    }


def test_a_call_that_was_made_and_failed_lies_there_too(sandbox: StackTemplate) -> None:
    """The rule's own queue does not see it: an asynchronous call is delivered once it is accepted."""
    [configuration] = sandbox.properties("AWS::Lambda::EventInvokeConfig").values()
    assert configuration == {
        "FunctionName": "<FunctionsRecordEndFunction>",
        "Qualifier": "$LATEST",
        "MaximumEventAgeInSeconds": TWO_HOURS,
        "MaximumRetryAttempts": 2,
        "DestinationConfig": {"OnFailure": {"Destination": "<WatchDeadLetters.Arn>"}},
    }


def test_this_rule_alone_may_call_the_recorder_and_write_to_the_dead_letter_queue(sandbox: StackTemplate) -> None:
    assert list(sandbox.properties("AWS::Lambda::Permission").values()) == [
        {
            "Action": "lambda:InvokeFunction",
            "FunctionName": "<FunctionsRecordEndFunction.Arn>",
            "Principal": "events.amazonaws.com",
            "SourceArn": "<WatchBadEnd.Arn>",
        }
    ]
    [policy] = [
        each
        for each in sandbox.properties("AWS::SQS::QueuePolicy").values()
        if each["Queues"] == ["<WatchDeadLetters>"]
    ]
    [statement] = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    assert {key: value for key, value in statement.items() if key != "Sid"} == {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": "<WatchDeadLetters.Arn>",
        "Condition": {"ArnEquals": {"aws:SourceArn": "<WatchBadEnd.Arn>"}},
    }


def test_its_dead_letter_queue_is_no_fifo_queue(sandbox: StackTemplate) -> None:
    assert "FifoQueue" not in sandbox.properties("AWS::SQS::Queue")["WatchDeadLetters"]


def test_the_machine_does_not_call_the_recorder(sandbox: StackTemplate) -> None:
    assert not [right for right in sandbox.rights("WorkflowDispatchRole") if "RecordEnd" in right[1]]
