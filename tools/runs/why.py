"""What became of one booking, by what the application has left behind: in table, ledger, bucket, queues and grants."""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from functions.adapters.journal import DynamoJournal, run_ids
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import PLAN_ROW, LedgerTable, plan_name, plans_partition
from functions.adapters.staging import S3Staging
from functions.adapters.task_data import S3TaskData
from functions.domain.booking import BadRecord, Booking, RecordVersion, is_waiting, read_booking
from functions.domain.cursor import TIME_ATTRIBUTE
from functions.domain.errors import ConfigurationError, InvalidInput
from functions.domain.lane import FIRST_FOLD, ranges_of
from functions.domain.plan import Plan
from functions.domain.reconcile import DatedPlan
from functions.domain.run import LeaseOwner
from functions.domain.staging import bucket_of, read_line
from functions.domain.task import Task
from functions.domain.values import object_text, value_text
from functions.domain.window import HOUR, Window
from functions.usecases.ports import Span
from functions.worker.task import Order, Outcome, Schema, judge
from tools.application import Application
from tools.runs.records import DISPATCHED, ledger_table
from tools.samples import Item

DEAD_LETTER_QUEUES: Final = ("PointTaskDeadLetterQueueUrl", "CouponTaskDeadLetterQueueUrl")
_ANY: Final = Span("0", "~")
"""Of every plan that has tasks."""
_HOURS_A_DAY: Final = 24


class UnknownBookingError(LookupError):
    """The bookings table holds no such record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """Where a run met the record, and when it was booked for then."""

    window: Window
    run_id: str
    lane: int
    page: int
    moment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a worker made of the record's task, as the grant table says."""

    granted_at: str | None = None
    """None where this version of the record was not granted."""
    granted_for: str | None = None
    """The id of the task that it was granted for."""
    finished_at: str | None = None
    """When a worker had settled every order of this task; None while none has."""
    outcomes: Mapping[str, int] | None = None
    """How many orders of the task ended how, by the attempt that came to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A task that workers gave up."""

    reason: str | None
    """Why it failed the last time; None where the worker did not note it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InTask:
    """A task that holds the record."""

    met: Met
    task: Task
    object: str
    ledger: str
    """The row of the ledger that its page's plan stands in."""
    sent: bool
    """Whether it is known to be."""
    finished: datetime | None
    """When all tasks of its page had been sent."""
    on_queue: bool | None
    """None where a queue cannot be looked into."""
    dead_letter: DeadLetter | None
    grant: Grant | None
    """None where the stack has no grant table."""
    skipped: Outcome | None
    """Why a worker that comes to the record now grants nothing; None where it stands as the task says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A file in which the record was set aside as bad data."""

    met: Met
    reason: str
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A staged object that holds the record until its group is merged."""

    met: Met
    object: str


class Cause(StrEnum):
    """Why nothing was done with the record as it stands."""

    NOT_WAITING = "NotWaiting"
    """Its status is another one."""
    NO_INDEX_KEY = "NoIndexKey"
    """Its date and time are none that an hour's query returns."""
    HOUR_NOT_ENDED = "HourNotEnded"
    """No run has worked on its hour, which has not ended."""
    NO_RUN = "NoRun"
    """No run has worked on its hour, which has ended."""
    RUN_NOT_ENDED = "RunNotEnded"
    """The last run of its hour is at work, or nobody saw it end."""
    RUN_FAILED = "RunFailed"
    """The last run of its hour failed, or was stopped."""
    NOT_READ = "NotRead"
    """The last run of its hour came to its end: the record was booked, moved or began to wait behind that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Untouched:
    """Why an hour's runs did nothing with the record; of no hour where no hour's could."""

    cause: Cause
    window: Window | None = None
    run_id: str | None = None
    """The last run of the hour."""
    outcome: str | None = None
    """How that ended."""
    detail: str = ""
    """What is wrong with the index's keys."""


