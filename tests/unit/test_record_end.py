from datetime import datetime
from typing import Any, Final

import pytest

from functions.domain.budget import PAGE_LEASE_SECONDS
from functions.domain.errors import DispatchFailed, TransientError
from functions.domain.execution import run_id_of
from functions.usecases.record_end import record_end
from tests.unit.fakes import STARTED_AT, Died, World, a_run, booking, dead, failed, throttled, walk

EXECUTION: Final = run_id_of("execution-1", STARTED_AT)


def change(status: str = "TIMED_OUT", **changes: Any) -> dict[str, Any]:
    """The detail of a status change, whose input is left out because it is large."""
    return {
        "executionArn": "execution:execution-1",
        "name": "execution-1",
        "startDate": int(datetime.fromisoformat(STARTED_AT).timestamp() * 1000),
        "status": status,
        "input": None,
        "inputDetails": {"included": False},
        **changes,
    }


def record(world: World, detail: dict[str, Any]) -> bool:
    return record_end(detail, world.ledger, world.ledger, world.notifier)


@pytest.fixture
def died() -> World:
    """An execution that died in the middle of a page."""
    world = World(booking("R1"), booking("R2", MemberId=2))
    world.queues.batch_size = 1
    world.faults.after("send", dead)
    with pytest.raises(Died):
        walk(world, a_run(run_id=EXECUTION))
    return world


@pytest.mark.parametrize("status", ["TIMED_OUT", "ABORTED", "FAILED"])
def test_an_end_that_nobody_noted_is_noted_the_window_given_back_and_a_person_told_once(
    died: World, status: str
) -> None:
    assert record(died, change(status))

    row = died.ledger.runs[a_run().window, EXECUTION]
    assert (row.entry.outcome, row.detail["Error"]) == (status, status)
    assert died.ledger.edges == {}
    ((subject, text),) = died.notifier.told
    assert subject == f"Bookings of 2026-09-17T15:00:00Z not dispatched: {status}"
    assert "The execution ended without reaching its failure branch." in text
    assert '{"ExecuteTime": "2026-09-17T16:00:00Z", "Resume": true}' in text


def test_the_same_change_told_again_is_no_news(died: World) -> None:
    record(died, change())
    before = died.snapshot()

    assert not record(died, change())
    assert died.snapshot() == before


def test_a_repeat_after_a_crash_still_gives_the_window_back(died: World) -> None:
    died.faults.before("conclude", throttled)
    with pytest.raises(TransientError):
        record(died, change())

    assert died.ledger.edges == {}
    assert record(died, change())


def test_an_end_that_the_failure_branch_noted_is_no_news() -> None:
    world = World(booking("R1"))
    world.faults.before("send", failed)
    with pytest.raises(DispatchFailed):
        walk(world, a_run(run_id=EXECUTION))
    before = world.snapshot()

    assert not record(world, change("FAILED"))
    assert world.snapshot() == before


def test_a_run_that_another_execution_goes_on_with_is_left_alone(died: World) -> None:
    died.clock.advance(PAGE_LEASE_SECONDS + 1)
    died.begun(a_run(run_id=EXECUTION, execution_id="execution-2"))
    before = died.snapshot()

    assert not record(died, change())
    assert died.snapshot() == before


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"name": "execution-2"}, id="another name"),
        pytest.param({"startDate": 0}, id="the same name at another time"),
    ],
)
def test_an_execution_that_never_held_a_window_is_no_news(died: World, other: dict[str, Any]) -> None:
    before = died.snapshot()

    assert not record(died, change(**other))
    assert died.snapshot() == before


def test_the_dead_execution_s_run_is_resumed_at_once_and_completed(died: World) -> None:
    record(died, change())

    summary = walk(died, a_run(run_id="run-2", resume=True))

    assert (summary["Outcome"], summary["RunId"], summary["Dispatched"]) == ("Dispatched", EXECUTION, 2)
    assert died.record_ids() == [["R1"], ["R2"]]


def test_an_end_that_is_told_after_the_execution_was_redriven_takes_nothing_from_it(died: World) -> None:
    ended_at = died.clock()
    died.clock.now += PAGE_LEASE_SECONDS + 1
    assert died.ledger.take(a_run(run_id=EXECUTION)) is None

    assert not record(died, change(stopDate=int(ended_at * 1000)))

    assert died.ledger.runs[a_run().window, EXECUTION].entry.outcome is None
    assert set(died.ledger.edges) == set(a_run().window.edges)
    assert died.notifier.told == []


def test_a_person_is_told_when_the_first_try_could_not(died: World) -> None:
    died.faults.before("notify", throttled)
    with pytest.raises(TransientError):
        record(died, change())

    assert record(died, change())
    assert len(died.notifier.told) == 1
