import pytest

from functions.domain.run import Path, Progress
from functions.usecases import dispatch_window
from tests.unit.fakes import WAYS, World, a_run, booking, throttled, total, walk


@pytest.fixture
def five() -> World:
    return World(*(booking(f"R{n}", f"15:0{n}:00Z", MemberId=n) for n in range(1, 6)))


def switch_on(world: World) -> None:
    world.kill_switch = True


@pytest.mark.parametrize("page", [1, 2, 3, 6])
def test_no_page_is_read_once_the_switch_is_on_and_the_summary_says_where_it_stopped(five: World, page: int) -> None:
    if page == 1:
        switch_on(five)
    else:
        five.faults.after("finish plan", lambda: switch_on(five), nth=page - 1)

    summary = walk(five, a_run(page_size=1))

    assert (summary["Outcome"], summary["Page"], summary["Pages"]) == ("Stopped", page, page - 1)
    assert summary["Token"] == (five.ledger.plans_of("run-1")[-1].next_token if page > 1 else None)
    assert five.faults.counted["query"] == page - 1
    assert five.record_ids() == [[f"R{n}"] for n in range(1, page)], "what was created stays"
    assert summary["Waiting"] == summary["Dispatched"] == page - 1
    assert five.ledger.edges == {}, "the window is given back"


def test_the_switch_is_read_fresh_before_each_page(five: World) -> None:
    walk(five, a_run(page_size=2))

    assert five.faults.counted["stop"] == five.faults.counted["query"] == 3


def test_the_journal_says_that_the_run_was_stopped(five: World) -> None:
    switch_on(five)

    walk(five, a_run())

    (row,) = five.ledger.runs.values()
    assert row.entry.outcome == "Stopped"
    assert five.notifier.told == [], "somebody wanted it so"


def test_a_stopped_run_changes_nothing_and_its_page_is_not_begun(five: World) -> None:
    run = five.begun(a_run())
    switch_on(five)
    before = five.snapshot()

    assert five.attempt(run) == Progress(stopped=True)
    assert five.snapshot() == before


@pytest.mark.parametrize("path", WAYS)
def test_a_dry_run_is_stopped_as_well(five: World, path: Path) -> None:
    switch_on(five)

    assert walk(five, a_run(dry_run=True, path=path))["Outcome"] == "Stopped"
    assert five.faults.counted["query"] == 0


@pytest.mark.parametrize("path", WAYS)
def test_a_resumed_run_is_stopped_as_long_as_the_switch_is_on_and_then_goes_on(five: World, path: Path) -> None:
    switch_on(five)
    walk(five, a_run(path=path))
    walk(five, a_run(run_id="run-2", resume=True))
    five.kill_switch = False

    summary = walk(five, a_run(run_id="run-3", resume=True))

    assert (summary["Outcome"], summary["RunId"], summary["Dispatched"]) == ("Dispatched", "run-1", 5)
    assert "Page" not in summary


def test_a_switch_that_cannot_be_read_is_tried_again_and_never_guessed(five: World) -> None:
    five.faults.before("stop", throttled, nth=2)

    assert walk(five, a_run(page_size=2), retries=1)["Dispatched"] == 5


# --- the full path


@pytest.fixture
def a_chunk_for_each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_window, "CHUNK_RECORDS", 1)


@pytest.mark.usefixtures("a_chunk_for_each_group")
def test_on_the_full_path_no_chunk_is_begun_once_the_switch_is_on(five: World) -> None:
    five.faults.after("finish plan", lambda: switch_on(five), nth=2)

    summary = walk(five, a_run(path=Path.FULL))

    assert (summary["Outcome"], summary["Dispatched"], summary["Tasks"]) == ("Stopped", 2, 2)
    assert five.record_ids() == [["R1"], ["R2"]]
    assert summary.items() >= total(five.ledger.plans_of("run-1")).to_state().items()


@pytest.mark.usefixtures("a_chunk_for_each_group")
def test_on_the_full_path_a_stopped_resume_still_counts_what_was_dispatched_before(five: World) -> None:
    five.faults.after("finish plan", lambda: switch_on(five), nth=2)
    walk(five, a_run(path=Path.FULL))

    summary = walk(five, a_run(run_id="run-2", resume=True))

    assert (summary["Outcome"], summary["Dispatched"]) == ("Stopped", 2)


@pytest.mark.usefixtures("a_chunk_for_each_group")
def test_on_the_full_path_resume_goes_on_behind_the_chunks_that_were_dispatched(five: World) -> None:
    five.faults.after("finish plan", lambda: switch_on(five), nth=2)
    walk(five, a_run(path=Path.FULL))
    five.kill_switch = False

    summary = walk(five, a_run(run_id="run-2", resume=True))

    assert (summary["Outcome"], summary["Dispatched"], summary["Evaluated"]) == ("Dispatched", 5, 5)
    assert five.record_ids() == [["R1"], ["R2"], ["R3"], ["R4"], ["R5"]]
    assert len(five.queues.sent) == 5


@pytest.mark.parametrize("path", WAYS)
def test_a_page_that_was_finished_though_its_answer_was_lost_is_counted_by_the_stop(five: World, path: Path) -> None:
    run = five.begun(a_run(path=path, page_size=2))
    five.attempt(run)
    switch_on(five)

    progress = five.attempt(run)  # again from the state before, as a retry whose first answer was lost

    plans = five.ledger.plans_of("run-1")
    assert progress.totals == total(plans)
    assert (progress.stopped, progress.has_more) == ((True, True) if path is Path.PAGED else (False, False))
    assert progress.page == len(plans) + 1
