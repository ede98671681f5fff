"""How a failed run goes on: redriven as the same execution, or resumed by a new one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.machine.faults import ALWAYS, Fault, When, every, nth
from tests.machine.walk import Account, Execution, State, Walk, five_members, reads_bookings, uploads_of, worked_example

TIME: Final = "2026-09-17T16:01:10Z"
FULL: Final = {"ExecuteTime": TIME}
PAGED: Final = {"ExecuteTime": TIME, "PaginationEnabled": True}
PAGES_OF_ONE: Final = {**PAGED, "PageSize": 1}
PAGES_OF_TWO: Final = {**PAGED, "PageSize": 2}
RESUME: Final = {"ExecuteTime": TIME, "Resume": True}
"""As an operator starts it: path and page size are those of the run that goes on."""

ALL: Final = ["R1", "R2", "R3", "R4", "R5"]
AGAIN: Final = ["Report failure", "Run planned?", "Take leases", "Window free?", "Which path?"]
"""How a redriven execution begins."""


def plans(account: Account) -> dict[tuple[str, str], State]:
    """The rows of the plans, by run and page."""
    rows = [row for row in account.ledger if row["Pk"]["S"].startswith("plan#") and row["Sk"]["S"].startswith("row#")]
    return {(row["Pk"]["S"].rsplit("#", 1)[1], row["Sk"]["S"].removeprefix("row#")): row for row in rows}


def runs(account: Account) -> list[State]:
    """The journal's rows of runs."""
    return [row for row in account.ledger if row["Pk"]["S"].startswith("window#")]


def messages_sent(walk: Walk) -> list[str]:
    """The id of every message that was handed to a queue, also of those that the queue dropped."""
    calls = walk.calls.of("SendMessageBatch")
    return [entry["MessageDeduplicationId"] for call in calls for entry in call.request["Entries"]]


def given_to(walk: Walk, function: str) -> list[State]:
    return [invocation.payload for invocation in walk.invocations if invocation.function == function]


def assert_dispatched(execution: Execution, account: Account, **summary: object) -> None:
    """Each of the five members' bookings once, and the leases given back."""
    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.output == execution.output | {"Outcome": "Dispatched", "Evaluated": 5, "Waiting": 5, **summary}
    assert account.records == ALL
    assert account.leases == []
    assert [row["Outcome"] for row in runs(account)] == [{"S": "Dispatched"}]


# Redriven


@pytest.mark.parametrize(
    ("fault", "attempts"), [(Fault.FORBIDDEN, 1), (Fault.THROTTLED, 5)], ids=["for good", "retries used up"]
)
def test_a_redriven_run_goes_on_at_the_page_that_failed(
    walk: Walk, account: Account, fault: Fault, attempts: int
) -> None:
    account.book(*five_members())
    walk.calls.stage(fault, uploads_of(3), attempts)
    failed = walk.run(PAGES_OF_TWO)
    reads, decided = len(walk.starts), plans(account)

    execution = walk.redrive(failed)

    assert_dispatched(execution, account, RunId=failed.report["RunId"], Pages=3, Dispatched=5, Tasks=5)
    assert execution.output["AlreadyDispatched"] == 0
    assert walk.starts[reads:] == ["R2", "R4"]
    assert plans(account) == plans(account) | decided
    page = ["Dispatch page", "More pages?"]
    assert execution.visited == [*AGAIN, *page, *page, "Summarize run", "Window dispatched"]


def test_a_redriven_run_finds_the_state_as_it_was(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
    failed = walk.run(PAGES_OF_TWO)
    before = given_to(walk, "DispatchPage")[-1]

    walk.redrive(failed)

    after = given_to(walk, "DispatchPage")[len(given_to(walk, "DispatchPage")) - 2]
    before["Progress"].pop("HandsOver")  # of the page before, and no part of where the next one begins
    assert after == {**before, "Run": {**before["Run"], "Redrives": 1}}


def test_a_redriven_full_read_sends_what_was_not_sent(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(4))
    failed = walk.run(FULL)

    execution = walk.redrive(failed)

    assert_dispatched(execution, account, RunId=failed.report["RunId"], Pages=1, Dispatched=5, Tasks=5)
    assert execution.visited == [*AGAIN, "Dispatch whole window", "Summarize run", "Window dispatched"]


def by(function: str, operation: str) -> When:
    """The calls of an operation that a function makes."""
    return lambda call: (call.function, call.operation) == (function, operation)


STEPS: Final[dict[str, When]] = {
    "Plan run": every("GetParameters"),
    "Take leases": by("TakeLeases", "TransactWriteItems"),
    "Dispatch page": every("PutObject"),
    "Summarize run, before the end is noted": by("SummarizeRun", "UpdateItem"),
    "Summarize run, before the leases are released": by("SummarizeRun", "DeleteItem"),
}
whichever_step = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)


