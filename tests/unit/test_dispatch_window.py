from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest

from functions.domain.booking import Route
from functions.domain.budget import WINDOW_LEASE_SECONDS
from functions.domain.errors import DispatchFailed, LeaseLost, TokenNotAdvancing
from functions.domain.page import QueryPage
from functions.domain.run import Path, Run
from functions.usecases import dispatch_window as module
from tests.unit.fakes import (
    DAY,
    Died,
    ScriptedIndex,
    World,
    a_run,
    booking,
    dead,
    failed,
    throttled,
    walk,
    worked_example,
)


def a_full_run(**changes: Any) -> Run:
    return a_run(path=Path.FULL, **changes)


def groups_of_two(number: int) -> list[Any]:
    """Groups 1 to `number` of two records each; those of a group lie far apart."""
    return [
        booking(f"R{n}{part}", f"15:{start + n:02}:00Z", MemberId=n)
        for part, start in (("a", 0), ("b", 30))
        for n in range(1, number + 1)
    ]


@pytest.fixture
def chunks_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_RECORDS", 3)


def test_the_worked_example_comes_out_exactly() -> None:
    world = World(*worked_example())

    summary = walk(world, a_full_run())

    assert summary == {
        "Outcome": "Dispatched",
        "RunId": "run-1",
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Path": "full",
        "PageSize": 1000,
        "Pages": 1,
        "Evaluated": 5,
        "Waiting": 4,
        "Dispatched": 4,
        "AlreadyDispatched": 0,
        "SetAside": 0,
        "Groups": 3,
        "Tasks": 3,
        "DurationSeconds": summary["DurationSeconds"],
    }
    assert world.record_ids() == [["R2", "R1"], ["R5"], ["R3"]]
    assert [message.route for message in world.queues.messages] == [Route.POINT, Route.POINT, Route.COUPON]


def test_a_group_of_the_window_is_one_task_however_many_pages_were_read() -> None:
    orders = [booking(f"R{n:02}", f"15:{n:02}:00Z", OrderTime=f"{DAY}T14:{59 - n}:00Z") for n in range(1, 31)]
    world = World(*orders)

    summary = walk(world, a_full_run(page_size=10))

    assert world.record_ids() == [[f"R{n:02}" for n in range(30, 0, -1)]]
    assert (summary["Pages"], summary["Evaluated"], summary["Groups"], summary["Tasks"]) == (4, 30, 1, 1)


def test_pages_counts_queries_an_empty_last_one_too() -> None:
    assert walk(World(*groups_of_two(2)), a_full_run(page_size=2))["Pages"] == 3
    assert walk(World(), a_full_run())["Pages"] == 1


def test_a_window_without_bookings_still_has_its_plan(world: World) -> None:
    assert walk(world, a_full_run())["Tasks"] == 0
    ((_, plan),) = world.ledger.stored.values()
    assert plan.finished


def test_an_empty_page_with_a_token_is_not_the_end(world: World) -> None:
    token = {"RecordId": {"S": "R"}, "BookingDateUTC": {"S": DAY}, "BookingTimeUTC": {"S": "15:10:00Z"}}
    pages = [QueryPage((), token, 7), QueryPage([booking("R1")], None, 1)]
    world.dispatch = replace(world.dispatch, bookings=ScriptedIndex(iter(pages)))

    summary = walk(world, a_full_run())

    assert (summary["Pages"], summary["Evaluated"], summary["Dispatched"]) == (2, 8, 1)


def test_a_token_that_never_advances_stops_on_the_second_query_and_sends_nothing(world: World) -> None:
    token = {"RecordId": {"S": "R"}, "BookingDateUTC": {"S": DAY}, "BookingTimeUTC": {"S": "15:10:00Z"}}
    index = ScriptedIndex(repeat(QueryPage([booking("R1")], token, 1)))
    world.dispatch = replace(world.dispatch, bookings=index)

    with pytest.raises(TokenNotAdvancing):
        walk(world, a_full_run())

    assert index.tokens == [None, token]
    assert world.queues.sent == []


@pytest.mark.usefixtures("chunks_of_three")
def test_a_chunk_is_closed_at_its_size_and_never_splits_a_group() -> None:
    world = World(*groups_of_two(3), *(booking(f"S{n}", "15:50:00Z", MemberId=9) for n in range(5)))

    walk(world, a_full_run())

    plans = [plan for _, plan in world.ledger.stored.values()]
    assert [[len(task.versions) for task in plan.tasks] for plan in plans] == [[2, 2], [2, 5]]
    assert [plan.page for plan in plans] == [1, 2]


@pytest.mark.usefixtures("chunks_of_three")
def test_every_chunk_is_sent_before_the_next_one_is_uploaded() -> None:
    world = World(*groups_of_two(3))

    walk(world, a_full_run())

    assert world.faults.log == [
        *("take run-1", "others"),
        *("stop", "renew run-1", "plans 15", "query"),
        *("upload", "upload", "create plan 1", "send 2 Point", "finish plan 1"),
        *("stop", "upload", "create plan 2", "send 1 Point", "finish plan 2"),
        *("conclude Dispatched", "release run-1"),
    ]


