import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.budget import PAGE_LEASE_SECONDS, WINDOW_LEASE_SECONDS
from functions.domain.errors import ConfigurationError, InvalidInput
from functions.domain.execution import run_id_of
from functions.domain.flags import (
    DEFAULT_PAGE_SIZE,
    GROUPING,
    MAX_PAGE_SIZE,
    PAGE_SIZE,
    PAGINATION_ENABLED,
    SET_ASIDE_LIMIT,
)
from functions.domain.run import Deployment, Path, Run
from functions.usecases.plan_run import plan_run
from tests.unit.fakes import FakeParameters

EXECUTE_TIME = "2026-09-17T16:01:10.6854808+08:00"
STARTED_AT = "2026-09-17T11:40:00.123Z"


def planned(given_input: Any, name: str = "execution-1", **parameters: str) -> Run:
    execution = {"Input": given_input, "Name": name, "StartTime": STARTED_AT}
    return plan_run(execution, FakeParameters(parameters), Deployment())


def refused(given_input: Any) -> str:
    """Why the input is refused; no parameter may have been read."""
    parameters = FakeParameters()
    with pytest.raises(InvalidInput) as error:
        plan_run({"Input": given_input, "Name": "execution-1", "StartTime": STARTED_AT}, parameters, Deployment())
    assert parameters.reads == 0
    return str(error.value)


@pytest.mark.parametrize(
    ("given_input", "start"),
    [
        pytest.param({"ExecuteTime": EXECUTE_TIME}, "2026-09-17T07:00:00Z", id="ExecuteTime"),
        pytest.param(
            json.loads('{"Data":"{\\"ExecuteTime\\":\\"2026-09-17T16:01:10.6854808+08:00\\"}"}'),
            "2026-09-17T07:00:00Z",
            id="the contract's task data",
        ),
        pytest.param(
            {"Data": json.dumps({"ExecuteTime": EXECUTE_TIME, "Sender": {"ExecuteTime": 1}, "PageSize": 0})},
            "2026-09-17T07:00:00Z",
            id="other fields inside Data are its sender's",
        ),
        pytest.param({}, "2026-09-17T10:00:00Z", id="neither: the execution's start time"),
        pytest.param({"PageSize": 5}, "2026-09-17T10:00:00Z", id="only another field: the execution's start time"),
        pytest.param({"ExecuteTime": "1999-12-31T23:59:59Z"}, "1999-12-31T22:00:00Z", id="a past window"),
        pytest.param({"ExecuteTime": "2222-01-01T00:00:00-01:00"}, "2222-01-01T00:00:00Z", id="a future window"),
    ],
)
def test_the_window_comes_of_the_one_time_that_was_given(given_input: Any, start: str) -> None:
    assert planned(given_input).window.start_text == start


def test_the_scheduled_time_decides_and_not_the_time_of_starting() -> None:
    assert planned({"ExecuteTime": "2026-09-17T08:01:00Z"}).window.start_text == "2026-09-17T07:00:00Z"


