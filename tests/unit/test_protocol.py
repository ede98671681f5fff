"""What goes wrong when a rule of the dispatch protocol is dropped: each rule's counterexample, replayed.

Bookings B and E are one group in the window 15:00, E and F one in the window 16:00: E stands on the edge of both.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest

from functions.domain.budget import PAGE_LEASE_SECONDS
from functions.domain.errors import DispatchFailed, LeaseLost, WindowBusy
from functions.domain.pack import Layout
from functions.domain.run import Others, Progress, Run
from functions.usecases.attempt import CONFIRMED_SECONDS
from functions.usecases.ports import Lease
from tests.unit.fakes import Died, Execution, World, a_run, booking, dead, failed, walk, window

pytestmark = pytest.mark.usefixtures("either_layout")

B, E, F = booking("B", "15:30:00Z"), booking("E", "16:00:00Z"), booking("F", "16:30:00Z")
LATER = window(16)


@pytest.fixture
def world() -> World:
    """B, E and F, and queues that take one message at a time."""
    world = World(B, E, F)
    world.queues.batch_size = 1
    return world


def die(world: World, run: Run) -> Execution:
    """An execution that dies of the next fault, whose leases expire."""
    execution = Execution(world, run)
    with pytest.raises(Died):
        execution.start()
    world.clock.advance(PAGE_LEASE_SECONDS + 1)
    return execution


def complete(world: World) -> None:
    """A new run of each window in peace; then nothing may be lost, twice or repeated without need."""
    world.clock.advance(PAGE_LEASE_SECONDS + 1)
    for hour in (15, 16):
        walk(world, a_run(run_id=f"run-9-{hour}", window=window(hour)))
    world.must_be_dispatched_once()


def lease_expires(world: World, meanwhile: Callable[[], object]) -> Callable[[], None]:
    """A pause that outlasts the lease, and what happens in it."""

    def pause() -> None:
        world.clock.advance(PAGE_LEASE_SECONDS + 1)
        meanwhile()

    return pause


# --- objects, then the plan, then the sends, then the mark


def test_the_plan_is_written_before_anything_is_sent_or_a_neighbour_sends_it_once_more(world: World) -> None:
    world.faults.after("send", dead)
    die(world, a_run())

    walk(world, a_run(run_id="later", window=LATER))

    assert world.record_ids() == [["B", "E"], ["F"]]
    complete(world)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_the_plan_is_written_after_all_objects_or_what_it_holds_cannot_be_sent(world: World, nth: int) -> None:
    world.index.put(booking("C", MemberId=2), booking("D", MemberId=3))
    world.faults.before("upload", dead, nth if world.layout is Layout.OBJECT else 1)
    die(world, a_run())

    assert world.ledger.stored == {}
    walk(world, a_run(run_id="run-2"))
    complete(world)


def test_the_mark_comes_after_all_sends_or_the_rest_is_lost(world: World) -> None:
    world.index.put(booking("C", MemberId=2))
    world.faults.before("send", dead, nth=2)
    die(world, a_run())

    assert not world.ledger.plans_of("run-1")[0].finished
    complete(world)


# --- one plan for each page, once


def test_a_page_of_which_nothing_waits_is_planned_too_or_a_resumed_run_miscounts_its_pages(world: World) -> None:
    world.index.put(*(booking(f"N{n}", f"15:0{n}:00Z", RewardStatus="Rewarded") for n in range(2)))
    world.faults.before("upload", failed)
    with pytest.raises(DispatchFailed):
        walk(world, a_run(page_size=2))
    assert [plan.tasks for plan in world.ledger.plans_of("run-1")] == [()]
    read = world.faults.counted["query"]

    summary = walk(world, a_run(run_id="run-2", resume=True))

    assert (summary["Pages"], summary["Evaluated"], summary["Dispatched"]) == (3, 4, 2)
    assert world.faults.counted["query"] - read == 2
    complete(world)


def test_a_plan_is_created_once_or_an_attempt_that_does_not_see_it_decides_the_page_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.faults.before("finish plan", dead)
    die(world, a_run())
    world.index.put(booking("C", "15:10:00Z"))

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "read_plan", lambda _run, _page, _lane: None)
        with pytest.raises(LeaseLost, match="no longer this attempt's to plan"):
            world.attempt(world.begun(a_run()))

    complete(world)


def test_a_finished_page_does_nothing_again_or_what_was_booked_meanwhile_moves_between_its_pages(world: World) -> None:
    world.faults.after("finish plan", dead)
    world.faults.after("finish plan", dead, nth=2)
    world.faults.before("finish plan", lambda: world.index.put(booking("C", "15:10:00Z")))

    summary = walk(world, a_run(page_size=1), retries=2)

    assert (summary["Pages"], world.faults.counted["query"]) == (3, 3)
    assert world.record_ids() == [["B"], ["E"]]
    assert len(world.queues.sent) == 2
    complete(world)


# --- both edges at once


@pytest.mark.parametrize("operation", ["others", "query", "create plan", "send"])
def test_a_neighbour_waits_for_both_edges_or_each_of_the_two_sends_the_booking_between_them(
    world: World, operation: str
) -> None:
    refusals: list[str] = []

    def neighbour() -> None:
        with suppress(WindowBusy):
            walk(world, a_run(run_id="later", window=LATER))
            return
        refusals.append("busy")

    world.faults.after(operation, neighbour)
    walk(world, a_run())

    assert refusals == ["busy"]
    assert world.record_ids() == [["B", "E"]]
    complete(world)


def test_a_neighbour_that_cannot_have_both_edges_takes_neither_or_the_next_one_waits_for_nobody(world: World) -> None:
    world.begun(a_run())
    with pytest.raises(WindowBusy):
        world.ledger.take(a_run(run_id="later", window=LATER))

    assert walk(world, a_run(run_id="latest", window=LATER.next))["Outcome"] == "Dispatched"


# --- the lease's owner is the attempt


def test_a_time_out_s_successor_is_another_owner_or_the_attempt_before_it_sends_on(world: World) -> None:
    world.index.put(booking("C", MemberId=2), booking("D", MemberId=3))
    run = world.begun(a_run())

    def successor() -> None:
        world.clock.advance(CONFIRMED_SECONDS + 1)
        world.attempt(run)

    world.faults.after("send", successor)
    with pytest.raises(LeaseLost, match="a later attempt has begun"):
        world.attempt(run)

    assert len(world.queues.sent) == 1 + 3
    complete(world)


def test_a_plan_is_written_under_the_fence_or_the_attempt_before_decides_for_its_successor(world: World) -> None:
    run = world.begun(a_run())
    world.faults.before("create plan", lambda: world.ledger.renew(run))

    with pytest.raises(LeaseLost, match="no longer this attempt's to plan"):
        world.attempt(run)

    assert world.ledger.stored == {}
    complete(world)


# --- writes under the lease


def test_a_plan_is_written_under_the_lease_or_a_run_that_lost_it_decides_what_another_dispatched(world: World) -> None:
    execution = Execution(world, a_run())
    other = a_run(run_id="run-2", page_size=1)
    world.faults.before("create plan", lease_expires(world, lambda: walk(world, other)))
    with pytest.raises(LeaseLost, match="no longer this attempt's to plan"):
        execution.start()

    execution.redrive()

    assert world.record_ids() == [["B"], ["E"]]
    complete(world)


def test_a_mark_is_made_under_the_lease_or_another_run_sends_what_is_settled_by_then(world: World) -> None:
    run = a_run()
    world.faults.before("finish plan", dead)
    die(world, run)
    paused = Lease(run, world.ledger.fences["run-1", 0], 0)
    (plan,) = world.ledger.plans_of("run-1")
    refusals: list[str] = []

    def awakes() -> None:
        with suppress(LeaseLost):
            world.ledger.finish_plan(paused, plan)
            return
        refusals.append("lost")

    world.faults.before("send", awakes)
    walk(world, a_run(run_id="run-2"))

    assert refusals == ["lost"]
    complete(world)


def test_the_lease_is_looked_at_before_each_batch_or_what_another_run_settled_is_sent_again(world: World) -> None:
    world.index.put(booking("C", MemberId=2), booking("D", MemberId=3))
    world.faults.after("send", lease_expires(world, lambda: walk(world, a_run(run_id="run-2"))))

    with pytest.raises(LeaseLost, match="the lease ends before another call could"):
        walk(world, a_run())

    assert len(world.queues.sent) == 1 + 3
    complete(world)


def test_a_condition_that_fails_ends_the_attempt_or_it_sends_what_it_could_not_plan(world: World) -> None:
    run = world.begun(a_run())
    world.faults.before("create plan", lambda: world.attempt(run))

    with pytest.raises(LeaseLost):
        world.attempt(run)

    assert (world.faults.counted["query"], len(world.queues.sent)) == (2, 1), "one of each by the successor"
    complete(world)


# --- look-up


@pytest.mark.parametrize("finished", [True, False])
def test_plans_of_the_window_s_other_runs_are_looked_at_or_a_new_run_sends_their_records_again(
    world: World, *, finished: bool
) -> None:
    if finished:
        walk(world, a_run())
    else:
        world.faults.before("finish plan", dead)
        die(world, a_run())

    walk(world, a_run(run_id="run-2", page_size=1))

    assert world.record_ids() == [["B", "E"]]
    complete(world)


@pytest.mark.parametrize("hours", [(15, 16), (16, 15)], ids=["the earlier first", "the later first"])
@pytest.mark.parametrize("finished", [True, False])
def test_plans_of_the_neighbours_are_looked_at_or_the_booking_between_them_is_sent_by_both(
    world: World, hours: tuple[int, int], *, finished: bool
) -> None:
    first, second = hours
    if finished:
        walk(world, a_run(window=window(first)))
    else:
        world.faults.before("finish plan", dead)
        die(world, a_run(window=window(first)))

    walk(world, a_run(run_id="run-2", window=window(second)))

    assert sorted(map(len, world.record_ids())) == [1, 2]
    complete(world)


def test_a_run_s_own_earlier_pages_are_looked_at_or_a_task_taken_along_is_taken_along_twice(world: World) -> None:
    world.faults.before("send", dead)
    die(world, a_run())

    walk(world, a_run(run_id="run-2", page_size=1))

    assert len(world.queues.sent) == 1
    complete(world)


def test_a_task_in_doubt_is_taken_along_as_it_is_or_its_records_stand_in_two_tasks(world: World) -> None:
    world.faults.before("finish plan", dead)
    die(world, a_run())
    world.index.put(booking("C", "15:10:00Z"))

    walk(world, a_run(run_id="later", window=LATER))
    walk(world, a_run(run_id="run-2"))

    assert world.record_ids() == [["B", "E"], ["F"], ["C"]]
    complete(world)


def test_a_task_in_doubt_is_taken_along_whole_or_its_other_records_are_lost(world: World) -> None:
    world.faults.before("send", dead)
    die(world, a_run())

    walk(world, a_run(run_id="later", window=LATER))

    assert world.record_ids() == [["B", "E"], ["F"]]
    complete(world)


def test_a_resumed_plan_drops_what_another_run_finished_or_it_is_sent_again(world: World) -> None:
    world.faults.before("send", dead)
    execution = die(world, a_run())
    walk(world, a_run(run_id="run-2"))

    summary = execution.redrive()

    assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (0, 2)
    assert len(world.queues.sent) == 1
    complete(world)


def test_a_resumed_plan_keeps_a_task_that_no_other_run_sent_as_it_is_or_records_are_lost(world: World) -> None:
    world.index.put(booking("C", MemberId=2))
    world.faults.before("send", dead)
    die(world, a_run())
    walk(world, a_run(run_id="later", window=LATER))

    progress = world.attempt(world.begun(a_run()), Progress(), Others(after=("later",)))

    assert (progress.totals.dispatched, progress.totals.already_dispatched) == (1, 2)
    assert world.record_ids() == [["B", "E"], ["F"], ["C"]]
    complete(world)
