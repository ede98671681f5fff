from typing import Any

import pytest

from functions.domain.booking import (
    MAX_ID_BYTES,
    BadRecord,
    Booking,
    Group,
    RecordVersion,
    Route,
    is_waiting,
    read_booking,
    version_of,
)
from functions.domain.cursor import DATE_ATTRIBUTE
from functions.domain.errors import ConfigurationError
from functions.domain.page import sort_out
from functions.domain.window import Instant
from tests.unit.fakes import booking

KEY = ("RecordId",)
IDS = ("ShopId", "MemberId", "PromotionEngineId")


def read(**attributes: Any) -> Booking:
    record = read_booking(booking("R1", **attributes), KEY)
    assert isinstance(record, Booking), record
    return record


def refused(**attributes: Any) -> str:
    record = read_booking(booking("R1", **attributes), KEY)
    assert isinstance(record, BadRecord), record
    return record.reason


def test_the_exact_text_is_waiting() -> None:
    assert is_waiting(booking("R1", RewardStatus={"S": "WaitToReward"}))


@pytest.mark.parametrize(
    "status",
    [
        pytest.param("waittoreward", id="another case"),
        pytest.param("WaitToReward ", id="a blank behind"),
        pytest.param(" WaitToReward", id="a blank before"),
        pytest.param("", id="empty"),
        pytest.param("Rewarded", id="another status"),
        pytest.param(None, id="no status"),
        pytest.param({"N": "1"}, id="a number"),
        pytest.param({"NULL": True}, id="null"),
        pytest.param({"SS": ["WaitToReward"]}, id="a set that holds it"),
    ],
)
def test_anything_but_the_exact_text_is_not_waiting(status: Any) -> None:
    assert not is_waiting(booking("R1", RewardStatus=status))


def test_what_is_not_waiting_is_neither_dispatched_nor_bad() -> None:
    statuses = ["WaitToReward", "waittoreward", "WaitToReward ", None, {"N": "1"}]
    records = [booking(f"R{n}", RewardStatus=status, OrderTime=None) for n, status in enumerate(statuses)]

    bookings, bad = sort_out(records, KEY, DATE_ATTRIBUTE)

    assert bookings == []
    assert [record.item["RecordId"] for record in bad] == [{"S": "R0"}]


def test_a_booking_is_read_whole() -> None:
    record = read(OrderTime="2026-09-17T22:50:00.5+08:00", Amount={"N": "1.50"}, RewardType="ECoupon", MemberId="m")

    assert record == Booking(
        group=Group("1001", '"m"', "3001"),
        route=Route.COUPON,
        order_time=Instant(1789656600, 500_000_000),
        key_order=("R1",),
        version=RecordVersion('{"RecordId":"R1"}', "2026-09-17", "15:10:00Z"),
        document=(
            '{"Amount":1.5,"BookingDateUTC":"2026-09-17","BookingTimeUTC":"15:10:00Z","MemberId":"m",'
            '"OrderTime":"2026-09-17T22:50:00.5+08:00","PromotionEngineId":3001,"RecordId":"R1",'
            '"RewardStatus":"WaitToReward","RewardType":"ECoupon","ShopId":1001}'
        ),
    )


def test_number_100_and_text_100_are_two_ids() -> None:
    groups = [read(ShopId=value).group for value in ({"N": "100"}, {"S": "100"})]

    assert groups == [Group("100", "2001", "3001"), Group('"100"', "2001", "3001")]
    assert groups[0].text != groups[1].text


def test_one_number_in_two_spellings_is_one_id() -> None:
    assert read(ShopId={"N": "100"}).group == read(ShopId={"N": "1E+2"}).group == read(ShopId={"N": "100.0"}).group


def test_composed_and_decomposed_letters_are_two_members() -> None:
    composed, decomposed = read(MemberId="mem-\u00e9"), read(MemberId="mem-e\u0301")

    assert composed.group != decomposed.group
    assert composed.group.text != decomposed.group.text


def test_case_and_blanks_are_part_of_an_id() -> None:
    assert len({read(MemberId=member).group for member in ("mem", "Mem", "mem ", " mem")}) == 4


def test_no_two_groups_share_a_text() -> None:
    parts: list[Any] = ["1", 1, '1","2', "1,2", "[1]", '"']
    groups = {read(ShopId=shop, MemberId=member).group for shop in parts for member in parts}

    assert len({group.text for group in groups}) == len(groups) == len(parts) ** 2


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(None, "missing", id="missing"),
        pytest.param({"S": ""}, "empty", id="empty"),
        pytest.param({"NULL": True}, "expected type N or S", id="null"),
        pytest.param({"BOOL": True}, "expected type N or S", id="a boolean"),
        pytest.param({"B": b"1"}, "expected type N or S", id="binary"),
        pytest.param({"SS": ["1"]}, "expected type N or S", id="a set"),
        pytest.param({"M": {"N": {"N": "1"}}}, "expected type N or S", id="a map"),
        pytest.param({"S": "x" * (MAX_ID_BYTES + 1)}, "longer than 2048 bytes", id="a byte too long"),
        pytest.param({"S": "é" * 1025}, "longer than 2048 bytes", id="too long in bytes, not in characters"),
    ],
)
def test_a_bad_id_sets_the_record_aside_and_the_reason_names_it(name: str, value: Any, reason: str) -> None:
    assert refused(**{name: value}) == f"{name}: {reason}"


