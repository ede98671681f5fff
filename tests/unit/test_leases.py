import json
from typing import Any

import pytest

from functions.domain.budget import PAGE_LEASE_SECONDS
from functions.domain.errors import TransientError, WindowBusy
from functions.domain.run import Counts, Others, Path, Progress
from functions.usecases.summarize_run import summarize_run
from functions.usecases.take_leases import Start, take_leases
from tests.unit.fakes import WAYS, World, a_run, booking, throttled, walk, window, worked_example


def take(world: World, **changes: Any) -> Start:
    return take_leases(a_run(**changes), Progress(), world.ledger, world.ledger)


def summarize(world: World, progress: Progress | None = None, now: float = 0, **changes: Any) -> dict[str, Any]:
    return summarize_run(a_run(**changes), progress or Progress(), world.ledger, world.ledger, now)


def test_a_run_holds_both_edges_of_its_window(world: World) -> None:
    start = take(world)

    assert start == Start(a_run(), Progress(), None, Others())
    assert start.to_state() == {
        "Run": a_run().to_state(),
        "Progress": Progress().to_state(),
        "Leases": {"Held": True, "Holder": None, "Others": {"Before": [], "Own": [], "After": []}},
    }
    assert sorted(world.ledger.edges) == ["2026-09-17T15:00:00Z", "2026-09-17T16:00:00Z"]


def test_a_second_run_of_the_window_learns_who_holds_it_and_touches_nothing() -> None:
    world = World(*worked_example())
    world.clock.now = 1_789_660_870
    take(world)
    before = world.snapshot()

    output = walk(world, a_run(run_id="run-2"))

    assert output == {"Outcome": "AlreadyRunning", "RunId": "run-1", "HeldUntil": "2026-09-17T16:07:40Z"}
    assert world.snapshot() == before


def test_two_starters_of_one_window_create_the_tasks_of_one_run() -> None:
    world = World(*worked_example())
    outputs: list[dict[str, Any]] = []
    world.faults.after("query", lambda: outputs.append(walk(world, a_run(run_id="run-2"))))

    outputs.append(walk(world, a_run()))

    assert [output["Outcome"] for output in outputs] == ["AlreadyRunning", "Dispatched"]
    assert (len(world.task_data.bodies), len(world.queues.sent)) == (3, 3)


@pytest.mark.parametrize("hour", [14, 16])
def test_a_neighbouring_window_is_busy_and_takes_neither_edge(world: World, hour: int) -> None:
    take(world)
    before = world.snapshot()

    with pytest.raises(WindowBusy, match="the run of window 2026-09-17T15:00:00Z holds an edge"):
        take(world, run_id="run-2", window=window(hour))

    assert world.snapshot() == before


@pytest.mark.parametrize("hour", [13, 17])
def test_windows_that_share_no_edge_run_side_by_side(world: World, hour: int) -> None:
    take(world)

    assert take(world, run_id="run-2", window=window(hour)).holder is None


@pytest.mark.parametrize(("seconds", "held"), [(PAGE_LEASE_SECONDS, False), (PAGE_LEASE_SECONDS + 1, True)])
def test_a_lease_can_be_taken_over_once_it_expired_and_not_before(world: World, seconds: int, held: object) -> None:
    take(world)
    world.clock.advance(seconds)

    assert (take(world, run_id="run-2").holder is None) is held


def test_taking_again_what_the_run_holds_renews_it(world: World) -> None:
    world.faults.after("take", throttled)
    with pytest.raises(TransientError):
        take(world)

    assert take(world).holder is None


@pytest.mark.parametrize(
    ("hour", "others"),
    [
        (14, Others(before=("earlier",))),
        (15, Others(own=("earlier",))),
        (16, Others(after=("earlier",))),
        (13, Others()),
        (17, Others()),
    ],
)
def test_a_run_learns_whose_plans_must_be_looked_at(world: World, hour: int, others: Others) -> None:
    walk(world, a_run(run_id="earlier", window=window(hour)))

    assert take(world).others == others


def test_a_run_is_no_other_run_to_itself(world: World) -> None:
    take(world)

    assert take(world).others == Others()


def test_a_dry_run_takes_nothing_and_waits_for_nobody(world: World) -> None:
    take(world)
    before = world.snapshot()

    start = take(world, run_id="dry", dry_run=True)

    assert (start.holder, start.others) == (None, Others(own=("run-1",)))
    assert world.snapshot() == before


@pytest.mark.parametrize("path", WAYS)
def test_the_window_is_given_back_at_the_end(path: Path) -> None:
    world = World(booking("R1"))

    walk(world, a_run(path=path))

    assert world.ledger.edges == {}


def test_a_summary_gives_back_only_what_the_run_still_holds(world: World) -> None:
    take(world)
    world.clock.advance(PAGE_LEASE_SECONDS + 1)
    take(world, run_id="run-2")

    summarize(world)

    assert {edge.run_id for edge in world.ledger.edges.values()} == {"run-2"}


def test_the_summary_has_the_contract_s_fields_as_integers_and_is_small(world: World) -> None:
    totals = Counts(3000, 10**9, 10**9, 10**9 - 2, 1, 1, 10**8, 10**8)

    summary = summarize(world, Progress(totals=totals), 1_789_660_999.9, run_id="x" * 97)

    assert list(summary) == [
        *("Outcome", "RunId", "WindowStart", "WindowEnd", "Path", "PageSize", "Pages", "Evaluated", "Waiting"),
        *("Dispatched", "AlreadyDispatched", "SetAside", "Groups", "Tasks", "DurationSeconds"),
    ]
    assert all(type(summary[name]) is int for name in list(summary)[5:])
    assert summary["DurationSeconds"] == 1_789_660_999 - 1_789_660_870
    assert len(json.dumps(summary)) < 8192


def test_a_clock_behind_the_start_gives_no_negative_duration(world: World) -> None:
    assert summarize(world)["DurationSeconds"] == 0


def test_a_repeated_summary_is_the_same(world: World) -> None:
    take(world)

    once, again = (summarize(world, Progress(totals=Counts(1)), 1e10) for _ in range(2))

    assert once == again


def test_a_dry_run_s_summary_releases_nothing(world: World) -> None:
    summary = summarize(world, dry_run=True)

    assert summary["Outcome"] == "DryRun"
    assert not world.faults.counted
