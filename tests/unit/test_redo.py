"""A redo over the fakes: where a missing version is looked for, and what a place in the list is."""

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from functions.domain.budget import PAGE_FUNCTION_SECONDS
from functions.domain.cursor import DATE_ATTRIBUTE
from functions.domain.errors import DispatchFailed, InvalidToken
from functions.domain.redo import Missing, Redo, offset_of, token_at
from functions.domain.run import Counts, Others, Path, Progress
from functions.usecases.redo_page import Count, count_page, redo_page
from functions.usecases.take_leases import take_leases
from tests.unit.fakes import DAY, World, a_run, booking, failed, window
from tests.unit.reconciling import FakeReports

pytestmark = pytest.mark.usefixtures("either_layout")

LIST: Final = "reports/2026-09-17/15/reconcile-1-missing.jsonl"
REDO: Final = Redo("reports/2026-09-17/15/reconcile-1.json", LIST, 3, "Ann", "late")


def listed(*records: tuple[str, str]) -> bytes:
    return "".join(f'[{{"RecordId":"{record}"}},"{DAY}","{time}"]\n' for record, time in records).encode()


def reports_of(world: World, *records: tuple[str, str]) -> FakeReports:
    return FakeReports(world.faults, objects={LIST: listed(*records)})


def redone(world: World, reports: FakeReports, **changes: Any) -> Progress:
    run = world.begun(a_run(path=Path.REDO, run_id="redo-1", **changes))
    progress = Progress()
    while progress.has_more and not progress.stopped:
        progress = redo_page(
            run,
            REDO,
            progress,
            Others(),
            reports=reports,
            dispatch=world.dispatch,
            deadline=world.clock() + PAGE_FUNCTION_SECONDS,
        )
    return progress


def test_exactly_the_listed_versions_are_dispatched_page_by_page() -> None:
    world = World(*(booking(f"R{n}", f"15:0{n}:00Z", MemberId=n) for n in range(1, 6)))
    reports = reports_of(world, ("R1", "15:01:00Z"), ("R3", "15:03:00Z"), ("R4", "15:09:00Z"))

    progress = redone(world, reports, page_size=2)

    assert world.record_ids() == [["R1"], ["R3"]]
    assert (progress.totals.pages, progress.totals.evaluated, progress.totals.dispatched) == (2, 3, 2)


def test_a_record_of_the_same_time_that_is_not_listed_is_left_alone() -> None:
    world = World(booking("R1"), booking("R2"))

    redone(world, reports_of(world, ("R2", "15:10:00Z")))

    assert world.record_ids() == [["R2"]]
    assert world.faults.counted["query"] == 1


def test_all_shards_of_the_date_are_asked() -> None:
    world = World(booking("R1", DateShard=f"{DAY}#2"))
    world.index.shards, world.index.date_attribute = 3, "DateShard"
    world.index.records = {
        key: {name: value for name, value in record.items() if name != DATE_ATTRIBUTE}
        for key, record in world.index.records.items()
    }

    redone(world, reports_of(world, ("R1", "15:10:00Z")), shards=3)

    assert world.record_ids() == [["R1"]]


def test_a_page_is_done_once_whoever_asks_for_it_again() -> None:
    world = World(booking("R1"))
    reports = reports_of(world, ("R1", "15:10:00Z"))
    first = redone(world, reports)

    assert redone(world, reports) == first
    assert len(world.queues.sent) == 1


THREE: Final = tuple((f"R{n}", f"15:0{n}:00Z") for n in range(1, 4))


def three() -> World:
    """Three groups of one booking each, all missing."""
    return World(*(booking(record, time, MemberId=n) for n, (record, time) in enumerate(THREE, 1)))


def taken_over(world: World) -> Progress:
    """From where another redo of the report goes on, when the one before has given its leases back."""
    other = a_run(path=Path.REDO, run_id="redo-1", execution_id="execution-2")
    world.ledger.release(replace(other, execution_id="redo-1").lease_owner)
    return take_leases(other, Progress(), world.ledger, world.ledger).progress


def test_a_redo_begins_at_the_start_where_none_of_its_report_was_there_before() -> None:
    assert taken_over(three()) == Progress()


def test_a_redo_counts_what_another_of_its_report_had_finished_as_dispatched_already() -> None:
    world = three()
    first = redone(world, reports_of(world, *THREE), page_size=2)

    progress = taken_over(world)

    assert first.totals == Counts(pages=2, evaluated=3, waiting=3, dispatched=3, groups=3, tasks=3)
    assert progress.totals == Counts(pages=2, evaluated=3, waiting=3, already_dispatched=3)
    assert progress == replace(first, totals=progress.totals)
    assert progress.has_more is False


