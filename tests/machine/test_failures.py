"""How a run fails: where it stops, what it leaves, what it says, and how the next run goes on from there."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final, NamedTuple, NoReturn

import pytest

from functions.domain.budget import PAGE_LEASE_SECONDS, WINDOW_LEASE_SECONDS
from functions.domain.errors import ERRORS_BY_NAME, LeaseLost
from functions.domain.failure import UNREADABLE
from tests.machine.faults import ALWAYS, Call, Fault, ProcessDied, When, every, nth
from tests.machine.walk import (
    Account,
    Execution,
    FunctionError,
    InvokeError,
    State,
    Walk,
    booking,
    five_members,
    group_of,
    reads_bookings,
    uploads_of,
    worked_example,
)

TIME: Final = "2026-09-17T16:01:10Z"
FULL: Final = {"ExecuteTime": TIME}
PAGED: Final = {"ExecuteTime": TIME, "PaginationEnabled": True}
PAGES_OF_TWO: Final = {**PAGED, "PageSize": 2}


class Failing(NamedTuple):
    """A fault, how often it takes to fail the run, and the name the run then fails with."""

    fault: Fault
    attempts: int
    error: str


FOR_GOOD: Final = Failing(Fault.FORBIDDEN, 1, "ConfigurationError")
USED_UP: Final = Failing(Fault.THROTTLED, 5, "TransientError")
UNANSWERED: Final = Failing(Fault.ANSWER_LOST, 5, "TransientError")
whether_retried = pytest.mark.parametrize("failing", [FOR_GOOD, USED_UP], ids=["for good", "retries used up"])


def assert_failed(execution: Execution, error: str, **report: object) -> None:
    assert (execution.status, execution.error) == ("FAILED", error)
    assert execution.report == execution.report | {"Error": error, **report}
    assert "Window dispatched" not in execution.visited


@whether_retried
@pytest.mark.parametrize("member", [3, 4], ids=["first of the page", "last of the page"])
def test_a_failing_upload_stops_the_run_at_its_page(
    walk: Walk, account: Account, failing: Failing, member: int
) -> None:
    account.book(*five_members())
    walk.calls.stage(failing.fault, uploads_of(member), ALWAYS)

    execution = walk.run(PAGES_OF_TWO, "at-its-page")

    assert_failed(
        execution,
        failing.error,
        WindowStart="2026-09-17T15:00:00Z",
        WindowEnd="2026-09-17T16:00:00Z",
        Path="paged",
        Page=2,
        NotDone=[],
    )
    assert execution.report["RunId"].endswith("Z-at-its-page")
    assert execution.report["Execution"].endswith(":at-its-page")
    assert execution.report["Token"] == {
        "RecordId": {"S": "R2"},
        "BookingDateUTC": {"S": "2026-09-17"},
        "BookingTimeUTC": {"S": "15:02:00Z"},
    }
    assert execution.report["Totals"] == execution.report["Totals"] | {
        "Pages": 1,
        "Evaluated": 2,
        "Dispatched": 2,
        "Tasks": 2,
    }
    assert execution.report["Message"].startswith("PutObject: ")
    assert account.records == ["R1", "R2"]
    assert walk.starts == [None, *["R2"] * failing.attempts]
    assert account.leases == []


@whether_retried
@pytest.mark.parametrize("again", [PAGES_OF_TWO, {**PAGED, "PageSize": 3}, FULL], ids=["same", "other pages", "full"])
def test_a_run_after_the_failed_one_dispatches_the_rest_and_nothing_twice(
    walk: Walk, account: Account, failing: Failing, again: State
) -> None:
    account.book(*five_members())
    walk.calls.stage(failing.fault, uploads_of(4), failing.attempts)
    failed = walk.run(PAGES_OF_TWO)
    before = [task.task_id for task in account.tasks]

    execution = walk.run(again)

    assert failed.status == "FAILED"
    assert execution.output == execution.output | {"Waiting": 5, "Dispatched": 3, "AlreadyDispatched": 2, "Tasks": 3}
    assert account.records == ["R1", "R2", "R3", "R4", "R5"]
    assert [task.task_id for task in account.tasks][:2] == before


def test_the_full_read_sends_nothing_of_a_chunk_whose_upload_failed(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(4))

    assert_failed(walk.run(FULL), "ConfigurationError", Path="full", Page=1, NotDone=[])

    assert account.messages == []
    summary = walk.run(FULL).output
    assert summary == summary | {"Dispatched": 5, "Tasks": 5}


@pytest.mark.parametrize("given", [PAGED, FULL], ids=["paged", "full"])
@pytest.mark.parametrize(
    "failing", [FOR_GOOD, USED_UP, UNANSWERED], ids=["for good", "retries used up", "answers lost"]
)
def test_after_a_send_that_failed_half_way_only_the_same_tasks_are_sent(
    walk: Walk, account: Account, given: State, failing: Failing
) -> None:
    account.book(*(booking(f"R{n:02}", **group_of(1, n, 1)) for n in range(12)))

    def second_batch(call: Call) -> bool:
        return call.operation == "SendMessageBatch" and len(call.request["Entries"]) == 2

    walk.calls.stage(failing.fault, second_batch, failing.attempts)
    failed = walk.run(given)
    sent = {task.task_id for task in account.tasks}

    execution = walk.run(given)

    assert_failed(failed, failing.error, NotDone=[])
    assert len(sent) == (12 if failing is UNANSWERED else 10)
    assert execution.status == "SUCCEEDED"
    assert len(account.messages) == 12
    assert account.records == [f"R{n:02}" for n in range(12)]
    assert sent <= {task.task_id for task in account.tasks}
    assert len(walk.calls.of("PutObject")) == 12  # the plan's tasks are taken as they are


@pytest.mark.parametrize("given", [PAGED, FULL], ids=["paged", "full"])
def test_no_batch_is_sent_after_the_lease_s_end(walk: Walk, account: Account, given: State) -> None:
    account.book(*(booking(f"R{n:02}", **group_of(1, n, 1)) for n in range(12)))
    walk.calls.follow(nth("SendMessageBatch", 1), lambda _: walk.let_pass(WINDOW_LEASE_SECONDS))

    execution = walk.run(given)

    assert_failed(execution, "LeaseLost", NotDone=[])
    assert len(account.messages) == 10
    assert walk.run(given).status == "SUCCEEDED"
    assert account.records == [f"R{n:02}" for n in range(12)]


def test_a_window_whose_holder_died_is_free_when_its_lease_has_run_out(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    walk.calls.stage(Fault.DIED_BEFORE, every("SendMessageBatch"))
    walk.stand_in("ReportFailure", fail_with(FunctionError("Runtime.ExitError", "")))
    assert walk.run(PAGED).error == "Runtime.ExitError"

    walk.let_pass(PAGE_LEASE_SECONDS - 1)
    assert walk.run(PAGED).output["Outcome"] == "AlreadyRunning"
    walk.let_pass(2)
    assert walk.run(PAGED).output["Outcome"] == "Dispatched"

    assert account.records == ["R1", "R2", "R3", "R5"]
    assert account.leases == []


def first_page(walk: Walk) -> State:
    """What the page function is given at a run's first page."""
    execution = {"Input": PAGED, "Name": "run", "StartTime": TIME}
    state = walk.invoke("TakeLeases", walk.invoke("PlanRun", {"Execution": execution}))
    return {"Run": state["Run"], "Others": state["Leases"]["Others"], "Progress": state["Progress"]}


