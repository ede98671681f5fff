"""What executions, journal and plans say of runs."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.domain.errors import InvalidInput
from functions.domain.lane import LAYOUT
from functions.domain.run import Counts
from functions.domain.window import Window
from tests.unit.tools.staged_runs import EXECUTIONS, ONE_PAGE, WINDOW, Staged, Tape, progress, summary, token, totals
from tools.runs.history import visits
from tools.runs.records import (
    PlanReader,
    UnknownRunError,
    counts_before,
    faults_of,
    find_run,
    follow,
    hour_of,
    last_closed_hour,
    of_hour,
    pages_of,
    reader_of,
    recent,
    running,
)

DETAIL = {
    "Error": "ConfigurationError",
    "Message": "PutObject: AccessDenied",
    "WindowStart": WINDOW.start_text,
    "Path": "paged",
    "Page": 3,
    "Totals": totals(2).to_state(),
}


def one_that_ended(staged: Staged, name: str = "first", pages: int = 2, **more: Any) -> str:
    """A run of some pages that came to its end; its id."""
    staged.execution(name, **more)
    run_id = staged.journal(name, outcome="Dispatched", detail=totals(pages).to_state())
    staged.executions[f"{EXECUTIONS}:{name}"]["output"] = json.dumps(summary("Dispatched", run_id, totals(pages)))
    for page in range(1, pages + 1):
        staged.plan(run_id, page, last=page == pages)
    return run_id


def test_a_run_that_came_to_its_end_is_told_by_its_output() -> None:
    staged = Staged()
    run_id = one_that_ended(staged)

    (record,) = recent(staged.application, 5)

    assert (record.run_id, record.window, record.path, record.page_size) == (run_id, WINDOW, "paged", 10)
    assert (record.outcome, record.totals, record.hour) == ("Dispatched", totals(2), "2026-09-17T15")
    assert record.ended_well
    assert not record.goes_on
    assert record.seconds(record.started) == 20


def test_a_failed_run_is_told_by_its_cause() -> None:
    staged = Staged()
    staged.execution("first", status="FAILED", error="ConfigurationError", detail=DETAIL)
    run_id = staged.journal("first", outcome="Failed", detail=DETAIL)

    (record,) = recent(staged.application, 5)

    assert (record.run_id, record.outcome, record.totals) == (run_id, "ConfigurationError", totals(2))
    assert record.detail["Message"] == "PutObject: AccessDenied"


def test_a_running_one_is_counted_by_its_plans() -> None:
    staged = Staged()
    staged.execution("first", status="RUNNING")
    run_id = staged.journal("first")
    staged.plan(run_id, 1)
    staged.plan(run_id, 2, finished=False)

    (record,) = recent(staged.application, 5)

    assert (record.outcome, record.totals, record.ended) == (None, ONE_PAGE, None)
    assert record.is_running


def test_a_running_dry_run_is_counted_by_its_newest_event() -> None:
    staged = Staged()
    arn = staged.execution("first", status="RUNNING", given={"DryRun": True, "ExecuteTime": WINDOW.end_text})
    run = {"Run": {"RunId": "run", "Path": "paged", "PageSize": 10}}
    tape = Tape().task("Plan run", None, progress(1), output=run)
    staged.histories[arn] = tape.task("Dispatch page", progress(1), progress(2)).events

    (record,) = recent(staged.application, 5)

    assert (record.run_id, record.path, record.totals, record.dry_run) == ("run", "paged", ONE_PAGE, True)


def test_an_execution_that_was_stopped_is_told_by_what_was_noted_for_it() -> None:
    staged = Staged()
    staged.execution("first", status="ABORTED")
    staged.journal("first", outcome="ABORTED", detail=DETAIL | {"Error": "ABORTED"})

    (record,) = recent(staged.application, 5)

    assert (record.outcome, record.totals, record.detail["Page"]) == ("ABORTED", totals(2), 3)


def test_what_was_not_noted_yet_is_counted_by_the_plans() -> None:
    staged = Staged()
    staged.execution("first", status="ABORTED")
    staged.plan(staged.journal("first"), 1)

    (record,) = recent(staged.application, 5)

    assert (record.outcome, record.totals) == ("ABORTED", ONE_PAGE)


def test_an_execution_that_found_another_at_work_has_no_run_of_its_own() -> None:
    staged = Staged()
    staged.execution("second", output=summary("AlreadyRunning", "the holder's", Counts()))

    (record,) = recent(staged.application, 5)

    assert (record.run_id, record.outcome, record.window) == (None, "AlreadyRunning", WINDOW)
    assert list(pages_of(staged.application, record)) == []


def test_a_refused_input_has_neither_run_nor_hour() -> None:
    staged = Staged()
    detail = {"Error": "InvalidInput", "Message": "Foo: unknown field"}
    staged.execution("first", status="FAILED", error="InvalidInput", detail=detail, given={"Foo": 1})

    (record,) = recent(staged.application, 5)

    assert (record.run_id, record.window, record.totals, record.outcome) == (None, None, None, "InvalidInput")


def test_an_execution_that_went_on_and_the_one_before_it_know_each_other() -> None:
    staged = Staged()
    staged.execution("first", status="FAILED", error="ConfigurationError", detail=DETAIL)
    staged.execution("second", given={"ExecuteTime": WINDOW.end_text, "Resume": True}, status="RUNNING", minutes=5)
    run_id = staged.journal("first", "first", "second")

    later, earlier = recent(staged.application, 5)

    assert (later.run_id, later.goes_on, later.resumes, later.gone_on_by) == (run_id, True, True, None)
    assert (earlier.run_id, earlier.goes_on, earlier.gone_on_by) == (run_id, False, "second")


def test_the_newest_come_first_and_no_more_than_asked_for() -> None:
    staged = Staged()
    for minutes, name in enumerate(("first", "second", "third")):
        one_that_ended(staged, name, minutes=minutes)

    assert [record.name for record in recent(staged.application, 2)] == ["third", "second"]


def test_those_that_run_are_found_among_all() -> None:
    staged = Staged()
    staged.execution("old", status="RUNNING")
    one_that_ended(staged, "new", minutes=9)

    assert [record.name for record in running(staged.application)] == ["old"]


def test_the_runs_of_an_hour_are_those_of_the_journal_and_the_newest_executions() -> None:
    staged = Staged()
    one_that_ended(staged, "long-ago")
    for minutes in range(1, 4):
        other = {"ExecuteTime": "2026-09-17T20:00:00Z", "DryRun": True}
        staged.execution(
            f"other-{minutes}", output=summary("DryRun", "x", ONE_PAGE) | _hour(19), given=other, minutes=minutes
        )
    staged.execution("a-dry-run", output=summary("DryRun", "y", ONE_PAGE), minutes=4)

    assert [record.name for record in of_hour(staged.application, WINDOW, 2)] == ["a-dry-run", "long-ago"]


def _hour(hour: int) -> dict[str, str]:
    return {"WindowStart": f"2026-09-17T{hour}:00:00Z", "WindowEnd": f"2026-09-17T{hour + 1}:00:00Z"}


@pytest.fixture
def known() -> Staged:
    """A run that failed and was gone on with, and a later dry run of another hour."""
    staged = Staged()
    staged.execution("4d1dd2ca-first", status="FAILED", error="ConfigurationError", detail=DETAIL)
    staged.execution("4d1dd2ca-second", status="RUNNING", minutes=5)
    staged.journal("4d1dd2ca-first", "4d1dd2ca-first", "4d1dd2ca-second")
    given = {"ExecuteTime": "2026-09-17T20:00:00Z", "DryRun": True}
    staged.execution("dry-run-of-19", output=summary("DryRun", "x", ONE_PAGE) | _hour(19), given=given, minutes=9)
    return staged


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("last", "dry-run-of-19"),
        ("2026-09-17T15", "4d1dd2ca-second"),
        ("2026-09-17T15:00:00Z", "4d1dd2ca-second"),
        ("2026-09-17T19", "dry-run-of-19"),
        ("20260917T160110Z-4d1dd2ca-first", "4d1dd2ca-second"),
        ("4d1dd2ca-first", "4d1dd2ca-first"),
        ("4d1dd2ca-f", "4d1dd2ca-first"),
        (f"{EXECUTIONS}:4d1dd2ca-first", "4d1dd2ca-first"),
    ],
)
def test_a_run_is_found_by(known: Staged, name: str, found: str) -> None:
    assert find_run(known.application, name).name == found


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("4d1dd2ca", "the names of 2 executions begin with 4d1dd2ca"),
        ("4d1d", "no run or execution 4d1d is known"),
        ("2026-09-17T03", "no run of the hour from 2026-09-17T03:00:00Z is known"),
        (f"{EXECUTIONS}:none", "no run or execution"),
    ],
)
def test_a_name_of_no_run_or_of_several_is_refused(known: Staged, name: str, why: str) -> None:
    with pytest.raises(UnknownRunError, match=f"^{why}"):
        find_run(known.application, name)


def test_nothing_is_the_last_run_before_the_first() -> None:
    with pytest.raises(UnknownRunError, match=r"^nothing has run yet"):
        find_run(Staged().application, "last")


@pytest.mark.parametrize("text", ["2026-09-17T15", "2026-09-17T15Z", "2026-09-17T15:00", "2026-09-17T15:00:00Z"])
def test_an_hour_may_be_written_short_or_whole(text: str) -> None:
    assert hour_of(text) == WINDOW


@pytest.mark.parametrize("text", ["2026-09-17", "2026-09-17T25", "2026-02-30T10", "2026-09-17T15:30", "", "last"])
def test_what_is_no_hour_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^--hour: '.*': expected an hour in UTC"):
        hour_of(text, "--hour")


def test_the_last_closed_hour_is_the_one_before_that_of_now() -> None:
    assert last_closed_hour(datetime(2026, 9, 17, 16, 0, 0, tzinfo=UTC)) == WINDOW
    assert last_closed_hour(datetime(2026, 9, 17, 16, 59, 59, tzinfo=UTC)) == WINDOW


def test_pages_are_told_by_their_plans_with_times_and_attempts_of_the_history() -> None:
    staged = Staged()
    one_that_ended(staged, pages=2)
    throttled = [("TransientError", "Query: throttled")] * 2
    tape = Tape().task("Dispatch page", progress(1), progress(2), errors=throttled)
    staged.histories[f"{EXECUTIONS}:first"] = tape.task("Dispatch page", progress(2), progress(3, more=False)).events
    record = find_run(staged.application, "last")

    first, second = pages_of(staged.application, record)

    assert (first.page, first.token, first.counts, first.attempts, first.seconds) == (1, None, ONE_PAGE, 3, 7)
    assert (second.page, second.token, second.attempts, second.seconds) == (2, token("R2"), 1, 3)
    assert [(fault.page, fault.attempt, fault.message) for fault in faults_of(staged.application, record)] == [
        (1, 1, "Query: throttled"),
        (1, 2, "Query: throttled"),
    ]


def test_a_page_that_an_earlier_execution_did_has_no_time_and_still_its_token() -> None:
    staged = Staged()
    staged.execution("first", status="FAILED", error="ConfigurationError", detail=DETAIL)
    arn = staged.execution("second", status="RUNNING", minutes=5)
    run_id = staged.journal("first", "first", "second")
    for page in (1, 2, 3):
        staged.plan(run_id, page)
    staged.histories[arn] = Tape().task("Dispatch page", progress(3), progress(4)).events

    pages = list(pages_of(staged.application, find_run(staged.application, run_id)))

    assert [(page.seconds, page.attempts) for page in pages] == [(None, 0), (None, 0), (3, 1)]
    assert [page.token for page in pages] == [None, token("R2"), token("R3")]


def test_a_page_that_was_done_after_a_redrive_has_the_attempts_of_both_stays() -> None:
    staged = Staged()
    one_that_ended(staged, pages=1)
    tape = Tape().task("Dispatch page", progress(1), errors=[("ConfigurationError", "denied")])
    tape.task("Report failure", None, errors=[("ConfigurationError", "denied")])
    staged.histories[f"{EXECUTIONS}:first"] = tape.task("Dispatch page", progress(1), progress(2, more=False)).events

    (page,) = pages_of(staged.application, find_run(staged.application, "last"))

    assert page.attempts == 2


def test_the_report_of_a_failure_is_no_fault_of_its_own() -> None:
    staged = Staged()
    arn = staged.execution("first", status="FAILED", error="ConfigurationError", detail=DETAIL)
    tape = Tape().task("Dispatch page", progress(3), errors=[("ConfigurationError", "denied")])
    errors = [("Lambda.ServiceException", "busy"), ("ConfigurationError", "denied")]
    staged.histories[arn] = tape.task("Report failure", None, errors=errors).events

    faults = list(faults_of(staged.application, find_run(staged.application, "last")))

    assert [(fault.step, fault.error) for fault in faults] == [
        ("Dispatch page", "ConfigurationError"),
        ("Report failure", "Lambda.ServiceException"),
    ]


def test_the_pages_of_lanes_are_told_by_the_executions_that_were_laid_out() -> None:
    staged = Staged()
    arn = staged.execution("first", status="RUNNING")
    run_id = staged.journal("first")
    for lane in (0, 1):
        staged.plan(run_id, 1, lane=lane, last=True)
    staged.plan(run_id, 1, lane=LAYOUT, last=True)
    laid_out = {"Layout": {"Lanes": [{"Name": f"lane-{lane}", "Progress": progress(1, lane)} for lane in (0, 1, 2)]}}
    tape = Tape().task("Lay out lanes", None, progress(1), output=laid_out).lane()
    staged.histories[arn] = tape.task("Summarize run", None, progress(2, more=False)).events
    for lane in (0, 1):
        errors = [("TransientError", "busy")] * lane
        tape = Tape().task("Stage page", progress(1, lane), progress(2, lane, more=False), errors=errors)
        staged.histories[f"arn:aws:states:eu-west-1:123456789012:execution:lane:lane-{lane}"] = tape.events

    record = find_run(staged.application, "last")

    assert [(page.lane, page.page, page.attempts) for page in pages_of(staged.application, record)] == [
        (0, 1, 1),
        (1, 1, 2),
    ]
    assert [(fault.lane, fault.page) for fault in faults_of(staged.application, record)] == [(1, 1)]


def test_a_history_is_told_step_by_step_without_the_lanes_that_are_waited_for() -> None:
    staged = Staged()
    arn = staged.execution("first", status="RUNNING")
    tape = Tape().task("Plan run", None, progress(1)).task("Lay out lanes", None, progress(1)).lane().lane()
    staged.histories[arn] = tape.task("Lay out lanes", progress(1)).events

    steps = list(visits(staged.application, arn))

    assert [step.state for step in steps] == ["Plan run", "Lay out lanes", "Lay out lanes"]
    assert [step.seconds for step in steps] == [3, 3, None]
    assert not any(step.faults for step in steps)


def test_the_pages_of_a_dry_run_are_told_by_its_history_alone() -> None:
    staged = Staged()
    arn = staged.execution("first", given={"DryRun": True}, output=summary("DryRun", "run", totals(2)))
    tape = Tape().task("Dispatch page", progress(1), progress(2))
    staged.histories[arn] = tape.task("Dispatch page", progress(2), progress(3, more=False)).events

    pages = list(pages_of(staged.application, find_run(staged.application, "last")))

    assert [(page.page, page.counts, page.finished) for page in pages] == [(1, ONE_PAGE, True), (2, ONE_PAGE, True)]


def reader(staged: Staged, run_id: str) -> PlanReader:
    staged.execution("first", status="RUNNING")
    assert staged.journal("first") == run_id
    found = reader_of(staged.application, recent(staged.application, 1)[0])
    assert found is not None
    staged.rows_read = 0
    return found


RUN_ID = "20260917T160110Z-first"


def test_a_finished_plan_is_read_once() -> None:
    staged = Staged()
    plans = reader(staged, RUN_ID)
    for page in range(1, 101):
        staged.plan(RUN_ID, page)

    assert plans.read() == totals(100)
    assert staged.rows_read == 100
    staged.plan(RUN_ID, 101, finished=False)
    assert plans.read() == totals(100)
    staged.plan(RUN_ID, 101)
    assert plans.read() == totals(101)
    assert plans.read() == totals(101)
    assert staged.rows_read == 102


def test_a_lane_that_begins_behind_a_later_one_is_not_missed() -> None:
    staged = Staged()
    plans = reader(staged, RUN_ID)
    staged.plan(RUN_ID, 1, lane=2)
    assert plans.read() == totals(1)
    staged.plan(RUN_ID, 1, lane=0, last=True)
    staged.plan(RUN_ID, 2, lane=2, last=True)
    assert plans.read() == totals(3)
    staged.plan(RUN_ID, 1, lane=1, last=True)
    staged.plan(RUN_ID, 1, lane=LAYOUT, counts=Counts())
    staged.plan(RUN_ID, 1, lane=2000, last=True)

    assert plans.read() == totals(5)
    assert plans.read() == totals(5)
    assert staged.rows_read == 6


def test_a_run_is_followed_to_its_end_and_its_failure_is_told_as_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    staged = Staged()
    arn = staged.execution("first", status="RUNNING")
    run_id = staged.journal("first")
    seen: list[int] = []

    def goes_on(_seconds: float) -> None:
        staged.plan(run_id, len(seen))
        if len(seen) == 3:
            staged.execution("first", status="FAILED", error="ConfigurationError", detail=DETAIL)

    monkeypatch.setattr("tools.application.time.sleep", goes_on)

    record = follow(staged.application, arn, lambda _, done: seen.append(done.pages))

    assert seen == [0, 1, 2, 3]
    assert (record.outcome, record.totals) == ("ConfigurationError", totals(2))


@pytest.mark.parametrize(("cost", "pause"), [(0.001, 0.25), (2.0, 8.0), (60.0, 30.0)])
def test_the_more_it_takes_to_ask_the_longer_is_the_pause(
    monkeypatch: pytest.MonkeyPatch, cost: float, pause: float
) -> None:
    staged = Staged()
    arn = staged.execution("first", status="RUNNING")
    clock, pauses = [0.0], list[float]()

    def ends(seconds: float) -> None:
        pauses.append(seconds)
        staged.execution("first", status="SUCCEEDED", output={})

    monkeypatch.setattr("tools.application.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("tools.application.time.sleep", ends)

    staged.application.output(arn, lambda: clock.append(clock.pop() + cost))

    assert pauses == [pytest.approx(pause)]


def test_what_an_hour_holds_is_known_from_the_last_run_that_came_to_its_end() -> None:
    staged = Staged()
    assert counts_before(staged.application, WINDOW) is None
    one_that_ended(staged, "first", pages=3)
    staged.execution("second", status="FAILED", error="ConfigurationError", detail=DETAIL, minutes=3)
    staged.journal("second", outcome="Failed", detail=DETAIL)

    assert counts_before(staged.application, WINDOW) == totals(3)
    assert counts_before(staged.application, Window.starting("2026-09-17T14:00:00Z")) is None