NO_CONTRACT: dict[str, tuple[Any, str]] = {
    "no object: a list": ([], "input: expected an object"),
    "no object: a text": (EXECUTE_TIME, "input: expected an object"),
    "no object: a number": (1789632070, "input: expected an object"),
    "no object: null": (None, "input: expected an object"),
    "no object: true": (True, "input: expected an object"),
    "both times": (
        {"ExecuteTime": EXECUTE_TIME, "Data": json.dumps({"ExecuteTime": EXECUTE_TIME})},
        "ExecuteTime: given together with Data",
    ),
    "both times, one of them empty": ({"ExecuteTime": EXECUTE_TIME, "Data": ""}, "ExecuteTime: given together"),
    "another case": ({"executeTime": EXECUTE_TIME}, "executeTime: unknown field"),
    "an unknown field": ({"ExecuteTime": EXECUTE_TIME, "Force": True}, "Force: unknown field"),
    "no slice": ({"Slices": 0}, "Slices: Input should be greater than or equal to 1"),
    "too many slices": ({"Slices": 121}, "Slices: Input should be less than or equal to 120"),
    "slices as text": ({"Slices": "4"}, "Slices: Input should be a valid integer"),
    "slices null": ({"Slices": None}, "Slices: Input should be a valid integer"),
    "an empty name": ({"": 1}, "input: unknown field"),
    "a null time": ({"ExecuteTime": None}, "ExecuteTime: Input should be a valid string"),
    "an empty time": ({"ExecuteTime": ""}, "ExecuteTime: expected YYYY-MM-DDThh:mm:ss"),
    "no offset": ({"ExecuteTime": "2026-09-17T16:01:10.6854808"}, "ExecuteTime: expected YYYY-MM-DDThh:mm:ss"),
    "seconds since 1970": ({"ExecuteTime": 1789632070}, "ExecuteTime: Input should be a valid string"),
    "seconds since 1970 as text": ({"ExecuteTime": "1789632070"}, "ExecuteTime: expected YYYY-MM-DDThh:mm:ss"),
    "hour 24": ({"ExecuteTime": "2026-09-17T24:00:00Z"}, "ExecuteTime: no such date or time"),
    "the end of time": ({"ExecuteTime": "9999-12-31T23:59:59Z"}, "ExecuteTime: the hour lies outside the years"),
    "empty Data": ({"Data": ""}, "Data: expected a JSON object as text"),
    "Data that is no JSON": ({"Data": "{'ExecuteTime': 1}"}, "Data: expected a JSON object as text"),
    "Data too deep to read": ({"Data": "[" * 100_000}, "Data: expected a JSON object as text"),
    "Data with a number too long": ({"Data": "9" * 9000}, "Data: expected a JSON object as text"),
    "Data without a time": ({"Data": "{}"}, "Data.ExecuteTime: missing"),
    "Data with another case": ({"Data": json.dumps({"executeTime": EXECUTE_TIME})}, "Data.ExecuteTime: missing"),
    "Data already parsed": ({"Data": {"ExecuteTime": EXECUTE_TIME}}, "Data: Input should be a valid string"),
    "Data parsed twice": ({"Data": json.dumps(json.dumps({"ExecuteTime": EXECUTE_TIME}))}, "Data: expected an object"),
    "Data that is a list": ({"Data": "[]"}, "Data: expected an object"),
    "Data that is null": ({"Data": "null"}, "Data: expected an object"),
    "null for Data": ({"Data": None}, "Data: Input should be a valid string"),
    "a number for the time inside Data": ({"Data": '{"ExecuteTime":1}'}, "Data.ExecuteTime: Input should be a valid"),
    "a bad time inside Data": ({"Data": '{"ExecuteTime":"now"}'}, "Data.ExecuteTime: expected YYYY-MM-DDThh:mm:ss"),
    "page size 0": ({"PageSize": 0}, "PageSize: Input should be greater than or equal to 1"),
    "page size -1": ({"PageSize": -1}, "PageSize: Input should be greater than or equal to 1"),
    "page size 1.5": ({"PageSize": 1.5}, "PageSize: Input should be a valid integer"),
    "page size 1.0": ({"PageSize": 1.0}, "PageSize: Input should be a valid integer"),
    "page size 1e3 as text": ({"PageSize": "1e3"}, "PageSize: Input should be a valid integer"),
    "page size 1000 as text": ({"PageSize": "1000"}, "PageSize: Input should be a valid integer"),
    "page size true": ({"PageSize": True}, "PageSize: Input should be a valid integer"),
    "page size null": ({"PageSize": None}, "PageSize: Input should be a valid integer"),
    "page size above the maximum": ({"PageSize": 10_001}, "PageSize: Input should be less than or equal to 10000"),
    "page size huge": ({"PageSize": 10**30}, "PageSize: Input should be less than or equal to 10000"),
    "the switch as text": ({"PaginationEnabled": "true"}, "PaginationEnabled: Input should be a valid boolean"),
    "the switch as number": ({"PaginationEnabled": 1}, "PaginationEnabled: Input should be a valid boolean"),
    "the switch null": ({"PaginationEnabled": None}, "PaginationEnabled: Input should be a valid boolean"),
    "a dry run as text": ({"DryRun": "false"}, "DryRun: Input should be a valid boolean"),
    "a dry run of a resumed run": ({"DryRun": True, "Resume": True}, "Resume: given together with DryRun"),
    "resume as text": ({"Resume": "true"}, "Resume: Input should be a valid boolean"),
    "resume null": ({"Resume": None}, "Resume: Input should be a valid boolean"),
    "an unknown grouping": ({"Grouping": "hour"}, "Grouping: Input should be 'page' or 'window'"),
    "grouping null": ({"Grouping": None}, "Grouping: Input should be 'page' or 'window'"),
}


