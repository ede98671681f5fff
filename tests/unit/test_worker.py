"""The reference worker, over fakes."""

import functools
import hashlib
import json
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from types import SimpleNamespace
from typing import Any, Final, NoReturn

import pytest
from aws_lambda_powertools import Metrics
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from functions.domain.booking import RecordVersion
from functions.domain.cursor import TIME_ATTRIBUTE
from functions.worker import grant_tasks, wiring
from functions.worker.ports import Message
from functions.worker.task import Outcome, later
from functions.worker.work import REPEATED, Worked, work_batch
from tests.unit.fakes import (
    DAY,
    FakeSandbox,
    World,
    a_run,
    booking,
    failed,
    throttled,
    walk,
    worked_example,
)

pytestmark = pytest.mark.usefixtures("either_layout")

PLENTY: Final = timedelta(seconds=120)
RECEIVES: Final = 5
"""So often does a queue deliver a message."""


@pytest.fixture
def sandbox(world: World) -> FakeSandbox:
    return FakeSandbox(world)


def dispatched(sandbox: FakeSandbox, *records: Any) -> list[Message]:
    """The messages of a run over these bookings, as the queue delivers them the first time."""
    sandbox.world.index.put(*records)
    walk(sandbox.world, sandbox.world.begun(a_run()))
    sent = sandbox.world.queues.messages
    return [Message(f"message-{place}", one.group, one.body, 1) for place, one in enumerate(sent)]


def work(sandbox: FakeSandbox, messages: list[Message], time: timedelta = PLENTY) -> list[Worked]:
    return list(work_batch(messages, sandbox.desk, sandbox.now() + time))


def altered(message: Message, **header: Any) -> Message:
    """The message with other values in its header."""
    body = json.loads(message.body)
    body["Data"] = json.dumps({**json.loads(body["Data"]), **header})
    return message._replace(body=json.dumps(body))


def reobjected(sandbox: FakeSandbox, message: Message, change: Callable[[dict[str, Any]], object]) -> Message:
    """Change the object of a message, which is the only task; where it lies in a pack its range and digest fit."""
    header = json.loads(json.loads(message.body)["Data"])
    content = json.loads(sandbox.world.task_data.objects[header["Key"]])
    change(content)
    body = json.dumps(content).encode()
    sandbox.world.task_data.objects[header["Key"]] = body
    if "Range" not in header:
        return message
    return altered(message, Range={"Start": 0, "Length": len(body)}, Sha256=hashlib.sha256(body).hexdigest())


def status_of(sandbox: FakeSandbox, record_id: str) -> str:
    (record,) = [one for one in sandbox.world.index.records.values() if one["RecordId"] == {"S": record_id}]
    return str(record["RewardStatus"]["S"])


def test_the_worked_example_is_granted_in_the_order_of_order_time_and_marked_rewarded(sandbox: FakeSandbox) -> None:
    worked = work(sandbox, dispatched(sandbox, *worked_example()))

    assert sandbox.granted == ["R2", "R1", "R5", "R3"]
    assert {status_of(sandbox, record) for record in sandbox.granted} == {"Rewarded"}
    assert {status_of(sandbox, record) for record in ("R0", "R6")} == {"WaitToReward"}
    assert [one.counts for one in worked] == [{"Granted": 2}, {"Granted": 1}, {"Granted": 1}]
    assert not any(one.failure for one in worked)


@pytest.mark.parametrize(
    ("newest", "outcome"),
    [
        (booking("R1", RewardStatus="Cancelled"), Outcome.NOT_WAITING),
        (booking("R1", RewardStatus="Rewarded"), Outcome.NOT_WAITING),
        (booking("R1", RewardStatus=None), Outcome.NOT_WAITING),
        (booking("R1", time="15:10:01Z"), Outcome.REBOOKED),
        (booking("R1", BookingDateUTC="2026-09-18"), Outcome.REBOOKED),
        (booking("R1", BookingDateUTC=None), Outcome.REBOOKED),
        (booking("R1", MemberId=2002), Outcome.CHANGED),
        (booking("R1", MemberId="2001"), Outcome.CHANGED),
        (booking("R1", RewardType="ECoupon"), Outcome.CHANGED),
        (booking("R1", OrderTime="yesterday"), Outcome.CHANGED),
        (None, Outcome.GONE),
    ],
    ids=[
        "cancelled",
        "rewarded by another",
        "without a status",
        "another time",
        "another date",
        "no date",
        "another member",
        "the same number as a text",
        "another reward",
        "bad data by now",
        "deleted",
    ],
)
def test_what_changed_since_it_was_sent_is_skipped_with_its_reason(
    sandbox: FakeSandbox, newest: dict[str, Any] | None, outcome: Outcome
) -> None:
    messages = dispatched(sandbox, booking("R1"))
    sandbox.world.index.delete("R1")
    if newest:
        sandbox.world.index.put(newest)

    (worked,) = work(sandbox, messages)

    assert sandbox.granted == []
    assert worked.counts == {outcome: 1}
    assert worked.failure is None


