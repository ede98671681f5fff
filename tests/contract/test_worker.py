"""The worker's adapters: at most one grant for each record version, and only for what still stands as it was read."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from functions.adapters.task_data import S3TaskData
from functions.domain.booking import BadRecord, Booking, RecordVersion, read_booking
from functions.domain.cursor import DATE_ATTRIBUTE
from functions.domain.errors import ConfigurationError, TransientError
from functions.domain.pack import Layout
from functions.domain.task import Extent, compose, message_body, object_body
from functions.domain.values import Item
from functions.worker import aws as worker_aws
from functions.worker.aws import DynamoBookings, S3TaskObjects, SandboxGrants
from functions.worker.contract import UnworkableTask
from functions.worker.ports import Answer, Message, Standing
from functions.worker.task import Order, Schema, judge, read_message, read_orders
from tests.contract.staged import (
    WINDOW,
    MakeIndex,
    cancelled,
    composed,
    fresh,
    record,
    refusal,
    stage,
    uploaded,
)
from tools.workspace import ROOT


def _reader() -> Callable[[str, Any], Any]:
    page = (ROOT / "docs/worker.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(import .*?def read_task.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 -- what the page tells
    reader: Callable[[str, Any], Any] = names["read_task"]
    return reader


NOW: Final = datetime(2026, 9, 17, 16, 5, tzinfo=UTC)
COUPON: Final = {"S": "ECoupon"}
READER: Final = _reader()
"""The function of docs/worker.md."""
LATER: Final = RecordVersion("", "2026-09-18", "00:10:00Z")


class Sandbox:
    """The adapters on tables and a bucket of one test."""

    def __init__(self, dynamodb: Any, task_data: S3TaskData, index: Any) -> None:
        self.dynamodb = dynamodb
        self.schema = Schema(index.key_attributes, index.date_attribute)
        self.table = index.table_name
        self.bookings = DynamoBookings(dynamodb, self.table, self.schema)
        self.grant_table = fresh("grants")
        dynamodb.create_table(
            TableName=self.grant_table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "Pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "Pk", "KeyType": "HASH"}],
        )
        self.grants = SandboxGrants(dynamodb, self.grant_table, self.bookings, lambda: NOW)
        self.objects = S3TaskObjects(task_data.client, task_data.bucket)
        self._task_data = task_data

    def book(self, item: Item) -> None:
        self.dynamodb.put_item(TableName=self.table, Item=item)

    def order(self, item: Item) -> Order:
        """The order of a task that was sent for a booking."""
        if self.schema.date_attribute != DATE_ATTRIBUTE:
            item = {**item, DATE_ATTRIBUTE: {"S": item[self.schema.date_attribute]["S"].partition("#")[0]}}
        (new,) = composed(item)
        uploaded(self._task_data, [new])
        task = read_message(message_body(new.task, self._task_data.bucket), self._task_data.bucket)
        (order,) = read_orders(task, self.objects.read(task.header.Key), self.schema)
        return order

    def standing(self, item: Item) -> Standing:
        """An order, and its booking as it was just read."""
        self.book(item)
        order = self.order(item)
        newest = self.bookings.newest(order.key)
        assert newest is not None
        assert judge(order, newest, self.schema) is None
        return Standing(order, newest)

    def row(self, key: str) -> Item | None:
        row: Item | None = self.dynamodb.get_item(TableName=self.grant_table, Key={"Pk": {"S": key}}).get("Item")
        return row


@pytest.fixture
def sandbox(aws: Callable[[str], Any], task_data: S3TaskData, make_index: MakeIndex) -> Sandbox:
    return Sandbox(aws("dynamodb"), task_data, make_index(aws("dynamodb")))


def test_a_grant_is_given_once_and_marks_its_booking(sandbox: Sandbox) -> None:
    standing = sandbox.standing(record("R1"))
    assert not sandbox.grants.is_granted(standing.order)

    assert sandbox.grants.grant(standing) is Answer.GRANTED
    assert sandbox.grants.grant(standing) is Answer.ALREADY_GRANTED

    assert sandbox.grants.is_granted(standing.order)
    assert sandbox.bookings.newest(standing.order.key) == {**standing.booking, "RewardStatus": {"S": "Rewarded"}}


@pytest.mark.parametrize(
    "change",
    [
        {"RewardStatus": {"S": "Cancelled"}},
        {"BookingTimeUTC": {"S": "15:30:01Z"}},
        {"BookingDateUTC": {"S": "2026-09-18"}},
        {"MemberId": {"S": "2001"}},
        {"RewardType": {"S": "ECoupon"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_changed_since_it_was_read_is_neither_granted_nor_moved(sandbox: Sandbox, change: Item) -> None:
    standing = sandbox.standing(record("R1"))
    changed = {**standing.booking, **change}
    sandbox.book(changed)

    assert sandbox.grants.grant(standing) is Answer.CHANGED
    assert not sandbox.bookings.postpone(standing, LATER)

    assert not sandbox.grants.is_granted(standing.order)
    assert sandbox.bookings.newest(standing.order.key) == changed


def test_what_was_deleted_since_it_was_read_is_not_made_anew(sandbox: Sandbox) -> None:
    standing = sandbox.standing(record("R1"))
    sandbox.dynamodb.delete_item(TableName=sandbox.table, Key=standing.order.key)

    assert sandbox.grants.grant(standing) is Answer.CHANGED
    assert not sandbox.bookings.postpone(standing, LATER)
    assert sandbox.bookings.newest(standing.order.key) is None


def test_a_coupon_comes_out_of_the_stock_of_its_engine_and_points_have_none(sandbox: Sandbox) -> None:
    stock = {"Pk": {"S": "stock#3001"}, "Left": {"N": "1"}}
    sandbox.dynamodb.put_item(TableName=sandbox.grant_table, Item=stock)
    first, second = (sandbox.standing(record(name, RewardType=COUPON)) for name in ("R1", "R2"))

    assert sandbox.grants.grant(first) is Answer.GRANTED
    assert sandbox.grants.grant(second) is Answer.OUT_OF_STOCK
    assert sandbox.grants.grant(first) is Answer.ALREADY_GRANTED
    assert sandbox.grants.grant(sandbox.standing(record("R3"))) is Answer.GRANTED
    other = sandbox.standing(record("R4", PromotionEngineId={"N": "3002"}, RewardType=COUPON))
    assert sandbox.grants.grant(other) is Answer.GRANTED, "an engine without a row has enough"

    assert sandbox.row("stock#3001") == {**stock, "Left": {"N": "0"}}
    assert sandbox.bookings.newest(second.order.key) == second.booking


@pytest.mark.parametrize("attribute", [DATE_ATTRIBUTE, "DateAndShard"])
def test_a_moved_booking_stays_in_its_shard(
    aws: Callable[[str], Any], task_data: S3TaskData, make_index: MakeIndex, attribute: str
) -> None:
    sandbox = Sandbox(aws("dynamodb"), task_data, make_index(aws("dynamodb"), attribute))
    shard = "" if attribute == DATE_ATTRIBUTE else "#3"
    standing = sandbox.standing({**record("R1"), attribute: {"S": f"2026-09-17{shard}"}})

    assert sandbox.bookings.postpone(standing, LATER)

    moved = {attribute: {"S": f"2026-09-18{shard}"}, "BookingTimeUTC": {"S": "00:10:00Z"}}
    assert sandbox.bookings.newest(standing.order.key) == {**standing.booking, **moved}


def test_a_finished_task_is_known_and_its_row_expires_when_no_message_can_come_any_more(sandbox: Sandbox) -> None:
    assert not sandbox.grants.is_finished("id")

    sandbox.grants.finish("id", {"Granted": 2})

    assert sandbox.grants.is_finished("id")
    row = sandbox.row("task#id")
    assert row is not None
    assert row["Counts"] == {"S": '{"Granted": 2}'}
    assert int(row["ExpiresAt"]["N"]) == int((NOW + timedelta(days=220)).timestamp())


def test_the_newest_reason_of_a_message_is_kept(sandbox: Sandbox) -> None:
    for receives, reason in ((1, "first"), (2, "second")):
        sandbox.grants.note_failure(Message("m", "group", "body", receives), reason)

    row = sandbox.row("message#m")
    assert row is not None
    assert (row["Reason"], row["Receives"]) == ({"S": "second"}, {"N": "2"})


@pytest.mark.parametrize("code", ["NoSuchKey", "AccessDenied"])
def test_a_missing_object_makes_a_task_unworkable_also_where_s3_calls_it_denied(
    aws: Callable[[str], Any], sandbox: Sandbox, code: str
) -> None:
    if code == "AccessDenied":
        stage(aws("s3"), "GetObject", [refusal(code, 403)])

    with pytest.raises(UnworkableTask, match=f"^its object is missing, or may not be read: {code}"):
        sandbox.objects.read("tasks/none")


@pytest.mark.parametrize("layout", Layout)
def test_worker_and_reader_take_a_task_of_either_layout(
    aws: Callable[[str], Any], task_data: S3TaskData, layout: Layout
) -> None:
    new = composed(*(record(f"R{n}", MemberId={"N": str(n // 2)}, Note={"S": "\u00e9"}) for n in range(6)))
    objects, bucket = S3TaskObjects(aws("s3"), task_data.bucket), task_data.bucket
    for task, one in zip(uploaded(replace(task_data, layout=layout), new), new, strict=True):
        body = message_body(task, bucket)
        received = read_message(body, bucket)
        content = objects.read(received.header.Key, received.extent)

        assert (received.extent is not None) is (layout is Layout.PACKED)
        assert content == object_body(one, bucket)
        assert [order.version for order in read_orders(received, content, Schema())] == list(one.task.versions)
        assert READER(body, aws("s3")) == json.loads(content)


def test_the_reader_keeps_every_digit_of_a_number(aws: Callable[[str], Any], task_data: S3TaskData) -> None:
    amount = "12345678901234567890.123456789012345678"
    (task,) = uploaded(replace(task_data, layout=Layout.PACKED), composed(record("R1", Amount={"N": amount})))

    (order,) = READER(message_body(task, task_data.bucket), aws("s3"))["Orders"]
    assert str(order["Amount"]) == amount


def test_the_reader_refuses_bytes_that_are_not_the_task_s(aws: Callable[[str], Any], task_data: S3TaskData) -> None:
    (task,) = uploaded(replace(task_data, layout=Layout.PACKED), composed(record("R1")))
    content = aws("s3").get_object(Bucket=task_data.bucket, Key=task.key)["Body"].read()
    altered = content.replace(b'"R1"', b'"R2"')
    aws("s3").put_object(Bucket=task_data.bucket, Key=task.key, Body=altered)

    with pytest.raises(ValueError, match="not the task's bytes"):
        READER(message_body(task, task_data.bucket), aws("s3"))


def test_a_range_behind_the_end_makes_a_task_unworkable_and_one_over_it_gives_what_is_there(
    aws: Callable[[str], Any], sandbox: Sandbox
) -> None:
    aws("s3").put_object(Bucket=sandbox.objects.bucket, Key="tasks/x", Body=b"0123456789")

    def read(start: int, length: int) -> bytes:
        return sandbox.objects.read("tasks/x", Extent("tasks/x", start, length, "0" * 64))

    assert read(2, 3) == b"234"
    assert read(8, 12) == b"89"
    with pytest.raises(UnworkableTask, match=r"^its object ends before its range: InvalidRange "):
        read(10, 10)


def test_those_who_meet_at_a_stock_are_tried_again(
    aws: Callable[[str], Any], sandbox: Sandbox, pauses: list[float]
) -> None:
    standing = sandbox.standing(record("R1"))
    stage(aws("dynamodb"), "TransactWriteItems", [cancelled("None", "TransactionConflict")] * 2)

    assert sandbox.grants.grant(standing) is Answer.GRANTED
    assert len(pauses) == 2


def test_a_conflict_that_does_not_end_is_left_for_the_next_delivery(
    aws: Callable[[str], Any], sandbox: Sandbox, pauses: list[float]
) -> None:
    standing = sandbox.standing(record("R1"))
    stage(aws("dynamodb"), "TransactWriteItems", [cancelled("None", "TransactionConflict")] * 5)

    with pytest.raises(TransientError, match=r"^TransactWriteItems grant: others write the same$"):
        sandbox.grants.grant(standing)
    assert len(pauses) == 4


def test_a_failed_call_is_told_by_operation_and_code_and_never_by_a_value(
    aws: Callable[[str], Any], sandbox: Sandbox
) -> None:
    standing = sandbox.standing(record("R1"))
    stage(aws("dynamodb"), "GetItem", [refusal("AccessDeniedException", message="secret")])

    with pytest.raises(ConfigurationError) as denied:
        sandbox.bookings.newest(standing.order.key)
    assert str(denied.value).startswith("GetItem bookings: AccessDeniedException (request ")
    assert "secret" not in str(denied.value)


@pytest.mark.usefixtures("aws")
def test_a_client_waits_no_longer_than_it_is_told() -> None:
    config = worker_aws.client("dynamodb").meta.config
    assert (config.connect_timeout, config.read_timeout) == (2, 10)
    assert config.retries == {"mode": "standard", "total_max_attempts": 3}


@pytest.mark.parametrize(
    ("key", "binary"),
    [
        ({"Id": {"N": "12345678901234567890.125"}, "Rev": {"S": "a"}}, frozenset()),
        ({"Id": {"S": "\u00e9"}, "Rev": {"B": b"\x00\xff"}}, frozenset({"Rev"})),
    ],
    ids=["number and text", "text and binary"],
)
def test_a_booking_is_found_by_the_key_that_its_object_holds(
    aws: Callable[[str], Any], make_index: MakeIndex, key: dict[str, Any], binary: frozenset[str]
) -> None:
    types = {name: next(iter(value)) for name, value in key.items()}
    index = make_index(aws("dynamodb"), **types)
    item = {**record("R1"), **key}
    aws("dynamodb").put_item(TableName=index.table_name, Item=item)
    schema = Schema(index.key_attributes, binary_keys=binary)
    (order,) = orders_of(item, schema)

    newest = DynamoBookings(aws("dynamodb"), index.table_name, schema).newest(order.key)

    assert newest is not None
    assert judge(order, newest, schema) is None


def orders_of(item: Item, schema: Schema) -> list[Order]:
    """The orders of the task of a booking with any key."""
    (new,) = compose([good(read_booking(item, schema.key_attributes))], WINDOW)
    return read_orders(read_message(message_body(new.task, "b"), "b"), object_body(new, "b"), schema)


def good(read: Booking | BadRecord) -> Booking:
    assert isinstance(read, Booking)
    return read
