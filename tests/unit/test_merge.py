import json
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.booking import Group
from functions.domain.budget import CALL_SECONDS, PAGE_FUNCTION_SECONDS
from functions.domain.errors import InvalidToken, LeaseLost, TransientError
from functions.domain.lane import FIRST_FOLD, FIRST_MERGE, Step
from functions.domain.pack import Layout
from functions.domain.plan import Plan
from functions.domain.run import Counts, Others, Path, Progress, Run
from functions.domain.staging import BUCKETS, bucket_of_digest
from functions.domain.task import message_group
from functions.usecases import lay_out_lanes, merge_bucket
from functions.usecases.dispatch_window import CHUNK_RECORDS
from functions.usecases.fold_pages import fold_pages
from tests.unit.fakes import Died, Record, World, a_run, booking, dead, throttled, total, walk

pytestmark = pytest.mark.usefixtures("either_layout")

ALL: Final = {"From": {"N": "0"}, "To": {"N": str(BUCKETS)}}
MERGE: Final = Progress(token=ALL, lane=FIRST_MERGE)


@st.composite
def hours(draw: st.DrawFn) -> list[Record]:
    """Bookings of a few members, of which some are not waiting; times are crowded."""
    size = draw(st.integers(0, 40))
    return [
        booking(
            f"R{place:02}",
            f"15:{draw(st.integers(0, 3)) * 15:02}:0{draw(st.integers(0, 1))}Z",
            MemberId=draw(st.integers(1, 6)),
            ShopId=draw(st.integers(1, 2)),
            RewardType=draw(st.sampled_from(["Point", "ECoupon"])),
            RewardStatus=draw(st.sampled_from(["WaitToReward", "WaitToReward", "Rewarded"])),
            OrderTime=f"2026-09-17T14:0{draw(st.integers(0, 2))}:00Z",
        )
        for place in range(size)
    ]


def grouped(**changes: Any) -> Run:
    return a_run(path=Path.GROUPED, **changes)


def staged(world: World, run: Run) -> Run:
    """The run, once all its pages are staged."""
    world.begun(run)
    for lane in range(len(run.ranges)):
        progress = Progress(lane=lane)
        while progress.has_more:
            progress = world.attempt_lane(Step.STAGE, run, progress, Others())
    return run


def merge(world: World, run: Run, progress: Progress = MERGE, others: Others | None = None) -> Progress:
    """One call of the merge's function."""
    return world.attempt_lane(Step.MERGE, run, progress, others or Others())


def merged_plans(world: World) -> list[Plan]:
    return [plan for plan in world.ledger.plans_of("run-1") if plan.lane >= FIRST_MERGE and plan.lane < 3000]


