"""What the worker needs of the outside, and what each promises.

All of it may be called again: an invocation can end after any call, and then the queue delivers its messages again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple, Protocol

from functions.domain.booking import RecordVersion
from functions.domain.task import Extent
from functions.domain.values import Item
from functions.worker.task import Order, Schema


class Answer(Enum):
    """What came of an order to grant."""

    GRANTED = auto()
    ALREADY_GRANTED = auto()
    """This record version was granted before; nothing was done."""
    CHANGED = auto()
    """The booking no longer stands as it was read; nothing was done."""
    OUT_OF_STOCK = auto()
    """The reward is not to be had now; nothing was done."""


class Standing(NamedTuple):
    """An order, and its booking as it was just read: it waits for what the order says."""

    order: Order
    booking: Item


class TaskObjects(Protocol):
    """The tasks' objects."""

    def read(self, key: str, extent: Extent | None = None) -> bytes:
        """An object's content, or the bytes of its extent: fewer than that has, where the object ends.

        Raises:
            UnworkableTask: there is no such object, or it ends before the extent begins.
            TransientError: it could not be read now.
        """


class Bookings(Protocol):
    """The bookings, by their primary keys."""

    def newest(self, key: Item) -> Item | None:
        """The booking as it stands now, read consistently; None if it was deleted."""

    def postpone(self, standing: Standing, to: RecordVersion) -> bool:
        """Move the booking to another date and time if it still stands as it was read; whether it did."""


class Grants(Protocol):
    """Where rewards are granted."""

    def grant(self, standing: Standing) -> Answer:
        """Grant the order if its booking still stands as it was read, and mark the booking rewarded.

        At most once for each record version (`Order.version_text`), however often and from wherever this is called.
        """

    def is_granted(self, order: Order) -> bool:
        """Whether this record version was granted."""


class TaskLog(Protocol):
    """What became of tasks and messages."""

    def is_finished(self, task_id: str) -> bool:
        """Whether every order of the task was settled before."""

    def finish(self, task_id: str, counts: Mapping[str, int]) -> None:
        """Note that every order of the task is settled."""

    def note_failure(self, message: "Message", reason: str) -> None:
        """Keep why a message could not be worked: it may end among the dead letters, which say nothing."""


class Message(NamedTuple):
    """A message as the queue delivers it."""

    message_id: str
    group: str
    """Its FIFO message group."""
    body: str
    receives: int
    """How often it was delivered, this time included."""


@dataclass(frozen=True, slots=True)
class Desk:
    """All that a worker works with."""

    objects: TaskObjects
    bookings: Bookings
    grants: Grants
    log: TaskLog
    schema: Schema
    bucket: str
    """Where the tasks' objects lie."""
    postponed_by: timedelta
    """How much later a reward that is out of stock is tried again."""
    clock: Callable[[], datetime]
    """The time, in UTC."""
