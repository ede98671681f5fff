"""On return every task is on its route's queue, whatever a batch's answer left out: SQS with staged refusals."""

import itertools
import json
import re
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pytest

from functions.adapters.pool import THREADS
from functions.adapters.task_queues import SqsTaskQueues
from functions.domain.booking import Route
from functions.domain.errors import ConfigurationError, DispatcherError, DispatchFailed, LeaseLost, TransientError
from functions.domain.task import NewTask, Task, message_body
from tests.contract.staged import (
    Call,
    Step,
    at_any_time,
    calls_of,
    composed,
    lost_answer,
    members,
    read_timeout,
    record,
    refusal,
    refuse_entries,
    stage,
)

OLD_LIMIT: Final = 262_144
"""A queue's limit of a message and of a batch may still be these 256 KiB; SQS itself takes 1 MiB."""


def unnoted(_: Iterable[str]) -> None:
    """What was accepted, for a test that asks the queue instead."""


def tasks_of(new: Iterable[NewTask]) -> list[Task]:
    return [each.task for each in new]


def late_after_late(count: int) -> list[Task]:
    """Tasks of one group, each of a later page."""
    return [composed(record(f"R{number}"))[0].task for number in range(count)]


def received(queues: SqsTaskQueues, route: Route = Route.POINT) -> list[dict[str, Any]]:
    """Take every message from a queue, in its order."""
    url = queues.urls[route]
    messages: list[dict[str, Any]] = []
    for _ in range(100):
        batch = queues.client.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        ).get("Messages")
        if not batch:
            return messages
        messages += batch
        for message in batch:
            queues.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    pytest.fail("the queue does not become empty")


def task_ids(queues: SqsTaskQueues, route: Route = Route.POINT) -> list[str]:
    return [json.loads(message["Body"])["TaskId"] for message in received(queues, route)]


def entries(calls: Iterable[Call]) -> list[list[str]]:
    """The task ids of each batch, in its order."""
    return [[entry["MessageDeduplicationId"] for entry in call.params["Entries"]] for call in calls]


def test_each_task_goes_once_to_its_routes_queue_as_json_inside_json(queues: SqsTaskQueues) -> None:
    coupon, point = composed(record("R1", RewardType={"S": "ECoupon"}), record("R2"))
    queues.send(tasks_of([coupon, point]), at_any_time, unnoted)
    for route, job, new in ((Route.POINT, "RewardPoint", point), (Route.COUPON, "RewardCoupon", coupon)):
        (message,) = received(queues, route)
        body = json.loads(message["Body"])
        assert (body["JobName"], body["TaskId"]) == (job, new.task.task_id)
        assert json.loads(body["Data"]) == {
            "ShopId": 1001,
            "MemberId": 2001,
            "PromotionEngineId": 3001,
            "WindowStart": "2026-09-17T15:00:00Z",
            "WindowEnd": "2026-09-17T16:00:00Z",
            "Bucket": queues.bucket,
            "Key": new.task.object_key,
            "OrderCount": 1,
        }
    assert coupon.task.task_id != point.task.task_id


def test_no_task_is_no_call(queues: SqsTaskQueues) -> None:
    calls = calls_of(queues.client)
    queues.send([], at_any_time, unnoted)
    assert calls == []


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (10, [10]), (11, [1, 10]), (25, [5, 10, 10])])
def test_tasks_are_sent_ten_at_a_time(queues: SqsTaskQueues, count: int, sizes: list[int]) -> None:
    calls = calls_of(queues.client)
    tasks = tasks_of(members(count))
    queues.send(tasks, at_any_time, unnoted)
    assert sorted(map(len, entries(calls))) == sizes
    assert sorted(task_ids(queues)) == sorted(task.task_id for task in tasks)


def test_a_batch_stays_within_the_old_limit_of_256_kib(queues: SqsTaskQueues) -> None:
    long = {"S": "\u0001" * 1900}  # every byte of it takes seven in the message, so that six tasks fit, and not seven
    tasks = tasks_of(
        composed(
            *(
                record(f"R{n}", ShopId=long, MemberId=long, PromotionEngineId={"S": f"{long['S']}{n}"})
                for n in range(10)
            )
        )
    )
    calls = calls_of(queues.client)
    queues.send(tasks, at_any_time, unnoted)
    bytes_sent = [sum(len(entry["MessageBody"].encode()) for entry in call.params["Entries"]) for call in calls]
    assert sorted(map(len, entries(calls))) == [4, 6]
    assert max(bytes_sent) <= OLD_LIMIT < sum(bytes_sent)
    assert sorted(task_ids(queues)) == sorted(task.task_id for task in tasks)


