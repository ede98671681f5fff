"""Whatever went wrong: reconcile finds what was missed, redo dispatches it, and a worker grants each version once."""

import json
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.cursor import DATE_ATTRIBUTE, TIME_ATTRIBUTE
from functions.domain.errors import DispatcherError
from functions.domain.execution import REDO_RUN
from functions.domain.values import Item
from functions.usecases import dispatch_window, plan_redo
from functions.worker.ports import Message
from functions.worker.work import work_batch
from tests.unit.fakes import Died, FakeSandbox, World, booking, dead, throttled
from tests.unit.reconciling import Reconciler, a_reconcile, after_the_hour
from tests.unit.test_recovery import FAULTS, HOURS, RECORDS, TIMES, Step, Troubled, bookings, steps

LATE: Final = ["L1", "L2", "L3"]
ROUNDS: Final = 2
"""So many are enough where something changed and went wrong in the first one; else one is."""
WORKER_TROUBLES: Final = 4


class Mishap(NamedTuple):
    """What changes between the report and its redo, and what goes wrong in the redo."""

    change: str
    record: str
    time: str
    fault: str
    when: str
    operation: str
    nth: int

    @property
    def changed(self) -> Item:
        """The attributes that the record has by then."""
        match self.change:
            case "move":
                return {TIME_ATTRIBUTE: {"S": self.time}}
            case "cancel":
                return {"RewardStatus": {"S": "Cancelled"}}
            case "hand over":
                return {"MemberId": {"N": "3"}}
            case _:
                return {}


mishaps = st.builds(
    Mishap,
    change=st.sampled_from(["none", "move", "cancel", "hand over", "hand over"]),
    record=st.sampled_from([*RECORDS, *LATE]),
    time=st.sampled_from(TIMES),
    fault=st.sampled_from(sorted(FAULTS)),
    when=st.sampled_from(["before", "after"]),
    operation=st.sampled_from(
        ["read report", "query", "others", "take", "upload", "create plan", "send", "finish plan"]
    ),
    nth=st.integers(1, 2),
)
arrivals = st.lists(st.tuples(st.sampled_from(TIMES), st.integers(1, 2)), max_size=len(LATE))


@pytest.fixture(scope="module", autouse=True)
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch_window, "CHUNK_RECORDS", 1)
        patch.setattr(plan_redo, "CHUNK", 2)
        yield


class Circle:
    """What is done after the troubles of a world until nothing is missing, and what its worker makes of that."""

    def __init__(self, troubled: Troubled) -> None:
        self.world = troubled.world
        self.sandbox = FakeSandbox(self.world)
        self._troubled = troubled
        self._reconciler = Reconciler(self.world)
        self._taken = 0

    def reconciled(self, hour: int) -> dict[str, Any]:
        """What a reconcile of the hour comes to."""
        self._taken += 1
        return self._reconciler.run(a_reconcile(hour, f"reconcile-{self._taken}"))

    def mend(self, hour: int, mishap: Mishap | None) -> bool:
        """Reconcile an hour, redo what is missing, go on with the run that left something in doubt; whether any was."""
        self.world.clock.advance(1000)
        output = self.reconciled(hour)
        if output["Counts"]["MissingInLedger"]:
            if mishap:
                self._redo_badly(output, mishap)
            self._reconciler.redo(output["Report"], f"redo-{self._taken}")
            self._must_be_done(output, hour)
        if output["Counts"]["InDoubt"]:
            self._troubled.go_on(hour)
        return bool(output["Counts"]["MissingInLedger"] or output["Counts"]["InDoubt"])

    def told(self) -> dict[str, set[tuple[str, ...]]]:
        """Record, date and time of what reconciles of all hours find, by class."""
        found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for hour in HOURS:
            for kind, samples in self._reconciler.written(self.reconciled(hour))["Samples"].items():
                places = ((one.get("Key"), one.get("BookingDateUTC"), one.get("BookingTimeUTC")) for one in samples)
                found[kind] |= {(key["RecordId"], date, time) for key, date, time in places if key}
        return found

    def _redo_badly(self, output: dict[str, Any], mishap: Mishap) -> None:
        world = self.world
        known = world.index.records.get(json.dumps([{"S": mishap.record}]))
        if known:
            world.index.put({**known, **mishap.changed})
        getattr(world.faults, mishap.when)(mishap.operation, FAULTS[mishap.fault], mishap.nth)
        with suppress(DispatcherError, Died):
            self._reconciler.redo(output["Report"], f"redo-badly-{self._taken}")
        world.faults.clear()
        world.clock.advance(1000)

    def _must_be_done(self, output: dict[str, Any], hour: int) -> None:
        """Nothing of the report is missing any more, and a second redo of it does nothing."""
        before = self.world.snapshot()
        assert self._reconciler.redo(output["Report"], f"redo-again-{self._taken}") == 0
        assert self.world.snapshot() == before, "a second redo of a report did something"
        again = self.reconciled(hour)
        if again["Counts"]["MissingInLedger"]:
            missing, listed = self._reconciler.missing(again), self._reconciler.missing(output)
            assert not [version for version in missing if version in listed], "a redo left out what its report lists"

    def work(self, chance: Random) -> None:
        """Deliver all messages as FIFO queues may: each group's in order, and none but once its predecessor is done.

        A worker may die, a message come again that was done, the bookings be written back as they stood before.
        """
        waiting: dict[tuple[str, str], deque[Message]] = defaultdict(deque)
        for place, one in enumerate(self.world.queues.messages):
            waiting[one.route.value, one.group].append(Message(f"message-{place}", one.group, one.body, 1))
        everything = [message for group in waiting.values() for message in group]
        booked = dict(self.world.index.records)
        troubles = WORKER_TROUBLES
        while any(waiting.values()):
            batch = self._batch(waiting, chance)
            trouble = chance.choice(["none", "dead", "throttled", "again"]) if troubles else "none"
            troubles -= trouble != "none"
            if trouble in {"dead", "throttled"}:
                operation = chance.choice(["newest", "grant", "grant", "finish"])
                fault = dead if trouble == "dead" else throttled
                getattr(self.world.faults, chance.choice(["before", "after"]))(operation, fault, chance.randint(1, 2))
            done = self._worked(batch)
            self.world.faults.clear()
            if trouble != "none" and chance.choice([True, False]):
                self._write_back(booked)
            if trouble != "again":
                for group in waiting.values():
                    while group and group[0].message_id in done:
                        group.popleft()
        granted = [*self.sandbox.granted]
        self._write_back(booked)
        self.sandbox.finished.clear()  # as such notes expire after months
        assert self._worked(everything) == {message.message_id for message in everything}
        assert self.sandbox.granted == granted, "a repeat of all messages granted something"

    def _batch(self, waiting: dict[tuple[str, str], deque[Message]], chance: Random) -> list[Message]:
        """Up to three messages of one queue."""
        route = chance.choice(sorted({route for (route, _), messages in waiting.items() if messages}))
        left = {group: deque(messages) for (of, group), messages in waiting.items() if of == route and messages}
        groups = [chance.choice([*left]) for _ in range(chance.randint(1, 3))]
        return [left[group].popleft() for group in groups if left[group]]

    def _worked(self, batch: list[Message]) -> set[str]:
        """The ids of those that are taken off the queue."""
        ends_at = self.sandbox.now() + timedelta(seconds=120)
        try:
            return {one.message.message_id for one in work_batch(batch, self.sandbox.desk, ends_at) if not one.failure}
        except Died:
            return set()

    def _write_back(self, booked: dict[str, Item]) -> None:
        """Somebody who has read the bookings before they were granted writes all of them."""
        self.world.index.put(*booked.values())