def test_an_attribute_that_does_not_say_when_what_or_for_whom_may_change(sandbox: FakeSandbox) -> None:
    messages = dispatched(sandbox, booking("R1", Amount=100))
    sandbox.world.index.put(booking("R1", Amount=200))

    work(sandbox, messages)

    assert sandbox.granted == ["R1"]


def test_what_is_cancelled_between_the_look_and_the_grant_is_not_granted(sandbox: FakeSandbox) -> None:
    messages = dispatched(sandbox, booking("R1"))
    cancelled = booking("R1", RewardStatus="Cancelled")
    sandbox.world.faults.after("newest", lambda: sandbox.world.index.put(cancelled))

    (worked,) = work(sandbox, messages)

    assert sandbox.granted == []
    assert worked.counts == {Outcome.NOT_WAITING: 1}


def test_a_booking_that_changes_at_every_look_is_left_for_the_next_delivery(sandbox: FakeSandbox) -> None:
    messages = dispatched(sandbox, booking("R1"))
    for amount in (1, 2, 3):
        change = functools.partial(sandbox.world.index.put, booking("R1", Amount=amount))
        sandbox.world.faults.after("newest", change, amount)

    (worked,) = work(sandbox, messages)

    assert worked.failure == "TransientError: a booking changes whenever it is to be granted"
    assert not worked.is_unworkable
    assert work(sandbox, messages)[0].counts == {"Granted": 1}


def test_a_message_that_comes_again_is_done_without_a_look_at_its_object(sandbox: FakeSandbox) -> None:
    messages = dispatched(sandbox, *worked_example())
    work(sandbox, messages)
    sandbox.world.faults.log.clear()

    again = work(sandbox, messages)

    assert [one.counts for one in again] == [{REPEATED: 1}] * 3
    assert set(sandbox.world.faults.log) == {"is finished"}
    assert sandbox.granted == ["R2", "R1", "R5", "R3"]


def test_a_record_that_stands_in_two_tasks_is_granted_once(sandbox: FakeSandbox) -> None:
    messages = dispatched(sandbox, booking("R1"))
    work(sandbox, messages)
    sandbox.finished.clear()

    (worked,) = work(sandbox, messages)

    assert sandbox.granted == ["R1"]
    assert worked.counts == {Outcome.ALREADY_GRANTED: 1}


def test_a_status_that_was_set_back_does_not_grant_the_same_version_again(sandbox: FakeSandbox) -> None:
    messages = dispatched(sandbox, booking("R1"))
    work(sandbox, messages)
    sandbox.finished.clear()
    sandbox.world.index.put(booking("R1"))

    assert work(sandbox, messages)[0].counts == {Outcome.ALREADY_GRANTED: 1}
    assert sandbox.granted == ["R1"]


def test_a_coupon_that_ran_short_is_moved_to_a_later_hour_and_granted_by_its_next_task(sandbox: FakeSandbox) -> None:
    sandbox.world.clock.now = datetime(2026, 9, 17, 15, 0, tzinfo=UTC).timestamp()
    sandbox.stock["3001"] = 1
    messages = dispatched(
        sandbox,
        booking("R1", "15:10:00Z", RewardType="ECoupon", OrderTime=f"{DAY}T14:00:00Z"),
        booking("R2", "15:20:00Z", RewardType="ECoupon", OrderTime=f"{DAY}T14:30:00Z"),
    )

    (worked,) = work(sandbox, messages)

    assert worked.counts == {Outcome.GRANTED: 1, Outcome.POSTPONED: 1}
    assert sandbox.granted == ["R1"]
    (moved,) = [one for one in sandbox.world.index.records.values() if one["RecordId"] == {"S": "R2"}]
    assert moved == booking("R2", "16:20:00Z", RewardType="ECoupon", OrderTime=f"{DAY}T14:30:00Z")

    sandbox.finished.clear()
    assert work(sandbox, messages)[0].counts == {Outcome.ALREADY_GRANTED: 1, Outcome.REBOOKED: 1}

    sandbox.stock["3001"] = 5
    next_hour = a_run(run_id="run-2", window=a_run().window.next)
    sandbox.world.ledger.release(a_run().lease_owner)
    walk(sandbox.world, sandbox.world.begun(next_hour))
    last = sandbox.world.queues.messages[-1]
    work(sandbox, [Message("next", last.group, last.body, 1)])
    assert sandbox.granted == ["R1", "R2"]


