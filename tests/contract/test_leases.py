"""Two runs never work on one hour's edge: leases on a real engine, by a staged clock."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from functions.adapters.clients import retries
from functions.adapters.journal import DynamoJournal, run_ids
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import RETENTION_SECONDS, Row, edge_key, key, run_key, text
from functions.adapters.pool import THREADS
from functions.domain.budget import CALL_SECONDS
from functions.domain.errors import DispatcherError, DispatchFailed, LeaseLost, TransientError, WindowBusy
from functions.domain.run import Others, Run
from functions.usecases.ports import Holder, Lease
from tests.contract.staged import (
    LEASE_SECONDS,
    NOW,
    WINDOW,
    Clock,
    Step,
    a_run,
    calls_of,
    cancelled,
    key_of,
    lost_answer,
    read_timeout,
    refusal,
    stage,
    taken_again,
)

EXPIRY = NOW + LEASE_SECONDS
FIRST = a_run("first", execution_id="execution-1")
RESUMED = a_run("first", execution_id="execution-2")
"""Another execution that goes on with the first one's run."""
SECOND = a_run("second")
BEFORE = a_run("before", WINDOW.previous)
AFTER = a_run("after", WINDOW.next)


def item_at(ledger: DynamoLedger, place: Row) -> Row | None:
    table = ledger.table
    item: Row | None = table.client.get_item(TableName=table.name, Key=place, ConsistentRead=True).get("Item")
    return item


def holder_of(ledger: DynamoLedger, edge: str) -> str | None:
    """The execution that an edge is held by."""
    item = item_at(ledger, edge_key(edge))
    return item["Holder"]["S"] if item else None


def test_a_run_takes_both_edges_of_its_window_and_is_listed(ledger: DynamoLedger) -> None:
    assert ledger.take(FIRST) is None
    assert [holder_of(ledger, edge) for edge in ("2026-09-17T15:00:00Z", "2026-09-17T16:00:00Z")] == ["execution-1"] * 2
    assert run_ids(ledger.table, WINDOW) == ["first"]