@pytest.mark.parametrize(
    "member",
    [
        pytest.param("shop#1/mem 2", id="no entry id"),
        pytest.param("mem \u00e9" + "x" * 195, id="no group id"),
        pytest.param("s\ufffe\uffff", id="no message text"),
        pytest.param("\u65e5\u672c\U0001f381", id="beyond ASCII"),
    ],
)
def test_an_id_that_sqs_takes_nowhere_reaches_the_consumer_unchanged(queues: SqsTaskQueues, member: str) -> None:
    calls = calls_of(queues.client)
    queues.send(tasks_of(composed(record("R1", MemberId={"S": member}))), at_any_time, unnoted)
    (entry,) = calls[0].params["Entries"]
    assert re.fullmatch("[A-Za-z0-9_-]{1,80}", entry["Id"])
    assert re.fullmatch("[0-9a-f]{64}", entry["MessageGroupId"])
    assert re.fullmatch("[0-9a-f]{64}", entry["MessageDeduplicationId"])
    assert entry["MessageBody"].isascii()
    (message,) = received(queues)
    assert json.loads(json.loads(message["Body"])["Data"])["MemberId"] == member


def test_late_records_of_a_group_are_a_second_message_of_the_same_message_group(queues: SqsTaskQueues) -> None:
    first, late = late_after_late(2)
    queues.send([first], at_any_time, unnoted)
    queues.send([late], at_any_time, unnoted)
    messages = received(queues)
    assert [json.loads(message["Body"])["TaskId"] for message in messages] == [first.task_id, late.task_id]
    assert len({message["Attributes"]["MessageGroupId"] for message in messages}) == 1


def test_the_same_task_sent_twice_is_one_message(queues: SqsTaskQueues) -> None:
    (task,) = tasks_of(members(1))
    for _ in range(2):
        queues.send([task], at_any_time, unnoted)
    assert task_ids(queues) == [task.task_id]


def test_an_entry_refused_for_no_fault_of_its_own_is_sent_again_alone(
    queues: SqsTaskQueues, pauses: list[float]
) -> None:
    first, second, third = tasks_of(members(3))
    calls = calls_of(queues.client)
    refuse_entries(queues.client, {"1": False})
    queues.send([first, second, third], at_any_time, unnoted)
    assert entries(calls) == [[first.task_id, second.task_id, third.task_id], [second.task_id]]
    assert len(pauses) == 1
    assert set(task_ids(queues)) == {first.task_id, second.task_id, third.task_id}


def test_entries_in_neither_list_are_sent_again(queues: SqsTaskQueues, pauses: list[float]) -> None:
    tasks = tasks_of(members(4))
    ids = [task.task_id for task in tasks]
    calls = calls_of(queues.client)
    refuse_entries(queues.client, {"0": None, "2": None, "3": False}, {"2": None})
    queues.send(tasks, at_any_time, unnoted)
    assert entries(calls) == [ids, [ids[0], ids[2], ids[3]], [ids[2]]]
    assert len(pauses) == 2
    assert set(task_ids(queues)) == set(ids)


def test_an_entry_at_fault_stops_at_once_and_later_tasks_are_not_sent(
    queues: SqsTaskQueues, pauses: list[float]
) -> None:
    first, second, third = tasks_of(members(3))
    later = composed(record("R9", MemberId={"S": "member-0"}))[0].task
    calls = calls_of(queues.client)
    refuse_entries(queues.client, {"1": True, "2": False})
    with pytest.raises(DispatchFailed, match=r"^SendMessageBatch: entry refused, InvalidMessageContents$"):
        queues.send([first, second, third, later], at_any_time, unnoted)
    assert entries(calls) == [[first.task_id, second.task_id, third.task_id]]
    assert pauses == []
    assert task_ids(queues) == [first.task_id]


def test_entries_that_stay_refused_are_a_transient_error_after_a_few_attempts(
    queues: SqsTaskQueues, pauses: list[float]
) -> None:
    tasks = tasks_of(members(3))
    calls = calls_of(queues.client)
    refuse_entries(queues.client, {"1": False, "2": None}, {"1": False}, {"1": False})
    with pytest.raises(TransientError, match=r"^SendMessageBatch: 1 entries not accepted$"):
        queues.send(tasks, at_any_time, unnoted)
    assert [len(batch) for batch in entries(calls)] == [3, 2, 1]
    assert [0 <= pause <= limit for pause, limit in zip(pauses, (0.4, 0.8), strict=True)] == [True, True]
    assert set(task_ids(queues)) == {tasks[0].task_id, tasks[2].task_id}


