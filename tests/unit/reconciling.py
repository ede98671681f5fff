"""A reconcile over the fakes, and a redo of its report: their own stores in memory, and the machines that walk them."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from functions.domain.booking import is_waiting
from functions.domain.budget import PAGE_FUNCTION_SECONDS
from functions.domain.cursor import TIME_ATTRIBUTE, Token, start_key, token_of
from functions.domain.errors import DispatcherError, InvalidInput
from functions.domain.page import QueryPage
from functions.domain.reconcile import Difference, Loop, Piece, Reconcile, Step
from functions.domain.redo import Redo
from functions.domain.run import Progress, Run
from functions.domain.values import Item
from functions.domain.window import Window, parse_instant
from functions.usecases.approval import check_approval
from functions.usecases.audit_table import audit_table
from functions.usecases.compare_records import compare_records
from functions.usecases.pieces import Recorder
from functions.usecases.plan_redo import plan_redo
from functions.usecases.read_bookings import read_bookings
from functions.usecases.read_objects import read_objects
from functions.usecases.read_plans import read_plans
from functions.usecases.redo_page import Count, count_page, redo_page
from functions.usecases.report_contract import CompareReport, ReconcileReport
from functions.usecases.report_failure import report_failure
from functions.usecases.summarize_run import summarize_run
from functions.usecases.take_leases import take_leases
from functions.usecases.write_report import write_report
from tests.unit.fakes import BUCKET, DAY, FakeIndex, Faults, World, window

STACK: Final = "BookingtimeDispatcherTest"
TAKEN_AT: Final = "2026-09-17T18:30:00Z"
MAX_PIECES: Final = 500
CLEAN: Final = dict.fromkeys((kind.value for kind in Difference), 0)


@dataclass
class FakePieces:
    """The pieces of all reconciles; a piece goes through JSON, as the ledger's row does."""

    faults: Faults
    rows: dict[tuple[str, Step, int], Piece] = field(default_factory=dict)

    def find(self, execution_id: str, step: Step, number: int) -> Piece | None:
        """See `Pieces.find`."""
        with self.faults.call("find piece"):
            return self.rows.get((execution_id, step, number))

    def record(self, execution_id: str, step: Step, piece: Piece) -> Piece:
        """See `Pieces.record`."""
        with self.faults.call("record piece", f"{step} {piece.number}"):
            cursor, counts = json.loads(json.dumps([piece.cursor, piece.counts]))
            stored = Piece(piece.number, cursor, counts, piece.staged)
            return self.rows.setdefault((execution_id, step, piece.number), stored)

    def of(self, execution_id: str, step: Step) -> Iterator[Piece]:
        """See `Pieces.of`."""
        return iter([self.rows[place] for place in sorted(self.rows) if place[:2] == (execution_id, step)])


@dataclass
class FakeTable:
    """The table that the index is of; a page ends after so many records, whatever is left of them."""

    index: FakeIndex
    faults: Faults
    page_records: int = 2

    @property
    def key_attributes(self) -> Sequence[str]:
        """See `BookingTable.key_attributes`."""
        return self.index.key_attributes

    def unkeyed_page(self, token: Token | None) -> QueryPage:
        """See `BookingTable.unkeyed_page`: it goes by the keys, and an exactly full page has a token."""
        with self.faults.call("scan"):
            keys = [self._key_of(record) for record in self.index.records.values()]
            after = 0 if token is None else 1 + keys.index(start_key(token))
            read = list(self.index.records.values())[after : after + self.page_records]
            last = self._key_of(read[-1]) if len(read) == self.page_records else None
            unkeyed = [self._key_of(record) for record in read if is_waiting(record) and not self._is_held(record)]
            return QueryPage(unkeyed, token_of(last), len(read))

    def _key_of(self, record: Item) -> Item:
        return {name: record[name] for name in self.key_attributes}

    def _is_held(self, record: Item) -> bool:
        return all("S" in record.get(name, {}) for name in (self.index.date_attribute, TIME_ATTRIBUTE))


@dataclass
class FakeObjects:
    """The tasks' objects by key."""

    objects: dict[str, bytes]

    def keys(self, prefix: str, after: str) -> Iterator[str]:
        """See `TaskObjects.keys`."""
        return iter(sorted(key for key in self.objects if key.startswith(prefix) and key > after))


def must_be_a_report(key: str, report: object) -> None:
    """Hold what was written under a key against the contract of its kind."""
    model = CompareReport if key.endswith("-compare.json") else ReconcileReport
    model.model_validate(report)


@dataclass
class FakeReports:
    """The reports."""

    faults: Faults
    bucket: str = BUCKET
    objects: dict[str, bytes] = field(default_factory=dict)

    def write(self, key: str, pieces: Iterable[bytes]) -> None:
        """See `Reports.write`."""
        with self.faults.call("write report", key):
            self.objects[key] = b"".join(pieces)
            if key.endswith(".json"):
                must_be_a_report(key, json.loads(self.objects[key]))

    def lines(self, key: str, offset: int = 0) -> Iterator[bytes]:
        """See `Reports.lines`."""
        with self.faults.call("read report", key):
            if key not in self.objects:
                raise InvalidInput(f"Report.Key: {key} is not there, or may not be read")
            return iter(self.objects[key][offset:].splitlines(keepends=True))


