"""A page is decided once and finished once, under its leases: plans on a real engine, by a staged clock."""

import hashlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

import pytest

from functions.adapters import ledger as ledger_module
from functions.adapters import plan_codec
from functions.adapters.clients import retries
from functions.adapters.journal import DynamoJournal
from functions.adapters.ledger import MAX_BODY_BYTES, DynamoLedger
from functions.adapters.ledger_table import RETENTION_SECONDS, Row, key, plans_partition, text
from functions.adapters.task_data import S3TaskData
from functions.domain.booking import Group, RecordVersion, Route
from functions.domain.cursor import Token
from functions.domain.errors import ConfigurationError, LeaseLost, TransientError
from functions.domain.lane import FIRST_FOLD, FIRST_MERGE, LAYOUT
from functions.domain.pack import Layout
from functions.domain.plan import Plan
from functions.domain.run import Counts, Others
from functions.domain.staging import StagedIndex, StagedObject, bucket_of
from functions.domain.task import Task
from functions.usecases.ports import Lease, PlansOf, Span
from tests.contract.staged import (
    LEASE_SECONDS,
    NOW,
    WINDOW,
    Clock,
    a_plan,
    a_run,
    a_staged_object,
    alter_answers,
    calls_of,
    composed,
    key_of,
    limit_pages,
    lost_answer,
    members,
    record,
    stage,
    taken_again,
    uploaded,
)

RUN = a_run("first")
DYNAMODB_ITEM_BYTES: Final = 400 * 1024
TOKEN: Token = {
    "RecordId": {"B": "PP8="},
    "BookingDateUTC": {"S": "2026-09-17"},
    "BookingTimeUTC": {"S": "15:30:00Z"},
}


def begin(ledger: DynamoLedger, run_id: str = "first", lane: int = 0) -> Lease:
    """Take the window for a run, and begin an attempt in a lane."""
    run = a_run(run_id)
    assert ledger.take(run) is None
    return ledger.renew(run, lane)


def write(ledger: DynamoLedger, run_id: str, *plans: Plan) -> None:
    """Write plans as one whole run, which gives the window back."""
    run = begin(ledger, run_id).run
    for lane, of_lane in itertools.groupby(plans, lambda plan: plan.lane):
        lease = ledger.renew(run, lane)
        for plan in of_lane:
            ledger.draft_plan(lease, plan)()
    ledger.release(run.lease_owner)


def plans_of(ledger: DynamoLedger, *run_ids: str, span: Span | None = None, buckets: range | None = None) -> list[Plan]:
    """The plans of these runs of the window, or of all of them."""
    return list(ledger.plans(PlansOf(WINDOW, run_ids or None, span, buckets)))


def rows_of(ledger: DynamoLedger, run_id: str = "first") -> list[Row]:
    """Everything that is written of a run's plans."""
    rows: list[Row] = ledger.table.client.query(
        TableName=ledger.table.name,
        KeyConditionExpression="Pk = :pk",
        ExpressionAttributeValues={":pk": text(plans_partition(WINDOW, run_id))},
        ConsistentRead=True,
    )["Items"]
    return rows


def test_a_plan_is_read_back_as_it_was_written(ledger: DynamoLedger) -> None:
    plan = Plan(3, tuple(new.task for new in members(3)), TOKEN, Counts(1, 5, 4, 3, 1, 0, 3, 3))
    ledger.draft_plan(begin(ledger), plan)()
    assert ledger.read_plan(RUN, 3) == plan
    assert ledger.read_plan(RUN, 2) is None


@pytest.mark.parametrize(
    "ids",
    [
        ("100", '"100"', '"shop#1/mem 2"'),
        ('"a/../b"', '"x#y"', '"50%+1"'),
        (r'"\u65e5\u672c"', r'"mem-\u00e9"', r'"mem-e\u0301"'),
        (r'"s\ufffe"', r'"\u0001"', '"1234567890123456789012345678901234567.5"'),
    ],
)
def test_odd_ids_and_keys_survive_the_body(ledger: DynamoLedger, ids: tuple[str, str, str]) -> None:
    versions = tuple(RecordVersion(f'{{"Id":{each},"Rev":1}}', "2026-09-17", "15:00:00.5Z") for each in ids)
    tasks = tuple(Task(f"{route}-{ids[0]}", route, Group(*ids), WINDOW.next, versions) for route in Route)
    ledger.draft_plan(begin(ledger), Plan(1, tasks, None, Counts()))()
    plan = ledger.read_plan(RUN, 1)
    assert plan is not None
    assert plan.tasks == tasks


