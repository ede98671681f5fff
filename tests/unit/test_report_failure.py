import json
from typing import Any

import pytest

from functions.domain.budget import PAGE_LEASE_SECONDS
from functions.domain.errors import ERRORS_BY_NAME, DispatcherError, DispatchFailed
from functions.domain.failure import subject_of
from functions.domain.run import Counts, Deployment, Progress
from functions.usecases.plan_run import plan_run
from functions.usecases.report_failure import report_failure
from tests.unit.fakes import STARTED_AT, Execution, FakeParameters, World, a_run, booking, failed, throttled, walk

TOKEN = {"RecordId": {"S": "R1"}, "BookingDateUTC": {"S": "2026-09-17"}, "BookingTimeUTC": {"S": "15:10:00Z"}}


def state(error: str = "InvalidToken", cause: Any = '{"errorMessage":"Token: not this run\'s"}') -> dict[str, Any]:
    return {
        "Execution": {"Input": {}, "Name": "n"},
        "Run": a_run().to_state(),
        "Progress": Progress(3, TOKEN, totals=Counts(pages=2, dispatched=7)).to_state(),
        "Error": {"Error": error, "Cause": cause},
    }


def ends(given: dict[str, Any], world: World, **context: Any) -> DispatcherError:
    """The error that an execution with this state ends with."""
    with pytest.raises(DispatcherError) as error:
        report_failure(given, {"Id": "execution:run-1", **context}, world.ledger, world.ledger, world.notifier)
    return error.value


def report(given: dict[str, Any], world: World) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(str(ends(given, world)))
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
        "Execution": "execution:run-1",
        "NotDone": [],
    }


@pytest.mark.parametrize("name", ERRORS_BY_NAME)
def test_an_execution_ends_with_the_recorded_error_s_name(world: World, name: str) -> None:
    assert type(ends(state(name), world)).__name__ == name


@pytest.mark.parametrize(
    ("name", "ends_as"),
    [
        pytest.param("States.Timeout", "TransientError", id="the task's time-out"),
        pytest.param("Sandbox.Timedout", "TransientError", id="the function's time-out"),
        pytest.param("Lambda.TooManyRequestsException", "TransientError", id="throttled"),
        pytest.param("Lambda.Unknown", "TransientError", id="a crash of the function's process"),
        pytest.param("Lambda.ServiceException", "TransientError", id="a fault of the service"),
        pytest.param("Lambda.ResourceNotFoundException", "DispatchFailed", id="no such function"),
        pytest.param("KeyError", "DispatchFailed", id="an error that nobody foresaw"),
        pytest.param("Runtime.HandlerError", "DispatchFailed", id="an error without its class"),
        pytest.param("States.TaskFailed", "DispatchFailed", id="a task that failed otherwise"),
        pytest.param("", "DispatchFailed", id="no name"),
        pytest.param("DispatcherError", "DispatchFailed", id="a name that is not in the contract"),
    ],
)
def test_other_names_end_as_one_of_the_contract_and_stay_in_the_report(world: World, name: str, ends_as: str) -> None:
    assert type(ends(state(name), world)).__name__ == ends_as
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
    assert report(lacking, world) == {
        "Error": "DispatchFailed",
        "Message": "A function did not return what the state machine expects.",
        "Execution": "execution:run-1",
        "NotDone": [],
    }
    assert world.faults.counted["release"] == 0


def test_a_failure_before_the_window_was_known_is_reported_without_a_run(world: World) -> None:
    given = {"Execution": {}, "Error": {"Error": "InvalidInput", "Cause": '{"errorMessage":"PageSize: why"}'}}

    assert report(given, world) == {
        "Error": "InvalidInput",
        "Message": "PageSize: why",
        "Execution": "execution:run-1",
        "NotDone": [],
    }


