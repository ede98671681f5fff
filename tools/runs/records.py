"""What is known of runs: by their executions, by the journal, and page by page by the plans.

An execution's history says when a page was done and how often it was tried; the plans say what came of it, also of
pages that an earlier execution of the same run has done.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.adapters.journal import DynamoJournal, run_ids
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import (
    PLAN_ROW,
    LedgerTable,
    Row,
    execution_key,
    key,
    outline,
    plan_name,
    plans_partition,
    run_key,
)
from functions.adapters.task_data import S3TaskData
from functions.domain.cursor import Token
from functions.domain.errors import ConfigurationError, InvalidInput
from functions.domain.execution import REDO_RUN, run_id_of
from functions.domain.lane import FIRST_FOLD, LAYOUT
from functions.domain.pack import Layout
from functions.domain.plan import Plan
from functions.domain.run import Counts, LeaseOwner
from functions.domain.window import HOUR, Window, utc_text
from functions.usecases.plan_run import RunInput
from functions.usecases.ports import PlansOf
from functions.usecases.window_input import validated
from tools.application import Application, RunFailedError, detail_of
from tools.command_line import command_line
from tools.runs.history import PAGE_STATES, Fault, Visit, newest_totals, visits

RUNNING: Final = "RUNNING"
SUCCEEDED: Final = "SUCCEEDED"
DISPATCHED: Final = "Dispatched"
STOPPED: Final = "Stopped"
ALREADY_RUNNING: Final = "AlreadyRunning"
INVALID_INPUT: Final = "InvalidInput"

REPORT_STATE: Final = "Report failure"
MACHINE_SECONDS: Final = 21_600.0
"""The machine ends an execution after so long."""
LOOKED_AT: Final = 100
"""So many rows are read at once, and so many executions looked through for one that the journal knows nothing of."""
NAMES_LOOKED_AT: Final = 1000
"""Among so many of the newest executions one is found by the beginning of its name."""
SHORTEST_NAME: Final = 8
_BEHIND_ALL: Final = 999_999
"""Behind the pages of any lane."""

_HOUR: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}(?::00(?::00)?)?Z?")
_RUN_ID: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-(?P<name>.+)")
_LAST: Final = "last"


class UnknownRunError(LookupError):
    """No run is named so; the message says what was looked for, and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One execution of the dispatch machine, and what is known of the run that it worked on."""

    execution: str
    """Its ARN."""
    status: str
    """`RUNNING`, `SUCCEEDED`, `FAILED`, `TIMED_OUT` or `ABORTED`."""
    started: datetime
    ended: datetime | None
    run_id: str | None
    """None where it worked on none: its input was refused, or another run has the hour."""
    window: Window | None
    path: str | None
    page_size: int | None
    outcome: str | None
    """`Dispatched`, `DryRun`, `AlreadyRunning`, `Stopped`, or the error's name; None while it runs."""
    totals: Counts | None
    """What is known to be done, by all executions of the run; None where nothing was begun."""
    detail: Mapping[str, Any]
    """The output of one that ended well, the parsed cause of one that failed."""
    redrives: int
    dry_run: bool = False
    resumes: bool = False
    """Whether it was started to go on with the hour's last run."""
    gone_on_by: str | None = None
    """The name of the execution that has gone on with the run since; None where none has."""

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.status == RUNNING

    @property
    def ended_well(self) -> bool:
        """Whether it ended without an error; a stopped run did."""
        return self.status == SUCCEEDED

    @property
    def name(self) -> str:
        """The execution's name, the last part of its ARN."""
        return self.execution.rpartition(":")[2]

    @property
    def goes_on(self) -> bool:
        """Whether it worked on a run that an earlier execution had begun."""
        return self.run_id is not None and self.run_id != run_id_of(self.name, utc_text(self.started))

    @property
    def hour(self) -> str | None:
        """The window as commands take it: `2026-09-17T15`."""
        return None if self.window is None else hour_text(self.window)

    def seconds(self, now: datetime) -> float:
        """How long it took, or has run so far."""
        return ((self.ended or now) - self.started).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRecord:
    """One page of one lane of a run; on the full path one chunk."""

    lane: int
    page: int
    token: Token | None
    """Where it starts; None: where its lane does."""
    counts: Counts
    finished: bool
    started: datetime | None
    """None where the execution's history does not tell: another one did the page, or one step did many."""
    seconds: float | None
    """With all its attempts and the pauses between; of the first chunk of a merge, with those that came after it."""
    attempts: int
    """0 where the history does not tell."""


