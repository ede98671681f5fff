"""`dispatchctl cost`: a forecast or a run in dollars, on a screen or as JSON, and what it refuses."""

import json
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import Any

import pytest
from typer.testing import CliRunner

from functions.domain.errors import InvalidInput
from functions.domain.run import Counts
from functions.domain.task import Extent
from functions.domain.window import Window
from tests.staged_reports import plan_of
from tools.application import Application
from tools.cost.prices import LISTED
from tools.deployment import Deployment
from tools.dispatchctl import cost as command
from tools.dispatchctl.shell import CommandError, ExitCode, app
from tools.runs.records import RunRecord

ROOT = FilePath(__file__).resolve().parents[3]
NO_REGION = {"AWS_REGION": None, "COLUMNS": None}
DISPATCHED = RunRecord(
    execution="arn:aws:states:us-east-1:111122223333:execution:Dispatch:first",
    status="SUCCEEDED",
    started=datetime(2026, 9, 17, 16, 1, 10, tzinfo=UTC),
    ended=datetime(2026, 9, 17, 16, 1, 40, tzinfo=UTC),
    run_id="20260917T160110Z-first",
    window=Window.starting("2026-09-17T15:00:00Z"),
    path="paged",
    page_size=1000,
    outcome="Dispatched",
    totals=Counts(pages=11, evaluated=10_000, waiting=9_000, dispatched=9_000, groups=2_500, tasks=3_000),
    detail={},
    redrives=0,
)


def call(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["cost", *arguments], env=NO_REGION)


def said(*arguments: str) -> str:
    result = call(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return str(result.output)


def found(*arguments: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(said(*arguments, "--json"))
    return data


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    application = Application(Deployment("http://127.0.0.1:1", "us-east-1", {}))
    monkeypatch.setattr(command, "application_of", lambda _: application)
    runs = {"last": DISPATCHED}
    monkeypatch.setattr(command, "find_run", lambda _, name: runs[name])
    monkeypatch.setattr("tools.runs.records.plans_of", lambda *_: iter(()))
    return DISPATCHED


def test_a_forecast_shows_each_path_with_its_services_a_total_and_what_would_save_most() -> None:
    screen = said("--bookings", "100000", "--spread", "2")

    for path in ("Full", "Paged", "Grouped"):
        assert f"{path}, task data as an object for each task" in screen
    assert screen.count("S3 requests") == screen.count("Together") == screen.count("for a million bookings") == 3
    assert "100,000 bookings an hour, 101 pages of at most 1,000, 40,000 tasks of 2.5" in screen
    paged = screen.partition("Paged, task data")[2]
    assert paged.index("grouping by window") < paged.index("larger pages")
    assert "List prices of us-east-1; looked up 2026-11-30; assumed: dynamodb_backup, alarm." in screen


def test_an_hour_that_the_full_path_cannot_hold_has_no_price_there() -> None:
    full = said("--bookings", "5000000").partition("Paged, task data")[0]

    assert "DOES NOT FIT" in full
    assert "about 600,000 bookings" in full
    assert "Together" not in full


def test_the_screen_says_what_it_would_cost_to_start_something_for_each_booking() -> None:
    ways = found("--bookings", "1000000")["PerRecord"]

    assert [round(way["DollarsAnHour"], 2) for way in ways] == [50, 25.87]
    assert "a Standard child execution for each booking" in said("--bookings", "1000000")


def test_no_line_of_the_screen_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.dispatchctl.shell.PIPED_WIDTH", 100)

    screen = said("--bookings", "1000000000")
    assert max(map(len, screen.splitlines())) <= 100
    assert "…" not in screen


def test_the_services_the_lines_and_the_total_agree() -> None:
    for bill in found("--bookings", "1000000")["Bills"]:
        assert sum(each["DollarsAnHour"] for each in bill["Services"]) == pytest.approx(bill["DollarsAnHour"])
        assert sum(each["DollarsAMonth"] for each in bill["Lines"]) == pytest.approx(bill["DollarsAMonth"])
        assert bill["DollarsPerMillion"] == pytest.approx(bill["DollarsAnHour"])
        assert bill["DollarsAMonth"] == pytest.approx(730 * bill["DollarsAnHour"])


def test_a_run_is_priced_by_its_own_counts(record: RunRecord) -> None:
    data = found("last")

    (bill,) = data["Bills"]
    assert record.totals is not None
    assert (bill["Path"], bill["Pages"], bill["Tasks"]) == ("paged", record.totals.pages, record.totals.tasks)
    assert (bill["Bookings"], bill["Dispatched"]) == (record.totals.evaluated, record.totals.dispatched)
    assert data["Run"]["RunId"] == record.run_id
    assert not [one for one in bill["Savings"] if "grouping" in one["Setting"]]
    screen = said("last")
    assert "11 pages of at most 1,000, 3,000 tasks of 3.0" in screen
    assert "How many groups the hour has is not in a run's counts" in screen


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"dry_run": True, "outcome": "DryRun"}, "It was a dry run"),
        ({"status": "RUNNING", "ended": None, "outcome": None}, "It still runs"),
        (
            {"totals": Counts(pages=2, evaluated=2, waiting=2, already_dispatched=2)},
            "Some was dispatched before",
        ),
    ],
    ids=["dry run", "still running", "dispatched before"],
)
def test_what_is_special_about_a_run_is_said(
    changes: dict[str, Any], told: str, record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "find_run", lambda *_: replace(record, **changes))

    assert told in said("last")


