"""Seeding: what is refused, and that nothing is lost on the way."""

from collections import Counter
from typing import Any

import pytest

from tools import seed
from tools.samples import generated_hour, worked_example
from tools.seed import InvalidBookingError, Partitions, check, put, shard_of

BOOKING = worked_example().bookings[0]


class Table:
    """Takes at most `room` bookings of each batch, as a throttled table does."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.items: list[str] = []
        self.keys: list[dict[str, str]] = []
        """Of the index, as far as it is written."""
        self.calls = 0

    def batch_write_item(self, *, RequestItems: dict[str, list[Any]]) -> dict[str, Any]:  # noqa: N803 - AWS's name
        self.calls += 1
        ((table, requests),) = RequestItems.items()
        taken = [request["PutRequest"]["Item"] for request in requests[: self.room]]
        self.items += [item["RecordId"]["S"] for item in taken]
        self.keys += [{name: item[name]["S"] for name in item if name.startswith("BookingDate")} for item in taken]
        left = requests[self.room :]
        return {"UnprocessedItems": {table: left} if left else {}}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.seed.time.sleep", lambda _: None)


@pytest.mark.parametrize("attribute", ["RecordId", "BookingDateUTC", "BookingTimeUTC"])
@pytest.mark.parametrize("value", [{"N": "81000"}, {"S": ""}, {"B": b"15:00:00Z"}, {"S": "a", "N": "1"}, None])
def test_a_key_of_another_type_or_without_value_is_refused_by_name(
    attribute: str, value: dict[str, Any] | None
) -> None:
    booking = {name: content for name, content in BOOKING.items() if name != attribute}
    if value:
        booking[attribute] = value

    with pytest.raises(InvalidBookingError, match=f"^{attribute}:"):
        check(booking)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("BookingDateUTC", "2026-02-30"),
        ("BookingDateUTC", "20260917"),
        ("BookingDateUTC", "2026-W38-4"),
        ("BookingTimeUTC", "15:00:00"),
        ("BookingTimeUTC", "24:00:00Z"),
        ("BookingTimeUTC", "15:00:60Z"),
        ("BookingTimeUTC", "15:00:00.Z"),
        ("BookingTimeUTC", "15:00Z"),
    ],
)
def test_a_text_that_is_no_date_or_time_of_the_index_is_refused(attribute: str, text: str) -> None:
    with pytest.raises(InvalidBookingError, match=f"^{attribute}:"):
        check(BOOKING | {attribute: {"S": text}})


def test_bad_data_outside_the_keys_is_let_through() -> None:
    check(BOOKING | {"OrderTime": {"S": "yesterday"}, "MemberId": {"NULL": True}})


def test_one_refused_booking_keeps_all_from_being_written() -> None:
    table: Any = Table(room=25)

    with pytest.raises(InvalidBookingError):
        put(table, "bookings", [BOOKING, BOOKING | {"RecordId": {"N": "1"}}])
    assert table.calls == 0


def test_what_the_table_did_not_take_is_sent_again() -> None:
    table: Any = Table(room=10)
    bookings = [BOOKING | {"RecordId": {"S": f"R{number:02}"}} for number in range(60)]

    put(table, "bookings", bookings)

    assert table.items == [booking["RecordId"]["S"] for booking in bookings]
    assert table.calls == 3 + 3 + 1


def test_a_table_that_takes_nothing_is_given_up() -> None:
    table: Any = Table(room=0)

    with pytest.raises(TimeoutError, match="bookings did not take 1 of its bookings"):
        put(table, "bookings", [BOOKING])
    assert table.calls == seed.ATTEMPTS


@pytest.mark.parametrize(
    ("partitions", "keys"),
    [
        pytest.param(Partitions(), {"BookingDateUTC": "2026-09-17"}, id="not sharded"),
        pytest.param(Partitions(shards=4), {"BookingDateUTC": "2026-09-17#2"}, id="sharded"),
        pytest.param(
            Partitions("BookingDateShard", 4),
            {"BookingDateUTC": "2026-09-17", "BookingDateShard": "2026-09-17#2"},
            id="sharded beside the plain date",
        ),
        pytest.param(
            Partitions("BookingDateKey"),
            {"BookingDateUTC": "2026-09-17", "BookingDateKey": "2026-09-17"},
            id="another key",
        ),
    ],
)
def test_a_booking_is_put_where_the_indexs_partitions_have_it(partitions: Partitions, keys: dict[str, str]) -> None:
    table: Any = Table(room=25)

    put(table, "bookings", [BOOKING], partitions)

    assert table.keys == [keys]


def test_a_record_has_one_shard_and_all_shards_have_about_as_many() -> None:
    records = [booking["RecordId"]["S"] for booking in generated_hour().bookings]

    shards = Counter(shard_of(record, 8) for record in records)

    assert [shard_of(record, 8) for record in ("R1", "R1", "\u65e5")] == [5, 5, 4]
    assert sorted(shards) == list(range(8))
    assert max(shards.values()) < 1.1 * len(records) / 8