def hour_text(window: Window) -> str:
    """A window as commands take and print it: `2026-09-17T15`."""
    return window.start_text[:13]


def hour_of(text: str, field: str = "HOUR") -> Window:
    """The window that begins at an hour, such as `2026-09-17T15`; minutes, seconds and `Z` may follow if they are zero.

    Raises:
        InvalidInput: it is none; the message names the argument or option by `field`.
    """
    if _HOUR.fullmatch(text):
        with suppress(ValueError):
            return Window.starting(f"{text[:13]}:00:00Z")
    raise InvalidInput(f"{field}: {text!r}: expected an hour in UTC, such as 2026-09-17T15")


def last_closed_hour(now: datetime) -> Window:
    """The hour before the one that it is."""
    return Window(now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - HOUR)


def ledger_table(application: Application) -> LedgerTable:
    """The application's ledger."""
    return LedgerTable(application.dynamodb, application.deployment.outputs["LedgerTableName"], time.time)


def recent(application: Application, limit: int) -> list[RunRecord]:
    """The newest executions of the dispatch machine, newest first."""
    return _records(application, islice(_executions(application), limit))


def running(application: Application) -> list[RunRecord]:
    """Those that have not ended, newest first; also an old one that was redriven."""
    return _records(application, _executions(application, statusFilter=RUNNING))


def of_hour(application: Application, window: Window, limit: int) -> list[RunRecord]:
    """The executions of an hour, newest first.

    They are the last one of each run that the journal knows, and those for this hour among the newest `limit` ones:
    the journal does not know dry runs, refused ones, or which executions a run had before its last one.
    """
    found = {record.execution: record for record in recent(application, limit) if record.window == window}
    noted = [arn for arn in _noted(application, window) if arn not in found]
    found |= {record.execution: record for record in _records(application, noted)}
    return sorted(found.values(), key=lambda record: record.started, reverse=True)


def find_run(application: Application, name: str) -> RunRecord:
    """The run that is named by `last`, an hour, a run's id, or an execution's name, the name's beginning, or its ARN.

    An hour's is its last run, a run's the execution that worked on it last.

    Raises:
        UnknownRunError: there is none.
        InvalidInput: it looks like an hour, and is none.
    """
    if name == _LAST:
        found = recent(application, 1)
        if not found:
            raise UnknownRunError("nothing has run yet")
        return found[0]
    if _HOUR.fullmatch(name):
        return _last_of_hour(application, hour_of(name))
    run_id = _RUN_ID.fullmatch(name)
    wanted = [name] if name.startswith("arn:") else [*([run_id["name"]] if run_id else []), name]
    for each in wanted:
        arn = each if each.startswith("arn:") else _arn(application, each)
        with suppress(UnknownRunError):
            record = execution_record(application, arn)
            return record if run_id is None else _latest(application, record)
    if len(name) >= SHORTEST_NAME:
        newest = islice(_executions(application), NAMES_LOOKED_AT)
        begun = [arn for arn in newest if arn.rpartition(":")[2].startswith(name)]
        if len(begun) > 1:
            raise UnknownRunError(f"the names of {len(begun)} executions begin with {name}: give more of it")
        if begun:
            return execution_record(application, begun[0])
    raise UnknownRunError(
        f"no run or execution {name} is known; `{command_line('status')}` lists the last ones. Step Functions keeps"
        " executions for 90 days"
    )


