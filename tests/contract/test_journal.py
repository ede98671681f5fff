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
from functions.domain.run import LeaseOwner, Others, Path, Run
from functions.usecases.ports import JournalEntry
from tests.contract.staged import WINDOW, a_plan, a_run, calls_of, limit_pages, members, read_timeout, refusal, stage

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
        set_aside_limit=0,
    )
    begun(ledger, later, RUN, AFTER)
    assert journal.last_run(WINDOW) == JournalEntry(later.run_id, "2026-09-17T17:00:00Z", "full", 7, 0, None)


def test_a_run_that_another_execution_goes_on_with_keeps_its_start_and_loses_its_end(
    ledger: DynamoLedger, journal: DynamoJournal
) -> None:
    begun(ledger, RUN)
    assert journal.conclude(RUN.lease_owner, "Failed", DETAIL)
    begun(ledger, replace(RESUMED, started_at="2026-09-18T09:00:00Z"))
    row = row_of(journal, RUN)
    assert not {"Outcome", "Detail"} & row.keys()
    assert (row["StartedAt"]["S"], row["ExecutionId"]["S"]) == (RUN.started_at, "execution-2")
    assert journal.last_run(WINDOW) == JournalEntry(RUN.run_id, RUN.started_at, "paged", 1000, 100, None)


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


def test_outlines_are_the_runs_pages_in_order_without_their_tasks(ledger: DynamoLedger, journal: DynamoJournal) -> None:
    ledger.take(RUN)
    lease = ledger.renew(RUN)
    plans = [a_plan(page, members(2)) for page in (1, 2, 10)]
    for plan in reversed(plans):
        ledger.create_plan(lease, plan)
    ledger.finish_plan(lease, plans[0])
    calls = calls_of(journal.table.client)
    assert journal.outlines(RUN.lease_owner) == [replace(plan, tasks=(), finished=plan is plans[0]) for plan in plans]
    assert journal.outlines(SECOND.lease_owner) == []
    assert [call.operation for call in calls] == ["Query"] * 2


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
        pytest.param("Query", lambda journal: journal.outlines(RUN.lease_owner), id="outlines"),
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
