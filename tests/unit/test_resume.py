"""A run that goes on in a new execution, from its plans alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from functions.domain.budget import PAGE_LEASE_SECONDS, WINDOW_LEASE_SECONDS
from functions.domain.errors import DispatchFailed, TransientError
from functions.domain.plan import Plan
from functions.domain.run import Counts, Path, Progress
from functions.usecases import dispatch_window
from functions.usecases.progress import progress_of
from functions.usecases.take_leases import Start, take_leases
from tests.unit.fakes import Died, World, a_run, booking, dead, failed, throttled, total, walk, window

pytestmark = pytest.mark.usefixtures("either_layout")

TOKEN = {"RecordId": {"S": "R1"}, "BookingDateUTC": {"S": "2026-09-17"}, "BookingTimeUTC": {"S": "15:01:00Z"}}


def five_pages() -> World:
    """A window of five groups, and with pages of one booking six pages."""
    return World(*(booking(f"R{n}", f"15:0{n}:00Z", MemberId=n) for n in range(1, 6)))


def fail(world: World, operation: str, nth: int, **changes: Any) -> None:
    """A first run, in pages of one booking, that fails at the n-th call of an operation."""
    world.faults.before(operation, failed, nth)
    with pytest.raises(DispatchFailed):
        walk(world, a_run(page_size=1, **changes))


def resume(world: World, **changes: Any) -> Start:
    run = a_run(**{"run_id": "run-2", "resume": True, **changes})
    return take_leases(run, Progress(), world.ledger, world.ledger)


# --- where a run goes on


def page(number: int, *, finished: bool = True, last: bool = False) -> Plan:
    return Plan(number, (), None if last else TOKEN, Counts(pages=1, evaluated=number), finished)


@pytest.mark.parametrize(
    ("plans", "progress"),
    [
        pytest.param([], Progress(), id="nothing was planned: from the start"),
        pytest.param([page(1, finished=False)], Progress(), id="the first page is unfinished: it is next"),
        pytest.param(
            [page(1), page(2)], Progress(3, TOKEN, totals=Counts(pages=2, evaluated=3)), id="behind the finished pages"
        ),
        pytest.param(
            [page(1), page(2, finished=False)],
            Progress(2, TOKEN, totals=Counts(pages=1, evaluated=1)),
            id="an unfinished page is next, and is not counted yet",
        ),
        pytest.param(
            [page(1), page(2, finished=False, last=True)],
            Progress(2, TOKEN, totals=Counts(pages=1, evaluated=1)),
            id="an unfinished last page is next as well",
        ),
        pytest.param(
            [page(1), page(2, last=True)],
            Progress(3, None, has_more=False, totals=Counts(pages=2, evaluated=3)),
            id="all pages are finished: nothing is left but the summary",
        ),
    ],
)
def test_a_run_goes_on_behind_its_finished_pages(plans: list[Plan], progress: Progress) -> None:
    assert progress_of(plans) == progress


# --- which run goes on


def test_a_failed_run_goes_on_under_its_own_id_with_path_and_page_size_as_they_were_and_the_limit_of_now() -> None:
    world = five_pages()
    fail(world, "query", 3, set_aside_limit=7)

    start = resume(world, page_size=500, set_aside_limit=100, path=Path.FULL, started_at="2026-09-18T09:00:00Z")

    first = a_run(page_size=1, set_aside_limit=100)
    assert start.run == replace(first, execution_id="run-2")
    assert (start.progress.page, start.progress.totals.dispatched) == (3, 2)
    assert start.others == replace(start.others, own=())
    assert world.ledger.runs[window(), "run-1"].execution_id == "run-2"
    assert world.ledger.runs[window(), "run-1"].entry.outcome is None


@pytest.mark.parametrize(("last", "now"), [(Path.FULL, Path.PAGED), (Path.PAGED, Path.FULL)])
def test_the_lease_fits_the_function_of_the_path_that_goes_on(last: Path, now: Path) -> None:
    world = five_pages()
    fail(world, "upload", 1, path=last)

    assert resume(world, path=now).run.lease_seconds == last.lease_seconds


def fails(world: World) -> None:
    fail(world, "send", 3)


def is_stopped(world: World) -> None:
    world.faults.after("finish plan", lambda: setattr(world, "kill_switch", True), nth=2)
    assert walk(world, a_run(page_size=1))["Outcome"] == "Stopped"
    world.kill_switch = False


def dies(world: World) -> None:
    world.faults.before("send", dead, nth=3)
    with pytest.raises(Died):
        walk(world, a_run(page_size=1))
    world.clock.advance(PAGE_LEASE_SECONDS + 1)


@pytest.mark.parametrize("ends", [fails, is_stopped, dies], ids=lambda ends: ends.__name__)
def test_a_run_that_did_not_come_to_its_end_is_completed_and_no_finished_page_is_read_again(
    ends: Callable[[World], None],
) -> None:
    world = five_pages()
    ends(world)
    read, planned = world.faults.counted["query"], len(world.ledger.stored)

    summary = walk(world, a_run(run_id="run-2", resume=True))

    assert (summary["Outcome"], summary["RunId"], summary["Pages"]) == ("Dispatched", "run-1", 6)
    assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (5, 0)
    assert world.faults.counted["query"] - read == 6 - planned, "what was planned is never queried again"
    assert world.record_ids() == [["R1"], ["R2"], ["R3"], ["R4"], ["R5"]]
    assert len(world.queues.sent) == 5
    assert summary.items() >= total(world.ledger.plans_of("run-1")).to_state().items()


def test_a_run_that_came_to_its_end_is_not_gone_on_with() -> None:
    world = five_pages()
    walk(world, a_run())

    start = resume(world)

    assert (start.run.run_id, start.progress, start.others.own) == ("run-2", Progress(), ("run-1",))


def test_where_there_was_no_run_a_resume_is_a_run_like_any_other() -> None:
    world = five_pages()

    start = resume(world)

    assert start.run == a_run(run_id="run-2")
    assert walk(world, a_run(run_id="run-2", resume=True))["Dispatched"] == 5


def test_a_run_of_which_only_the_end_is_missing_is_summed_up_and_reads_nothing() -> None:
    world = five_pages()
    fail(world, "conclude", 1)
    before = world.faults.counted["query"]

    summary = walk(world, a_run(run_id="run-2", resume=True))

    assert (summary["Outcome"], summary["Dispatched"], summary["Pages"]) == ("Dispatched", 5, 6)
    assert world.faults.counted["query"] == before


def test_a_resumed_run_that_fails_again_can_be_resumed_again() -> None:
    world = five_pages()
    fail(world, "send", 2)
    world.faults.before("send", failed, nth=2)
    with pytest.raises(DispatchFailed):
        walk(world, a_run(run_id="run-2", resume=True))

    summary = walk(world, a_run(run_id="run-3", resume=True))

    assert (summary["RunId"], summary["Dispatched"]) == ("run-1", 5)
    assert len(world.queues.sent) == 5


def test_a_resumed_run_drops_what_another_run_dispatched_meanwhile() -> None:
    world = five_pages()
    fail(world, "query", 3)
    walk(world, a_run(run_id="run-0"))

    summary = walk(world, a_run(run_id="run-2", resume=True))

    assert (summary["RunId"], summary["Dispatched"], summary["AlreadyDispatched"]) == ("run-1", 2, 3)
    assert len(world.queues.sent) == 5


# --- the full path


def test_the_full_path_goes_on_with_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_window, "CHUNK_RECORDS", 1)
    world = five_pages()
    fail(world, "upload", 3, path=Path.FULL)

    start = resume(world)
    summary = walk(world, a_run(run_id="run-2", resume=True))

    assert (start.run.path, start.run.lease_seconds, start.progress) == (Path.FULL, WINDOW_LEASE_SECONDS, Progress())
    assert (summary["Path"], summary["RunId"], summary["Dispatched"]) == ("full", "run-1", 5)
    assert len(world.queues.sent) == 5
    assert summary.items() >= total(world.ledger.plans_of("run-1")).to_state().items()


# --- who may


def test_a_run_that_is_still_worked_on_is_not_touched() -> None:
    world = five_pages()
    world.begun(a_run(page_size=1))
    before = world.snapshot()

    output = walk(world, a_run(run_id="run-2", resume=True))

    assert (output["Outcome"], output["RunId"]) == ("AlreadyRunning", "run-1")
    assert world.snapshot() == before


def test_the_execution_that_another_one_resumed_from_sends_nothing_more() -> None:
    world = five_pages()
    world.queues.batch_size = 1
    outputs: list[dict[str, Any]] = []

    def taken_over() -> None:
        world.clock.advance(PAGE_LEASE_SECONDS + 1)
        outputs.append(walk(world, a_run(run_id="run-2", resume=True)))

    world.faults.after("send", taken_over, nth=2)
    with pytest.raises(Exception, match="the lease ends before another call could"):
        walk(world, a_run())

    assert (outputs[0]["RunId"], outputs[0]["Dispatched"]) == ("run-1", 5)
    assert len(world.queues.sent) == 2 + 5, "what was sent and not noted is repeated by the one that took over"
    assert world.queues.needless == []
    assert world.ledger.runs[window(), "run-1"].entry.outcome == "Dispatched", "the loser's failure is not the run's"


def test_taking_the_place_again_after_a_lost_answer_takes_the_same_place() -> None:
    world = five_pages()
    fail(world, "query", 3)
    world.faults.after("take", throttled)
    with pytest.raises(TransientError):
        resume(world)

    start = resume(world)

    assert (start.run.run_id, start.progress.page) == ("run-1", 3)


def test_a_resume_asks_for_no_plans_of_the_finished_pages() -> None:
    world = five_pages()
    fail(world, "query", 3)
    before = world.faults.counted["read plan"]

    walk(world, a_run(run_id="run-2", resume=True))

    assert world.faults.counted["read plan"] - before == 4, "pages 3 to 6"
    assert world.faults.counted["plans"] == 0


# --- what the starter gives


def test_a_page_size_that_is_given_outweighs_that_of_the_last_run() -> None:
    world = five_pages()
    fail(world, "query", 3)

    start = resume(world, page_size=500, given=("PageSize", "Resume"))

    assert (start.run.run_id, start.run.page_size, start.progress.page) == ("run-1", 500, 3)


def test_another_path_that_is_given_is_a_new_run_which_skips_what_was_dispatched() -> None:
    world = five_pages()
    fail(world, "query", 3, path=Path.PAGED)

    start = resume(world, path=Path.FULL, given=("PaginationEnabled", "Resume"))

    assert (start.run.run_id, start.run.path, start.progress) == ("run-2", Path.FULL, Progress())
    assert start.others.own == ("run-1",)
