import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.booking import Booking, Group, RecordVersion, Route, read_booking
from functions.domain.task import (
    FEW,
    NewTask,
    Task,
    compose,
    distinct_groups,
    message_body,
    object_body,
    object_pieces,
    rounds,
    task_id,
)
from functions.domain.versions import BLOCK
from tests.unit.fakes import booking, window

KEY = ("RecordId",)
SAFE_KEY = re.compile(r"[A-Za-z0-9!_.*'()/=-]+")
GROUP = Group("1001", "2001", "3001")
VERSION = RecordVersion('{"RecordId":"R1"}', "2026-09-17", "15:10:00Z")


def bookings(*records: Any, key: tuple[str, ...] = KEY) -> list[Booking]:
    read = [read_booking(record, key) for record in records]
    assert all(isinstance(record, Booking) for record in read), read
    return [record for record in read if isinstance(record, Booking)]


def composed(*records: Any, key: tuple[str, ...] = KEY) -> list[NewTask]:
    return compose(bookings(*records, key=key), window())


def record_ids(new: NewTask) -> list[str]:
    return [order["RecordId"] for order in json.loads(object_body(new, "bucket"))["Orders"]]


def task(version_time: str = "15:10:00Z", route: Route = Route.POINT, group: Group = GROUP) -> Task:
    version = VERSION._replace(time=version_time)
    return Task(task_id(route, group, [version]), route, group, window(), (version,))


def test_records_are_grouped_by_shop_member_and_promotion_engine_and_by_route() -> None:
    tasks = composed(
        booking("R1"),
        booking("R2", ShopId=1002),
        booking("R3", MemberId=2002),
        booking("R4", PromotionEngineId=3002),
        booking("R5", RewardType="ECoupon"),
        booking("R6"),
    )

    assert [record_ids(new) for new in tasks] == [["R1", "R6"], ["R2"], ["R3"], ["R4"], ["R5"]]
    assert [new.task.route for new in tasks] == [Route.POINT] * 4 + [Route.COUPON]
    assert distinct_groups([new.task for new in tasks]) == 4


def test_orders_stand_by_instant_with_every_fraction_digit_and_never_by_text() -> None:
    in_order = [
        "2026-09-17T23:00:00+09:00",
        "2026-09-17T14:00:00.000000001Z",
        "2026-09-17T14:00:00.0000001Z",
        "2026-09-17T14:00:00.09Z",
        "2026-09-17T14:00:00.1Z",
        "2026-09-17T09:00:01-05:00",
        "2026-09-17T14:00:01.5z",
        "2026-09-17T22:00:02+08:00",
    ]
    records = [booking(f"R{place}", OrderTime=order_time) for place, order_time in enumerate(in_order)]

    (new,) = composed(*reversed(records))

    assert record_ids(new) == [f"R{place}" for place in range(len(in_order))]


@pytest.mark.parametrize(
    "in_order",
    [
        pytest.param([{"S": "R1"}, {"S": "R10"}, {"S": "R2"}, {"S": "r1"}, {"S": "é"}], id="texts by their bytes"),
        pytest.param([{"N": "-1"}, {"N": "2"}, {"N": "10"}, {"N": "10.5"}], id="numbers by their value"),
        pytest.param([{"B": b"\x00\xff"}, {"B": b"\x01"}, {"B": b"\x01\x00"}], id="binaries by their bytes"),
    ],
)
def test_equal_order_times_stand_by_record_key(in_order: list[dict[str, Any]]) -> None:
    records = [booking(f"R{place}", Id=value) for place, value in enumerate(in_order)]

    (new,) = composed(*reversed(records), key=("Id",))

    assert record_ids(new) == [f"R{place}" for place in range(len(in_order))]


def test_a_composite_key_orders_by_its_parts() -> None:
    records = [booking("R0", Id="a", Rev=9), booking("R1", Id="a", Rev=10), booking("R2", Id="b", Rev=1)]

    (new,) = composed(*reversed(records), key=("Id", "Rev"))

    assert record_ids(new) == ["R0", "R1", "R2"]


@given(st.permutations([f"R{n}" for n in range(6)]))
def test_the_order_read_changes_no_byte_of_a_task(order: list[str]) -> None:
    def record(name: str) -> Any:
        return booking(name, OrderTime=f"2026-09-17T14:0{int(name[1]) // 2}:00Z")

    (new,) = composed(*map(record, order))
    (same,) = composed(*map(record, sorted(order)))

    assert object_body(new, "bucket") == object_body(same, "bucket")
    assert message_body(new.task, "bucket") == message_body(same.task, "bucket")