@pytest.mark.parametrize(("operation", "name"), [("conclude", "record"), ("release", "release"), ("notify", "notify")])
def test_what_cannot_be_cleaned_up_is_named_and_neither_hides_the_error_nor_keeps_the_rest_from_being_done(
    world: World, operation: str, name: str
) -> None:
    world.begun(a_run())
    world.faults.before(operation, throttled)

    error = ends(state(), world)

    assert type(error).__name__ == "InvalidToken"
    assert json.loads(str(error))["NotDone"] == [name]
    assert {name: world.faults.counted[name] for name in ("conclude", "release", "notify")} == {
        "conclude": 1,
        "release": 1,
        "notify": 1,
    }


def test_a_run_in_the_state_that_cannot_be_read_does_not_hide_the_error(world: World) -> None:
    error = ends({**state(), "Run": {"RunId": "run-1"}}, world)

    assert type(error).__name__ == "InvalidToken"
    assert json.loads(str(error))["NotDone"] == ["record", "release"]
    assert len(world.notifier.told) == 1


def test_the_journal_says_how_the_run_ended_and_with_what(world: World) -> None:
    world.begun(a_run())

    report(state(), world)

    row = world.ledger.runs[a_run().window, "run-1"]
    assert (row.entry.outcome, row.detail["Error"], row.detail["Page"]) == ("Failed", "InvalidToken", 3)


def test_a_failure_does_not_speak_for_an_execution_that_went_on_with_the_run(world: World) -> None:
    world.begun(a_run())
    world.clock.advance(PAGE_LEASE_SECONDS + 1)
    world.begun(a_run(execution_id="run-2"))

    report(state(), world)

    assert world.ledger.runs[a_run().window, "run-1"].entry.outcome is None
    assert {edge.execution_id for edge in world.ledger.edges.values()} == {"run-2"}


def test_the_window_is_free_after_a_failure_and_others_leases_stay() -> None:
    world = World(booking("R1"))
    world.ledger.take(a_run())
    world.ledger.take(a_run(run_id="other", window=a_run().window.next.next))

    report(state(), world)

    assert {edge.run_id for edge in world.ledger.edges.values()} == {"other"}
    assert walk(world, a_run(run_id="run-2"))["Outcome"] == "Dispatched"


def test_a_report_fits_the_cause_of_an_execution_whatever_it_holds(world: World) -> None:
    token = {**TOKEN, "RecordId": {"S": "\u65e5" * 682}}
    given = {**state(cause="\u65e5" * 10_000), "Progress": Progress(1, token).to_state()}

    text = str(ends(given, world))

    assert text.isascii()
    assert len(json.dumps({"errorMessage": text})) < 32_768


# --- redriven


@pytest.mark.parametrize(("noted", "redrives"), [(0, 1), (1, 2), (1, 3)])
def test_once_redriven_it_returns_the_run_with_the_state_as_it_was_and_does_nothing_else(
    world: World, noted: int, redrives: int
) -> None:
    given = state()
    given["Run"]["Redrives"] = noted

    goes_on = report_failure(given, {"RedriveCount": redrives}, world.ledger, world.ledger, world.notifier)

    assert goes_on == {"Run": {**given["Run"], "Redrives": redrives}, "Progress": given["Progress"]}
    assert not world.faults.counted


@pytest.mark.parametrize("context", [{}, {"RedriveCount": None}, {"RedriveCount": 0}, {"RedriveCount": 2}], ids=str)
def test_it_does_not_go_on_again_for_a_redrive_that_it_went_on_for(world: World, context: dict[str, Any]) -> None:
    given = state()
    given["Run"]["Redrives"] = context.get("RedriveCount") or 0

    assert type(ends(given, world, **context)).__name__ == "InvalidToken"


def test_a_redriven_execution_whose_run_was_never_planned_is_planned_again(world: World) -> None:
    given = {"Error": {"Error": "TransientError", "Cause": ""}}

    goes_on = report_failure(given, {"RedriveCount": 1}, world.ledger, world.ledger, world.notifier)

    assert "RunId" not in goes_on["Run"], "the machine asks for it"
    assert goes_on["Progress"] == {}


