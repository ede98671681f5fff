import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.errors import ConfigurationError
from functions.domain.run import Counts, Others, Path, Progress, Run
from tests.unit.fakes import a_run

TOKEN = {"RecordId": {"B": "PP8="}, "BookingDateUTC": {"S": "2026-09-17"}, "BookingTimeUTC": {"S": "15:10:00Z"}}
COUNTS = Counts(1, 2, 3, 4, 5, 6, 7, 8)

READERS: dict[str, tuple[dict[str, Any], Callable[[Mapping[str, Any]], object]]] = {
    "Run": (a_run().to_state(), Run.from_state),
    "Progress": (Progress(2, TOKEN, has_more=True, totals=COUNTS).to_state(), Progress.from_state),
    "Others": (Others(before=("run-2",), after=None).to_state(), Others.from_state),
    "Counts": (COUNTS.to_state(), Counts.from_state),
}
REQUIRED = [
    pytest.param(kind, name, id=f"{kind}.{name}")
    for kind, (state, _) in READERS.items()
    for name in state
    if name not in ("WindowEnd", "InLanes", "Token")
]

NOT_NULL = [case for case in REQUIRED if case.values[0] != "Others"]


@pytest.mark.parametrize("kind", READERS)
def test_the_state_comes_back_as_it_was(kind: str) -> None:
    state, from_state = READERS[kind]

    assert from_state(json.loads(json.dumps(state))).to_state() == state  # type: ignore[attr-defined]  # each has it


@pytest.mark.parametrize(("kind", "name"), REQUIRED)
def test_a_missing_field_is_refused_by_name(kind: str, name: str) -> None:
    state, from_state = READERS[kind]

    with pytest.raises(ConfigurationError, match=f"missing field {name}"):
        from_state({key: value for key, value in state.items() if key != name})


@pytest.mark.parametrize(("kind", "name"), NOT_NULL)
def test_null_for_a_required_field_is_refused_by_name(kind: str, name: str) -> None:
    state, from_state = READERS[kind]

    with pytest.raises(ConfigurationError, match=f"missing field {name}"):
        from_state({**state, name: None})


@pytest.mark.parametrize(("kind", "name"), REQUIRED)
def test_another_type_is_refused_by_name(kind: str, name: str) -> None:
    state, from_state = READERS[kind]

    with pytest.raises(ConfigurationError, match=f"field {name} is no"):
        from_state({**state, name: "x" if type(state[name]) is not str else 1})


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("state", [None, [], "x", {}], ids=["null", "a list", "a text", "empty"])
def test_a_state_that_is_no_object_or_empty_is_refused(kind: str, state: Any) -> None:
    with pytest.raises(ConfigurationError, match="missing field"):
        READERS[kind][1](state)


def test_true_is_no_number() -> None:
    with pytest.raises(ConfigurationError, match="field PageSize is no int"):
        Run.from_state({**a_run().to_state(), "PageSize": True})


def test_a_missing_token_is_not_the_same_as_a_null_token() -> None:
    state = Progress().to_state()

    assert Progress.from_state({**state, "Token": None}).token is None
    with pytest.raises(ConfigurationError, match="missing field Token"):
        Progress.from_state({name: value for name, value in state.items() if name != "Token"})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"WindowStart": "2026-09-17T15:30:00Z"}, "full UTC hour", id="no full hour"),
        pytest.param({"WindowStart": "soon"}, "isoformat", id="no time"),
        pytest.param({"Path": "both"}, "not a valid Path", id="an unknown path"),
    ],
)
def test_a_run_that_nothing_can_be_done_for_is_refused(change: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=f"state: Run: .*{reason}"):
        Run.from_state({**a_run().to_state(), **change})


def test_the_state_has_the_contract_s_names() -> None:
    assert a_run(path=Path.FULL).to_state() == {
        "RunId": "run-1",
        "ExecutionId": "run-1",
        "StartedAt": "2026-09-17T16:01:10.123Z",
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Path": "full",
        "PageSize": 1000,
        "DryRun": False,
        "SetAsideLimit": 100,
        "LeaseSeconds": 990,
        "Resume": False,
        "Given": [],
        "Redrives": 0,
        "Slices": 1,
        "Shards": 0,
        "Concurrency": 1,
        "PageBudget": 2000,
        "HandedOver": False,
        "InLanes": False,
    }
    assert Progress().to_state() == {
        "Lane": 0,
        "Page": 1,
        "Token": None,
        "HasMore": True,
        "Stopped": False,
        "Totals": {
            "Pages": 0,
            "Evaluated": 0,
            "Waiting": 0,
            "Dispatched": 0,
            "AlreadyDispatched": 0,
            "SetAside": 0,
            "Groups": 0,
            "Tasks": 0,
        },
    }


def test_runs_too_many_to_carry_are_null_in_the_state_and_no_run_is_an_empty_list() -> None:
    assert Others(("a", "b"), None).to_state() == {"Before": ["a", "b"], "Own": None, "After": []}


@pytest.mark.parametrize("token", [None, TOKEN], ids=["no token", "a token"])
def test_a_run_goes_on_exactly_as_long_as_there_is_a_token(token: dict[str, dict[str, str]] | None) -> None:
    state = Progress(page=7, totals=COUNTS).after(COUNTS, token).to_state()

    assert state["HasMore"] is (token is not None)
    assert (state["Page"], state["Token"]) == (8, token)
    assert state["Totals"]["Tasks"] == 16


counts = st.builds(Counts, *[st.integers(0, 10**9)] * 8)


@given(counts, counts)
def test_counts_add_field_by_field_and_a_difference_takes_it_back(one: Counts, other: Counts) -> None:
    total = one + other

    assert all(value == asdict(one)[name] + asdict(other)[name] for name, value in asdict(total).items())
    assert total - other == one


def test_the_state_is_small_with_the_greatest_token() -> None:
    token = {**TOKEN, "RecordId": {"S": "\u65e5" * 682}, "Rev": {"B": "A" * 1368}}
    state = {"Run": a_run().to_state(), "Progress": Progress(1, token).to_state(), "Others": Others().to_state()}

    assert len(json.dumps(state)) < 8192


def test_the_state_is_small_with_as_many_run_ids_as_are_carried_and_the_greatest_text_token() -> None:
    others = Others(*[tuple(f"{n:02}" + "x" * 95 for n in range(12))] * 3)
    progress = Progress(1, {**TOKEN, "RecordId": {"S": "x" * 2048}})
    state = {"Run": a_run(run_id="x" * 97).to_state(), "Progress": progress.to_state(), "Others": others.to_state()}

    assert len(json.dumps(state)) < 8192
