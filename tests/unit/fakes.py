"""The outside world in memory: the ports' meaning without AWS, with faults, and a machine that walks a run.

A fault is an action before or after the n-th call of an operation.  The operations are `query`, `take`, `renew`,
`confirm`, `release`, `read plan`, `plans`, `create plan`, `note sent`, `finish plan`, `others`, `last run`, `outlines`,
`owner of`, `conclude`, `set aside`, `upload` (each object), `send` (each batch), `stop` and `notify`.
"""

import hashlib
import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeAlias

from functions.domain.booking import BadRecord, RecordVersion, Route
from functions.domain.budget import (
    PAGE_FUNCTION_SECONDS,
    PAGE_TASK_SECONDS,
    SMALL_TASK_SECONDS,
    WINDOW_FUNCTION_SECONDS,
    WINDOW_TASK_SECONDS,
)
from functions.domain.cursor import DATE_ATTRIBUTE, TIME_ATTRIBUTE, Token, start_key, token_of
from functions.domain.errors import DispatcherError, DispatchFailed, LeaseLost, TransientError, WindowBusy
from functions.domain.lane import FIRST_FOLD, Range, Step
from functions.domain.pack import Layout, Pack
from functions.domain.page import QueryPage
from functions.domain.plan import Plan
from functions.domain.reconcile import DatedPlan
from functions.domain.run import Counts, LeaseOwner, Others, Path, Progress, Run
from functions.domain.staging import BUCKETS, StagedObject, bucket_of
from functions.domain.task import Extent, NewTask, Task, message_body, object_body, rounds
from functions.domain.values import Item
from functions.domain.window import Window
from functions.usecases.dispatch_page import dispatch_page
from functions.usecases.dispatch_window import dispatch_window
from functions.usecases.fold_pages import fold_pages
from functions.usecases.lay_out_lanes import lay_out_lanes
from functions.usecases.merge_bucket import merge_bucket
from functions.usecases.ports import Dispatch, Holder, JournalEntry, Lease, PlansOf, Span
from functions.usecases.report_failure import report_failure
from functions.usecases.stage_page import stage_page
from functions.usecases.summarize_run import delete_staged, summarize_run
from functions.usecases.take_leases import take_leases
from functions.worker.contract import UnworkableTask
from functions.worker.ports import Answer, Desk, Standing
from functions.worker.ports import Message as WorkerMessage
from functions.worker.task import Order, Schema

BUCKET: Final = "task-data"
DAY: Final = "2026-09-17"
STARTED_AT: Final = "2026-09-17T16:01:10.123Z"
DEDUPLICATION_SECONDS: Final = 300
MAX_PAGES_OF_A_TEST: Final = 200
WAYS: Final = (Path.FULL, Path.PAGED, Path.GROUPED)
"""The paths that read a whole window; a redo's pages come from a list."""
FUNCTION_SECONDS: Final = {
    Path.PAGED: PAGE_FUNCTION_SECONDS,
    Path.GROUPED: PAGE_FUNCTION_SECONDS,
    Path.FULL: WINDOW_FUNCTION_SECONDS,
}
TASK_SECONDS: Final = {
    Path.PAGED: PAGE_TASK_SECONDS,
    Path.GROUPED: PAGE_TASK_SECONDS,
    Path.FULL: WINDOW_TASK_SECONDS,
}

Record: TypeAlias = dict[str, dict[str, Any]]


def window(hour: int = 15) -> Window:
    """The window of `DAY` that starts at this hour."""
    return Window.starting(f"{DAY}T{hour:02}:00:00Z")


def booking(record_id: str, time: str = "15:10:00Z", **attributes: Any) -> Record:
    """A booking as DynamoDB gives it, with other attributes where they are named.

    An int becomes N, a str S, a dict is a typed value already, None leaves the attribute out.
    """
    values = {
        "RecordId": record_id,
        DATE_ATTRIBUTE: DAY,
        TIME_ATTRIBUTE: time,
        "ShopId": 1001,
        "MemberId": 2001,
        "PromotionEngineId": 3001,
        "RewardStatus": "WaitToReward",
        "RewardType": "Point",
        "OrderTime": f"{DAY}T14:00:00Z",
        **attributes,
    }
    return {name: _typed(value) for name, value in values.items() if value is not None}


