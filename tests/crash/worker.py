"""Every call of a worker's batch, gone wrong in every way: whatever happens, each record version is granted once.

Two members have a task on each route.  Of the bookings one was re-booked since, one was cancelled, one is out of stock.
The queue delivers again what was not taken off it, and in the end all of it once more, as after its five minutes.
Before any call another worker may do all of the batch, as one may whose messages came again too early, or a booking be
cancelled.
"""

import functools
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple, TypeAlias

import pytest
from moto import mock_aws

from tests.crash.grants import GRANTS, Worker, as_delivered, dynamodb, scan
from tests.machine.faults import Call, Fault
from tests.machine.walk import BOOKINGS, Account, State, Walk, booking, group_of

RECEIVES: Final = 5


class Happening(Enum):
    """What others do just before a call."""

    RIVAL = auto()
    CANCELLED = auto()


Event: TypeAlias = Fault | Happening

KINDS: Final[dict[Event, str]] = {
    Fault.THROTTLED: "throttled",
    Fault.UNREACHED: "failed before its effect",
    Fault.ANSWER_LOST: "answer lost after its effect",
    Fault.DIED_BEFORE: "worker dead before",
    Fault.DIED_AFTER: "worker dead after",
    Happening.RIVAL: "a rival worker before",
    Happening.CANCELLED: "cancelled before",
}
HOUR: Final[State] = {"ExecuteTime": "2026-09-17T16:01:10Z", "PaginationEnabled": True}
ONE_LEFT: Final = {"Pk": {"S": "stock#3001"}, "Left": {"N": "1"}}

_A, _B = group_of(1001, 2001, 3001), group_of(1001, 2002, 3001)


def _booked(record: str, ordered: str, group: State, route: str = "Point") -> State:
    return booking(record, RewardType=route, OrderTime=f"2026-09-17T14:{ordered}:00Z", **group)


_BOOKED: Final = (
    _booked("granted-1", "01", _A),
    _booked("rebooked", "02", _A),
    _booked("granted-2", "03", _A),
    _booked("cancelled", "04", _B),
    _booked("granted-3", "05", _B),
    _booked("in-stock", "06", _A, "ECoupon"),
    _booked("short", "07", _A, "ECoupon"),
)
_SINCE: Final = (
    {**_BOOKED[1], "BookingTimeUTC": {"S": "17:30:00Z"}},
    {**_BOOKED[3], "RewardStatus": {"S": "Cancelled"}},
)
ENDS: Final = {
    "granted-1": "Rewarded",
    "granted-2": "Rewarded",
    "granted-3": "Rewarded",
    "in-stock": "Rewarded",
    "rebooked": "WaitToReward",
    "cancelled": "Cancelled",
    "short": "WaitToReward",
}
CANCELLED_LATE: Final = "granted-2"
"""What is cancelled while the worker works, if it is not too late."""


class Verdict(NamedTuple):
    """What came of one case."""

    deliveries: int
    violations: tuple[str, ...]


class Case(NamedTuple):
    """What happens, by the number of the call that meets it, from 1."""

    events: tuple[tuple[int, Event], ...]

    def __str__(self) -> str:
        return "+".join(f"{number}.{event.name}" for number, event in self.events)

    @classmethod
    def named(cls, text: str) -> "Case":
        """The inverse of `str`."""
        names: dict[str, Event] = {event.name: event for event in KINDS}
        pairs = (event.split(".") for event in text.split("+"))
        return cls(tuple((int(number), names[name]) for number, name in pairs))


