"""Whatever goes wrong, and however often, no record is lost and none stands in two tasks with different ids."""

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.errors import DispatcherError
from functions.domain.run import Path, Run
from functions.usecases import dispatch_window
from tests.unit.fakes import Died, World, a_run, booking, dead, failed, throttled, walk, window

HOURS: Final = (15, 16)
TIMES: Final = ["15:10:00Z", "15:50:00Z", "16:00:00.5Z", "16:00:00Z", "16:10:00Z", "16:50:00Z"]
RECORDS: Final = ["R1", "R2", "R3", "R4", "R5"]
OPERATIONS: Final = [
    *("renew", "read plan", "query", "plans", "upload", "create plan", "release"),
    *("send", "send", "send", "finish plan", "finish plan"),
]
FAULTS: Final[dict[str, Callable[[], object]]] = {"throttled": throttled, "failed": failed, "dead": dead}


class Step(NamedTuple):
    """One run of one window, what goes wrong in it, and what changes in the table meanwhile."""

    resumes: int
    """0 is a new run, 1 the last one before it, 2 the one before that."""
    hour: int
    path: Path
    page_size: int
    retries: int
    fault: str
    when: str
    operation: str
    nth: int
    change: str
    record: str
    time: str
    member: int
    changes_after: str
    pause: int


steps = st.builds(
    Step,
    resumes=st.integers(0, 2),
    hour=st.sampled_from(HOURS),
    path=st.sampled_from(Path),
    page_size=st.integers(1, 4),
    retries=st.integers(0, 1),
    fault=st.sampled_from(sorted(FAULTS)),
    when=st.sampled_from(["before", "after"]),
    operation=st.sampled_from(OPERATIONS),
    nth=st.integers(1, 3),
    change=st.sampled_from(["none", "none", "none", "book", "cancel", "delete"]),
    record=st.sampled_from(RECORDS),
    time=st.sampled_from(TIMES),
    member=st.integers(1, 2),
    changes_after=st.sampled_from(["others", "query", "upload"]),
    pause=st.sampled_from([0, 10, 1000]),
)
bookings = st.lists(st.tuples(st.sampled_from(TIMES), st.integers(1, 2)), min_size=2, max_size=4)


@pytest.fixture(scope="module", autouse=True)
def a_chunk_for_each_group() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch_window, "CHUNK_RECORDS", 1)
        yield


def change(world: World, step: Step) -> None:
    """A booking is made or moved, no longer waits, or goes."""
    known = json.dumps([{"S": step.record}]) in world.index.records
    if step.change == "book":
        world.index.put(booking(step.record, step.time, MemberId=step.member))
    elif step.change == "cancel" and known:
        world.index.put(booking(step.record, step.time, MemberId=step.member, RewardStatus="Cancelled"))
    elif step.change == "delete" and known:
        world.index.delete(step.record)


def run_with_trouble(world: World, step: Step, run: Run) -> None:
    world.faults.after(step.changes_after, lambda: change(world, step))
    getattr(world.faults, step.when)(step.operation, FAULTS[step.fault], step.nth)
    with suppress(DispatcherError, Died):
        walk(world, run, retries=step.retries)
    world.faults.clear()
    world.clock.advance(step.pause)


def run_in_peace(world: World, run_id: str, hour: int, page_size: int) -> None:
    summary = walk(world, a_run(run_id=run_id, window=window(hour), page_size=page_size))
    assert summary["Outcome"] == "Dispatched"
    assert summary["Waiting"] == summary["Dispatched"] + summary["AlreadyDispatched"]


def tasks_by_version(world: World) -> dict[tuple[str, ...], set[str]]:
    """Each record version that was sent, and the ids of the tasks it stood in."""
    found: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for message in world.queues.messages:
        for order in world.orders(message):
            assert order["RewardStatus"] == "WaitToReward", "nothing is sent that did not wait"
            version = (str(order["MemberId"]), order["RecordId"], order["BookingDateUTC"], order["BookingTimeUTC"])
            found[version].add(message.task["TaskId"])
    return found


@settings(max_examples=250)
@given(bookings, st.lists(steps, min_size=1, max_size=4), st.permutations(HOURS), st.integers(1, 4))
def test_after_any_troubles_every_waiting_record_is_in_exactly_one_task(
    made: list[tuple[str, int]], troubles: list[Step], last_hours: list[int], page_size: int
) -> None:
    world = World(*(booking(name, time, MemberId=member) for name, (time, member) in zip(RECORDS, made, strict=False)))
    world.queues.batch_size = 1
    numbers = itertools.count(1)
    runs: list[Run] = []

    for step in troubles:
        if step.resumes and len(runs) >= step.resumes:
            run = runs[-step.resumes]
        else:
            name = f"run-{next(numbers)}"
            run = a_run(run_id=name, window=window(step.hour), path=step.path, page_size=step.page_size)
            runs.append(run)
        run_with_trouble(world, step, run)
    world.clock.advance(1000)
    for hour in last_hours:
        run_in_peace(world, f"run-{next(numbers)}", hour, page_size)

    sent = tasks_by_version(world)
    waiting = {
        (record["MemberId"]["N"], *(record[name]["S"] for name in ("RecordId", "BookingDateUTC", "BookingTimeUTC")))
        for record in world.index.records.values()
        if record["RewardStatus"] == {"S": "WaitToReward"}
    }
    assert waiting <= set(sent), "a waiting record was lost"
    assert {version: found for version, found in sent.items() if len(found) > 1} == {}, "a record is in two tasks"
    assert world.queues.needless == [], "a task was sent although a finished plan held it"
