"""Runs that were cut off: killed, stopped, switched off, failed.  Each says where it stopped, and Resume goes on."""

import json
import os
import re
import signal
import subprocess
from typing import Any, NamedTuple

import pytest

from tests.deployed.application import (
    NOWHERE,
    Application,
    Day,
    OnCall,
    assert_done,
    everywhere,
    forbid_uploads_of,
    starts,
)
from tests.deployed.wire import Call, Fault, wait_until
from tools.workspace import Workspace

PAGES_OF_TWO = {"PageSize": 2}


def resume(application: Application, day: Day) -> tuple[dict[str, Any], list[str | None]]:
    """Go on with an hour's last run: its summary, and where it read the index from."""
    with application.wire.recording() as calls:
        execution = day.run(8, Resume=True)
    return execution.output, starts(application, calls)


def kill(workspace: Workspace, function_name: str) -> None:
    """End the processes of a function, as if their memory had run out."""
    listed = subprocess.run(["ps", "axww", "-o", "pid=,args="], capture_output=True, text=True, check=True, timeout=30)  # noqa: S607 - the system's own
    mark = re.compile(
        rf"\s*(\d+) .*{re.escape(str(workspace.emulator))}.*/ministack-lambda-{re.escape(function_name)}-"
    )
    found = [int(line[1]) for line in map(mark.match, listed.stdout.splitlines()) if line]
    assert found
    for process_id in found:
        os.kill(process_id, signal.SIGKILL)


class Death(NamedTuple):
    """Of the function that works on `R3`: at which of its calls, what becomes of that, and what is read afterwards."""

    operation: str
    fault: Fault
    reads: list[str]


@pytest.mark.parametrize(
    "death",
    [
        Death("PutObject", Fault.REQUEST_LOST, ["R2", "R4"]),
        Death("SendMessageBatch", Fault.REQUEST_LOST, ["R4"]),
        Death("SendMessageBatch", Fault.ANSWER_LOST, ["R4"]),
    ],
    ids=["before an upload", "before a send", "after a send"],
)
def test_a_function_that_is_killed_within_a_page_fails_the_run_and_resume_goes_on_with_that_page(
    application: Application, workspace: Workspace, day: Day, death: Death
) -> None:
    records = day.book_members(5)

    def kill_at_r3(call: Call) -> Fault | None:
        if call.operation != death.operation or "member-3" not in str(call.request):
            return None
        kill(workspace, application.function_names["dispatch_page"])
        return death.fault

    with application.wire.reacting(kill_at_r3):
        failed = day.run(8, **PAGES_OF_TWO)

    assert (failed.status, failed.error, failed.report["Error"]) == ("FAILED", "DispatchFailed", "Runtime.ExitError")
    assert failed.report["Page"] == 2
    assert ("R3" in day.effects(8).on_queues) == (death.fault is Fault.ANSWER_LOST)
    output, read_from = resume(application, day)
    assert read_from == death.reads
    assert output["RunId"] == failed.report["RunId"]
    assert_done(day, output, records)


def test_an_execution_that_is_stopped_within_a_page_is_noted_its_hour_is_free_and_resume_completes_it(
    application: Application, day: Day, on_call: OnCall
) -> None:
    records = day.book_members(5)
    second_page: list[Call] = []

    def hold_the_second_page(call: Call) -> Fault | None:
        if call.operation == "PutObject" and "member-3" in str(call.request):
            second_page.append(call)
            wait_until(lambda: on_call(execution))
        return None

    with application.wire.recording() as calls, application.wire.reacting(hold_the_second_page):
        execution = day.start(8, **PAGES_OF_TWO)
        assert wait_until(lambda: second_page)
        application.client("stepfunctions").stop_execution(executionArn=execution)
        assert wait_until(lambda: on_call(execution))
        assert not {f"edge#{day.window(8)}", f"edge#{day.window(9)}"} & application.ledger_partitions()
        # The function runs on until it comes to its plan, which needs the lease.
        assert wait_until(lambda: [call for call in calls if refused_plan(call)])

    assert application.end(execution).status == "ABORTED"
    (message,) = on_call(execution)
    assert message["Subject"] == f"Bookings of {day.window(8)} not dispatched: ABORTED"
    assert {"Failed at:  page 2", "Dispatched before that page: 2 tasks with 2 records."} < set(lines_of(message))
    assert day.effects(8).on_queues == ["R1", "R2"]
    output, read_from = resume(application, day)
    assert read_from == ["R2", "R4"]
    assert_done(day, output, records)


def lines_of(message: dict[str, str]) -> list[str]:
    return message["Message"].splitlines()


def refused_plan(call: Call) -> bool:
    """Whether a call wrote the plan of a second page."""
    return call.answered.is_set() and "row#0000#000002" in str(call.request.get("TransactItems"))