def test_an_attempt_whose_successor_did_the_page_sends_nothing_more(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    page = first_page(walk)
    walk.calls.follow(reads_bookings, lambda _: walk.invoke("DispatchPage", page))

    with pytest.raises(LeaseLost, match="no longer this attempt's to plan"):
        walk.invoke("DispatchPage", page)

    assert len(walk.calls.of("SendMessageBatch")) == 2
    assert account.records == ["R1", "R2", "R3", "R5"]


@pytest.mark.parametrize(
    ("paused", "renewal", "step"),
    [(reads_bookings, 3, "plan"), (nth("SendMessageBatch", 1), 4, "finish")],
    ids=["before its plan", "before its end"],
)
def test_an_attempt_whose_successor_has_begun_decides_nothing_more(
    walk: Walk, account: Account, paused: When, renewal: int, step: str
) -> None:
    account.book(*worked_example())
    page = first_page(walk)

    def begin_another(_answer: State) -> None:
        walk.calls.stage(Fault.DIED_AFTER, nth("TransactWriteItems", renewal))
        with pytest.raises(ProcessDied):
            walk.invoke("DispatchPage", page)

    walk.calls.follow(paused, begin_another)

    with pytest.raises(LeaseLost, match=f"no longer this attempt's to {step}"):
        walk.invoke("DispatchPage", page)

    walk.invoke("DispatchPage", page)
    assert account.records == ["R1", "R2", "R3", "R5"]


def test_bookings_added_meanwhile_go_into_tasks_of_their_own(walk: Walk, account: Account) -> None:
    account.book(booking("R1"), booking("R2"))
    walk.calls.stage(Fault.DIED_AFTER, nth("SendMessageBatch", 1))
    walk.run(PAGED)
    [before] = account.tasks
    account.book(booking("late"))

    execution = walk.run(PAGED)

    assert execution.status == "SUCCEEDED"
    assert [task.records for task in account.tasks] == [("R1", "R2"), ("late",)]
    assert account.tasks[0] == before


def test_bad_records_are_set_aside_with_their_reason_and_the_rest_is_dispatched(walk: Walk, account: Account) -> None:
    account.book(
        booking("good"),
        booking("mistyped", OrderTime={"N": "1"}),
        booking("voucher", RewardType="Voucher"),
        booking("nobody", MemberId={"NULL": True}),
    )

    summary = walk.run(PAGED).output

    assert summary == summary | {"Waiting": 4, "Dispatched": 1, "SetAside": 3, "Tasks": 1}
    assert account.records == ["good"]
    [key] = [key for key in account.objects if key.startswith("set-aside/")]
    assert {record["Record"]["RecordId"]["S"]: record["Reason"] for record in account.read(key)["Records"]} == {
        "mistyped": "OrderTime: expected type S",
        "voucher": "RewardType: expected Point or ECoupon",
        "nobody": "MemberId: expected type N or S",
    }


@pytest.mark.parametrize("given", [PAGES_OF_TWO, FULL], ids=["paged", "full"])
def test_more_bad_records_than_the_limit_fail_the_run_before_their_page_is_sent(
    walk: Walk, account: Account, given: State
) -> None:
    account.flag("SetAsideLimit", "1")
    account.book(
        booking("R1", BookingTimeUTC="15:01:00Z"),
        booking("R2", BookingTimeUTC="15:02:00Z", RewardType="Voucher"),
        booking("R3", BookingTimeUTC="15:03:00Z"),
        booking("R4", BookingTimeUTC="15:04:00Z", RewardType="Voucher"),
        booking("R5", BookingTimeUTC="15:05:00Z"),
    )

    execution = walk.run(given)

    paged = given is PAGES_OF_TWO
    assert_failed(execution, "TooManyBadRecords", Page=2 if paged else 1, NotDone=[])
    assert account.records == (["R1"] if paged else [])
    assert walk.pauses == []


@pytest.mark.parametrize("given", [{**PAGED, "PageSize": 1}, {**FULL, "PageSize": 1}], ids=["paged", "full"])
@pytest.mark.parametrize("to", [1, 0], ids=["stays", "goes back"])
def test_a_token_that_does_not_advance_fails_the_run(walk: Walk, account: Account, given: State, to: int) -> None:
    account.book(*five_members())
    tokens: list[Any] = []
    places: Iterator[int] = count(1)

    def hold_back(answer: State) -> None:
        tokens.append(answer["LastEvaluatedKey"])
        if next(places) == 3:
            answer["LastEvaluatedKey"] = tokens[to]

    walk.calls.follow(reads_bookings, hold_back, 3)

    execution = walk.run(given)

    assert_failed(execution, "TokenNotAdvancing", NotDone=[])
    assert walk.starts == [None, "R1", "R2"]
    paged = "PaginationEnabled" in given
    assert account.records == (["R1", "R2"] if paged else [])
    assert execution.report["Token"] == (tokens[1] if paged else None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("BookingDateUTC", "2026-09-18"), ("BookingTimeUTC", "16:30:00Z"), ("Elsewhere", "x")],
    ids=["another day", "another hour", "another table"],
)
def test_a_token_of_another_run_is_refused_before_it_is_used(
    walk: Walk, account: Account, name: str, value: str
) -> None:
    account.book(*five_members())

    def exchange(own: Callable[[], Any]) -> Any:
        progress = own()
        return {**progress, "Token": {**progress["Token"], name: {"S": value}}}

    walk.stand_in("DispatchPage", exchange)

    assert_failed(walk.run(PAGES_OF_TWO), "InvalidToken", Page=2, NotDone=[])

    assert walk.starts == [None]


