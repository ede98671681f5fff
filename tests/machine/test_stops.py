"""How a run is stopped between two steps: by the kill switch, and by a function's time that ends."""

from typing import Final

import pytest

from functions.domain.budget import CALL_SECONDS
from functions.usecases import dispatch_window
from tests.machine.faults import ALWAYS, Fault, When, every, nth
from tests.machine.walk import SECONDS_OF, Account, State, Walk, booking, five_members, group_of, uploads_of

TIME: Final = "2026-09-17T16:01:10Z"
FULL: Final = {"ExecuteTime": TIME}
PAGED: Final = {"ExecuteTime": TIME, "PaginationEnabled": True}
PAGES_OF_ONE: Final = {**PAGED, "PageSize": 1}
RESUME: Final = {"ExecuteTime": TIME, "Resume": True}
ALL: Final = ["R1", "R2", "R3", "R4", "R5"]


def switch_on_after(walk: Walk, account: Account, sends: int) -> None:
    """Set the kill switch when so many batches were sent."""
    if sends:
        walk.calls.follow(nth("SendMessageBatch", sends), lambda _: account.flag("Stop", "true"))
    else:
        account.flag("Stop", "true")


def token_at(page: int) -> State | None:
    """Where a page begins that follows `page` - 1 pages of one booking each."""
    last = booking(f"R{page - 1}", BookingTimeUTC=f"15:0{page - 1}:00Z")
    return None if page == 1 else {name: last[name] for name in ("RecordId", "BookingDateUTC", "BookingTimeUTC")}


@pytest.mark.parametrize("page", [1, 2, 3, 5])
def test_no_page_is_read_once_the_kill_switch_is_on_and_the_summary_says_where_it_stopped(
    walk: Walk, account: Account, page: int
) -> None:
    account.book(*five_members())
    switch_on_after(walk, account, page - 1)

    execution = walk.run(PAGES_OF_ONE)

    assert execution.status == "SUCCEEDED"
    assert execution.output == execution.output | {
        "Outcome": "Stopped",
        "Page": page,
        "Token": token_at(page),
        "Pages": page - 1,
        "Evaluated": page - 1,
        "Dispatched": page - 1,
    }
    assert len(walk.starts) == page - 1
    assert account.records == ALL[: page - 1]
    assert account.leases == []
    assert account.told == []


@pytest.mark.parametrize("page", [1, 2, 3, 5])
def test_a_stopped_run_completes_when_the_switch_is_off_and_it_is_resumed(
    walk: Walk, account: Account, page: int
) -> None:
    account.book(*five_members())
    switch_on_after(walk, account, page - 1)
    stopped = walk.run(PAGES_OF_ONE)
    account.flag("Stop", "false")

    execution = walk.run(RESUME)

    counts = {"Pages": 5, "Evaluated": 5, "Waiting": 5, "Dispatched": 5, "AlreadyDispatched": 0, "Tasks": 5}
    assert execution.output == execution.output | {"Outcome": "Dispatched", "RunId": stopped.output["RunId"], **counts}
    assert walk.starts == [None, "R1", "R2", "R3", "R4"]
    assert account.records == ALL


