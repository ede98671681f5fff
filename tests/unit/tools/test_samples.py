"""The samples are what their descriptions say, by the domain's own reading."""

from collections import Counter

import pytest

from functions.domain.booking import BadRecord, Booking, is_waiting, read_booking
from tools.samples import Item, Sample, generated_hour, worked_example
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