def test_tasks_of_one_group_keep_their_order_even_where_an_entry_is_refused(
    queues: SqsTaskQueues, pauses: list[float]
) -> None:
    tasks = late_after_late(5)
    refuse_entries(queues.client, {"0": False}, {"0": None})
    queues.send(tasks, at_any_time, unnoted)
    assert len(pauses) == 2
    assert task_ids(queues) == [task.task_id for task in tasks]


def test_tasks_of_one_group_keep_their_order_among_many_others(queues: SqsTaskQueues) -> None:
    tasks, others = late_after_late(5), tasks_of(members(40))
    queues.send([tasks[0], *others[:20], *tasks[1:3], *others[20:], *tasks[3:]], at_any_time, unnoted)
    order = [each for each in task_ids(queues) if each in {task.task_id for task in tasks}]
    assert order == [task.task_id for task in tasks]


class OutOfTime:
    """A lease with time for so many batches."""

    def __init__(self, batches: int) -> None:
        self._left = iter(range(batches))
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            if next(self._left, None) is None:
                raise LeaseLost("no time left")


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_a_lease_out_of_time_stops_the_sending_before_the_next_batch(queues: SqsTaskQueues, batches: int) -> None:
    tasks = late_after_late(5)
    calls = calls_of(queues.client)
    with pytest.raises(LeaseLost, match=r"^no time left$"):
        queues.send(tasks, OutOfTime(batches), unnoted)
    assert entries(calls) == [[task.task_id] for task in tasks[:batches]]
    assert task_ids(queues) == [task.task_id for task in tasks[:batches]]


def test_a_lease_out_of_time_stops_all_batches_side_by_side(queues: SqsTaskQueues) -> None:
    calls = calls_of(queues.client)
    with pytest.raises(LeaseLost, match=r"^no time left$"):
        queues.send(tasks_of(members(20 * THREADS)), OutOfTime(2), unnoted)
    assert len(calls) == 2


def test_a_lease_out_of_time_stops_another_attempt_too(queues: SqsTaskQueues, pauses: list[float]) -> None:
    tasks = tasks_of(members(3))
    calls = calls_of(queues.client)
    refuse_entries(queues.client, {"1": False})
    with pytest.raises(LeaseLost, match=r"^no time left$"):
        queues.send(tasks, OutOfTime(1), unnoted)
    assert (len(calls), len(pauses)) == (1, 1)


@pytest.mark.usefixtures("pauses")
def test_a_batch_whose_answer_was_lost_is_one_message_each(queues: SqsTaskQueues) -> None:
    tasks = tasks_of(members(10))
    requests = stage(queues.client, "SendMessageBatch", [lost_answer, lost_answer])
    queues.send(tasks, at_any_time, unnoted)
    assert len(requests) == 3
    assert sorted(task_ids(queues)) == sorted(task.task_id for task in tasks)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(refusal("ThrottlingException"), TransientError, id="throttled"),
        pytest.param(refusal("ServiceUnavailable", 503), TransientError, id="unavailable"),
        pytest.param(read_timeout, TransientError, id="no answer in time"),
        pytest.param(refusal("AccessDenied", 403, "member-0"), ConfigurationError, id="no right to send"),
        pytest.param(refusal("BatchRequestTooLong", 400, "member-0"), DispatchFailed, id="anything else"),
    ],
)
@pytest.mark.usefixtures("pauses")
def test_a_failed_batch_says_who_acts_and_holds_no_value_of_a_record(
    queues: SqsTaskQueues, step: Step, kind: type[DispatcherError]
) -> None:
    tasks = tasks_of(members(1))
    stage(queues.client, "SendMessageBatch", itertools.repeat(step))
    with pytest.raises(DispatcherError, match=r"^SendMessageBatch: ") as raised:
        queues.send(tasks, at_any_time, unnoted)
    assert type(raised.value) is kind
    assert not re.search(f"member-0|{tasks[0].task_id}", str(raised.value))


def test_a_missing_queue_is_a_configuration_error(queues: SqsTaskQueues) -> None:
    missing = {route: url.replace(".fifo", "-gone.fifo") for route, url in queues.urls.items()}
    with pytest.raises(ConfigurationError, match=r"^SendMessageBatch: .*(NonExistentQueue|QueueDoesNotExist)"):
        replace(queues, urls=missing).send(tasks_of(members(1)), at_any_time, unnoted)


def test_the_longest_message_is_far_below_a_queues_limit(queues: SqsTaskQueues) -> None:
    longest = {"S": "\u0001" * 2048}
    (task,) = tasks_of(composed(record("R1", ShopId=longest, MemberId=longest, PromotionEngineId=longest)))
    assert len(message_body(task, queues.bucket)) < OLD_LIMIT / 5
