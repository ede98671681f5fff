"""A task as its worker understands it: what must fit together, and what its bookings' newest state means."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from functions.domain.booking import BadRecord, Group, RecordVersion, Route, is_waiting, read_booking
from functions.domain.cursor import DATE_ATTRIBUTE, TIME_ATTRIBUTE
from functions.domain.pack import pack_digest
from functions.domain.task import JOB_NAMES, Extent, Task, task_id
from functions.domain.values import AttributeValue, Item, object_text, value_text
from functions.domain.versions import version_text
from functions.domain.window import Window
from functions.worker.contract import (
    PackedHeader,
    TaskHeader,
    TaskMessage,
    TaskObject,
    UnworkableTask,
    read_header,
    read_json,
)

ROUTES: Final = {job_name: route for route, job_name in JOB_NAMES.items()}


class Outcome(StrEnum):
    """What became of an order.  The last four are skipped: nothing is granted for them."""

    GRANTED = "Granted"
    ALREADY_GRANTED = "AlreadyGranted"
    POSTPONED = "Postponed"
    """Out of stock: the booking was moved to a later time, and is another version there."""
    NOT_WAITING = "NotWaiting"
    """Cancelled, or settled by somebody else."""
    REBOOKED = "Rebooked"
    """It waits for another time, at which it is dispatched again."""
    CHANGED = "Changed"
    """It is another member's by now, or another reward."""
    GONE = "Gone"


@dataclass(frozen=True, slots=True)
class Schema:
    """How the bookings table is keyed."""

    key_attributes: Sequence[str] = ("RecordId",)
    date_attribute: str = DATE_ATTRIBUTE
    """The index's partition key: a date, in a sharded index followed by `#` and the shard."""
    binary_keys: frozenset[str] = frozenset()
    """The key attributes that hold binary, which JSON cannot tell from text."""

    def key_of(self, item: Item) -> Item:
        """The primary key of a record."""
        return {name: item[name] for name in self.key_attributes}


@dataclass(frozen=True, slots=True)
class Order:
    """One record version that a task says is to be granted."""

    task_id: str
    group: Group
    route: Route
    version: RecordVersion
    key: Item
    """The booking's primary key."""

    @property
    def version_text(self) -> str:
        """Its record version as a task's id takes it, with the group: what is granted once."""
        return f"[{self.group.text},{version_text(self.version)}]"


@dataclass(frozen=True, slots=True)
class ReceivedTask:
    """What a message says."""

    task_id: str
    route: Route
    header: TaskHeader

    @property
    def group(self) -> Group:
        """The member group whose records it holds."""
        return _group_of(self.header)

    @property
    def extent(self) -> Extent | None:
        """Which bytes of the object at the header's key are its body; None where all of them are."""
        header = self.header
        if not isinstance(header, PackedHeader):
            return None
        return Extent(header.Key, header.Range.Start, header.Range.Length, header.Sha256)


def read_message(body: str, bucket: str) -> ReceivedTask:
    """What a message says; its object lies in `bucket`, for a worker reads no other.

    Raises:
        UnworkableTask: it is no task of the contract.
    """
    message, _ = read_json(TaskMessage, body, "message")
    header = read_header(message.Data)
    if header.Bucket != bucket:
        raise UnworkableTask("Data.Bucket: another bucket")
    return ReceivedTask(message.TaskId, ROUTES[message.JobName], header)


def read_orders(task: ReceivedTask, content: bytes, schema: Schema) -> list[Order]:
    """The orders of a task's object, in its order; `content` is that of its extent, where it lies in a pack.

    Raises:
        UnworkableTask: the object is no object of the contract, or not that of the message.
    """
    header = task.header
    if isinstance(header, PackedHeader):
        _check_bytes(header, content)
    read, raw = read_json(TaskObject, content, "object")
    for name in TaskHeader.model_fields:
        if raw[name] != getattr(header, name) and not (name == "Key" and isinstance(header, PackedHeader)):
            raise UnworkableTask(f"object.{name}: not that of the message")
    if len(read.Orders) != read.OrderCount:
        raise UnworkableTask("object.Orders: not as many as OrderCount")
    for order in read.Orders:
        if order.RewardType is not task.route or _group_of(order) != task.group:
            raise UnworkableTask("object.Orders: an order of another task")
    orders = [_order(task, raw_order, schema) for raw_order in raw["Orders"]]
    _check_identity(task, read.Key, orders)
    return orders


