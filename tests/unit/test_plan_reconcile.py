from typing import Any

import pytest

from functions.domain.errors import ConfigurationError, InvalidInput
from functions.usecases.plan_reconcile import plan_reconcile

STARTED_AT = "2026-09-17T18:30:05.123Z"


def execution(given: Any, started_at: str = STARTED_AT) -> dict[str, Any]:
    return {"Input": given, "Name": "nightly", "StartTime": started_at}


@pytest.mark.parametrize(
    ("given", "start"),
    [
        pytest.param({}, "2026-09-17T17:00:00Z", id="nothing: the newest hour that is closed"),
        pytest.param({"ExecuteTime": "2026-09-17T16:01:10Z"}, "2026-09-17T15:00:00Z", id="a time"),
        pytest.param({"ExecuteTime": "2026-09-18T00:30:00+08:00"}, "2026-09-17T15:00:00Z", id="a time with an offset"),
        pytest.param({"Data": '{"ExecuteTime":"2026-09-17T16:01:10Z","X":1}'}, "2026-09-17T15:00:00Z", id="wrapped"),
    ],
)
def test_an_input_names_the_window_that_a_run_of_it_would_dispatch(given: Any, start: str) -> None:
    reconcile = plan_reconcile(execution(given), 4, 24)

    assert reconcile.window.start_text == start
    assert (reconcile.shards, reconcile.still_waiting_hours, reconcile.taken_at) == (4, 24, STARTED_AT)
    assert reconcile.execution_id == "20260917T183005Z-nightly"


def test_the_table_is_audited_only_where_that_is_asked_for() -> None:
    time = {"ExecuteTime": "2026-09-17T16:01:10Z"}

    planned = [plan_reconcile(execution({**time, **asked}), 0, 24) for asked in ({}, {"AuditTable": True})]

    assert [reconcile.audit_table for reconcile in planned] == [False, True]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param({"ExecuteTime": "2026-09-17T20:00:00Z"}, "ExecuteTime: the window ends at", id="still to come"),
        pytest.param({"ExecuteTime": "2026-09-17T19:00:00Z"}, "2026-09-17T19:00:00Z, which", id="not closed"),
        pytest.param(
            {"Data": '{"ExecuteTime":"2026-09-17T20:00:00Z"}'},
            "Data.ExecuteTime: the window ends",
            id="wrapped, still to come",
        ),
        pytest.param({"PageSize": 5}, "PageSize: unknown field", id="a field of the dispatch"),
        pytest.param({"AuditTable": "true"}, "AuditTable: ", id="an audit that is a text"),
        pytest.param({"AuditTable": 1}, "AuditTable: ", id="an audit that is a number"),
        pytest.param({"AuditTable": None}, "AuditTable: ", id="an audit that is null"),
        pytest.param({"ExecuteTime": None}, "ExecuteTime: ", id="null"),
        pytest.param({"ExecuteTime": "2026-09-17T16:01:10"}, "ExecuteTime: expected", id="no offset"),
        pytest.param({"ExecuteTime": "2026-09-17T16:01:10Z", "Data": "{}"}, "given together", id="two times"),
        pytest.param({"Data": "x"}, "Data: expected a JSON object", id="no JSON"),
        pytest.param([], "input: expected an object", id="a list"),
        pytest.param({"ExecuteTime": "0001-01-01T02:30:00Z"}, "ExecuteTime: the hour", id="the first hours of all"),
    ],
)
def test_an_input_that_breaks_the_contract_is_refused_by_name(given: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        plan_reconcile(execution(given), 0, 24)


def test_the_hour_that_just_ended_is_closed() -> None:
    given = {"ExecuteTime": "2026-09-17T19:00:00Z"}

    assert plan_reconcile(execution(given, "2026-09-17T19:00:00Z"), 0, 24).window.end_text == "2026-09-17T19:00:00Z"


def test_an_execution_without_its_name_is_an_error_of_the_machine() -> None:
    with pytest.raises(ConfigurationError, match="Name"):
        plan_reconcile({"Input": {}, "StartTime": STARTED_AT}, 0, 24)
