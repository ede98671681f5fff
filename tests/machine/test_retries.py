"""What the machine tries again, how often, and what it does not."""

from collections.abc import Callable
from typing import Any, Final, NoReturn

import pytest
from botocore.exceptions import ClientError

from tests.machine.faults import ALWAYS, Fault, When, every, nth
from tests.machine.walk import (
    Account,
    Execution,
    FunctionError,
    InvokeError,
    State,
    Walk,
    reads_bookings,
    worked_example,
)

TIME: Final = "2026-09-17T16:01:10Z"
PAGED: Final = {"ExecuteTime": TIME, "PaginationEnabled": True}
FULL: Final = {"ExecuteTime": TIME}
PATHS: Final = {"paged": PAGED, "full": FULL}
DISPATCHER: Final = {"paged": "DispatchPage", "full": "DispatchWindow"}

CALLS: Final[dict[str, When]] = {
    "reading the parameters": nth("GetParameters", 1),
    "taking the leases": nth("TransactWriteItems", 1),
    "asking for other runs": nth("Query", 1),
    "beginning the attempt": nth("TransactWriteItems", 2),
    "reading the bookings": reads_bookings,
    "uploading": nth("PutObject", 2),
    "writing the plan": nth("TransactWriteItems", 3),
    "sending": nth("SendMessageBatch", 2),
    "finishing the plan": nth("TransactWriteItems", 4),
    "releasing the leases": nth("DeleteItem", 2),
}
PAUSE_CAPS: Final = (2, 4, 8, 16)


def attempts(walk: Walk, function: str) -> int:
    return sum(invocation.function == function for invocation in walk.invocations)


def assert_all_dispatched_once(execution: Execution, account: Account) -> None:
    assert execution.status == "SUCCEEDED", execution.cause
    assert account.records == ["R1", "R2", "R3", "R5"]
    assert execution.output == execution.output | {"Evaluated": 5, "Waiting": 4, "Groups": 3, "Tasks": 3, "SetAside": 0}
    assert account.leases == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("fault", [Fault.THROTTLED, Fault.ANSWER_LOST], ids=lambda fault: fault.name)
def test_a_call_that_fails_for_the_time_being_is_made_again_and_then_all_is_well(
    walk: Walk, account: Account, path: str, call: When, fault: Fault
) -> None:
    account.book(*worked_example())
    walk.calls.stage(fault, call)

    execution = walk.run(PATHS[path])

    assert_all_dispatched_once(execution, account)
    [failed] = [invocation for invocation in walk.invocations if invocation.error]
    assert failed.error == "TransientError"
    assert attempts(walk, failed.function) == 2
    [pause] = walk.pauses
    assert 0 <= pause <= PAUSE_CAPS[0]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("fault", [Fault.DIED_BEFORE, Fault.DIED_AFTER], ids=lambda fault: fault.name)
def test_what_a_process_left_when_it_died_a_new_run_completes(
    walk: Walk, account: Account, path: str, call: When, fault: Fault
) -> None:
    account.book(*worked_example())
    walk.calls.stage(fault, call)

    died = walk.run(PATHS[path])
    execution = walk.run(PATHS[path])

    assert (died.status, died.error) == ("FAILED", "DispatchFailed")
    assert died.report["Error"] == "Runtime.ExitError"
    assert execution.status == "SUCCEEDED"
    assert account.records == ["R1", "R2", "R3", "R5"]
    assert execution.output["Dispatched"] + execution.output["AlreadyDispatched"] == 4


def test_a_call_that_keeps_failing_is_given_up_after_five_attempts_with_growing_pauses(
    walk: Walk, account: Account
) -> None:
    account.book(*worked_example())
    walk.calls.stage(Fault.THROTTLED, every("PutObject"), ALWAYS)

    execution = walk.run(PAGED)

    assert (execution.status, execution.error) == ("FAILED", "TransientError")
    assert execution.report["Message"].startswith("PutObject: SlowDown")
    assert attempts(walk, "DispatchPage") == 5
    assert len(walk.pauses) == 4
    assert all(0 <= pause <= cap for pause, cap in zip(walk.pauses, PAUSE_CAPS, strict=True))
    assert len(set(walk.pauses)) == 4
    assert (account.messages, account.leases) == ([], [])


