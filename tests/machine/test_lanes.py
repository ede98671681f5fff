"""Runs that work in lanes: executions of their own, which the run's execution starts and waits for."""

from collections import Counter
from typing import Final

import pytest

from tests.machine.faults import Fault, nth
from tests.machine.walk import Account, Execution, State, Walk, five_members, uploads_of

TIME: Final = "2026-09-17T16:01:10Z"
BY_ONE: Final = {"ExecuteTime": TIME, "PaginationEnabled": True, "PageSize": 1}
SLICED: Final = {**BY_ONE, "Slices": 12}  # R1 to R4 in the first slice, R5 in the second
GROUPED: Final = {**BY_ONE, "Grouping": "window"}
ALL: Final = ["R1", "R2", "R3", "R4", "R5"]
ROUND: Final = ["Lay out lanes", "Note progress", "Lanes left?"]
PIECE_EVENTS: Final = 7

whichever_way = pytest.mark.parametrize(
    "given", [BY_ONE, SLICED, GROUPED], ids=["one range", "slices", "whole-hour groups"]
)


@pytest.fixture(autouse=True)
def booked(account: Account) -> None:
    account.book(*five_members())


def steps(execution: Execution) -> list[str]:
    """The states of the run's own work on its lanes, without their beginning and their end."""
    begin, end = execution.visited.index("Which path?"), execution.visited.index("Summarize run")
    return execution.visited[begin + 1 : end]


def assert_dispatched_once(execution: Execution, account: Account) -> None:
    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.output == execution.output | {"Outcome": "Dispatched", "Waiting": 5, "Dispatched": 5, "Tasks": 5}
    assert account.records == ALL
    assert account.leases == []


def test_slices_are_executions_of_their_own_and_one_run(walk: Walk, account: Account) -> None:
    execution = walk.run(SLICED)

    assert_dispatched_once(execution, account)
    assert execution.output["Pages"] == 16
    assert steps(execution) == [*ROUND, "Dispatch lanes", *["Dispatch lane", "Note lane"] * 12, *ROUND]
    assert [lane.context["Input"]["Step"] for lane in walk.lanes] == ["dispatch"] * 12
    assert [lane.output["Page"] - 1 for lane in walk.lanes] == [5, *[1] * 11]


def test_whole_hour_groups_are_staged_and_then_merged(walk: Walk, account: Account) -> None:
    execution = walk.run(GROUPED)

    assert_dispatched_once(execution, account)
    assert [lane.context["Input"]["Step"] for lane in walk.lanes] == ["stage", "merge"]
    assert steps(execution) == [*ROUND, "Dispatch lanes", "Dispatch lane", "Note lane"] * 2 + ROUND


@whichever_way
def test_a_lane_is_given_no_more_than_it_needs_and_says_who_started_it(walk: Walk, given: State) -> None:
    walk.set("PAGE_BUDGET", "2")

    execution = walk.run(given)

    assert walk.lanes
    for lane in walk.lanes:
        assert lane.context["Input"].keys() == {
            *("Run", "Others", "Step", "Progress"),
            "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID",
        }
        assert lane.context["Input"]["AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"] == execution.context["Id"]


@whichever_way
def test_after_its_budget_of_pages_an_execution_hands_over_and_no_page_is_done_twice(
    walk: Walk, account: Account, given: State
) -> None:
    whole = walk.run(given).output
    before = len(walk.lanes)
    for record in ALL:
        account.cancel(record)
    account.book(*({**booking, "BookingDateUTC": {"S": "2026-09-18"}} for booking in five_members()))
    walk.set("PAGE_BUDGET", "2")

    execution = walk.run({**given, "ExecuteTime": "2026-09-18T16:01:10Z"})

    counted = ("Pages", "Evaluated", "Waiting", "Dispatched", "AlreadyDispatched", "Groups", "Tasks")
    assert [execution.output[name] for name in counted] == [whole[name] for name in counted]
    pages = Counter(
        (call.payload["Progress"]["Lane"], call.payload["Progress"]["Page"])
        for call in walk.calls.made
        if call.operation == "Query" and "IndexName" in call.request and call.payload["Run"]["RunId"] != whole["RunId"]
    )
    assert set(pages.values()) == {1}
    for lane in walk.lanes[before:]:
        done = lane.output["Page"] - lane.context["Input"]["Progress"]["Page"]
        assert lane.output["HandsOver"] is (done == 2 and lane.output["HasMore"])
        assert 1 <= done <= 2
    assert len({lane.name for lane in walk.lanes}) == len(walk.lanes)