@pytest.mark.parametrize(
    ("function", "change", "error"),
    [
        ("DispatchPage", {"HasMore": None}, "DispatchFailed"),
        ("DispatchPage", {"HasMore": "true"}, "DispatchFailed"),
        ("DispatchPage", {"Stopped": None}, "ConfigurationError"),
        ("DispatchPage", {"Stopped": "false"}, "ConfigurationError"),
        ("DispatchPage", {"Stopped": ...}, ""),
        ("DispatchPage", {"HasMore": ...}, ""),
        ("DispatchPage", {"Token": ...}, ""),
        ("TakeLeases", {"Leases": {"Held": None}}, "DispatchFailed"),
        ("TakeLeases", {"Leases": {"Held": "true"}}, "DispatchFailed"),
        ("TakeLeases", {"Leases": {"Others": ...}}, ""),
        ("TakeLeases", {"Leases": ...}, ""),
        ("TakeLeases", {"Run": {"Path": "sideways"}}, "ConfigurationError"),
        ("TakeLeases", {"Progress": {"HasMore": None}}, "ConfigurationError"),
        ("PlanRun", {"Run": {"Path": "sideways"}}, "ConfigurationError"),
        ("PlanRun", {"Run": {"WindowStart": ...}}, "ConfigurationError"),
        ("PlanRun", {"Progress": {"Page": None}}, "ConfigurationError"),
        ("PlanRun", {"Progress": ...}, ""),
    ],
    ids=lambda value: json.dumps(value, default=lambda _: "missing") if isinstance(value, dict) else value,
)
def test_a_result_that_is_not_as_agreed_ends_the_run_failed_and_nothing_more_is_read(
    walk: Walk, account: Account, function: str, change: State, error: str
) -> None:
    account.book(*five_members())
    walk.stand_in(function, lambda own: changed(own(), change))

    execution = walk.run(PAGES_OF_TWO)

    assert execution.status == "FAILED"
    assert walk.starts in ([], [None])
    if error:
        assert (execution.error, execution.report["Error"], execution.visited[-1]) == (error, error, "Report failure")
        assert execution.report["Message"] == UNREADABLE or error != "DispatchFailed"


