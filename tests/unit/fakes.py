"""The outside world in memory: the ports' meaning without AWS, with faults, and a machine that walks a run.

A fault is an action before or after the n-th call of an operation.  The operations are `query`, `take`, `others`,
`renew`, `release`, `read plan`, `plans`, `create plan`, `finish plan`, `set aside`, `upload` (each object) and `send`
(each batch).
"""

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from functions.domain.booking import BadRecord, Route
from functions.domain.budget import PAGE_LEASE_SECONDS, PAGE_TASK_SECONDS, WINDOW_LEASE_SECONDS, WINDOW_TASK_SECONDS
from functions.domain.cursor import DATE_ATTRIBUTE, TIME_ATTRIBUTE, Token, start_key, token_of
from functions.domain.errors import DispatcherError, DispatchFailed, LeaseLost, TransientError, WindowBusy
from functions.domain.page import QueryPage
from functions.domain.plan import Plan
from functions.domain.run import Others, Path, Progress, Run
from functions.domain.task import NewTask, Task, message_body, object_body, rounds
from functions.domain.values import Item
from functions.domain.window import Window
from functions.usecases.dispatch_page import dispatch_page
from functions.usecases.dispatch_window import dispatch_window
from functions.usecases.ports import Dispatch, Holder, Lease, Span
from functions.usecases.report_failure import report_failure
from functions.usecases.summarize_run import summarize_run
from functions.usecases.take_leases import take_leases, to_state