def test_the_kill_switch_stops_a_run_before_its_next_page_and_resume_goes_on(
    application: Application, day: Day
) -> None:
    records = day.book_members(5)

    def switch_within_the_second_page(call: Call) -> Fault | None:
        if call.operation == "PutObject" and "member-3" in str(call.request):
            application.set_parameter("StopParameter", "true")
        return None

    with application.parameter("StopParameter", "false"):
        with application.wire.recording() as calls, application.wire.reacting(switch_within_the_second_page):
            stopped = day.run(8, **PAGES_OF_TWO)
        still_off = day.run(8, Resume=True).output
    output, read_from = resume(application, day)

    assert stopped.status == "SUCCEEDED"
    assert stopped.output.items() >= {"Outcome": "Stopped", "Page": 3, "Pages": 2, "Dispatched": 4, "Tasks": 4}.items()
    assert stopped.output["Token"]["RecordId"] == {"S": f"R4@{day.date}"}
    assert starts(application, calls) == [None, "R2"]
    assert still_off.items() >= {"Outcome": "Stopped", "Page": 3, "Dispatched": 4}.items()
    assert read_from == ["R4"]
    assert output["RunId"] == stopped.output["RunId"]
    assert_done(day, output, records)


@pytest.mark.parametrize("path", [{}, {"PaginationEnabled": False}], ids=["paged", "full"])
def test_with_the_kill_switch_on_a_run_reads_nothing(application: Application, day: Day, path: dict[str, bool]) -> None:
    records = day.book_members(1)
    with application.parameter("StopParameter", "true"), application.wire.recording() as calls:
        stopped = day.run(8, **path).output

    assert stopped.items() >= {"Outcome": "Stopped", "Page": 1, "Token": None, "Pages": 0}.items()
    assert starts(application, calls) == []
    assert day.effects(8) == NOWHERE
    output, _ = resume(application, day)
    assert_done(day, output, records)


def test_a_run_that_failed_at_its_third_page_of_five_goes_on_there_and_reads_the_pages_before_it_no_more(
    application: Application, day: Day
) -> None:
    records = day.book_members(9)
    with application.wire.reacting(forbid_uploads_of("5")):
        failed = day.run(8, **PAGES_OF_TWO)
    plans = application.plans(day.window(8))
    with application.wire.recording() as calls:
        output = day.run(8, Resume=True).output

    assert (failed.error, failed.report["Page"], [plan.page for plan in plans]) == ("ConfigurationError", 3, [1, 2])
    assert starts(application, calls) == ["R4", "R6", "R8"]
    touched = [call for call in calls if call.function == "dispatch_page"]
    assert not [call for call in touched if re.search("R[1-4]@", str(call.request)) and not is_start(call)]
    assert application.plans(day.window(8))[:2] == plans
    assert output.items() >= {"RunId": failed.report["RunId"], "Pages": 5, "Tasks": 9}.items()
    assert_done(day, output, records)


def is_start(call: Call) -> bool:
    """Whether a call names a record as the place to read from."""
    return "ExclusiveStartKey" in call.request


def test_a_failed_run_tells_a_person_what_was_dispatched_and_how_to_go_on(
    application: Application, day: Day, on_call: OnCall
) -> None:
    records = day.book_members(3)
    with application.wire.reacting(forbid_uploads_of("3")):
        failed = day.run(8, **PAGES_OF_TWO)

    (message,) = on_call(failed.arn)
    assert message["Subject"] == f"Bookings of {day.window(8)} not dispatched: ConfigurationError"
    lines = lines_of(message)
    assert lines[:5] == [
        f"Window:     {day.window(8)} to {day.window(9)}",
        f"Run:        {failed.report['RunId']}",
        f"Execution:  {failed.arn}",
        "Failed at:  page 2",
        f"Error:      ConfigurationError: {failed.report['Message']}",
    ]
    assert "Dispatched before that page: 2 tasks with 2 records." in lines
    assert (failed.report["Page"], failed.report["NotDone"]) == (2, [])
    (how_to_go_on,) = re.findall(r"with the input (\{.*\})\.", message["Message"])
    assert_done(day, application.run(json.loads(how_to_go_on)).output, records)


def test_of_two_neighbouring_windows_at_once_the_second_waits_and_then_completes_and_the_edge_is_dispatched_once(
    application: Application, day: Day
) -> None:
    for name, time_of_day in (("before", "08:30:00Z"), ("sharp", "09:00:00Z"), ("after", "09:30:00Z")):
        day.book(name, time_of_day)
    reading: list[Call] = []

    def hold_the_first(call: Call) -> Fault | None:
        if application.is_query_of_bookings(call) and not reading:
            reading.append(call)
            wait_until(lambda: second and application.errors(second[0]))
        return None

    second: list[str] = []
    with application.wire.reacting(hold_the_first):
        first = day.start(8)
        assert wait_until(lambda: reading)
        second.append(day.start(9))
        outputs = [application.end(execution).output for execution in (first, *second)]

    assert application.errors(second[0]) == ["WindowBusy"]
    assert outputs[0].items() >= {"Waiting": 2, "Dispatched": 2, "AlreadyDispatched": 0, "Tasks": 1}.items()
    assert outputs[1].items() >= {"Waiting": 2, "Dispatched": 1, "AlreadyDispatched": 1, "Tasks": 1}.items()
    assert day.effects(8) == everywhere("before", "sharp")
    assert day.effects(9) == everywhere("after")
