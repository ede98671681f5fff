"""What an hour and a month cost, worked out by hand once, and which setting would make it less."""

import math
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.errors import InvalidInput
from functions.domain.pack import Layout
from functions.domain.reconcile import Difference
from functions.domain.run import Counts, Path
from tools.cost.bill import (
    METRICS,
    SERVICES,
    Bill,
    Forecast,
    Terms,
    bill_of,
    hour_of_run,
    per_record,
    savings,
)
from tools.cost.prices import read_prices

PRICES = read_prices()
MONTH = 12 / 365
"""Of a day."""


def bill(forecast: Forecast, path: Path = Path.PAGED, terms: Terms | None = None) -> Bill:
    return bill_of(forecast.hour(path), PRICES, terms or Terms())


def test_an_hour_of_1500_bookings_costs_what_its_calls_cost_by_hand() -> None:
    found = bill(Forecast(bookings=1500)).services

    # Two pages. Objects of 300 tasks, 4 of the reconcile, one listing, and 3 pieces that it reads again.
    assert found["S3 requests"].hour == pytest.approx(305 * 0.005 / 1000 + 3 * 0.0004 / 1000)
    # Objects of 330 bytes and five orders of 513 and a comma, for a year.
    assert found["S3 storage"].hour == pytest.approx(300 * (330 + 5 * 514) / 2**30 * 365 * MONTH * 0.023)
    # On each page 120 tasks of points and 30 of coupons, ten in a batch, and a last one that is partly filled.
    assert found["SQS"].hour == pytest.approx(2 * (12.45 + 3.45) * 0.50 / 1e6)
    # Read by the run and by the reconcile, half a unit for each 4 KB.
    assert found["DynamoDB index reads"].hour == pytest.approx(2 * 1500 * 450 / 4096 / 2 * 0.125 / 1e6)
    # A page: 3 items renewed, 4 and 4 KB of tasks created, 4 finished, each at twice the price.  The run: 4 taken in
    # one transaction, 3 given back.  The reconcile: 4 pieces of 2 KB.
    written = 2 * 2 * (3 + 4 + 4 + 4) + 2 * 4 + 3 + 4 * 2
    # 2 plans asked for, 3 windows' runs listed; 4 pieces asked for, 16 listings, and the plans.
    read = 2 + 3 + 4 + 16 + (2 * 700 + 300 * 6 + 1500 * 4) / 4096
    assert found["DynamoDB ledger"].hour == pytest.approx(written * 0.625 / 1e6 + read * 0.125 / 1e6)
    # Page loop, run, reconcile with its 4 pieces.
    assert found["Step Functions"].hour == pytest.approx((2 * 2 + 7 + 4 + 2 * 4) * 0.025 / 1000)
    assert found["Parameter Store"].hour == 0
    assert found["CloudWatch alarms"].month == pytest.approx(METRICS * 0.30 + 23 * 0.10 + 3.00)
    assert found["EventBridge"].hour == pytest.approx(2 * 1.00 / 1e6)
    # Calls: 2 pages, 3 of the run, 6 of the reconcile.
    # 512 MB, 1,024 MB and 1,536 MB are paid for.
    busy = (1500 * 55e-6 + 300 * 635e-6) * 1769 / 1024 + 2 * 0.2 / 2 + 0.2
    busy += (1500 * 95e-6 + 300 * 15e-6) * 1769 / 1024 + 2 * 0.2 * 1.5
    waiting = 0.015 * (2 * 6 * 1.5 + 2 * 3 / 2 + 3 + (4 + 4 * 3) * 1.5)
    assert found["Lambda"].hour == pytest.approx(11 * 0.20 / 1e6 + (busy + waiting) * 0.0000133334)


def test_the_total_is_all_services_and_a_month_is_its_hours() -> None:
    whole = bill(Forecast(bookings=100_000), terms=Terms(hours_per_month=100))

    assert list(whole.services) == list(SERVICES)
    assert whole.total.hour == pytest.approx(sum(amount.hour for amount in whole.services.values()))
    assert whole.total.month == pytest.approx(100 * whole.total.hour)
    assert whole.per_million == pytest.approx(10 * whole.total.hour)


def test_a_page_s_tasks_in_one_pack_are_one_upload_and_a_larger_plan() -> None:
    packed = bill(Forecast(bookings=1500, layout=Layout.PACKED)).services

    # Objects of 2 pages, 4 of the reconcile, one listing, and 3 pieces that it reads again.
    assert packed["S3 requests"].hour == pytest.approx(7 * 0.005 / 1000 + 3 * 0.0004 / 1000)
    # The 150 tasks of a page take 40 bytes each, 750 records 4: with the rest 9 KB are written, not 4.
    written = 2 * 2 * (3 + 4 + 9 + 4) + 2 * 4 + 3 + 4 * 2
    read = 2 + 3 + 4 + 16 + (2 * 700 + 300 * 40 + 1500 * 4) / 4096
    assert packed["DynamoDB ledger"].hour == pytest.approx(written * 0.625 / 1e6 + read * 0.125 / 1e6)


def test_alarms_cost_the_same_however_many_hours_a_month_has() -> None:
    few, many = (
        bill(Forecast(bookings=1000), terms=Terms(hours_per_month=hours)).services["CloudWatch alarms"]
        for hours in (10, 730)
    )

    assert few.month == many.month
    assert few.hour == pytest.approx(73 * many.hour)


