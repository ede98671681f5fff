"""An attempt that stands still while others work on its window, and then goes on where it was: it decides nothing.

A function that was paused makes its next call when everything has changed, so only the conditions of that call's own
transaction protect what others did meanwhile.
"""

from collections.abc import Callable
from typing import Final

import pytest

from functions.domain.budget import PAGE_LEASE_SECONDS
from tests.machine.faults import When, nth
from tests.machine.walk import Account, Execution, State, Walk, booking

TIME: Final = "2026-09-17T16:01:10Z"
PAGES_OF_TWO: Final = {"ExecuteTime": TIME, "PaginationEnabled": True, "PageSize": 2}
PAGES_OF_ONE: Final = {**PAGES_OF_TWO, "PageSize": 1}
FULL: Final = {"ExecuteTime": TIME}
NEXT_WINDOW: Final = {**PAGES_OF_TWO, "ExecuteTime": "2026-09-17T17:01:10Z"}

PLANNING: Final = nth("TransactWriteItems", 3)
FINISHING: Final = nth("TransactWriteItems", 4)


def of_one_group(*times: str) -> list[State]:
    """R1, R2, ... at these times; one task of them all if one page reads them all."""
    return [booking(f"R{number}", BookingTimeUTC=time) for number, time in enumerate(times, 1)]


def plan_rows(account: Account, run_id: str) -> dict[str, bool]:
    """Which pages of a run were decided, and whether they are finished."""
    rows = [row for row in account.ledger if row["Pk"]["S"].endswith(run_id) and row["Sk"]["S"].startswith("row#")]
    return {row["Sk"]["S"].removeprefix("row#0000#"): row["Finished"]["BOOL"] for row in rows}


def interrupted(walk: Walk, when: When, *meanwhile: Callable[[], object]) -> Execution:
    """A run of pages of two whose attempt stands still before the call until its leases are over and all is done."""

    def pause() -> None:
        walk.let_pass(PAGE_LEASE_SECONDS + 1)
        for act in meanwhile:
            act()

    walk.calls.precede(when, pause)
    return walk.run(PAGES_OF_TWO, "first")


def assert_lost(execution: Execution) -> None:
    assert (execution.status, execution.error) == ("FAILED", "LeaseLost"), execution.cause
    assert "no longer this attempt's" in execution.report["Message"]


@pytest.mark.parametrize("rival", [PAGES_OF_ONE, {**PAGES_OF_ONE, "Resume": True}], ids=["a new run", "a resumed run"])
def test_an_attempt_that_stood_still_before_its_plan_while_a_rival_dispatched_the_window_plans_nothing(
    walk: Walk, account: Account, rival: State
) -> None:
    account.book(*of_one_group("15:10:00Z", "15:20:00Z"))
    rivals: list[Execution] = []

    execution = interrupted(walk, PLANNING, lambda: rivals.append(walk.run(rival)))

    assert_lost(execution)
    assert rivals[0].output == rivals[0].output | {"Outcome": "Dispatched", "Dispatched": 2}
    assert [task.records for task in account.tasks] == [("R1",), ("R2",)]
    decided = {"000001": True, "000002": True} if "Resume" in rival else {}
    assert plan_rows(account, execution.report["RunId"]) == decided


def test_an_attempt_that_stood_still_before_its_plan_while_a_neighbour_dispatched_the_edge_plans_nothing(
    walk: Walk, account: Account
) -> None:
    account.book(*of_one_group("15:10:00Z", "16:00:00Z", "16:20:00Z"))

    execution = interrupted(walk, PLANNING, lambda: walk.run(NEXT_WINDOW))

    assert_lost(execution)
    assert [task.records for task in account.tasks] == [("R2", "R3")]
    assert walk.run(FULL).output["AlreadyDispatched"] == 1
    assert account.records == ["R1", "R2", "R3"]


def test_a_neighbour_waits_while_an_attempt_stands_still_before_its_plan(walk: Walk, account: Account) -> None:
    account.book(*of_one_group("15:10:00Z", "16:00:00Z", "16:20:00Z"))
    waited: list[float] = []

    def start_beside() -> None:
        walk.run(NEXT_WINDOW)
        waited.extend(walk.pauses)

    walk.calls.precede(PLANNING, start_beside)

    execution = walk.run(PAGES_OF_TWO)

    assert_lost(execution)
    assert sum(waited) >= PAGE_LEASE_SECONDS, "the neighbour begins only when the leases are over"
    assert [task.records for task in account.tasks] == [("R2", "R3")]


def test_an_attempt_that_wakes_when_its_execution_was_redriven_plans_nothing_by_what_it_knew(
    walk: Walk, account: Account
) -> None:
    """The edges are its execution's again, and its page has no plan: only the fence tells that it is not the one."""
    account.book(*of_one_group("15:10:00Z", "15:20:00Z"))

    def take_leases_again() -> None:
        taking = next(one for one in walk.invocations if one.function == "TakeLeases")
        walk.invoke("TakeLeases", {**taking.payload, "Run": {**taking.payload["Run"], "Redrives": 1}})

    execution = interrupted(walk, PLANNING, lambda: walk.run(PAGES_OF_ONE), take_leases_again)

    assert_lost(execution)
    assert [task.records for task in account.tasks] == [("R1",), ("R2",)]
    assert plan_rows(account, execution.report["RunId"]) == {}


def test_an_attempt_that_stood_still_before_its_mark_while_a_rival_dispatched_the_window_marks_nothing(
    walk: Walk, account: Account
) -> None:
    account.book(*of_one_group("15:10:00Z", "15:20:00Z"))

    execution = interrupted(walk, FINISHING, lambda: walk.run(PAGES_OF_ONE))

    assert_lost(execution)
    assert [task.records for task in account.tasks] == [("R1", "R2")]
    assert plan_rows(account, execution.report["RunId"]) == {"000001": False}
