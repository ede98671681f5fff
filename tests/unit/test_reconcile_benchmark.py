"""What the reconcile benchmark measures is the whole work, and what it works out from it is right."""

import pytest

from benchmarks.reconcile import FUNCTIONS, LARGE, SMALL, Told, calls_a_million, figures, measure, table
from functions.domain.reconcile import Step


def test_every_generated_booking_is_compared_with_its_plan_in_the_measured_processes() -> None:
    measured = measure(2_500)

    assert all(0 < told["BaseBytes"] <= told["PeakBytes"] for told in measured.values())
    assert measured[Step.OBJECTS]["Calls"]["ListObjectsV2"] == 1
    assert measured[Step.COMPARED]["Calls"]["GetObject"] >= 3


def told(peak: float, **calls: int) -> Told:
    return {"BaseBytes": 1e6, "PeakBytes": peak, "Cpu": 2.0, "Invocations": 3, "Calls": calls}


def test_calls_of_all_functions_are_counted_for_a_million_bookings() -> None:
    measured: dict[str, Told] = {Step.BOOKINGS: told(1, Query=3, PutItem=1), Step.PLANS: told(1, Query=1)}

    assert calls_a_million(measured, 500_000) == {"PutItem": 2, "Query": 8}


@pytest.mark.parametrize(("peak", "met"), [(99e6, [True, True]), (120e6, [True, False]), (160e6, [False, False])])
def test_the_goals_are_each_function_s_peak_and_its_growth(peak: float, met: list[bool]) -> None:
    small, large = (dict.fromkeys(map(str, FUNCTIONS), told(95e6)) for _ in range(2))
    goals = [one for one in figures(large | {Step.COMPARED: told(peak)}, small) if one["goal"]]

    assert [one["met"] for one in goals if one["name"].startswith("CompareRecords")] == met
    assert all(one["met"] for one in goals if not one["name"].startswith("CompareRecords"))


def test_the_table_has_a_line_for_each_function() -> None:
    measured = dict.fromkeys(map(str, FUNCTIONS), told(95e6))

    head, *lines = table(measured, measured).splitlines()

    assert f"| {SMALL:,} | {LARGE:,} |" in head
    assert [line.split("|")[1].strip() for line in lines[1:]] == list(FUNCTIONS.values())
    assert lines[1] == f"| ReadBookings | 1.0 | 95.0 | 95.0 | 3 | {LARGE // 2:,} |"
