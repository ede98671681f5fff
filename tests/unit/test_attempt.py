"""One attempt: when it stops by itself, when it sees that it was superseded, and what it leaves to the next one."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from functions.domain.budget import CALL_SECONDS, PAGE_FUNCTION_SECONDS, PAGE_LEASE_SECONDS
from functions.domain.errors import DispatchFailed, LeaseLost, TransientError
from functions.domain.run import Others, Path
from functions.usecases.attempt import CONFIRMED_SECONDS
from tests.unit.fakes import WAYS, Died, World, a_run, booking, dead, failed, throttled, walk


@pytest.fixture
def five() -> World:
    """Five groups, and queues that take one message at a time."""
    world = World(*(booking(f"R{n}", f"15:0{n}:00Z", MemberId=n) for n in range(1, 6)))
    world.queues.batch_size = 1
    return world


# --- short of time


@pytest.mark.parametrize("path", WAYS)
@pytest.mark.parametrize(("left", "sent"), [(CALL_SECONDS, 2), (CALL_SECONDS + 1, 5)])
def test_a_batch_is_begun_only_if_the_function_s_time_outlasts_the_longest_call(
    five: World, left: int, sent: int, path: Path
) -> None:
    run = five.begun(a_run(path=path))
    five.faults.after("send", lambda: five.clock.advance(CALL_SECONDS + 60 - left), nth=2)

    if sent == 5:
        five.attempt(run, seconds=CALL_SECONDS + 60)
    else:
        with pytest.raises(TransientError, match="the function's time ends before another call could"):
            five.attempt(run, seconds=CALL_SECONDS + 60)

    assert len(five.queues.sent) == sent


def test_no_upload_is_begun_without_time_for_it_and_nothing_is_planned(five: World) -> None:
    run = five.begun(a_run())
    five.faults.after("upload", lambda: five.clock.advance(PAGE_FUNCTION_SECONDS - CALL_SECONDS), nth=2)

    with pytest.raises(TransientError, match="the function's time ends"):
        five.attempt(run)

    assert (five.faults.counted["upload"], five.ledger.stored, five.queues.sent) == (2, {}, [])


@pytest.mark.parametrize("path", WAYS)
def test_an_attempt_that_ran_short_of_time_notes_what_it_sent_and_the_retry_goes_on_without_a_repeat(
    five: World, path: Path
) -> None:
    five.faults.after("send", lambda: five.clock.advance(path.lease_seconds - 100), nth=3)

    summary = walk(five, a_run(path=path), retries=1)

    assert five.faults.counted["note sent"] == 1
    assert five.faults.counted["query"] == 1, "the page was decided"
    assert len(five.queues.sent) == len(set(five.queues.sent)) == 5
    assert (summary["Dispatched"], summary["AlreadyDispatched"], summary["Tasks"]) == (5, 0, 5)


def test_an_attempt_with_no_time_left_plans_nothing_and_its_lease_still_expires(five: World) -> None:
    run = five.begun(a_run())

    with pytest.raises(TransientError, match="the function's time ends"):
        five.attempt(run, seconds=0)

    assert (five.faults.counted["upload"], five.ledger.stored) == (0, {})
    assert {edge.until - five.clock() for edge in five.ledger.edges.values()} == {PAGE_LEASE_SECONDS}


def test_a_lease_that_is_short_of_time_ends_the_attempt_for_good(five: World) -> None:
    run = five.begun(replace(a_run(), lease_seconds=CALL_SECONDS))

    with pytest.raises(LeaseLost, match="the lease ends before another call could"):
        five.attempt(run)

    assert (five.faults.counted["upload"], five.queues.sent) == (0, [])


# --- superseded


def test_an_attempt_interrupted_between_two_batches_sends_nothing_more_once_a_later_one_began(five: World) -> None:
    run = five.begun(a_run())

    def interruption() -> None:
        five.clock.advance(CONFIRMED_SECONDS + 1)
        five.ledger.renew(run)

    five.faults.after("send", interruption, nth=2)
    with pytest.raises(LeaseLost, match="a later attempt has begun"):
        five.attempt(run)

    assert len(five.queues.sent) == 2


def test_an_attempt_interrupted_between_two_uploads_uploads_nothing_more_once_a_later_one_began(five: World) -> None:
    run = five.begun(a_run())

    def interruption() -> None:
        five.clock.advance(CONFIRMED_SECONDS + 1)
        five.ledger.renew(run)

    five.faults.after("upload", interruption, nth=2)
    with pytest.raises(LeaseLost, match="a later attempt has begun"):
        five.attempt(run)

    assert five.faults.counted["upload"] == 2


def test_an_attempt_paused_before_its_plan_and_superseded_by_one_that_finished_sends_nothing(five: World) -> None:
    run = five.begun(a_run())

    def successor() -> None:
        five.clock.advance(60)
        five.attempt(run)

    five.faults.after("query", successor)
    with pytest.raises(LeaseLost, match="a later attempt has begun"):
        five.attempt(run)

    assert len(five.queues.sent) == 5


@pytest.mark.parametrize(("seconds", "asked"), [(CONFIRMED_SECONDS, 0), (CONFIRMED_SECONDS + 1, 1)])
def test_an_attempt_asks_whether_it_is_still_the_one_only_when_time_has_passed(
    five: World, seconds: int, asked: int
) -> None:
    five.faults.after("send", lambda: five.clock.advance(seconds))

    walk(five, a_run())

    assert five.faults.counted["confirm"] == asked


# --- what was sent


def test_what_a_batch_confirmed_is_noted_beside_the_plan(five: World) -> None:
    five.faults.before("send", failed, nth=3)
    with pytest.raises(DispatchFailed):
        walk(five, a_run())

    (plan,) = five.ledger.plans_of("run-1")
    assert plan.sent == set(five.queues.sent)
    assert [task.task_id for task in plan.unsent] == [
        task.task_id for task in plan.tasks if task.task_id not in five.queues.sent
    ]
    assert not plan.finished


def test_what_was_sent_without_an_answer_is_not_noted_and_repeats_with_its_id(five: World) -> None:
    five.faults.after("send", throttled, nth=3)

    walk(five, a_run(), retries=1)

    assert len(five.queues.sent) == 6
    assert five.queues.sent[2] == five.queues.sent[3]
    assert five.record_ids() == [["R1"], ["R2"], ["R3"], ["R4"], ["R5"]]


def test_two_attempts_that_fail_half_way_note_together_what_was_sent(five: World) -> None:
    five.faults.before("send", throttled, nth=3)
    five.faults.before("send", throttled, nth=5)

    walk(five, a_run(), retries=2)

    assert five.faults.counted["note sent"] == 2
    assert len(five.queues.sent) == 5


@pytest.mark.parametrize("fault", [throttled, failed, dead])
def test_a_lost_note_costs_only_repeats_with_the_same_ids(five: World, fault: Callable[[], object]) -> None:
    five.faults.before("send", throttled, nth=3)
    five.faults.before("note sent", fault)

    summary = walk(five, a_run(), retries=1)

    assert five.queues.sent[:2] == five.queues.sent[2:4]
    assert (len(five.queues.sent), len(set(five.queues.sent))) == (2 + 5, 5)
    assert five.record_ids() == [["R1"], ["R2"], ["R3"], ["R4"], ["R5"]]
    assert (summary["Dispatched"], summary["Tasks"]) == (5, 5)


def test_a_failure_before_anything_was_sent_notes_nothing(five: World) -> None:
    five.faults.before("send", throttled)

    walk(five, a_run(), retries=1)

    assert five.faults.counted["note sent"] == 0


def test_an_attempt_that_lost_its_lease_notes_nothing_over_its_successor_s_plan(five: World) -> None:
    run = five.begun(a_run())

    def successor() -> None:
        five.clock.advance(PAGE_LEASE_SECONDS)
        five.attempt(run)

    five.faults.after("send", successor, nth=2)
    with pytest.raises(LeaseLost):
        five.attempt(run)

    (plan,) = five.ledger.plans_of("run-1")
    assert plan.finished
    assert plan.sent == frozenset()


def test_a_lost_answer_to_the_finish_is_no_repeat(five: World) -> None:
    five.faults.after("finish plan", throttled)

    walk(five, a_run(), retries=1)

    assert len(five.queues.sent) == 5


@pytest.mark.parametrize("path", WAYS)
def test_what_the_run_itself_noted_as_sent_stays_its_own_although_other_runs_plans_are_looked_at(
    five: World, path: Path
) -> None:
    five.index.delete("R5")
    walk(five, a_run(run_id="run-0", path=path))
    five.index.put(booking("R5", "15:05:00Z"), booking("R6", "15:06:00Z", MemberId=6))
    five.faults.before("send", throttled, nth=2)

    summary = walk(five, a_run(path=path, page_size=3), retries=1)

    assert len(five.queues.sent) == 6
    assert (summary["Dispatched"], summary["AlreadyDispatched"], summary["Tasks"]) == (2, 4, 2)


def test_another_run_takes_what_was_noted_as_dispatched_and_the_rest_as_in_doubt(five: World) -> None:
    five.faults.before("send", failed, nth=3)
    with pytest.raises(DispatchFailed):
        walk(five, a_run())

    summary = walk(five, a_run(run_id="run-2", page_size=2))

    assert len(five.queues.sent) == 5
    assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (3, 2)


def test_a_resumed_plan_drops_what_a_run_noted_that_took_its_tasks_along(five: World) -> None:
    five.faults.before("send", dead)
    with pytest.raises(Died):
        walk(five, a_run())
    five.clock.advance(PAGE_LEASE_SECONDS + 1)
    five.faults.before("send", failed, nth=3)
    with pytest.raises(DispatchFailed):
        walk(five, a_run(run_id="run-2"))

    resumed = five.attempt(five.begun(a_run()), others=Others(own=("run-2",)))

    assert len(five.queues.sent) == 5
    assert (resumed.totals.dispatched, resumed.totals.already_dispatched) == (3, 2)


def test_an_attempt_whose_window_was_given_back_sends_nothing_more(five: World) -> None:
    run = five.begun(a_run())

    def give_back() -> None:
        five.ledger.release(run.lease_owner)
        five.clock.advance(CONFIRMED_SECONDS + 1)

    five.faults.after("send", give_back, nth=2)

    with pytest.raises(LeaseLost, match="no longer holds the edges"):
        five.attempt(run)

    assert len(five.queues.sent) == 2


def test_taking_the_leases_again_supersedes_the_attempt_before(five: World) -> None:
    run = five.begun(a_run())

    def stop_and_redrive() -> None:
        five.ledger.release(run.lease_owner)
        five.ledger.take(replace(run, redrives=1))

    five.faults.after("upload", stop_and_redrive, nth=5)

    with pytest.raises(LeaseLost):
        five.attempt(run)

    assert five.ledger.stored == {}, "an attempt with an old view of the other runs plans nothing"
    assert five.queues.sent == []