def test_every_metric_is_counted_once() -> None:
    names = {*Counts().to_state(), "Retries", "RunSeconds", "RedoFailed", *Difference}

    assert len(names) == METRICS


def test_a_group_that_lies_on_three_pages_is_three_tasks_on_the_paged_path_alone() -> None:
    forecast = Forecast(bookings=100_000, group_size=10, spread=3)

    tasks = {path: forecast.hour(path).tasks for path in (Path.FULL, Path.PAGED, Path.GROUPED)}
    assert tasks == {Path.FULL: 10_000, Path.PAGED: 30_000, Path.GROUPED: 10_000}


def test_a_group_lies_on_no_more_pages_than_there_are() -> None:
    assert Forecast(bookings=1500, group_size=10, spread=7).hour(Path.PAGED).tasks == 150 * 2


def test_the_full_path_fits_up_to_600000_bookings_of_450_bytes() -> None:
    fits = [bill(Forecast(bookings=bookings), Path.FULL).fits for bookings in (600_000, 600_001)]
    assert fits == [True, False]
    assert not bill(Forecast(bookings=300_001, record_bytes=900), Path.FULL).fits
    assert bill(Forecast(bookings=50_000_000)).fits


def test_where_groups_lie_apart_packs_save_most_and_grouping_by_the_window_comes_next() -> None:
    forecast = Forecast(bookings=1_000_000, spread=3)
    paged = bill(forecast)

    saved = savings(paged, forecast)
    assert [one.setting for one in saved[:2]] == [
        "one object for all tasks of a page: taskDataLayout packed",
        "grouping by window: BookingDispatcherGrouping window",
    ]
    others = bill(replace(forecast, layout=Layout.PACKED)), bill(forecast, Path.GROUPED)
    assert [one.saved.hour for one in saved[:2]] == pytest.approx([paged.total.hour - one.total.hour for one in others])
    assert [one.saved.hour for one in saved] == sorted((one.saved.hour for one in saved), reverse=True)


def test_where_groups_lie_together_grouping_by_the_window_saves_nothing_and_is_not_named() -> None:
    forecast = Forecast(bookings=1_000_000)

    assert not [one for one in savings(bill(forecast), forecast) if "Grouping" in one.setting]
    grouped = savings(bill(forecast, Path.GROUPED), forecast)
    assert [one.setting for one in grouped if "Grouping" in one.setting] == [
        "grouping by page: BookingDispatcherGrouping page, at a spread of 1"
    ]


def test_larger_pages_save_transitions_and_transactions_and_no_task() -> None:
    forecast = Forecast(bookings=1_000_000)
    small, large = bill(forecast), bill(replace(forecast, page_size=2330))

    (saved,) = (one for one in savings(small) if one.setting.startswith("larger pages"))
    assert "BookingDispatcherPageSize 2,330" in saved.setting
    assert saved.saved.hour == pytest.approx(small.total.hour - large.total.hour)
    assert small.hour.tasks == large.hour.tasks
    assert not [one for one in savings(large) if one.setting.startswith("larger pages")]


def test_what_is_kept_for_a_shorter_time_costs_less() -> None:
    whole = bill(Forecast(bookings=1_000_000))

    (saved,) = (one for one in savings(whole) if "taskExpiryDays 214" in one.setting)
    assert saved.saved.hour == pytest.approx(whole.services["S3 storage"].hour * (365 - 214) / 365)


def test_something_started_for_each_booking_costs_its_transitions() -> None:
    hour = Forecast(bookings=1_000_000).hour(Path.PAGED)

    child, call = per_record(hour, PRICES, Terms())
    assert child.amount.hour == pytest.approx(2 * 25)
    assert call.amount.hour == pytest.approx(25 + 0.20 + 0.05 * 13.3334)
    assert call.amount.month == pytest.approx(730 * call.amount.hour)


def test_a_runs_hour_is_the_one_that_its_counts_tell() -> None:
    totals = Counts(pages=3, evaluated=2500, waiting=2100, dispatched=2000, set_aside=100, groups=400, tasks=420)

    hour = hour_of_run(Path.PAGED, totals, 1000, 450)
    assert (hour.pages, hour.evaluated, hour.dispatched, hour.tasks) == (3, 2500, 2000, 420)
    assert bill_of(hour, PRICES, Terms()).usage.calls["PutObject"] == 420 + 4


def test_an_hour_without_bookings_has_no_cost_for_a_million() -> None:
    assert bill_of(hour_of_run(Path.GROUPED, Counts(pages=1), 1000, 450), PRICES, Terms()).per_million is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_size": 0}, "--group-size: 0 is no number from 1 on"),
        ({"group_size": math.nan}, "--group-size: nan is no number from 1 on"),
        ({"group_size": 11}, "--group-size: 11 is more than all 10 bookings"),
        ({"spread": math.inf}, "--spread: inf is no number from 1 on"),
        ({"group_size": 2, "spread": 3}, "--spread: 3 pages are more than a group of 2 can lie on"),
    ],
    ids=["no group", "no number", "more than all", "infinite", "more pages than bookings"],
)
def test_a_forecast_that_cannot_be_is_refused_by_its_field(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(Forecast(bookings=10), **changes)