def follow(
    application: Application, execution: str, on_progress: Callable[[RunRecord, Counts], None] = lambda *_: None
) -> RunRecord:
    """The record of an execution when it has ended, however it did; meanwhile `on_progress` is told how far it is.

    Only what is new is read: a run's plans, each once; of a dry run, which has none, the newest events.

    Raises:
        UnknownRunError: there is no such execution.
        RunFailedError: it has not ended when the machine itself would have ended it.
    """
    record, reader = execution_record(application, execution), None

    def look() -> None:
        nonlocal record, reader
        if reader is None:
            record = execution_record(application, execution)
            reader = reader_of(application, record)
        done = reader.read() if reader else newest_totals(application, execution)
        on_progress(record, done)

    try:
        application.output(execution, look, seconds=MACHINE_SECONDS)
    except RunFailedError:
        ended = execution_record(application, execution)
        if ended.is_running:
            raise
        return ended
    return execution_record(application, execution)


def execution_record(application: Application, execution: str) -> RunRecord:
    """What is known of an execution, by its ARN.

    Raises:
        UnknownRunError: there is none.
    """
    found = _records(application, [execution])
    if not found:
        raise UnknownRunError(f"there is no execution {execution}")
    return found[0]


def plans_of(application: Application, record: RunRecord) -> Iterator[Plan]:
    """The plans of a run with their tasks, read as they are asked for; a dry run keeps none."""
    if record.run_id is None or record.window is None:
        return iter(())
    bodies = S3TaskData(application.s3, application.deployment.outputs["TaskDataBucketName"])
    return DynamoLedger(ledger_table(application), bodies).plans(PlansOf(record.window, (record.run_id,)))


def layout_of(application: Application, record: RunRecord) -> Layout:
    """How a run's task data is laid out, by the first plan that has tasks; an object for each where there is none."""
    first = next((plan.tasks for plan in plans_of(application, record) if plan.tasks), ())
    return Layout.PACKED if any(task.extent for task in first) else Layout.OBJECT


def pages_of(application: Application, record: RunRecord) -> Iterator[PageRecord]:
    """The pages of a run by lane and page: from its plans, with times and attempts from the execution's history.

    A dry run keeps no plans, and its pages are told by the history alone.  No page is kept, but the history of one
    lane is while its pages are told.
    """
    if record.run_id is None or record.window is None:
        return
    own = list(visits(application, record.execution))
    if record.dry_run:
        yield from (_page(visit) for visit in own if visit.did_a_page)
        return
    owner = LeaseOwner(record.run_id, record.run_id, record.window)
    lane = -1
    token: Token | None = None
    at: dict[int, Visit] = {}
    for plan in DynamoJournal(ledger_table(application)).outlines(owner):
        if plan.lane == LAYOUT:
            continue
        if plan.lane != lane:
            lane, token, at = plan.lane, None, _by_page(_visits_of_lane(application, own, plan.lane))
        visit = at.get(plan.page)
        yield PageRecord(
            lane=plan.lane,
            page=plan.page,
            token=visit.before.get("Token") if visit else token,
            counts=plan.counts,
            finished=plan.finished,
            started=visit.entered if visit else None,
            seconds=visit.seconds if visit else None,
            attempts=visit.attempts if visit else 0,
        )
        token = plan.next_token


def faults_of(application: Application, record: RunRecord) -> Iterator[Fault]:
    """The attempts that failed in an execution and in its lanes', each execution's in the order of time.

    That the failure's report raises what it reports is no fault.
    """
    own = list(visits(application, record.execution))
    for visit in own:
        reported = visit.state == REPORT_STATE
        yield from (fault for fault in visit.faults if not (reported and fault.error == record.outcome))
    for name in _lane_names(own):
        for visit in _visits_if_any(application, _lane_arn(application, name)):
            yield from visit.faults