def test_an_id_of_the_greatest_length_is_good() -> None:
    assert read(MemberId="é" * 1024).group.member == '"' + "\\u00e9" * 1024 + '"'


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(None, "missing", id="missing"),
        pytest.param({"NULL": True}, "expected type S", id="null"),
        pytest.param(1789632070, "expected type S", id="a number"),
        pytest.param("", "expected YYYY-MM-DDThh:mm:ss", id="empty"),
        pytest.param("yesterday", "expected YYYY-MM-DDThh:mm:ss", id="unreadable"),
        pytest.param("2026-09-17T14:00:00", "expected YYYY-MM-DDThh:mm:ss", id="no offset"),
        pytest.param("2026-09-17T24:00:00Z", "no such date or time", id="no such hour"),
    ],
)
def test_a_bad_order_time_sets_the_record_aside(value: Any, reason: str) -> None:
    assert refused(OrderTime=value).startswith(f"OrderTime: {reason}")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(None, "missing", id="missing"),
        pytest.param("voucher", "expected Point or ECoupon", id="voucher"),
        pytest.param("point", "expected Point or ECoupon", id="another case"),
        pytest.param("POINT", "expected Point or ECoupon", id="the name, not the value"),
        pytest.param("", "expected Point or ECoupon", id="empty"),
        pytest.param({"NULL": True}, "expected Point or ECoupon", id="null"),
        pytest.param(1, "expected Point or ECoupon", id="a number"),
    ],
)
def test_an_unknown_reward_type_goes_to_no_queue(value: Any, reason: str) -> None:
    assert refused(RewardType=value) == f"RewardType: {reason}"


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"MemberId": "m\ud800"}, id="in an id"),
        pytest.param({"Note": "\udc00"}, id="in an attribute that nobody reads"),
        pytest.param({"Note": {"L": [{"M": {"\udbff": {"S": "x"}}}]}}, id="in a name deep inside"),
        pytest.param({"Note": {"SS": ["ok", "\ude00\ud83d"]}}, id="in the wrong order, in a set"),
    ],
)
def test_half_a_surrogate_pair_sets_the_record_aside(attributes: dict[str, Any]) -> None:
    assert refused(**attributes) == "an attribute holds half a surrogate pair"


@pytest.mark.parametrize("text", ["\U0001f600", "\\ud800", "\\\\udc00", "\ufffe\uffff", "\x00\x1f\x7f"])
def test_whole_characters_of_every_plane_are_good(text: str) -> None:
    assert read(Note=text).document.isascii()


def test_an_unknown_attribute_type_sets_the_record_aside() -> None:
    assert refused(Note={"X": "1"}) == "unknown attribute type"


def test_the_reason_never_holds_a_value() -> None:
    secrets = {"ShopId": {"B": b"secret"}, "RewardType": "secret", "OrderTime": "secret"}

    for name, value in secrets.items():
        assert "secret" not in refused(**{name: value})


def test_one_of_three_records_without_order_time_leaves_the_other_two() -> None:
    records = [booking("R1"), booking("R2", OrderTime=None), booking("R3")]

    bookings, bad = sort_out(records, KEY, DATE_ATTRIBUTE)

    assert [record.version.key for record in bookings] == ['{"RecordId":"R1"}', '{"RecordId":"R3"}']
    assert bad == [BadRecord("OrderTime: missing", records[1])]


def test_a_record_key_has_the_table_s_attributes_of_any_type() -> None:
    item = booking("R1", Id={"B": b"\x00\xff"}, Rev={"N": "10.0"})

    record = read_booking(item, ("Rev", "Id"))

    assert isinstance(record, Booking)
    assert record.version.key == '{"Id":"AP8=","Rev":10}'


def test_a_re_booked_record_is_another_version() -> None:
    assert read(BookingTimeUTC="15:10:00Z").version != read(BookingTimeUTC="15:20:00Z").version
    assert read(BookingDateUTC="2026-09-17").version != read(BookingDateUTC="2026-09-18").version


@pytest.mark.parametrize("time", ["1:30:00Z", "19", "19:5:00Z", "19:00:00+00:00", "25:00:00Z", "19:00:00Zx"])
def test_a_booking_time_that_is_no_time_sets_the_record_aside(time: str) -> None:
    record = read_booking(booking("R1", time), ["RecordId"])

    assert isinstance(record, BadRecord)
    assert record.reason == "BookingTimeUTC: expected HH:MM:SSZ"


@pytest.mark.parametrize("time", ["19:00:00Z", "19:00:00.5Z", "23:59:59.9999999Z", "19:00:00"])
def test_a_booking_time_with_or_without_a_fraction_is_good(time: str) -> None:
    assert isinstance(read_booking(booking("R1", time), ["RecordId"]), Booking)


@pytest.mark.parametrize("attributes", [{}, {"RewardType": None}, {"BookingTimeUTC": "1:3"}, {"RewardStatus": None}])
def test_any_record_of_the_index_has_a_version_whatever_it_is_worth(attributes: dict[str, Any]) -> None:
    item = booking("R1", **{DATE_ATTRIBUTE: "2026-09-17#3", **attributes})

    assert version_of(item, KEY) == ('{"RecordId":"R1"}', "2026-09-17", attributes.get("BookingTimeUTC", "15:10:00Z"))


def test_a_record_without_the_table_s_key_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationError, match="the bookings have no key attribute 'BookingId'"):
        version_of(booking("R1"), ["BookingId"])