def full_path(records: list[Record]) -> World:
    """What the full path makes of the same bookings."""
    world = World(*records)
    walk(world, a_run(path=Path.FULL))
    return world


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lower the limits of a chunk."""

    def lower(
        records: int = CHUNK_RECORDS,
        size: int = merge_bucket.CHUNK_BYTES,
        giant: int = merge_bucket.GIANT_BYTES,
    ) -> None:
        monkeypatch.setattr(merge_bucket, "CHUNK_RECORDS", records)
        monkeypatch.setattr(merge_bucket, "CHUNK_BYTES", size)
        monkeypatch.setattr(merge_bucket, "GIANT_BYTES", giant)

    return lower


@settings(max_examples=60)
@given(
    hours(),
    st.integers(1, 12),
    st.integers(1, 9),
    st.integers(1, 12),
    st.sampled_from([1, 2, 256]),
    st.sampled_from([1, 3]),
    st.sampled_from([0, 1000, merge_bucket.GIANT_BYTES]),
    st.sampled_from([2, 2000]),
)
def test_a_grouped_run_gives_exactly_the_tasks_of_the_full_path(  # noqa: PLR0913, PLR0917 -- the dimensions of a run
    records: list[Record],
    page_size: int,
    chunk: int,
    target: int,
    fold: int,
    slices: int,
    giant: int,
    page_budget: int,
) -> None:
    world = World(*records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_bucket, "CHUNK_RECORDS", chunk)
        patch.setattr(merge_bucket, "GIANT_BYTES", giant)
        patch.setattr(lay_out_lanes, "MERGE_RECORDS", target)
        patch.setattr(lay_out_lanes, "FOLD_OBJECTS", fold)
        summary = walk(world, grouped(page_size=page_size, slices=slices, page_budget=page_budget))

    full = full_path(records)
    assert world.task_data.bodies == full.task_data.bodies
    assert sorted(world.queues.sent) == sorted(full.queues.sent)
    assert world.delivered == full.delivered
    world.must_be_dispatched_once()
    counts = total(world.ledger.plans_of("run-1"))
    expected = total(full.ledger.plans_of("run-1"))
    assert counts == Counts(**{**_fields(expected), "pages": counts.pages})
    assert summary["Outcome"] == "Dispatched"
    assert world.staging.objects == {}


def _fields(counts: Counts) -> Mapping[str, int]:
    return {name: getattr(counts, name) for name in Counts.__slots__}


def thirty_orders() -> list[Record]:
    """Thirty orders of one group; no two neighbours in the order of booking are so in the order of ordering."""
    return [
        booking(f"R{place:02}", f"15:{place:02}:00Z", OrderTime=f"2026-09-17T14:{place * 7 % 30:02}:00Z")
        for place in range(30)
    ]


def test_thirty_orders_of_a_group_over_three_pages_are_one_task_with_all_of_them_in_order(world: World) -> None:
    world.index.put(*thirty_orders())

    walk(world, grouped(page_size=10))

    (message,) = world.queues.messages
    orders = world.orders(message)
    assert len(orders) == 30
    assert [order["OrderTime"] for order in orders] == [f"2026-09-17T14:{minute:02}:00Z" for minute in range(30)]
    assert total(world.ledger.plans_of("run-1")) == Counts(
        pages=4, evaluated=30, waiting=30, dispatched=30, groups=1, tasks=1
    )


def test_by_page_the_same_orders_are_three_tasks_on_one_message_group_the_first_pages_first(world: World) -> None:
    world.index.put(*thirty_orders())

    walk(world, a_run(page_size=10))

    assert [len(ids) for ids in world.record_ids()] == [10, 10, 10]
    assert [min(ids) for ids in world.record_ids()] == ["R00", "R10", "R20"]
    assert len({message.group for message in world.queues.messages}) == 1


def many_members(count: int, *, each: int = 1) -> list[Record]:
    return [
        booking(f"R{member:03}-{place}", f"15:{place:02}:00Z", MemberId=member)
        for member in range(count)
        for place in range(each)
    ]


def test_a_page_is_staged_under_a_finished_plan_without_tasks_that_holds_its_objects_index(world: World) -> None:
    world.index.put(*many_members(3), booking("bad", OrderTime=None), booking("done", RewardStatus="Rewarded"))

    run = staged(world, grouped())

    (plan,) = world.ledger.plans_of(run.run_id)
    assert (plan.finished, plan.tasks, plan.next_token) == (True, (), None)
    assert plan.counts == Counts(pages=1, evaluated=5, waiting=1, set_aside=1)
    assert plan.staged is not None
    assert sum(plan.staged.lines) == 3
    assert list(world.staging.objects) == [plan.staged.key]
    assert world.queues.sent == []


def test_a_page_without_a_waiting_booking_has_a_plan_and_no_object(world: World) -> None:
    world.index.put(booking("done", RewardStatus="Rewarded"))

    run = staged(world, grouped())

    (plan,) = world.ledger.plans_of(run.run_id)
    assert (plan.finished, plan.staged) == (True, None)
    assert world.staging.objects == {}


def test_a_page_that_is_staged_is_never_queried_again(world: World) -> None:
    world.index.put(*many_members(3))
    run = staged(world, grouped())
    before = world.faults.counted["query"]

    assert not world.attempt_lane(Step.STAGE, run, Progress(), Others()).has_more
    assert world.faults.counted["query"] == before


def test_an_attempt_that_was_superseded_while_it_staged_does_not_replace_what_the_plan_points_to(world: World) -> None:
    world.index.put(*many_members(3))
    run = world.begun(grouped())

    def overtaken() -> None:
        world.index.put(booking("R-new", MemberId=77))
        world.attempt_lane(Step.STAGE, run, Progress(), Others())

    world.faults.before("stage", overtaken)
    with pytest.raises(LeaseLost):
        world.attempt_lane(Step.STAGE, run, Progress(), Others())

    merge(world, run)
    assert sorted(chain.from_iterable(world.record_ids())) == ["R-new", "R000-0", "R001-0", "R002-0"]


def test_folds_written_side_by_side_are_each_of_the_pages_and_a_merge_reads_the_folds(world: World) -> None:
    world.index.put(*many_members(9))
    run = staged(world, grouped(page_size=2))
    pages = list(world.staging.objects)
    tokens = [{"From": {"N": str(start)}, "To": {"N": str(start + 2)}} for start in (0, 2, 4)]

    for lane, token in enumerate(tokens, start=FIRST_FOLD):
        deadline = world.clock() + PAGE_FUNCTION_SECONDS
        progress = fold_pages(run, Progress(token=token, lane=lane), world.dispatch, deadline)
        assert (progress.has_more, progress.totals) == (False, Counts())

    folds = [key for key in world.staging.objects if key not in pages]
    assert [len(world.staging.objects[key]) for key in folds] == [4, 4, 1]
    world.staging.delete(pages)
    merge(world, run)
    world.must_be_dispatched_once()


def test_a_chunk_is_complete_groups_that_together_reach_its_size_and_has_a_plan_of_its_own(
    world: World, small: Callable[..., None]
) -> None:
    assert CHUNK_RECORDS == 1000
    small(records=4)
    world.index.put(*many_members(5, each=3))
    run = staged(world, grouped(page_size=4))

    progress = merge(world, run)

    plans = merged_plans(world)
    assert [plan.counts.dispatched for plan in plans] == [6, 6, 3]
    assert [plan.page for plan in plans] == [1, 2, 3]
    assert [len(task.versions) for plan in plans for task in plan.tasks] == [3] * 5
    groups = [task.message_group for plan in plans for task in plan.tasks]
    assert groups == sorted(groups)
    assert [plan.next_token for plan in plans] == [
        {**ALL, "After": {"S": groups[1]}},
        {**ALL, "After": {"S": groups[3]}},
        None,
    ]
    assert not progress.has_more


def test_a_chunk_is_closed_by_its_bytes_too(world: World, small: Callable[..., None]) -> None:
    small(size=1)
    world.index.put(*many_members(3))

    merge(world, staged(world, grouped()))

    assert [plan.counts.tasks for plan in merged_plans(world)] == [1, 1, 1]


def test_the_last_chunk_has_no_token_even_where_it_is_exactly_full(world: World, small: Callable[..., None]) -> None:
    small(records=2)
    world.index.put(*many_members(4))

    assert not merge(world, staged(world, grouped())).has_more

    assert [plan.next_token is None for plan in merged_plans(world)] == [False, True]


def test_a_share_without_records_has_one_empty_plan_so_that_its_lane_ends(world: World) -> None:
    run = staged(world, grouped())

    progress = merge(world, run)

    (plan,) = merged_plans(world)
    assert (plan.finished, plan.tasks, plan.next_token, plan.counts) == (True, (), None, Counts())
    assert not progress.has_more
    assert world.faults.counted["send"] == 0


def test_shares_of_the_buckets_dispatch_each_group_in_one_of_them(world: World) -> None:
    world.index.put(*many_members(40))
    run = staged(world, grouped(page_size=7))

    for lane, share in enumerate((range(100), range(100, 101), range(101, BUCKETS)), start=FIRST_MERGE):
        token = {"From": {"N": str(share.start)}, "To": {"N": str(share.stop)}}
        merge(world, run, Progress(token=token, lane=lane))
        plans = [plan for plan in merged_plans(world) if plan.lane == lane]
        assert {bucket_of_digest(task.message_group) for plan in plans for task in plan.tasks} <= set(share)

    world.must_be_dispatched_once()
    assert len(world.queues.sent) == 40


@pytest.mark.parametrize("giant", [0, 1000], ids=["every group", "the largest"])
def test_a_giant_group_gives_the_same_objects_and_ids_as_one_that_is_held(
    world: World, small: Callable[..., None], giant: int
) -> None:
    small(giant=giant)
    records = [
        *many_members(3),
        *(
            booking(f"G{place}", f"15:{place:02}:00Z", MemberId=99, RewardType=("Point", "ECoupon")[place % 2])
            for place in range(20)
        ),
    ]
    world.index.put(*records)

    walk(world, grouped(page_size=6))

    full = full_path(records)
    assert world.task_data.bodies == full.task_data.bodies
    assert sorted(world.queues.sent) == sorted(full.queues.sent)


def test_a_giant_group_is_the_first_chunk_of_a_call_so_that_it_has_all_of_its_time(
    world: World, small: Callable[..., None]
) -> None:
    small(giant=2000)
    middle = sorted(range(6), key=lambda member: message_group(Group("1001", str(member), "3001")))[3]
    world.index.put(*many_members(6), *(booking(f"G{n}", f"15:{n:02}:00Z", MemberId=middle) for n in range(20)))
    run = staged(world, grouped())
    progress = MERGE
    calls: list[list[int]] = []
    while progress.has_more:
        before = len(merged_plans(world))
        progress = merge(world, run, progress)
        calls.append([plan.counts.dispatched for plan in merged_plans(world)[before:]])

    assert calls == [[3], [21, 2]]


def of_another_run(world: World, *records: Record, finish: bool) -> Others:
    """Let another run of the window dispatch these, or only plan them."""
    world.index.put(*records)
    run = world.begun(a_run(run_id="run-0"))
    if not finish:
        world.faults.after("create plan", dead)
        with pytest.raises(Died):
            world.attempt(run)
    else:
        world.attempt(run)
    world.ledger.release(run.lease_owner)
    return Others(own=("run-0",))


@pytest.mark.parametrize("giant", [0, merge_bucket.GIANT_BYTES], ids=["streamed", "held"])
def test_what_another_run_dispatched_is_dropped_and_the_rest_of_the_group_is_dispatched(
    world: World, small: Callable[..., None], giant: int
) -> None:
    small(giant=giant)
    others = of_another_run(world, *(booking(f"R{n}", f"15:0{n}:00Z") for n in range(3)), finish=True)
    world.index.put(booking("R3"), booking("R4"))

    merge(world, staged(world, grouped()), others=others)

    assert world.record_ids() == [["R0", "R1", "R2"], ["R3", "R4"]]
    (plan,) = merged_plans(world)
    assert plan.counts == Counts(waiting=5, dispatched=2, already_dispatched=3, groups=1, tasks=1)
    world.must_be_dispatched_once()


@pytest.mark.parametrize("giant", [0, merge_bucket.GIANT_BYTES], ids=["streamed", "held"])
def test_a_task_that_another_run_left_in_doubt_is_taken_along_as_it_is(
    world: World, small: Callable[..., None], giant: int
) -> None:
    small(giant=giant)
    others = of_another_run(world, *(booking(f"R{n}", f"15:0{n}:00Z") for n in range(3)), finish=False)
    world.index.put(booking("R3"), booking("R4"))

    merge(world, staged(world, grouped()), others=others)

    assert world.record_ids() == [["R0", "R1", "R2"], ["R3", "R4"]]
    (plan,) = merged_plans(world)
    assert plan.counts == Counts(waiting=5, dispatched=5, groups=1, tasks=2)
    world.must_be_dispatched_once()


def test_other_runs_are_asked_for_once_in_a_call_and_not_at_all_where_there_are_none(
    world: World, small: Callable[..., None]
) -> None:
    small(records=1)
    others = of_another_run(world, booking("R9", MemberId=9), finish=True)
    world.index.put(*many_members(4))
    run = staged(world, grouped())

    merge(world, run, others=others)
    assert (world.faults.counted["plans"], world.faults.counted["staged"]) == (1, 1)

    alone = World(*many_members(4))
    merge(alone, staged(alone, grouped()))
    assert alone.faults.counted["plans"] == 0


def test_the_kill_switch_stops_before_the_next_chunk_and_a_resumed_run_goes_on_there(
    world: World, small: Callable[..., None]
) -> None:
    small(records=1)
    world.index.put(*many_members(4))
    run = staged(world, grouped())
    world.faults.after("finish plan", lambda: setattr(world, "kill_switch", True), nth=2)

    stopped = merge(world, run)

    assert (stopped.stopped, stopped.has_more, stopped.page, len(merged_plans(world))) == (True, True, 3, 2)
    assert merge(world, run, MERGE).page == 2, "what the state did not see is told by the plan"
    world.kill_switch = False
    assert not merge(world, run, Progress(3, stopped.token, lane=FIRST_MERGE)).has_more
    world.must_be_dispatched_once()


def test_no_further_chunk_is_begun_without_time_for_two_calls(world: World, small: Callable[..., None]) -> None:
    small(records=1)
    world.index.put(*many_members(4))
    run = staged(world, grouped())
    most = PAGE_FUNCTION_SECONDS - 2 * CALL_SECONDS
    world.faults.after("finish plan", lambda: world.clock.advance(most - 1), nth=1)
    world.faults.after("finish plan", lambda: world.clock.advance(1), nth=2)

    progress = merge(world, run)

    assert (progress.has_more, progress.stopped, progress.page) == (True, False, 3)
    assert not merge(world, run, progress).has_more
    world.must_be_dispatched_once()


def test_a_call_ends_where_the_next_page_is_another_executions(world: World, small: Callable[..., None]) -> None:
    small(records=1)
    world.index.put(*many_members(5))
    run = staged(world, grouped(page_budget=2))
    pages = []
    progress = MERGE
    while progress.has_more:
        progress = merge(world, run, progress)
        pages.append(progress.page)

    assert pages == [3, 5, 6]


FAULTS: Final = [
    *(("create plan", nth) for nth in (1, 2, 3)),
    *(("finish plan", nth) for nth in (1, 2)),
    *(("send", nth) for nth in (1, 2)),
    *(("upload", nth) for nth in (1, 2, 3)),
    *(("stage", nth) for nth in (1, 2, 3)),
    *(("read staged", nth) for nth in (1, 2)),
    *(("staged", nth) for nth in (1, 2)),
    ("read plan", 2),
    ("renew", 4),
    ("query", 2),
]


@pytest.mark.parametrize("giant", [0, merge_bucket.GIANT_BYTES], ids=["streamed", "held"])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("fault", [dead, throttled], ids=["dies", "throttled"])
@pytest.mark.parametrize(("operation", "nth"), FAULTS, ids=[f"{operation} {nth}" for operation, nth in FAULTS])
def test_a_retry_after_any_fault_dispatches_every_record_once(  # noqa: PLR0913, PLR0917 -- the dimensions of a fault
    operation: str,
    nth: int,
    fault: Callable[[], None],
    place: str,
    giant: int,
    small: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small(records=3, giant=giant)
    monkeypatch.setattr(lay_out_lanes, "FOLD_OBJECTS", 2)
    records = many_members(4, each=2)
    world = World(*records)
    if operation == "upload" and giant and world.layout is Layout.PACKED:
        nth = min(nth, 2)  # two chunks, and each is one pack
    getattr(world.faults, place)(operation, fault, nth)

    walk(world, grouped(page_size=3), retries=3)

    world.queues.needless.clear()  # a process that dies after sending may send once more, with the same ids
    world.must_be_dispatched_once()
    assert world.task_data.bodies == full_path(records).task_data.bodies
    assert total(world.ledger.plans_of("run-1")).dispatched == 8
    assert world.faults.counted[operation] >= nth, "the fault did not happen"


def test_a_retry_takes_up_the_chunks_that_were_planned_before_and_reads_none_of_them_again(
    world: World, small: Callable[..., None]
) -> None:
    small(records=1)
    world.index.put(*many_members(4))
    run = staged(world, grouped())
    world.faults.before("send", throttled, nth=3)
    with pytest.raises(TransientError):
        merge(world, run)
    before = len(world.queues.sent)

    assert not merge(world, run).has_more

    assert (before, len(world.queues.sent)) == (2, 4)
    world.must_be_dispatched_once()


def test_a_planned_chunk_is_sent_less_what_another_run_has_sent_meanwhile(world: World) -> None:
    others = of_another_run(world, *(booking(f"R{n}", f"15:0{n}:00Z") for n in range(3)), finish=False)
    run = staged(world, grouped())
    world.faults.before("send", throttled)
    with pytest.raises(TransientError):
        merge(world, run, others=others)
    (window_of, run_id, lane, page), (attempt, plan) = next(
        (place, stored) for place, stored in world.ledger.stored.items() if place[1] == "run-0"
    )
    world.ledger.stored[window_of, run_id, lane, page] = (
        attempt,
        Plan(plan.page, plan.tasks, plan.next_token, plan.counts, finished=True),
    )

    merge(world, run, others=others)

    assert world.queues.sent == []
    assert total(merged_plans(world)) == Counts(waiting=3, already_dispatched=3)


@pytest.mark.parametrize(
    "token",
    [
        None,
        {"From": {"N": "5"}},
        {**ALL, "After": {"N": "1"}},
        {**ALL, "After": {"S": "0f"}},
        {**ALL, "After": {"S": "G" * 64}},
        {"From": {"N": "0"}, "To": {"N": "15"}, "After": {"S": "0f" * 32}},
    ],
)
def test_a_token_that_is_no_merges_is_refused_before_anything_is_read(world: World, token: Any) -> None:
    run = world.begun(grouped())
    before = world.snapshot()

    with pytest.raises(InvalidToken):
        merge(world, run, Progress(token=token, lane=FIRST_MERGE))

    assert world.snapshot() == before


def test_the_token_of_a_merge_goes_through_the_state_as_it_is(world: World, small: Callable[..., None]) -> None:
    small(records=1)
    world.index.put(*many_members(2))

    progress = merge(world, staged(world, grouped(page_budget=1)))

    assert Progress.from_state(json.loads(json.dumps(progress.to_state()))) == progress