@pytest.mark.parametrize(("given_input", "reason"), NO_CONTRACT.values(), ids=NO_CONTRACT.keys())
def test_an_input_that_breaks_the_contract_is_refused_by_field_before_any_read(given_input: Any, reason: str) -> None:
    assert refused(given_input).startswith(reason)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(
    ["ExecuteTime", "Data", "PaginationEnabled", "PageSize", "Grouping", "Slices", "DryRun", "Resume", "Other"]
)


@given(json_values | st.dictionaries(fields, json_values, max_size=4))
def test_any_input_is_planned_or_refused_and_nothing_else(given_input: Any) -> None:
    parameters = FakeParameters()
    try:
        run = plan_run({"Input": given_input, "Name": "n", "StartTime": STARTED_AT}, parameters, Deployment())
    except InvalidInput:
        reads = 0
    else:
        reads = 1
        assert Run.from_state(json.loads(json.dumps(run.to_state()))) == run
    assert parameters.reads == reads


def test_a_refusal_names_the_field_and_not_its_value() -> None:
    assert "secret" not in refused({"ExecuteTime": "secret"})
    assert "secret" not in refused({"Data": '{"ExecuteTime":"secret"}'})
    assert "secret" not in refused({"Data": "secret"})
    assert "secret" not in refused({"PageSize": "secret"})


SWITCHES: dict[str, tuple[str | None, Path]] = {
    "true: the clear word": ("true", Path.PAGED),
    "TRUE: the clear word in capitals": ("TRUE", Path.PAGED),
    "True: as .NET writes it": ("True", Path.PAGED),
    "blank true blank: blanks around the clear word": (" true ", Path.PAGED),
    "a line end behind it: blanks as well": ("true\n", Path.PAGED),
    "1: a number is no clear true": ("1", Path.FULL),
    "yes: another word is no clear true": ("yes", Path.FULL),
    "on: another word is no clear true": ("on", Path.FULL),
    "t: an abbreviation is no clear true": ("t", Path.FULL),
    "false: clearly not": ("false", Path.FULL),
    "empty: nothing said": ("", Path.FULL),
    "missing: the default": (None, Path.FULL),
    "garbage: unreadable": ("\u00fe\u0000{]", Path.FULL),
    "true in quotes: unreadable": ('"true"', Path.FULL),
    "truetrue: only a part is the word": ("truetrue", Path.FULL),
    "full-width letters: only a likeness": (
        "\N{FULLWIDTH LATIN SMALL LETTER T}\N{FULLWIDTH LATIN SMALL LETTER R}ue",
        Path.FULL,
    ),
}


@pytest.mark.parametrize(("value", "path"), SWITCHES.values(), ids=SWITCHES.keys())
def test_only_a_clear_true_takes_the_paged_path(value: str | None, path: Path) -> None:
    parameters = {} if value is None else {PAGINATION_ENABLED: value}

    assert planned({}, **parameters).path is path


PAGE_SIZES: dict[str, tuple[str | None, int]] = {
    "a number": ("250", 250),
    "one": ("1", 1),
    "blanks around": (" 250\n", 250),
    "a plus": ("+250", 250),
    "noughts before": ("000250", 250),
    "the maximum": (str(MAX_PAGE_SIZE), MAX_PAGE_SIZE),
    "above the maximum": (str(MAX_PAGE_SIZE + 1), MAX_PAGE_SIZE),
    "far above the maximum": ("9" * 5000, MAX_PAGE_SIZE),
    "missing": (None, DEFAULT_PAGE_SIZE),
    "empty": ("", DEFAULT_PAGE_SIZE),
    "nought": ("0", DEFAULT_PAGE_SIZE),
    "many noughts": ("0" * 5000, DEFAULT_PAGE_SIZE),
    "negative": ("-1", DEFAULT_PAGE_SIZE),
    "a fraction": ("1.5", DEFAULT_PAGE_SIZE),
    "an exponent": ("1e3", DEFAULT_PAGE_SIZE),
    "hexadecimal": ("0x10", DEFAULT_PAGE_SIZE),
    "an underscore": ("1_000", DEFAULT_PAGE_SIZE),
    "digits of another script": ("\N{ARABIC-INDIC DIGIT FIVE}", DEFAULT_PAGE_SIZE),
    "two numbers": ("10 20", DEFAULT_PAGE_SIZE),
    "a word": ("many", DEFAULT_PAGE_SIZE),
}


