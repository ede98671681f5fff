"""Whatever goes wrong, and however often, no record is lost and none stands in two tasks with different ids."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.errors import DispatcherError
from functions.domain.execution import run_id_of
from functions.domain.run import Path, Run
from functions.domain.window import parse_instant
from functions.usecases import dispatch_window
from functions.usecases.record_end import record_end
from tests.unit.fakes import (
    MAX_PAGES_OF_A_TEST,
    STARTED_AT,
    WAYS,
    Died,
    Execution,
    World,
    a_run,
    booking,
    dead,
    failed,
    throttled,
    total,
    walk,
    window,
)

pytestmark = pytest.mark.usefixtures("either_layout")

HOURS: Final = (14, 15, 16)
EDGES: Final = ["15:00:00.5Z", "15:00:00Z", "16:00:00.5Z", "16:00:00Z"]
TIMES: Final = ["14:50:00Z", *EDGES, "15:10:00Z", "15:50:00Z", *EDGES, "16:10:00Z"]
RECORDS: Final = ["R1", "R2", "R3", "R4", "R5"]
OPERATIONS: Final = [
    *("take", "others", "last run", "outlines", "renew", "read plan", "query", "plans", "upload", "create plan"),
    *("note sent", "release", "conclude", "notify", "send", "send", "send", "finish plan", "finish plan"),
]
FAULTS: Final[dict[str, Callable[[], object]]] = {"throttled": throttled, "failed": failed, "dead": dead}


class Step(NamedTuple):
    """One execution, what goes wrong in it, and what happens meanwhile."""

    begins: str
    """As a new run, by resuming the window's last run, or as the redrive of the last execution that failed."""
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
    switched_off: int
    """After how many finished plans the kill switch is used; 0 is never."""
    intruder: str
    """Who starts after the intruded call, while this execution is paused for so long."""
    intruded: str
    pause: int
    told: bool
    """Whether the service tells that the execution ended."""


steps = st.builds(
    Step,
    begins=st.sampled_from(["new", "resume", "redrive"]),
    hour=st.sampled_from(HOURS),
    path=st.sampled_from(WAYS),
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
    switched_off=st.sampled_from([0, 0, 0, 0, 1, 2]),
    intruder=st.sampled_from(["none", "none", "new", "resume", "earlier", "later"]),
    intruded=st.sampled_from(["query", "upload", "create plan", "send", "finish plan"]),
    pause=st.sampled_from([0, 10, 1000]),
    told=st.booleans(),
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


class Troubled:
    """A world, and the executions in it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.failed: list[Execution] = []
        self._numbers = itertools.count(1)

    def go(self, step: Step) -> None:
        """One execution with all its troubles."""
        faults = self.world.faults
        faults.after(step.changes_after, lambda: change(self.world, step))
        faults.after(step.intruded, lambda: self._intrude(step))
        getattr(faults, step.when)(step.operation, FAULTS[step.fault], step.nth)
        if step.switched_off:
            faults.after("finish plan", lambda: setattr(self.world, "kill_switch", True), step.switched_off)
        if step.begins == "redrive" and self.failed:
            execution = self.failed.pop()
            self._try(execution, execution.redrive, step.retries)
        else:
            execution = self._execution(step, step.hour, resume=step.begins == "resume")
            self._try(execution, execution.start, step.retries)
        faults.clear()
        self.world.kill_switch = False
        if step.told and execution in self.failed:
            self._tell_of_the_end(execution)
        self.world.clock.advance(step.pause)

    def in_peace(self, hour: int, page_size: int) -> None:
        """A new run of a window, which must come to its end."""
        run = a_run(run_id=self._name(), window=window(hour), page_size=page_size)
        summary = walk(self.world, run)
        assert summary["Outcome"] == "Dispatched"
        self._must_agree(run, summary)

    def go_on(self, hour: int) -> None:
        """Resume the window's last run in peace; it must come to its end."""
        run = a_run(run_id=self._name(), window=window(hour), resume=True)
        assert walk(self.world, run)["Outcome"] == "Dispatched"

    def _try(self, execution: Execution, go: Callable[[int], dict[str, Any]], retries: int) -> None:
        try:
            summary = go(retries)
        except (DispatcherError, Died):
            self.failed.append(execution)
        else:
            if summary["Outcome"] != "AlreadyRunning":
                self._must_agree(Run.from_state(execution.state["Run"]), summary)

    def _must_agree(self, run: Run, summary: dict[str, Any]) -> None:
        """The summary is the sum of the run's plans; on the paged path, of those before the page it stopped at."""
        plans = self.world.ledger.plans_of(run.run_id, run.window)
        if run.path is Path.PAGED:
            plans = [plan for plan in plans if plan.page < summary.get("Page", MAX_PAGES_OF_A_TEST)]
        assert summary.items() >= total(plans).to_state().items()
        assert summary["Waiting"] == summary["Dispatched"] + summary["AlreadyDispatched"]

    def _intrude(self, step: Step) -> None:
        if step.intruder != "none":
            self.world.clock.advance(step.pause)
            hour = step.hour + {"earlier": -1, "later": 1}.get(step.intruder, 0)
            execution = self._execution(step, hour, resume=step.intruder == "resume")
            self._try(execution, execution.start, 0)

    def _execution(self, step: Step, hour: int, *, resume: bool) -> Execution:
        name = self._name()
        run = a_run(run_id=name, window=window(hour), path=step.path, page_size=step.page_size, resume=resume)
        return Execution(self.world, run)

    def _name(self) -> str:
        return run_id_of(f"{next(self._numbers):03}", STARTED_AT)

    def _tell_of_the_end(self, execution: Execution) -> None:
        name = execution.state["Run"]["ExecutionId"].rpartition("-")[2]
        started = parse_instant(STARTED_AT).seconds * 1000
        change = {"executionArn": name, "name": name, "startDate": started, "status": "TIMED_OUT"}
        record_end(change, self.world.ledger, self.world.ledger, self.world.notifier)


@settings(max_examples=400)
@given(bookings, st.lists(steps, min_size=1, max_size=4), st.permutations(HOURS), st.integers(1, 4))
def test_after_any_troubles_every_waiting_record_is_in_exactly_one_task(
    made: list[tuple[str, int]], troubles: list[Step], last_hours: list[int], page_size: int
) -> None:
    world = World(*(booking(name, time, MemberId=member) for name, (time, member) in zip(RECORDS, made, strict=False)))
    world.queues.batch_size = 1
    troubled = Troubled(world)

    for step in troubles:
        troubled.go(step)
    world.clock.advance(1000)
    for hour in last_hours:
        troubled.in_peace(hour, page_size)

    world.must_be_dispatched_once()