@whichever_step
def test_a_run_can_be_redriven_wherever_it_failed(walk: Walk, account: Account, step: When) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, step)
    failed = walk.run(PAGES_OF_TWO)

    execution = walk.redrive(failed)

    assert failed.error == "ConfigurationError"
    assert_dispatched(execution, account, Pages=3, Dispatched=5, Tasks=5)
    assert walk.starts in ([None, "R2", "R4"], [None, None, "R2", "R4"])
    assert messages_sent(walk) == list(dict.fromkeys(messages_sent(walk)))
    assert execution.visited[-1] == "Window dispatched"


@whichever_step
def test_a_redriven_run_that_fails_again_ends_failed_and_can_be_redriven_again(
    walk: Walk, account: Account, step: When
) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, step, 3)
    execution = walk.run(PAGES_OF_TWO)

    for _ in range(2):
        execution = walk.redrive(execution)
        assert (execution.status, execution.error) == ("FAILED", "ConfigurationError")
        assert execution.visited[0] == execution.visited[-1] == "Report failure"
        assert len(execution.visited) <= len(AGAIN) + 3
        assert account.leases == []
    assert len(account.told) == 3

    assert_dispatched(walk.redrive(execution), account, Pages=3, Dispatched=5)


def test_a_refused_input_stays_refused_when_it_is_redriven(walk: Walk, account: Account) -> None:
    failed = walk.run({"ExecuteTime": TIME, "PageSize": 0})

    execution = walk.redrive(failed)

    assert (execution.status, execution.error) == ("FAILED", "InvalidInput")
    assert execution.visited == ["Report failure", "Run planned?", "Plan run", "Report failure"]
    assert account.ledger == []


@pytest.mark.parametrize("status", ["ABORTED", "TIMED_OUT"])
@pytest.mark.parametrize("noted", [True, False], ids=["lease released by the recorder", "lease still held"])
@pytest.mark.parametrize("place", [1, 2], ids=["at the first page", "at the second page"])
def test_an_execution_that_was_cut_off_can_be_redriven(
    walk: Walk, account: Account, status: str, place: int, *, noted: bool
) -> None:
    account.book(*five_members())
    walk.calls.follow(nth("SendMessageBatch", place), lambda _: walk.stop("cut-off"))
    cut_off = replace(walk.run(PAGES_OF_TWO, "cut-off"), status=status)
    assert cut_off.error is None
    if noted:
        walk.record_end(cut_off)
    assert (account.leases == []) is noted

    execution = walk.redrive(cut_off)

    assert_dispatched(execution, account, Pages=3, Dispatched=5, Tasks=5)
    assert walk.starts == [None, "R2", "R4"]
    assert messages_sent(walk) == list(dict.fromkeys(messages_sent(walk)))
    assert execution.context["RedriveCount"] == 1


def test_a_redriven_run_whose_window_another_run_dispatched_meanwhile_repeats_nothing(
    walk: Walk, account: Account
) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
    failed = walk.run(PAGES_OF_TWO)
    assert walk.run(FULL).output["Dispatched"] == 3

    execution = walk.redrive(failed)

    assert execution.output == execution.output | {"Waiting": 5, "Dispatched": 2, "AlreadyDispatched": 3}
    assert account.records == ALL
    assert len(messages_sent(walk)) == 5