def test_a_redriven_execution_goes_on_at_the_page_that_failed() -> None:
    world = World(*(booking(f"R{n}", f"15:0{n}:00Z", MemberId=n) for n in range(5)))
    world.faults.before("send", failed, nth=3)
    execution = Execution(world, a_run(page_size=1))
    with pytest.raises(DispatchFailed):
        execution.start()
    before = world.faults.counted["query"]

    summary = execution.redrive()

    assert (summary["Outcome"], summary["RunId"], summary["Pages"]) == ("Dispatched", "run-1", 6)
    assert world.faults.counted["query"] - before == 3, "neither the pages before nor the planned one is read again"
    assert world.record_ids() == [["R0"], ["R1"], ["R2"], ["R3"], ["R4"]]
    assert len(world.queues.sent) == 5


def test_an_execution_may_fail_and_be_redriven_again_and_again() -> None:
    world = World(booking("R1"))
    execution = Execution(world, a_run())
    for go in (execution.start, execution.redrive, execution.redrive):
        world.faults.before("send", failed)
        with pytest.raises(DispatchFailed, match="refused"):
            go()

    assert execution.redrive()["Dispatched"] == 1
    assert len(world.notifier.told) == 3


# --- as a person reads it


def test_the_message_says_what_happened_what_was_and_was_not_dispatched_and_how_to_go_on(world: World) -> None:
    report(state(), world)

    assert world.notifier.told == [
        (
            "Bookings of 2026-09-17T15:00:00Z not dispatched: InvalidToken",
            """\
Window:     2026-09-17T15:00:00Z to 2026-09-17T16:00:00Z
Run:        run-1
Execution:  execution:run-1
Failed at:  page 3
Error:      InvalidToken: Token: not this run's

Dispatched before that page: 0 tasks with 7 records.
Read before that page: 0 records on 2 pages.
Not dispatched: whatever of this page was not sent yet, and every page after it.

To go on when the cause is mended, do one of these; neither repeats what was dispatched:
- Redrive the execution (within 14 days, with the definition that it was started with).
- Start a new execution with the input {"ExecuteTime": "2026-09-17T16:00:00Z", "Resume": true}.""",
        )
    ]


def test_the_input_that_the_message_names_means_the_window_that_failed(world: World) -> None:
    report(state(), world)

    ((_, text),) = world.notifier.told
    given = json.loads(text[text.index("{") : text.rindex("}") + 1])
    run = plan_run({"Input": given, "Name": "n", "StartTime": STARTED_AT}, FakeParameters(), Deployment())
    assert (run.window, run.resume) == (a_run().window, True)


def test_a_failure_before_the_window_was_known_reads_so(world: World) -> None:
    report({"Error": {"Error": "InvalidInput", "Cause": '{"errorMessage":"PageSize: why"}'}}, world)

    ((subject, text),) = world.notifier.told
    assert subject == "Bookings of an unknown window not dispatched: InvalidInput"
    assert "Run:        none was planned" in text
    assert "Failed at:  the start, nothing was read" in text
    assert text.endswith("\n\nTo go on, start a new execution with an input that is mended.")


@pytest.mark.parametrize("window_start", [None, a_run().window.start_text])
@pytest.mark.parametrize("error", ["", "x" * 1000, "Fehler \u00fc \u65e5", "a\nb\tc"], ids=ascii)
def test_a_subject_is_printable_ascii_of_less_than_100_characters(window_start: str | None, error: str) -> None:
    subject = subject_of(window_start, error)

    assert len(subject) < 100
    assert subject.isascii()
    assert subject.isprintable(), "a topic refuses control characters"


def test_a_message_holds_nothing_of_a_booking_but_the_token_s_key_in_the_cause(world: World) -> None:
    report(state(), world)

    assert "R1" not in world.notifier.told[0][1]