class State(StrEnum):
    """What the record has come to, as it stands now."""

    GRANTED = "Granted"
    DEAD = "DeadLetter"
    """Its task was sent, and workers gave it up."""
    SETTLED = "Settled"
    """A worker has settled its task, and granted nothing for this record."""
    SENT = "Sent"
    IN_DOUBT = "InDoubt"
    """It is in a task that is not known to be sent."""
    STAGED = "Staged"
    SET_ASIDE = "SetAside"
    NOT_DISPATCHED = "NotDispatched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All that is known of one record."""

    key: str
    """Its primary key as JSON."""
    values: tuple[str, ...]
    """What was asked for: the values of its key."""
    deleted: bool
    """Whether the table does not hold it."""
    booked: Mapping[str, str | None]
    """What decides whether, and in which hour, it is read: each attribute as JSON; None where it is missing."""
    moment: str | None
    """When it is booked for; None where that is no moment, or the record is gone."""
    hours: tuple[Window, ...]
    """Whose runs read it."""
    fault: str | None
    """Why a run would set it aside, as it stands."""
    searched: tuple[Window, ...]
    named: tuple[Window, ...]
    """Those of them that were asked for."""
    tasks: tuple[InTask, ...]
    set_aside: tuple[SetAside, ...]
    staged: tuple[Staged, ...]
    untouched: tuple[Untouched, ...]
    """Empty where something was done with it as it stands."""

    @property
    def current(self) -> InTask | None:
        """The task that holds the record as it stands, or as it stood last; of several one that was sent."""
        return _weightiest(each for each in self.tasks if self._stands_as(each.met))

    @property
    def earlier(self) -> InTask | None:
        """The task that held the record before it was moved; None where one holds it as it stands."""
        return None if self.current else _weightiest(self.tasks)

    @property
    def aside(self) -> SetAside | None:
        """Where the record was set aside last, as it stands."""
        return max((each for each in self.set_aside if self._stands_as(each.met)), key=_run_id, default=None)

    @property
    def state(self) -> State:
        """What it has come to; if it was deleted, what it had come to."""
        task = self.current
        if task is not None:
            return state_of(task)
        if self.aside is not None:
            return State.SET_ASIDE
        return State.STAGED if self.staged else State.NOT_DISPATCHED

    def _stands_as(self, met: Met) -> bool:
        return self.deleted or met.moment == self.moment


def _run_id(found: InTask | SetAside) -> str:
    """Run ids begin with the time of their start."""
    return found.met.run_id


def _weightiest(tasks: Iterable[InTask]) -> InTask | None:
    return max(tasks, key=lambda each: (_is_granted(each), each.sent, _run_id(each)), default=None)


def _is_granted(task: InTask) -> bool:
    return task.grant is not None and task.grant.granted_at is not None


def state_of(task: InTask) -> State:
    """What a task's record has come to by that task."""
    if _is_granted(task):
        return State.GRANTED
    if task.dead_letter is not None:
        return State.DEAD
    if task.grant is not None and task.grant.finished_at is not None:
        return State.SETTLED
    return State.SENT if task.sent or task.on_queue else State.IN_DOUBT


def story_of(application: Application, values: Sequence[str], now: datetime, also: Iterable[Window] = ()) -> Story:
    """What is known of the record that the values of its key name.

    The hours beside its own are searched too: a record on an hour's edge is read by both, and one that was moved may
    have been dispatched where it stood before.  `also` names further hours.

    Raises:
        UnknownBookingError: the table does not hold it, and no further hours are named.
        InvalidInput: these are no values of the table's key.
    """
    return _Search(application, tuple(values), *_booking(application, values)).story(now, tuple(also))


def _booking(application: Application, values: Sequence[str]) -> tuple[Item, Item | None]:
    """The record's key, and all of it."""
    table = application.deployment.outputs["BookingTableName"]
    described = application.dynamodb.describe_table(TableName=table)["Table"]
    kinds = {attribute["AttributeName"]: attribute["AttributeType"] for attribute in described["AttributeDefinitions"]}
    names = [element["AttributeName"] for element in described["KeySchema"]]
    if len(values) > len(names):
        raise InvalidInput(f"SORT_VALUE: this table has no sort key, only {names[0]}")
    if len(values) < len(names):
        raise InvalidInput(f"RECORD: expected a value for each of {', '.join(names)}")
    key: Item = {
        name: {kinds[name]: _typed(name, kinds[name], value)} for name, value in zip(names, values, strict=True)
    }
    booking: Any = application.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
    return key, booking