def test_a_redriven_run_whose_window_another_run_works_on_touches_nothing(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
    failed = walk.run(PAGES_OF_TWO)
    seen: list[Any] = []

    def redrive() -> None:
        before = account.everything
        seen.extend((walk.redrive(failed), account.everything == before))

    walk.calls.follow(reads_bookings, lambda _: redrive())

    other = walk.run(FULL)

    execution, untouched = seen
    assert untouched
    assert execution.output == execution.output | {"Outcome": "AlreadyRunning", "RunId": other.output["RunId"]}
    assert account.records == ALL


# Resumed


def failed_at_page_3(walk: Walk, account: Account) -> Execution:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
    return walk.run(PAGES_OF_ONE)


def test_a_run_that_failed_at_page_3_of_5_is_resumed_without_reading_pages_1_and_2_again(
    walk: Walk, account: Account
) -> None:
    failed = failed_at_page_3(walk, account)
    run_id, decided, calls = failed.report["RunId"], plans(account), len(walk.calls.made)
    assert (failed.report["Page"], [page for _, page in decided]) == (3, ["0000#000001", "0000#000002"])
    walk.let_pass(30 * 24 * 3600)

    execution = walk.run(RESUME)

    assert_dispatched(execution, account, RunId=run_id, Path="paged", PageSize=1, Pages=5, Dispatched=5, Tasks=5)
    assert execution.output["AlreadyDispatched"] == 0
    assert walk.starts == [None, "R1", "R2", "R2", "R3", "R4"]
    failed_with, resumed_with = (given_to(walk, "DispatchPage")[place]["Progress"] for place in (2, 3))
    assert failed_with == {**resumed_with, "HandsOver": False}
    assert {row: plans(account)[row] for row in decided} == decided
    assert [*plans(account)] == [(run_id, f"0000#{page:06}") for page in range(1, 6)]
    uploaded = [call for call in walk.calls.made[calls:] if call.operation == "PutObject"]
    assert len(uploaded) == 3
    assert messages_sent(walk) == list(dict.fromkeys(messages_sent(walk)))


def test_a_resumed_run_that_fails_again_can_be_resumed_again(walk: Walk, account: Account) -> None:
    failed = failed_at_page_3(walk, account)
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(5))

    again = walk.run(RESUME)
    execution = walk.run(RESUME)

    assert again.report == again.report | {"RunId": failed.report["RunId"], "Page": 5}
    assert_dispatched(execution, account, RunId=failed.report["RunId"], Pages=5, Dispatched=5)
    assert walk.starts == [None, "R1", "R2", "R2", "R3", "R4", "R4"]


def test_a_resumed_run_that_fails_can_be_redriven(walk: Walk, account: Account) -> None:
    failed = failed_at_page_3(walk, account)
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(4))

    execution = walk.redrive(walk.run(RESUME))

    assert_dispatched(execution, account, RunId=failed.report["RunId"], Pages=5, Dispatched=5)
    assert walk.starts == [None, "R1", "R2", "R2", "R3", "R3", "R4"]


def test_a_failed_execution_that_is_redriven_after_another_has_resumed_its_run_repeats_nothing(
    walk: Walk, account: Account
) -> None:
    failed = failed_at_page_3(walk, account)
    walk.run(RESUME)
    sent = len(messages_sent(walk))

    execution = walk.redrive(failed)

    assert_dispatched(execution, account, RunId=failed.report["RunId"], Pages=5, Dispatched=5)
    assert len(messages_sent(walk)) == sent
    assert walk.starts == [None, "R1", "R2", "R2", "R3", "R4"]


def test_a_resumed_full_read_sends_what_was_not_sent(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(4))
    failed = walk.run(FULL)
    account.flag("PaginationEnabled", "true")

    execution = walk.run(RESUME)

    assert_dispatched(execution, account, RunId=failed.report["RunId"], Path="full", Dispatched=5, Tasks=5)


def test_a_resumed_run_reads_no_page_when_only_its_summary_was_missing(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, by("SummarizeRun", "UpdateItem"))
    failed = walk.run(PAGES_OF_TWO)
    before = account.objects, account.messages, plans(account)

    execution = walk.run(RESUME)

    assert_dispatched(execution, account, RunId=failed.report["RunId"], Pages=3, Dispatched=5, Tasks=5)
    assert "Dispatch page" not in execution.visited
    assert (account.objects, account.messages, plans(account)) == before


DISPATCHING: Final = {"DispatchPage", "DispatchWindow"}
DEATHS: Final[dict[str, When]] = {
    "PlanRun": every("GetParameters"),
    "TakeLeases, taking": by("TakeLeases", "TransactWriteItems"),
    "TakeLeases, asking for others": by("TakeLeases", "Query"),
    "the page, at its switch": lambda call: call.function in DISPATCHING and call.operation == "GetParameters",
    "the page, beginning": lambda call: call.function in DISPATCHING and call.operation == "TransactWriteItems",
    "the page, reading": reads_bookings,
    "the page, uploading": uploads_of(2),
    "the page, planning": nth("TransactWriteItems", 3),
    "the page, sending": nth("SendMessageBatch", 1),
    "the page, finishing": nth("TransactWriteItems", 4),
    "SummarizeRun, noting": by("SummarizeRun", "UpdateItem"),
    "SummarizeRun, releasing": by("SummarizeRun", "DeleteItem"),
}
whichever_path = pytest.mark.parametrize("given", [PAGES_OF_TWO, FULL], ids=["paged", "full"])
before_and_after = pytest.mark.parametrize(
    "fault", [Fault.DIED_BEFORE, Fault.DIED_AFTER], ids=["before the call", "after the call"]
)


