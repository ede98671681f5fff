"""What an hour uses is what the code does: the calls that were measured, and the states that machines go through."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any

import pytest

from functions.adapters import ledger, ledger_table
from functions.domain.run import Path
from tools.cost import usage
from tools.cost.prices import read_prices
from tools.cost.usage import Hour, Usage, dispatching, pages_of, reconciling, run_of

ROOT = FilePath(__file__).resolve().parents[3]
MILLION = 1_000_000
SLOWER = {"BatchGetItem"}
"""An attempt looks at its leases every two seconds, and the machine that measured was faster than a function is."""


def hour(path: Path, bookings: float, group_size: float, slices: int = 1, page_size: int = 1000) -> Hour:
    return Hour(
        path=path,
        evaluated=bookings,
        dispatched=bookings,
        tasks=bookings / group_size,
        pages=pages_of(bookings, page_size, 450, slices),
        page_size=page_size,
        record_bytes=450,
        slices=slices,
    )


MEASURED = {
    "paged, tasks of 1": hour(Path.PAGED, 20_000, 1),
    "paged, tasks of 5": hour(Path.PAGED, 20_000, 5),
    "grouped, groups of 1": hour(Path.GROUPED, 50_000, 1, slices=2),
    "grouped, groups of 5": hour(Path.GROUPED, MILLION, 5, slices=2),
}
"""The hours of `benchmarks.scale`."""


def figures(name: str) -> dict[str, float]:
    content = json.loads((ROOT / "benchmarks" / "results" / name).read_text())
    return {figure["name"]: figure["value"] for figure in content["figures"]}


@pytest.mark.parametrize("name", list(MEASURED))
def test_the_calls_of_a_million_bookings_are_those_that_were_measured(name: str) -> None:
    suffix = ", calls for a million bookings"
    measured = {
        key.removeprefix(f"{name}: ").removesuffix(suffix): value
        for key, value in figures("scale.json").items()
        if key.startswith(f"{name}: ") and key.endswith(suffix)
    }
    calls = {
        operation: count * MILLION / MEASURED[name].evaluated
        for operation, count in dispatching(MEASURED[name]).calls.items()
    }

    assert calls.keys() | SLOWER == measured.keys() | SLOWER
    for operation in measured.keys() - SLOWER:
        assert calls[operation] == pytest.approx(measured[operation], rel=0.05), operation


@pytest.mark.parametrize("name", list(MEASURED))
def test_the_cost_of_a_million_bookings_is_the_one_that_was_measured(name: str) -> None:
    prices, used = read_prices(), dispatching(MEASURED[name])
    dollars = {
        "DynamoDB": prices.each("dynamodb_write_unit") * used.ledger_write_units
        + prices.each("dynamodb_read_unit") * (used.ledger_read_units + used.index_read_units),
        "Lambda": prices.each("lambda_request") * used.invocations
        + prices.each("lambda_gb_second") * used.busy_gb_seconds,
        "Step Functions": prices.each("state_transition") * used.transitions,
    }
    measured = figures("scale.json")
    for service, value in dollars.items():
        of_a_million = value * MILLION / MEASURED[name].evaluated
        assert of_a_million == pytest.approx(
            measured[f"{name}: {service}, US dollars for a million bookings"], rel=0.04
        ), service


def test_the_calls_of_a_reconcile_are_those_that_were_measured() -> None:
    calls = reconciling(hour(Path.PAGED, 500_000, 5)).calls
    measured = figures("reconcile.json")

    for operation, count in calls.items():
        of_a_million = measured[f"{operation}, calls for a million bookings"]
        assert 2 * count == pytest.approx(of_a_million, rel=0.15), operation


def test_the_limits_of_the_ledger_are_its_own() -> None:
    assert vars(ledger_table)["_ROWS_A_QUERY"] == usage.ROWS_A_QUERY
    assert vars(ledger)["_KEYS_A_BATCH"] == usage.KEYS_A_BATCH


def machine(name: str) -> dict[str, Any]:
    definition: dict[str, Any] = json.loads((ROOT / "statemachine" / f"{name}.asl.json").read_text())
    inner = [state["ItemProcessor"]["States"] for state in definition["States"].values() if "ItemProcessor" in state]
    return {**definition["States"], **{name: state for states in inner for name, state in states.items()}}


def following(state: dict[str, Any]) -> Iterator[str]:
    yield from (choice["Next"] for choice in state.get("Choices", ()))
    if "Next" in state:
        yield state["Next"]


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("dispatch", (*usage.PAGE_LOOP, usage.PAGE_LOOP[0])),
        ("dispatch", usage.RUN),
        ("dispatch", ("Which path?", *usage.WHOLE_WINDOW, "Summarize run")),
        ("dispatch", ("More pages?", *usage.HAND_OVER, *usage.LAYOUT, *usage.LANES, usage.LAYOUT[0])),
        ("dispatch", (usage.LAYOUT[-1], "Summarize run")),
        ("dispatch", usage.STARTED_LANE),
        ("lane", usage.LANE),
        ("lane", (*usage.LANE_LOOP, usage.LANE_LOOP[0])),
        ("reconcile", usage.RECONCILE[:2]),
        ("reconcile", usage.RECONCILE[2:]),
        ("reconcile", (*usage.RECONCILE_LOOP, usage.RECONCILE_LOOP[0])),
    ],
    ids=[
        *("page loop", "run", "whole window", "hand-over and lanes", "no lanes left", "started lane", "lane"),
        *("lane loop", "reconcile's begin", "reconcile's end", "reconcile loop"),
    ],
)
def test_the_transitions_that_are_counted_are_the_machines(name: str, states: tuple[str, ...]) -> None:
    defined = machine(name)
    for state, after in pairwise(states):
        assert after in following(defined[state]), f"{state} does not lead to {after}"
    for state in states:
        assert (defined[state]["Type"] == "Task") is (state in usage.TASK_STATES)


def test_a_run_of_more_pages_than_one_execution_has_room_for_goes_on_in_lanes() -> None:
    within, beyond = (dispatching(hour(Path.PAGED, bookings, 5)) for bookings in (1_999_000, 2_000_000))

    assert within.transitions == 2 * 2000
    handed_over, lanes, lane, layouts = 1, 1, 2 + 3, 2 * 3
    assert beyond.transitions == 2 * 2001 + handed_over + lanes + lane + layouts


def test_a_page_of_large_bookings_ends_at_a_megabyte() -> None:
    assert pages_of(10_000, 1000, 10_240) == 10_000 // 102 + 1


def test_the_full_path_is_one_call_that_makes_a_plan_of_each_thousand_bookings() -> None:
    calls = run_of(hour(Path.FULL, 10_000, 5)).calls

    assert calls["PutObject"] == 2_000
    assert calls["Query"] == 11 + 1 + 3
    renewed, planned_and_finished, leases_taken = 1, 2 * 10, 1
    assert calls["TransactWriteItems"] == renewed + planned_and_finished + leases_taken


def test_an_hour_without_bookings_is_one_page_and_writes_nothing() -> None:
    calls = dispatching(hour(Path.PAGED, 0, 1)).calls

    assert calls["Query"] == 1
    assert not calls.keys() & {"PutObject", "SendMessageBatch"}


def test_two_usages_together_are_their_sum() -> None:
    one, two = Usage(transitions=2), Usage(transitions=3)
    one.call("Query", 1.5)
    two.call("Query", 2)

    assert (one + two).transitions == 5
    assert (one + two).calls == {"Query": 3.5}
