import json
from typing import Any

import pytest

from functions.domain.errors import ERRORS_BY_NAME
from functions.domain.run import Counts, Progress
from functions.usecases.report_failure import report_failure
from tests.unit.fakes import World, a_run, booking, throttled, walk

TOKEN = {"RecordId": {"S": "R1"}, "BookingDateUTC": {"S": "2026-09-17"}, "BookingTimeUTC": {"S": "15:10:00Z"}}


def state(error: str = "InvalidToken", cause: Any = '{"errorMessage":"Token: not this run\'s"}') -> dict[str, Any]:
    return {
        "Execution": {"Input": {}, "Name": "n"},
        "Run": a_run().to_state(),
        "Progress": Progress(3, TOKEN, totals=Counts(pages=2, dispatched=7)).to_state(),
        "Error": {"Error": error, "Cause": cause},
    }


def report(given: dict[str, Any], world: World) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(str(report_failure(given, world.ledger)))
    return parsed


def test_a_report_says_what_failed_where_and_how_far_the_run_was(world: World) -> None:
    assert report(state(), world) == {
        "Error": "InvalidToken",
        "Message": "Token: not this run's",
        "RunId": "run-1",
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Path": "paged",
        "Page": 3,
        "Token": TOKEN,
        "Totals": Counts(pages=2, dispatched=7).to_state(),
        "LeasesReleased": True,
    }


@pytest.mark.parametrize("name", ERRORS_BY_NAME)
def test_an_execution_ends_with_the_recorded_error_s_name(world: World, name: str) -> None:
    assert type(report_failure(state(name), world.ledger)).__name__ == name


@pytest.mark.parametrize(
    ("name", "ends_as"),
    [
        pytest.param("States.Timeout", "TransientError", id="the task's time-out"),
        pytest.param("Sandbox.Timedout", "TransientError", id="the function's time-out"),
        pytest.param("Lambda.TooManyRequestsException", "TransientError", id="throttled"),
        pytest.param("Lambda.Unknown", "TransientError", id="a crash of the function's process"),
        pytest.param("KeyError", "DispatchFailed", id="an error that nobody foresaw"),
        pytest.param("Runtime.HandlerError", "DispatchFailed", id="an error without its class"),
        pytest.param("States.TaskFailed", "DispatchFailed", id="a task that failed otherwise"),
        pytest.param("", "DispatchFailed", id="no name"),
        pytest.param("DispatcherError", "DispatchFailed", id="a name that is not in the contract"),
    ],
)
def test_other_names_end_as_one_of_the_contract_and_stay_in_the_report(world: World, name: str, ends_as: str) -> None:
    assert type(report_failure(state(name), world.ledger)).__name__ == ends_as
    assert report(state(name), world)["Error"] == name


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        pytest.param('{"errorMessage":"why","errorType":"X","stackTrace":["line"]}', "why", id="a function's error"),
        pytest.param("", "", id="empty"),
        pytest.param(None, "", id="null"),
        pytest.param({"errorMessage": "why"}, "", id="no text"),
        pytest.param("timed out", "timed out", id="no JSON"),
        pytest.param("[1]", "[1]", id="JSON that is no object"),
        pytest.param("{}", "", id="an object without message"),
        pytest.param('{"errorMessage":null}', "", id="a null message"),
        pytest.param("[" * 100_000, "[" * 1000, id="too deep to read"),
        pytest.param(json.dumps({"errorMessage": "x" * 100_000}), "x" * 1000, id="too long"),
    ],
)
def test_a_cause_of_any_form_is_reported(world: World, cause: Any, message: str) -> None:
    assert report(state(cause=cause), world)["Message"] == message


@pytest.mark.parametrize(
    "lacking",
    [
        pytest.param({}, id="empty"),
        pytest.param({"Error": None, "Run": None, "Progress": None}, id="nulls"),
        pytest.param({"Error": "x", "Run": [], "Progress": 1}, id="other types"),
    ],
)
def test_a_state_that_lacks_anything_is_reported_as_far_as_known(world: World, lacking: dict[str, Any]) -> None:
    assert report(lacking, world) == {"Error": "", "Message": ""}
    assert world.faults.counted["release"] == 0


def test_a_failure_before_the_window_was_known_is_reported_without_a_run(world: World) -> None:
    given = {"Execution": {}, "Error": {"Error": "InvalidInput", "Cause": '{"errorMessage":"PageSize: why"}'}}

    assert report(given, world) == {"Error": "InvalidInput", "Message": "PageSize: why"}


def test_leases_that_cannot_be_released_do_not_hide_the_error(world: World) -> None:
    world.faults.before("release", throttled)

    error = report_failure(state(), world.ledger)

    assert type(error).__name__ == "InvalidToken"
    assert json.loads(str(error))["LeasesReleased"] is False


def test_a_run_in_the_state_that_cannot_be_read_does_not_hide_the_error(world: World) -> None:
    given = {**state(), "Run": {"RunId": "run-1"}}

    assert report(given, world) == {**report(given, world), "RunId": "run-1", "LeasesReleased": False}


def test_the_window_is_free_after_a_failure_and_others_leases_stay() -> None:
    world = World(booking("R1"))
    world.ledger.take(a_run())
    world.ledger.take(a_run(run_id="other", window=a_run().window.next.next))

    report_failure(state(), world.ledger)

    assert {edge.run_id for edge in world.ledger.edges.values()} == {"other"}
    assert walk(world, a_run(run_id="run-2"))["Outcome"] == "Dispatched"


def test_a_report_fits_the_cause_of_an_execution_whatever_it_holds(world: World) -> None:
    token = {**TOKEN, "RecordId": {"S": "\u65e5" * 682}}
    given = {**state(cause="\u65e5" * 10_000), "Progress": Progress(1, token).to_state()}

    text = str(report_failure(given, world.ledger))

    assert text.isascii()
    assert len(json.dumps({"errorMessage": text})) < 32_768