def test_equal_tasks_have_equal_bytes() -> None:
    assert plan_codec.encode([new.task for new in members(50)]) == plan_codec.encode([new.task for new in members(50)])


def test_a_plan_keeps_where_its_tasks_lie_in_a_pack_also_where_its_body_is_an_object(
    ledger: DynamoLedger, task_data: S3TaskData, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing = replace(task_data, layout=Layout.PACKED)
    new, alone = members(40), composed(record("R", MemberId={"S": "alone"}))
    plan = a_plan(1, [*new, *alone]).placing(uploaded(packing, new))
    assert [task.extent is None for task in plan.tasks] == [False] * 40 + [True]
    lease = begin(ledger)
    ledger.draft_plan(lease, plan)()
    assert ledger.read_plan(RUN, 1) == plan
    assert list(ledger.plans(PlansOf(RUN.window, None))) == [plan]
    monkeypatch.setattr(ledger_module, "MAX_BODY_BYTES", 100)
    ledger.draft_plan(lease, replace(plan, page=2))()
    assert ledger.read_plan(RUN, 2) == replace(plan, page=2)


def test_an_empty_plan_is_written_too_and_decides_its_page(ledger: DynamoLedger) -> None:
    ledger.draft_plan(begin(ledger), a_plan(1, next_token=TOKEN))()
    assert ledger.read_plan(RUN, 1) == a_plan(1, next_token=TOKEN)


def test_a_finished_plan_has_its_final_counts_and_comes_without_its_tasks(ledger: DynamoLedger) -> None:
    lease = begin(ledger)
    plan = a_plan(1, members(2), TOKEN)
    ledger.draft_plan(lease, plan)()
    final = replace(plan, counts=Counts(pages=1, dispatched=2))
    assert ledger.finish_plan(lease, final) == replace(final, finished=True)
    assert ledger.read_plan(RUN, 1) == replace(final, finished=True, tasks=())
    assert plans_of(ledger) == [replace(final, finished=True)]


def superseded(ledger: DynamoLedger, _clock: Clock) -> None:
    ledger.renew(RUN)


def taken_again_by_its_execution(ledger: DynamoLedger, _clock: Clock) -> None:
    assert ledger.take(taken_again(RUN)) is None


def expired(_ledger: DynamoLedger, clock: Clock) -> None:
    clock.now = NOW + LEASE_SECONDS


def taken_by_a_second_run(ledger: DynamoLedger, clock: Clock) -> None:
    clock.now = NOW + LEASE_SECONDS + 1
    begin(ledger, "second")


def one_edge_taken_by_a_neighbour(ledger: DynamoLedger, clock: Clock) -> None:
    clock.now = NOW + LEASE_SECONDS + 1
    ledger.take(a_run("after", WINDOW.next))
    clock.now = NOW  # even by a clock that is late


def given_back(ledger: DynamoLedger, _clock: Clock) -> None:
    ledger.release(RUN.lease_owner)


losses = pytest.mark.parametrize(
    "lose",
    [
        superseded,
        taken_again_by_its_execution,
        expired,
        taken_by_a_second_run,
        one_edge_taken_by_a_neighbour,
        given_back,
    ],
)


@losses
def test_a_plan_is_not_written_under_a_lease_that_is_lost(
    ledger: DynamoLedger, clock: Clock, lose: Callable[[DynamoLedger, Clock], None]
) -> None:
    """Nor is one that was made ready before, while the bodies of its tasks were uploaded."""
    create = ledger.draft_plan(begin(ledger), a_plan(1, members(2)))
    lose(ledger, clock)
    with pytest.raises(LeaseLost, match=r"^page 1 is no longer this attempt's to plan$"):
        create()
    assert rows_of(ledger) == []


@losses
def test_a_plan_is_not_finished_under_a_lease_that_is_lost(
    ledger: DynamoLedger, clock: Clock, lose: Callable[[DynamoLedger, Clock], None]
) -> None:
    lease = begin(ledger)
    plan = a_plan(1, members(2))
    ledger.draft_plan(lease, plan)()
    lose(ledger, clock)
    with pytest.raises(LeaseLost, match=r"^page 1 is no longer this attempt's to finish$"):
        ledger.finish_plan(lease, plan)
    assert ledger.read_plan(RUN, 1) == plan


@losses
def test_nothing_is_noted_under_a_lease_that_is_lost(
    ledger: DynamoLedger, clock: Clock, lose: Callable[[DynamoLedger, Clock], None]
) -> None:
    lease = begin(ledger)
    plan = a_plan(1, members(2))
    ledger.draft_plan(lease, plan)()
    before = rows_of(ledger)
    lose(ledger, clock)
    with pytest.raises(LeaseLost, match=r"^page 1 is no longer this attempt's$"):
        ledger.note_sent(lease, sent_of(plan, plan.tasks))
    assert rows_of(ledger) == before


def sent_of(plan: Plan, tasks: Iterable[Task]) -> Plan:
    return replace(plan, sent=frozenset(task.task_id for task in tasks))


def test_what_was_sent_of_a_plan_is_known_to_the_next_attempt(ledger: DynamoLedger) -> None:
    plan = a_plan(1, members(3), TOKEN)
    lease = begin(ledger)
    ledger.draft_plan(lease, plan)()
    for count in (1, 2):
        noted = sent_of(plan, plan.tasks[:count])
        ledger.note_sent(lease, noted)
        assert ledger.read_plan(RUN, 1) == noted
        assert plans_of(ledger) == [noted]
        assert noted.unsent == plan.tasks[count:]


def test_a_finished_plan_keeps_no_note_of_what_was_sent(ledger: DynamoLedger) -> None:
    plan = a_plan(1, members(3))
    lease = begin(ledger)
    ledger.draft_plan(lease, plan)()
    ledger.note_sent(lease, sent_of(plan, plan.tasks))
    ledger.finish_plan(lease, plan)
    (row,) = (row for row in rows_of(ledger) if row["Sk"]["S"].startswith("row#"))
    assert "Sent" not in row
    assert plans_of(ledger) == [replace(plan, finished=True)]


def test_an_attempt_of_another_lane_supersedes_none_of_this_one(ledger: DynamoLedger) -> None:
    lease = begin(ledger, lane=1)
    plan = a_plan(1, members(2), TOKEN, lane=1)
    ledger.draft_plan(lease, plan)()
    for lane in (0, 2):
        ledger.renew(RUN, lane)
    ledger.note_sent(lease, sent_of(plan, plan.tasks[:1]))
    assert ledger.finish_plan(lease, plan).finished


def test_the_same_page_of_two_lanes_has_two_plans_with_tasks_counts_and_ends_of_their_own(
    ledger: DynamoLedger,
) -> None:
    leases = [begin(ledger), ledger.renew(RUN, 1)]
    plans = [a_plan(1, members(2), TOKEN), a_plan(1, members(5), lane=1)]
    for lease, plan in zip(leases, plans, strict=True):
        ledger.draft_plan(lease, plan)()
    ledger.note_sent(leases[0], sent_of(plans[0], plans[0].tasks[:1]))
    ledger.finish_plan(leases[1], plans[1])
    assert ledger.read_plan(RUN, 1) == sent_of(plans[0], plans[0].tasks[:1])
    assert ledger.read_plan(RUN, 1, 1) == replace(plans[1], tasks=(), finished=True)
    assert ledger.read_plan(RUN, 1, 2) is None
    assert plans_of(ledger) == [sent_of(plans[0], plans[0].tasks[:1]), replace(plans[1], finished=True)]


def test_an_attempt_under_an_earlier_grant_changes_nothing_in_any_lane(ledger: DynamoLedger) -> None:
    leases = [begin(ledger), ledger.renew(RUN, 1)]
    plans = [a_plan(1, members(1), lane=lane) for lane in (0, 1)]
    for lease, plan in zip(leases, plans, strict=True):
        ledger.draft_plan(lease, plan)()
    before = rows_of(ledger)
    again = taken_again(RUN)
    ledger.take(again)
    ledger.renew(again, 0)
    for lease, plan in zip(leases, plans, strict=True):
        with pytest.raises(LeaseLost):
            ledger.draft_plan(lease, replace(plan, page=2))()
        with pytest.raises(LeaseLost):
            ledger.note_sent(lease, sent_of(plan, plan.tasks))
        with pytest.raises(LeaseLost):
            ledger.finish_plan(lease, plan)
    assert rows_of(ledger) == before
    assert [ledger.finish_plan(ledger.renew(again, plan.lane), plan).finished for plan in plans] == [True, True]


def test_a_page_without_a_plan_has_nothing_to_note(ledger: DynamoLedger) -> None:
    lease = begin(ledger)
    with pytest.raises(LeaseLost):
        ledger.note_sent(lease, sent_of(a_plan(1), [members(1)[0].task]))
    assert rows_of(ledger) == []


def test_the_note_of_ten_thousand_sent_tasks_fits_into_the_row(ledger: DynamoLedger) -> None:
    lease = begin(ledger)
    plan = a_plan(1)
    ledger.draft_plan(lease, plan)()
    ids = frozenset(hashlib.sha256(str(number).encode()).hexdigest() for number in range(10_000))
    ledger.note_sent(lease, replace(plan, sent=ids))
    (row,) = (row for row in rows_of(ledger) if "Sent" in row)
    assert len(row["Sent"]["B"]) == 320_000
    assert sum(map(len, row)) + len(row["Sent"]["B"]) + 5_000 < DYNAMODB_ITEM_BYTES
    noted = ledger.read_plan(RUN, 1)
    assert noted is not None
    assert noted.sent == ids


def test_a_lease_allows_writes_to_its_last_second(ledger: DynamoLedger, clock: Clock) -> None:
    lease = begin(ledger)
    clock.now = lease.held_until - 1
    ledger.draft_plan(lease, a_plan(1))()
    assert ledger.finish_plan(lease, a_plan(1)).finished


def test_a_plan_is_written_once_and_a_later_attempt_does_not_replace_it(ledger: DynamoLedger) -> None:
    decided = a_plan(1, members(2), TOKEN)
    ledger.draft_plan(begin(ledger), decided)()
    with pytest.raises(LeaseLost, match=r"^page 1 is no longer this attempt's to plan$"):
        ledger.draft_plan(ledger.renew(RUN), a_plan(1, members(5)))()
    assert ledger.read_plan(RUN, 1) == decided


def test_a_page_without_a_plan_cannot_be_finished(ledger: DynamoLedger) -> None:
    lease = begin(ledger)
    with pytest.raises(LeaseLost):
        ledger.finish_plan(lease, a_plan(1))
    assert rows_of(ledger) == []


def test_a_plan_whose_answer_was_lost_once_is_written_once(ledger: DynamoLedger, pauses: list[float]) -> None:
    lease = begin(ledger)
    plan = a_plan(1, members(2), TOKEN)
    requests = stage(ledger.table.client, "TransactWriteItems", [lost_answer])
    ledger.draft_plan(lease, plan)()
    assert (len(requests), len(pauses)) == (2, 1)
    assert ledger.read_plan(RUN, 1) == plan


@pytest.mark.usefixtures("pauses")
def test_an_attempt_that_finds_its_own_plan_has_written_it(ledger: DynamoLedger) -> None:
    lease = begin(ledger)
    plan = a_plan(1, members(2), TOKEN)
    stage(ledger.table.client, "TransactWriteItems", [lost_answer] * 3)
    with pytest.raises(TransientError, match=r"^create plan: ConnectionClosedError$"):
        ledger.draft_plan(lease, plan)()
    ledger.draft_plan(lease, plan)()
    assert ledger.read_plan(RUN, 1) == plan


@pytest.mark.usefixtures("pauses")
def test_a_plan_finished_again_after_its_answer_was_lost_stays_finished(ledger: DynamoLedger) -> None:
    lease = begin(ledger)
    plan = a_plan(1, members(2))
    ledger.draft_plan(lease, plan)()
    requests = stage(ledger.table.client, "TransactWriteItems", [lost_answer] * 4)
    with pytest.raises(TransientError, match=r"^finish plan: ConnectionClosedError$"):
        ledger.finish_plan(lease, plan)
    assert ledger.finish_plan(lease, plan) == replace(plan, finished=True)
    assert len(requests) == 5
    assert plans_of(ledger) == [replace(plan, finished=True)]


def at(time: str) -> list[Any]:
    return composed(record(f"at {time}", time))


@pytest.mark.parametrize(
    ("span", "pages"),
    [
        pytest.param(None, [1, 2, 3, 4], id="all"),
        pytest.param(Span("2026-09-17T15:15:00Z", "2026-09-17T15:20:00Z"), [2], id="up to its start"),
        pytest.param(Span("2026-09-17T15:30:00Z", "2026-09-17T15:35:00Z"), [2], id="from its end"),
        pytest.param(Span("2026-09-17T15:10:00Z", "2026-09-17T15:10:00Z"), [1], id="one moment"),
        pytest.param(Span("2026-09-17T15:10:01Z", "2026-09-17T15:19:59Z"), [], id="between two"),
        pytest.param(Span("2026-09-17T15:15:00Z", "2026-09-17T15:50:00Z"), [2, 4], id="around two"),
        pytest.param(Span("2026-09-17T15:25:00Z", "2026-09-17T15:26:00Z"), [2], id="within one"),
        pytest.param(Span("2026-09-16T00:00:00Z", "2026-09-16T23:59:59Z"), [], id="another date"),
    ],
)
def test_the_plans_with_a_task_in_a_span_are_found(ledger: DynamoLedger, span: Span | None, pages: list[int]) -> None:
    wide = a_plan(2, composed(record("R1", "15:30:00Z"), record("R2", "15:20:00Z")))
    plans = [a_plan(1, at("15:10:00Z"), TOKEN), wide, a_plan(3), a_plan(4, at("15:40:00Z"))]
    write(ledger, "first", *plans)
    assert plans_of(ledger, span=span) == [plans[page - 1] for page in pages]


BUCKETS_OF: Final = sorted(((bucket_of(new.task.group), new) for new in members(40)), key=itemgetter(0))
"""Forty tasks of a member each, with the bucket that the member lies in, and by it."""
LOW, MIDDLE, HIGH = (BUCKETS_OF[place] for place in (3, 20, 36))


@pytest.mark.parametrize(
    ("buckets", "pages"),
    [
        pytest.param(None, [1, 2, 3, 4], id="all"),
        pytest.param(range(256), [1, 2, 4], id="every bucket, and so every task"),
        pytest.param(range(LOW[0], LOW[0] + 1), [1, 2], id="its first"),
        pytest.param(range(HIGH[0], 256), [2, 4], id="its last"),
        pytest.param(range(LOW[0]), [], id="up to its first"),
        pytest.param(range(HIGH[0] + 1, 256), [], id="behind its last"),
        pytest.param(range(MIDDLE[0], MIDDLE[0] + 1), [2], id="within one"),
    ],
)
def test_the_plans_with_a_task_in_a_range_of_buckets_are_found(
    ledger: DynamoLedger, buckets: range | None, pages: list[int]
) -> None:
    assert LOW[0] < MIDDLE[0] < HIGH[0]
    plans = [a_plan(1, [LOW[1]]), a_plan(2, [HIGH[1], LOW[1]]), a_plan(3), a_plan(4, [HIGH[1]], lane=FIRST_MERGE)]
    write(ledger, "first", *plans)
    assert [plan.page for plan in plans_of(ledger, buckets=buckets)] == pages
    assert plans_of(ledger, buckets=buckets) == [plans[page - 1] for page in pages]


def test_a_span_and_a_range_of_buckets_are_both_kept_to(ledger: DynamoLedger) -> None:
    low, high = LOW[1], HIGH[1]
    write(ledger, "first", a_plan(1, [low]), a_plan(2, at("15:10:00Z")), a_plan(3, [high]))
    span = Span("2026-09-17T15:30:00Z", "2026-09-17T15:30:00Z")
    assert [plan.page for plan in plans_of(ledger, span=span)] == [1, 3]
    assert [plan.page for plan in plans_of(ledger, span=span, buckets=range(LOW[0] + 1))] == [1]


def test_a_staged_page_keeps_its_objects_index_and_is_finished_at_once(ledger: DynamoLedger) -> None:
    lease = begin(ledger, lane=3)
    plan = replace(a_plan(1, next_token=TOKEN, lane=3), finished=True, staged=a_staged_object("staging/1", "a", "b"))
    ledger.draft_plan(lease, plan)()
    read = ledger.read_plan(RUN, 1, 3)
    assert read == plan
    assert read is not None
    assert read.staged is not None
    assert (read.staged.key, sum(read.staged.lines)) == ("staging/1", 2)


def staged_plan(lane: int, page: int = 1) -> Plan:
    staged = a_staged_object(f"staging/{lane:04}-{page:06}", f"member {lane} {page}")
    return replace(a_plan(page, lane=lane), finished=True, staged=staged)


def keys_of(staged: Iterable[StagedObject]) -> list[str]:
    return [each.key for each in staged]


PAGES = ["staging/0000-000001", "staging/0000-000010", "staging/0239-000002"]
FOLDS = ["staging/1000-000001", "staging/1012-000001"]


@pytest.mark.parametrize("folds", [[], [FIRST_FOLD, FIRST_FOLD + 12]], ids=["pages", "folds"])
def test_what_is_staged_is_the_folds_if_there_are_any_else_the_pages_by_lane_and_page(
    ledger: DynamoLedger, folds: list[int]
) -> None:
    pages = [staged_plan(0), staged_plan(0, 10), a_plan(1, lane=239), staged_plan(239, 2)]
    others = [a_plan(1, members(1), lane=FIRST_MERGE), a_plan(1, lane=LAYOUT)]
    write(ledger, "first", *others, *(staged_plan(lane) for lane in folds), *reversed(pages))
    calls = calls_of(ledger.table.client)
    assert keys_of(ledger.staged(RUN)) == (FOLDS if folds else PAGES)
    assert [call.operation for call in calls] == ["Query"] * (1 if folds else 2)
    assert keys_of(ledger.staged(RUN, folded=False)) == PAGES
    first = next(ledger.staged(RUN))
    assert first == staged_plan(folds[0] if folds else 0).staged
    assert list(ledger.staged(a_run("second"))) == []


def test_what_is_staged_is_read_a_page_of_the_query_at_a_time(ledger: DynamoLedger) -> None:
    write(ledger, "first", *(staged_plan(0, page) for page in range(1, 6)))
    limit_pages(ledger.table.client, 2)
    calls = calls_of(ledger.table.client)
    read = [(each.key[-1], len(calls)) for each in ledger.staged(RUN, folded=False)]
    assert read == [("1", 1), ("2", 1), ("3", 2), ("4", 2), ("5", 3)]


def test_the_row_of_a_staged_page_holds_its_index_in_some_kilobytes_at_most(ledger: DynamoLedger) -> None:
    index = StagedIndex()
    for _ in index.noting(f"{number % 256:02x}{'x' * (number * 7 % 900)}\n".encode() for number in range(10_000)):
        pass
    plan = replace(a_plan(1), finished=True, staged=index.of("staging/full"))
    ledger.draft_plan(begin(ledger), plan)()
    (row,) = (row for row in rows_of(ledger) if "StagedIndex" in row)
    assert len(row["StagedIndex"]["B"]) < 2048
    assert keys_of(ledger.staged(RUN)) == ["staging/full"]


def test_the_plans_of_several_runs_come_by_run_and_page_and_those_of_one_run_alone(ledger: DynamoLedger) -> None:
    pages = [a_plan(page, at("15:10:00Z")) for page in range(1, 13)]
    write(ledger, "b", *reversed(pages))
    write(ledger, "a", pages[0])
    write(ledger, "c")
    assert plans_of(ledger) == [pages[0], *pages]
    assert plans_of(ledger, "b") == pages
    assert plans_of(ledger, "c") == []
    assert list(ledger.plans(PlansOf(WINDOW.next, None))) == []


def test_plans_are_found_beyond_one_page_of_the_query_and_one_batch_of_their_tasks(ledger: DynamoLedger) -> None:
    plans = [a_plan(page, at("15:10:00Z")) for page in range(1, 102)]
    write(ledger, "first", *plans)
    limit_pages(ledger.table.client, 60)
    calls = calls_of(ledger.table.client)
    assert plans_of(ledger, "first") == plans
    assert [call.operation for call in calls] == ["Query", "Query", "BatchGetItem", "BatchGetItem"]


def test_rows_are_read_a_batch_ahead_of_the_plans_and_never_all_at_once(ledger: DynamoLedger) -> None:
    write(ledger, "first", *(a_plan(page, at("15:10:00Z")) for page in range(1, 142)))
    limit_pages(ledger.table.client, 20)
    calls = calls_of(ledger.table.client)
    stream = ledger.plans(PlansOf(WINDOW, ("first",)))
    queries_at = {
        plan.page: sum(call.operation == "Query" for call in calls)
        for plan in stream
        if plan.page in {1, 100, 101, 141}
    }
    assert queries_at == {1: 5, 100: 5, 101: 8, 141: 8}


def test_plans_are_decoded_one_at_a_time_and_fetched_a_batch_at_a_time(
    ledger: DynamoLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = [a_plan(page, at("15:10:00Z")) for page in range(1, 103)]
    write(ledger, "first", *plans)
    decoded: list[bytes] = []
    decode = plan_codec.decode

    def noted(body: bytes) -> tuple[Task, ...]:
        decoded.append(body)
        return decode(body)

    monkeypatch.setattr(plan_codec, "decode", noted)
    calls = calls_of(ledger.table.client)
    stream = ledger.plans(PlansOf(WINDOW, ("first",)))
    assert (decoded, calls) == ([], [])
    for number, plan in enumerate(plans, start=1):
        assert next(stream) == plan
        assert len(decoded) == number
        assert sum(call.operation == "BatchGetItem" for call in calls) == (1 if number <= 100 else 2)
    assert next(stream, None) is None


def test_the_plans_of_several_windows_and_runs_come_in_the_order_asked_for_and_in_one_batch(
    ledger: DynamoLedger,
) -> None:
    after = replace(a_run("after"), window=WINDOW.next)
    plan = a_plan(1, at("16:00:00Z"))
    write(ledger, "a", plan)
    write(ledger, "b", plan, a_plan(2, at("15:10:00Z")))
    ledger.take(after)
    ledger.draft_plan(ledger.renew(after), replace(plan, page=7))()
    edge = Span("2026-09-17T16:00:00Z", "2026-09-17T16:00:00Z")
    calls = calls_of(ledger.table.client)
    wanted = (PlansOf(WINDOW.next, ("after",), edge), PlansOf(WINDOW, ("b", "a"), edge), PlansOf(WINDOW, (), edge))
    assert [found.page for found in ledger.plans(*wanted)] == [7, 1, 1]
    assert [call.operation for call in calls] == ["Query"] * 3 + ["BatchGetItem"]


def test_runs_that_are_not_named_are_asked_for(ledger: DynamoLedger) -> None:
    write(ledger, "a", a_plan(1, at("15:10:00Z")))
    write(ledger, "b")
    calls = calls_of(ledger.table.client)
    assert list(ledger.plans(PlansOf(WINDOW, None))) == [a_plan(1, at("15:10:00Z"))]
    runs, plans_of_each = ["Query"], ["Query", "Query"]
    assert [call.operation for call in calls] == [*runs, *plans_of_each, "BatchGetItem"]


def test_no_plan_is_no_read_of_tasks(ledger: DynamoLedger) -> None:
    calls = calls_of(ledger.table.client)
    assert list(ledger.plans(PlansOf(WINDOW, ()), PlansOf(WINDOW, ("none",)))) == []
    assert [call.operation for call in calls] == ["Query"]


def test_tasks_that_a_batch_leaves_unprocessed_are_asked_for_again_after_a_pause(
    ledger: DynamoLedger, pauses: list[float]
) -> None:
    plans = [a_plan(page, at("15:10:00Z")) for page in range(1, 4)]
    write(ledger, "first", *plans)
    alter_answers(ledger.table.client, "BatchGetItem", [leave_one] * 2)
    retries.take()
    calls = calls_of(ledger.table.client)
    assert plans_of(ledger, "first") == plans
    assert [call.operation for call in calls] == ["Query", *["BatchGetItem"] * 3]
    assert [0 <= pause <= limit for pause, limit in zip(pauses, (0.2, 0.4), strict=True)] == [True, True]
    assert retries.take() == 2


def test_tasks_that_stay_unprocessed_are_a_transient_error_after_a_bounded_wait(
    ledger: DynamoLedger, pauses: list[float]
) -> None:
    write(ledger, "first", a_plan(1, at("15:10:00Z")))
    alter_answers(ledger.table.client, "BatchGetItem", [leave_one] * 100)
    with pytest.raises(TransientError, match=r"^read plans: keys left unprocessed$"):
        plans_of(ledger)
    assert len(pauses) == 9
    assert all(0 <= pause <= 2 for pause in pauses)


def test_tasks_that_are_gone_from_beside_their_row_are_a_configuration_error_that_names_the_plan(
    ledger: DynamoLedger,
) -> None:
    write(ledger, "first", a_plan(1, at("15:10:00Z")), a_plan(2, at("15:10:00Z")))
    ledger.table.client.delete_item(
        TableName=ledger.table.name, Key=key(plans_partition(WINDOW, "first"), "body#0000#000002")
    )
    named = r"^read plans: plan#2026-09-17T15:00:00Z#first has a row and no body#0000#000002$"
    with pytest.raises(ConfigurationError, match=named):
        plans_of(ledger)
    with pytest.raises(ConfigurationError, match=named):
        ledger.read_plan(RUN, 2)


def test_an_object_that_a_plan_points_at_and_that_is_gone_is_a_configuration_error(ledger: DynamoLedger) -> None:
    with pytest.raises(ConfigurationError, match=r"^GetObject: NoSuchKey "):
        ledger.bodies.get_plan_body("plans/gone")


def leave_one(parsed: dict[str, Any]) -> None:
    ((table, items),) = parsed["Responses"].items()
    left = items.pop()
    parsed["UnprocessedKeys"] = {table: {"Keys": [{"Pk": left["Pk"], "Sk": left["Sk"]}], "ConsistentRead": True}}


def test_a_body_too_large_for_an_item_becomes_an_object_and_comes_back(ledger: DynamoLedger) -> None:
    lease = begin(ledger)
    digests = (hashlib.sha256(str(number).encode()).hexdigest() for number in range(6000))
    group = Group("1001", "2001", "3001")
    tasks = tuple(
        Task(each, Route.POINT, group, WINDOW, (RecordVersion(each[::-1], "2026-09-17", "15:30:00Z"),))
        for each in digests
    )
    plan = Plan(1, tasks, None, Counts())
    body = plan_codec.encode(tasks)
    assert len(body) > MAX_BODY_BYTES
    ledger.draft_plan(lease, plan)()
    (row,) = rows_of(ledger)
    assert row["BodyKey"] == text(f"plans/{hashlib.sha256(body).hexdigest()}")
    assert ledger.bodies.get_plan_body(row["BodyKey"]["S"]) == body
    assert ledger.read_plan(RUN, 1) == plan
    ledger.finish_plan(lease, plan)
    assert plans_of(ledger) == [replace(plan, finished=True)]


def test_a_plan_past_its_time_to_live_still_counts_while_it_can_be_read(ledger: DynamoLedger, clock: Clock) -> None:
    plan = a_plan(1, members(1))
    write(ledger, "first", plan)
    clock.now += RETENTION_SECONDS + 1
    assert ledger.read_plan(RUN, 1) == plan
    assert plans_of(ledger) == [plan]


def test_every_row_expires_at_least_ninety_days_after_it_was_written(ledger: DynamoLedger) -> None:
    ledger.draft_plan(begin(ledger), a_plan(1, members(1)))()
    rows = ledger.table.client.scan(TableName=ledger.table.name)["Items"]
    kinds = {row["Pk"]["S"].partition("#")[0] for row in rows}
    assert kinds == {"edge", "execution", "fence", "window", "plan"}
    assert all(int(row["ExpiresAt"]["N"]) >= NOW + 90 * 24 * 3600 for row in rows)


def test_every_read_of_the_ledger_is_consistent(ledger: DynamoLedger, journal: DynamoJournal) -> None:
    ledger.draft_plan(begin(ledger), a_plan(1, members(1)))()
    calls = calls_of(ledger.table.client)
    journal.others(RUN)
    journal.last_run(WINDOW)
    list(journal.outlines(RUN.lease_owner))
    journal.in_doubt(RUN, Others(own=("second",)))
    journal.owner_of(RUN.execution_id)
    ledger.read_plan(RUN, 1)
    list(ledger.staged(RUN))
    plans_of(ledger)
    read = [request for call in calls for request in call.params.get("RequestItems", {"": call.params}).values()]
    assert {call.operation for call in calls} == {"Query", "GetItem", "BatchGetItem"}
    assert all(request["ConsistentRead"] is True for request in read)


def test_a_plan_and_its_tasks_are_written_together_under_both_edges_and_the_fence(ledger: DynamoLedger) -> None:
    lease = begin(ledger)
    calls = calls_of(ledger.table.client)
    ledger.draft_plan(lease, a_plan(1, members(1)))()
    ((operation, params),) = calls
    assert operation == "TransactWriteItems"
    writes = [(kind, write) for each in params["TransactItems"] for kind, write in each.items()]
    assert [(kind, key_of(write.get("Key") or write["Item"])) for kind, write in writes] == [
        ("Put", key("plan#2026-09-17T15:00:00Z#first", "row#0000#000001")),
        ("Put", key("plan#2026-09-17T15:00:00Z#first", "body#0000#000001")),
        ("ConditionCheck", key("edge#2026-09-17T15:00:00Z", "lease")),
        ("ConditionCheck", key("edge#2026-09-17T16:00:00Z", "lease")),
        ("ConditionCheck", key("fence#first", "lane#0")),
    ]
