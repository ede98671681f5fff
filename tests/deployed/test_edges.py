"""The edges between hours and between days, and bookings that move across them."""

import pytest

from tests.deployed.application import Day, everywhere


@pytest.mark.parametrize(("earlier", "later"), [(8, 9), (9, 8)], ids=["in order", "the later hour first"])
def test_a_booking_at_the_sharp_hour_is_dispatched_by_one_of_its_two_windows(
    day: Day, earlier: int, later: int
) -> None:
    day.book("before", "08:59:59Z")
    day.book("sharp", "09:00:00Z")
    day.book("after", "09:00:01Z")

    first, second = day.run(earlier).output, day.run(later).output

    assert first.items() >= {"Waiting": 2, "Dispatched": 2, "AlreadyDispatched": 0, "Tasks": 1}.items()
    assert second.items() >= {"Waiting": 2, "Dispatched": 1, "AlreadyDispatched": 1, "Tasks": 1}.items()
    with_sharp, without = ("before", "after") if earlier == 8 else ("after", "before")
    assert day.effects(earlier) == everywhere(with_sharp, "sharp")
    assert day.effects(later) == everywhere(without)


def test_the_last_hour_of_a_day_ends_where_the_next_days_first_hour_begins(day: Day) -> None:
    for name, time_of_day in (("22h", "22:59:59Z"), ("sharp", "23:00:00Z"), ("23h", "23:59:59.999Z")):
        day.book(name, time_of_day)
    day.book("midnight", "00:00:00Z")  # of this day: another date's partition
    day.next.book("midnight", "00:00:00Z")

    outputs = [day.run(22).output, day.run(23).output, day.next.run(0).output]

    assert [output["WindowStart"] for output in outputs] == [day.window(22), day.window(23), day.next.window(0)]
    assert outputs[1]["WindowEnd"] == day.next.window(0)
    assert [(output["Evaluated"], output["AlreadyDispatched"]) for output in outputs] == [(2, 0), (2, 1), (1, 0)]
    assert day.effects(22) == everywhere("22h", "sharp")
    assert day.effects(23) == everywhere("23h")
    assert day.next.effects(0) == everywhere("midnight")


def test_a_record_that_is_booked_anew_is_dispatched_again(day: Day) -> None:
    day.book("short", "08:10:00Z", RewardType="ECoupon")
    day.book("other", "08:10:00Z")
    day.run(8)
    day.book("short", "11:10:00Z", RewardType="ECoupon")

    again = day.run(11).output

    assert again.items() >= {"Dispatched": 1, "AlreadyDispatched": 0, "Tasks": 1}.items()
    assert day.run(8).output.items() >= {"Evaluated": 1, "Dispatched": 0, "AlreadyDispatched": 1, "Tasks": 0}.items()
    assert day.effects(8) == everywhere("short", "other")
    assert day.effects(11) == everywhere("short")
    first, second = ([task.body["TaskId"] for task in day.tasks(hour) if task.queue == "ECoupon"] for hour in (8, 11))
    assert first != second


def test_a_record_that_is_booked_anew_in_its_own_hour_is_dispatched_again(day: Day) -> None:
    day.book("short", "08:10:00Z")
    day.run(8)
    day.book("short", "08:40:00Z")

    assert day.run(8).output.items() >= {"Dispatched": 1, "AlreadyDispatched": 0, "Tasks": 1}.items()
    assert day.effects(8) == everywhere("short", "short")