def waiting_in(world: World) -> set[tuple[str, ...]]:
    """Member, record, date and time of every booking that waits."""
    return {
        (record["MemberId"]["N"], *(record[name]["S"] for name in ("RecordId", DATE_ATTRIBUTE, TIME_ATTRIBUTE)))
        for record in world.index.records.values()
        if record["RewardStatus"] == {"S": "WaitToReward"}
    }


def dispatched_in(world: World) -> set[tuple[str, ...]]:
    """The same of every order on a queue."""
    return {
        (str(order["MemberId"]), order["RecordId"], order[DATE_ATTRIBUTE], order[TIME_ATTRIBUTE])
        for message in world.queues.messages
        for order in world.orders(message)
    }


def without_member(versions: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Record, date and time alone, as a reconcile compares them."""
    return {version[1:] for version in versions}


def sent_in_doubt(world: World) -> set[tuple[str, ...]]:
    """What unfinished plans of dispatches note as sent: it is told as in doubt until that very run is gone on with."""
    plans = [plan for (_, run_id, *_), (_, plan) in world.ledger.stored.items() if not run_id.startswith(REDO_RUN)]
    tasks = [task for plan in plans if not plan.finished for task in plan.tasks if task.task_id in plan.sent]
    return {(json.loads(key)["RecordId"], *at) for task in tasks for key, *at in task.versions}


@settings(max_examples=200)
@given(
    st.tuples(bookings, arrivals),
    st.lists(steps, max_size=4),
    st.permutations(HOURS),
    mishaps,
    st.randoms(use_true_random=False),
)
def test_after_any_troubles_reconcile_and_redo_leave_nothing_undispatched_and_each_version_is_granted_once(
    booked: tuple[list[tuple[str, int]], list[tuple[str, int]]],
    troubles: list[Step],
    hours: list[int],
    mishap: Mishap,
    chance: Random,
) -> None:
    made, late = booked
    world = after_the_hour(*(booking(name, at, MemberId=who) for name, (at, who) in zip(RECORDS, made, strict=False)))
    world.queues.batch_size = 1
    troubled = Troubled(world)
    for step in troubles:
        troubled.go(step)
    world.index.put(*(booking(name, at, MemberId=who) for name, (at, who) in zip(LATE, late, strict=False)))
    circle = Circle(troubled)

    for number in range(ROUNDS):
        found = [circle.mend(hour, None if number else mishap) for hour in hours]
        if not any(found):
            break

    told, waiting, dispatched = circle.told(), waiting_in(world), dispatched_in(world)
    left = waiting - dispatched
    assert told["MissingInLedger"] == told["Duplicate"] == set()
    assert without_member(left) <= without_member(dispatched), "a record was never dispatched"
    assert without_member(left) <= told["ValueMismatch"], "a change of the member was not told"
    assert without_member(waiting) & told["InDoubt"] <= sent_in_doubt(world), "nobody went on with what is in doubt"
    assert world.queues.needless == []

    circle.work(chance)

    due = [record for _, record, *_ in waiting - left]
    assert Counter(circle.sandbox.granted) == Counter(due)
