"""Bookings to try the dispatcher with: the contract's worked example, and a generated hour of ten thousand."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle
from typing import Any, Final

from functions.domain.window import Window

Item = dict[str, dict[str, Any]]
"""One booking in DynamoDB's typed form, e.g. `{"RecordId": {"S": "R1"}}`."""

HOUR_SIZE: Final = 10_000
MEMBERS: Final = 3600
"""The groups of the generated hour come from about so many members."""
LAST_HOUR: Final = 23
BAD_EACH: Final = 4
"""How many bookings of the generated hour have each of the faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The bookings of one window, the input that dispatches it, and what must come out."""

    title: str
    input: dict[str, str]
    window_start: str
    bookings: tuple[Item, ...]
    evaluated: int
    waiting: int
    set_aside: int
    tasks: int | None
    """None where it depends on which bookings fall on one page."""


def worked_example() -> Sample:
    """The seven bookings of the contract's example; its window is 2026-09-17 15:00 to 16:00 UTC."""
    a, b, c = (1001, 2001, 3001), (1001, 2002, 3002), (1002, 2003, 3003)
    records = (
        ("R0", a, "14:59:59Z", "WaitToReward", "Point", "14:10"),
        ("R1", a, "15:03:00Z", "WaitToReward", "Point", "14:50"),
        ("R2", a, "15:20:00Z", "WaitToReward", "Point", "14:30"),
        ("R3", b, "15:45:00Z", "WaitToReward", "ECoupon", "15:10"),
        ("R4", c, "15:48:00Z", "Rewarded", "Point", "15:15"),
        ("R5", c, "15:59:00Z", "WaitToReward", "Point", "15:30"),
        ("R6", c, "16:00:01Z", "WaitToReward", "Point", "15:40"),
    )
    bookings = tuple(
        _booking(
            record,
            group,
            BookingDateUTC="2026-09-17",
            BookingTimeUTC=time,
            RewardStatus=status,
            RewardType=reward_type,
            OrderTime=f"2026-09-17T{ordered}:00Z",
        )
        for record, group, time, status, reward_type, ordered in records
    )
    return Sample(
        title="Worked example",
        input={"ExecuteTime": "2026-09-17T16:01:10Z"},
        window_start="2026-09-17T15:00:00Z",
        bookings=bookings,
        evaluated=5,
        waiting=4,
        set_aside=0,
        tasks=3,
    )


def small_hour() -> Sample:
    """Forty bookings of 2026-09-19 12:00 to 13:00 UTC in ten groups, all of which can be granted."""
    bookings = tuple(
        _booking(
            f"C{number:02}",
            (1001, 2101 + number % 10, 3001),
            BookingDateUTC="2026-09-19",
            BookingTimeUTC=f"12:{number:02}:00Z",
            RewardStatus="WaitToReward",
            RewardType="ECoupon" if number % 5 == 0 else "Point",
            OrderTime=f"2026-09-19T11:{59 - number}:00Z",
        )
        for number in range(40)
    )
    return Sample(
        title="The whole circle",
        input={"ExecuteTime": "2026-09-19T13:01:10Z"},
        window_start="2026-09-19T12:00:00Z",
        bookings=bookings,
        evaluated=40,
        waiting=40,
        set_aside=0,
        tasks=10,
    )


def generated_hour() -> Sample:
    """Ten thousand bookings of 2026-09-18 09:00 to 10:00 UTC in about three thousand groups, the same every time.

    A few members have many bookings. Many bookings share a time, most of all the sharp hour at both ends. Statuses,
    reward types, types of ids and forms of times are mixed, and a few bookings are bad data.
    """
    source = random.Random(20260918)  # noqa: S311 - samples that are the same every time, not secrets
    hour = Window.starting("2026-09-18T09:00:00Z")
    bookings = [_generated(f"B{number:05}", source, hour) for number in range(HOUR_SIZE)]
    waiting = [booking for booking in bookings if booking["RewardStatus"]["S"] == "WaitToReward"]
    spoilt = source.sample(waiting, BAD_EACH * len(_FAULTS))
    _spoil(spoilt)
    return Sample(
        title="Generated hour",
        # As task data comes: JSON inside JSON, an offset, seven digits.
        input={"Data": json.dumps({"ExecuteTime": "2026-09-18T18:01:10.6854808+08:00"})},
        window_start="2026-09-18T09:00:00Z",
        bookings=tuple(bookings),
        evaluated=HOUR_SIZE,
        waiting=len(waiting),
        set_aside=len(spoilt),
        tasks=None,
    )


