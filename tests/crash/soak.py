"""Random schedules: faults, zombies and dispatchers side by side on two neighbouring windows, and bookings that change.

A schedule is its seed.  What is asked of each: no version that waited is lost, and none stands in two tasks.  Behind
half of them each window is dispatched once more.  Behind all some bookings arrive late, reconcile and redo mend what is
missing, and then the worker grants each version once that waits.
"""

import functools
import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from moto import mock_aws

from functions.domain.budget import PAGE_TASK_SECONDS, WINDOW_LEASE_SECONDS
from functions.domain.pack import Layout
from functions.usecases import plan_redo
from tests.crash.circle import Circle, Deliveries
from tests.crash.evidence import Evidence, Version
from tests.crash.grants import Worker
from tests.crash.points import make_small
from tests.machine.faults import Call, Fault
from tests.machine.walk import Account, Execution, InvokeError, State, Walk, booking, group_of

DATE: Final = "2026-09-17"
WINDOWS: Final = {"15:01:10": ("14:00:00", "15:00:00Z"), "16:01:10": ("15:00:00", "16:00:00Z")}
"""Two neighbours: the time of execution, and the booking times that its window reads."""
TIMES: Final = ("14:20:00Z", "14:50:00Z", "15:00:00Z", "15:00:00Z", "15:10:00Z", "15:30:00Z", "16:00:00Z")
GROUPS: Final = (*(group_of(1001, 2001, 3001),) * 3, group_of(1001, 2002, 3001))
ROUTES: Final = (*("Point",) * 4, "ECoupon")
"""Most bookings fall into one task if a page reads them together: other pages make other tasks of them."""
BATCHES: Final = {Fault.HALF_DONE: ("SendMessageBatch", "BatchGetItem"), Fault.HALF_ANSWERED: ("SendMessageBatch",)}
CALLS: Final = 90
"""So many calls the first executions make, more or less: where things are made to happen."""
WAYS: Final[tuple[State, ...]] = (
    {"PaginationEnabled": False},
    *({"PaginationEnabled": True},) * 3,
    {"PaginationEnabled": True, "Slices": 2},
    *({"PaginationEnabled": True, "Grouping": "window"},) * 2,
    {"PaginationEnabled": True, "Grouping": "window", "Slices": 3},
)
"""How a run reads its window, half of them in lanes."""
LAYOUTS: Final = tuple(itertools.product(Layout, Layout))
"""Of task data while things go wrong, and afterwards: one schedule after the other."""
EFFECTS: Final = ("PutObject", "TransactWriteItems", "SendMessageBatch")
"""Where most can go wrong."""
DECISIONS: Final = ("TransactWriteItems",)
"""Where only the conditions of the call itself protect what a rival did meanwhile."""
MAX_RUNS: Final = 5
MAX_INVOCATIONS: Final = 5000
PAUSE_SECONDS: Final = 60
LEASES_OVER: Final = WINDOW_LEASE_SECONDS + 1

