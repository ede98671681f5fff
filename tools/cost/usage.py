"""What one hour of bookings uses: calls, capacity units, seconds, transitions and bytes, counted from the code.

Each function below follows one part of the product, call by call, and takes its limits from it.  What cannot be counted
was measured (`benchmarks.scale`, `benchmarks.reconcile`), or is assumed; both stand here as constants and say which.
It is an hour's first run: looking up what earlier runs dispatched, retries and failures are not in it.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from typing import Final

from functions.adapters.ledger_table import RETENTION_SECONDS
from functions.adapters.multipart import PART_BYTES
from functions.adapters.staging import MAX_PIECE_BYTES, MIN_PIECE_BYTES, READ_BYTES
from functions.adapters.task_queues import MAX_ENTRIES
from functions.domain.budget import CALL_SECONDS, PAGE_FUNCTION_SECONDS
from functions.domain.pack import Layout
from functions.domain.run import DEFAULT_PAGE_BUDGET, Path
from functions.domain.staging import BUCKETS
from functions.usecases.attempt import CONFIRMED_SECONDS
from functions.usecases.compare_records import SHARE_LINES
from functions.usecases.dispatch_window import CHUNK_RECORDS
from functions.usecases.lay_out_lanes import FOLD_OBJECTS, MAX_FOLDS, MERGE_RECORDS
from functions.usecases.merge_bucket import CHUNK_BYTES, GIANT_BYTES
from functions.usecases.pieces import PIECE_LINES
from functions.usecases.read_bookings import PAGE_RECORDS

ROWS_A_QUERY: Final = 250
KEYS_A_BATCH: Final = 100
QUERY_BYTES: Final = 1024 * 1024
WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096
KEYS_A_LISTING: Final = 1000
"""And as many in one deletion."""
MESSAGE_UNIT_BYTES: Final = 64 * 1024

SMALL_MEMORY_MB: Final = 512
COUNTING_MEMORY_MB: Final = 1024
PAGE_MEMORY_MB: Final = 1536
WINDOW_MEMORY_MB: Final = 3008
"""As `infra/functions.py` sets them; a test holds these against it."""
CPU_MEMORY_MB: Final = 1769
"""A function with so much memory has one CPU, and a smaller one as much less of it."""

PAGE_CPU: Final = (55e-6, 635e-6)
"""CPU seconds for a record and for a task, where a page is read and dispatched; measured, as all CPU seconds are."""
PACKED_CPU: Final = (47e-6, 106e-6)
"""The same where bodies are packed, without an upload for each task; measured on hours of groups of 1 and of 5."""
STAGE_CPU: Final = 50.9e-6
FOLD_CPU: Final = 11.7e-6
MERGE_CPU: Final = (30e-6, 660e-6)
ROW_CPU: Final = 110e-6
"""For a plan's row, where lanes are laid out."""
RECONCILE_CPU: Final = (95e-6, 15e-6)
"""For a record and for a task."""
SMALL_SECONDS: Final = 0.2
"""Of a call that reads or writes a few rows; assumed."""
CALL_LATENCY_SECONDS: Final = 0.015
"""Of a call of AWS; assumed."""

DOCUMENT_A_BYTE: Final = 1.14
"""A record as JSON, against DynamoDB's own count of it; measured."""
LINE_BYTES: Final = 180
"""Of a staged line, beside its record; measured."""
OBJECT_BYTES: Final = 330
"""Of a task's object, beside its records; measured."""
MESSAGE_BYTES: Final = 600
"""Of a message with its ids; measured."""
PLAN_TASK_BYTES: Final = 6
PACKED_TASK_BYTES: Final = 40
PLAN_RECORD_BYTES: Final = 4
MERGED_RECORD_BYTES: Final = 6
"""Of a plan's compressed tasks: for a task, for one whose body lies in a pack, and for a record of either; measured,
with keys of 12 characters."""
PLAN_BYTES: Final = 100
ITEM_BYTES: Final = 100
"""What DynamoDB adds to each item that it stores."""
ROW_BYTES: Final = 700
STAGED_ROW_BYTES: Final = 1300
"""Of a plan's row, and of one with the index of its staged object; measured."""
RECONCILED_BYTES: Final = 190
"""Of a line of a reconcile; measured."""
REREAD: Final = 1.19
"""Staged objects are read in pieces that are not quite full; measured."""
COUPON_SHARE: Final = 0.2
"""Of the tasks, which go to two queues; assumed."""

