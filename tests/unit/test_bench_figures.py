"""What the benchmark works out from its measurements is right."""

import json
from pathlib import Path as FilePath
from typing import Any

import pytest

from benchmarks.figures import (
    BARE,
    BARE_START,
    BARE_TUNED,
    HANDLER,
    NAIVE,
    NOT_BUILT,
    PACKED,
    PAGE_START,
    QUERY,
    QUERY_DEFAULT,
    SIZED,
    UNTUNED,
    Measured,
    Page,
    figures,
    prices_of,
    waits,
)
from benchmarks.memory import OBJECT, fresh_process
from benchmarks.priced_ledger import QUIET
from benchmarks.stored_hour import passes
from functions.domain.run import Path

PHASES = [("GetItem", 1), ("PutObject", 33), ("TransactWriteItems", 2), ("SendMessageBatch", 17)]
USAGE = {
    "pages": 10,
    "evaluated": 10_000,
    "ledger_calls": {"TransactWriteItems": 30, "GetItem": 10},
    "ledger_bytes": 1,
    "write_units": 800,
    "ledger_read_units": 10,
    "read_units": 570,
    "calls": {"PutObject": 6000, "SendMessageBatch": 600, "GetParameters": 10},
}


def page(cpu: float, wall: float = 1.0) -> Page:
    return Page(
        first=1,
        cpu=cpu,
        wall=wall,
        requests={"PutObject": 33.0},
        stub_cpu=0.01,
        most_at_once=16,
        connections=0,
        phases=PHASES,
        recorded=1,
    )


@pytest.fixture
def measured() -> Measured:
    """As it was measured where every goal is just reached."""
    every = Measured(0.015, 10_000, 1_000_000, 300_000)
    every.pages = {
        HANDLER[OBJECT]: [page(0.8, 0.156), page(0.1), page(9, 0.1)],
        BARE[OBJECT]: [page(0.8)],
        BARE_TUNED[OBJECT]: [page(0.7)],
        UNTUNED: [page(1.0)],
        NAIVE: [page(2, 3.2)],
        QUERY: [page(0.01)],
        QUERY_DEFAULT: [page(0.04)],
    }
    every.starts = {BARE_START: [0.2, 0.1, 0.3], PAGE_START: [0.25]}
    every.peaks = {
        (Path.PAGED, OBJECT, 10_000): [60_000_000],
        (Path.PAGED, OBJECT, 1_000_000): [63_000_000],
        (Path.PAGED, OBJECT, 300_000): [62_000_000],
        (Path.FULL, OBJECT, 300_000): [1_240_000_000],
    }
    every.ledger = {(OBJECT, QUIET): USAGE}
    return every


def by_name(measured: Measured) -> dict[str, Any]:
    return {figure.name: figure for figure in figures(measured)}


def test_a_page_waits_for_each_call_but_those_that_go_side_by_side() -> None:
    assert waits(page(1), threads=16) == 1 + 3 + 2 + 2
    assert waits(page(1), threads=8) == 1 + 5 + 2 + 3


def test_a_figure_is_the_median_of_its_processes(measured: Measured) -> None:
    assert measured.cpu(HANDLER[OBJECT]) == pytest.approx(800)
    assert measured.wall(HANDLER[OBJECT]) == pytest.approx(156)
    assert measured.bound(OBJECT) == pytest.approx(8 * 15)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("page handler CPU / bare, same calls and threads, object", 1.0),
        ("page CPU, object, tuned / default boto3 pool", 0.8),
        ("wall / latency bound at 15 ms, object, 16 threads", 1.3),
        ("wall, object / naive", 0.0488),
        ("Query CPU / default client.query", 0.25),
        ("peak RSS, 1,000,000 bookings / 10,000, paged, object", 1.05),
        ("start-up CPU of the page function / bare boto3 with three clients", 1.25),
    ],
)
def test_a_goal_that_is_just_reached_is_met(measured: Measured, name: str, value: float) -> None:
    figure = by_name(measured)[name]
    assert (figure.value, figure.met) == (pytest.approx(value, abs=1e-4), True)


def test_a_goal_that_is_missed_has_its_reason(measured: Measured) -> None:
    measured.pages[QUERY] = [page(0.0101)]
    figure = by_name(measured)["Query CPU / default client.query"]
    assert figure.met is False
    assert figure.note == "10.1 / 40 ms; botocore walks the answer by its shape"


def test_a_layout_that_the_product_does_not_know_misses_its_goals_as_not_built(measured: Measured) -> None:
    missed = [figure for figure in figures(measured) if figure.goal and figure.value is None]
    assert all(PACKED in figure.name and figure.note == NOT_BUILT and figure.met is False for figure in missed)
    assert len(missed) == 5