class PlanReader:
    """Reads what is new among a run's plans whenever it is asked, however many there are."""

    def __init__(self, table: LedgerTable, owner: LeaseOwner) -> None:
        self.totals: Counts = Counts()
        """Of the finished pages that were read so far."""
        self._table = table
        self._partition = plans_partition(owner.window, owner.run_id)
        self._open: dict[int, int] = {}
        """The lanes that have not ended, each with its next page."""
        self._behind = 0
        """The first lane that no plan was read of."""

    def read(self) -> Counts:
        """Read on, and return the totals: a query for each lane that goes on, and one for those that begin."""
        for lane, page in sorted(self._open.items()):
            for row in self._rows(f"{PLAN_ROW}{lane:04}#", plan_name(lane, page - 1)):
                self._take(outline(row))
        for row in self._rows(PLAN_ROW, plan_name(self._behind - 1, _BEHIND_ALL) if self._behind else None):
            plan = outline(row)
            if plan.lane >= self._behind:
                # A lane before it may have begun without a plan yet; those of earlier steps have ended.
                first = max(self._behind, plan.lane // FIRST_FOLD * FIRST_FOLD)
                self._open |= dict.fromkeys(range(first, plan.lane + 1), 1)
                self._behind = plan.lane + 1
            self._take(plan)
        return self.totals

    def _rows(self, prefix: str, after: str | None) -> Iterator[Row]:
        start = None if after is None else key(self._partition, f"{PLAN_ROW}{after}")
        return self._table.query(self._partition, prefix, after=start)

    def _take(self, plan: Plan) -> None:
        """Count a page that is done; one that is not is the lane's last, and asked for again."""
        if not plan.finished:
            return
        self.totals += plan.counts
        if plan.next_token is None or plan.lane == LAYOUT:
            del self._open[plan.lane]
        else:
            self._open[plan.lane] = plan.page + 1


def reader_of(application: Application, record: RunRecord) -> PlanReader | None:
    """What reads the plans of a record's run; None where it has none (yet)."""
    if record.run_id is None or record.window is None or record.dry_run:
        return None
    owner = LeaseOwner(record.run_id, record.run_id, record.window)
    return PlanReader(ledger_table(application), owner)


def counts_before(application: Application, window: Window) -> Counts | None:
    """What the last run of an hour that came to its end has counted; None where none did."""
    table = ledger_table(application)
    rows = _rows_by_key(table, (run_key(window, run_id) for run_id in run_ids(table, window)[-LOOKED_AT:])).values()
    ended = [row for row in rows if row.get("Outcome") == {"S": DISPATCHED}]
    last = max(ended, key=lambda row: str(row["Sk"]["S"]), default=None)
    return None if last is None else _totals(_noted_detail(last))


def _executions(application: Application, **filters: Any) -> Iterator[str]:
    request: dict[str, Any] = {"stateMachineArn": application.deployment.outputs["DispatchStateMachineArn"], **filters}
    pages = application.stepfunctions.get_paginator("list_executions").paginate(**request)
    return (execution["executionArn"] for page in pages for execution in page["executions"])


def _records(application: Application, executions: Iterable[str]) -> list[RunRecord]:
    """The records of these executions, in their order; without those that do not exist."""
    described = [each for arn in executions if (each := _described(application, arn)) is not None]
    table = ledger_table(application)
    ids = [run_id_of(each["name"], utc_text(each["startDate"].astimezone(UTC))) for each in described]
    worked_on = _rows_by_key(table, [execution_key(each) for each in ids])
    owners = [_owner(worked_on.get(_place(execution_key(each))), each) for each in ids]
    runs = _rows_by_key(table, [run_key(owner.window, owner.run_id) for owner in owners if owner])
    return [
        _record(application, each, owner, runs.get(_place(run_key(owner.window, owner.run_id)), {}) if owner else {})
        for each, owner in zip(described, owners, strict=True)
    ]


def _record(application: Application, described: Mapping[str, Any], owner: LeaseOwner | None, run: Row) -> RunRecord:
    """One record of what Step Functions and the journal's rows say."""
    status, started = described["status"], described["startDate"].astimezone(UTC)
    ended = described["stopDate"].astimezone(UTC) if described.get("stopDate") else None
    given = _input(described)
    detail = _detail(described, owner, run)
    outcome = detail.get("Outcome") if status == SUCCEEDED else described.get("error") or status
    worked = outcome != ALREADY_RUNNING
    record = RunRecord(
        execution=described["executionArn"],
        status=status,
        started=started,
        ended=ended,
        run_id=(owner.run_id if owner else detail.get("RunId")) if worked else None,
        window=_window(given, owner, detail, started),
        path=detail.get("Path") or (run["Path"]["S"] if run else None),
        page_size=detail.get("PageSize") or (int(run["PageSize"]["N"]) if run else None),
        outcome=None if status == RUNNING else outcome,
        totals=_totals(detail),
        detail=detail,
        redrives=int(described.get("redriveCount") or 0),
        dry_run=given is not None and given.DryRun,
        resumes=given is not None and given.Resume,
        gone_on_by=_gone_on_by(owner, run),
    )
    if record.totals is None and owner is not None:
        reader = reader_of(application, record)
        return replace(record, totals=reader.read() if reader else None)
    if status == RUNNING and owner is None:
        return _as_planned(application, record)
    return record


def _as_planned(application: Application, record: RunRecord) -> RunRecord:
    """A running one that holds nothing (yet), with what its history says: a dry run is told by that alone."""
    plan = next((stay.run for stay in visits(application, record.execution) if stay.run), {})
    return replace(
        record,
        run_id=plan.get("RunId") if record.dry_run else None,
        path=plan.get("Path"),
        page_size=plan.get("PageSize"),
        totals=newest_totals(application, record.execution) if record.dry_run else None,
    )


def _described(application: Application, execution: str) -> Mapping[str, Any] | None:
    """What Step Functions says of an execution; None where there is none."""
    try:
        return application.stepfunctions.describe_execution(executionArn=execution)
    except ClientError as error:
        if error.response["Error"]["Code"] in {"ExecutionDoesNotExist", "InvalidArn"}:
            return None
        raise


def _input(described: Mapping[str, Any]) -> RunInput | None:
    """The execution's input; None where the machine refuses it."""
    with suppress(InvalidInput, ValueError):
        return validated(RunInput, json.loads(described.get("input") or "{}"))
    return None


def _window(
    given: RunInput | None, owner: LeaseOwner | None, detail: Mapping[str, Any], started: datetime
) -> Window | None:
    """The hour of an execution, by whoever tells it."""
    if owner is not None:
        return owner.window
    with suppress(KeyError, ValueError):
        return Window.starting(detail["WindowStart"])
    if given is not None:
        with suppress(InvalidInput):
            return given.window(utc_text(started))
    return None


def _detail(described: Mapping[str, Any], owner: LeaseOwner | None, run: Row) -> Mapping[str, Any]:
    """The output, or the cause of the failure; where an execution could not tell it, what was noted for it."""
    if described["status"] == SUCCEEDED:
        output: dict[str, Any] = json.loads(described["output"])
        return output
    if described["status"] == RUNNING:
        return {}
    detail: dict[str, Any] = detail_of(described)
    if "Error" in detail or owner is None or run.get("ExecutionId") != {"S": owner.execution_id}:
        return detail
    return _noted_detail(run) or detail


def _noted_detail(run: Row) -> dict[str, Any]:
    """What the journal says of how a run ended; empty while it has not."""
    detail: dict[str, Any] = json.loads(run["Detail"]["S"]) if "Detail" in run else {}
    return detail


def _gone_on_by(owner: LeaseOwner | None, run: Row) -> str | None:
    """The name of the execution that works on a run now, if that is another one."""
    if owner is None or not run or run["ExecutionId"]["S"] == owner.execution_id:
        return None
    return _name_of_id(run["ExecutionId"]["S"])


def _totals(detail: Mapping[str, Any]) -> Counts | None:
    """The counts of an output, or those that a failure names."""
    counts = detail.get("Totals", detail)
    with suppress(ConfigurationError):
        return Counts.from_state(counts)
    return None


def _rows_by_key(table: LedgerTable, keys: Iterable[Row]) -> dict[tuple[str, str], Row]:
    """The rows of these keys that are there, each by its key."""
    wanted = list({_place(each): each for each in keys}.values())
    chunks = (wanted[start : start + LOOKED_AT] for start in range(0, len(wanted), LOOKED_AT))
    return {_place(row): row for chunk in chunks for row in table.get("read journal", chunk)}


def _place(row: Row) -> tuple[str, str]:
    return row["Pk"]["S"], row["Sk"]["S"]


def _owner(row: Row | None, execution_id: str) -> LeaseOwner | None:
    if row is None:
        return None
    return LeaseOwner(row["RunId"]["S"], execution_id, Window.starting(row["WindowStart"]["S"]))


def _last_of_hour(application: Application, window: Window) -> RunRecord:
    """The last run of an hour: of the journal, else of the newest executions, as a dry run is."""
    noted = _records(application, _noted(application, window)[-1:])
    found = noted or [record for record in recent(application, LOOKED_AT) if record.window == window]
    if not found:
        raise UnknownRunError(
            f"no run of the hour from {window.start_text} is known;"
            f" `{command_line(f'run --hour {hour_text(window)}')}` starts one"
        )
    return found[0]


def _noted(application: Application, window: Window) -> list[str]:
    """The ARN of the last execution of each run of an hour, oldest run first."""
    table = ledger_table(application)
    keys = [run_key(window, run_id) for run_id in run_ids(table, window) if not run_id.startswith(REDO_RUN)]
    rows = _rows_by_key(table, keys)
    return [_arn_of_id(application, rows[_place(each)]["ExecutionId"]["S"]) for each in keys if _place(each) in rows]


def _latest(application: Application, record: RunRecord) -> RunRecord:
    """The execution that worked on a record's run last."""
    if record.run_id is None or record.window is None or record.dry_run:
        return record
    place = run_key(record.window, record.run_id)
    row = _rows_by_key(ledger_table(application), [place]).get(_place(place))
    if row is None:
        return record
    latest = _records(application, [_arn_of_id(application, row["ExecutionId"]["S"])])
    return latest[0] if latest else record


def _arn_of_id(application: Application, execution_id: str) -> str:
    """The ARN of an execution of the dispatch machine, by its name in the journal."""
    return _arn(application, _name_of_id(execution_id))


def _name_of_id(execution_id: str) -> str:
    """An execution's name: its id in the journal begins with when it was started."""
    return execution_id.partition("-")[2]


def _arn(application: Application, name: str) -> str:
    machine = application.deployment.outputs["DispatchStateMachineArn"]
    return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"


def _lane_arn(application: Application, name: str) -> str:
    machine = application.deployment.outputs["LaneStateMachineArn"]
    return f"{machine.replace(':stateMachine:', ':execution:')}:{name}"


def _visits_of_lane(application: Application, own: Iterable[Visit], lane: int) -> Iterator[Visit]:
    """Where a lane's pages were done: in the run's own execution, and in those that were laid out for the lane."""
    stays = list(own)
    yield from (visit for visit in stays if visit.state in PAGE_STATES and visit.before.get("Lane", 0) == lane)
    for laid_out in (each for visit in stays for each in visit.lanes if each["Progress"]["Lane"] == lane):
        yield from _visits_if_any(application, _lane_arn(application, laid_out["Name"]))


def _visits_if_any(application: Application, execution: str) -> Iterator[Visit]:
    """As `visits`; none of an execution that was never started."""
    try:
        yield from visits(application, execution)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionDoesNotExist":
            raise


def _lane_names(own: Iterable[Visit]) -> list[str]:
    """The names of all lanes' executions, in the order in which they were laid out."""
    return list(dict.fromkeys(lane["Name"] for visit in own for lane in visit.lanes))


def _by_page(stays: Iterable[Visit]) -> dict[int, Visit]:
    """The stays by their page; of several on one page, as after a redrive, the one that did it, or the last one."""
    found: dict[int, Visit] = {}
    for stay in stays:
        page = stay.before.get("Page", 0)
        if page in found:
            stay.attempts += found[page].attempts
        found[page] = stay
    return found


def _page(visit: Visit) -> PageRecord:
    """A page as its stay alone tells it."""
    before, after = (Counts.from_state(each["Totals"]) for each in (visit.before, visit.after))
    return PageRecord(
        lane=visit.before["Lane"],
        page=visit.before["Page"],
        token=visit.before.get("Token"),
        counts=after - before,
        finished=True,
        started=visit.entered,
        seconds=visit.seconds,
        attempts=visit.attempts,
    )