Waiting = frozenset[Version]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one schedule."""

    lost: int
    twice: int
    repeats: int
    redone: int
    granted: int
    violations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Completed:
    """A run that came to its end: what waited in its window all the while, and how many effects there were by then."""

    run_id: str
    waited: Waiting
    effects: int


class Table:
    """The bookings, and what waited when."""

    def __init__(self, account: Account, chance: random.Random) -> None:
        self._account = account
        self._chance = chance
        self._items: dict[str, State] = {}
        self._added = 0
        self.history: list[Waiting] = [frozenset()]
        for _ in range(chance.randint(3, 6)):
            self._add()
        self._note()

    def change(self) -> None:
        """Add, re-book, cancel, or change a status."""
        for _ in range(self._chance.randint(1, 2)):
            self._chance.choice((self._add, self._rebook, self._rebook, self._turn, self._cancel))()
        self._note()

    def arrive_late(self) -> None:
        """Add what no run has seen."""
        for _ in range(self._chance.randint(0, 3)):
            self._add()
        self._note()

    def write_back(self) -> None:
        """Write all bookings as they stood before the worker came."""
        self._account.book(*self._items.values())

    def _add(self) -> None:
        self._added += 1
        route = self._chance.choice(ROUTES)
        time = self._chance.choice(TIMES)
        self._put(
            booking(f"R{self._added}", BookingTimeUTC=time, RewardType=route, **self._chance.choice(GROUPS)),
        )

    def _rebook(self) -> None:
        self._alter(BookingTimeUTC=self._chance.choice(TIMES))

    def _turn(self) -> None:
        self._alter(RewardStatus=self._chance.choice(("WaitToReward", "Rewarded", "Cancelled")))

    def _cancel(self) -> None:
        if self._items:
            record = self._chance.choice([*self._items])
            del self._items[record]
            self._account.cancel(record)

    def _alter(self, **attributes: str) -> None:
        if self._items:
            item = self._chance.choice([*self._items.values()])
            self._put({**item, **{name: {"S": value} for name, value in attributes.items()}})

    def _put(self, item: State) -> None:
        self._items[item["RecordId"]["S"]] = item
        self._account.book(item)

    def _note(self) -> None:
        self.history.append(
            frozenset(
                Version(record, item["BookingDateUTC"]["S"], item["BookingTimeUTC"]["S"])
                for record, item in self._items.items()
                if item["RewardStatus"]["S"] == "WaitToReward"
            )
        )


class Attempts:
    """The attempts of the dispatching functions, each in a thread of its own, so that one can stand still half-way.

    The machine takes that one for timed out, and goes on.  One thread works at a time.
    """

    def __init__(self) -> None:
        self._turns: dict[threading.Thread, threading.Event] = {}
        self._awake = threading.Event()
        self._zombie: threading.Thread | None = None

    def make(self, own: Callable[[], Any]) -> Any:
        """Stands in for an invocation: does it, until it has ended or stands still."""
        ended: Future[Any] = Future()
        turn = threading.Event()

        def attempt() -> None:
            try:
                ended.set_result(own())
            except BaseException as error:  # noqa: BLE001 -- raised again where the machine waits
                ended.set_exception(error)
            turn.set()

        thread = threading.Thread(target=attempt, daemon=True)
        self._turns[thread] = turn
        thread.start()
        assert turn.wait(PAUSE_SECONDS)
        if not ended.done():
            raise InvokeError(TimeoutError())
        return ended.result()

    def stand_still(self) -> None:
        """Called from within an attempt; only the first one stands still, and none once they were woken."""
        thread = threading.current_thread()
        if self._zombie is None and thread in self._turns and not self._awake.is_set():
            self._zombie = thread
            self._turns[thread].set()
            assert self._awake.wait(PAUSE_SECONDS)

    def wake(self) -> None:
        """Let the one that stands still do the rest, and wait for its end."""
        self._awake.set()
        if self._zombie not in {None, threading.current_thread()}:
            self._zombie.join(PAUSE_SECONDS)


class Schedule:
    """One schedule, made of chance alone."""

    def __init__(self, account: Account, walk: Walk, worker: Worker, seed: int) -> None:
        random.seed(seed)
        self._layouts = LAYOUTS[seed % len(LAYOUTS)]
        self._chance = random.Random(seed)  # noqa: S311 -- chance, no secret
        self._account = account
        self._walk = walk
        self._worker = worker
        self._table = Table(account, self._chance)
        self._attempts = Attempts()
        self._begins: dict[str, int] = {}
        self._completed: list[_Completed] = []
        self._side_by_side = False
        self._running: list[str] = []

    def judge(self) -> Outcome:
        """Follow the schedule to its end, mend what is missing, look at all that was sent, and let it be granted."""
        self._prepare()
        for _ in range(self._chance.randint(1, 2)):
            self._dispatch(self._chance.choice([*WINDOWS]))
        self._walk.calls.unstage()
        self._walk.set("TASK_DATA_LAYOUT", self._layouts[1])
        if self._chance.random() < 0.3:
            self._attempts.wake()
        if self._chance.random() < 0.5:
            self._dispatch_all_once_more()
        self._table.arrive_late()
        circle = Circle(self._account, self._walk, self._chance, self._go_on, LEASES_OVER)
        violations = [*circle.close([{"ExecuteTime": f"{DATE}T{time}Z"} for time in WINDOWS], self._table.change)]
        self._attempts.wake()
        evidence, waiting = Evidence(self._walk.calls.done), self._table.history[-1]
        lost = {version for version in waiting if version not in evidence.tasks_of}
        for run in self._completed:
            by_then = Evidence(self._walk.calls.done[: run.effects]).tasks_of
            lost |= {version for version in run.waited if version not in by_then}
        violations += [
            *(f"lost: {version}" for version in sorted(lost)),
            *(f"in two tasks: {version} {task_ids}" for version, task_ids in evidence.twice.items()),
            *evidence.undecided(),
            *Deliveries(self._account, self._walk, self._worker, self._chance).judge(waiting, self._table.write_back),
        ]
        granted = self._worker.granted.total()
        return Outcome(len(lost), len(evidence.twice), evidence.repeats, circle.redone, granted, tuple(violations))

    def _prepare(self) -> None:
        """Let things happen at calls that chance names."""
        walk, chance = self._walk, self._chance
        walk.max_invocations = MAX_INVOCATIONS
        walk.watched = chance.random() < 0.8
        walk.set("PAGE_BUDGET", chance.choice(("2", "2000")))
        walk.set("TASK_DATA_LAYOUT", self._layouts[0])
        for function in ("DispatchPage", "DispatchWindow", "StagePage", "FoldPages", "MergeBucket"):
            walk.stand_in(function, self._attempts.make, MAX_INVOCATIONS)
        for _ in range(chance.randint(0, 4)):
            fault, number = chance.choice([*Fault]), chance.randint(1, CALLS)
            of = BATCHES.get(fault) or chance.choice((None, EFFECTS))
            walk.calls.stage(fault, functools.partial(_reached, number, of))
            if chance.random() < 0.5:
                walk.calls.precede(functools.partial(_reached, number + 1, None), self._table.change)
        happenings: tuple[tuple[Callable[[], None], Sequence[str] | None], ...] = (
            *((self._table.change, None),) * 2,
            (self._dispatch_beside, None),
            *((self._dispatch_beside, EFFECTS),) * 2,
            (self._attempts.stand_still, EFFECTS),
            (self._abandon, EFFECTS),
            (self._abandon, DECISIONS),
            *((self._overtake, DECISIONS),) * 2,
            (self._attempts.wake, None),
            (self._stop, None),
            (self._wait, None),
        )
        for _ in range(chance.randint(1, 5)):
            happening, operations = chance.choice(happenings)
            walk.calls.precede(functools.partial(_reached, chance.randint(1, CALLS), operations), happening)

    def _dispatch(self, time: str) -> None:
        """Dispatch a window, and go on with it for a while if it fails."""
        execution = self._run(time, resume=self._chance.random() < 0.2)
        for _ in range(self._chance.randint(0, 2)):
            if self._chance.random() < 0.5:
                self._table.change()
            if execution.status == "SUCCEEDED":
                return
            if self._chance.random() < 0.5:
                execution = self._followed(execution.name, functools.partial(self._walk.redrive, execution))
            else:
                execution = self._run(time, resume=self._chance.random() < 0.5)

    def _dispatch_beside(self) -> None:
        """A second dispatcher, in the middle of what the first one does."""
        if not self._side_by_side:
            self._side_by_side = True
            self._dispatch(self._chance.choice([*WINDOWS]))
            self._side_by_side = False

    def _stop(self) -> None:
        """StopExecution; the function at work knows nothing of it."""
        if self._running:
            self._walk.stop(self._running[-1])

    def _abandon(self) -> None:
        """StopExecution, and the function at work does the rest much later."""
        self._stop()
        self._attempts.stand_still()

    def _overtake(self) -> None:
        """The function at work is paused until its leases have run out and a second dispatcher has come and gone."""
        self._walk.let_pass(LEASES_OVER)
        self._dispatch_beside()

    def _wait(self) -> None:
        """As long as an attempt may take, or until its leases have run out."""
        self._walk.let_pass(self._chance.choice((PAGE_TASK_SECONDS, LEASES_OVER)))

    def _dispatch_all_once_more(self) -> None:
        """Dispatch each window until a run of it comes to its end."""
        for time in self._chance.sample([*WINDOWS], 2):
            if self._chance.random() < 0.5:
                self._run(time, resume=True)
            for _ in range(MAX_RUNS):
                execution = self._run(time, resume=False)
                if execution.output.get("Outcome") == "Dispatched":
                    break
                self._walk.let_pass(LEASES_OVER)
            else:
                raise AssertionError(f"the window does not come to its end: {execution.cause} {execution.output}")

    def _go_on(self, time: State) -> None:
        """Resume the last run of a window, or begin a new one if that one had ended; it comes to its end."""
        execution = self._start({**time, "Resume": True})
        assert execution.output.get("Outcome") == "Dispatched", f"{execution.cause} {execution.output}"

    def _run(self, time: str, *, resume: bool) -> Execution:
        return self._start(
            {
                "ExecuteTime": f"{DATE}T{time}Z",
                "PageSize": self._chance.randint(1, 3),
                "Resume": resume,
                **self._chance.choice(WAYS),
            }
        )

    def _start(self, given: State) -> Execution:
        name = f"run-{len(self._begins):03}"
        self._begins[name] = len(self._table.history) - 1
        return self._followed(name, functools.partial(self._walk.run, given, name))

    def _followed(self, name: str, start: Callable[[], Execution]) -> Execution:
        """Note of a run that came to its end what it must have dispatched: what waited ever since it first began."""
        self._running.append(name)
        execution = start()
        self._running.remove(name)
        summary = execution.output
        if summary.get("Outcome") == "Dispatched":
            _, begun_by = summary["RunId"].split("-", 1)
            low, high = WINDOWS[summary["WindowEnd"][11:13] + ":01:10"]
            throughout = frozenset.intersection(*self._table.history[self._begins[begun_by] :])
            waited = frozenset(version for version in throughout if low <= version.time <= high)
            self._completed.append(_Completed(summary["RunId"], waited, len(self._walk.calls.done)))
        return execution


def _reached(number: int, operations: Sequence[str] | None, call: Call) -> bool:
    """Whether this is the first call from this number on, of one of these operations."""
    return call.number >= number and (operations is None or call.operation in operations)


@contextmanager
def staged() -> Iterator[Callable[[int], Outcome]]:
    """An empty account in this process; what it gives judges the schedule of a seed, in a fork."""
    with (
        mock_aws(config={"stepfunctions": {"execute_state_machine": True}}),
        pytest.MonkeyPatch.context() as patch,
    ):
        make_small(patch)
        patch.setattr(plan_redo, "CHUNK", 1)
        account = Account()
        walk = Walk(account, patch)
        worker = Worker(walk, patch)
        warm_up = walk.run({"ExecuteTime": f"{DATE}T12:00:00Z"}, "warm-up")
        assert warm_up.status == "SUCCEEDED"
        yield lambda seed: Schedule(account, walk, worker, seed).judge()