COUNTED_LOG_BYTES: Final = 1190
"""What a call logs that counts what it did: one line, and its metrics; measured."""
LOG_BYTES: Final = 500
"""Of any other call's line; assumed."""
PLATFORM_LOG_BYTES: Final = 300
"""Of Lambda's own lines of a call; assumed."""
EVENT_LOG_BYTES: Final = 400
"""Of a state machine's event; assumed."""

PAGE_LOOP: Final = ("Dispatch page", "More pages?")
RUN: Final = (
    "Begin run",
    "Plan run",
    "Take leases",
    "Window free?",
    "Which path?",
    "Summarize run",
    "Window dispatched",
)
WHOLE_WINDOW: Final = ("Dispatch whole window",)
HAND_OVER: Final = ("Dry run?",)
LAYOUT: Final = ("Lay out lanes", "Note progress", "Lanes left?")
LANES: Final = ("Dispatch lanes",)
STARTED_LANE: Final = ("Dispatch lane", "Note lane")
LANE: Final = ("Begin lane", "Which step?", "Lane done")
LANE_LOOP: Final = ("Stage page", "Which step?")
RECONCILE: Final = ("Begin reconcile", "Plan reconcile", "Write report", "Window reconciled")
RECONCILE_LOOP: Final = ("Read bookings", "More bookings?")
"""The states that are gone through; a test holds them against the definitions."""
TASK_STATES: Final = frozenset(
    {
        *("Dispatch page", "Plan run", "Take leases", "Summarize run", "Dispatch whole window", "Lay out lanes"),
        *("Dispatch lane", "Stage page", "Plan reconcile", "Write report", "Read bookings"),
    }
)
TASK_EVENTS: Final = 5
STATE_EVENTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """One hour's run: what it read, and what came of it."""

    path: Path
    evaluated: float
    """Bookings that were read."""
    dispatched: float
    """Bookings that are in tasks."""
    tasks: float
    pages: float
    page_size: int
    record_bytes: int
    slices: int = 1
    layout: Layout = Layout.OBJECT

    @property
    def objects(self) -> float:
        """Objects of task data: one for each task, or for each plan that has any."""
        return self.tasks if self.layout is Layout.OBJECT else min(self.tasks, _plans(self))

    @property
    def plan_task_bytes(self) -> int:
        """Of a task in a plan."""
        return PLAN_TASK_BYTES if self.layout is Layout.OBJECT else PACKED_TASK_BYTES

    @property
    def page_cpu(self) -> tuple[float, float]:
        """CPU seconds for a record and for a task."""
        return PAGE_CPU if self.layout is Layout.OBJECT else PACKED_CPU

    @property
    def group_size(self) -> float:
        """Bookings of a task."""
        return self.dispatched / self.tasks if self.tasks else 1

    @property
    def document_bytes(self) -> float:
        """A record in a task's object."""
        return self.record_bytes * DOCUMENT_A_BYTE

    @property
    def object_bytes(self) -> float:
        """A task's object."""
        return OBJECT_BYTES + self.group_size * (self.document_bytes + 1)


