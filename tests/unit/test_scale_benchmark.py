"""What the scale benchmark measures is the whole work, and what it works out from it is right."""

import threading
from collections import Counter
from pathlib import Path as FilePath
from typing import Any

import pytest

from benchmarks.scale import (
    GIANT,
    LARGE,
    PACKED_FIVES,
    PACKED_SINGLES,
    SMALL,
    Dispatched,
    Hour,
    Measured,
    Work,
    calls_a_million,
    check,
    costs,
    figures,
    measure,
    rates,
)
from benchmarks.stored_hour import LAYOUT
from benchmarks.stored_hour import Hour as StoredHour
from functions.domain.lane import Step
from functions.domain.pack import Layout
from functions.domain.run import Path

HOUR = Hour(Path.GROUPED, 4, 2)
TOTALS = {"Evaluated": 4, "Waiting": 4, "Dispatched": 4, "Tasks": 2}


def test_every_generated_booking_is_staged_merged_and_dispatched_in_the_measured_processes() -> None:
    dispatched = measure(Hour(Path.GROUPED, 1_500, 5, spread=True), threading.Semaphore(2))
    assert set(dispatched.works) == {LAYOUT, Step.STAGE, Step.MERGE}
    assert all(0 < work.base <= work.peak for work in dispatched.works.values())
    assert dispatched.calls["PutObject"] == 2 + 1_500 // 5


def test_every_booking_of_an_hour_of_packs_is_in_a_line_that_a_message_names() -> None:
    dispatched = measure(Hour(Path.PAGED, 1_500, 5, layout=Layout.PACKED), threading.Semaphore(1))
    assert dispatched.calls["PutObject"] == 2


def test_a_page_s_cpu_is_so_much_for_a_record_and_so_much_for_a_task() -> None:
    cpu = {PACKED_SINGLES: 20_000 * (50e-6 + 100e-6), PACKED_FIVES: 20_000 * (50e-6 + 100e-6 / 5)}
    hours = {hour: Dispatched({Step.DISPATCH: Work(cpu=seconds)}) for hour, seconds in cpu.items()}
    assert rates(PACKED_SINGLES, PACKED_FIVES, hours) == pytest.approx((50e-6, 100e-6))


def told(directory: FilePath, seen: bytes, objects: list[int], messages: list[int]) -> dict[str, Any]:
    path = directory / f"{len(list(directory.iterdir()))}"
    path.write_bytes(seen)
    return {"Seen": str(path), "Objects": objects, "Messages": messages}


def test_an_hour_is_right_if_all_processes_together_have_each_booking_once(tmp_path: FilePath) -> None:
    check(HOUR, TOTALS, [told(tmp_path, b"\1\0\1\0", [1, 7], [1, 7]), told(tmp_path, b"\0\1\0\1", [1, 9], [1, 9])])


@pytest.mark.parametrize(
    ("seen", "messages", "totals"),
    [
        (b"\1\1\1\0", [2, 16], TOTALS),
        (b"\1\1\1\2", [2, 16], TOTALS),
        (b"\1\1\1\1", [2, 17], TOTALS),
        (b"\1\1\1\1", [3, 16], TOTALS),
        (b"\1\1\1\1", [2, 16], TOTALS | {"Dispatched": 3}),
        (b"\1\1\1\1", [2, 16], TOTALS | {"Tasks": 3}),
    ],
    ids=["one in no task", "one in two", "another task sent", "one sent twice", "other records counted", "other tasks"],
)
def test_an_hour_is_wrong_with(seen: bytes, messages: list[int], totals: dict[str, int], tmp_path: FilePath) -> None:
    with pytest.raises(RuntimeError, match="bookings=4"):
        check(HOUR, totals, [told(tmp_path, seen, [2, 16], messages)])


@pytest.mark.parametrize(
    ("spread", "members"),
    [(True, [0, 1, 2, 0, 1, 2]), (False, [0, 0, 1, 1, 2, 2])],
    ids=["spread over the hour", "side by side"],
)
def test_each_member_has_as_many_bookings_as_the_group_size_says(members: list[int], *, spread: bool) -> None:
    assert [StoredHour(6, 2, spread=spread).member(number) for number in range(6)] == members


def test_two_slices_of_the_hour_have_each_booking_once() -> None:
    hour = StoredHour(7, 1, spread=False)
    first, second = hour.within("15:00:00", "15:30:00"), hour.within("15:30:00", "16:00:00Z")
    assert [*first, *second] == list(range(7))
    assert [number * 3600 // 7 < 1800 for number in range(7)] == [number in first for number in range(7)]


def measured(large: int, small: int, giant: int) -> Measured:
    peaks = {LARGE: large, SMALL: small, GIANT: giant}
    return {hour: Dispatched({Step.MERGE: Work(peak=peak, cpu=10)}) for hour, peak in peaks.items()}


@pytest.mark.parametrize(
    ("peaks", "missed"),
    [
        ((110_000_000, 100_000_000, 150_000_000), []),
        ((110_600_000, 100_000_000, 90_000_000), ["peak RSS, 1,000,000 bookings / 100,000"]),
        (
            (150_100_000, 140_000_000, 150_100_000),
            [
                "peak RSS, 1,000,000 bookings in groups of 5, MB",
                "peak RSS, 500,000 bookings in groups of 500,000, MB",
            ],
        ),
    ],
    ids=["all reached", "grown by more than 10 %", "more than 150 MB"],
)
def test_the_goals_are_150_megabytes_and_a_tenth_more_for_ten_times_the_bookings(
    peaks: tuple[int, int, int], missed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.scale.PRICED", {})
    monkeypatch.setattr("benchmarks.scale.RATED", ())
    found = [figure["name"] for figure in figures(measured(*peaks)) if figure["met"] is False]
    assert found == [f"MergeBucket: {name}" for name in missed]


def test_the_speed_is_bookings_for_each_second_of_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.scale.PRICED", {})
    monkeypatch.setattr("benchmarks.scale.RATED", ())
    values = {figure["name"]: figure["value"] for figure in figures(measured(1, 1, 1))}
    assert values["MergeBucket: bookings a CPU second, 1,000,000 in groups of 5"] == 100_000


def test_calls_and_costs_are_those_of_a_million_bookings() -> None:
    calls = Counter(PutObject=60, UploadPart=40, GetObject=1000, SendMessageBatch=20, GetParameters=5)
    work = Work(cpu=1024 / 1769, invocations=10, calls=calls, write_units=100, read_units=200)
    dispatched = Dispatched({Step.MERGE: work}, transitions=40)
    hour = Hour(Path.GROUPED, 100_000, 5)
    assert calls_a_million(hour, dispatched)["PutObject"] == 600
    prices = dict[str, float](
        s3_write=1,
        s3_read=0.1,
        sqs_fifo_request=2,
        dynamodb_write_unit=3,
        dynamodb_read_unit=0.5,
        lambda_request=4,
        lambda_gb_second=5,
        state_transition=6,
    )
    assert costs(hour, dispatched, prices) == pytest.approx(
        {"S3": 2000, "SQS": 400, "DynamoDB": 4000, "Lambda": 450, "Step Functions": 2400}
    )
