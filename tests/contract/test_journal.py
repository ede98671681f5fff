"""Which runs there were, how far they came and how each ended: the journal on a real engine, by a staged clock."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.adapters.journal import MAX_CARRIED, DynamoJournal, run_ids
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import run_key
from functions.domain.errors import TransientError
from functions.domain.lane import FIRST_FOLD, FIRST_MERGE, LAYOUT
from functions.domain.plan import Plan
from functions.domain.run import LeaseOwner, Others, Path, Run
from functions.usecases.ports import JournalEntry
from tests.contract.staged import (
    WINDOW,
    a_plan,
    a_run,
    a_staged_object,
    calls_of,
    limit_pages,
    members,
    read_timeout,
    refusal,
    stage,
)

RUN = a_run("20260917T160110Z-first", execution_id="execution-1")
RESUMED = replace(RUN, execution_id="execution-2")
"""Another execution that goes on with the run."""
SECOND = a_run("second")
BEFORE = a_run("before", WINDOW.previous)
AFTER = a_run("after", WINDOW.next)
DETAIL = {"Error": "TransientError", "Page": 3, "Token": {"RecordId": {"S": "\u65e5"}}}


def begun(ledger: DynamoLedger, *runs: Run) -> None:
    """Let each run take its window and give it back."""
    for run in runs:
        assert ledger.take(run) is None
        ledger.release(run.lease_owner)


def row_of(journal: DynamoJournal, run: Run) -> dict[str, Any]:
    table = journal.table
    key = run_key(run.window, run.run_id)
    row: dict[str, Any] = table.client.get_item(TableName=table.name, Key=key, ConsistentRead=True)["Item"]
    return row


@pytest.mark.parametrize(
    ("started", "others"),
    [
        pytest.param([], Others(), id="none"),
        pytest.param([BEFORE], Others(before=("before",)), id="the hour before"),
        pytest.param([SECOND], Others(own=("second",)), id="this hour"),
        pytest.param([AFTER], Others(after=("after",)), id="the hour after"),
        pytest.param([SECOND, BEFORE, AFTER], Others(before=("before",), own=("second",), after=("after",)), id="all"),
    ],
)
def test_a_run_learns_the_runs_of_its_window_and_of_its_neighbours(
    ledger: DynamoLedger, journal: DynamoJournal, started: list[Run], others: Others
) -> None:
    begun(ledger, *started, RUN)
    calls = calls_of(journal.table.client)
    assert journal.others(RUN) == others
    assert [call.operation for call in calls] == ["Query"] * 3


def test_a_resumed_run_is_no_other_run(ledger: DynamoLedger, journal: DynamoJournal) -> None:
    begun(ledger, RUN, RESUMED)
    assert journal.others(RESUMED) == Others()
    assert run_ids(journal.table, WINDOW) == [RUN.run_id]


@pytest.mark.parametrize(("number", "carried"), [(MAX_CARRIED, True), (MAX_CARRIED + 1, False)])
def test_runs_that_are_too_many_for_the_state_are_not_carried(
    ledger: DynamoLedger, journal: DynamoJournal, number: int, *, carried: bool
) -> None:
    names = [f"run-{index:02}" for index in range(number)]
    begun(ledger, *(a_run(name) for name in names), RUN)
    assert journal.others(RUN).own == (tuple(names) if carried else None)


def test_the_runs_of_three_windows_fit_the_state() -> None:
    longest = tuple("r" * 97 for _ in range(MAX_CARRIED))
    assert len(json.dumps(Others(longest, longest, longest).to_state())) < 4096


def test_the_runs_of_a_window_are_listed_beyond_one_page_of_the_query(
    ledger: DynamoLedger, journal: DynamoJournal
) -> None:
    names = [f"run-{number}" for number in range(5)]
    begun(ledger, *(a_run(name) for name in names), BEFORE)
    requests = stage(journal.table.client, "Query", [])
    limit_pages(journal.table.client, 2)
    assert run_ids(journal.table, WINDOW) == names
    assert len(requests) == 3


def test_the_last_run_is_the_one_that_started_last_with_what_it_was_decided_to_be(
    ledger: DynamoLedger, journal: DynamoJournal
) -> None:
    assert journal.last_run(WINDOW) is None
    later = replace(
        a_run("20260917T170000Z-later"),
        started_at="2026-09-17T17:00:00Z",
        path=Path.FULL,
        page_size=7,
        slices=4,
        shards=2,
    )
    begun(ledger, later, RUN, AFTER)
    assert journal.last_run(WINDOW) == JournalEntry(later.run_id, "2026-09-17T17:00:00Z", "full", 7, 4, 2, None)


def test_a_run_that_another_execution_goes_on_with_keeps_its_start_and_loses_its_end(
    ledger: DynamoLedger, journal: DynamoJournal
) -> None:
    begun(ledger, RUN)
    assert journal.conclude(RUN.lease_owner, "Failed", DETAIL)
    begun(ledger, replace(RESUMED, started_at="2026-09-18T09:00:00Z"))
    row = row_of(journal, RUN)
    assert not {"Outcome", "Detail"} & row.keys()
    assert (row["StartedAt"]["S"], row["ExecutionId"]["S"]) == (RUN.started_at, "execution-2")
    assert journal.last_run(WINDOW) == JournalEntry(RUN.run_id, RUN.started_at, "paged", 1000, 1, 0, None)


def test_a_starter_that_finds_the_window_held_leaves_no_trace(ledger: DynamoLedger, journal: DynamoJournal) -> None:
    ledger.take(RUN)
    ledger.take(RESUMED)
    ledger.take(SECOND)
    assert run_ids(journal.table, WINDOW) == [RUN.run_id]
    assert row_of(journal, RUN)["ExecutionId"]["S"] == "execution-1"
    assert [journal.owner_of(each) for each in ("execution-2", "second")] == [None, None]


def test_an_execution_leads_to_its_run_and_window(ledger: DynamoLedger, journal: DynamoJournal) -> None:
    begun(ledger, RUN, RESUMED)
    for execution in ("execution-1", "execution-2"):
        assert journal.owner_of(execution) == LeaseOwner(RUN.run_id, execution, WINDOW)
    assert journal.owner_of("execution-3") is None


def planned(ledger: DynamoLedger, run: Run, *plans: Plan) -> None:
    """Let a run take its window, write these plans, those that are finished as finished ones, and give it back."""
    assert ledger.take(run) is None
    for plan in plans:
        lease = ledger.renew(run, plan.lane)
        ledger.draft_plan(lease, plan)()
    ledger.release(run.lease_owner)


def test_outlines_are_the_runs_plans_by_lane_and_page_without_their_tasks(
    ledger: DynamoLedger, journal: DynamoJournal
) -> None:
    staged = replace(a_plan(2, lane=3), finished=True, staged=a_staged_object("staging/page", "a", "b", "c"))
    plans = [
        *(a_plan(page, members(2)) for page in (1, 2, 10)),
        replace(a_plan(1, members(1), lane=3), finished=True),
        staged,
        *(a_plan(1, lane=lane) for lane in (FIRST_FOLD - 1, FIRST_FOLD, FIRST_MERGE, LAYOUT)),
    ]
    planned(ledger, RUN, *reversed(plans))
    calls = calls_of(journal.table.client)
    assert list(journal.outlines(RUN.lease_owner)) == [replace(plan, tasks=()) for plan in plans]
    assert list(journal.outlines(SECOND.lease_owner)) == []
    assert [call.operation for call in calls] == ["Query"] * 2


def test_outlines_are_read_a_page_of_the_query_at_a_time(ledger: DynamoLedger, journal: DynamoJournal) -> None:
    planned(ledger, RUN, *(a_plan(page) for page in range(1, 6)))
    limit_pages(journal.table.client, 2)
    calls = calls_of(journal.table.client)
    read = [(plan.page, len(calls)) for plan in journal.outlines(RUN.lease_owner)]
    assert read == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)]


@pytest.mark.parametrize(
    ("other", "others"),
    [
        pytest.param(SECOND, Others(own=("second",)), id="of this hour"),
        pytest.param(SECOND, Others(own=None), id="of this hour, which had too many runs to name"),
        pytest.param(BEFORE, Others(before=("before",)), id="of the hour before"),
        pytest.param(AFTER, Others(after=("earlier", "after")), id="of the hour after"),
    ],
)
def test_a_task_is_in_doubt_while_a_plan_of_another_run_is_unfinished(
    ledger: DynamoLedger, journal: DynamoJournal, other: Run, others: Others
) -> None:
    finished = [replace(a_plan(page, members(1), lane=2), finished=True) for page in (1, 2, 3)]
    planned(ledger, other, *finished)
    assert journal.in_doubt(RUN, others) is False
    planned(ledger, other, a_plan(4, members(1), lane=2))
    limit_pages(journal.table.client, 2)
    assert journal.in_doubt(RUN, others) is True


@pytest.mark.parametrize("others", [Others(), Others(own=None)], ids=["alone", "not known to be alone"])
def test_a_runs_own_unfinished_plan_leaves_nothing_in_doubt(
    ledger: DynamoLedger, journal: DynamoJournal, others: Others
) -> None:
    planned(ledger, RUN, a_plan(1, members(1)))
    calls = calls_of(journal.table.client)
    assert journal.in_doubt(RUN, others) is False
    assert [call.operation for call in calls] == ["Query"] * (others.own is None)


def test_whether_a_task_is_in_doubt_is_asked_run_by_run_up_to_the_first_that_is(
    ledger: DynamoLedger, journal: DynamoJournal
) -> None:
    planned(ledger, BEFORE, replace(a_plan(1, members(1)), finished=True))
    planned(ledger, SECOND, a_plan(1, members(1)), a_plan(2, members(1)))
    planned(ledger, AFTER, a_plan(1, members(1)))
    calls = calls_of(journal.table.client)
    assert journal.in_doubt(RUN, Others(("before",), ("second",), ("after",))) is True
    asked = [call.params["ExpressionAttributeValues"][":pk"]["S"] for call in calls]
    assert asked == ["plan#2026-09-17T14:00:00Z#before", "plan#2026-09-17T15:00:00Z#second"]


def test_an_end_is_noted_once(ledger: DynamoLedger, journal: DynamoJournal) -> None:
    begun(ledger, RUN)
    assert journal.conclude(RUN.lease_owner, "Failed", DETAIL) is True
    assert journal.conclude(RUN.lease_owner, "ABORTED", {}) is False
    row = row_of(journal, RUN)
    assert (row["Outcome"]["S"], json.loads(row["Detail"]["S"])) == ("Failed", DETAIL)
    last = journal.last_run(WINDOW)
    assert last is not None
    assert last.outcome == "Failed"


def test_an_execution_does_not_end_a_run_that_another_one_goes_on_with(
    ledger: DynamoLedger, journal: DynamoJournal
) -> None:
    begun(ledger, RUN, RESUMED)
    assert journal.conclude(RUN.lease_owner, "TIMED_OUT", DETAIL) is False
    assert "Outcome" not in row_of(journal, RUN)
    assert journal.conclude(RESUMED.lease_owner, "Dispatched", {}) is True


def test_a_run_that_never_began_has_no_end(journal: DynamoJournal) -> None:
    assert journal.conclude(RUN.lease_owner, "Failed", DETAIL) is False
    assert run_ids(journal.table, WINDOW) == []


@pytest.mark.parametrize(
    "step",
    [refusal("ThrottlingException"), refusal("InternalServerError", 500), read_timeout],
    ids=["throttled", "unavailable", "no answer in time"],
)
@pytest.mark.parametrize(
    ("operation", "use"),
    [
        pytest.param("Query", lambda journal: journal.others(RUN), id="others"),
        pytest.param("Query", lambda journal: journal.last_run(WINDOW), id="last run"),
        pytest.param("Query", lambda journal: list(journal.outlines(RUN.lease_owner)), id="outlines"),
        pytest.param("Query", lambda journal: journal.in_doubt(RUN, Others(own=("second",))), id="in doubt"),
        pytest.param("GetItem", lambda journal: journal.owner_of("execution-1"), id="owner of"),
        pytest.param("UpdateItem", lambda journal: journal.conclude(RUN.lease_owner, "Failed", {}), id="conclude"),
    ],
)
@pytest.mark.usefixtures("pauses")
def test_a_journal_that_is_busy_or_silent_is_a_transient_error(
    journal: DynamoJournal, step: Any, operation: str, use: Callable[[DynamoJournal], object]
) -> None:
    stage(journal.table.client, operation, itertools.repeat(step))
    with pytest.raises(TransientError):
        use(journal)
