"""What the functions count: names, units, one dimension, and nothing that a dry run did not do."""

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from aws_lambda_powertools import Metrics

from functions.domain.errors import ERRORS_BY_NAME
from functions.domain.execution import run_id_of, start_of
from functions.domain.run import Counts, Path, Progress, Run
from functions.handlers import observed
from tests.unit.fakes import STARTED_AT, a_run

TEN_MINUTES = 600
STARTED = datetime.fromisoformat(STARTED_AT).replace(microsecond=0)
EXECUTION = run_id_of("first", STARTED_AT)


@pytest.fixture(autouse=True)
def ten_minutes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "metrics", Metrics(namespace="BookingtimeDispatcher", service="dispatcher"))
    monkeypatch.setattr(observed, "time", SimpleNamespace(time=lambda: STARTED.timestamp() + TEN_MINUTES))


def counted(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines from which CloudWatch makes metrics."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]


def report(run: Run) -> None:
    observed.report_progress(run, Progress(), Progress().after(Counts(pages=1, evaluated=5), None))


def test_a_page_is_counted_with_how_long_its_run_is_at_work(capsys: pytest.CaptureFixture[str]) -> None:
    report(a_run(execution_id=EXECUTION))

    [line] = counted(capsys)
    [declared] = line["_aws"]["CloudWatchMetrics"]
    assert (declared["Namespace"], declared["Dimensions"]) == ("BookingtimeDispatcher", [["service"]])
    units = {metric["Name"]: metric["Unit"] for metric in declared["Metrics"]}
    assert units == {**dict.fromkeys([*Counts().to_state(), "Retries"], "Count"), "RunSeconds": "Seconds"}
    assert (line["service"], line["Pages"], line["Evaluated"]) == ("dispatcher", [1], [5])
    assert line["RunSeconds"] == [TEN_MINUTES]


def test_a_run_that_is_gone_on_with_is_at_work_since_its_newest_execution_began(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report(a_run(started_at="2026-09-16T16:01:10Z", execution_id=EXECUTION))

    [line] = counted(capsys)
    assert line["RunSeconds"] == [TEN_MINUTES]


def test_a_redo_which_has_waited_for_its_approval_says_nothing_of_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    report(a_run(path=Path.REDO, execution_id=EXECUTION))

    [line] = counted(capsys)
    assert line["Pages"] == [1]
    assert "RunSeconds" not in line


def test_a_dry_run_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    report(a_run(dry_run=True, execution_id=EXECUTION))

    assert counted(capsys) == []


@pytest.mark.parametrize("name", ["first", "x" * 80, "a name, with blanks"])
def test_an_execution_s_id_says_when_it_started(name: str) -> None:
    assert (
        start_of(run_id_of(name, "2026-09-17T16:01:10.123Z"))
        == datetime(2026, 9, 17, 16, 1, 10, tzinfo=UTC).timestamp()
    )


@pytest.mark.parametrize("run_id", ["", "redo-1", "execution-1", "20269917T160110Z-first"])
def test_an_id_of_another_form_says_nothing_of_a_start(run_id: str) -> None:
    assert start_of(run_id) is None


@pytest.mark.parametrize("name", ERRORS_BY_NAME)
def test_a_failed_redo_is_counted_unless_it_was_refused_or_not_approved(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    observed.count_redo_failure({"Run": a_run(path=Path.REDO).to_state()}, ERRORS_BY_NAME[name]())

    failures = [line["RedoFailed"] for line in counted(capsys)]
    assert failures == ([] if name in ("InvalidInput", "NotApproved") else [[1]])


@pytest.mark.parametrize("state", [{}, {"Run": a_run().to_state()}, {"Run": None}])
def test_what_is_no_planned_redo_is_not_counted_as_one(
    capsys: pytest.CaptureFixture[str], state: dict[str, Any]
) -> None:
    observed.count_redo_failure(state, ERRORS_BY_NAME["ConfigurationError"]())

    assert counted(capsys) == []