@pytest.mark.parametrize("path", PATHS)
def test_entries_that_the_queue_keeps_refusing_end_as_a_transient_failure(
    walk: Walk, account: Account, path: str
) -> None:
    account.book(*worked_example())

    def refuse(answer: State) -> None:
        answer["Failed"] = [{"Id": entry["Id"], "SenderFault": False} for entry in answer.pop("Successful")]

    walk.calls.follow(every("SendMessageBatch"), refuse, ALWAYS)

    execution = walk.run(PATHS[path])

    assert (execution.status, execution.error) == ("FAILED", "TransientError")
    assert attempts(walk, DISPATCHER[path]) == 5


def timed_out(name: str) -> Callable[[Callable[[], Any]], NoReturn]:
    """The function, cut off when its work is done: the worst moment."""

    def cut_off(own: Callable[[], Any]) -> NoReturn:
        own()
        if name == "States.Timeout":
            raise InvokeError(TimeoutError())
        raise FunctionError(name, "RequestId: 7 Error: Task timed out after 300.00 seconds")

    return cut_off


TIME_OUTS: Final = ("Sandbox.Timedout", "Lambda.Unknown", "States.Timeout")


@pytest.mark.parametrize("name", TIME_OUTS)
@pytest.mark.parametrize(
    ("function", "path"),
    [
        ("PlanRun", "paged"),
        ("TakeLeases", "paged"),
        ("DispatchPage", "paged"),
        ("DispatchWindow", "full"),
        ("SummarizeRun", "paged"),
    ],
)
def test_a_function_that_timed_out_is_tried_once_more(
    walk: Walk, account: Account, function: str, path: str, name: str
) -> None:
    account.book(*worked_example())
    walk.stand_in(function, timed_out(name))

    assert_all_dispatched_once(walk.run(PATHS[path]), account)
    assert attempts(walk, function) == 2


@pytest.mark.parametrize("name", TIME_OUTS)
def test_a_function_that_timed_out_twice_is_not_tried_a_third_time(walk: Walk, account: Account, name: str) -> None:
    account.book(*worked_example())
    walk.stand_in("DispatchPage", timed_out(name), times=3)

    execution = walk.run(PAGED)

    assert (execution.status, execution.error) == ("FAILED", "TransientError")
    assert execution.report["Error"] == name
    assert attempts(walk, "DispatchPage") == 2
    assert account.leases == []


@pytest.mark.parametrize(
    "code",
    [
        "ClientExecutionTimeoutException",
        "ServiceException",
        "AWSLambdaException",
        "SdkClientException",
        "TooManyRequestsException",
        "CodeArtifactUserPendingException",
    ],
)
def test_a_function_that_lambda_could_not_start_is_tried_again(walk: Walk, account: Account, code: str) -> None:
    account.book(*worked_example())

    def refuse(_own: Callable[[], Any]) -> NoReturn:
        answer: Any = {
            "Error": {"Code": code, "Message": "Rate Exceeded."},
            "ResponseMetadata": {"HTTPStatusCode": 429, "RequestId": "7"},
        }
        raise InvokeError(ClientError(answer, "Invoke"))

    for function in ("PlanRun", "TakeLeases", "DispatchPage", "SummarizeRun"):
        walk.stand_in(function, refuse, times=2)

    assert_all_dispatched_once(walk.run(PAGED), account)
    assert attempts(walk, "DispatchPage") == 3


OURS: Final = (
    *("InvalidInput", "InvalidToken", "TokenNotAdvancing", "TooManyBadRecords", "LeaseLost", "WindowBusy"),
    *("IndexNotReady", "ConfigurationError", "DispatchFailed"),
)
OTHERS: Final = ("KeyError", "ClientError", "Runtime.HandlerError", "Runtime.OutOfMemory")


@pytest.mark.parametrize(
    ("function", "name"),
    [
        *(("DispatchPage", name) for name in (*OURS, *OTHERS)),
        *((function, "KeyError") for function in ("PlanRun", "TakeLeases", "DispatchWindow", "SummarizeRun")),
    ],
)
def test_any_other_error_ends_the_run_failed_at_once(walk: Walk, account: Account, function: str, name: str) -> None:
    account.book(*worked_example())

    def fail(_own: Callable[[], Any]) -> NoReturn:
        raise FunctionError(name, "for a reason")

    walk.stand_in(function, fail)

    execution = walk.run(FULL if function == "DispatchWindow" else PAGED)

    assert (execution.status, execution.error) == ("FAILED", name if name in OURS else "DispatchFailed")
    assert execution.report == execution.report | {"Error": name, "Message": "for a reason"}
    assert attempts(walk, function) == 1
    assert account.leases == []