def test_a_million_records_cost_what_their_calls_units_transitions_and_seconds_do(measured: Measured) -> None:
    assert prices_of(measured)[OBJECT] == pytest.approx(
        {
            "S3": 600_000 * 0.005 / 1000,
            "SQS": 60_000 * 0.5 / 1e6,
            "DynamoDB": 80_000 * 0.625 / 1e6 + 57_000 * 0.125 / 1e6,
            "Lambda": 1000 * (0.2 / 1e6 + 0.156 * 1769 / 1024 * 0.0000133334),
            "Step Functions": 2000 * 0.025 / 1000,
        }
    )


def test_the_ledgers_price_is_of_its_own_calls_and_units(measured: Measured) -> None:
    told = by_name(measured)
    assert told["leases and plans, first run, object: calls a page"].value == 4
    dollars = told["leases and plans, first run, object: US dollars per million records"]
    assert dollars.value == pytest.approx(80_000 * 0.625 / 1e6 + 1000 * 0.125 / 1e6, abs=1e-4)
    assert dollars.met is True


def test_a_child_execution_for_each_record_costs_fifty_dollars_more_than_an_invocation(measured: Measured) -> None:
    prices = {name: sum(services.values()) for name, services in prices_of(measured).items()}
    more = prices["a child execution for each record"] - prices["an invocation for each record"]
    assert more == pytest.approx(50)


def test_a_memory_is_judged_by_its_page_against_the_bound_of_the_threads_that_are_deployed(measured: Measured) -> None:
    sizes = {variant.memory: variant for variant in SIZED[OBJECT]}
    measured.pages |= {sizes[1024]: [page(0.1, 0.157)], sizes[1536]: [page(0.1, 0.156)]}
    told = by_name(measured)
    assert told["memory: wall of a page, ms: object, 1,024 MB"].value == 157
    assert told["memory: wall / latency bound, 16 threads: object, 1,024 MB"].value == pytest.approx(
        157 / 120, abs=1e-4
    )
    dollars = told["memory: Lambda, US dollars per million records: object, 1,536 MB"].value
    assert dollars == pytest.approx(1000 * (0.2 / 1e6 + 0.156 * 1536 / 1024 * 0.0000133334), rel=1e-3)
    assert told["memory: smallest with a page within 1.30 of its bound with 16 threads, MB: object"].value == 1536


def test_where_no_memory_brings_a_page_near_its_bound_the_nearest_is_named(measured: Measured) -> None:
    measured.pages[HANDLER[OBJECT]] = [page(0.1, 0.240)]
    smallest = by_name(measured)["memory: smallest with a page within 1.30 of its bound with 16 threads, MB: object"]
    assert (smallest.value, smallest.note) == (None, "none of them: at 1,769 MB it takes 2.00 of it")


ROW = {"Low": {"S": "b"}, "LowBucket": {"N": "9"}}


@pytest.mark.parametrize(
    ("condition", "value", "passed"),
    [
        ("", {}, True),
        ("#low <= :it", {"S": "b"}, True),
        ("#low <= :it AND #low > :it", {"S": "b"}, False),
        ("#bucket < :it", {"N": "10"}, True),
        ("#none < :it", {"N": "10"}, False),
    ],
)
def test_the_stored_ledger_filters_as_dynamodb_does(condition: str, value: dict[str, str], *, passed: bool) -> None:
    names = {"#low": "Low", "#bucket": "LowBucket", "#none": "None"}
    request = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": {":it": value}}
    assert passes(ROW, request | ({"FilterExpression": condition} if condition else {})) is passed


def used(hour: str, directory: FilePath) -> dict[str, Any]:
    task = {"Hour": hour, "Bookings": 99, "PageSize": 20, "Directory": str(directory)}
    process = fresh_process("benchmarks.priced_ledger", stdin=json.dumps(task))
    assert not process.returncode, process.stderr
    told: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return told


def test_a_re_run_finds_every_record_dispatched_by_the_run_before(tmp_path: FilePath) -> None:
    told = used(QUIET, tmp_path)
    first, again = told["quiet"], told["again"]
    assert (first["pages"], first["evaluated"], first["ledger_calls"]) == (
        5,
        99,
        {"TransactWriteItems": 15, "GetItem": 5},
    )
    assert (again["evaluated"], again["tasks"]) == (99, 0)
    assert again["ledger_calls"]["Query"] >= 5
    assert again["ledger_read_units"] > first["ledger_read_units"]


def test_at_a_busy_edge_the_window_before_has_dispatched_one_half(tmp_path: FilePath) -> None:
    busy = used("busy", tmp_path)["busy"]
    assert busy["evaluated"] == 99
    assert busy["calls"]["PutObject"] == busy["tasks"] < 99
    plans_of_the_run_before, own_plans = 3, 2  # on the three pages that hold the first half, and behind the first one
    assert busy["ledger_calls"]["Query"] == plans_of_the_run_before + own_plans
