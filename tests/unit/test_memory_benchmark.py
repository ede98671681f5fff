"""What the memory benchmark measures is the whole work, not a part of it."""

import pytest

from benchmarks.memory import PATHS, Peaks, figures, measure
from functions.domain.run import Path

PEAKS: Peaks = {
    (Path.FULL, 10_000): 100e6,
    (Path.FULL, 100_000): 500e6,
    (Path.FULL, 300_000): 1_500e6,
    (Path.PAGED, 10_000): 60e6,
    (Path.PAGED, 100_000): 61e6,
}


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_every_generated_booking_is_dispatched_in_the_measured_process(path: Path) -> None:
    measured = measure(path, 2_000)
    assert 0 < measured.base < measured.peak


@pytest.mark.parametrize(
    ("largest", "met"), [(63e6, True), (63.1e6, False)], ids=["flat within 5 %", "grown by more than 5 %"]
)
def test_the_goal_is_the_page_paths_peak_at_300_000_over_that_at_10_000(largest: float, *, met: bool) -> None:
    goals = [figure for figure in figures(50e6, PEAKS | {(Path.PAGED, 300_000): largest}) if figure["goal"]]
    assert [figure["name"] for figure in goals] == ["paged: peak RSS, 300,000 bookings / 10,000"]
    assert [figure["met"] for figure in goals] == [met]