def test_a_task_id_is_the_hash_of_route_group_and_record_versions() -> None:
    text = '["Point",[1001,2001,3001],[[{"RecordId":"R1"},"2026-09-17","15:10:00Z"]]]'

    assert task_id(Route.POINT, GROUP, [VERSION]) == hashlib.sha256(text.encode()).hexdigest()


def test_a_task_id_derives_from_nothing_else() -> None:
    one = booking("R1")
    another = booking("R1", Amount=5, OrderTime="2026-09-17T13:00:00Z", RewardStatus="WaitToReward", Note="later")
    ids = {
        compose(bookings(record), of)[0].task.task_id for record in (one, another) for of in (window(14), window(15))
    }

    assert len(ids) == 1


def test_a_task_id_is_of_a_set_of_versions() -> None:
    other = VERSION._replace(key='{"RecordId":"R2"}')

    assert task_id(Route.POINT, GROUP, [VERSION, other]) == task_id(Route.POINT, GROUP, [other, VERSION])


@pytest.mark.parametrize(
    ("route", "group", "version"),
    [
        pytest.param(Route.COUPON, GROUP, VERSION, id="the route"),
        pytest.param(Route.POINT, GROUP._replace(shop='"1001"'), VERSION, id="the shop's type"),
        pytest.param(Route.POINT, GROUP._replace(member="2002"), VERSION, id="the member"),
        pytest.param(Route.POINT, GROUP._replace(engine="3002"), VERSION, id="the promotion engine"),
        pytest.param(Route.POINT, GROUP, VERSION._replace(key='{"RecordId":"R2"}'), id="the record key"),
        pytest.param(Route.POINT, GROUP, VERSION._replace(date="2026-09-18"), id="the booking date"),
        pytest.param(Route.POINT, GROUP, VERSION._replace(time="15:10:01Z"), id="the booking time"),
    ],
)
def test_each_part_of_a_task_s_identity_changes_its_id(route: Route, group: Group, version: RecordVersion) -> None:
    assert task_id(route, group, [version]) != task_id(Route.POINT, GROUP, [VERSION])


def test_a_late_record_of_a_group_makes_another_id_in_the_same_message_group() -> None:
    (first,), (late,) = composed(booking("R1")), composed(booking("R2"))

    assert first.task.task_id != late.task.task_id
    assert first.task.message_group == late.task.message_group


def test_the_coupon_and_the_points_task_of_one_group_have_two_ids() -> None:
    points, coupons = composed(booking("R1"), booking("R1", RewardType="ECoupon"))

    assert points.task.task_id != coupons.task.task_id


IDS = {
    "dots and slashes": "a/../b",
    "a hash": "x#y",
    "percent and plus": "50%+1",
    "CJK": "日本",
    "a back-slash and a control character": "\\\x01",
    "200 characters with a blank": "mem \u00e9" * 40,
    "300 letters of two bytes": "\u00e9" * 300,
}


@pytest.mark.parametrize("text", IDS.values(), ids=IDS.keys())
def test_object_keys_are_short_and_safe_whatever_the_ids(text: str) -> None:
    (new,) = composed(booking("R1", ShopId=text, MemberId=text, PromotionEngineId=text))
    key = new.task.object_key

    assert SAFE_KEY.fullmatch(key)
    assert not {"", ".", ".."} & set(key.split("/"))
    assert len(key.encode()) <= 1024
    assert key == f"tasks/2026-09-17/15/{new.task.task_id[:2]}/{new.task.task_id}.json"


def test_near_twins_of_long_ids_have_two_object_keys() -> None:
    long = "\u00e9" * 300
    keys = {composed(booking("R1", MemberId=member))[0].task.object_key for member in (long, long[:-1] + "e")}

    assert len(keys) == 2


@pytest.mark.parametrize("text", IDS.values(), ids=IDS.keys())
def test_fifo_ids_are_hex_digests_whatever_the_ids(text: str) -> None:
    (new,) = composed(booking("R1", MemberId=text))

    assert re.fullmatch("[0-9a-f]{64}", new.task.message_group)
    assert re.fullmatch("[0-9a-f]{64}", new.task.task_id)


