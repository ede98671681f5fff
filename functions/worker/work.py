"""What is done with a batch of messages.

It may end at any point, and any message may come again: each record version is granted once, and nothing that was
cancelled or moved meanwhile is granted.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from functions.domain.errors import DispatcherError, TransientError
from functions.worker.contract import UnworkableTask
from functions.worker.ports import Answer, Desk, Message, Standing
from functions.worker.task import Order, Outcome, judge, later, read_message, read_orders

LOOKS: Final = 3
"""So often is a booking looked at that changes between the look and the grant."""
MARGIN: Final = timedelta(seconds=20)
"""No order is begun with less time left: the answer to the queue must still go out."""
REPEATED: Final = "Repeated"
"""Counts messages of a task that was finished before."""

_AT_ONCE: Final = {Answer.GRANTED: Outcome.GRANTED, Answer.ALREADY_GRANTED: Outcome.ALREADY_GRANTED}


class OutOfTime(TransientError):
    """The invocation ends before another order could be settled; what is left is done when the queue delivers again."""


@dataclass(frozen=True, slots=True)
class Worked:
    """What came of a message."""

    message: Message
    counts: Mapping[str, int]
    """Orders by their outcome, or one message `Repeated`."""
    failure: str | None = None
    """Why it must be delivered again; it holds nothing of a booking."""
    is_unworkable: bool = False
    """It will fail again: somebody must look at it."""


def work_batch(messages: Iterable[Message], desk: Desk, ends_at: datetime) -> Iterator[Worked]:
    """Work the messages in their order.  `ends_at` is when the invocation will be ended.

    Behind a message that failed, the others of its group fail unseen: a group's tasks are worked in their order.
    """
    failed: set[str] = set()
    for message in messages:
        worked = _unseen(message) if message.group in failed else _work(message, desk, ends_at)
        if worked.failure is not None:
            failed.add(message.group)
        yield worked


def _unseen(message: Message) -> Worked:
    return Worked(message, {}, "an earlier message of its group failed")


def _work(message: Message, desk: Desk, ends_at: datetime) -> Worked:
    """Work a message; whatever fails, fails for this message only."""
    try:
        return Worked(message, work_task(message.body, desk, ends_at))
    except OutOfTime as error:
        return Worked(message, {}, str(error))
    except DispatcherError as error:
        failure, is_unworkable = f"{type(error).__name__}: {error}", isinstance(error, UnworkableTask)
    except Exception as error:  # noqa: BLE001 -- one message must not hold up the others, whatever is wrong with it
        failure, is_unworkable = type(error).__name__, False
    try:
        desk.log.note_failure(message, failure)
    except DispatcherError as error:
        failure += f"; not noted: {error}"
    return Worked(message, {}, failure, is_unworkable)


def work_task(body: str, desk: Desk, ends_at: datetime) -> Mapping[str, int]:
    """Settle every order of a task, in order; how many had which outcome.

    Raises:
        UnworkableTask: message and object do not fit each other or the contract; nothing was granted.
        OutOfTime: as named; what was settled stays settled.
        TransientError: likewise, since something could not be asked now.
    """
    task = read_message(body, desk.bucket)
    if desk.log.is_finished(task.task_id):
        return {REPEATED: 1}
    counts: Counter[str] = Counter()
    for order in read_orders(task, desk.objects.read(task.header.Key, task.extent), desk.schema):
        if desk.clock() + MARGIN >= ends_at:
            raise OutOfTime("the invocation's time ends")
        counts[settle(order, desk)] += 1
    desk.log.finish(task.task_id, counts)
    return counts


def settle(order: Order, desk: Desk) -> Outcome:
    """Grant an order if its booking still waits for it.

    Raises:
        TransientError: the booking changes faster than it can be judged, or something could not be asked now.
    """
    for _ in range(LOOKS):
        booking = desk.bookings.newest(order.key)
        reason = judge(order, booking, desk.schema)
        if booking is None or reason is not None:
            return Outcome.ALREADY_GRANTED if desk.grants.is_granted(order) else reason or Outcome.GONE
        standing = Standing(order, booking)
        answer = desk.grants.grant(standing)
        if answer in _AT_ONCE:
            return _AT_ONCE[answer]
        if answer is Answer.OUT_OF_STOCK:
            to = later(order.version, desk.clock(), desk.postponed_by)
            if desk.bookings.postpone(standing, to):
                return Outcome.POSTPONED
    raise TransientError("a booking changes whenever it is to be granted")