def any_hour(
    window: Window, bookings: int, members: int | None = None, bad: int = 0, seed: int = 0
) -> tuple[Item, ...]:
    """Bookings of any hour, made as those of the generated one are: the same every time for the same arguments.

    More bookings of the same hour, members and seed begin with the same ones.  The last `bad` of those that wait are
    bad data.  By default there are about three bookings a member.
    """
    members = members or max(1, bookings * MEMBERS // HOUR_SIZE)
    source = random.Random(f"{seed} {window.start_text} {members}")  # noqa: S311 - as above
    name = f"S{seed}-{window.start:%Y%m%dT%H}"
    made = [_generated(f"{name}-{number:07}", source, window, members) for number in range(bookings)]
    waiting = [booking for booking in made if booking["RewardStatus"]["S"] == "WaitToReward"]
    _spoil(waiting[max(0, len(waiting) - bad) :])
    return tuple(made)


_FAULTS: Final[tuple[Item, ...]] = (
    {"MemberId": {"NULL": True}},
    {"ShopId": {"S": ""}},
    {"PromotionEngineId": {"BOOL": True}},
    {"OrderTime": {"S": "yesterday"}},
    {"RewardType": {"S": "Voucher"}},
)


def _spoil(bookings: Sequence[Item]) -> None:
    """Make bad data of these, by one fault after the other."""
    for booking, fault in zip(bookings, cycle(_FAULTS)):
        booking.update(fault)


def _generated(record: str, source: random.Random, hour: Window, members: int = MEMBERS) -> Item:
    rank = int(members * source.random() ** 1.6)  # low ranks come far more often
    # Most bookings of a member are made for one and the same time.
    own_time = random.Random(rank)  # noqa: S311 - as above
    time = _booking_time(source.choices((own_time, source), weights=(3, 1))[0], hour)
    booking = _booking(
        record,
        (1001 + rank % 7, 200_000 + rank, 3001 + rank % 5),
        BookingDateUTC=hour.date,
        BookingTimeUTC=time,
        RewardStatus=source.choices(("WaitToReward", "Rewarded", "Cancelled"), weights=(88, 9, 3))[0],
        RewardType=source.choices(("Point", "ECoupon"), weights=(8, 2))[0],
        OrderTime=_order_time(source, hour),
    )
    booking["Amount"] = {"N": f"{source.randint(1, 9999)}.{source.randint(1, 99):02}"}
    if rank % 50 == 0:
        booking["MemberId"] = {"S": booking["MemberId"]["N"]}  # another member than the number of the same digits
    return booking


def _booking_time(source: random.Random, window: Window) -> str:
    minute, second, fraction = source.randrange(60), source.randrange(60), source.randrange(1, 1000)
    hour = f"{window.start:%H}"
    forms = (
        (f"{hour}:00:00Z", 16),
        # In this window's query and in the next one's; midnight is another date's.
        (f"{hour}:59:59Z" if window.start.hour == LAST_HOUR else f"{window.end:%H}:00:00Z", 6),
        (f"{hour}:{minute // 15 * 15:02}:00Z", 12),
        (f"{hour}:{minute:02}:00Z", 26),
        (f"{hour}:{minute:02}:{second:02}Z", 37),
        (f"{hour}:{minute:02}:{second:02}.{fraction:03}Z", 3),
    )
    return source.choices([form for form, _ in forms], weights=[weight for _, weight in forms])[0]


def _order_time(source: random.Random, window: Window) -> str:
    """A time up to eight days before the window's date."""
    days, hour, minute = 18 - source.randint(10, 17), source.randrange(24), source.randrange(60)
    end = source.choice(("00Z", "30.6854808+08:00", "59.25-03:30"))
    return f"{window.start - timedelta(days):%Y-%m-%d}T{hour:02}:{minute:02}:{end}"


def _booking(record: str, group: tuple[int, int, int], **texts: str) -> Item:
    ids = zip(("ShopId", "MemberId", "PromotionEngineId"), group, strict=True)
    return {
        "RecordId": {"S": record},
        "OrderId": {"S": f"O-{record}"},
        "Amount": {"N": "100"},
        **{name: {"N": str(number)} for name, number in ids},
        **{name: {"S": text} for name, text in texts.items()},
    }