BUCKET: Final = "task-data"
DAY: Final = "2026-09-17"
STARTED_AT: Final = "2026-09-17T16:01:10.123Z"
DEDUPLICATION_SECONDS: Final = 300
MAX_PAGES_OF_A_TEST: Final = 200

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
    """The bookings R0 to R6 of the mission."""
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
    megabyte: int = 1_000_000
    """As many records fill the megabyte that ends a page before its limit does."""

    def put(self, *records: Item) -> None:
        """Add bookings, or replace those of the same key."""
        for record in records:
            self.records[self._key(record)] = record

    def delete(self, record_id: str) -> None:
        """Take away a booking of a table whose key is `RecordId`."""
        del self.records[json.dumps([{"S": record_id}])]

    def query_page(self, window: Window, token: Token | None, page_size: int) -> QueryPage:
        """See `BookingIndex.query_page`."""
        with self.faults.call("query"):
            behind = None if token is None else self._position(start_key(token))
            read = sorted(
                (
                    record
                    for record in self.records.values()
                    if record[DATE_ATTRIBUTE] == {"S": window.date}
                    and window.low <= record[TIME_ATTRIBUTE]["S"] <= window.high
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
        return (*self.key_attributes, DATE_ATTRIBUTE, TIME_ATTRIBUTE)

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
    key_attributes: Sequence[str] = ("RecordId",)

    def query_page(self, window: Window, token: Token | None, page_size: int) -> QueryPage:
        """See `BookingIndex.query_page`."""
        del window, page_size
        self.tokens.append(token)
        return next(self.pages)


class _Edge(NamedTuple):
    run_id: str
    window: Window
    until: float


@dataclass
class FakeLedger:
    """Leases, fences and plans; every write is all or nothing."""

    faults: Faults
    clock: Clock
    edges: dict[str, _Edge] = field(default_factory=dict)
    fences: dict[str, str] = field(default_factory=dict)
    runs: dict[Window, list[str]] = field(default_factory=dict)
    stored: dict[tuple[Window, str, int], tuple[str, Plan]] = field(default_factory=dict)
    _attempts: Iterator[int] = field(default_factory=itertools.count)

    def take(self, run: Run) -> Holder | None:
        """See `Leases.take`."""
        with self.faults.call("take", run.run_id):
            held = [self.edges[edge] for edge in run.window.edges if edge in self.edges]
            foreign = [edge for edge in held if edge.run_id != run.run_id and edge.until >= self.clock()]
            for edge in foreign:
                if edge.window == run.window:
                    return Holder(edge.run_id, int(edge.until))
            if foreign:
                raise WindowBusy(f"the run of window {foreign[0].window.start_text} holds an edge of this one")
            self._hold(run)
            if run.run_id not in self.runs.setdefault(run.window, []):
                self.runs[run.window].append(run.run_id)
        return None

    def others(self, run: Run) -> Others:
        """See `Leases.others`."""
        with self.faults.call("others"):
            return Others(
                before=bool(self.runs.get(run.window.previous)),
                own=any(run_id != run.run_id for run_id in self.runs.get(run.window, ())),
                after=bool(self.runs.get(run.window.next)),
            )

    def renew(self, run: Run) -> Lease:
        """See `Leases.renew`."""
        with self.faults.call("renew", run.run_id):
            if not all(self._is_holder(run, edge) for edge in run.window.edges):
                raise LeaseLost("the run no longer holds the edges of its window")
            self._hold(run)
            self.fences[run.run_id] = f"attempt-{next(self._attempts)}"
            return Lease(run, self.fences[run.run_id], int(self.clock()) + run.lease_seconds)

    def release(self, run: Run) -> None:
        """See `Leases.release`."""
        with self.faults.call("release", run.run_id):
            for edge in run.window.edges:
                if self._is_holder(run, edge):
                    del self.edges[edge]

    def read_plan(self, run: Run, page: int) -> Plan | None:
        """See `Ledger.read_plan`."""
        with self.faults.call("read plan", str(page)):
            if (run.window, run.run_id, page) not in self.stored:
                return None
            _, plan = self.stored[run.window, run.run_id, page]
            return replace(plan, tasks=()) if plan.finished else plan

    def plans(self, window: Window, span: Span | None = None, run_id: str | None = None) -> list[Plan]:
        """See `Ledger.plans`."""
        with self.faults.call("plans", window.start_text):
            return [
                plan
                for (of_window, of_run, _), (_, plan) in sorted(self.stored.items())
                if of_window == window and run_id in (None, of_run) and (span is None or _overlaps(plan, span))
            ]

    def create_plan(self, lease: Lease, plan: Plan) -> None:
        """See `Ledger.create_plan`."""
        place = (lease.run.window, lease.run.run_id, plan.page)
        with self.faults.call("create plan", str(plan.page)):
            if not self._still_held(lease) or place in self.stored:
                raise LeaseLost(f"page {plan.page} is no longer this attempt's to plan")
            self.stored[place] = lease.attempt, plan

    def finish_plan(self, lease: Lease, plan: Plan) -> Plan:
        """See `Ledger.finish_plan`: the tasks stay as they were written."""
        place = (lease.run.window, lease.run.run_id, plan.page)
        with self.faults.call("finish plan", str(plan.page)):
            if not self._still_held(lease):
                raise LeaseLost(f"page {plan.page} is no longer this attempt's to finish")
            attempt, written = self.stored[place]
            self.stored[place] = attempt, replace(written, counts=plan.counts, finished=True)
        return replace(plan, finished=True)

    def finished_task_ids(self) -> set[str]:
        """The ids of the tasks in finished plans."""
        return {task.task_id for _, plan in self.stored.values() if plan.finished for task in plan.tasks}

    def _hold(self, run: Run) -> None:
        until = int(self.clock()) + run.lease_seconds
        self.edges |= dict.fromkeys(run.window.edges, _Edge(run.run_id, run.window, until))

    def _is_holder(self, run: Run, edge: str) -> bool:
        return edge in self.edges and self.edges[edge].run_id == run.run_id

    def _still_held(self, lease: Lease) -> bool:
        """Both edges are the run's and not expired, the fence is the attempt's."""
        return self.fences.get(lease.run.run_id) == lease.attempt and all(
            self._is_holder(lease.run, edge) and self.edges[edge].until > self.clock()
            for edge in lease.run.window.edges
        )


def _overlaps(plan: Plan, span: Span) -> bool:
    moments = [version.moment for _, version in plan.members]
    return bool(moments) and max(moments) >= span.low and min(moments) <= span.high


@dataclass
class FakeTaskData:
    """The bucket."""

    faults: Faults
    objects: dict[str, bytes] = field(default_factory=dict)
    bad_records: dict[tuple[str, int], Sequence[BadRecord]] = field(default_factory=dict)

    def upload(self, tasks: Sequence[NewTask]) -> None:
        """See `TaskData.upload`."""
        for new in tasks:
            with self.faults.call("upload"):
                self.objects[new.task.object_key] = object_body(new, BUCKET)

    def set_aside(self, run: Run, page: int, records: Sequence[BadRecord]) -> None:
        """See `TaskData.set_aside`."""
        with self.faults.call("set aside", str(page)):
            self.bad_records[run.run_id, page] = records


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
    """The ids that were sent although they stood in a finished plan."""
    messages: list[Message] = field(default_factory=list)
    """What the consumers get."""
    _seen: dict[str, float] = field(default_factory=dict)

    def send(self, tasks: Sequence[Task], before_batch: Callable[[], None]) -> None:
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

    def _accept(self, task: Task) -> None:
        assert task.object_key in self.objects, "a message was sent before its object was there"
        self.sent.append(task.task_id)
        if task.task_id in self.ledger.finished_task_ids():
            self.needless.append(task.task_id)
        if self.clock() - self._seen.get(task.task_id, float("-inf")) > DEDUPLICATION_SECONDS:
            self._seen[task.task_id] = self.clock()
            self.messages.append(Message(task.route, task.message_group, message_body(task, BUCKET)))


class World:
    """Everything outside the use cases, wired together."""

    def __init__(self, *records: Item) -> None:
        """Start with these bookings in the table."""
        self.faults = Faults()
        self.clock = Clock()
        self.index = FakeIndex(self.faults)
        self.ledger = FakeLedger(self.faults, self.clock)
        self.task_data = FakeTaskData(self.faults)
        self.queues = FakeQueues(self.faults, self.clock, self.task_data.objects, self.ledger)
        self.dispatch = Dispatch(self.index, self.ledger, self.task_data, self.queues, self.clock)
        self.index.put(*records)

    def orders(self, message: Message) -> list[dict[str, Any]]:
        """The records in the object that a message points to."""
        orders: list[dict[str, Any]] = json.loads(self.task_data.objects[message.data["Key"]])["Orders"]
        return orders

    def record_ids(self) -> list[list[str]]:
        """The record ids of every task, in the order of arrival, as a consumer sees them that drops a repeated id."""
        first: dict[str, Message] = {}
        for message in self.queues.messages:
            first.setdefault(message.task["TaskId"], message)
        return [[order["RecordId"] for order in self.orders(message)] for message in first.values()]

    def snapshot(self) -> str:
        """All that a run can change, as text."""
        ledger, bucket = self.ledger, self.task_data
        effects = ledger.edges, ledger.fences, ledger.runs, ledger.stored, bucket.objects, bucket.bad_records
        return repr((*effects, self.queues.sent))


def a_run(**changes: Any) -> Run:
    """A planned run, by default of the window 15:00 to 16:00, in pages of 1000."""
    path = changes.get("path", Path.PAGED)
    run = Run(
        run_id="run-1",
        started_at=STARTED_AT,
        window=window(),
        path=path,
        page_size=1000,
        dry_run=False,
        set_aside_limit=100,
        lease_seconds=PAGE_LEASE_SECONDS if path is Path.PAGED else WINDOW_LEASE_SECONDS,
    )
    return replace(run, **changes)


def walk(world: World, run: Run, *, retries: int = 0) -> dict[str, Any]:
    """What the state machine does with a planned run: its output, or the error that the execution ends with.

    The state goes through JSON between the functions.  A transient error is tried again `retries` times in all; a
    process that died is tried again as if its task had timed out.
    """
    state: dict[str, Any] = {"Run": run.to_state(), "Progress": Progress().to_state()}
    try:
        state["Leases"] = _through_json(to_state(take_leases(run, world.ledger)))
        if not state["Leases"]["Held"]:
            return {"Outcome": "AlreadyRunning", **state["Leases"]["Holder"]}
        for _ in range(MAX_PAGES_OF_A_TEST):
            try:
                state["Progress"] = _through_json(_one_task(world, state))
            except (TransientError, Died) as error:
                if not retries:
                    raise
                retries -= 1
                task_seconds = PAGE_TASK_SECONDS if run.path is Path.PAGED else WINDOW_TASK_SECONDS
                world.clock.advance(task_seconds if isinstance(error, Died) else 1)
                continue
            if not state["Progress"]["HasMore"]:
                break
        else:
            raise AssertionError("the run does not end")
        progress = Progress.from_state(state["Progress"])
        return _through_json(summarize_run(Run.from_state(state["Run"]), progress, world.ledger, world.clock()))
    except DispatcherError as error:
        cause = json.dumps({"errorMessage": str(error)})
        raise report_failure(
            {**state, "Error": {"Error": type(error).__name__, "Cause": cause}}, world.ledger
        ) from error


def _one_task(world: World, state: Mapping[str, Any]) -> dict[str, Any]:
    run, progress = Run.from_state(state["Run"]), Progress.from_state(state["Progress"])
    do = dispatch_page if run.path is Path.PAGED else dispatch_window
    return do(run, progress, Others.from_state(state["Leases"]["Others"]), world.dispatch).to_state()


def _through_json(value: dict[str, Any]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(value, allow_nan=False))
    return copy
