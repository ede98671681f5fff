"""Which plans are read for which records, and what they say of them."""

from dataclasses import replace

import pytest

from functions.domain.booking import Booking, Member, read_booking
from functions.domain.budget import PAGE_LEASE_SECONDS
from functions.domain.plan import Plan, Settled
from functions.domain.run import Counts, Others
from functions.domain.task import Task, compose
from functions.usecases.look_up import look_up
from tests.unit.fakes import Died, Record, World, a_run, booking, dead, walk, window

INNER, START_EDGE, END_EDGE = booking("R1"), booking("R2", "15:00:00Z"), booking("R3", "16:00:00Z")


def read(*records: Record) -> list[Booking]:
    found = [read_booking(record, ("RecordId",)) for record in records]
    return [record for record in found if isinstance(record, Booking)]


def members(*records: Record) -> list[Member]:
    return [record.member for record in read(*records)]


def dies(world: World, hour: int, run_id: str) -> None:
    """A run that planned its page and died before it sent anything."""
    world.faults.before("send", dead)
    with pytest.raises(Died):
        walk(world, a_run(run_id=run_id, window=window(hour)))
    world.clock.advance(PAGE_LEASE_SECONDS + 1)


@pytest.mark.parametrize(
    ("record", "others", "windows"),
    [
        pytest.param(INNER, Others(), [], id="no other run: nothing is read"),
        pytest.param(INNER, Others(("a",), (), ("b",)), [], id="the neighbours' runs do not matter inside"),
        pytest.param(INNER, Others((), ("a",), ()), ["15"], id="another run of the window"),
        pytest.param(INNER, Others((), None, ()), ["15"], id="more runs of the window than are carried"),
        pytest.param(START_EDGE, Others((), (), ("b",)), [], id="an edge whose other window had no run"),
        pytest.param(START_EDGE, Others(("a",), (), ("b",)), ["15 14"], id="the start edge"),
        pytest.param(END_EDGE, Others(("a",), (), ("b",)), ["15 16"], id="the end edge"),
        pytest.param(END_EDGE, Others((), (), None), ["15 16"], id="more runs of a neighbour than are carried"),
    ],
)
def test_only_plans_that_can_matter_are_asked_for(
    world: World, record: Record, others: Others, windows: list[str]
) -> None:
    look_up(world.ledger, a_run(), 2, others, members(record))

    assert world.faults.log == [f"plans {some}" for some in windows]


def test_a_neighbour_s_plan_is_read_only_if_it_reaches_to_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(END_EDGE, *(booking(f"S{n}", f"16:0{n}:00Z", MemberId=n) for n in range(1, 6)))
    walk(world, a_run(run_id="later", window=window(16), page_size=1))
    taken: list[int] = []
    add = Settled.add

    def noted(settled: Settled, plan: Plan) -> list[Task]:
        taken.append(plan.page)
        return add(settled, plan)

    monkeypatch.setattr(Settled, "add", noted)
    settled = look_up(world.ledger, a_run(), 1, Others(after=("later",)), members(END_EDGE))

    assert settled.dispatched == settled.asked
    assert taken == [1]


def test_runs_too_many_to_carry_are_asked_for() -> None:
    world = World(INNER)
    walk(world, a_run(run_id="run-0"))

    settled = look_up(world.ledger, a_run(), 1, Others(own=None), members(INNER))

    assert settled.dispatched == set(members(INNER))


def test_runs_that_are_carried_are_not_asked_for_again_and_no_other_is_read() -> None:
    world = World(INNER)
    walk(world, a_run(run_id="run-0"))

    settled = look_up(world.ledger, a_run(), 1, Others(own=("run-00",)), members(INNER))

    assert settled.dispatched == set()


# --- three windows in a row


def group_over_both_edges() -> World:
    """Three bookings of one group: on the edges of 15:00 and 16:00, and between them."""
    return World(booking("start", "15:00:00Z"), booking("inner", "15:30:00Z"), booking("end", "16:00:00Z"))


@pytest.mark.parametrize(("first", "second"), [(16, 14), (14, 16)], ids=["the later first", "the earlier first"])
def test_a_task_in_doubt_that_reaches_over_both_edges_is_not_sent_again_once_the_outer_neighbour_finished_it(
    first: int, second: int
) -> None:
    world = group_over_both_edges()
    dies(world, 15, "middle")
    walk(world, a_run(run_id="outer-1", window=window(first)))
    assert len(world.queues.sent) == 1

    summary = walk(world, a_run(run_id="outer-2", window=window(second)))

    assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (0, 1)
    assert len(world.queues.sent) == 1
    assert world.record_ids() == [["end", "inner", "start"]]


def test_the_run_that_composed_it_does_not_send_it_again_either() -> None:
    world = group_over_both_edges()
    dies(world, 15, "middle")
    walk(world, a_run(run_id="outer", window=window(16)))

    summary = walk(world, a_run(run_id="middle-2", resume=True))

    assert (summary["RunId"], summary["Dispatched"], summary["AlreadyDispatched"]) == ("middle", 0, 3)
    assert len(world.queues.sent) == 1


def test_a_task_in_doubt_is_followed_over_the_edge_and_no_window_is_read_twice() -> None:
    world = group_over_both_edges()
    dies(world, 15, "middle")
    walk(world, a_run(run_id="outer", window=window(16)))
    world.faults.log.clear()

    look_up(
        world.ledger, a_run(window=window(14)), 1, Others(after=("middle",)), members(booking("start", "15:00:00Z"))
    )

    assert world.faults.log == ["plans 14 15", "plans 16"]


# --- memory


def task_of(*records: Record) -> Task:
    (new,) = compose(read(*records), window())
    return new.task


def plan_of(*tasks: Task, finished: bool = False) -> Plan:
    return Plan(1, tasks, None, Counts(), finished)


@pytest.mark.parametrize("finished", [True, False])
def test_nothing_is_kept_of_plans_that_hold_none_of_the_records(*, finished: bool) -> None:
    settled = Settled(frozenset(members(INNER)))

    doubtful = settled.add(plan_of(task_of(END_EDGE), task_of(START_EDGE), finished=finished))

    assert doubtful == []
    assert settled == Settled(frozenset(members(INNER)))


def test_of_a_sent_task_only_the_records_asked_for_and_its_id_are_kept() -> None:
    settled = Settled(frozenset(members(INNER)))
    task = task_of(INNER, END_EDGE)

    settled.add(plan_of(task, finished=True))

    assert settled.dispatched == set(members(INNER))
    assert (settled.task_ids, settled.in_doubt) == ({task.task_id}, {})


def test_a_task_noted_as_sent_counts_as_sent_although_its_plan_is_unfinished() -> None:
    sent, unsent = task_of(INNER), task_of(booking("R9", MemberId=9))
    settled = Settled(frozenset(members(INNER, booking("R9", MemberId=9))))

    doubtful = settled.add(replace(plan_of(sent, unsent), sent=frozenset({sent.task_id})))

    assert settled.dispatched == set(members(INNER))
    assert doubtful == [unsent]