def _typed(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {"S": value} if isinstance(value, str) else {"N": str(value)}


def worked_example() -> list[Record]:
    """The bookings R0 to R6 of the worked example."""
    a, b, c = [
        {"ShopId": shop, "MemberId": member, "PromotionEngineId": engine}
        for shop, member, engine in ((1001, 2001, 3001), (1001, 2002, 3002), (1002, 2003, 3003))
    ]
    return [
        booking("R0", "14:59:59Z", **a, OrderTime=f"{DAY}T14:10:00Z"),
        booking("R1", "15:03:00Z", **a, OrderTime=f"{DAY}T14:50:00Z"),
        booking("R2", "15:20:00Z", **a, OrderTime=f"{DAY}T14:30:00Z"),
        booking("R3", "15:45:00Z", **b, OrderTime=f"{DAY}T15:10:00Z", RewardType="ECoupon"),
        booking("R4", "15:48:00Z", **c, OrderTime=f"{DAY}T15:15:00Z", RewardStatus="Rewarded"),
        booking("R5", "15:59:00Z", **c, OrderTime=f"{DAY}T15:30:00Z"),
        booking("R6", "16:00:01Z", **c, OrderTime=f"{DAY}T15:40:00Z"),
    ]


class Died(Exception):
    """The process ended here."""


def throttled() -> NoReturn:
    """As a fault: the call is refused for now."""
    raise TransientError("throttled")


def failed() -> NoReturn:
    """As a fault: the call is refused for good."""
    raise DispatchFailed("refused")


def dead() -> NoReturn:
    """As a fault: nothing after this line is executed any more."""
    raise Died


@dataclass
class Faults:
    """What goes wrong at which call; counts all calls."""

    counted: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    _before: dict[tuple[str, int], Callable[[], object]] = field(default_factory=dict)
    _after: dict[tuple[str, int], Callable[[], object]] = field(default_factory=dict)

    def before(self, operation: str, action: Callable[[], object], nth: int = 1) -> None:
        """Let `action` happen instead of, or just before, the n-th call from now on."""
        self._before[operation, self.counted[operation] + nth] = action

    def after(self, operation: str, action: Callable[[], object], nth: int = 1) -> None:
        """Let `action` happen when the n-th call from now on has had its effect, and before its answer arrives."""
        self._after[operation, self.counted[operation] + nth] = action

    def clear(self) -> None:
        """Nothing that was planned and did not happen goes wrong any more."""
        self._before.clear()
        self._after.clear()

    @contextmanager
    def call(self, operation: str, detail: str = "") -> Iterator[None]:
        """Around the effect of one call."""
        self.counted[operation] += 1
        place = (operation, self.counted[operation])
        self._before.pop(place, _nothing)()
        self.log.append(f"{operation} {detail}".strip())
        yield
        self._after.pop(place, _nothing)()


def _nothing() -> None:
    return None


@dataclass
class Clock:
    """Epoch seconds that only a test moves."""

    now: float = 1_789_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@dataclass
class FakeIndex:
    """A global secondary index: `Limit` is what is evaluated, and an exactly full page has a token."""

    faults: Faults
    key_attributes: Sequence[str] = ("RecordId",)
    records: dict[str, Item] = field(default_factory=dict)
    shards: int = 0
    megabyte: int = 1_000_000
    """As many records fill the megabyte that ends a page before its limit does."""
    date_attribute: str = DATE_ATTRIBUTE

    def put(self, *records: Item) -> None:
        """Add bookings, or replace those of the same key."""
        for record in records:
            self.records[self._key(record)] = record

    def delete(self, record_id: str) -> None:
        """Take away a booking of a table whose key is `RecordId`."""
        del self.records[json.dumps([{"S": record_id}])]

    def query_page(self, keys: Range, token: Token | None, page_size: int) -> QueryPage:
        """See `BookingIndex.query_page`."""
        with self.faults.call("query"):
            behind = None if token is None else self._position(start_key(token))
            read = sorted(
                (
                    record
                    for record in self.records.values()
                    if record.get(self.date_attribute) == {"S": keys.date_key}
                    and keys.low <= record.get(TIME_ATTRIBUTE, {}).get("S", "") <= keys.high
                    and (behind is None or self._position(record) > behind)
                ),
                key=self._position,
            )
            limit = min(page_size, self.megabyte)
            page = read[:limit]
            last = {name: page[-1][name] for name in self._token_names} if len(page) == limit else None
            return QueryPage(page, token_of(last), len(page))

    @property
    def _token_names(self) -> tuple[str, ...]:
        return (*self.key_attributes, self.date_attribute, TIME_ATTRIBUTE)

    def _key(self, record: Item) -> str:
        return json.dumps([record[name] for name in self.key_attributes], default=bytes.hex)

    def _position(self, record: Item) -> tuple[str, str]:
        """Equal times stand in the order of a hash, not of the key."""
        return record[TIME_ATTRIBUTE]["S"], hashlib.sha256(self._key(record).encode()).hexdigest()


@dataclass
class ScriptedIndex:
    """Answers with the pages it was given, one after the other, whatever it is asked."""

    pages: Iterator[QueryPage]
    tokens: list[Token | None] = field(default_factory=list)
    shards: int = 0
    key_attributes: Sequence[str] = ("RecordId",)
    date_attribute: str = DATE_ATTRIBUTE

    def query_page(self, keys: Range, token: Token | None, page_size: int) -> QueryPage:
        """See `BookingIndex.query_page`."""
        del keys, page_size
        self.tokens.append(token)
        return next(self.pages)


class _Edge(NamedTuple):
    execution_id: str
    grant: str
    run_id: str
    window: Window
    until: float


class _JournalRow(NamedTuple):
    entry: JournalEntry
    execution_id: str
    detail: Mapping[str, Any]


@dataclass
class FakeLedger:
    """Leases, fences, plans and the journal; every write is all or nothing."""

    faults: Faults
    clock: Clock
    edges: dict[str, _Edge] = field(default_factory=dict)
    fences: dict[tuple[str, int], str] = field(default_factory=dict)
    runs: dict[tuple[Window, str], _JournalRow] = field(default_factory=dict)
    executions: dict[str, tuple[LeaseOwner, float]] = field(default_factory=dict)
    """With the time at which each last took its leases."""
    stored: dict[tuple[Window, str, int, int], tuple[str, Plan]] = field(default_factory=dict)
    """By window, run, lane and page: the attempt that planned it, and the plan."""
    finished_at: dict[tuple[Window, str, int, int], int] = field(default_factory=dict)
    """Epoch seconds, by the plan's place."""
    _attempts: Iterator[int] = field(default_factory=itertools.count)

    def take(self, run: Run) -> Holder | None:
        """See `Leases.take`."""
        with self.faults.call("take", run.execution_id):
            held = [self.edges[edge] for edge in run.window.edges if edge in self.edges]
            foreign = [edge for edge in held if edge.execution_id != run.execution_id and edge.until >= self.clock()]
            for edge in foreign:
                if edge.window == run.window:
                    return Holder(edge.run_id, int(edge.until))
            if foreign:
                raise WindowBusy(f"the run of window {foreign[0].window.start_text} holds an edge of this one")
            self._hold(run)
            before = self.runs.get((run.window, run.run_id))
            started_at = before.entry.started_at if before else run.started_at
            entry = JournalEntry(run.run_id, started_at, run.path.value, run.page_size, run.slices, run.shards, None)
            self.runs[run.window, run.run_id] = _JournalRow(entry, run.execution_id, {})
            self.executions[run.execution_id] = run.lease_owner, self.clock()
        return None

    def renew(self, run: Run, lane: int = 0) -> Lease:
        """See `Leases.renew`."""
        with self.faults.call("renew", run.execution_id):
            if not self._is_granted(run):
                raise LeaseLost("the run no longer holds the edges of its window")
            self._hold(run)
            attempt = self.fences[run.run_id, lane] = f"attempt-{next(self._attempts)}"
            return Lease(run, attempt, int(self.clock()) + run.lease_seconds, lane)

    def confirm(self, lease: Lease) -> None:
        """See `Leases.confirm`."""
        with self.faults.call("confirm"):
            if not self._is_granted(lease.run):
                raise LeaseLost("the run no longer holds the edges of its window")
            if self.fences.get((lease.run.run_id, lease.lane)) != lease.attempt:
                raise LeaseLost("a later attempt has begun")

    def release(self, owner: LeaseOwner) -> None:
        """See `Leases.release`."""
        with self.faults.call("release", owner.execution_id):
            for edge in owner.window.edges:
                if edge in self.edges and self.edges[edge].execution_id == owner.execution_id:
                    del self.edges[edge]

    def others(self, run: Run) -> Others:
        """See `Journal.others`."""
        with self.faults.call("others"):
            windows = run.window.previous, run.window, run.window.next
            return Others(*(tuple(i for i in self._run_ids(window) if i != run.run_id) for window in windows))

    def last_run(self, window: Window) -> JournalEntry | None:
        """See `Journal.last_run`."""
        with self.faults.call("last run"):
            entries = [entry for entry in self.runs_of(window) if entry.path != Path.REDO]
            return entries[-1] if entries else None

    def outlines(self, owner: LeaseOwner) -> Iterator[Plan]:
        """See `Journal.outlines`."""
        with self.faults.call("outlines", owner.run_id):
            return iter([replace(plan, tasks=()) for plan in self.plans_of(owner.run_id)])

    def in_doubt(self, run: Run, others: Others) -> bool:
        """See `Journal.in_doubt`."""
        with self.faults.call("in doubt"):
            of_others = {*(others.before or ()), *(others.own or ()), *(others.after or ())} - {run.run_id}
            return any(not plan.finished for run_id in of_others for plan in self.plans_of(run_id))

    def owner_of(self, execution_id: str, ended_at: float = math.inf) -> LeaseOwner | None:
        """See `Journal.owner_of`."""
        with self.faults.call("owner of", execution_id):
            owner, taken_at = self.executions.get(execution_id, (None, 0.0))
            return owner if taken_at <= ended_at else None

    def is_open(self, owner: LeaseOwner) -> bool:
        """See `Journal.is_open`."""
        with self.faults.call("is open", owner.execution_id):
            row = self.runs.get((owner.window, owner.run_id))
            return row is not None and row.execution_id == owner.execution_id and row.entry.outcome is None

    def conclude(self, owner: LeaseOwner, outcome: str, detail: Mapping[str, Any]) -> bool:
        """See `Journal.conclude`."""
        with self.faults.call("conclude", outcome):
            row = self.runs.get((owner.window, owner.run_id))
            if row is None or row.execution_id != owner.execution_id or row.entry.outcome is not None:
                return False
            entry = replace(row.entry, outcome=outcome)
            self.runs[owner.window, owner.run_id] = _JournalRow(entry, owner.execution_id, detail)
        return True

    def read_plan(self, run: Run, page: int, lane: int = 0) -> Plan | None:
        """See `Ledger.read_plan`."""
        with self.faults.call("read plan", str(page)):
            if (run.window, run.run_id, lane, page) not in self.stored:
                return None
            _, plan = self.stored[run.window, run.run_id, lane, page]
            return replace(plan, tasks=()) if plan.finished else plan

    def plans(self, *wanted: PlansOf) -> Iterator[Plan]:
        """See `Ledger.plans`."""
        with self.faults.call("plans", " ".join(some.window.start_text[11:13] for some in wanted)):
            for some in wanted:
                for run_id in self._run_ids(some.window) if some.run_ids is None else some.run_ids:
                    for plan in self.plans_of(run_id, some.window):
                        if _is_wanted(plan, some):
                            yield plan

    def runs_of(self, window: Window) -> list[JournalEntry]:
        """See `Plans.runs_of`."""
        return [self.runs[window, run_id].entry for run_id in self._run_ids(window)]

    def dated(self, window: Window, run_id: str, span: Span, after: tuple[int, int] | None) -> Iterator[DatedPlan]:
        """See `Plans.dated`."""
        for plan in self.plans_of(run_id, window):
            if (plan.lane, plan.page) > (after or (-1, -1)) and _is_wanted(plan, PlansOf(window, (run_id,), span)):
                yield DatedPlan(plan, self.finished_at.get((window, run_id, plan.lane, plan.page)))

    def staged(self, run: Run, *, folded: bool = True) -> Iterator[StagedObject]:
        """See `Ledger.staged`."""
        with self.faults.call("staged"):
            plans = self.plans_of(run.run_id, run.window)
            pages = [plan.staged for plan in plans if plan.staged and plan.lane < FIRST_FOLD]
            folds = [plan.staged for plan in plans if plan.staged and plan.lane >= FIRST_FOLD]
            yield from (folded and folds) or pages

    def draft_plan(self, lease: Lease, plan: Plan) -> Callable[[], None]:
        """See `Ledger.draft_plan`."""
        place = (lease.run.window, lease.run.run_id, plan.lane, plan.page)

        def create() -> None:
            with self.faults.call("create plan", str(plan.page)):
                if not self._still_held(lease) or place in self.stored:
                    raise LeaseLost(f"page {plan.page} is no longer this attempt's to plan")
                self.stored[place] = lease.attempt, plan

        return create

    def note_sent(self, lease: Lease, plan: Plan) -> None:
        """See `Ledger.note_sent`."""
        with self.faults.call("note sent", str(plan.page)):
            self._change(lease, plan, sent=plan.sent)

    def finish_plan(self, lease: Lease, plan: Plan) -> Plan:
        """See `Ledger.finish_plan`: the tasks stay as they were written."""
        with self.faults.call("finish plan", str(plan.page)):
            self._change(lease, plan, counts=plan.counts, finished=True, sent=frozenset())
            self.finished_at[lease.run.window, lease.run.run_id, plan.lane, plan.page] = int(self.clock())
        return replace(plan, finished=True)

    def plans_of(self, run_id: str, of_window: Window | None = None) -> list[Plan]:
        """The plans of a run as they are stored, by lane and page."""
        return [
            plan
            for (window, run, *_), (_, plan) in sorted(self.stored.items(), key=lambda one: one[0])
            if run == run_id and of_window in (None, window)
        ]

    def settled_task_ids(self) -> set[str]:
        """The ids of the tasks in finished plans, and of those noted as sent."""
        plans = [plan for _, plan in self.stored.values()]
        finished = {task.task_id for plan in plans if plan.finished for task in plan.tasks}
        return finished.union(*(plan.sent for plan in plans))

    def _run_ids(self, window: Window) -> list[str]:
        return sorted(run_id for of_window, run_id in self.runs if of_window == window)

    def _hold(self, run: Run) -> None:
        until = int(self.clock()) + run.lease_seconds
        edge = _Edge(run.execution_id, run.grant, run.run_id, run.window, until)
        self.edges |= dict.fromkeys(run.window.edges, edge)

    def _is_granted(self, run: Run) -> bool:
        return all(edge in self.edges and self.edges[edge].grant == run.grant for edge in run.window.edges)

    def _still_held(self, lease: Lease) -> bool:
        """Both edges are held under the run's grant and not expired, the lane's fence is the attempt's."""
        return (
            self.fences.get((lease.run.run_id, lease.lane)) == lease.attempt
            and self._is_granted(lease.run)
            and all(self.edges[edge].until > self.clock() for edge in lease.run.window.edges)
        )

    def _change(self, lease: Lease, plan: Plan, **changes: Any) -> None:
        if not self._still_held(lease):
            raise LeaseLost(f"page {plan.page} is no longer this attempt's")
        place = (lease.run.window, lease.run.run_id, plan.lane, plan.page)
        attempt, written = self.stored[place]
        self.stored[place] = attempt, replace(written, **changes)


def _is_wanted(plan: Plan, wanted: PlansOf) -> bool:
    moments = [version.moment for _, version in plan.members]
    buckets = [bucket_of(task.group) for task in plan.tasks]
    in_span = not wanted.span or (moments and max(moments) >= wanted.span.low and min(moments) <= wanted.span.high)
    among = wanted.buckets
    in_buckets = not among or (buckets and max(buckets) >= among.start and min(buckets) < among.stop)
    return bool(in_span and in_buckets)


@dataclass
class FakeTaskData:
    """The bucket."""

    faults: Faults
    layout: Layout = Layout.OBJECT
    objects: dict[str, bytes] = field(default_factory=dict)
    bad_records: dict[tuple[str, int, int], Sequence[BadRecord]] = field(default_factory=dict)
    """By run, lane and page."""

    @contextmanager
    def uploading(self, tasks: Sequence[NewTask], before_each: Callable[[], None]) -> Iterator[Sequence[Task]]:
        """See `TaskData.uploading`: they are written behind the block, which is the latest that they may be."""
        held = [new for new in tasks if self.layout is Layout.PACKED and isinstance(new.documents, Sequence)]
        alone = [new for new in tasks if self.layout is Layout.OBJECT or not isinstance(new.documents, Sequence)]
        packs = [Pack.of(held, BUCKET)] if held else []
        bodies = [(pack.key, b"".join(pack.pieces())) for pack in packs]
        bodies += [(new.task.object_key, object_body(new, BUCKET)) for new in alone]
        yield [*(task for pack in packs for task in pack.tasks), *(new.task for new in alone)]
        for key, body in bodies:
            before_each()
            with self.faults.call("upload"):
                self.objects[key] = body

    @property
    def bodies(self) -> dict[str, bytes]:
        """Every task's body, by the key that it has where it lies alone: the same in either layout."""
        packs = [content for key, content in self.objects.items() if key.endswith(".jsonl")]
        alone = {key: content for key, content in self.objects.items() if not key.endswith(".jsonl")}
        return alone | {json.loads(line)["Key"]: line for pack in packs for line in pack.splitlines()}

    def body(self, key: str, extent: Extent | None) -> bytes:
        """An object, or some bytes of it."""
        content = self.objects[key]
        return content if extent is None else content[extent.start : extent.start + extent.length]

    def set_aside(self, run: Run, progress: Progress, records: Sequence[BadRecord]) -> None:
        """See `TaskData.set_aside`."""
        with self.faults.call("set aside", str(progress.page)):
            self.bad_records[run.run_id, progress.lane, progress.page] = records


@dataclass
class FakeStaging:
    """The bucket's part for staged records."""

    faults: Faults
    objects: dict[str, list[bytes]] = field(default_factory=dict)

    def write(self, key: str, lines: Iterable[bytes]) -> StagedObject:
        """See `Staging.write`."""
        with self.faults.call("stage", key):
            written = self.objects[key] = list(lines)
        assert written == sorted(written), "the lines of an object are not sorted"
        counts, sizes = [0] * BUCKETS, [0] * BUCKETS
        for line in written:
            counts[int(line[:2], 16)] += 1
            sizes[int(line[:2], 16)] += len(line)
        return StagedObject(key, counts, sizes)

    def read(self, objects: Sequence[StagedObject], buckets: range) -> Iterator[bytes]:
        """See `Staging.read`."""
        with self.faults.call("read staged"):
            found = [line for one in objects for line in self.objects[one.key] if int(line[:2], 16) in buckets]
        return iter(sorted(found))

    def delete(self, keys: Iterable[str]) -> None:
        """See `Staging.delete`."""
        with self.faults.call("delete staged"):
            for key in keys:
                self.objects.pop(key, None)


@dataclass
class FakeParameters:
    """The parameter store; counts how often it is read."""

    values: Mapping[str, str] = field(default_factory=dict)
    reads: int = 0

    def read(self) -> Mapping[str, str]:
        """See `Parameters.read`."""
        self.reads += 1
        return self.values


class Message(NamedTuple):
    """One message as its consumer gets it."""

    route: Route
    group: str
    body: str

    @property
    def task(self) -> dict[str, Any]:
        """`JobName`, `TaskId`, `Data`."""
        task: dict[str, Any] = json.loads(self.body)
        return task

    @property
    def data(self) -> dict[str, Any]:
        """What is inside `Data`."""
        data: dict[str, Any] = json.loads(self.task["Data"])
        return data


@dataclass
class FakeQueues:
    """Two FIFO queues that drop a repeated id for five minutes; a message without its object is a fault."""

    faults: Faults
    clock: Clock
    objects: Mapping[str, bytes]
    ledger: FakeLedger
    batch_size: int = 10
    sent: list[str] = field(default_factory=list)
    """The task ids in the order of sending, repeats included."""
    needless: list[str] = field(default_factory=list)
    """The ids that were sent although they stood in a finished plan, or were noted as sent."""
    messages: list[Message] = field(default_factory=list)
    """What the consumers get."""
    _seen: dict[str, float] = field(default_factory=dict)

    def send(
        self, tasks: Sequence[Task], before_batch: Callable[[], None], accepted: Callable[[Iterable[str]], None]
    ) -> None:
        """See `TaskQueues.send`."""
        for together in rounds(tasks):
            for route in Route:
                of_route = [task for task in together if task.route is route]
                for start in range(0, len(of_route), self.batch_size):
                    batch = of_route[start : start + self.batch_size]
                    before_batch()
                    with self.faults.call("send", f"{len(batch)} {route.value}"):
                        for task in batch:
                            self._accept(task)
                    accepted(task.task_id for task in batch)

    def _accept(self, task: Task) -> None:
        assert task.key in self.objects, "a message was sent before its object was there"
        if task.extent:
            body = self.objects[task.key][task.extent.start :][: task.extent.length]
            assert hashlib.sha256(body).hexdigest() == task.extent.sha256, "a message names other bytes than its task's"
        self.sent.append(task.task_id)
        if task.task_id in self.ledger.settled_task_ids():
            self.needless.append(task.task_id)
        if self.clock() - self._seen.get(task.task_id, float("-inf")) > DEDUPLICATION_SECONDS:
            self._seen[task.task_id] = self.clock()
            self.messages.append(Message(task.route, task.message_group, message_body(task, BUCKET)))


@dataclass
class FakeNotifier:
    """The people who are told."""

    faults: Faults
    told: list[tuple[str, str]] = field(default_factory=list)
    """Subjects and texts."""

    def notify(self, subject: str, text: str) -> None:
        """See `Notifier.notify`."""
        with self.faults.call("notify"):
            self.told.append((subject, text))


class World:
    """Everything outside the use cases, wired together."""

    layout: ClassVar = Layout.OBJECT
    """Of new tasks, in every world made from now on; the fixture `either_layout` changes it."""

    def __init__(self, *records: Item) -> None:
        """Start with these bookings in the table."""
        self.faults = Faults()
        self.clock = Clock()
        self.index = FakeIndex(self.faults)
        self.ledger = FakeLedger(self.faults, self.clock)
        self.task_data = FakeTaskData(self.faults, self.layout)
        self.queues = FakeQueues(self.faults, self.clock, self.task_data.objects, self.ledger)
        self.notifier = FakeNotifier(self.faults)
        self.kill_switch = False
        self.staging = FakeStaging(self.faults)
        self.dispatch = Dispatch(
            self.index, self.ledger, self.task_data, self.queues, self.staging, self._stop, self.clock
        )
        self.index.put(*records)

    def begun(self, run: Run) -> Run:
        """The run, once it holds its window."""
        assert self.ledger.take(run) is None
        return run

    def attempt(
        self, run: Run, progress: Progress | None = None, others: Others | None = None, seconds: float | None = None
    ) -> Progress:
        """One invocation of the function of the run's path, which Lambda would end after `seconds`."""
        progress = progress or Progress()
        handed_over = run.in_lanes or progress.hands_over(run.page_budget)  # only a dry run is then done here
        do = dispatch_page if run.path is Path.PAGED and not (run.dry_run and handed_over) else dispatch_window
        deadline = self.clock() + (FUNCTION_SECONDS[run.path] if seconds is None else seconds)
        return do(run, progress, others or Others(), self.dispatch, deadline)

    def attempt_lane(self, step: Step, run: Run, progress: Progress, others: Others) -> Progress:
        """One invocation of the function of a lane's step."""
        deadline = self.clock() + PAGE_FUNCTION_SECONDS
        match step:
            case Step.DISPATCH:
                return dispatch_page(run, progress, others, self.dispatch, deadline)
            case Step.STAGE:
                return stage_page(run, progress, self.dispatch, deadline)
            case Step.FOLD:
                return fold_pages(run, progress, self.dispatch, deadline)
            case Step.MERGE:
                return merge_bucket(run, progress, others, self.dispatch, deadline)

    def orders(self, message: Message) -> list[dict[str, Any]]:
        """The records in the body that a message points to."""
        orders: list[dict[str, Any]] = json.loads(self.body(message))["Orders"]
        return orders

    def body(self, message: Message) -> bytes:
        """The body that a message points to."""
        key, named = message.data["Key"], message.data.get("Range")
        extent = Extent(key, named["Start"], named["Length"], message.data["Sha256"]) if named else None
        return self.task_data.body(key, extent)

    def record_ids(self) -> list[list[str]]:
        """The record ids of every task, in the order of arrival, as a consumer sees them that drops a repeated id."""
        first: dict[str, Message] = {}
        for message in self.queues.messages:
            first.setdefault(message.task["TaskId"], message)
        return [[order["RecordId"] for order in self.orders(message)] for message in first.values()]

    @property
    def delivered(self) -> list[tuple[Route, str, str, bytes]]:
        """What consumers get, but for where it lies: route, group, message and body, sorted."""
        told = []
        for message in self.queues.messages:
            data = message.data
            body = self.body(message)
            assert "Range" in data or data["Key"] == json.loads(body)["Key"]
            data = {name: value for name, value in data.items() if name not in {"Key", "Range", "Sha256"}}
            told.append((message.route, message.group, json.dumps({**message.task, "Data": data}), body))
        return sorted(told)

    def must_be_dispatched_once(self) -> None:
        """Every record that waits is in a task, none is in two, and no task was sent again without need."""
        found: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for message in self.queues.messages:
            for order in self.orders(message):
                assert order["RewardStatus"] == "WaitToReward", "a record was sent that did not wait"
                version = str(order["MemberId"]), order["RecordId"], order[DATE_ATTRIBUTE], order[TIME_ATTRIBUTE]
                found[version].add(message.task["TaskId"])
        waiting = {
            (record["MemberId"]["N"], *(record[name]["S"] for name in ("RecordId", DATE_ATTRIBUTE, TIME_ATTRIBUTE)))
            for record in self.index.records.values()
            if record["RewardStatus"] == {"S": "WaitToReward"}
        }
        assert waiting <= set(found), "a waiting record was lost"
        assert {version: ids for version, ids in found.items() if len(ids) > 1} == {}, "a record is in two tasks"
        assert self.queues.needless == [], "a task was sent although it was settled"

    def snapshot(self) -> str:
        """All that a run can change, as text."""
        ledger, bucket = self.ledger, self.task_data
        effects = ledger.edges, ledger.fences, ledger.runs, ledger.executions, ledger.stored, bucket.bad_records
        return repr((*effects, bucket.objects, self.staging.objects, self.queues.sent, self.notifier.told))

    def _stop(self) -> bool:
        with self.faults.call("stop"):
            return self.kill_switch


def a_run(**changes: Any) -> Run:
    """A planned run, by default of the window 15:00 to 16:00, in pages of 1000; its execution has its id."""
    path = changes.get("path", Path.PAGED)
    run_id = changes.get("run_id", "run-1")
    run = Run(
        run_id=run_id,
        execution_id=run_id,
        started_at=STARTED_AT,
        window=window(),
        path=path,
        page_size=1000,
        dry_run=False,
        set_aside_limit=100,
        lease_seconds=path.lease_seconds,
    )
    return replace(run, **changes)


class Execution:
    """What the state machine does with a planned run: its output, or the error that the execution ends with.

    The state goes through JSON between the functions.  A transient error is tried again `retries` times in all; a
    process that died is tried again as if its task had timed out, and after that the execution is dead.
    A failure is reported as soon as it is caught; the report raises it, unless the execution was redriven since.
    """

    def __init__(self, world: World, run: Run) -> None:
        """Begin where the run is planned."""
        self.state: dict[str, Any] = {"Run": run.to_state(), "Progress": Progress().to_state()}
        self._world = world
        self._retries = 0
        self._redrives = 0
        self._rounds = 0
        self._lane: dict[str, Any] | None = None
        """What the execution of the lane at work was given."""

    def start(self, retries: int = 0) -> dict[str, Any]:
        """Do the run, and report its failure if it fails."""
        self._retries = retries
        while True:
            self._lane = None
            try:
                return self._done()
            except DispatcherError as error:
                self.state["Error"] = self._caught(error)
            self.state = self._report_failure()

    def _caught(self, error: DispatcherError) -> dict[str, str]:
        """What a Catch leaves: of a lane, the description of the lane's own execution."""
        caught = {"Error": type(error).__name__, "Cause": json.dumps({"errorMessage": str(error)})}
        if self._lane is None:
            return caught
        told = {"ExecutionArn": "lane", "Input": json.dumps(self._lane), "Status": "FAILED", **caught}
        return {"Error": "States.TaskFailed", "Cause": json.dumps(told)}

    def redrive(self, retries: int = 0) -> dict[str, Any]:
        """Go on in the state that was the last: the report of a failure, or the task in which the execution died."""
        self._redrives += 1
        if "Error" in self.state:
            self.state = self._report_failure()
        return self.start(retries)

    def _done(self) -> dict[str, Any]:
        state = self.state
        if "Leases" not in state:
            state |= self._tried(SMALL_TASK_SECONDS, self._take_leases)
        if not state["Leases"]["Held"]:
            return {"Outcome": "AlreadyRunning", **state["Leases"]["Holder"]}
        run = Run.from_state(state["Run"])
        others = Others.from_state(state["Leases"]["Others"])
        in_lanes = run.in_lanes and not run.dry_run
        for _ in range(MAX_PAGES_OF_A_TEST):
            progress = Progress.from_state(state["Progress"])
            if progress.stopped or not progress.has_more:
                return self._tried(SMALL_TASK_SECONDS, self._summarize, run, progress)
            if in_lanes:
                state |= self._tried(PAGE_TASK_SECONDS, self._lay_out, run, others)
                for lane in state["Lanes"]:
                    self._lane = lane
                    self._do_lane(run, others, Step(lane["Step"]), Progress.from_state(lane["Progress"]))
                    self._lane = None
                continue
            state["Progress"] = self._tried(TASK_SECONDS[run.path], self._attempt, run, progress, others)
            in_lanes = Progress.from_state(state["Progress"]).hands_over(run.page_budget) and not run.dry_run
        raise AssertionError("the run does not end")

    def _lay_out(self, run: Run, others: Others) -> dict[str, Any]:
        world = self._world
        layout = lay_out_lanes(run, others, world.dispatch, world.ledger, world.clock() + PAGE_FUNCTION_SECONDS)
        self._rounds += 1
        return layout.to_state(run, self._rounds)

    def _do_lane(self, run: Run, others: Others, step: Step, progress: Progress) -> None:
        """What a lane's execution does: page after page, until the lane ends, is stopped or hands over."""
        for _ in range(MAX_PAGES_OF_A_TEST):
            following = self._tried(PAGE_TASK_SECONDS, self._attempt_lane, step, run, progress, others)
            progress = Progress.from_state(following)
            if not progress.has_more or progress.stopped or progress.hands_over(run.page_budget):
                return
        raise AssertionError("the lane does not end")

    def _attempt_lane(self, step: Step, run: Run, progress: Progress, others: Others) -> dict[str, Any]:
        return self._world.attempt_lane(step, run, progress, others).to_state()

    def _take_leases(self) -> dict[str, Any]:
        run, progress = Run.from_state(self.state["Run"]), Progress.from_state(self.state["Progress"])
        return take_leases(run, progress, self._world.ledger, self._world.ledger).to_state()

    def _attempt(self, run: Run, progress: Progress, others: Others) -> dict[str, Any]:
        return self._world.attempt(run, progress, others).to_state()

    def _summarize(self, run: Run, progress: Progress) -> dict[str, Any]:
        ledger = self._world.ledger
        summary = summarize_run(run, progress, ledger, ledger, self._world.clock())
        delete_staged(run, progress, ledger, self._world.staging, lambda: True)
        return summary

    def _report_failure(self) -> dict[str, Any]:
        context = {"Id": f"execution:{self.state['Run']['ExecutionId']}", "RedriveCount": self._redrives}
        ledger = self._world.ledger
        return _through_json(report_failure(self.state, context, ledger, ledger, self._world.notifier))

    def _tried(self, seconds: int, task: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        while True:
            try:
                return _through_json(task(*arguments))
            except (TransientError, Died) as error:
                if not self._retries:
                    raise
                self._retries -= 1
                self._world.clock.advance(seconds if isinstance(error, Died) else 1)


def walk(world: World, run: Run, *, retries: int = 0) -> dict[str, Any]:
    """An execution from its start to its end."""
    return Execution(world, run).start(retries)


def total(plans: Iterable[Plan]) -> Counts:
    """What the finished ones among the plans counted."""
    return sum((plan.counts for plan in plans if plan.finished), Counts())


def _through_json(value: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(value, allow_nan=False))
    return copy


@dataclass
class FakeSandbox:
    """All that the worker works with: the world's objects and bookings, and what was granted of them.

    Its operations are `read object`, `newest`, `is finished`, `is granted`, `grant`, `postpone`, `finish` and
    `note failure`.
    """

    world: World
    granted: list[str] = field(default_factory=list)
    """The record ids in the order in which they were granted; one that is granted twice stands there twice."""
    stock: dict[str, int] = field(default_factory=dict)
    """How many coupons are left, by promotion engine; without an entry there are enough."""
    finished: dict[str, Mapping[str, int]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    _versions: set[str] = field(default_factory=set)

    @property
    def desk(self) -> Desk:
        """What a worker is given."""
        index = self.world.index
        return Desk(
            objects=self,
            bookings=self,
            grants=self,
            log=self,
            schema=Schema(index.key_attributes, index.date_attribute),
            bucket=BUCKET,
            postponed_by=timedelta(hours=1),
            clock=self.now,
        )

    def now(self) -> datetime:
        """The world's time."""
        return datetime.fromtimestamp(self.world.clock(), UTC)

    def read(self, key: str, extent: Extent | None = None) -> bytes:
        """See `TaskObjects.read`."""
        with self.world.faults.call("read object"):
            if key not in self.world.task_data.objects:
                raise UnworkableTask("its object is missing")
            return self.world.task_data.body(key, extent)

    def newest(self, key: Item) -> Item | None:
        """See `Bookings.newest`."""
        with self.world.faults.call("newest"):
            return self._found(key)

    def postpone(self, standing: Standing, to: RecordVersion) -> bool:
        """See `Bookings.postpone`."""
        with self.world.faults.call("postpone"):
            stands = self._found(standing.order.key) == standing.booking
            if stands:
                moved = {self.world.index.date_attribute: {"S": to.date}, TIME_ATTRIBUTE: {"S": to.time}}
                self.world.index.put({**standing.booking, **moved})
            return stands

    def grant(self, standing: Standing) -> Answer:
        """See `Grants.grant`."""
        order, engine = standing.order, standing.order.group.engine
        with self.world.faults.call("grant"):
            if order.version_text in self._versions:
                return Answer.ALREADY_GRANTED
            if self._found(order.key) != standing.booking:
                return Answer.CHANGED
            if order.route is Route.COUPON and self.stock.get(engine) == 0:
                return Answer.OUT_OF_STOCK
            if order.route is Route.COUPON and engine in self.stock:
                self.stock[engine] -= 1
            self._versions.add(order.version_text)
            self.granted.append(json.loads(order.version.key)["RecordId"])
            self.world.index.put({**standing.booking, "RewardStatus": {"S": "Rewarded"}})
            return Answer.GRANTED

    def is_granted(self, order: Order) -> bool:
        """See `Grants.is_granted`."""
        with self.world.faults.call("is granted"):
            return order.version_text in self._versions

    def is_finished(self, task_id: str) -> bool:
        """See `TaskLog.is_finished`."""
        with self.world.faults.call("is finished"):
            return task_id in self.finished

    def finish(self, task_id: str, counts: Mapping[str, int]) -> None:
        """See `TaskLog.finish`."""
        with self.world.faults.call("finish"):
            self.finished[task_id] = dict(counts)

    def note_failure(self, message: WorkerMessage, reason: str) -> None:
        """See `TaskLog.note_failure`."""
        with self.world.faults.call("note failure"):
            self.failures[message.message_id] = reason

    def _found(self, key: Item) -> Item | None:
        records = self.world.index.records.values()
        return next((record for record in records if all(record[name] == key[name] for name in key)), None)
