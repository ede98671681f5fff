from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.errors import ConfigurationError, DispatchFailed, TooManyBadRecords
from functions.domain.lane import FIRST_FOLD, FIRST_MERGE, LAYOUT, Step
from functions.domain.run import Others, Path, Progress, Run
from functions.usecases import lay_out_lanes as laying_out
from functions.usecases.lay_out_lanes import Layout, lay_out_lanes
from tests.unit.fakes import (
    DAY,
    Died,
    Execution,
    World,
    a_run,
    booking,
    dead,
    failed,
    throttled,
    total,
    walk,
)
from tests.unit.test_every_path import cases, dispatched, world_of

LANES: dict[str, dict[str, Any]] = {
    "two slices": {"slices": 2},
    "grouped": {"path": Path.GROUPED},
    "grouped in three slices": {"path": Path.GROUPED, "slices": 3},
    "grouped, folded": {"path": Path.GROUPED, "page_size": 1},
}
STEPS = {"take": 1, "others": 1, "in doubt": 1, "release": 1, "conclude": 1, "stop": 1}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several merge tasks, and folds where more than three pages are staged."""
    monkeypatch.setattr(laying_out, "MERGE_RECORDS", 2)
    monkeypatch.setattr(laying_out, "FOLD_OBJECTS", 3)


@pytest.fixture
def world() -> World:
    """Seven bookings of three members over the hour."""
    return World(*(booking(f"R{n}", f"15:{n * 8:02}:00Z", MemberId=n % 3) for n in range(1, 8)))


def laid_out(world: World, run: Run, others: Others = Others()) -> Layout:  # noqa: B008 -- frozen
    return lay_out_lanes(run, others, world.dispatch, world.ledger, world.clock() + 300)


def numbers(layout: Layout) -> list[tuple[Step, int]]:
    return [(step, progress.lane) for step, progress in layout.lanes]


# --- what is laid out


def test_a_paged_run_has_a_lane_for_each_slice(world: World) -> None:
    layout = laid_out(world, world.begun(a_run(slices=3, concurrency=8)))

    assert numbers(layout) == [(Step.DISPATCH, 0), (Step.DISPATCH, 1), (Step.DISPATCH, 2)]
    assert (layout.concurrency, layout.progress.has_more) == (8, True)


def test_a_grouped_run_stages_then_folds_then_merges(world: World) -> None:
    run = world.begun(a_run(path=Path.GROUPED, page_size=1))
    seen: list[set[Step]] = []
    while (layout := laid_out(world, run)).lanes:
        seen.append({step for step, _ in layout.lanes})
        for step, progress in layout.lanes:
            world.attempt_lane(step, run, progress, Others())

    stages, [*rest] = [steps for steps in seen if steps == {Step.STAGE}], seen[-2:]
    assert len(stages) == 8
    assert rest == [{Step.FOLD}, {Step.MERGE}]
    assert layout.progress == Progress(has_more=False, totals=layout.progress.totals)
    assert layout.progress.totals.dispatched == 7


def test_how_staged_pages_are_merged_is_decided_once_and_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.begun(a_run(path=Path.GROUPED))
    world.attempt_lane(Step.STAGE, run, Progress(), Others())
    before = laid_out(world, run)
    monkeypatch.setattr(laying_out, "MERGE_RECORDS", 100)

    assert numbers(laid_out(world, run)) == numbers(before)
    assert [progress.token for _, progress in laid_out(world, run).lanes] == [
        progress.token for _, progress in before.lanes
    ]
    assert [plan.lane for plan in world.ledger.plans_of("run-1")] == [0, LAYOUT]


def test_a_small_hour_is_one_merge_task(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laying_out, "MERGE_RECORDS", 50_000)
    run = world.begun(a_run(path=Path.GROUPED))
    world.attempt_lane(Step.STAGE, run, Progress(), Others())

    assert numbers(laid_out(world, run)) == [(Step.MERGE, FIRST_MERGE)]


def test_few_staged_pages_are_not_folded(world: World) -> None:
    run = world.begun(a_run(path=Path.GROUPED, page_size=3))
    walk(world, run)

    assert not [plan for plan in world.ledger.plans_of("run-1") if FIRST_FOLD <= plan.lane < FIRST_MERGE]


def test_a_lane_that_has_handed_over_goes_on_behind_its_last_page(world: World) -> None:
    run = world.begun(a_run(page_size=2, page_budget=2))
    progress = Progress()
    while not progress.hands_over(run.page_budget):
        progress = world.attempt(run, progress)

    layout = laid_out(world, run)

    assert [(step, lane.page, lane.token) for step, lane in layout.lanes] == [(Step.DISPATCH, 3, progress.token)]


def test_a_lane_s_execution_is_named_the_same_when_it_is_laid_out_again_and_otherwise_when_the_run_goes_on(
    world: World,
) -> None:
    run = world.begun(a_run(slices=2, run_id="x" * 97))
    [first, second] = [lane["Name"] for lane in laid_out(world, run).to_state(run, 1)["Lanes"]]
    again = [lane["Name"] for lane in laid_out(world, run).to_state(run, 1)["Lanes"]]
    redriven = a_run(slices=2, run_id="x" * 97, redrives=1)
    others = {
        lane["Name"]
        for run_, rounds in ((run, 2), (redriven, 1), (a_run(slices=2, run_id="y"), 1))
        for lane in laid_out(world, run).to_state(run_, rounds)["Lanes"]
    }

    assert again == [first, second]
    assert len({first, second} | others) == 8
    assert all(len(name) <= 80 for name in (first, second, *others))


def test_lanes_go_one_after_the_other_where_a_task_is_in_doubt_that_may_reach_into_several(world: World) -> None:
    world.faults.before("send", dead)
    with pytest.raises(Died):
        walk(world, a_run(run_id="dead"))
    world.clock.advance(1000)
    run = world.begun(a_run(run_id="run-2", slices=3, concurrency=8))

    assert laid_out(world, run, world.ledger.others(run)).concurrency == 1


def test_a_task_in_doubt_that_reaches_into_several_slices_is_sent_once() -> None:
    world = World(*(booking(f"R{n}", f"15:{n}0:00Z") for n in range(1, 6)))
    world.faults.before("finish plan", dead)
    with pytest.raises(Died):
        walk(world, a_run(run_id="dead", path=Path.FULL))
    world.clock.advance(1000)
    assert len(world.queues.sent) == 1

    summary = walk(world, a_run(run_id="run-2", slices=3, concurrency=8))

    assert len(world.queues.sent) == 2, "in doubt, so once more, and no more"
    assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (1, 4)
    world.must_be_dispatched_once()


def test_all_lanes_together_are_held_to_the_set_aside_limit() -> None:
    world = World(*(booking(f"R{n}", f"15:{n}0:00Z", ShopId=None) for n in range(6)))

    with pytest.raises(TooManyBadRecords, match="6 records set aside, limit 3"):
        walk(world, a_run(slices=6, set_aside_limit=3))


def test_the_kill_switch_stops_lanes_and_resume_goes_on(world: World) -> None:
    world.faults.after("finish plan", lambda: setattr(world, "kill_switch", True), nth=2)
    stopped = walk(world, a_run(slices=3, page_size=1))
    assert stopped["Outcome"] == "Stopped"
    world.kill_switch = False

    summary = walk(world, a_run(run_id="run-2", resume=True))

    assert (summary["Outcome"], summary["RunId"], summary["Dispatched"]) == ("Dispatched", "run-1", 7)
    assert len(world.queues.sent) == 7


# --- whatever is laid out dispatches the same


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "slices": draw(st.integers(1, 5)),
        "shards": draw(st.integers(0, 3)),
        "page_size": draw(st.sampled_from([1, 2, 3, 1000])),
        "page_budget": draw(st.integers(1, 4)),
    }


def sharded(made: list[Any], shards: int) -> World:
    """The bookings in an index of so many shards."""
    world = World()
    world.index.shards = shards
    for case in made:
        shard = f"#{int(case.record['RecordId']['S'][1:]) % shards}" if shards else ""
        world.index.put({**case.record, "BookingDateUTC": {"S": f"{DAY}{shard}"}})
    return world


def test_a_run_that_was_planned_for_another_index_is_refused_before_it_finds_nothing(world: World) -> None:
    world.index.shards = 4

    with pytest.raises(ConfigurationError, match="planned for 0 shards, the index has 4"):
        walk(world, a_run())


@settings(max_examples=60)
@given(cases(), layouts(), st.integers(1, 3), st.integers(1, 8))
def test_grouping_by_window_gives_exactly_the_tasks_of_the_full_path(
    made: list[Any], layout: dict[str, Any], fold: int, target: int
) -> None:
    full, grouped = sharded(made, layout["shards"]), sharded(made, layout["shards"])
    expected = walk(full, a_run(path=Path.FULL, shards=layout["shards"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laying_out, "FOLD_OBJECTS", fold)
        patch.setattr(laying_out, "MERGE_RECORDS", target)

        summary = walk(grouped, a_run(path=Path.GROUPED, **layout))

    assert grouped.task_data.bodies == full.task_data.bodies, "the same ids, the same bodies"
    assert sorted(grouped.queues.sent) == sorted(full.queues.sent)
    for name in ("Outcome", "Evaluated", "Waiting", "Dispatched", "SetAside", "Groups", "Tasks"):
        assert summary[name] == expected[name]
    assert grouped.staging.objects == {}, "what was staged is gone"
    assert summary.items() >= total(grouped.ledger.plans_of("run-1")).to_state().items()


@settings(max_examples=60)
@given(cases(), layouts())
def test_pages_in_lanes_dispatch_the_records_of_the_full_path_each_once(
    made: list[Any], layout: dict[str, Any]
) -> None:
    full, laned = sharded(made, layout["shards"]), sharded(made, layout["shards"])
    expected = walk(full, a_run(path=Path.FULL, shards=layout["shards"]))

    summary = walk(laned, a_run(**layout))

    assert dispatched(laned) == dispatched(full)
    for name in ("Outcome", "Evaluated", "Waiting", "Dispatched", "SetAside"):
        assert summary[name] == expected[name]
    assert summary.items() >= total(laned.ledger.plans_of("run-1")).to_state().items()


@given(cases(), layouts(), st.sampled_from([Path.PAGED, Path.GROUPED]))
def test_a_second_run_in_other_lanes_sends_nothing(made: list[Any], layout: dict[str, Any], path: Path) -> None:
    world = world_of(made)
    first = walk(world, a_run(path=Path.GROUPED, page_size=2))
    sent = len(world.queues.sent)

    second = walk(world, a_run(run_id="run-2", path=path, **{**layout, "shards": 0}))

    assert len(world.queues.sent) == sent
    assert (second["Dispatched"], second["AlreadyDispatched"]) == (0, first["Dispatched"])


@given(cases(), layouts(), st.sampled_from([Path.PAGED, Path.GROUPED]))
def test_a_dry_run_counts_what_a_run_would_do_and_changes_nothing(
    made: list[Any], layout: dict[str, Any], path: Path
) -> None:
    world = sharded(made, layout["shards"])
    before = world.snapshot()
    dry = walk(world, a_run(path=path, dry_run=True, **layout))
    assert world.snapshot() == before

    done = walk(sharded(made, layout["shards"]), a_run(path=path, **layout))

    for name in ("Evaluated", "Waiting", "Dispatched", "AlreadyDispatched", "SetAside", "Groups", "Tasks"):
        assert dry[name] == done[name]


def test_thirty_orders_of_one_group_over_three_pages_are_one_task_in_order_or_three_on_one_message_group() -> None:
    orders = [booking(f"R{n:02}", f"15:{n:02}:00Z", OrderTime=f"{DAY}T14:{(n * 7) % 30:02}:00Z") for n in range(30)]
    grouped, paged = World(*orders), World(*orders)

    walk(grouped, a_run(path=Path.GROUPED, page_size=10))
    walk(paged, a_run(page_size=10))

    in_order = sorted(orders, key=lambda order: order["OrderTime"]["S"])
    assert grouped.record_ids() == [[order["RecordId"]["S"] for order in in_order]]
    assert [sorted(task) for task in paged.record_ids()] == [
        [f"R{n:02}" for n in range(start, start + 10)] for start in (0, 10, 20)
    ]
    assert len({message.group for message in paged.queues.messages}) == 1


# --- whatever goes wrong


CALLS = (
    "renew",
    "read plan",
    "query",
    "stage",
    "read staged",
    "staged",
    "outlines",
    "upload",
    "create plan",
    "send",
    "finish plan",
)
FAULTS = {"throttled": throttled, "refused": failed, "dead": dead}


@pytest.mark.parametrize("name", LANES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", [(call, nth) for call in CALLS for nth in (1, 2, 5)], ids=str)
@pytest.mark.parametrize("recovery", ["redrive", "resume", "anew"])
def test_a_run_in_lanes_that_failed_goes_on_and_dispatches_each_record_once(
    world: World, call: tuple[str, int], fault: str, name: str, recovery: str
) -> None:
    operation, nth = call
    world.faults.before(operation, FAULTS[fault], nth)
    run = a_run(**{"page_size": 2, **LANES[name]})
    execution = Execution(world, run)
    try:
        summary = execution.start()
    except (DispatchFailed, Died, Exception):  # noqa: BLE001 -- whichever name it ends under
        world.clock.advance(1000)
        world.faults.clear()
        if recovery == "redrive":
            summary = execution.redrive()
        elif recovery == "resume":
            summary = walk(world, a_run(run_id="run-2", resume=True))
        else:
            summary = walk(world, a_run(**{"page_size": 3, **LANES[name], "run_id": "run-2"}))

    assert summary["Outcome"] == "Dispatched"
    assert summary["Dispatched"] + summary["AlreadyDispatched"] == summary["Waiting"] == 7
    world.must_be_dispatched_once()