def _typed(name: str, kind: str, value: str) -> Any:
    """A key's value as its type takes it; binary is given as base64."""
    if not value:
        raise InvalidInput(f"RECORD: the value of {name} is empty, which no key is")
    try:
        if kind == "N":
            Decimal(value)
        return base64.b64decode(value, validate=True) if kind == "B" else value
    except (InvalidOperation, binascii.Error):
        raise InvalidInput(f"RECORD: {name} is {'a number' if kind == 'N' else 'base64'} in this table") from None


@dataclass(frozen=True)
class _Search:
    """Looks for one record."""

    application: Application
    values: tuple[str, ...]
    key: Item
    booking: Item | None

    def story(self, now: datetime, also: tuple[Window, ...]) -> Story:
        """See `story_of`."""
        if self.booking is None and not also:
            table = self.application.deployment.outputs["BookingTableName"]
            raise UnknownBookingError(
                f"no booking {self.name} stands in {table}; if it was deleted, --hour names the hour it was booked for"
            )
        own = self._hours()
        beside = {each for hour in own for each in (hour.previous, hour, hour.next)}
        searched = tuple(sorted({*beside, *also}))
        tasks, set_aside = tuple(self._tasks(searched)), tuple(self._set_aside(searched))
        touched = bool(own) and self._moment in {each.moment for each in (*_mets(tasks), *_mets(set_aside))}
        staged = () if touched else tuple(self._staged(own))
        booking, date_attribute = self.booking or {}, self.date_attribute
        attributes = ("RewardStatus", date_attribute, TIME_ATTRIBUTE)
        return Story(
            key=self.name,
            values=self.values,
            deleted=self.booking is None,
            booked={each: value_text(booking[each]) if each in booking else None for each in attributes},
            moment=self._moment if own else None,
            hours=own,
            fault=self._read.reason if isinstance(self._read, BadRecord) else None,
            searched=searched,
            named=also,
            tasks=tasks,
            set_aside=set_aside,
            staged=staged[:1],
            untouched=() if touched or staged or not booking else tuple(self._untouched(own, now)),
        )

    @property
    def name(self) -> str:
        """The record's key as the ledger has it."""
        return object_text(self.key)

    @property
    def date_attribute(self) -> str:
        """The index's partition key."""
        return self.application.partitions.date_attribute

    @property
    def bucket(self) -> str:
        """Where objects lie."""
        return self.application.deployment.outputs["TaskDataBucketName"]

    @cached_property
    def table(self) -> LedgerTable:
        """The ledger."""
        return ledger_table(self.application)

    @cached_property
    def _read(self) -> Booking | BadRecord | None:
        """What a run makes of the record as it stands; None if it does not wait, or stands in no index."""
        if self.booking is None or not is_waiting(self.booking) or not self._hours():
            return None
        return read_booking(self.booking, tuple(self.key), self.date_attribute)

    @cached_property
    def _moment(self) -> str | None:
        """When it is booked for, as the ledger says it."""
        booking = self.booking or {}
        date, time = (booking.get(each, {}).get("S") for each in (self.date_attribute, TIME_ATTRIBUTE))
        return RecordVersion(self.name, date.partition("#")[0], time).moment if date and time else None

    def _hours(self) -> tuple[Window, ...]:
        """The hours whose queries return the record: none where it does not stand in the index, or outside a day."""
        booking = self.booking or {}
        date, time = (booking.get(each, {}).get("S", "") for each in (self.date_attribute, TIME_ATTRIBUTE))
        try:
            midnight = Window.starting(f"{date.partition('#')[0]}T00:00:00Z")
        except ValueError:
            return ()
        windows = (Window(midnight.start + hour * HOUR) for hour in range(_HOURS_A_DAY))
        shards = self.application.partitions.shards
        return tuple(
            window
            for window in windows
            if any(keys.date_key == date and keys.low <= time <= keys.high for keys in ranges_of(window, 1, shards))
        )

    def _tasks(self, hours: Iterable[Window]) -> Iterator[InTask]:
        """The tasks that hold the record, from the plans of the hours' runs."""
        ledger = DynamoLedger(self.table, S3TaskData(self.application.s3, self.bucket))
        for hour in hours:
            for run_id in run_ids(self.table, hour):
                for dated in ledger.dated(hour, run_id, _ANY, None):
                    for task in dated.plan.tasks:
                        for version in task.versions:
                            if version.key == self.name:
                                met = _met(hour, run_id, dated.plan, version.moment)
                                yield self._in_task(met, dated, task, version)

    def _in_task(self, met: Met, dated: DatedPlan, task: Task, version: RecordVersion) -> InTask:
        plan, embedded = dated.plan, self.application.account is None
        order = Order(task.task_id, task.group, task.route, version, self.key)
        partition, row = plans_partition(met.window, met.run_id), f"{PLAN_ROW}{plan_name(plan.lane, plan.page)}"
        return InTask(
            met=met,
            task=task,
            object=f"s3://{self.bucket}/{task.key}" + (f", {task.extent.byte_range}" if task.extent else ""),
            ledger=f"{partition} / {row}",
            sent=plan.finished or task.task_id in plan.sent,
            finished=None if dated.finished_at is None else datetime.fromtimestamp(dated.finished_at, UTC),
            on_queue=task.task_id in self.application.tasks(task.window.start_text) if embedded else None,
            dead_letter=self._dead_letter(task.task_id) if embedded else None,
            grant=self._grant(order),
            skipped=self._skipped(order),
        )

    def _skipped(self, order: Order) -> Outcome | None:
        """What a worker says that comes to the order now; see `judge`, which takes the index's keys to be text."""
        if self.booking is not None and is_waiting(self.booking) and order.version.moment != self._moment:
            return Outcome.REBOOKED
        return judge(order, self.booking, Schema(tuple(self.key), self.date_attribute))

    def _grant(self, order: Order) -> Grant | None:
        """What the grant table says of a record version and of its task."""
        if "GrantTableName" not in self.application.deployment.outputs:
            return None
        granted = self._grant_row("grant", hashlib.sha256(order.version_text.encode("ascii")).hexdigest())
        finished = self._grant_row("task", order.task_id)
        return Grant(
            granted_at=granted["GrantedAt"]["S"] if granted else None,
            granted_for=granted["TaskId"]["S"] if granted else None,
            finished_at=finished["At"]["S"] if finished else None,
            outcomes=json.loads(finished["Counts"]["S"]) if finished else None,
        )

    def _dead_letter(self, task_id: str) -> DeadLetter | None:
        """What lies on a dead-letter queue of a task, and why, as the worker noted it for its message."""
        outputs = self.application.deployment.outputs
        for queue in (outputs[name] for name in DEAD_LETTER_QUEUES if name in outputs):
            for message in self.application.messages(queue):
                with suppress(ValueError, TypeError, KeyError):
                    if json.loads(message["Body"])["TaskId"] == task_id:
                        noted = self._grant_row("message", message["MessageId"])
                        return DeadLetter(reason=noted["Reason"]["S"] if noted else None)
        return None

    def _grant_row(self, kind: str, name: str) -> Mapping[str, Any] | None:
        table = self.application.deployment.outputs.get("GrantTableName")
        if table is None:
            return None
        key = {"Pk": {"S": f"{kind}#{name}"}}
        return self.application.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")

    def _set_aside(self, hours: Iterable[Window]) -> Iterator[SetAside]:
        """The files in which the record was set aside as bad data."""
        for hour in hours:
            for file in self.application.set_aside(f"{hour.start:%Y-%m-%d/%H}/"):
                content = json.load(self.application.s3.get_object(Bucket=self.bucket, Key=file)["Body"])
                for record in content["Records"]:
                    if self._is_it(record["Record"]):
                        date, time = (record["Record"][name]["S"] for name in (self.date_attribute, TIME_ATTRIBUTE))
                        version = RecordVersion(self.name, date.partition("#")[0], time)
                        met = Met(
                            window=hour,
                            run_id=content["RunId"],
                            lane=content["Lane"],
                            page=content["Page"],
                            moment=version.moment,
                        )
                        yield SetAside(met=met, reason=record["Reason"], file=f"s3://{self.bucket}/{file}")

    def _is_it(self, record: Item) -> bool:
        """Whether a record set aside, which holds binary as base64, has this key."""
        return all(name in record for name in self.key) and self.name == object_text(
            {name: {kind: _binary(kind, content) for kind, content in record[name].items()} for name in self.key}
        )

    def _staged(self, hours: Iterable[Window]) -> Iterator[Staged]:
        """The staged objects that hold the record as it stands, and were not merged yet or are no more to be."""
        read = self._read
        if not isinstance(read, Booking):
            return
        staging = S3Staging(self.application.s3, self.bucket)
        journal, bucket = DynamoJournal(self.table), bucket_of(read.group)
        for hour in hours:
            for run_id in run_ids(self.table, hour):
                for plan in journal.outlines(LeaseOwner(run_id, run_id, hour)):
                    if plan.staged is None or plan.lane >= FIRST_FOLD:
                        continue
                    with suppress(ConfigurationError):  # the run came to its end meanwhile: what it staged is gone
                        lines = staging.read([plan.staged], range(bucket, bucket + 1))
                        if any(read_line(line).version == read.version for line in lines):
                            met = _met(hour, run_id, plan, read.version.moment)
                            yield Staged(met=met, object=f"s3://{staging.bucket}/{plan.staged.key}")

    def _untouched(self, hours: Sequence[Window], now: datetime) -> Iterator[Untouched]:
        """Why nothing was done with the record as it stands."""
        if not is_waiting(self.booking or {}):
            yield Untouched(cause=Cause.NOT_WAITING)
            return
        if not hours:
            yield Untouched(cause=Cause.NO_INDEX_KEY, detail=self._misshapen())
            return
        journal = DynamoJournal(self.table)
        for hour in hours:
            run = journal.last_run(hour)
            if run is None:
                yield Untouched(cause=Cause.NO_RUN if hour.end <= now else Cause.HOUR_NOT_ENDED, window=hour)
            else:
                cause = {None: Cause.RUN_NOT_ENDED, DISPATCHED: Cause.NOT_READ}.get(run.outcome, Cause.RUN_FAILED)
                yield Untouched(cause=cause, window=hour, run_id=run.run_id, outcome=run.outcome)

    def _misshapen(self) -> str:
        """What is wrong with the index's keys of a record that no hour's query returns."""
        booking, shards = self.booking or {}, self.application.partitions.shards
        for name in (self.date_attribute, TIME_ATTRIBUTE):
            if name not in booking:
                return f"{name} is missing"
            if "S" not in booking[name]:
                return f"{name} is no text"
        date, _, shard = booking[self.date_attribute]["S"].partition("#")
        with suppress(ValueError):
            Window.starting(f"{date}T00:00:00Z")
            if shard in ({str(each) for each in range(shards)} or {""}):
                return f"{TIME_ATTRIBUTE} lies in no hour of a day"
        form = f"YYYY-MM-DD#0 to YYYY-MM-DD#{shards - 1}" if shards else "YYYY-MM-DD"
        return f"{self.date_attribute} is no date as the index takes it, {form}"


def _mets(found: Iterable[InTask | SetAside]) -> Iterator[Met]:
    return (each.met for each in found)


def _met(window: Window, run_id: str, plan: Plan, moment: str) -> Met:
    return Met(window=window, run_id=run_id, lane=plan.lane, page=plan.page, moment=moment)


def _binary(kind: str, content: Any) -> Any:
    return base64.b64decode(content) if kind == "B" else content