def page_bookings(page_size: int, record_bytes: int) -> int:
    """So many bookings a page has at most: a query's answer ends at 1 MB."""
    return max(1, min(page_size, QUERY_BYTES // record_bytes))


def pages_of(bookings: float, page_size: int, record_bytes: int, slices: int = 1) -> int:
    """So many queries read an hour: a slice's last full page has an empty one behind it."""
    return slices * (int(bookings / slices) // page_bookings(page_size, record_bytes) + 1)


@dataclass(slots=True)
class Usage:
    """What is paid for."""

    calls: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By API operation."""
    index_read_units: float = 0
    ledger_read_units: float = 0
    ledger_write_units: float = 0
    invocations: float = 0
    busy_gb_seconds: float = 0
    """While a function computes."""
    waiting_gb_seconds: float = 0
    """While it waits for AWS."""
    transitions: float = 0
    function_log_bytes: float = 0
    machine_log_bytes: float = 0
    task_bytes: float = 0
    """Of task objects, which are kept."""
    ledger_bytes: float = 0
    """Of rows, which are kept as long as the ledger keeps them."""
    starts: float = 0
    """By a schedule."""

    def __add__(self, other: "Usage") -> "Usage":
        calls = Counter(self.calls)
        calls.update(other.calls)
        numbers = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)[1:]}
        return Usage(defaultdict(float, calls), **numbers)

    def call(self, operation: str, times: float = 1) -> None:
        """Count calls of AWS."""
        if times:
            self.calls[operation] += times

    def transact(self, times: float, *item_bytes: float) -> None:
        """Count transactions over items of these sizes; a condition is paid like a write, and each of them twice."""
        self.call("TransactWriteItems", times)
        self.ledger_write_units += times * 2 * sum(map(_write_units, item_bytes))

    def renew(self, times: float) -> None:
        """Count renewals of a run's leases: both edges and the fence."""
        self.transact(times, 0, 0, 0)

    def plan(self, times: float, row_bytes: float, body_bytes: float) -> None:
        """Count plans that are created: row, tasks, both edges and the fence."""
        self.transact(times, row_bytes, body_bytes + PLAN_BYTES, 0, 0, 0)
        self.ledger_bytes += times * (row_bytes + body_bytes + PLAN_BYTES + 2 * ITEM_BYTES)

    def finish(self, times: float, row_bytes: float = ROW_BYTES) -> None:
        """Count plans that are finished: row, both edges and the fence."""
        self.transact(times, row_bytes, 0, 0, 0)

    def list_rows(self, rows: float, row_bytes: float = ROW_BYTES, times: float = 1) -> None:
        """Count listings of so many rows of the ledger, read consistently."""
        queries = times * (rows // ROWS_A_QUERY + 1)
        self.call("Query", queries)
        self.ledger_read_units += max(queries, times * rows * row_bytes / READ_UNIT_BYTES)

    def read_index(self, pages: float, records: float, record_bytes: float) -> None:
        """Count queries of the bookings' index, which are eventually consistent, at half the price."""
        self.call("Query", pages)
        self.index_read_units += max(pages, records * record_bytes / READ_UNIT_BYTES) / 2

    def write_object(self, times: float, size: float) -> None:
        """Count objects that are written, in parts where they are large."""
        if size < PART_BYTES:
            self.call("PutObject", times)
            return
        self.call("CreateMultipartUpload", times)
        self.call("UploadPart", times * math.ceil(size / PART_BYTES))
        self.call("CompleteMultipartUpload", times)

    def read_objects(self, times: float, objects: float, size: float) -> None:
        """Count merges of so many objects side by side, so many bytes of each."""
        piece = min(max(READ_BYTES / max(1, objects), MIN_PIECE_BYTES), MAX_PIECE_BYTES)
        self.call("GetObject", times * objects * math.ceil(REREAD * size / piece))

    def send(self, times: float, tasks: float) -> None:
        """Count batches of messages for so many tasks at a time; one that has room left is sent too."""
        for share in (1 - COUPON_SHARE, COUPON_SHARE):
            batches = tasks * share / MAX_ENTRIES + (MAX_ENTRIES - 1) / 2 / MAX_ENTRIES
            self.call("SendMessageBatch", times * min(tasks * share, batches))

    def invoke(
        self, times: float, cpu: float, calls_in_line: float, memory_mb: int = PAGE_MEMORY_MB, *, counts: bool = False
    ) -> float:
        """Count calls of a function: CPU seconds of all, and AWS calls of each that wait for one another.

        A function has the CPU that its memory buys, and one thread computes.  The seconds of each are returned.
        """
        busy = cpu / min(1, memory_mb / CPU_MEMORY_MB)
        waiting = times * calls_in_line * CALL_LATENCY_SECONDS
        self.invocations += times
        self.busy_gb_seconds += busy * memory_mb / 1024
        self.waiting_gb_seconds += waiting * memory_mb / 1024
        self.function_log_bytes += times * ((COUNTED_LOG_BYTES if counts else LOG_BYTES) + PLATFORM_LOG_BYTES)
        return (busy + waiting) / times if times else 0

    def confirm(self, times: float, seconds: float) -> None:
        """Count looks at the leases, which a call takes every two seconds that it lasts."""
        looks = times * (seconds // CONFIRMED_SECONDS)
        self.call("BatchGetItem", looks)
        self.ledger_read_units += 3 * looks

    def go_through(self, states: tuple[str, ...], times: float = 1) -> None:
        """Count transitions, and what the state machine logs of them."""
        self.transitions += times * len(states)
        events = sum(TASK_EVENTS if state in TASK_STATES else STATE_EVENTS for state in states)
        self.machine_log_bytes += times * events * EVENT_LOG_BYTES


def _write_units(size: float) -> int:
    return max(1, math.ceil(size / WRITE_UNIT_BYTES))


def run_of(hour: Hour) -> Usage:
    """All that the hour's run uses."""
    return once(hour) + dispatching(hour)


def dispatching(hour: Hour) -> Usage:
    """What grows with the hour."""
    usage = {Path.FULL: _full, Path.PAGED: _paged, Path.GROUPED: _grouped}[hour.path](hour)
    usage.task_bytes = hour.tasks * hour.object_bytes
    return usage


def once(hour: Hour) -> Usage:
    """What a run does once, however large its hour is: it is started, takes its leases and gives them back."""
    usage = Usage(starts=1)
    usage.go_through(RUN)
    usage.call("GetParameters")
    usage.transact(1, 0, 0, 0, 0)
    usage.list_rows(0, times=3)
    usage.call("UpdateItem")
    usage.call("DeleteItem", 2)
    usage.ledger_write_units += 3
    usage.invoke(2, 2 * SMALL_SECONDS * SMALL_MEMORY_MB / CPU_MEMORY_MB, 3, SMALL_MEMORY_MB)
    usage.invoke(1, SMALL_SECONDS * COUNTING_MEMORY_MB / CPU_MEMORY_MB, 3, COUNTING_MEMORY_MB)
    if hour.path is Path.GROUPED:  # what was staged is listed, and deleted, which costs nothing
        usage.list_rows(hour.pages + _chunks(hour), STAGED_ROW_BYTES)
        usage.call("DeleteObjects", math.ceil(hour.pages / KEYS_A_LISTING))
    return usage


def _full(hour: Hour) -> Usage:
    """One call reads all pages, and dispatches in chunks."""
    usage = Usage()
    chunks = max(1, math.ceil(hour.dispatched / _chunk_records(hour, math.inf)))
    usage.go_through(WHOLE_WINDOW)
    usage.call("GetParameters", chunks)
    usage.list_rows(0)
    usage.renew(1)
    usage.read_index(hour.pages, hour.evaluated, hour.record_bytes)
    cpu = _cpu(hour.page_cpu, hour.evaluated, hour.tasks)
    seconds = usage.invoke(1, cpu, hour.pages + 3 * chunks, WINDOW_MEMORY_MB, counts=True)
    usage.confirm(1, seconds)
    _dispatch(usage, hour, chunks, MERGED_RECORD_BYTES)
    return usage


def _paged(hour: Hour) -> Usage:
    """A call reads one page and dispatches it; what is beyond the page budget is done in lanes."""
    usage = Usage()
    usage.call("GetParameters", hour.pages)
    usage.renew(hour.pages)
    usage.call("GetItem", hour.pages)
    usage.ledger_read_units += hour.pages
    usage.read_index(hour.pages, hour.evaluated, hour.record_bytes)
    cpu = _cpu(hour.page_cpu, hour.evaluated, hour.tasks)
    seconds = usage.invoke(hour.pages, cpu, 6, counts=True)
    usage.confirm(hour.pages, seconds)
    filled = _filled(hour)
    _dispatch(usage, hour, filled, PLAN_RECORD_BYTES)
    usage.plan(hour.pages - filled, ROW_BYTES, 0)
    usage.finish(hour.pages - filled)
    if hour.slices > 1:
        _in_lanes(usage, hour.pages, hour.slices)
        return usage
    own = min(hour.pages, DEFAULT_PAGE_BUDGET)
    usage.go_through(PAGE_LOOP, own)
    if hour.pages > own:
        usage.go_through(HAND_OVER)
        _in_lanes(usage, hour.pages - own, 1, rows_before=own)
    return usage


def _in_lanes(usage: Usage, pages: float, lanes: int, rows_before: float = 0) -> None:
    """Pages that are read in lanes, each of which ends when the page budget does and is laid out anew."""
    rounds = math.ceil(pages / lanes / DEFAULT_PAGE_BUDGET)
    usage.go_through(LANES, rounds)
    usage.go_through((*STARTED_LANE, *LANE), rounds * lanes)
    usage.go_through(LANE_LOOP, pages)
    for number in range(rounds + 1):
        _lay_out(usage, rows_before + pages * number / rounds, ROW_BYTES)
    usage.call("GetParameters", rounds)


def _lay_out(usage: Usage, rows: float, row_bytes: float) -> None:
    usage.go_through(LAYOUT)
    usage.invoke(1, SMALL_SECONDS * PAGE_MEMORY_MB / CPU_MEMORY_MB + rows * ROW_CPU, 2)
    usage.list_rows(rows, row_bytes)


def _grouped(hour: Hour) -> Usage:
    """Pages are staged, folded where they are many, merged by bucket, and dispatched in chunks."""
    usage = Usage()
    pages, filled = hour.pages, _filled(hour)
    line = hour.document_bytes + LINE_BYTES
    usage.call("GetParameters", pages)
    usage.renew(pages)
    usage.call("GetItem", pages)
    usage.ledger_read_units += pages
    usage.read_index(pages, hour.evaluated, hour.record_bytes)
    usage.write_object(filled, hour.dispatched / filled * line if filled else 0)
    usage.plan(filled, STAGED_ROW_BYTES, 0)
    usage.plan(pages - filled, ROW_BYTES, 0)
    usage.invoke(pages, hour.evaluated * STAGE_CPU, 6, counts=True)
    rounds = math.ceil(pages / hour.slices / DEFAULT_PAGE_BUDGET)
    lanes = rounds * hour.slices
    calls = pages

    for number in range(rounds):
        _lay_out(usage, pages * number / rounds, STAGED_ROW_BYTES)
    usage.renew(1)
    usage.plan(1, ROW_BYTES, 0)
    objects = filled
    folds = _folds(filled)
    if folds:
        _lay_out(usage, pages, STAGED_ROW_BYTES)
        rounds += 1
        lanes += folds
        calls += folds
        _fold(usage, hour, folds, line)
        objects = folds
    merges = _merges(hour)
    _lay_out(usage, pages + folds, STAGED_ROW_BYTES)
    merge_calls = _merge(usage, hour, objects, folded=bool(folds))
    _lay_out(usage, pages + folds + _chunks(hour), STAGED_ROW_BYTES)
    rounds += 1
    lanes += merges
    calls += merge_calls

    usage.call("GetParameters", rounds)
    usage.go_through(LANES, rounds)
    usage.go_through((*STARTED_LANE, *LANE), lanes)
    usage.go_through(LANE_LOOP, calls)
    return usage


def _fold(usage: Usage, hour: Hour, folds: int, line: float) -> None:
    filled = _filled(hour)
    usage.call("GetParameters", folds)
    usage.renew(folds)
    usage.call("GetItem", folds)
    usage.ledger_read_units += folds
    for number in range(1, folds + 1):  # each lists the rows up to its last page
        usage.list_rows(filled * number / folds, STAGED_ROW_BYTES)
    usage.read_objects(folds, filled / folds, hour.dispatched / filled * line)
    usage.write_object(folds, hour.dispatched / folds * line)
    usage.plan(folds, STAGED_ROW_BYTES, 0)
    seconds = usage.invoke(folds, hour.dispatched * FOLD_CPU, 6)
    usage.confirm(folds, seconds)


def _merge(usage: Usage, hour: Hour, objects: float, *, folded: bool) -> float:
    """So many calls of the function do all merges."""
    merges, chunks = _merges(hour), _chunks(hour)
    line = hour.document_bytes + LINE_BYTES
    cpu = _cpu(MERGE_CPU, hour.dispatched, hour.tasks)
    busy = cpu / (PAGE_MEMORY_MB / CPU_MEMORY_MB)
    in_line = 3 * chunks
    needed = (busy + in_line * CALL_LATENCY_SECONDS) / merges
    calls = merges * max(1, math.ceil(needed / (PAGE_FUNCTION_SECONDS - 2 * CALL_SECONDS)))
    seconds = usage.invoke(calls, cpu, in_line / calls + 3, counts=True)
    usage.confirm(calls, seconds)
    usage.call("GetParameters", chunks)
    usage.renew(calls)
    usage.call("GetItem", calls)
    usage.ledger_read_units += calls
    usage.list_rows(objects, STAGED_ROW_BYTES, calls)
    if not folded:
        usage.list_rows(0, times=calls)  # for folds, before the pages
    twice = 2 if hour.group_size * line > GIANT_BYTES else 1
    usage.read_objects(calls * twice, objects, hour.dispatched * line / calls / objects if objects else 0)
    _dispatch(usage, hour, chunks, MERGED_RECORD_BYTES)
    return calls


def _dispatch(usage: Usage, hour: Hour, plans: float, record_bytes: float) -> None:
    """The tasks of so many plans: objects, messages, and the plans themselves."""
    if not plans:
        return
    objects = hour.tasks if hour.layout is Layout.OBJECT else min(hour.tasks, plans)
    usage.write_object(objects, hour.tasks / objects * hour.object_bytes if objects else 0)
    usage.send(plans, hour.tasks / plans)
    body = (hour.tasks * hour.plan_task_bytes + hour.dispatched * record_bytes) / plans
    usage.plan(plans, ROW_BYTES, body)
    usage.finish(plans)


def _cpu(rates: tuple[float, float], records: float, tasks: float) -> float:
    return records * rates[0] + tasks * rates[1]


def _filled(hour: Hour) -> float:
    """Pages with bookings."""
    if not hour.evaluated:
        return 0
    return min(hour.pages, math.ceil(hour.evaluated / page_bookings(hour.page_size, hour.record_bytes)))


def _folds(staged: float) -> int:
    if staged <= FOLD_OBJECTS:
        return 0
    return math.ceil(staged / max(FOLD_OBJECTS, math.ceil(staged / MAX_FOLDS)))


def _merges(hour: Hour) -> int:
    return min(BUCKETS, max(1, math.ceil(hour.dispatched / MERGE_RECORDS)))


def _chunk_records(hour: Hour, most_bytes: float) -> float:
    """A chunk is closed behind the group with which it is full."""
    records = min(CHUNK_RECORDS, most_bytes / (hour.document_bytes + LINE_BYTES))
    return hour.group_size * math.ceil(records / hour.group_size)


def _chunks(hour: Hour) -> float:
    """Of all merges: each one's last chunk is half full, but for an hour of one merge, which may be one chunk."""
    merges = _merges(hour)
    chunks = hour.dispatched / _chunk_records(hour, CHUNK_BYTES)
    return math.ceil(chunks) or 1 if merges == 1 else chunks + merges / 2


def reconciling(hour: Hour) -> Usage:
    """A reconcile of the hour: what was booked, what lies in the bucket, and what was planned, compared."""
    usage = Usage(starts=1)
    lines = hour.evaluated + hour.objects + hour.dispatched
    of_bookings, of_objects, of_plans = (
        int(count / PIECE_LINES) + 1 for count in (hour.evaluated, hour.objects, hour.dispatched)
    )
    shares = max(1, math.ceil(lines / SHARE_LINES))
    staged = math.ceil(hour.evaluated / PIECE_LINES) + of_objects + of_plans
    pieces = of_bookings + of_objects + of_plans + shares
    usage.go_through(RECONCILE)
    usage.go_through(RECONCILE_LOOP, pieces)
    usage.call("GetItem", pieces)
    usage.call("PutItem", pieces)
    usage.ledger_read_units += pieces
    usage.ledger_write_units += 2 * pieces
    usage.ledger_bytes += pieces * STAGED_ROW_BYTES
    pages = hour.evaluated // page_bookings(PAGE_RECORDS, hour.record_bytes) + 3  # two of them see what no hour reads
    usage.read_index(pages, hour.evaluated, hour.record_bytes)
    usage.call("ListObjectsV2", hour.objects // KEYS_A_LISTING + 1)
    plans = _plans(hour)
    bodies = hour.tasks * hour.plan_task_bytes + hour.dispatched * PLAN_RECORD_BYTES
    usage.list_rows(0, times=4 * of_plans + 2 + 4 * shares + 6)
    usage.ledger_read_units += (plans * ROW_BYTES + bodies) / READ_UNIT_BYTES
    usage.call("BatchGetItem", max(of_plans, math.ceil(plans / KEYS_A_BATCH)))
    usage.call("PutObject", staged + 1)
    usage.read_objects(shares, staged, lines * RECONCILED_BYTES / staged / shares)
    cpu = _cpu(RECONCILE_CPU, hour.evaluated, hour.tasks)
    usage.invoke(pieces, cpu, pages / pieces + 3)
    usage.invoke(2, 2 * SMALL_SECONDS * PAGE_MEMORY_MB / CPU_MEMORY_MB, 0)
    return usage


def _plans(hour: Hour) -> float:
    return hour.pages if hour.path is Path.PAGED else _chunks(hour)


LEDGER_DAYS: Final = RETENTION_SECONDS / (24 * 3600)