class Reconciler:
    """Reconciles windows of a world; `has_time` is asked by every call."""

    def __init__(self, world: World, has_time: Callable[[], bool] = lambda: True) -> None:
        """Begin with no reconcile."""
        self.world = world
        self.table = FakeTable(world.index, world.faults)
        self.pieces = FakePieces(world.faults)
        self.reports = FakeReports(world.faults)
        self.has_time = has_time
        self._recorder = Recorder(self.pieces, world.staging)

    def calls(self, reconcile: Reconcile) -> dict[Step, Callable[[Loop], Loop]]:
        """What the machine calls for each step."""
        world, recorder = self.world, self._recorder
        objects = FakeObjects(world.task_data.objects)
        return {
            Step.BOOKINGS: lambda loop: read_bookings(reconcile, loop, world.index, recorder, self.has_time),
            Step.TABLE: lambda loop: audit_table(reconcile, loop, self.table, recorder, self.has_time),
            Step.OBJECTS: lambda loop: read_objects(reconcile, loop, objects, recorder, self.has_time),
            Step.PLANS: lambda loop: read_plans(reconcile, loop, world.ledger, recorder, self.has_time),
            Step.COMPARED: lambda loop: compare_records(reconcile, loop, recorder),
        }

    def run(self, reconcile: Reconcile) -> dict[str, Any]:
        """An execution from its start to its output."""
        for step, call in self.calls(reconcile).items():
            loop = Loop(has_more=step is not Step.TABLE or reconcile.audit_table)
            for _ in range(MAX_PIECES):
                if not loop.has_more:
                    break
                loop = Loop.from_state(json.loads(json.dumps(call(loop).to_state())))
            else:
                raise AssertionError("the step does not end")
        return self.report(reconcile)

    def report(self, reconcile: Reconcile) -> dict[str, Any]:
        """The last step of an execution."""
        return write_report(reconcile, STACK, self.world.index.key_attributes, self._recorder, self.reports)

    def redo(self, place: Mapping[str, Any], name: str) -> int:
        """An execution of a redo of a report, which a second person approves; how many records it has dispatched."""
        given = {"Report": place, "RequestedBy": "Ann", "Reason": "They were missed."}
        run, redo = plan_redo({"Input": given, "Name": name, "StartTime": TAKEN_AT}, STACK, 0, self.reports)
        world, count = self.world, Count(Progress())
        while count.progress.has_more:
            count = count_page(run, redo, count, journal=world.ledger, reports=self.reports, dispatch=world.dispatch)
        if not count.to_state(0)["AnyLeft"]:
            return 0
        assert count.to_state(0)["NeedsApproval"]
        check_approval(redo, {"Approved": True, "By": "Bob"})
        try:
            return self._dispatched(run, redo)
        except DispatcherError as error:
            caught = {"Error": type(error).__name__, "Cause": json.dumps({"errorMessage": str(error)})}
            state = {"Run": run.to_state(), "Progress": Progress().to_state(), "Error": caught}
            report_failure(state, {"Id": name}, world.ledger, world.ledger, world.notifier)
            raise

    def _dispatched(self, run: Run, redo: Redo) -> int:
        world = self.world
        start = take_leases(run, Progress(), world.ledger, world.ledger)
        assert start.holder is None
        progress = start.progress
        while progress.has_more:
            deadline = world.clock() + PAGE_FUNCTION_SECONDS
            progress = redo_page(
                start.run,
                redo,
                progress,
                start.others,
                reports=self.reports,
                dispatch=world.dispatch,
                deadline=deadline,
            )
        summarize_run(start.run, progress, world.ledger, world.ledger, world.clock())
        return progress.totals.dispatched

    def written(self, output: dict[str, Any]) -> dict[str, Any]:
        """The report that an output points to."""
        report: dict[str, Any] = json.loads(self.reports.objects[output["Report"]["Key"]])
        return report

    def missing(self, output: dict[str, Any]) -> list[Any]:
        """The versions that the report's list has, which is what its checksum and its count say."""
        told = self.written(output)["Missing"]
        body = self.reports.objects[told["Key"]]
        versions = [json.loads(line) for line in body.decode("ascii").splitlines()]
        assert (hashlib.sha256(body).hexdigest(), len(versions)) == (told["Sha256"], told["Count"])
        return versions


def after_the_hour(*records: Item) -> World:
    """A world with these bookings, a minute after the hour from 15:00 to 16:00 has ended."""
    world = World(*records)
    world.clock.now = parse_instant(f"{DAY}T16:01:10Z").seconds
    return world


def a_reconcile(
    hour: int = 15, execution_id: str = "reconcile-1", taken_at: str = TAKEN_AT, *, audit_table: bool = False
) -> Reconcile:
    """A planned reconcile of an hour of the fakes' day."""
    return Reconcile(execution_id, taken_at, window(hour), shards=0, still_waiting_hours=24, audit_table=audit_table)


def reconciled(world: World, of_window: Window | None = None, **changes: Any) -> dict[str, Any]:
    """What a reconcile of the world comes to."""
    reconcile = a_reconcile(**changes) if of_window is None else a_reconcile(of_window.start.hour, **changes)
    return Reconciler(world).run(reconcile)
