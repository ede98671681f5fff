"""`dispatchctl report` of real runs: what its page says is what the run did."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from typer.testing import CliRunner, Result

from tests.deployed.application import Application, Day, forbid_uploads_of
from tools.dispatchctl import report as _report  # noqa: F401 -- its import adds its commands
from tools.dispatchctl.shell import app
from tools.runs.records import UnknownRunError
from tools.workspace import Workspace

Report: TypeAlias = Callable[..., Result]


@pytest.fixture
def report(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.setenv("DISPATCHER_STATE_DIR", str(workspace.directory))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["report", *arguments], env={"AWS_REGION": None})

    return run


@pytest.fixture
def day(application: Application) -> Day:
    """Seven bookings of six members on a day that is over, one of them bad data."""
    day = application.past_day()
    day.book_members(6)
    day.book("BAD", "08:30:00Z", "", OrderTime="soon")
    return day


def numbers(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, (result.output, result.exception)
    told: dict[str, Any] = json.loads(result.output)
    return told


def test_a_report_tells_what_the_run_did(
    day: Day, report: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    execution = day.run(8, PageSize=3)
    assert day.application.run(day.input(8), "Compare").status == "SUCCEEDED"
    reconciled = day.reconcile(8)

    written = report(execution.arn)
    told = numbers(report(execution.output["RunId"], "--json"))

    assert written.exit_code == 0, (written.output, written.exception)
    (file,) = tmp_path.iterdir()
    assert file.name.startswith(f"run-report-{day.date}T08-")
    html = file.read_text(encoding="utf-8")
    assert "7 waiting = 6 dispatched + 0 dispatched before + 1 set aside" in html
    assert all(f"member-{number}" not in html for number in range(1, 7))
    assert f"@{day.date}" not in html, "a record's key"
    assert told["Counts"].items() <= execution.output.items()
    assert [bar["Counts"]["Evaluated"] for bar in told["Pages"]["Bars"]] == [3, 3, 1]
    assert all(bar["Seconds"] > 0 and bar["Calls"] == 1 for bar in told["Pages"]["Bars"])
    assert [(each["Route"], each["Tasks"], each["Orders"]) for each in told["Tasks"]["Routes"]] == [
        ("Point", 5, 5),
        ("ECoupon", 1, 1),
    ]
    assert told["Reconciled"]["Key"] == reconciled.output["Report"]["Key"]
    assert told["Reconciled"]["Outcome"] == "Clean"
    assert told["Places"]["SetAsideFiles"] == 1
    assert told["Memory"] == []


def test_a_report_of_a_failed_run_tells_what_failed(day: Day, report: Report, tmp_path: Path) -> None:
    with day.application.wire.reacting(forbid_uploads_of("4")):
        execution = day.run(8, PageSize=3)
    assert execution.status == "FAILED"

    written = report(execution.arn, "--output", str(tmp_path / "run.html"))
    told = numbers(report(execution.arn, "--json"))

    assert written.output.startswith(f"Failed: It ended with {execution.error} on page 2")
    assert [(each["Step"], each["Error"], each["Times"]) for each in told["Faults"]] == [
        ("Dispatch page", execution.error, 1)
    ]
    assert told["Pages"]["Number"] == 1
    assert f"@{day.date}" not in (tmp_path / "run.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("fields", "lanes", "tasks"),
    [({"Grouping": "window"}, 2, 6), ({"PaginationEnabled": False}, 1, 6), ({"DryRun": True}, 1, None)],
    ids=["grouped", "full", "dry run"],
)
def test_every_path_has_its_report(
    fields: dict[str, Any], lanes: int, tasks: int | None, day: Day, report: Report
) -> None:
    execution = day.run(8, PageSize=3, **fields)

    told = numbers(report(execution.arn, "--json"))

    assert told["Counts"].items() <= execution.output.items()
    assert told["Pages"]["Lanes"] == lanes
    assert (told["Tasks"] and told["Tasks"]["Number"]) == tasks
    assert (told["WholeWindow"] is not None) == (fields == {"PaginationEnabled": False})


def test_a_run_that_nobody_knows_has_no_report(application: Application, report: Report, tmp_path: Path) -> None:
    del application

    result = report("20210101T000000Z-nobody", "--output", str(tmp_path / "run.html"))

    assert isinstance(result.exception, UnknownRunError)
    assert not list(tmp_path.iterdir())
