"""Slices and shards together read exactly what a run in one lane reads, and nothing twice."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.lane import MAX_SLICES, Range, ranges_of
from functions.domain.window import Window

DAY = datetime(2026, 9, 17, tzinfo=UTC)
windows = st.one_of(st.integers(0, 23), st.sampled_from((0, 15, 23))).map(lambda hour: Window(DAY.replace(hour=hour)))
slice_counts = st.one_of(st.integers(1, 7), st.integers(1, MAX_SLICES))
seconds = st.integers(-3600, 2 * 3600)
sharded = st.tuples(st.integers(0, 4), st.integers(0, 3))
"""So many shards, and a number that one of them is chosen by."""
endings = st.one_of(
    st.sampled_from(("", "Z", "z", ".", ".0Z", ".5", ".5Z", ".999999999Z", "Z0", "0")),
    st.integers(0, 999_999_999).map(lambda fraction: f".{fraction:09}Z"),
)


def time_text(window: Window, second: int, ending: str) -> str:
    """A booking time so many seconds behind the window's start, on the start's date; at midnight it is 24 o'clock."""
    at = window.start.hour * 3600 + second
    return f"{at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}{ending}"


def reads(keys: Range, date_key: str, time: str) -> bool:
    """Whether a lane dispatches the booking at this key of the index."""
    between = keys.low <= time <= keys.high
    return keys.date_key == date_key and between and not (keys.excludes_low and time == keys.low)


@given(windows, slice_counts, sharded, seconds, endings)
def test_a_booking_in_the_window_is_read_by_exactly_one_lane_and_one_outside_by_none(
    window: Window, slices: int, sharded: tuple[int, int], second: int, ending: str
) -> None:
    shards, shard = sharded
    date_key = f"{window.date}#{shard % shards}" if shards else window.date
    time = time_text(window, second, ending)
    read_by = [lane for lane, keys in enumerate(ranges_of(window, slices, shards)) if reads(keys, date_key, time)]
    assert len(read_by) == (1 if window.low <= time <= window.high else 0)


@given(windows, slice_counts, st.integers(0, MAX_SLICES), endings)
def test_a_booking_where_two_slices_meet_is_read_once_with_and_without_a_fraction(
    window: Window, slices: int, place: int, ending: str
) -> None:
    cut = 3600 * min(place, slices) // slices
    time = time_text(window, cut, ending)
    read_by = [keys for keys in ranges_of(window, slices) if reads(keys, window.date, time)]
    assert len(read_by) == (1 if window.low <= time <= window.high else 0)


@given(windows, slice_counts, st.text(max_size=12))
def test_a_text_that_is_no_time_is_read_by_the_one_lane_in_whose_order_it_stands_or_by_none(
    window: Window, slices: int, time: str
) -> None:
    read_by = [keys for keys in ranges_of(window, slices) if reads(keys, window.date, time)]
    assert len(read_by) == (1 if window.low <= time <= window.high else 0)


@given(windows, slice_counts, st.integers(0, 4), seconds, st.integers(4, 9))
def test_another_date_and_a_shard_that_is_not_are_no_lanes(
    window: Window, slices: int, shards: int, second: int, shard: int
) -> None:
    time = time_text(window, second, "Z")
    others = ["2026-09-16", "2026-09-18", f"{window.date}#{shard}", f"{window.date}#"]
    others += [window.date] if shards else []
    assert not any(reads(keys, other, time) for keys in ranges_of(window, slices, shards) for other in others)


@given(windows, slice_counts, st.integers(0, 4))
def test_lanes_go_shard_by_shard_and_in_the_order_of_time(window: Window, slices: int, shards: int) -> None:
    ranges = ranges_of(window, slices, shards)
    assert len(ranges) == slices * max(shards, 1)
    for start in range(0, len(ranges), slices):
        of_shard = ranges[start : start + slices]
        assert {keys.date_key for keys in of_shard} == {f"{window.date}#{start // slices}" if shards else window.date}
        assert (of_shard[0].low, of_shard[-1].high) == (window.low, window.high)
        assert all(before.high == after.low for before, after in pairwise(of_shard))
        assert all(keys.low < keys.high for keys in of_shard)
        assert [keys.excludes_low for keys in of_shard] == [False] + [True] * (slices - 1)


def test_without_slices_and_shards_one_lane_reads_the_window() -> None:
    assert ranges_of(Window(DAY.replace(hour=15))) == (
        Range("2026-09-17", "15:00:00", "16:00:00Z", excludes_low=False),
    )


@pytest.mark.parametrize(
    ("hour", "slices", "shards", "expected"),
    [
        pytest.param(
            15,
            3,
            0,
            [
                ("2026-09-17", "15:00:00", "15:20:00"),
                ("2026-09-17", "15:20:00", "15:40:00"),
                ("2026-09-17", "15:40:00", "16:00:00Z"),
            ],
            id="three slices",
        ),
        pytest.param(
            23,
            2,
            2,
            [
                ("2026-09-17#0", "23:00:00", "23:30:00"),
                ("2026-09-17#0", "23:30:00", "24:00:00Z"),
                ("2026-09-17#1", "23:00:00", "23:30:00"),
                ("2026-09-17#1", "23:30:00", "24:00:00Z"),
            ],
            id="two slices of two shards before midnight",
        ),
        pytest.param(
            0,
            7,
            0,
            [
                ("2026-09-17", low, high)
                for low, high in pairwise(
                    ("00:00:00", "00:08:34", "00:17:08", "00:25:42", "00:34:17", "00:42:51", "00:51:25", "01:00:00Z")
                )
            ],
            id="seven slices, which meet at whole seconds",
        ),
    ],
)
def test_the_ranges_are(hour: int, slices: int, shards: int, expected: list[tuple[str, str, str]]) -> None:
    ranges = ranges_of(Window(DAY + timedelta(hours=hour)), slices, shards)
    assert [(keys.date_key, keys.low, keys.high) for keys in ranges] == expected