@pytest.mark.parametrize(
    ("date", "time", "now", "moved"),
    [
        ("2026-09-17", "15:20:00Z", "2026-09-17T16:05:00", ("2026-09-17", "17:05:00Z")),
        ("2026-09-17", "15:20:00Z", "2026-09-17T15:00:00", ("2026-09-17", "16:20:00Z")),
        ("2026-09-17", "23:20:00.75Z", "2026-09-17T23:00:00", ("2026-09-18", "00:20:00Z")),
        ("2026-09-17", "24:00:00Z", "2026-09-17T23:00:00", ("2026-09-18", "01:00:00Z")),
        ("2026-12-31", "23:59:59Z", "2027-01-01T05:06:07.890", ("2027-01-01", "06:06:07Z")),
    ],
    ids=["after its hour was dispatched", "before its time", "over midnight", "at midnight", "long after"],
)
def test_a_moved_booking_lies_in_a_window_that_is_still_to_come(
    date: str, time: str, now: str, moved: tuple[str, str]
) -> None:
    at = later(RecordVersion("{}", date, time), datetime.fromisoformat(now).replace(tzinfo=UTC), timedelta(hours=1))

    assert (at.date, at.time) == moved


WRONG_MESSAGES: Final[dict[str, tuple[Callable[[Message], Message], str]]] = {
    "no JSON": (lambda one: one._replace(body="{"), "message: no JSON"),
    "no object": (lambda one: one._replace(body="7"), "message: model_type"),
    "no task": (lambda one: one._replace(body="{}"), "message.JobName: missing"),
    "Data is no JSON": (
        lambda one: one._replace(body=json.dumps({**json.loads(one.body), "Data": "NaN"})),
        "Data: no JSON",
    ),
    "an unknown field": (lambda one: altered(one, More=1), "Data.More: extra_forbidden"),
    "another bucket": (lambda one: altered(one, Bucket="elsewhere"), "Data.Bucket: another bucket"),
    "another shop": (lambda one: altered(one, ShopId=7), "object.ShopId: not that of the message"),
    "the shop as a text": (lambda one: altered(one, ShopId="1001"), "object.ShopId: not that of the message"),
    "another count": (lambda one: altered(one, OrderCount=3), "object.OrderCount: not that of the message"),
    "a missing object": (lambda one: altered(one, Key="tasks/none"), "its object is missing"),
}
OTHER_TASK: Final = "object.Orders: an order of another task"
OTHER_ID: Final = "TaskId: not that of the object's orders"
WRONG_OBJECTS: Final[dict[str, tuple[Callable[[dict[str, Any]], object], str]]] = {
    "no orders": (lambda content: content.update(Orders=[]), "object.Orders: too_short"),
    "an order less": (lambda content: content["Orders"].pop(), "object.Orders: not as many as OrderCount"),
    "an order of another member": (lambda content: content["Orders"][0].update(MemberId=9), OTHER_TASK),
    "an order of the other route": (lambda content: content["Orders"][0].update(RewardType="ECoupon"), OTHER_TASK),
    "an order without its key": (
        lambda content: content["Orders"][0].pop("RecordId"),
        "object.Orders: an order without its key or its date",
    ),
    "another record": (lambda content: content["Orders"][0].update(RecordId="R9"), OTHER_ID),
    "another booking time": (lambda content: content["Orders"][0].update(BookingTimeUTC="15:11:00Z"), OTHER_ID),
}


