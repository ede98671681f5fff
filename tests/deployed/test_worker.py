"""The deployed worker: it takes what stands on the queues when it is switched on, with its own rights."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.deployed.application import QUEUES, Application, Day
from tests.deployed.wire import wait_until
from tools.demo import circle
from tools.worker import Worker

SHORT_SECONDS: Final = "1"
"""A visibility time by which a poisoned message is given up within seconds."""


@contextmanager
def short_visibility(application: Application) -> Iterator[None]:
    sqs = application.client("sqs")
    urls = [application.outputs[queue] for queue in QUEUES.values()]
    before = [
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"] for url in urls
    ]
    for url in urls:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": SHORT_SECONDS})
    try:
        yield
    finally:
        for url, attributes in zip(urls, before, strict=True):
            sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)


def granted(worker: Worker, day: Day) -> list[str]:
    """The names of a day's records that were granted, in the order of the grants."""
    rows = sorted(worker.grants(), key=lambda row: row["GrantedAt"]["S"])
    records = [json.loads(row["RecordKey"]["S"])["RecordId"].partition("@") for row in rows]
    return [name for name, _, date in records if date == str(day.date)]


def test_a_small_hour_goes_all_the_way_and_again_it_makes_no_task_and_no_grant(worker: Worker) -> None:
    first, again = list(circle(worker.application)), list(circle(worker.application))

    assert first[1:] == [
        "  dispatched: 40 now, 0 before, in 10 tasks",
        "  granted:    40 of 40 by the worker, each once",
        "  reconciled: Clean, 40 of 40 dispatched, no difference",
    ]
    assert again[1:] == ["  dispatched: 0 now, 0 before, in 0 tasks", *first[2:]]


def booked(day: Day, name: str) -> dict[str, Any]:
    answer = day.application.client("dynamodb").get_item(
        TableName=day.application.outputs["BookingTableName"], Key={"RecordId": {"S": f"{name}@{day.date}"}}
    )
    item: dict[str, Any] = answer["Item"]
    return item


def row_of(application: Application, kind: str, name: str) -> dict[str, Any]:
    answer = application.client("dynamodb").get_item(
        TableName=application.outputs["GrantTableName"], Key={"Pk": {"S": f"{kind}#{name}"}}
    )
    row: dict[str, Any] = answer.get("Item", {})
    return row


def test_it_is_switched_off_until_somebody_wants_it(worker: Worker, day: Day) -> None:
    day.book("R1", "08:10:00Z")
    day.run(8)
    time.sleep(1)

    assert [task.records for task in day.tasks(8)] == [["R1"]]
    assert granted(worker, day) == []


def test_it_grants_what_both_queues_hold_in_order_and_marks_the_bookings(worker: Worker, day: Day) -> None:
    day.book("late", "08:10:00Z", "1", OrderTime="2030-12-24T09:00:00Z")
    day.book("early", "08:20:00Z", "1", OrderTime="2030-12-24T08:00:00Z")
    day.book("coupon", "08:30:00Z", "1", RewardType="ECoupon")
    day.book("moved", "08:40:00Z", "2")
    day.book("cancelled", "08:50:00Z", "2")
    day.run(8)
    tasks = [task.body["TaskId"] for task in day.tasks(8)]
    day.book("moved", "10:40:00Z", "2")
    day.book("cancelled", "08:50:00Z", "2", RewardStatus="Cancelled")

    with worker.working():
        worker.drain()

    order = granted(worker, day)
    assert sorted(order) == ["coupon", "early", "late"]
    assert order.index("early") < order.index("late")
    statuses = {
        name: booked(day, name)["RewardStatus"]["S"] for name in ("early", "late", "coupon", "moved", "cancelled")
    }
    assert statuses == {
        **dict.fromkeys(("early", "late", "coupon"), "Rewarded"),
        "moved": "WaitToReward",
        "cancelled": "Cancelled",
    }
    assert all(row_of(day.application, "task", task_id) for task_id in tasks)


def test_a_coupon_that_ran_short_is_granted_by_a_later_hour(worker: Worker, day: Day) -> None:
    stock = {"Pk": {"S": f'stock#"engine-{day.date}"'}, "Left": {"N": "0"}}
    dynamodb = day.application.client("dynamodb")
    dynamodb.put_item(TableName=day.application.outputs["GrantTableName"], Item=stock)
    day.book("R1", "08:10:00Z", RewardType="ECoupon", PromotionEngineId=f"engine-{day.date}")
    day.run(8)
    with worker.working():
        worker.drain()

    assert granted(worker, day) == []
    assert booked(day, "R1")["BookingTimeUTC"] == {"S": "09:10:00Z"}

    dynamodb.put_item(TableName=day.application.outputs["GrantTableName"], Item={**stock, "Left": {"N": "1"}})
    assert day.run(9).output["Tasks"] == 1
    with worker.working():
        worker.drain()

    assert granted(worker, day) == ["R1"]
    assert row_of(day.application, "stock", f'"engine-{day.date}"')["Left"] == {"N": "0"}


def test_a_poisoned_message_ends_among_the_dead_letters_with_its_reason_and_holds_up_its_group_only_so_long(
    worker: Worker, day: Day
) -> None:
    application = day.application
    day.book("of-its-group", "08:10:00Z", "1")
    day.book("of-another", "08:20:00Z", "2")
    day.run(8)
    (first, other) = day.tasks(8)
    url = application.outputs[QUEUES["Point"]]
    application.client("sqs").purge_queue(QueueUrl=url)
    data = json.dumps({**first.data, "OrderCount": 2})
    poisoned = json.dumps({**first.body, "Data": data})
    for body, group, name in (
        (poisoned, first.message_group, f"poisoned-{day.date}"),
        (json.dumps(first.body), first.message_group, f"first-{day.date}"),
        (json.dumps(other.body), other.message_group, f"other-{day.date}"),
    ):
        application.client("sqs").send_message(
            QueueUrl=url, MessageBody=body, MessageGroupId=group, MessageDeduplicationId=name
        )

    with short_visibility(application), worker.working():
        assert wait_until(lambda: granted(worker, day) == ["of-another"])
        assert wait_until(lambda: poisoned in application.dead_letters("PointDeadLetters"))
        assert wait_until(lambda: granted(worker, day) == ["of-another", "of-its-group"])
        worker.drain()

    reasons = [
        (row["Reason"]["S"], row["Receives"]["N"])
        for page in application.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName=application.outputs["GrantTableName"])
        for row in page["Items"]
        if row["Pk"]["S"].startswith("message#")
    ]
    assert ("UnworkableTask: object.OrderCount: not that of the message", "5") in reasons