def _check_bytes(header: PackedHeader, content: bytes) -> None:
    if len(content) != header.Range.Length:
        raise UnworkableTask("Data.Range: the object ends before it does")
    if hashlib.sha256(content).hexdigest() != header.Sha256:
        raise UnworkableTask("Data.Sha256: not that of the object's bytes")


def _order(task: ReceivedTask, raw: dict[str, Any], schema: Schema) -> Order:
    try:
        key = {name: _typed(raw[name], binary=name in schema.binary_keys) for name in schema.key_attributes}
        date = raw[schema.date_attribute].partition("#")[0]
        version = RecordVersion(object_text(key), date, raw[TIME_ATTRIBUTE])
    except (KeyError, AttributeError, ValueError):
        raise UnworkableTask("object.Orders: an order without its key or its date") from None
    return Order(task.task_id, task.group, task.route, version, key)


def _check_identity(task: ReceivedTask, key: str, orders: Sequence[Order]) -> None:
    """The id says of which records the task is, and the object's key follows from it: neither can be another task's."""
    versions = [order.version for order in orders]
    if task_id(task.route, task.group, versions) != task.task_id:
        raise UnworkableTask("TaskId: not that of the object's orders")
    try:
        window = Window.starting(task.header.WindowStart)
    except ValueError:
        raise UnworkableTask("Data.WindowStart: no hour") from None
    if task.header.WindowEnd != window.end_text:
        raise UnworkableTask("Data.WindowEnd: not an hour after WindowStart")
    if key != Task(task.task_id, task.route, task.group, window, versions).object_key:
        raise UnworkableTask("object.Key: not that of the task")
    if task.extent is not None and pack_digest(window, task.header.Key) is None:
        raise UnworkableTask("Data.Key: no pack of the window")


def judge(order: Order, newest: Item | None, schema: Schema) -> Outcome | None:
    """Why the booking, as it stands now, is not to be granted; None where it still waits as the task says."""
    if newest is None:
        return Outcome.GONE
    return _changed(order, newest, schema) if is_waiting(newest) else Outcome.NOT_WAITING


def _changed(order: Order, newest: Item, schema: Schema) -> Outcome | None:
    if schema.date_attribute not in newest or TIME_ATTRIBUTE not in newest:
        return Outcome.REBOOKED
    booking = read_booking(newest, schema.key_attributes, schema.date_attribute)
    if isinstance(booking, BadRecord):
        return Outcome.CHANGED
    if booking.version != order.version:
        return Outcome.REBOOKED
    if (booking.group, booking.route) != (order.group, order.route):
        return Outcome.CHANGED
    return None


def later(version: RecordVersion, now: datetime, delay: timedelta) -> RecordVersion:
    """The same record at a time by which a reward may be in stock again, and whose window is still to come.

    Whole seconds, as bookings usually have them.  A time of `24:00:00Z` is the next date's midnight.
    """
    hours, minutes, seconds = version.time.removesuffix("Z").split(":")
    booked = datetime.fromisoformat(version.date).replace(tzinfo=UTC)
    booked += timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds.partition(".")[0]))
    at = max(booked, now) + delay
    return version._replace(date=f"{at:%Y-%m-%d}", time=f"{at:%H:%M:%S}Z")


def _group_of(holder: Any) -> Group:
    ids = (holder.ShopId, holder.MemberId, holder.PromotionEngineId)
    return Group(*(value_text(_typed(one)) for one in ids))


def _typed(value: Any, *, binary: bool = False) -> AttributeValue:
    """A value of an object's JSON as DynamoDB's; only what can be an id or a key is known.

    Raises:
        ValueError: it is neither a text nor a number.
    """
    match value:
        case str() if binary:
            return {"B": base64.b64decode(value, validate=True)}
        case str():
            return {"S": value}
        case bool():
            raise ValueError("a key is neither true nor false")
        case int() | Decimal():
            return {"N": str(value)}
        case _:
            raise ValueError("no key")