@pytest.mark.parametrize(("value", "page_size"), PAGE_SIZES.values(), ids=PAGE_SIZES.keys())
def test_the_parameter_s_page_size_falls_back_and_is_bounded(value: str | None, page_size: int) -> None:
    parameters = {} if value is None else {PAGE_SIZE: value}

    assert planned({}, **parameters).page_size == page_size


def test_the_default_page_size_is_1000() -> None:
    assert DEFAULT_PAGE_SIZE == 1000


@pytest.mark.parametrize("page_size", [1, 7, 10_000])
def test_the_input_s_page_size_may_be_anything_up_to_the_maximum(page_size: int) -> None:
    assert planned({"PageSize": page_size}, **{PAGE_SIZE: "250"}).page_size == page_size


@pytest.mark.parametrize(
    ("value", "limit"),
    [("5", 5), ("0", 0), (None, 100), ("", 100), ("-1", 100), ("many", 100), ("1.5", 100)],
)
def test_the_set_aside_limit_falls_back_to_100(value: str | None, limit: int) -> None:
    parameters = {} if value is None else {SET_ASIDE_LIMIT: value}

    assert planned({}, **parameters).set_aside_limit == limit


@pytest.mark.parametrize("parameter", ["true", "false"])
def test_the_input_overrides_the_switch_for_its_run(parameter: str) -> None:
    assert planned({"PaginationEnabled": True}, **{PAGINATION_ENABLED: parameter}).path is Path.PAGED
    assert planned({"PaginationEnabled": False}, **{PAGINATION_ENABLED: parameter}).path is Path.FULL


def test_overrides_may_stand_beside_data() -> None:
    data = json.dumps({"ExecuteTime": EXECUTE_TIME})

    run = planned({"Data": data, "PaginationEnabled": True, "PageSize": 7, "Grouping": "page", "DryRun": True})

    assert (run.path, run.page_size, run.dry_run) == (Path.PAGED, 7, True)
    assert run.window.start_text == "2026-09-17T07:00:00Z"


@pytest.mark.parametrize("grouping", ["page", " page ", "", "garbage"])
def test_an_unreadable_grouping_means_by_page(grouping: str) -> None:
    assert planned({}, **{GROUPING: grouping, PAGINATION_ENABLED: "true"}).path is Path.PAGED


@pytest.mark.parametrize("grouping", ["window", " window ", "Window"])
def test_a_parameter_that_says_window_groups_the_whole_window(grouping: str) -> None:
    assert planned({}, **{GROUPING: grouping, PAGINATION_ENABLED: "true"}).path is Path.GROUPED


def test_the_grouping_of_the_input_outweighs_the_parameter() -> None:
    assert planned({"Grouping": "page"}, **{GROUPING: "window", PAGINATION_ENABLED: "true"}).path is Path.PAGED
    assert planned({"Grouping": "window"}, **{GROUPING: "page", PAGINATION_ENABLED: "true"}).path is Path.GROUPED


def test_a_grouping_matters_only_where_pages_are_read() -> None:
    assert planned({"Grouping": "window"}, **{GROUPING: "window"}).path is Path.FULL
    assert planned({"PaginationEnabled": True}, **{GROUPING: "window"}).path is Path.GROUPED


@pytest.mark.parametrize("given_input", [{}, {"Slices": 1}], ids=["not given", "one"])
def test_a_run_is_in_one_slice_unless_more_are_given(given_input: dict[str, Any]) -> None:
    run = planned(given_input, **{PAGINATION_ENABLED: "true"})

    assert (run.slices, run.in_lanes) == (1, False)


def test_slices_make_lanes() -> None:
    run = planned({"Slices": 4}, **{PAGINATION_ENABLED: "true"})

    assert (run.slices, len(run.ranges), run.in_lanes) == (4, 4, True)


