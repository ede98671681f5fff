"""What `make run` checks, and how it shows a summary."""

from dataclasses import replace
from typing import Any

import pytest

from tools.application import QueuedTask, Summary
from tools.demo import WrongCountError, check_counts, table
from tools.samples import worked_example

SAMPLE = worked_example()
FIRST: Summary = {
    "Outcome": "Dispatched",
    "RunId": "run",
    "WindowStart": "2026-09-17T15:00:00Z",
    "WindowEnd": "2026-09-17T16:00:00Z",
    "Path": "paged",
    "PageSize": 1000,
    "Pages": 1,
    "Evaluated": 5,
    "Waiting": 4,
    "Dispatched": 4,
    "AlreadyDispatched": 0,
    "SetAside": 0,
    "Groups": 3,
    "Tasks": 3,
    "DurationSeconds": 2,
}
SECOND: Summary = FIRST | {"Dispatched": 0, "AlreadyDispatched": 4, "Groups": 0, "Tasks": 0}
TASKS = {
    name: QueuedTask("RewardPoint", name, {"OrderCount": orders}) for name, orders in (("A", 2), ("B", 1), ("C", 1))
}


def test_a_first_run_whose_counts_agree_is_accepted() -> None:
    check_counts(SAMPLE, FIRST, {}, TASKS)


def test_a_second_run_that_makes_no_task_is_accepted() -> None:
    check_counts(SAMPLE, SECOND, TASKS, TASKS)


def test_a_second_run_is_accepted_when_the_queues_were_emptied_in_between() -> None:
    check_counts(SAMPLE, SECOND, {}, {})


def test_a_run_that_completes_one_that_was_cut_off_is_accepted() -> None:
    # The cut-off run sent A; this one sends it again, and the queue drops the repeat.
    check_counts(SAMPLE, FIRST, {"A": TASKS["A"]}, TASKS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Evaluated": 4}, "Evaluated is 4 and must be 5"),
        ({"Waiting": 5, "Dispatched": 5}, "Waiting is 5 and must be 4"),
        ({"SetAside": 1, "Dispatched": 3}, "SetAside is 1 and must be 0"),
        ({"AlreadyDispatched": 1}, r"Dispatched \+ AlreadyDispatched \+ SetAside is 5 and must be 4"),
        ({"Tasks": 2}, "Tasks is 2 and must be 3"),
        ({"Dispatched": 3, "AlreadyDispatched": 1}, "Dispatched is 3 and must be 4"),
        ({"Dispatched": 0, "AlreadyDispatched": 4}, "Tasks is 3 and must be 0"),
    ],
)
def test_a_count_that_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongCountError, match=message):
        check_counts(SAMPLE, FIRST | change, {}, TASKS)


def test_a_task_that_is_missing_on_the_queues_is_noticed() -> None:
    with pytest.raises(WrongCountError, match="Tasks is 3 and must be 2"):
        check_counts(SAMPLE, FIRST, {}, {name: TASKS[name] for name in ("A", "B")})


def test_more_tasks_than_the_example_has_are_noticed() -> None:
    with pytest.raises(WrongCountError, match="Tasks is 3 and must be 2"):
        check_counts(replace(SAMPLE, tasks=2), FIRST, {}, TASKS)


def test_summaries_are_shown_side_by_side() -> None:
    shown = table(["One", "Two"], [FIRST, SECOND | {"Evaluated": 10_000}]).splitlines()

    assert shown[0] == f"{'':23}  {'One':>20}  {'Two':>20}"
    assert shown[1] == f"{'Outcome':23}  {'Dispatched':>20}  {'Dispatched':>20}"
    assert shown[7] == f"{'Bookings evaluated':23}  {'5':>20}  {'10,000':>20}"