@pytest.mark.parametrize(("change", "reason"), WRONG_MESSAGES.values(), ids=WRONG_MESSAGES)
def test_a_message_that_is_not_what_it_says_grants_nothing_and_its_reason_is_kept(
    sandbox: FakeSandbox, change: Callable[[Message], Message], reason: str
) -> None:
    (message,) = dispatched(sandbox, booking("R1"), booking("R2"))

    must_be_refused(sandbox, change(message), reason)


@pytest.mark.parametrize(("change", "reason"), WRONG_OBJECTS.values(), ids=WRONG_OBJECTS)
def test_an_object_that_was_altered_grants_nothing_and_its_reason_is_kept(
    sandbox: FakeSandbox, change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    (message,) = dispatched(sandbox, booking("R1"), booking("R2"))

    must_be_refused(sandbox, reobjected(sandbox, message, change), reason)


def must_be_refused(sandbox: FakeSandbox, message: Message, reason: str) -> None:
    (worked,) = work(sandbox, [message])

    assert sandbox.granted == []
    assert worked.is_unworkable
    assert worked.failure == sandbox.failures["message-0"] == f"UnworkableTask: {reason}"


@pytest.mark.parametrize("window", ["2026-13-17T15:00:00Z", "2026-09-17T14:00:00Z"], ids=["no hour", "another hour"])
def test_a_window_that_is_not_the_keys_is_refused(sandbox: FakeSandbox, window: str) -> None:
    (message,) = dispatched(sandbox, booking("R1"))
    message = reobjected(sandbox, message, lambda content: content.update(WindowStart=window))

    (worked,) = work(sandbox, [altered(message, WindowStart=window)])

    assert worked.is_unworkable
    assert sandbox.granted == []


def test_behind_a_failed_message_the_rest_of_its_group_fails_and_other_groups_go_on(sandbox: FakeSandbox) -> None:
    messages = dispatched(
        sandbox,
        booking("R1"),
        booking("R2", RewardType="ECoupon"),
        booking("R3", time="15:11:00Z", MemberId=2002),
    )
    first, third, second = messages
    assert first.group == second.group != third.group
    broken = first._replace(body="{")

    worked = work(sandbox, [broken, third, second])

    assert [one.failure is None for one in worked] == [False, True, False]
    assert worked[2].failure == "an earlier message of its group failed"
    assert sandbox.granted == ["R3"]
    assert sandbox.failures.keys() == {broken.message_id}, "a message that was not looked at has no reason of its own"

    assert not any(one.failure for one in work(sandbox, [first, second]))
    assert sorted(sandbox.granted) == ["R1", "R2", "R3"]


def test_a_worker_remembers_no_failed_group_from_one_batch_to_the_next(sandbox: FakeSandbox) -> None:
    (message,) = dispatched(sandbox, booking("R1"))
    sandbox.world.faults.before("grant", throttled)

    assert work(sandbox, [message])[0].failure == "TransientError: throttled"
    assert work(sandbox, [message])[0].counts == {"Granted": 1}


def test_an_error_that_nobody_foresaw_fails_its_message_only_and_shows_no_value(sandbox: FakeSandbox) -> None:
    messages = dispatched(sandbox, booking("R1", MemberId="a"), booking("R2", MemberId="b"))

    def surprise() -> None:
        raise KeyError("member-a")

    sandbox.world.faults.before("newest", surprise)

    worked = work(sandbox, messages)

    assert [one.failure for one in worked] == ["KeyError", None]
    assert not worked[0].is_unworkable


def test_a_failure_that_cannot_be_kept_is_still_a_failure_of_the_message(sandbox: FakeSandbox) -> None:
    (message,) = dispatched(sandbox, booking("R1"))
    sandbox.world.faults.before("note failure", failed)

    (worked,) = work(sandbox, [message._replace(body="{")])

    assert worked.failure == "UnworkableTask: message: no JSON; not noted: refused"


def test_no_order_is_begun_when_the_time_ends_and_the_next_delivery_goes_on(sandbox: FakeSandbox) -> None:
    messages = dispatched(sandbox, *(booking(f"R{n}", OrderTime=f"{DAY}T14:0{n}:00Z") for n in range(1, 5)))
    sandbox.world.faults.after("grant", lambda: sandbox.world.clock.advance(101), 2)

    (worked,) = work(sandbox, messages)

    assert sandbox.granted == ["R1", "R2"]
    assert worked.failure == "the invocation's time ends"
    assert sandbox.failures == {}
    assert work(sandbox, messages)[0].counts == {Outcome.ALREADY_GRANTED: 2, Outcome.GRANTED: 2}
    assert sandbox.granted == ["R1", "R2", "R3", "R4"]


def as_lambda_hands_it_over(*messages: Message) -> dict[str, Any]:
    records = [
        {
            "messageId": message.message_id,
            "body": message.body,
            "attributes": {"MessageGroupId": message.group, "ApproximateReceiveCount": str(message.receives)},
        }
        for message in messages
    ]
    return {"Records": records}


@pytest.fixture
def logged(sandbox: FakeSandbox, monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What the function logs, on the sandbox."""
    monkeypatch.setattr(wiring, "desk", lambda: sandbox.desk)
    monkeypatch.setattr(wiring, "now", sandbox.now)
    monkeypatch.setattr(grant_tasks, "metrics", Metrics(namespace="test", service="worker"))
    lines = StringIO()
    monkeypatch.setattr(grant_tasks.logger.registered_handler, "stream", lines)
    return lines


def test_the_answer_names_what_must_come_again_and_the_log_says_why_and_nothing_of_a_booking(
    sandbox: FakeSandbox, logged: StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = dispatched(
        sandbox,
        booking("record-1", MemberId="member-1"),
        booking("record-2", time="15:11:00Z", MemberId="member-2"),
    )
    context = SimpleNamespace(
        function_name="worker",
        memory_limit_in_mb=512,
        invoked_function_arn="worker",
        aws_request_id="request",
        get_remaining_time_in_millis=lambda: 120_000,
    )

    answer = grant_tasks.handler(as_lambda_hands_it_over(good, altered(bad, ShopId=7)), context)

    assert answer == {"batchItemFailures": [{"itemIdentifier": bad.message_id}]}
    printed = logged.getvalue() + capsys.readouterr().out
    worked, failed, counted = map(json.loads, printed.splitlines())
    assert (worked["MessageId"], worked["Granted"]) == (good.message_id, 1)
    assert (failed["MessageId"], failed["Unworkable"]) == (bad.message_id, True)
    assert failed["Reason"] == "UnworkableTask: object.ShopId: not that of the message"
    assert (counted["Granted"], counted["FailedMessages"]) == ([1.0], [0.0, 1.0])
    assert not re.findall(r"member-|record-|\b1001\b|\b3001\b", printed)


def test_a_setting_that_is_missing_is_named() -> None:
    with pytest.raises(ValidationError, match="GRANT_TABLE_NAME"):
        wiring.WorkerSettings.model_validate({"BOOKING_TABLE_NAME": "bookings"})


OPERATIONS: Final = (
    "is finished",
    "read object",
    "newest",
    "grant",
    "postpone",
    "is granted",
    "finish",
    "note failure",
)


class Killed(BaseException):
    """The process ends here: nothing may catch this."""


def killed() -> NoReturn:
    raise Killed


@given(st.data())
def test_whatever_goes_wrong_each_version_is_granted_once_and_nothing_that_was_cancelled(data: st.DataObject) -> None:
    world = World()
    sandbox = FakeSandbox(world, stock={"3001": 1})
    names = [f"R{number}" for number in range(6)]
    routes = data.draw(st.lists(st.sampled_from(("Point", "ECoupon")), min_size=6, max_size=6))
    records = [
        booking(name, RewardType=route, MemberId=number % 2)
        for number, (name, route) in enumerate(zip(names, routes, strict=True))
    ]
    messages = dispatched(sandbox, *records)
    world.index.put({**records[0], "RewardStatus": {"S": "Cancelled"}})
    for _ in range(data.draw(st.integers(1, 4))):
        operation, nth = data.draw(st.sampled_from(OPERATIONS)), data.draw(st.integers(1, 4))
        fault = data.draw(st.sampled_from((throttled, failed, killed)))
        data.draw(st.sampled_from((world.faults.before, world.faults.after)))(operation, fault, nth)
    waiting = list(messages)
    for _ in range(RECEIVES):
        with suppress(Killed):
            waiting = [one.message for one in work(sandbox, waiting) if one.failure]
    world.faults.clear()
    for _ in range(2):
        work(sandbox, messages)

    stands = {record["RecordId"]["S"]: record[TIME_ATTRIBUTE]["S"] for record in world.index.records.values()}
    moved = [name for name in names if stands[name] != "15:10:00Z"]
    assert sorted(sandbox.granted + moved) == names[1:]