def test_slices_are_refused_where_the_window_is_read_at_once() -> None:
    with pytest.raises(InvalidInput, match="Slices: given without pagination"):
        planned({"Slices": 2})


def test_what_the_deployment_fixes_is_the_run_s() -> None:
    execution = {"Input": {}, "Name": "n", "StartTime": STARTED_AT}
    run = plan_run(execution, FakeParameters({PAGINATION_ENABLED: "true"}), Deployment(4, 8, 50))

    assert (run.shards, run.concurrency, run.page_budget, run.in_lanes) == (4, 8, 50, True)


def test_more_lanes_than_a_state_can_hold_are_refused() -> None:
    execution = {"Input": {"Slices": 16}, "Name": "n", "StartTime": STARTED_AT}

    with pytest.raises(InvalidInput, match="Slices: at most 15 with 16 shards"):
        plan_run(execution, FakeParameters({PAGINATION_ENABLED: "true"}), Deployment(16))


def test_a_run_resumes_only_if_the_input_says_so() -> None:
    assert planned({"Resume": True}).resume
    assert not planned({"Resume": False}).resume
    assert not planned({}).resume


@pytest.mark.parametrize(("context", "redrives"), [({}, 0), ({"RedriveCount": None}, 0), ({"RedriveCount": 2}, 2)])
def test_a_run_planned_by_a_redriven_execution_knows_its_redrives(context: dict[str, Any], redrives: int) -> None:
    execution = {"Input": {}, "Name": "n", "StartTime": STARTED_AT, **context}

    assert plan_run(execution, FakeParameters(), Deployment()).redrives == redrives


def test_the_execution_s_id_names_its_run_too() -> None:
    assert planned({}).execution_id == planned({}).run_id == "20260917T114000Z-execution-1"


def test_parameters_are_read_once_and_hold_for_the_run() -> None:
    parameters = FakeParameters({PAGINATION_ENABLED: "true", PAGE_SIZE: "7"})
    run = plan_run({"Input": {}, "Name": "n", "StartTime": STARTED_AT}, parameters, Deployment())
    parameters.values = {}

    state = json.loads(json.dumps(run.to_state()))

    assert parameters.reads == 1
    assert (Run.from_state(state).path, Run.from_state(state).page_size) == (Path.PAGED, 7)


def test_the_lease_outlasts_the_function_of_the_run_s_path() -> None:
    assert planned({"PaginationEnabled": True}).lease_seconds == PAGE_LEASE_SECONDS
    assert planned({"PaginationEnabled": False}).lease_seconds == WINDOW_LEASE_SECONDS


@pytest.mark.parametrize("missing", ["Name", "StartTime"])
def test_an_execution_without_name_or_start_is_refused_by_name(missing: str) -> None:
    execution = {"Input": {"ExecuteTime": EXECUTE_TIME}, "Name": "n", "StartTime": STARTED_AT}
    del execution[missing]

    with pytest.raises(ConfigurationError, match=f"missing field {missing}"):
        plan_run(execution, FakeParameters(), Deployment())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("2026-09-17T08:00:00Z", id="colons"),
        pytest.param("a b", id="a blank"),
        pytest.param("a/../b", id="a path"),
        pytest.param("x" * 81, id="81 characters"),
        pytest.param("x" * 80, id="80 characters"),
        pytest.param("\u65e5\u672c", id="letters beyond ASCII"),
        pytest.param("half \ud800", id="half a surrogate pair"),
        pytest.param("name\n", id="a line end"),
        pytest.param("", id="empty"),
    ],
)
def test_a_run_id_has_safe_characters_only_whatever_the_execution_s_name(name: str) -> None:
    run_id = planned({}, name).run_id

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,97}", run_id)
    assert run_id == planned({}, name).run_id


def test_a_run_id_is_the_start_time_and_the_execution_s_name() -> None:
    assert run_id_of("execution-1", "2026-09-17T16:01:10.123Z") == "20260917T160110Z-execution-1"


def test_two_executions_have_two_run_ids_even_with_one_name_after_90_days() -> None:
    ids = {
        run_id_of(name, started_at)
        for name in ("a", "b", "a b", "a/b")
        for started_at in ("2026-09-17T16:01:10Z", "2026-12-17T16:01:10Z")
    }

    assert len(ids) == 8
