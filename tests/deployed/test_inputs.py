"""What starts a run, and what is refused."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.deployed.application import Application, Day, everywhere

TIMES = {
    "2026-09-17T16:01:10.6854808+08:00": "2026-09-17T07:00:00Z",
    "2026-09-17T16:01:10Z": "2026-09-17T15:00:00Z",
    "2026-09-17T16:01:10.123456789z": "2026-09-17T15:00:00Z",
    "2026-09-17T00:20:00+08:00": "2026-09-16T15:00:00Z",
    "2026-09-17T08:05:00.0000001+08:00": "2026-09-16T23:00:00Z",
    "2026-09-16T21:31:00-03:30": "2026-09-17T00:00:00Z",
    "2028-03-01T00:30:00Z": "2028-02-29T23:00:00Z",
    "2027-01-01T08:00:00.0+08:00": "2026-12-31T23:00:00Z",
}

REFUSED: dict[str, tuple[Any, str]] = {
    "no offset": ({"ExecuteTime": "2026-09-17T16:01:10.6854808"}, "ExecuteTime: "),
    "an epoch": ({"ExecuteTime": "1789632070"}, "ExecuteTime: "),
    "a number": ({"ExecuteTime": 1789632070}, "ExecuteTime: "),
    "a .NET date": ({"ExecuteTime": "/Date(1789632070685)/"}, "ExecuteTime: "),
    "a date alone": ({"ExecuteTime": "2026-09-17"}, "ExecuteTime: "),
    "24:00": ({"ExecuteTime": "2026-09-17T24:00:00Z"}, "ExecuteTime: "),
    "both": (
        {"ExecuteTime": "2026-09-17T16:01:10Z", "Data": '{"ExecuteTime":"2026-09-17T16:01:10Z"}'},
        "ExecuteTime: ",
    ),
    "another spelling": ({"executeTime": "2026-09-17T16:01:10Z"}, "executeTime: unknown field"),
    "empty data": ({"Data": ""}, "Data: "),
    "data without the time": ({"Data": "{}"}, "Data.ExecuteTime: missing"),
    "data as an object": ({"Data": {"ExecuteTime": "2026-09-17T16:01:10Z"}}, "Data: "),
    "no object": ([], "input: expected an object"),
    "page size 0": ({"PageSize": 0}, "PageSize: "),
    "page size as text": ({"PageSize": "10"}, "PageSize: "),
    "page size too large": ({"PageSize": 10_001}, "PageSize: "),
}


def test_a_time_at_any_offset_stands_for_the_utc_hour_before_it_and_a_dry_run_changes_nothing(
    application: Application,
) -> None:
    before = application.ledger_partitions()
    with application.wire.recording() as calls:
        outputs = {text: application.run({"ExecuteTime": text, "DryRun": True}).output for text in TIMES}

    assert {text: output["WindowStart"] for text, output in outputs.items()} == TIMES
    assert {output["Outcome"] for output in outputs.values()} == {"DryRun"}
    assert {call.operation for call in calls} == {"GetParameters", "Query"}
    assert application.ledger_partitions() == before


def test_an_execution_by_hand_without_input_runs_the_hour_before_its_start(application: Application) -> None:
    now = datetime.now(UTC)
    for hours in (-1, 0):  # the clock may strike meanwhile
        hour = now + timedelta(hours=hours)
        day = Day(application, hour.date())
        day.book(f"hand{hours}", f"{hour:%H}:30:00Z", f"of-{hour:%H}")

    execution = application.run({})

    end = execution.started.replace(minute=0, second=0, microsecond=0)
    assert execution.output.items() >= {"WindowEnd": f"{end:%Y-%m-%dT%H}:00:00Z", "Dispatched": 1, "Tasks": 1}.items()
    start = end - timedelta(hours=1)
    (task,) = application.tasks(execution.output["WindowStart"])
    assert task.data["MemberId"] == f"member-of-{start:%H}"


def test_the_platforms_task_data_runs_its_hour(application: Application, day: Day) -> None:
    day.book("R1", "07:30:00Z")
    data = {"ExecuteTime": f"{day.date}T16:01:10.6854808+08:00", "TraceId": "the sender's own"}

    output = application.run({"Data": json.dumps(data)}).output

    assert output.items() >= {"WindowStart": day.window(7), "Dispatched": 1, "Tasks": 1}.items()
    assert day.effects(7) == everywhere("R1")


def test_the_schedules_input_runs_the_hour_before_the_scheduled_time(application: Application, day: Day) -> None:
    day.book("R1", "07:30:00Z")
    schedule = application.client("scheduler").get_schedule(Name=application.outputs["ScheduleName"])
    target = schedule["Target"]
    scheduled = target["Input"].replace("<aws.scheduler.scheduled-time>", f"{day.date}T08:01:00Z")

    output = application.run(json.loads(scheduled)).output

    assert target["Arn"] == application.outputs["DispatchStateMachineArn"]
    assert scheduled != target["Input"]
    assert output.items() >= {"WindowStart": day.window(7), "Dispatched": 1, "Tasks": 1}.items()
    assert day.effects(7) == everywhere("R1")


@pytest.mark.parametrize(("run_input", "message"), REFUSED.values(), ids=REFUSED)
def test_an_input_outside_the_contract_is_refused_by_the_fields_name_and_nothing_is_touched(
    application: Application, run_input: Any, message: str
) -> None:
    with application.wire.recording() as calls:
        execution = application.run(run_input)

    assert (execution.status, execution.error) == ("FAILED", "InvalidInput")
    assert execution.report["Error"] == "InvalidInput"
    assert execution.report["Message"].startswith(message)
    assert [(call.function, call.operation) for call in calls] == [("report_failure", "Publish")]