def changed(result: State, change: State) -> State:
    """The result with these fields put in, or taken out where the value is `...`."""
    altered = dict(result)
    for name, value in change.items():
        if value is ...:
            del altered[name]
        else:
            altered[name] = changed(altered[name], value) if isinstance(value, dict) else value
    return altered


@pytest.mark.parametrize("times", [1, ALWAYS], ids=["once", "for good"])
def test_a_failure_at_the_very_end_fails_the_run_though_all_was_dispatched(
    walk: Walk, account: Account, times: int
) -> None:
    account.book(*worked_example())
    walk.calls.stage(Fault.FORBIDDEN, every("DeleteItem"), times)

    execution = walk.run(PAGED)

    assert_failed(execution, "ConfigurationError", Page=2, Token=None, NotDone=[] if times == 1 else ["release"])
    assert execution.report["Totals"] == execution.report["Totals"] | {"Dispatched": 4, "Tasks": 3}
    assert account.records == ["R1", "R2", "R3", "R5"]


def fail_with(error: Exception) -> Callable[[Callable[[], Any]], NoReturn]:
    def fail(_own: Callable[[], Any]) -> NoReturn:
        raise error

    return fail


def test_an_execution_fails_even_when_the_failure_s_report_cannot_be_made(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    walk.calls.stage(Fault.FORBIDDEN, every("PutObject"))
    walk.stand_in("ReportFailure", fail_with(FunctionError("Sandbox.Timedout", "after 60 seconds")), 2)

    execution = walk.run(PAGED)

    assert (execution.status, execution.error) == ("FAILED", "Sandbox.Timedout")


def test_an_execution_fails_even_when_the_failure_s_report_raises_nothing(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    walk.calls.stage(Fault.FORBIDDEN, every("PutObject"))
    walk.stand_in("ReportFailure", lambda _own: None)

    execution = walk.run(PAGED)

    assert (execution.status, execution.error) == ("FAILED", "States.Runtime")
    assert execution.visited[-1] == "Report failure"


def test_a_failure_without_a_cause_is_reported_with_window_page_and_token(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    walk.stand_in("DispatchPage", lambda own: own())
    walk.stand_in("DispatchPage", fail_with(InvokeError(TimeoutError())), 2)

    execution = walk.run(PAGES_OF_TWO)

    assert (execution.status, execution.error) == ("FAILED", "TransientError")
    assert execution.report == execution.report | {"Error": "States.Timeout", "Message": "", "Page": 2}
    assert execution.report["Token"]["RecordId"] == {"S": "R2"}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"Error": "States.Timeout", "Cause": ""}, ""),
        ({"Error": "States.TaskFailed", "Cause": "Rate exceeded"}, "Rate exceeded"),
        ({"Error": "X", "Cause": "[1]"}, "[1]"),
        ({"Error": "X", "Cause": '{"errorType":"X"}'}, ""),
        ({"Error": "X"}, ""),
        ({}, UNREADABLE),
        (None, UNREADABLE),
    ],
    ids=["empty", "text", "a list", "without message", "missing", "nothing", "null"],
)
@pytest.mark.parametrize("state", [{}, {"Run": None, "Progress": []}], ids=["nothing known", "unreadable"])
def test_a_report_is_made_of_whatever_is_known(walk: Walk, error: Any, message: str, state: State) -> None:
    with pytest.raises(tuple(ERRORS_BY_NAME.values())) as raised:
        walk.invoke("ReportFailure", {"State": {**state, "Error": error}, "Execution": {}})

    assert json.loads(str(raised.value))["Message"] == message
    assert [call.operation for call in walk.calls.made] == ["Publish"]
