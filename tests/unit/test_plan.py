from dataclasses import replace
from typing import Any

from functions.domain.booking import Booking, read_booking
from functions.domain.plan import Plan, Settled, settle
from functions.domain.run import Counts
from functions.domain.task import Task, compose
from tests.unit.fakes import booking, window


def read(*records: Any) -> list[Booking]:
    found = [read_booking(record, ("RecordId",)) for record in records]
    return [record for record in found if isinstance(record, Booking)]


def task_of(*records: Any) -> Task:
    (new,) = compose(read(*records), window())
    return new.task


def plan_of(*tasks: Task, finished: bool = False) -> Plan:
    records = sum(len(task.versions) for task in tasks)
    counts = Counts(pages=1, waiting=records, dispatched=records, groups=len(tasks), tasks=len(tasks))
    return Plan(1, tasks, None, counts, finished)


def settled_by(*plans: Plan) -> Settled:
    """What the plans say of all their records."""
    settled = Settled(frozenset(member for plan in plans for member in plan.members))
    for plan in plans:
        settled.add(plan)
    return settled


A, B = booking("R1"), booking("R2", "15:20:00Z")
C = booking("R3", MemberId=2002)


def test_a_record_in_no_plan_is_composed() -> None:
    composition = settle(read(A, B), Settled(), window())

    assert [new.task for new in composition.new] == [task_of(A, B)]
    assert (composition.dispatched, composition.already_dispatched) == (2, 0)


def test_a_record_in_a_finished_plan_was_dispatched() -> None:
    composition = settle(read(A, B), settled_by(plan_of(task_of(A), finished=True)), window())

    assert composition.tasks == (task_of(B),)
    assert (composition.dispatched, composition.already_dispatched) == (1, 1)


def test_a_record_only_in_an_unfinished_plan_brings_its_task_along_as_it_is() -> None:
    in_doubt = task_of(A, B)

    composition = settle(read(A, C), settled_by(plan_of(in_doubt)), window())

    assert composition.carried == (in_doubt,)
    assert composition.tasks == (in_doubt, task_of(C))
    assert (composition.dispatched, composition.already_dispatched) == (2, 0)


def test_a_task_in_doubt_is_taken_along_once_however_many_of_its_records_are_met() -> None:
    in_doubt = task_of(A, B)

    assert settle(read(A, B), settled_by(plan_of(in_doubt)), window()).tasks == (in_doubt,)


def test_a_task_in_doubt_keeps_the_window_it_was_composed_for() -> None:
    edge = booking("R1", "15:00:00Z")
    neighbours = replace(task_of(edge), window=window(14))

    (carried,) = settle(read(edge), settled_by(plan_of(neighbours)), window()).tasks

    assert carried.object_key.startswith("tasks/2026-09-17/14/")


def test_a_finished_plan_outweighs_an_unfinished_one_whatever_their_order() -> None:
    plans = [plan_of(task_of(A), finished=True), plan_of(task_of(A))]

    for order in (plans, plans[::-1]):
        assert settled_by(*order).in_doubt == {}
        assert settle(read(A), settled_by(*order), window()).tasks == ()


def test_a_re_booked_record_is_composed_again() -> None:
    rebooked = booking("R1", "15:45:00Z")

    composition = settle(read(rebooked), settled_by(plan_of(task_of(A), finished=True)), window())

    assert composition.tasks == (task_of(rebooked),)


def test_a_record_that_moved_to_another_group_is_composed_again() -> None:
    moved = booking("R1", MemberId=2002)

    assert settle(read(moved), settled_by(plan_of(task_of(A), finished=True)), window()).tasks == (task_of(moved),)


def test_a_record_whose_reward_type_changed_was_dispatched_all_the_same() -> None:
    changed = booking("R1", RewardType="ECoupon")

    assert settle(read(changed), settled_by(plan_of(task_of(A), finished=True)), window()).already_dispatched == 1


def test_an_old_task_is_sent_before_a_new_one_of_its_group() -> None:
    composition = settle(read(B, A), settled_by(plan_of(task_of(A))), window())

    assert composition.tasks == (task_of(A), task_of(B))


def test_an_unfinished_plan_less_what_another_run_finished() -> None:
    plan = plan_of(task_of(A, B), task_of(C))

    less = plan.without(settled_by(plan_of(task_of(C), finished=True)))

    assert less.tasks == (task_of(A, B),)
    assert less.counts == Counts(pages=1, waiting=3, dispatched=2, already_dispatched=1, groups=1, tasks=1)


def test_an_unfinished_plan_of_which_nothing_was_finished_stays() -> None:
    plan = plan_of(task_of(A, B), task_of(C))

    assert plan.without(settled_by(plan_of(task_of(A, B)))) is plan
    assert plan.without(Settled()) is plan


def test_a_plan_s_members_are_all_its_record_versions_with_their_group() -> None:
    members = list(plan_of(task_of(A, B), task_of(C)).members)

    assert [(group.member, version.key) for group, version in members] == [
        ("2001", '{"RecordId":"R1"}'),
        ("2001", '{"RecordId":"R2"}'),
        ("2002", '{"RecordId":"R3"}'),
    ]


def test_what_is_left_to_send_is_what_was_not_noted_as_sent_in_its_order() -> None:
    first, second, third = task_of(A), task_of(B), task_of(C)
    plan = plan_of(first, second, third)

    assert plan.unsent == (first, second, third)
    assert replace(plan, sent=frozenset({second.task_id})).unsent == (first, third)
    assert replace(plan, sent=frozenset(task.task_id for task in plan.tasks)).unsent == ()


def test_a_task_noted_as_sent_stays_in_its_plan_although_another_run_sent_it_too() -> None:
    plan = replace(plan_of(task_of(A), task_of(C)), sent=frozenset({task_of(A).task_id}))

    less = plan.without(settled_by(plan_of(task_of(A), task_of(C), finished=True)))

    assert less.tasks == (task_of(A),)
    assert (less.counts.dispatched, less.counts.already_dispatched) == (1, 1)