def test_a_page_that_another_redo_has_left_unfinished_is_counted_by_the_one_that_finishes_it() -> None:
    world = three()
    reports = reports_of(world, *THREE)
    world.faults.before("finish plan", failed, nth=2)
    with pytest.raises(DispatchFailed):
        redone(world, reports, page_size=2)

    progress = taken_over(world)

    assert (progress.page, progress.totals.already_dispatched, progress.totals.dispatched) == (2, 2, 0)
    run = a_run(path=Path.REDO, run_id="redo-1", execution_id="execution-2", page_size=2)
    deadline = world.clock() + PAGE_FUNCTION_SECONDS
    ended = redo_page(run, REDO, progress, Others(), reports=reports, dispatch=world.dispatch, deadline=deadline)
    assert (ended.totals.already_dispatched, ended.totals.dispatched, ended.has_more) == (2, 1, False)


def test_a_page_that_a_redo_left_unfinished_is_left_to_do_even_if_all_of_it_was_sent() -> None:
    world = World(booking("R1"))
    reports = reports_of(world, ("R1", "15:10:00Z"))
    world.faults.before("finish plan", failed)
    with pytest.raises(DispatchFailed):
        redone(world, reports)

    counts = []
    for _ in range(2):
        run = a_run(path=Path.REDO, run_id="redo-1", execution_id="execution-2")
        count = count_page(run, REDO, Count(Progress()), journal=world.ledger, reports=reports, dispatch=world.dispatch)
        counts.append((count.to_state(0)["AnyLeft"], count.to_state(0)["AlreadyDispatched"]))
        redone(world, reports)

    assert counts == [(True, 0), (False, 1)]
    assert all(plan.finished for plan in world.ledger.plans_of("redo-1"))
    assert len(world.queues.sent) == 1


def test_counting_changes_nothing_and_holds_no_lease() -> None:
    world = World(booking("R1"))
    reports, before = reports_of(world, ("R1", "15:10:00Z")), world.snapshot()

    run = a_run(path=Path.REDO, run_id="redo-1", execution_id="execution-1")
    count = count_page(run, REDO, Count(Progress()), journal=world.ledger, reports=reports, dispatch=world.dispatch)

    assert world.snapshot() == before
    assert count.progress.totals.dispatched == 1
    assert count.samples == ('{"RecordId":"R1"}',)
    assert count.to_state(0)["NeedsApproval"] is True
    assert count.to_state(1)["NeedsApproval"] is False


def test_samples_do_not_fill_the_state() -> None:
    world = World(*(booking(f"R{n:02}") for n in range(30)), *(booking(f"{n}" * 300, "15:20:00Z") for n in range(9)))
    run = a_run(path=Path.REDO)

    few = reports_of(world, *((f"R{n:02}", "15:10:00Z") for n in range(30)))
    count = count_page(run, REDO, Count(Progress()), journal=world.ledger, reports=few, dispatch=world.dispatch)
    assert len(count.samples) == 20

    long = reports_of(world, *((f"{n}" * 300, "15:20:00Z") for n in range(9)))
    count = count_page(run, REDO, Count(Progress()), journal=world.ledger, reports=long, dispatch=world.dispatch)
    assert sum(map(len, count.samples)) <= 2000


def test_a_key_is_taken_as_it_stands_so_that_no_digit_is_lost() -> None:
    line = b'[{"Tenant":1.50,"Id":"a\\",b"},"2026-09-17","15:10:00Z"]\n'

    assert Missing.of_line(line) == Missing('{"Tenant":1.50,"Id":"a\\",b"}', "2026-09-17", "15:10:00Z")


@pytest.mark.parametrize(
    "line", [b"", b"{}\n", b'["R1","2026-09-17","15:10:00Z"]\n', b'[{},"2026-09-17"]\n', b'[{}, "a", "b"]\n', b"\xff\n"]
)
def test_what_is_no_line_of_the_list_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- JSON's own texts differ
        Missing.of_line(line)


@pytest.mark.parametrize(("date", "time"), [("2026-09-18", "15:10:00Z"), (DAY, "14:59:59Z"), (DAY, "16:00:01Z")])
def test_a_version_of_another_hour_is_not_the_window_s(date: str, time: str) -> None:
    assert not Missing("{}", date, time).is_of(window())
    assert Missing("{}", DAY, "16:00:00Z").is_of(window())


def test_a_place_in_the_list_is_read_as_it_was_written() -> None:
    assert offset_of(json.loads(json.dumps(token_at(1234)))) == 1234
    assert offset_of(None) == 0


@pytest.mark.parametrize("token", [{}, {"Offset": 7}, {"Offset": {"N": "-1"}}, {"Offset": {"S": "1"}}, "7"], ids=str)
def test_what_is_no_place_in_the_list_is_refused_before_anything_is_read(token: Any) -> None:
    world = World()
    run = world.begun(a_run(path=Path.REDO))
    with pytest.raises(InvalidToken):
        redo_page(
            run,
            REDO,
            replace(Progress(), token=token),
            Others(),
            reports=reports_of(world),
            dispatch=world.dispatch,
            deadline=world.clock() + PAGE_FUNCTION_SECONDS,
        )
    assert world.faults.counted["read report"] == 0
