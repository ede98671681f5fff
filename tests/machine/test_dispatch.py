"""What a run dispatches, walked from its input to its summary."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from functions.domain.budget import PAGE_LEASE_SECONDS
from tests.machine.faults import Call, nth
from tests.machine.walk import Account, Sent, StandIn, State, Walk, booking, group_of, reads_bookings, worked_example

TIME: Final = "2026-09-17T16:01:10Z"
A: Final = (1001, 2001, 3001)
B: Final = (1001, 2002, 3002)
C: Final = (1002, 2003, 3003)

WAYS: Final = {
    "full": {"PaginationEnabled": False},
    **{f"pages of {size}": {"PaginationEnabled": True, "PageSize": size} for size in (1, 2, 3, 7, 1000)},
}
way_of_reading = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)

EXAMPLE_COUNTS: Final = {"Evaluated": 5, "Waiting": 4, "Groups": 3, "Tasks": 3, "SetAside": 0}
OUTPUT_KEYS: Final = {
    *("Outcome", "RunId", "WindowStart", "WindowEnd", "Path", "PageSize", "Pages", "Evaluated", "Waiting"),
    *("Dispatched", "AlreadyDispatched", "SetAside", "Groups", "Tasks", "DurationSeconds"),
}
INTEGERS: Final = OUTPUT_KEYS - {"Outcome", "RunId", "WindowStart", "WindowEnd", "Path"}


def run(walk: Walk, given: State, status: str = "SUCCEEDED", time: str = TIME) -> State:
    execution = walk.run({"ExecuteTime": time, **given})
    assert execution.status == status, execution.cause
    return execution.output


def reads(walk: Walk) -> list[Call]:
    """The queries of the bookings index."""
    return [call for call in walk.calls.made if reads_bookings(call)]


def tasks_by_group(tasks: list[Sent]) -> dict[tuple[str, Any], list[tuple[str, ...]]]:
    gathered: dict[tuple[str, Any], list[tuple[str, ...]]] = {}
    for task in tasks:
        gathered.setdefault((task.route, task.group), []).append(task.records)
    return gathered


@pytest.mark.parametrize(
    ("given", "path", "pages"),
    [
        ({"PaginationEnabled": True}, "paged", 1),
        ({"PaginationEnabled": True, "PageSize": 3}, "paged", 2),
        ({}, "full", 1),
    ],
    ids=["on one page", "on two pages", "by the full read"],
)
def test_the_worked_example_comes_out_exactly(
    walk: Walk, account: Account, given: State, path: str, pages: int
) -> None:
    account.book(*worked_example())

    summary = run(walk, given)

    assert summary == summary | {
        "Outcome": "Dispatched",
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Path": path,
        "PageSize": given.get("PageSize", 1000),
        "Pages": pages,
        "Dispatched": 4,
        "AlreadyDispatched": 0,
        **EXAMPLE_COUNTS,
    }
    assert summary.keys() == OUTPUT_KEYS
    assert {type(summary[name]) for name in INTEGERS} == {int}
    assert tasks_by_group(account.tasks) == {
        ("Point", A): [("R2", "R1")],
        ("Point", C): [("R5",)],
        ("ECoupon", B): [("R3",)],
    }
    assert len(account.objects) == 3
    assert account.leases == []


@way_of_reading
def test_every_way_of_reading_dispatches_the_same_records_each_once(walk: Walk, account: Account, way: State) -> None:
    times = ["15:00:00Z"] * 4 + ["15:00:00.25Z", "15:30:00Z", "15:30:00Z", "15:30:00.5Z", "15:59:59Z", "16:00:00Z"]
    account.book(
        *(
            booking(f"R{n}", BookingTimeUTC=time, RewardType=("Point", "ECoupon")[n % 2], **group_of(1, n % 3, 1))
            for n, time in enumerate(times)
        ),
        booking("done", BookingTimeUTC="15:30:00Z", RewardStatus="Rewarded"),
        booking("bad", BookingTimeUTC="15:30:00Z", RewardType="Voucher"),
    )

    summary = run(walk, way)

    assert account.records == [f"R{n}" for n in range(10)]
    assert summary == summary | {"Evaluated": 12, "Waiting": 11, "Dispatched": 10, "SetAside": 1}
    assert summary["Tasks"] == len(account.messages)


def test_a_group_on_two_pages_is_two_tasks_in_the_order_of_the_pages(walk: Walk, account: Account) -> None:
    account.book(*worked_example())

    summary = run(walk, {"PaginationEnabled": True, "PageSize": 1})

    assert tasks_by_group(account.tasks)["Point", A] == [("R1",), ("R2",)]
    assert summary == summary | {"Groups": 4, "Tasks": 4, "Evaluated": 5}


def test_a_last_page_without_bookings_is_counted_and_creates_no_task(walk: Walk, account: Account) -> None:
    account.book(*(booking(f"R{n}", BookingTimeUTC=f"15:0{n}:00Z") for n in range(2)))
    last = booking("R1", BookingTimeUTC="15:01:00Z")
    token = {name: last[name] for name in ("RecordId", "BookingDateUTC", "BookingTimeUTC")}
    # As DynamoDB does when the limit ends a page at the last booking; moto gives no token there.
    walk.calls.follow(reads_bookings, lambda answer: answer.update(LastEvaluatedKey=token))

    summary = run(walk, {"PaginationEnabled": True, "PageSize": 2})

    assert summary == summary | {"Pages": 2, "Evaluated": 2, "Tasks": 1}
    assert [call.request.get("ExclusiveStartKey") for call in reads(walk)] == [None, token]


def test_an_empty_page_with_a_token_is_counted_creates_no_task_and_is_not_the_end(walk: Walk, account: Account) -> None:
    bookings = [booking(f"R{n}", BookingTimeUTC=f"15:0{n}:00Z", **group_of(1, n, 1)) for n in range(4)]
    tokens = [{name: one[name] for name in ("RecordId", "BookingDateUTC", "BookingTimeUTC")} for one in bookings]
    pages: list[State] = [
        {"Items": bookings[:2], "ScannedCount": 2, "LastEvaluatedKey": tokens[1]},
        {"Items": [], "ScannedCount": 0, "LastEvaluatedKey": tokens[2]},
        {"Items": bookings[3:], "ScannedCount": 1},
    ]
    for page in pages:
        walk.calls.answer(reads_bookings, page)

    summary = run(walk, {"PaginationEnabled": True, "PageSize": 2})

    assert summary == summary | {"Pages": 3, "Evaluated": 3, "Waiting": 3, "Tasks": 3}
    assert account.records == ["R0", "R1", "R3"]
    assert [call.request.get("ExclusiveStartKey") for call in reads(walk)] == [None, tokens[1], tokens[2]]


def test_a_page_where_nothing_waits_creates_no_task_and_the_run_goes_on(walk: Walk, account: Account) -> None:
    account.book(
        booking("R1", BookingTimeUTC="15:01:00Z"),
        booking("R2", BookingTimeUTC="15:02:00Z", RewardStatus="Rewarded"),
        booking("R3", BookingTimeUTC="15:03:00Z"),
    )

    summary = run(walk, {"PaginationEnabled": True, "PageSize": 1})

    assert account.records == ["R1", "R3"]
    assert summary == summary | {"Evaluated": 3, "Waiting": 2, "Tasks": 2}


def test_the_next_page_is_read_only_when_every_group_of_this_one_was_dispatched(walk: Walk, account: Account) -> None:
    account.book(*worked_example())

    run(walk, {"PaginationEnabled": True, "PageSize": 2})

    steps = {"PutObject", "SendMessageBatch"}
    order = [call for call in walk.calls.made if call.operation in steps or reads_bookings(call)]
    assert [call.operation for call in order] == ["Query", "PutObject", "SendMessageBatch"] * 3


def test_a_page_keeps_to_its_budget_of_calls(walk: Walk, account: Account) -> None:
    account.book(
        *(booking(f"P{n:02}", **group_of(1, n, 1)) for n in range(11)),
        *(booking(f"C{n:02}", RewardType="ECoupon", **group_of(1, n, 1)) for n in range(9)),
    )

    run(walk, {"PaginationEnabled": True})

    calls = Counter(call.operation for call in walk.calls.made if call.function == "DispatchPage")
    assert len(reads(walk)) == 1
    assert calls["PutObject"] == 20
    assert calls["SendMessageBatch"] == 3
    assert calls.total() - 1 - 20 - 3 <= 8


@pytest.mark.parametrize("again", [WAYS["full"], WAYS["pages of 3"]], ids=["full", "paged"])
@pytest.mark.parametrize("first", [WAYS["full"], WAYS["pages of 2"]], ids=["full", "paged"])
def test_a_second_run_of_the_hour_creates_no_task(walk: Walk, account: Account, first: State, again: State) -> None:
    account.book(*worked_example())
    run(walk, first)
    messages, objects, sends = account.messages, account.objects, len(walk.calls.of("SendMessageBatch"))

    summary = run(walk, again)

    assert summary == summary | {"Evaluated": 5, "Waiting": 4, "AlreadyDispatched": 4, "Dispatched": 0}
    assert summary == summary | {"Groups": 0, "Tasks": 0}
    assert (account.messages, account.objects) == (messages, objects)
    assert len(walk.calls.of("SendMessageBatch")) == sends


@way_of_reading
def test_a_dry_run_counts_what_would_be_done_and_changes_nothing(walk: Walk, account: Account, way: State) -> None:
    account.book(*worked_example(), booking("bad", OrderTime="yesterday"))
    before = account.everything

    counted = run(walk, {**way, "DryRun": True})

    assert account.everything == before
    assert counted == counted | {"Outcome": "DryRun", "Evaluated": 6, "Waiting": 5, "Dispatched": 4, "SetAside": 1}
    assert counted.keys() == OUTPUT_KEYS
    done = run(walk, way)
    assert {name: done[name] for name in INTEGERS - {"DurationSeconds"}} == {
        name: counted[name] for name in INTEGERS - {"DurationSeconds"}
    }


def test_a_dry_run_after_the_run_sees_what_was_dispatched(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    run(walk, {"PaginationEnabled": True})

    counted = run(walk, {"PaginationEnabled": True, "DryRun": True})

    assert counted == counted | {"Dispatched": 0, "AlreadyDispatched": 4, "Tasks": 0}


@pytest.mark.parametrize("paged", [True, False], ids=["paged", "full"])
@pytest.mark.parametrize(
    ("first", "second", "counts"),
    [
        ("16:01:10", "17:01:10", {"Evaluated": 1, "AlreadyDispatched": 1, "Dispatched": 0, "Tasks": 0}),
        ("17:01:10", "16:01:10", {"Evaluated": 2, "AlreadyDispatched": 1, "Dispatched": 1, "Tasks": 1}),
    ],
    ids=["the earlier window first", "the later window first"],
)
def test_a_booking_at_the_sharp_hour_is_dispatched_by_one_of_its_two_windows(  # noqa: PLR0913 -- a table and a switch
    walk: Walk, account: Account, first: str, second: str, counts: State, *, paged: bool
) -> None:
    account.book(booking("before", BookingTimeUTC="15:59:59Z"), booking("sharp", BookingTimeUTC="16:00:00Z"))

    run(walk, {"PaginationEnabled": paged}, time=f"2026-09-17T{first}Z")
    summary = run(walk, {"PaginationEnabled": paged}, time=f"2026-09-17T{second}Z")

    assert summary == summary | counts
    assert account.records == ["before", "sharp"]


def test_a_booking_at_midnight_is_read_by_the_next_window_only(walk: Walk, account: Account) -> None:
    account.book(booking("midnight", BookingTimeUTC="00:00:00Z"), booking("late", BookingTimeUTC="23:59:59Z"))
    account.book(booking("eve", BookingDateUTC="2026-09-16", BookingTimeUTC="23:00:00Z"))

    run(walk, {"PaginationEnabled": True}, time="2026-09-17T00:01:10Z")

    assert account.records == ["eve"]
    [read] = reads(walk)
    assert read.request["ExpressionAttributeValues"] == {
        ":date": {"S": "2026-09-16"},
        ":low": {"S": "23:00:00"},
        ":high": {"S": "24:00:00Z"},
    }


def test_a_record_booked_anew_is_dispatched_again(walk: Walk, account: Account) -> None:
    account.book(booking("R1", BookingTimeUTC="15:03:00Z"))
    run(walk, {"PaginationEnabled": True})
    account.book(booking("R1", BookingTimeUTC="15:40:00Z"))

    summary = run(walk, {"PaginationEnabled": True})

    assert summary == summary | {"Dispatched": 1, "AlreadyDispatched": 0, "Tasks": 1}
    first, second = account.tasks
    assert first.task_id != second.task_id


@pytest.mark.parametrize("way", [WAYS["full"], WAYS["pages of 2"]], ids=["full", "paged"])
def test_a_second_starter_of_the_window_names_the_holder_and_touches_nothing(
    walk: Walk, account: Account, way: State
) -> None:
    account.book(*worked_example())
    seen: list[Any] = []

    def start_another() -> None:
        before = account.everything
        seen.extend((run(walk, {"PaginationEnabled": True}), account.everything == before))

    walk.calls.follow(reads_bookings, lambda _: start_another())

    summary = run(walk, way)

    other, untouched = seen
    assert untouched
    assert other.keys() == OUTPUT_KEYS | {"HeldUntil"}
    assert {name: other[name] for name in ("Outcome", "RunId", "WindowStart", "Path", "PageSize")} == {
        "Outcome": "AlreadyRunning",
        "RunId": summary["RunId"],
        "WindowStart": "2026-09-17T15:00:00Z",
        "Path": "paged",
        "PageSize": 1000,
    }
    assert {other[name] for name in INTEGERS - {"PageSize"}} == {0}
    assert other["HeldUntil"] > other["WindowEnd"]
    assert summary == summary | EXAMPLE_COUNTS
    assert account.records == ["R1", "R2", "R3", "R5"]


NEIGHBOURS: Final = {
    "the later window waits": ("2026-09-17T16:01:10Z", "2026-09-17T17:01:10Z"),
    "the earlier window waits": ("2026-09-17T17:01:10Z", "2026-09-17T16:01:10Z"),
}
whichever_waits = pytest.mark.parametrize(("working", "waiting"), NEIGHBOURS.values(), ids=NEIGHBOURS)
WAIT_SECONDS: Final = 15
WAITS: Final = 240


class Neighbour:
    """A run that has taken its leases and works on, step by step, while another execution is followed."""

    def __init__(self, walk: Walk, time: str) -> None:
        given = {"ExecuteTime": time, "PaginationEnabled": True}
        self.walk = walk
        self.state = walk.invoke("PlanRun", {"Execution": {"Input": given, "Name": "neighbour", "StartTime": time}})
        self.take()

    def take(self) -> None:
        """Take the leases, or renew them."""
        self.state = self.walk.invoke("TakeLeases", {name: self.state[name] for name in ("Run", "Progress")})

    def end(self) -> None:
        """Do the only page, and give the leases back."""
        page = {**self.state, "Others": self.state["Leases"]["Others"]}
        self.walk.invoke("SummarizeRun", {**self.state, "Progress": self.walk.invoke("DispatchPage", page)})


def behind(step: Callable[[], None]) -> StandIn:
    """The function itself, but for a step of the neighbour just before."""

    def step_first(own: Callable[[], Any]) -> Any:
        step()
        return own()

    return step_first


def book_beside_an_edge(account: Account) -> None:
    times = {"before": "15:59:59Z", "sharp": "16:00:00Z", "after": "16:00:01Z"}
    account.book(*(booking(record, BookingTimeUTC=time) for record, time in times.items()))


@whichever_waits
def test_a_neighbouring_window_waits_and_then_completes_and_the_edge_is_dispatched_once(
    walk: Walk, account: Account, working: str, waiting: str
) -> None:
    book_beside_an_edge(account)
    neighbour = Neighbour(walk, working)
    walk.stand_in("TakeLeases", lambda own: own(), times=2)
    walk.stand_in("TakeLeases", behind(neighbour.end))

    summary = run(walk, {"PaginationEnabled": True}, time=waiting)

    taken = [invocation.error for invocation in walk.invocations if invocation.function == "TakeLeases"]
    assert taken == ["WindowBusy", "WindowBusy", None]
    assert walk.pauses == [WAIT_SECONDS] * 2
    assert summary == summary | {"Outcome": "Dispatched", "Waiting": 2, "Dispatched": 1, "AlreadyDispatched": 1}
    assert account.records == ["after", "before", "sharp"]
    assert account.leases == []


def test_a_neighbour_that_works_on_and_on_is_waited_for_an_hour_and_then_the_run_fails(
    walk: Walk, account: Account
) -> None:
    book_beside_an_edge(account)
    working, waiting = NEIGHBOURS["the later window waits"]
    walk.max_invocations = WAITS + 20
    neighbour = Neighbour(walk, working)
    walk.stand_in("TakeLeases", behind(neighbour.take), times=WAITS + 1)

    execution = walk.run({"ExecuteTime": waiting, "PaginationEnabled": True})

    assert (execution.status, execution.error) == ("FAILED", "WindowBusy")
    assert execution.report == execution.report | {"Error": "WindowBusy", "Page": 1, "Token": None, "NotDone": []}
    assert walk.pauses == [WAIT_SECONDS] * WAITS
    assert reads(walk) == []
    assert account.messages == []
    neighbour.end()
    redriven = walk.redrive(execution)
    assert redriven.output == redriven.output | {"Dispatched": 1, "AlreadyDispatched": 1}
    assert account.records == ["after", "before", "sharp"]


def test_a_neighbour_that_stands_still_is_waited_for_until_its_lease_has_run_out(walk: Walk, account: Account) -> None:
    account.book(*worked_example(), booking("sharp", BookingTimeUTC="16:00:00Z"))
    later: list[State] = []

    def run_the_later_window() -> None:
        later.append(run(walk, {"PaginationEnabled": True}, time="2026-09-17T17:01:10Z"))

    walk.calls.follow(nth("PutObject", 1), lambda _: run_the_later_window())

    execution = walk.run({"ExecuteTime": TIME, "PaginationEnabled": True})

    assert len(walk.pauses) == PAGE_LEASE_SECONDS // WAIT_SECONDS + 1
    assert later[0]["Dispatched"] == 2
    assert (execution.status, execution.error) == ("FAILED", "LeaseLost")
    assert account.records == ["R6", "sharp"]
    summary = run(walk, {"PaginationEnabled": True})
    assert summary == summary | {"Waiting": 5, "Dispatched": 4, "AlreadyDispatched": 1}
    assert account.records == ["R1", "R2", "R3", "R5", "R6", "sharp"]


def test_a_stopped_execution_reads_no_further_page_and_its_tasks_stay(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    walk.calls.follow(nth("SendMessageBatch", 1), lambda _: walk.stop("stopped"))

    execution = walk.run({"ExecuteTime": TIME, "PaginationEnabled": True, "PageSize": 2}, "stopped")

    assert execution.status == "ABORTED"
    assert len(reads(walk)) == 1
    assert account.records == ["R1", "R2"]
