"""What the emulator's state machines do as AWS's do, and this application relies on."""

import json
from typing import Any

import pytest

from tests.emulator.conftest import Bench

SOURCE = """
calls = 0

class TransientError(Exception):
    pass

class InvalidToken(Exception):
    pass

def handler(event, context):
    global calls
    calls += 1
    if event["raise"] == "InvalidToken":
        raise InvalidToken("no such token")
    if event["raise"] == "TransientError" and calls < 3:
        raise TransientError("try again")
    return {"Calls": calls, "Event": event}
"""


def _task(function: str, error: str | None, **fields: Any) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": function, "Payload": {"raise": error, "Execution.$": "$$.Execution"}},
        "ResultSelector": {"Calls.$": "$.Payload.Calls", "Event.$": "$.Payload.Event"},
        "ResultPath": "$.Result",
        "End": True,
        **fields,
    }


def test_the_execution_is_handed_on_whole_with_its_input(bench: Bench) -> None:
    function = bench.create_function("seeing-its-execution", SOURCE)

    done = bench.execute({"Task": _task(function, None)}, {"ExecuteTime": None, "Deep": {"er": [1]}})

    output = json.loads(done["output"])
    assert output["ExecuteTime"] is None  # the state is kept beside the result
    execution = output["Result"]["Event"]["Execution"]
    assert execution["Id"] == done["executionArn"]
    assert execution["Name"] == done["name"]
    assert execution["Input"] == {"ExecuteTime": None, "Deep": {"er": [1]}}
    assert execution["StartTime"].endswith("Z")


def test_an_error_is_retried_by_the_name_of_its_class(bench: Bench) -> None:
    function = bench.create_function("failing-twice", SOURCE)
    retry = {"ErrorEquals": ["TransientError"], "IntervalSeconds": 1, "MaxAttempts": 2, "BackoffRate": 1}

    done = bench.execute({"Task": _task(function, "TransientError", Retry=[retry])}, {})

    assert json.loads(done["output"])["Result"]["Calls"] == 3


def test_an_error_is_caught_by_the_name_of_its_class_and_the_state_is_kept(bench: Bench) -> None:
    function = bench.create_function("failing-for-good", SOURCE)
    catch = [
        {"ErrorEquals": ["TransientError"], "ResultPath": "$.Wrong", "Next": "Caught"},
        {"ErrorEquals": ["InvalidToken"], "ResultPath": "$.Error", "Next": "Caught"},
    ]
    states = {"Task": _task(function, "InvalidToken", Catch=catch), "Caught": {"Type": "Pass", "End": True}}

    output = json.loads(bench.execute(states, {"Kept": 1})["output"])

    assert output["Kept"] == 1
    assert output["Error"]["Error"] == "InvalidToken"
    assert json.loads(output["Error"]["Cause"])["errorMessage"] == "no such token"


@pytest.mark.parametrize(("error", "status"), [("InvalidToken", "FAILED"), (None, "SUCCEEDED")])
def test_an_error_that_nobody_catches_fails_the_execution_by_its_name(
    bench: Bench, error: str | None, status: str
) -> None:
    function = bench.create_function(f"uncaught-{error}", SOURCE)

    done = bench.execute({"Task": _task(function, error)}, {})

    assert (done["status"], done.get("error")) == (status, error)