@pytest.mark.parametrize("step", ["dispatch", "stage"])
def test_a_page_takes_seven_events_of_its_lane_s_history(walk: Walk, step: str) -> None:
    given = {"dispatch": SLICED, "stage": {**GROUPED, "Slices": 12}}[step]

    walk.run(given)

    five, one = [lane for lane in walk.lanes if lane.context["Input"]["Step"] == step][:2]
    assert len(five.history) - len(one.history) == PIECE_EVENTS * 4


def test_a_lane_s_failure_is_the_run_s_by_its_own_name(walk: Walk, account: Account) -> None:
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))

    execution = walk.run(SLICED)

    assert (execution.status, execution.error) == ("FAILED", "ConfigurationError")
    assert execution.report == execution.report | {"Step": "dispatch", "Lane": 0, "Page": 3}
    assert execution.visited[-2:] == ["Dispatch lane", "Report failure"]
    assert [(lane.status, lane.error) for lane in walk.lanes] == [("FAILED", "ConfigurationError")]
    assert account.leases == []


@whichever_way
def test_a_run_whose_lane_failed_is_redriven_and_its_lanes_go_on(walk: Walk, account: Account, given: State) -> None:
    walk.set("PAGE_BUDGET", "1")
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
    failed = walk.run(given)

    execution = walk.redrive(failed)

    assert failed.error == "ConfigurationError"
    assert_dispatched_once(execution, account)
    assert len({lane.name for lane in walk.lanes}) == len(walk.lanes)


@pytest.mark.parametrize("given", [SLICED, GROUPED], ids=["slices", "whole-hour groups"])
def test_an_execution_that_was_cut_off_in_a_lane_can_be_redriven(walk: Walk, account: Account, given: State) -> None:
    """Redriven, it begins the lane under the same name, which has ended, and lays its lanes out anew."""
    walk.calls.follow(nth("SendMessageBatch", 1), lambda _: walk.stop("cut-off"))
    cut_off = walk.run(given, "cut-off")
    assert cut_off.status == "ABORTED"
    assert walk.lanes[-1].status == "ABORTED"
    walk.record_end(cut_off)

    execution = walk.redrive(cut_off)

    assert execution.visited[:3] == ["Dispatch lanes", "Dispatch lane", "Note lane"]
    assert_dispatched_once(execution, account)


def test_a_run_that_the_kill_switch_stops_in_a_lane_ends_stopped(walk: Walk, account: Account) -> None:
    walk.calls.follow(nth("SendMessageBatch", 2), lambda _: account.flag("Stop", "true"))

    execution = walk.run(SLICED)

    assert execution.output == execution.output | {"Outcome": "Stopped", "Dispatched": 2, "Page": 3}
    assert [lane.output["Stopped"] for lane in walk.lanes] == [True] * 12
    account.flag("Stop", "false")
    assert_dispatched_once(walk.run({"ExecuteTime": TIME, "Resume": True}), account)


def test_a_lane_that_has_ended_before_its_start_was_answered_does_not_fail_the_run(
    walk: Walk, account: Account
) -> None:
    walk.refused_starts += ["ExecutionAlreadyExists"]

    execution = walk.run(GROUPED)

    assert_dispatched_once(execution, account)


def test_a_redriven_run_that_had_handed_over_does_not_begin_its_own_loop_again(walk: Walk, account: Account) -> None:
    """Its history could not hold as many pages again."""
    walk.set("PAGE_BUDGET", "2")
    paged = {"ExecuteTime": TIME, "PaginationEnabled": True, "PageSize": 1}
    walk.calls.stage(Fault.FORBIDDEN, nth("PutObject", 4))
    failed = walk.run(paged)
    assert failed.status == "FAILED"

    execution = walk.redrive(failed)

    assert "Dispatch page" not in execution.visited
    assert_dispatched_once(execution, account)


def test_a_start_that_is_refused_for_the_time_being_is_made_again(walk: Walk, account: Account) -> None:
    walk.refused_starts += ["ExecutionLimitExceeded"] * 4

    execution = walk.run(GROUPED)

    assert_dispatched_once(execution, account)
    assert len(walk.lanes) == 2


def test_a_start_that_stays_refused_fails_the_run_which_can_be_redriven(walk: Walk, account: Account) -> None:
    walk.refused_starts += ["ExecutionLimitExceeded"] * 5

    failed = walk.run(GROUPED)

    assert (failed.status, failed.report["Error"]) == ("FAILED", "StepFunctions.ExecutionLimitExceededException")
    assert walk.lanes == []
    assert account.leases == []
    assert_dispatched_once(walk.redrive(failed), account)