def test_a_second_starter_of_the_window_is_told_who_holds_it_and_until_when(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    assert ledger.take(SECOND) == Holder("first", EXPIRY)
    assert run_ids(ledger.table, WINDOW) == ["first"]


@pytest.mark.parametrize(
    ("neighbour", "free_edge"), [(BEFORE, WINDOW.end_text), (AFTER, WINDOW.start_text)], ids=["before", "after"]
)
def test_an_edge_of_a_neighbour_makes_the_window_busy_and_the_other_edge_is_not_taken(
    ledger: DynamoLedger, neighbour: Run, free_edge: str
) -> None:
    ledger.take(neighbour)
    with pytest.raises(WindowBusy, match=f"^the run of window {neighbour.window.start_text} holds an edge"):
        ledger.take(FIRST)
    assert holder_of(ledger, free_edge) is None
    assert run_ids(ledger.table, WINDOW) == []


@pytest.mark.parametrize("resumed", [FIRST, replace(FIRST, redrives=1)], ids=["again", "redriven"])
def test_the_execution_that_holds_a_window_may_take_it_again(ledger: DynamoLedger, resumed: Run) -> None:
    ledger.take(FIRST)
    assert ledger.take(resumed) is None
    assert [holder_of(ledger, edge) for edge in WINDOW.edges] == ["execution-1"] * 2


def test_another_execution_of_the_same_run_cannot_take_what_the_first_holds(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    assert ledger.take(RESUMED) == Holder("first", EXPIRY)
    assert [holder_of(ledger, edge) for edge in WINDOW.edges] == ["execution-1"] * 2
    entry = item_at(ledger, run_key(WINDOW, "first"))
    assert entry is not None
    assert entry["ExecutionId"] == text("execution-1")


@pytest.mark.parametrize("given_back", [True, False], ids=["given back", "its holder died"])
def test_another_execution_goes_on_with_the_run_once_it_is_free(
    ledger: DynamoLedger, clock: Clock, *, given_back: bool
) -> None:
    ledger.take(FIRST)
    if given_back:
        ledger.release(FIRST.lease_owner)
    else:
        clock.now = EXPIRY + 1
    assert ledger.take(RESUMED) is None
    assert [holder_of(ledger, edge) for edge in WINDOW.edges] == ["execution-2"] * 2
    with pytest.raises(LeaseLost):
        ledger.renew(FIRST)


def test_a_holder_is_named_by_its_run_and_not_by_its_execution(ledger: DynamoLedger) -> None:
    ledger.take(RESUMED)
    assert ledger.take(SECOND) == Holder("first", EXPIRY)


def test_taking_writes_edges_and_journal_in_one_transaction(ledger: DynamoLedger) -> None:
    calls = calls_of(ledger.table.client)
    ledger.take(FIRST)
    ((operation, params),) = calls
    assert operation == "TransactWriteItems"
    writes = [(kind, write) for each in params["TransactItems"] for kind, write in each.items()]
    assert [(kind, write.get("Key") or key_of(write["Item"])) for kind, write in writes] == [
        ("Update", key("edge#2026-09-17T15:00:00Z", "lease")),
        ("Update", key("edge#2026-09-17T16:00:00Z", "lease")),
        ("Update", key("window#2026-09-17T15:00:00Z", "run#first")),
        ("Put", key("execution#execution-1", "run")),
    ]


def test_windows_without_a_common_edge_run_side_by_side(ledger: DynamoLedger) -> None:
    assert ledger.take(BEFORE) is None
    assert ledger.take(AFTER) is None


def test_taking_again_what_the_run_holds_renews_it(ledger: DynamoLedger, clock: Clock) -> None:
    ledger.take(FIRST)
    clock.now += 100
    assert ledger.take(FIRST) is None
    assert ledger.take(SECOND) == Holder("first", EXPIRY + 100)


@pytest.mark.parametrize("lease_seconds", [LEASE_SECONDS, 0], ids=["a lease", "no time left"])
def test_a_lease_is_held_to_its_expiry_and_can_be_taken_a_second_later(
    ledger: DynamoLedger, clock: Clock, lease_seconds: int
) -> None:
    ledger.take(replace(FIRST, lease_seconds=lease_seconds))
    for seconds in (-1, 0):
        clock.now = NOW + lease_seconds + seconds
        assert ledger.take(SECOND) == Holder("first", NOW + lease_seconds)
    clock.now = NOW + lease_seconds + 1
    assert ledger.take(SECOND) is None
    assert holder_of(ledger, WINDOW.start_text) == "second"


def test_an_expired_lease_of_a_neighbour_does_not_make_the_window_busy(ledger: DynamoLedger, clock: Clock) -> None:
    ledger.take(AFTER)
    clock.now = EXPIRY + 1
    assert ledger.take(FIRST) is None
    assert holder_of(ledger, WINDOW.next.end_text) == "after"


def test_a_row_past_its_time_to_live_still_counts_while_it_can_be_read(
    ledger: DynamoLedger, journal: DynamoJournal, clock: Clock
) -> None:
    ledger.take(replace(FIRST, lease_seconds=2 * RETENTION_SECONDS))
    clock.now += RETENTION_SECONDS + 1
    assert ledger.take(SECOND) == Holder("first", NOW + 2 * RETENTION_SECONDS)
    assert journal.others(SECOND) == Others(own=("first",))


def test_renewing_begins_a_fresh_attempt_and_a_full_time(ledger: DynamoLedger, clock: Clock) -> None:
    ledger.take(FIRST)
    first = ledger.renew(FIRST)
    clock.now += 100
    second = ledger.renew(FIRST)
    assert (first.held_until, second.held_until) == (EXPIRY, EXPIRY + 100)
    assert first.attempt != second.attempt
    assert ledger.take(SECOND) == Holder("first", EXPIRY + 100)


def test_renewing_is_one_call(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    calls = calls_of(ledger.table.client)
    ledger.renew(FIRST)
    assert [call.operation for call in calls] == ["TransactWriteItems"]


def lose_to_a_second_run(ledger: DynamoLedger, clock: Clock) -> None:
    clock.now = EXPIRY + 1
    ledger.take(SECOND)


def lose_one_edge_to_a_neighbour(ledger: DynamoLedger, clock: Clock) -> None:
    clock.now = EXPIRY + 1
    ledger.take(BEFORE)


def give_back(ledger: DynamoLedger, _clock: Clock) -> None:
    ledger.release(FIRST.lease_owner)


@pytest.mark.parametrize("lose", [lose_to_a_second_run, lose_one_edge_to_a_neighbour, give_back])
def test_a_run_that_no_longer_holds_both_edges_cannot_renew(
    ledger: DynamoLedger, clock: Clock, lose: Callable[[DynamoLedger, Clock], None]
) -> None:
    ledger.take(FIRST)
    ledger.renew(FIRST)
    lose(ledger, clock)
    holders = [holder_of(ledger, edge) for edge in WINDOW.edges]
    with pytest.raises(LeaseLost, match=r"^the run no longer holds the edges of its window$"):
        ledger.renew(FIRST)
    assert [holder_of(ledger, edge) for edge in WINDOW.edges] == holders


def test_releasing_gives_back_only_the_runs_own_edges(ledger: DynamoLedger, clock: Clock) -> None:
    ledger.take(FIRST)
    clock.now = EXPIRY + 1
    ledger.take(AFTER)
    ledger.release(FIRST.lease_owner)
    ledger.release(FIRST.lease_owner)
    assert [holder_of(ledger, edge) for edge in WINDOW.edges] == [None, "after"]
    assert run_ids(ledger.table, WINDOW) == ["first"]


def test_an_execution_gives_back_nothing_that_another_execution_of_its_run_holds(
    ledger: DynamoLedger, clock: Clock
) -> None:
    ledger.take(FIRST)
    clock.now = EXPIRY + 1
    ledger.take(RESUMED)
    ledger.release(FIRST.lease_owner)
    assert [holder_of(ledger, edge) for edge in WINDOW.edges] == ["execution-2"] * 2


def test_an_attempt_is_confirmed_until_a_later_one_begins(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    first = ledger.renew(FIRST)
    calls = calls_of(ledger.table.client)
    ledger.confirm(first)
    ((operation, params),) = calls
    (request,) = params["RequestItems"].values()
    assert (operation, request["ConsistentRead"], len(request["Keys"])) == ("BatchGetItem", True, 3)
    second = ledger.renew(FIRST)
    with pytest.raises(LeaseLost, match=r"^a later attempt has begun$"):
        ledger.confirm(first)
    ledger.confirm(second)


def test_taking_the_leases_again_without_a_redrive_supersedes_nobody(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    lease = ledger.renew(FIRST, 1)
    assert ledger.take(FIRST) is None
    ledger.confirm(lease)


def test_a_redriven_execution_supersedes_every_lane_of_its_earlier_taking(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    leases = [ledger.renew(FIRST, lane) for lane in (0, 1)]
    again = taken_again(FIRST)
    assert ledger.take(again) is None
    for lease in leases:
        with pytest.raises(LeaseLost, match=r"^the run no longer holds the edges of its window$"):
            ledger.confirm(lease)
        with pytest.raises(LeaseLost, match=r"^the run no longer holds the edges of its window$"):
            ledger.renew(FIRST, lease.lane)
    for lane in (0, 1):
        ledger.confirm(ledger.renew(again, lane))


def test_an_execution_that_goes_on_elsewhere_supersedes_the_lanes_of_the_one_before(
    ledger: DynamoLedger, clock: Clock
) -> None:
    ledger.take(FIRST)
    lease = ledger.renew(FIRST, 1)
    clock.now = EXPIRY + 1
    ledger.take(RESUMED)
    with pytest.raises(LeaseLost, match=r"^the run no longer holds the edges of its window$"):
        ledger.confirm(lease)
    ledger.confirm(ledger.renew(RESUMED, 1))


def test_a_lane_has_a_fence_of_its_own_and_supersedes_no_other(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    first, second = (ledger.renew(FIRST, lane) for lane in (0, 1))
    assert (first.lane, second.lane) == (0, 1)
    for lease in (first, second):
        ledger.confirm(lease)
    later = ledger.renew(FIRST, 1)
    ledger.confirm(first)
    ledger.confirm(later)
    with pytest.raises(LeaseLost, match=r"^a later attempt has begun$"):
        ledger.confirm(second)
    for lease in (first, later):
        fence = item_at(ledger, key("fence#first", f"lane#{lease.lane}"))
        assert fence is not None
        assert fence["Attempt"] == text(lease.attempt)


def test_a_lane_that_renews_renews_the_runs_edges_for_all(ledger: DynamoLedger, clock: Clock) -> None:
    ledger.take(FIRST)
    first = ledger.renew(FIRST, 0)
    clock.now += 100
    ledger.renew(FIRST, 1)
    assert ledger.take(SECOND) == Holder("first", EXPIRY + 100)
    clock.now = first.held_until + 1
    ledger.confirm(first)


def test_an_attempt_is_not_confirmed_once_its_window_was_given_back(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    lease = ledger.renew(FIRST)
    ledger.release(FIRST.lease_owner)
    with pytest.raises(LeaseLost, match=r"^the run no longer holds the edges of its window$"):
        ledger.confirm(lease)


def test_an_attempt_that_never_began_is_not_confirmed(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    with pytest.raises(LeaseLost, match=r"^a later attempt has begun$"):
        ledger.confirm(Lease(FIRST, "attempt", EXPIRY))


def test_of_sixteen_runs_that_start_together_one_takes_the_window(ledger: DynamoLedger) -> None:
    runs = [a_run(f"run-{number}") for number in range(THREADS)]
    start = threading.Barrier(len(runs), timeout=10)

    def take(run: Run) -> Holder | None:
        start.wait()
        return ledger.take(run)

    with ThreadPoolExecutor(len(runs)) as threads:
        answers = list(threads.map(take, runs))
    winners = [run.run_id for run, answer in zip(runs, answers, strict=True) if answer is None]
    assert len(winners) == 1
    assert [answer for answer in answers if answer] == [Holder(winners[0], EXPIRY)] * (THREADS - 1)
    assert run_ids(ledger.table, WINDOW) == winners
    assert [holder_of(ledger, edge) for edge in WINDOW.edges] == winners * 2


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda ledger: ledger.take(FIRST), id="take"),
        pytest.param(lambda ledger: ledger.renew(FIRST), id="renew"),
    ],
)
def test_a_lease_whose_answer_was_lost_is_held(
    ledger: DynamoLedger, pauses: list[float], use: Callable[[DynamoLedger], object]
) -> None:
    ledger.take(FIRST)
    requests = stage(ledger.table.client, "TransactWriteItems", [lost_answer, lost_answer])
    use(ledger)
    assert (len(requests), len(pauses)) == (3, 2)
    assert [holder_of(ledger, edge) for edge in WINDOW.edges] == ["execution-1"] * 2


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        pytest.param(["None", "TransactionConflict", "None"], TransientError, id="conflict for ever"),
        pytest.param(["None", "ThrottlingError", "None"], TransientError, id="throttled for ever"),
        pytest.param(["ProvisionedThroughputExceeded", "None", "None"], TransientError, id="throughput exceeded"),
        pytest.param(["ConditionalCheckFailed", "None", "None"], TransientError, id="given back meanwhile"),
        pytest.param(["None", "ValidationError", "None"], DispatchFailed, id="anything else"),
    ],
)
@pytest.mark.usefixtures("pauses")
def test_a_cancelled_transaction_says_who_acts(
    ledger: DynamoLedger, codes: list[str], kind: type[DispatcherError]
) -> None:
    stage(ledger.table.client, "TransactWriteItems", itertools.repeat(cancelled(*codes)))
    with pytest.raises(DispatcherError, match=r"^take leases: ") as raised:
        ledger.take(FIRST)
    assert type(raised.value) is kind
    assert "secret" not in str(raised.value)


CONFLICT = cancelled("TransactionConflict", "None", "None")


def test_a_write_that_meets_another_lanes_is_tried_again_after_a_pause_that_is_counted(
    ledger: DynamoLedger, pauses: list[float]
) -> None:
    ledger.take(FIRST)
    retries.take()
    requests = stage(ledger.table.client, "TransactWriteItems", [CONFLICT] * 3)
    ledger.confirm(ledger.renew(FIRST, 1))
    assert len(requests) == 4
    assert [0 <= pause <= limit for pause, limit in zip(pauses, (0.2, 0.4, 0.8), strict=True)] == [True] * 3
    assert retries.take() == 3


def test_a_write_that_meets_others_for_ever_is_a_transient_error_after_a_bounded_wait(
    ledger: DynamoLedger, pauses: list[float]
) -> None:
    ledger.take(FIRST)
    retries.take()
    requests = stage(ledger.table.client, "TransactWriteItems", itertools.repeat(CONFLICT))
    with pytest.raises(TransientError, match=r"^renew leases: TransactionCanceledException \(request [\w-]+\)$"):
        ledger.renew(FIRST)
    assert (len(requests), len(pauses), retries.take()) == (6, 5, 5)
    assert sum(pauses) < CALL_SECONDS


def test_a_conflict_is_not_waited_for_where_a_condition_has_failed(ledger: DynamoLedger, pauses: list[float]) -> None:
    ledger.take(FIRST)
    step = cancelled("ConditionalCheckFailed", "TransactionConflict", "None")
    requests = stage(ledger.table.client, "TransactWriteItems", itertools.repeat(step))
    with pytest.raises(LeaseLost):
        ledger.renew(FIRST)
    assert (len(requests), pauses) == (1, [])


def test_sixteen_lanes_that_renew_together_all_hold_their_run(ledger: DynamoLedger) -> None:
    ledger.take(FIRST)
    start = threading.Barrier(THREADS, timeout=10)

    def renew(lane: int) -> Lease:
        start.wait()
        return ledger.renew(FIRST, lane)

    with ThreadPoolExecutor(THREADS) as threads:
        leases = list(threads.map(renew, range(THREADS)))
    for lease in leases:
        ledger.confirm(lease)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(refusal("ThrottlingException"), id="throttled"),
        pytest.param(refusal("TransactionConflictException"), id="conflict"),
        pytest.param(refusal("InternalServerError", 500), id="unavailable"),
        pytest.param(read_timeout, id="no answer in time"),
    ],
)
@pytest.mark.parametrize(
    ("operation", "use"),
    [
        pytest.param("TransactWriteItems", lambda ledger: ledger.renew(FIRST), id="renew"),
        pytest.param("DeleteItem", lambda ledger: ledger.release(FIRST.lease_owner), id="release"),
        pytest.param("BatchGetItem", lambda ledger: ledger.confirm(Lease(FIRST, "attempt", EXPIRY)), id="confirm"),
    ],
)
@pytest.mark.usefixtures("pauses")
def test_a_ledger_that_is_busy_or_silent_is_a_transient_error(
    ledger: DynamoLedger, step: Step, operation: str, use: Callable[[DynamoLedger], object]
) -> None:
    stage(ledger.table.client, operation, [step] * 20)
    with pytest.raises(TransientError):
        use(ledger)
