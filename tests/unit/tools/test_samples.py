"""The samples are what their descriptions say, by the domain's own reading."""

from collections import Counter

import pytest

from functions.domain.booking import BadRecord, Booking, is_waiting, read_booking
from functions.domain.window import Window
from tools.samples import Item, Sample, any_hour, generated_hour, worked_example
from tools.seed import check

HOUR = generated_hour()


def _readings(sample: Sample) -> list[Booking | BadRecord]:
    return [read_booking(booking, ["RecordId"]) for booking in sample.bookings if is_waiting(booking)]


def _time(booking: Item) -> str:
    return str(booking["BookingTimeUTC"]["S"])


def test_the_worked_example_is_the_contracts() -> None:
    sample = worked_example()
    read = [booking for booking in sample.bookings if "15:00:00" <= _time(booking) <= "16:00:00Z"]

    assert [booking["RecordId"]["S"] for booking in read] == ["R1", "R2", "R3", "R4", "R5"]
    assert [booking["RecordId"]["S"] for booking in read if not is_waiting(booking)] == ["R4"]
    assert (sample.evaluated, sample.waiting, sample.set_aside, sample.tasks) == (5, 4, 0, 3)


def test_the_generated_hour_is_the_same_every_time() -> None:
    assert generated_hour() == HOUR


def test_the_generated_hour_promises_what_it_holds() -> None:
    readings = _readings(HOUR)

    assert len(HOUR.bookings) == HOUR.evaluated == 10_000
    assert len(readings) == HOUR.waiting
    assert sum(isinstance(reading, BadRecord) for reading in readings) == HOUR.set_aside
    assert all("09:00:00" <= _time(booking) <= "10:00:00Z" for booking in HOUR.bookings)


def test_the_generated_hour_has_about_three_thousand_groups_and_a_few_large_ones() -> None:
    sizes = Counter(reading.group for reading in _readings(HOUR) if isinstance(reading, Booking))

    assert 2_500 <= len(sizes) <= 3_500
    assert sizes.most_common(1)[0][1] >= 25


def test_the_generated_hour_has_every_fault_and_many_equal_times() -> None:
    reasons = Counter(reading.reason.split(":")[0] for reading in _readings(HOUR) if isinstance(reading, BadRecord))
    times = Counter(map(_time, HOUR.bookings))

    assert set(reasons) == {"ShopId", "MemberId", "PromotionEngineId", "OrderTime", "RewardType"}
    assert times["09:00:00Z"] > 1_000
    assert times["10:00:00Z"] > 300
    assert any("." in time for time in times)


@pytest.mark.parametrize("attribute", ["RewardStatus", "RewardType", "MemberId"])
def test_the_generated_hour_mixes_values_and_types(attribute: str) -> None:
    kinds = {next(iter(booking[attribute])) for booking in HOUR.bookings}
    values = {str(booking[attribute]) for booking in HOUR.bookings}

    assert len(values) > 1
    assert attribute != "MemberId" or {"N", "S"} <= kinds


@pytest.mark.parametrize("sample", [worked_example(), HOUR], ids=lambda sample: sample.title)
def test_every_booking_can_be_seeded_and_has_a_key_of_its_own(sample: Sample) -> None:
    for booking in sample.bookings:
        check(booking)

    assert len({booking["RecordId"]["S"] for booking in sample.bookings}) == len(sample.bookings)


@pytest.mark.parametrize("start", ["2026-09-17T15:00:00Z", "2026-12-31T23:00:00Z", "2027-01-01T00:00:00Z"])
def test_the_bookings_of_any_hour_are_all_read_by_its_run(start: str) -> None:
    window = Window.starting(start)
    bookings = any_hour(window, 500)

    for booking in bookings:
        check(booking)
    assert {booking["BookingDateUTC"]["S"] for booking in bookings} == {window.date}
    assert all(window.low <= _time(booking) <= window.high for booking in bookings)
    assert len({booking["RecordId"]["S"] for booking in bookings}) == 500


def test_any_hour_is_the_same_every_time_and_more_of_it_begins_the_same() -> None:
    window = Window.starting("2026-09-17T15:00:00Z")
    hour = any_hour(window, 300, members=50, seed=7)

    assert any_hour(window, 300, members=50, seed=7) == hour
    assert any_hour(window, 400, members=50, seed=7)[:300] == hour
    assert any_hour(window, 300, members=50, seed=8) != hour
    assert any_hour(window.next, 300, members=50, seed=7) != hour


def test_any_hour_has_as_many_members_and_bad_records_as_asked_for() -> None:
    sample = any_hour(Window.starting("2026-09-17T15:00:00Z"), 2_000, members=50, bad=12)
    readings = [read_booking(booking, ["RecordId"]) for booking in sample if is_waiting(booking)]

    assert sum(isinstance(reading, BadRecord) for reading in readings) == 12
    assert len({reading.group for reading in readings if isinstance(reading, Booking)}) in range(45, 56)