@whichever_path
@before_and_after
@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
def test_a_run_whose_function_died_is_resumed(
    walk: Walk, account: Account, given: State, fault: Fault, death: When
) -> None:
    account.book(*five_members())
    account.flag("PaginationEnabled", "true" if given is PAGES_OF_TWO else "false")
    walk.calls.stage(fault, death)

    died = walk.run(given)
    unended = [row["Sk"]["S"].removeprefix("run#") for row in runs(account) if row["Outcome"] != {"S": "Dispatched"}]
    execution = walk.run(RESUME)

    assert (died.status, died.report["Error"]) == ("FAILED", "Runtime.ExitError")
    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.output["Waiting"] == execution.output["Dispatched"] + execution.output["AlreadyDispatched"] == 5
    assert account.records == ALL
    assert account.leases == []
    assert unended in ([], [execution.output["RunId"]])


REPORTING: Final = ("UpdateItem", "DeleteItem", "Publish")
GOES_ON: Final[dict[str, Callable[[Walk, Execution], Execution]]] = {
    "redriven": Walk.redrive,
    "resumed": lambda walk, _: walk.run(RESUME),
}


@whichever_path
@before_and_after
@pytest.mark.parametrize("operation", REPORTING)
@pytest.mark.parametrize("go_on", GOES_ON.values(), ids=GOES_ON)
def test_a_run_whose_failure_s_report_died_goes_on(  # noqa: PLR0913 -- a table of four columns
    walk: Walk,
    account: Account,
    given: State,
    fault: Fault,
    operation: str,
    *,
    go_on: Callable[[Walk, Execution], Execution],
) -> None:
    account.book(*five_members())
    walk.watched = True
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
    walk.calls.stage(fault, by("ReportFailure", operation))

    died = walk.run(given)
    execution = go_on(walk, died)

    assert (died.status, died.error) == ("FAILED", "Runtime.ExitError")
    assert_dispatched(execution, account, Dispatched=5, AlreadyDispatched=0)


@pytest.mark.parametrize("given", [PAGES_OF_TWO, FULL], ids=["paged", "full"])
def test_with_nothing_to_resume_it_is_a_run_like_any_other(walk: Walk, account: Account, given: State) -> None:
    account.book(*five_members())

    execution = walk.run({**given, "Resume": True}, "only")

    assert_dispatched(execution, account, Path="full" if given is FULL else "paged", Dispatched=5)
    assert execution.output["RunId"].endswith("Z-only")


def test_a_run_that_came_to_its_end_is_not_resumed(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    ended = walk.run(PAGED)

    execution = walk.run(RESUME)

    assert execution.output["RunId"] != ended.output["RunId"]
    assert execution.output == execution.output | {"Path": "full", "Waiting": 4, "AlreadyDispatched": 4, "Tasks": 0}


def test_a_run_that_is_at_work_is_not_resumed_and_nothing_is_touched(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    seen: list[Any] = []

    def resume() -> None:
        before = account.everything
        seen.extend((walk.run(RESUME), account.everything == before))

    walk.calls.follow(nth("SendMessageBatch", 2), lambda _: resume())

    execution = walk.run(PAGES_OF_TWO)

    other, untouched = seen
    assert untouched
    assert other.output == other.output | {"Outcome": "AlreadyRunning", "RunId": execution.output["RunId"], "Pages": 0}
    assert_dispatched(execution, account, Dispatched=5, Tasks=5)


def test_a_run_whose_execution_hangs_is_resumed_when_its_lease_has_run_out(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.DIED_AFTER, nth("SendMessageBatch", 2))
    walk.calls.stage(Fault.DIED_BEFORE, lambda call: call.function == "ReportFailure", ALWAYS)
    hung = walk.run(PAGES_OF_TWO)
    assert walk.run(RESUME).output["Outcome"] == "AlreadyRunning"
    walk.let_pass(1000)

    execution = walk.run(RESUME)

    assert hung.error == "Runtime.ExitError"
    assert_dispatched(execution, account, Pages=3, Dispatched=5, AlreadyDispatched=0)
    assert walk.starts == [None, "R2", "R4"]


def test_only_the_page_in_doubt_is_sent_again_and_with_the_same_ids(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.DIED_AFTER, nth("SendMessageBatch", 2))
    walk.run(PAGES_OF_TWO)
    before = messages_sent(walk)

    walk.run(RESUME)

    after = messages_sent(walk)[len(before) :]
    assert after[:2] == before[2:]
    assert not set(after[2:]) & set(before)
    assert len(account.messages) == 5