@dataclass(frozen=True, slots=True)
class Stage:
    """The account in which the tasks stand on the queues; only forks of this process go on from here."""

    account: Account
    walk: Walk
    worker: Worker
    begun: int

    def calls(self) -> list[str]:
        """The operations of a batch in which nothing goes wrong."""
        verdict = self.judge(Case(()))
        assert not verdict.violations, verdict.violations
        assert verdict.deliveries == 1
        made = [call for call in self.walk.calls.made[self.begun :] if call.payload.get("Delivery") == 1]
        return [call.operation for call in made]

    def judge(self, case: Case) -> Verdict:
        """Deliver until the queues are empty, then once more, and look at what was granted."""
        random.seed(str(case))
        messages = as_delivered(body for _, body in self.account.messages)
        for number, event in case.events:
            when = functools.partial(_is, self.begun + number)
            if event is Happening.RIVAL:
                self.walk.calls.precede(when, functools.partial(self._let_a_rival_work, messages))
            elif event is Happening.CANCELLED:
                self.walk.calls.precede(when, _cancel)
            elif isinstance(event, Fault):
                self.walk.calls.stage(event, when)
        waiting, deliveries = messages, 0
        while waiting and deliveries < RECEIVES:
            deliveries += 1
            waiting = self.worker.deliver(waiting, deliveries)
        violations = [f"not done after {RECEIVES} deliveries: {len(waiting)}"] if waiting else []
        before = scan(GRANTS), scan(BOOKINGS)
        again = self.worker.deliver(messages, deliveries + 1)
        if again or before != (scan(GRANTS), scan(BOOKINGS)):
            violations.append("a repeat of all messages did something")
        return Verdict(deliveries, (*violations, *self._found()))

    def _let_a_rival_work(self, messages: list[State]) -> None:
        assert self.worker.deliver(messages, 0) == []

    def _found(self) -> Iterator[str]:
        rows = scan(GRANTS)
        bookings = {row["RecordId"]["S"]: row for row in scan(BOOKINGS)}
        statuses = {record: row["RewardStatus"]["S"] for record, row in bookings.items()}
        ends = ENDS | ({CANCELLED_LATE: "Cancelled"} if "CancelledLate" in bookings[CANCELLED_LATE] else {})
        if statuses != ends:
            yield f"the bookings say {statuses}"
        due = sorted(record for record, status in ends.items() if status == "Rewarded")
        granted = sorted(json.loads(row["RecordKey"]["S"])["RecordId"] for row in rows if "RecordKey" in row)
        if granted != due:
            yield f"granted: {granted}, expected {due}"
        if set(self.worker.granted.values()) != {1}:
            yield f"granted more than once: {self.worker.granted}"
        if bookings["rebooked"] != _SINCE[0]:
            yield "the re-booked one was touched"
        if bookings["short"]["BookingTimeUTC"] == _BOOKED[-1]["BookingTimeUTC"]:
            yield "the one that ran short was not moved"
        left = [row["Left"]["N"] for row in rows if "Left" in row]
        if left != ["0"]:
            yield f"the stock is {left}"


@contextmanager
def staged() -> Iterator[Stage]:
    """The stage, set up in this process: the tasks were dispatched, and then the bookings changed."""
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}), pytest.MonkeyPatch.context() as patch:
        account = Account()
        walk = Walk(account, patch)
        account.book(*_BOOKED)
        assert walk.run(HOUR).output["Tasks"] == 3
        account.book(*_SINCE)
        worker = Worker(walk, patch)
        dynamodb().put_item(TableName=GRANTS, Item=ONE_LEFT)
        yield Stage(account, walk, worker, len(walk.calls.made))


def cases(calls: Sequence[str]) -> Iterator[Case]:
    """Each call with each event, and each death with another one soon after the worker came back."""
    for number, _ in enumerate(calls, start=1):
        for event in KINDS:
            yield Case(((number, event),))
        yield Case(((number, Fault.DIED_AFTER), (number + 2, Fault.DIED_AFTER)))


def _cancel() -> None:
    """Cancel a booking as the platform does: not when it is rewarded."""
    with suppress(dynamodb().exceptions.ConditionalCheckFailedException):
        dynamodb().update_item(
            TableName=BOOKINGS,
            Key={"RecordId": {"S": CANCELLED_LATE}},
            ConditionExpression="RewardStatus = :waiting",
            UpdateExpression="SET RewardStatus = :cancelled, CancelledLate = :yes",
            ExpressionAttributeValues={
                ":waiting": {"S": "WaitToReward"},
                ":cancelled": {"S": "Cancelled"},
                ":yes": {"BOOL": True},
            },
        )


def _is(number: int, call: Call) -> bool:
    return call.number == number