@pytest.mark.parametrize(
    ("given", "told"),
    [([], "packed"), (["--layout", "object"], "object")],
    ids=["of the run itself", "given"],
)
@pytest.mark.usefixtures("record")
def test_a_runs_task_data_is_priced_as_its_plans_lay_it_out(
    given: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found("last")["Bills"][0]["Layout"] == "object"
    empty, plan, extent = plan_of(1, ()), plan_of(2, (3, 4)), Extent("tasks/pack", 0, 9, "0" * 64)
    packed = replace(plan, tasks=tuple(replace(task, extent=extent) for task in plan.tasks))
    monkeypatch.setattr("tools.runs.records.plans_of", lambda *_: iter([empty, packed]))

    assert found("last", *given)["Bills"][0]["Layout"] == told


def test_a_run_that_read_nothing_has_no_cost(record: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_run", lambda *_: replace(record, totals=None))

    error = call("last").exception
    assert isinstance(error, CommandError)
    assert (str(error), error.code) == ("first read nothing, so there is nothing to count", ExitCode.NOT_FOUND)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--bookings", "0"], "--bookings"),
        (["--bookings", "-5"], "--bookings"),
        (["--bookings", "many"], "--bookings"),
        (["--bookings", "10", "--group-size", "0.5"], "--group-size"),
        (["--bookings", "10", "--spread", "0"], "--spread"),
        (["--bookings", "10", "--page-size", "10001"], "--page-size"),
        (["--bookings", "10", "--record-bytes", "-1"], "--record-bytes"),
        (["--bookings", "10", "--hours-per-month", "745"], "--hours-per-month"),
        (["--bookings", "10", "--hours-per-month", "nan"], "--hours-per-month"),
        (["--bookings", "10", "--task-days", "0"], "--task-days"),
    ],
    ids=["zero", "negative", "no number", "part of a group", "no page", "page", "record", "month", "nan", "days"],
)
def test_bad_input_is_refused_by_its_field(arguments: list[str], field: str) -> None:
    result = call(*arguments)

    assert result.exit_code == ExitCode.USAGE
    assert field in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a RUN or --bookings"),
        (["last", "--bookings", "10"], "give either a RUN or --bookings"),
        (["--bookings", "10", "--spread", "6"], "--spread: 6 pages are more than a group of 5 can lie on"),
        (["--bookings", "10", "--prices", "nowhere.json"], "--prices: nowhere.json: No such file or directory"),
    ],
    ids=["neither", "both", "spread too far", "no list"],
)
def test_what_no_single_option_can_see_is_refused_as_input(arguments: list[str], message: str) -> None:
    error = call(*arguments).exception

    assert isinstance(error, InvalidInput)
    assert message in str(error)


def test_another_price_list_is_the_one_that_counts(tmp_path: FilePath) -> None:
    listed = json.loads(LISTED.read_text())
    listed["prices"]["s3_write"]["dollars"] *= 10
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(listed))

    (usual, *_), (dearer, *_) = (
        found("--bookings", "1000", *extra)["Bills"] for extra in ([], ["--prices", str(path)])
    )
    difference = dearer["DollarsAnHour"] - usual["DollarsAnHour"]
    writes = next(line["Quantity"] for line in usual["Lines"] if line["Price"] == "s3_write")
    assert difference == pytest.approx(9 * writes * 0.005 / 1000)


def test_a_region_says_how_many_prices_are_its_own() -> None:
    result = CliRunner().invoke(app, ["--region", "eu-west-3", "cost", "--bookings", "1000"], env=NO_REGION)

    assert "List prices of us-east-1, 1 of 18 replaced by those of eu-west-3" in result.output


def test_every_command_of_the_document_does_what_it_says(record: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_run", lambda *_: record)
    document = (ROOT / "docs" / "cost.md").read_text("utf-8")
    commands = [shlex.split(line, comments=True) for line in document.splitlines() if line.startswith("dispatchctl ")]

    assert len(commands) == 5
    for program, name, *arguments in commands:
        assert (program, name) == ("dispatchctl", "cost")
        assert said(*arguments)


def test_the_tables_of_the_document_are_what_the_command_and_the_price_list_say() -> None:
    document = (ROOT / "docs" / "cost.md").read_text("utf-8")
    lines = [each for each in document.splitlines() if each.startswith("dispatchctl cost --bookings 10000 ")]
    tables = [
        [each.strip() for each in said(*line.split()[2:]).splitlines() if each.strip().startswith("|")]
        for line in lines
    ]

    assert [len(table) for table in tables] == [2 + 5 * 3] * 2
    assert all("\n".join(table) in document for table in tables)
    for name, price in json.loads(LISTED.read_text())["prices"].items():
        assumed = "" if price["status"] == "confirmed" else ", assumed"
        assert (
            f"| `{name}` | {price['dollars']:.10g} | {price['for']:,} | {price['unit']} |"
            f" [{price['as_of'] or 'undated'}]({price['source']}){assumed} |"
        ) in document