def test_a_run_that_is_resumed_while_the_switch_is_on_stops_where_it_was(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    switch_on_after(walk, account, 2)
    stopped = walk.run(PAGES_OF_ONE)
    before = account.messages, account.objects, walk.starts

    again = walk.run(RESUME)

    assert {**again.output, "DurationSeconds": 0} == {**stopped.output, "DurationSeconds": 0}
    assert (account.messages, account.objects, walk.starts) == before


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_no_chunk_of_the_full_read_is_begun_once_the_switch_is_on_and_a_resumed_run_completes(
    walk: Walk, account: Account, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(dispatch_window, "CHUNK_RECORDS", 2)
    account.book(*five_members())
    switch_on_after(walk, account, chunk - 1)

    stopped = walk.run(FULL)
    sent = account.records
    account.flag("Stop", "false")
    execution = walk.run(RESUME)

    assert (stopped.output["Outcome"], stopped.output["Page"], stopped.output["Token"]) == ("Stopped", 1, None)
    assert stopped.output["Dispatched"] == len(sent) == 2 * (chunk - 1)
    assert stopped.output["Waiting"] == stopped.output["Dispatched"]
    assert len(walk.starts) == (1 if chunk == 1 else 2)
    counts = {"Pages": 1, "Evaluated": 5, "Waiting": 5, "Dispatched": 5, "AlreadyDispatched": 0, "Tasks": 5}
    assert execution.output == execution.output | {"Outcome": "Dispatched", "RunId": stopped.output["RunId"], **counts}
    assert account.records == ALL


@pytest.mark.parametrize(
    ("value", "outcome"),
    [(" TRUE ", "Stopped"), ("false", "Dispatched"), ("yes", "Dispatched"), ("1", "Dispatched")],
    ids=repr,
)
@pytest.mark.parametrize("given", [PAGED, FULL], ids=["paged", "full"])
def test_only_a_clear_true_stops_a_run(walk: Walk, account: Account, given: State, value: str, outcome: str) -> None:
    account.flag("Stop", value)

    assert walk.run(given).output["Outcome"] == outcome


@pytest.mark.parametrize("given", [PAGED, FULL], ids=["paged", "full"])
def test_a_run_that_cannot_read_the_switch_fails_and_reads_nothing(walk: Walk, account: Account, given: State) -> None:
    account.book(*five_members())
    walk.calls.stage(
        Fault.FORBIDDEN, lambda call: call.operation == "GetParameters" and call.function != "PlanRun", ALWAYS
    )

    assert walk.run(given).error == "ConfigurationError"

    assert walk.starts == []
    assert account.messages == []


# A function whose time ends

PATHS: Final = {"paged": (PAGED, "DispatchPage"), "full": (FULL, "DispatchWindow")}
whichever_path = pytest.mark.parametrize(("given", "function"), PATHS.values(), ids=PATHS)


def run_short(walk: Walk, function: str, after: When) -> None:
    """Let a call take so long that the function has no time for another one."""
    walk.calls.follow(after, lambda _: walk.let_pass(SECONDS_OF[function] - CALL_SECONDS))


def twelve_members(account: Account) -> None:
    account.book(*(booking(f"R{n:02}", **group_of(1, n, 1)) for n in range(12)))


def batches(walk: Walk) -> list[list[str]]:
    """The ids of the messages of each batch."""
    calls = walk.calls.of("SendMessageBatch")
    return [[entry["MessageDeduplicationId"] for entry in call.request["Entries"]] for call in calls]


def assert_tried_once_more(walk: Walk, function: str) -> None:
    attempts = [invocation.error for invocation in walk.invocations if invocation.function == function]
    assert attempts == ["TransientError", None]
    assert len(walk.pauses) == 1


@whichever_path
def test_a_function_short_of_time_sends_no_further_batch_and_its_retry_sends_the_rest_only(
    walk: Walk, account: Account, given: State, function: str
) -> None:
    twelve_members(account)
    run_short(walk, function, nth("SendMessageBatch", 1))

    execution = walk.run(given)

    assert execution.output == execution.output | {"Dispatched": 12, "AlreadyDispatched": 0, "Tasks": 12}
    assert_tried_once_more(walk, function)
    first, second = batches(walk)
    assert (len(first), len(second), len({*first, *second})) == (10, 2, 12)
    assert walk.starts == [None]
    assert len(walk.calls.of("PutObject")) == 12
    assert len(account.messages) == 12


@whichever_path
def test_a_function_short_of_time_uploads_no_further_group_and_its_retry_composes_anew(
    walk: Walk, account: Account, given: State, function: str
) -> None:
    account.book(*five_members())
    run_short(walk, function, uploads_of(3))

    execution = walk.run(given)

    assert execution.output == execution.output | {"Dispatched": 5, "Tasks": 5}
    assert_tried_once_more(walk, function)
    uploads = [call.request["Key"] for call in walk.calls.of("PutObject")]
    assert len(uploads) == 3 + 5
    assert sorted(account.objects) == sorted(set(uploads))
    assert [len(batch) for batch in batches(walk)] == [5]
    assert walk.starts == [None, None]


@whichever_path
def test_a_function_short_of_time_at_its_end_leaves_nothing_to_send(
    walk: Walk, account: Account, given: State, function: str
) -> None:
    account.book(*five_members())
    run_short(walk, function, nth("SendMessageBatch", 1))

    execution = walk.run(given)

    assert execution.output == execution.output | {"Dispatched": 5, "Tasks": 5}
    assert_tried_once_more(walk, function)
    assert len(batches(walk)) == 1
    assert walk.starts == [None]


def test_a_function_that_is_short_of_time_again_and_again_fails_the_run_and_repeats_no_message(
    walk: Walk, account: Account
) -> None:
    account.book(*(booking(f"R{n:03}", **group_of(1, n, 1)) for n in range(61)))
    walk.calls.follow(
        every("SendMessageBatch"), lambda _: walk.let_pass(SECONDS_OF["DispatchPage"] - CALL_SECONDS), ALWAYS
    )

    failed = walk.run(PAGED)
    sent = [task for batch in batches(walk) for task in batch]
    execution = walk.redrive(failed)

    assert (failed.status, failed.error) == ("FAILED", "TransientError")
    assert failed.report["Message"] == "the function's time ends before another call could"
    assert len(sent) == len(set(sent)) == 50
    assert execution.output == execution.output | {"Dispatched": 61, "Tasks": 61}
    assert len(account.messages) == len({task for batch in batches(walk) for task in batch}) == 61
    assert sum(map(len, batches(walk))) == 61