def test_a_message_points_to_its_object_and_holds_the_header() -> None:
    (new,) = composed(booking("R1", MemberId="mem-1", RewardType="ECoupon"), booking("R2", RewardType="ECoupon"))[:1]
    body = json.loads(message_body(new.task, "bucket"))

    assert body == {"JobName": "RewardCoupon", "TaskId": new.task.task_id, "Data": body["Data"]}
    assert json.loads(body["Data"]) == {
        "ShopId": 1001,
        "MemberId": "mem-1",
        "PromotionEngineId": 3001,
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Bucket": "bucket",
        "Key": new.task.object_key,
        "OrderCount": 1,
    }


def test_the_object_holds_the_message_s_header_and_every_attribute_of_every_order() -> None:
    (new,) = composed(booking("R1", Amount={"N": "1.50"}, Tags={"SS": ["b", "a"]}), booking("R0"))
    body = json.loads(object_body(new, "bucket"), parse_float=str)
    header = json.loads(json.loads(message_body(new.task, "bucket"))["Data"])

    assert {name: value for name, value in body.items() if name != "Orders"} == header
    assert header["OrderCount"] == len(body["Orders"]) == 2
    assert body["Orders"][1] == {
        "Amount": "1.5",
        "BookingDateUTC": "2026-09-17",
        "BookingTimeUTC": "15:10:00Z",
        "MemberId": 2001,
        "OrderTime": "2026-09-17T14:00:00Z",
        "PromotionEngineId": 3001,
        "RecordId": "R1",
        "RewardStatus": "WaitToReward",
        "RewardType": "Point",
        "ShopId": 1001,
        "Tags": ["a", "b"],
    }


def test_a_task_s_id_is_of_all_its_versions_however_many_are_taken_at_once() -> None:
    versions = [RecordVersion(f'"{n}"', "2026-09-17", "15:10:00Z") for n in range(2 * BLOCK + 1)]
    texts = sorted(f'["{n}","2026-09-17","15:10:00Z"]' for n in range(2 * BLOCK + 1))
    whole = f'["Point",[1001,2001,3001],[{",".join(texts)}]]'

    assert task_id(Route.POINT, GROUP, versions) == hashlib.sha256(whole.encode()).hexdigest()


@pytest.mark.parametrize("count", [1, FEW, FEW + 1])
@pytest.mark.parametrize("form", [tuple, iter])
def test_a_body_is_the_same_in_one_piece_and_in_several(
    form: Callable[[Iterable[str]], Iterable[str]], count: int
) -> None:
    (new,) = composed(*(booking(f"R{n}") for n in range(count)))
    pieces = list(object_pieces(replace(new, documents=form(new.documents)), "bucket"))

    assert b"".join(pieces) == object_body(new, "bucket")
    assert [order["RecordId"] for order in json.loads(b"".join(pieces))["Orders"]] == [f"R{n}" for n in range(count)]
    assert (len(pieces) == 1) == (form is tuple and count <= FEW)


@pytest.mark.parametrize("text", ["s\ufffe", "s\uffff", "s\x00\x1f", "日本\U0001f600", 's"\\'])
def test_a_message_is_ascii_and_its_consumer_decodes_the_same_id(text: str) -> None:
    (new,) = composed(booking("R1", ShopId=text))
    body = message_body(new.task, "bucket")

    assert body.isascii()
    assert body.isprintable()
    assert object_body(new, "bucket").isascii()
    assert json.loads(json.loads(body)["Data"])["ShopId"] == text


def test_a_number_in_a_message_keeps_its_digits() -> None:
    (new,) = composed(booking("R1", MemberId={"N": "12345678901234567890123456789012345678"}))
    data = json.loads(message_body(new.task, "bucket"))["Data"]

    assert '"MemberId":12345678901234567890123456789012345678,' in data


def test_the_greatest_ids_fit_a_message_many_times_over() -> None:
    escaped = "\x01" * 2048
    (new,) = composed(booking("R1", ShopId=escaped, MemberId=escaped, PromotionEngineId=escaped))

    assert len(message_body(new.task, "bucket")) < 262_144 / 4


def test_rounds_never_hold_two_tasks_of_one_group_and_route_and_keep_their_order() -> None:
    other = GROUP._replace(member="2002")
    first, second, third = task("15:01:00Z"), task("15:02:00Z"), task("15:03:00Z")
    coupon, elsewhere = task("15:01:00Z", Route.COUPON), task("15:01:00Z", group=other)

    assert rounds([first, coupon, second, elsewhere, third]) == [[first, coupon, elsewhere], [second], [third]]
    assert rounds([]) == []