@pytest.mark.usefixtures("chunks_of_three")
def test_counts_add_up_over_chunks_and_are_those_of_a_run_in_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [*groups_of_two(5), booking("B1", ShopId=None), booking("N1", RewardStatus="Rewarded")]
    several = walk(World(*records), a_full_run())
    monkeypatch.setattr(module, "CHUNK_RECORDS", 1000)

    one = walk(World(*records), a_full_run())

    assert several == one
    assert (one["Evaluated"], one["Waiting"], one["Dispatched"], one["SetAside"]) == (12, 11, 10, 1)


@pytest.mark.usefixtures("chunks_of_three")
def test_a_failure_in_a_later_chunk_keeps_the_earlier_ones_and_the_retry_sends_only_the_rest() -> None:
    world = World(*groups_of_two(4), booking("B1", ShopId=None))
    world.faults.before("send", throttled, nth=2)

    summary = walk(world, a_full_run(), retries=1)

    assert world.record_ids() == [["R1a", "R1b"], ["R2a", "R2b"], ["R3a", "R3b"], ["R4a", "R4b"]]
    assert len(world.queues.sent) == 4, "nothing was sent twice"
    assert world.faults.counted["query"] == 1, "both chunks were decided"
    assert (summary["Dispatched"], summary["AlreadyDispatched"], summary["SetAside"]) == (8, 0, 1)


@pytest.mark.usefixtures("chunks_of_three")
def test_a_retry_reads_again_where_a_chunk_was_not_decided_and_leaves_the_decided_ones_alone() -> None:
    world = World(*groups_of_two(4))
    world.faults.before("create plan", dead, nth=2)
    world.faults.after("upload", lambda: world.index.put(booking("late", "15:59:00Z", MemberId=1)), nth=4)

    summary = walk(world, a_full_run(), retries=1)

    assert world.record_ids() == [["R1a", "R1b"], ["R2a", "R2b"], ["R3a", "R3b"], ["R4a", "R4b"], ["late"]]
    assert world.faults.counted["query"] == 2
    assert (summary["Pages"], summary["Evaluated"], summary["Waiting"], summary["Dispatched"]) == (1, 9, 9, 9)


@pytest.mark.usefixtures("chunks_of_three")
def test_a_retry_after_the_last_chunk_returns_the_same_and_does_nothing_again() -> None:
    world = World(*groups_of_two(4))
    run = world.begun(a_full_run())
    first = world.attempt(run)
    before = list(world.queues.sent), world.faults.counted["query"]

    assert world.attempt(run) == first
    assert (world.queues.sent, world.faults.counted["query"]) == before


def test_the_whole_window_is_one_step_and_there_is_no_next_token() -> None:
    world = World(*groups_of_two(2))
    run = world.begun(a_full_run(page_size=1))

    progress = world.attempt(run)

    assert (progress.page, progress.token, progress.has_more) == (2, None, False)


def test_a_failing_upload_sends_nothing_of_its_chunk_and_the_next_run_completes() -> None:
    world = World(*groups_of_two(3))
    world.faults.before("upload", failed, nth=2)
    with pytest.raises(DispatchFailed):
        walk(world, a_full_run())
    assert world.queues.sent == []

    summary = walk(world, a_full_run(run_id="run-2"))

    assert world.record_ids() == [["R1a", "R1b"], ["R2a", "R2b"], ["R3a", "R3b"]]
    assert (summary["Dispatched"], len(world.queues.sent)) == (6, 3)


@pytest.mark.parametrize(("first", "second"), [(Path.PAGED, Path.FULL), (Path.FULL, Path.PAGED)])
def test_a_task_in_doubt_is_taken_along_by_a_run_of_the_other_path(first: Path, second: Path) -> None:
    world = World(*groups_of_two(2))
    world.faults.before("send", dead)
    with pytest.raises(Died):
        walk(world, a_run(path=first, page_size=3))
    world.clock.advance(WINDOW_LEASE_SECONDS + 1)

    summary = walk(world, a_run(run_id="run-2", path=second, page_size=2))

    dispatched = sorted(record_id for record_ids in world.record_ids() for record_id in record_ids)
    assert dispatched == ["R1a", "R1b", "R2a", "R2b"]
    assert len(world.queues.sent) == len(set(world.queues.sent))
    assert summary["Dispatched"] + summary["AlreadyDispatched"] == summary["Waiting"] == 4


def test_a_dry_run_changes_nothing_and_counts_what_would_be_done() -> None:
    world = World(*worked_example(), booking("B1", MemberId=None))
    before = world.snapshot()

    dry = walk(world, a_full_run(run_id="dry", dry_run=True, page_size=2))

    assert world.snapshot() == before
    assert set(world.faults.counted) == {"others", "stop", "query"}
    real = walk(world, a_full_run(page_size=2))
    assert dry == {**real, "Outcome": "DryRun", "RunId": "dry"}


def test_an_attempt_paused_between_chunks_sends_nothing_more_once_another_took_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHUNK_RECORDS", 2)
    world = World(*groups_of_two(3))
    run = world.begun(a_full_run())

    def successor() -> None:
        world.clock.advance(WINDOW_LEASE_SECONDS)
        world.attempt(run)

    world.faults.after("finish plan", successor)
    with pytest.raises(LeaseLost, match="the lease ends before another call could"):
        world.attempt(run)

    assert len(world.queues.sent) == 3


def test_a_run_that_holds_no_window_reads_nothing() -> None:
    world = World(*groups_of_two(1))

    with pytest.raises(LeaseLost, match="no longer holds the edges"):
        world.attempt(a_full_run())

    assert world.faults.counted["query"] == 0
