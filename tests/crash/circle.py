"""What an operator does once the troubles are over, and what the worker then makes of all that was sent.

Each window is reconciled, what is missing is redone, and the run is gone on with that left something in doubt.  In the
first round things still go wrong: a booking changes behind the report, a redo breaks off.  The second is in peace.
"""

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tests.crash.evidence import Version
from tests.crash.grants import Worker, as_delivered
from tests.machine.faults import Call, Fault
from tests.machine.walk import Account, State, Walk

ROUNDS: Final = 2
REDO_CALLS: Final = 30
WORKER_CALLS: Final = 25
"""So many calls a redo, and some deliveries, make: where things are made to happen."""
REDO_FAULTS: Final = (Fault.FORBIDDEN, Fault.DIED_BEFORE, Fault.DIED_AFTER, Fault.ANSWER_LOST)
WORKER_FAULTS: Final = (Fault.THROTTLED, Fault.ANSWER_LOST, Fault.DIED_BEFORE, Fault.DIED_AFTER)
MAX_DELIVERIES: Final = 100


class Circle:
    """Reconcile and redo of some windows; `go_on` resumes the last run of one, by its time of execution."""

    def __init__(
        self, account: Account, walk: Walk, chance: random.Random, go_on: Callable[[State], None], leases_over: int
    ) -> None:
        self._account = account
        self._walk = walk
        self._chance = chance
        self._go_on = go_on
        self._leases_over = leases_over
        self.redone = 0
        """So many records the redos have dispatched."""

    def close(self, times: Sequence[State], change: Callable[[], None]) -> Iterator[str]:
        """Mend these windows; what is not as it must be.

        A round leaves nothing missing, unless something changed behind a report: then the next one does, in peace.
        """
        may_miss = True
        for number in range(ROUNDS + 1):
            missing = changed = False
            for time in self._chance.sample(times, len(times)):
                self._walk.let_pass(self._leases_over)
                execution = self._walk.reconcile(time)
                assert execution.status == "SUCCEEDED", execution.cause
                found = execution.output["Counts"]
                if found["Duplicate"] or (found["MissingInLedger"] and not may_miss):
                    yield f"{time}: {found}"
                if found["MissingInLedger"]:
                    missing = True
                    troubled = number == 0 and self._chance.random() < 0.5
                    if troubled and self._chance.random() < 0.5:
                        change()
                        changed = True
                    yield from self._redo(execution.output["Report"], troubled=troubled)
                if found["InDoubt"]:
                    self._go_on(time)
            if not missing:
                break
            may_miss = changed

    def _redo(self, report: State, *, troubled: bool) -> Iterator[str]:
        """Redo a report, which may break off once; another redo of it goes on, and one more does nothing."""
        given = {"Report": report, "RequestedBy": "Ann", "Reason": "They were missed."}
        self._walk.answer(approved=True, by="Bob", times=4)  # also when a state is tried again
        if troubled:
            number = len(self._walk.calls.made) + self._chance.randint(1, REDO_CALLS)
            self._walk.calls.stage(self._chance.choice(REDO_FAULTS), functools.partial(_reached, number))
            self.redone += self._walk.redo(given).output.get("Dispatched", 0)
            self._walk.calls.unstage()
            self._walk.let_pass(self._leases_over)
        execution = self._walk.redo(given)
        if execution.status != "SUCCEEDED" or execution.output["Outcome"] != "Redone":
            yield f"a redo came to no end: {execution.cause} {execution.output}"
        self.redone += execution.output.get("Dispatched", 0)
        before = self._account.everything
        again = self._walk.redo(given).output
        if again.get("Dispatched") != 0 or self._account.everything != before:
            yield f"a second redo of a report did something: {again}"


class Deliveries:
    """All that stands on the queues, delivered at least once in an order that FIFO queues allow, to mortal workers."""

    def __init__(self, account: Account, walk: Walk, worker: Worker, chance: random.Random) -> None:
        self._walk = walk
        self._worker = worker
        self._chance = chance
        sent = account.messages
        of_route: dict[str, list[State]] = {}
        for (route, _), message in zip(sent, as_delivered(content for _, content in sent), strict=True):
            of_route.setdefault(route, []).append(message)
        self._queues = [*of_route.values()]

    def judge(self, due: frozenset[Version], write_back: Callable[[], None]) -> Iterator[str]:
        """Deliver until the queues are empty, then all once more; what was not granted once, or was and is not due.

        `write_back` lets somebody write the bookings as they stood before they were granted: they wait again.  The last
        time nobody knows either which tasks are finished.
        """
        calls, chance = self._walk.calls, self._chance
        everything = [message for queue in self._queues for message in queue]
        for _ in range(chance.randint(0, 3)):
            number = len(calls.made) + chance.randint(1, WORKER_CALLS)
            calls.stage(chance.choice(WORKER_FAULTS), functools.partial(_reached, number))
        for _ in range(chance.randint(0, 2)):
            number = len(calls.made) + chance.randint(1, WORKER_CALLS)
            calls.precede(functools.partial(_reached, number), write_back)
        for delivery in range(1, MAX_DELIVERIES):
            if not any(self._queues):
                break
            queue = chance.choice([queue for queue in self._queues if queue])
            batch = self._batch(queue) or queue[:1]
            kept = self._worker.deliver(batch, delivery)
            if chance.random() < 0.8:  # else the queue does not learn of what was done
                queue[:] = [message for message in queue if message not in batch or message in kept]
        else:
            yield f"not done after {MAX_DELIVERIES} deliveries"
        calls.unstage()
        granted = self._worker.granted
        write_back()
        self._worker.forget_tasks()
        if everything and (self._worker.deliver(everything, MAX_DELIVERIES) or self._worker.granted != granted):
            yield f"a repeat of all messages came to this: {self._worker.granted}"
        yield from (f"granted {times} times: {version}" for version, times in granted.items() if times > 1)
        yield from (f"not granted: {version}" for version in sorted(due - granted.keys()))
        yield from (f"granted, though it did not wait: {version}" for version in sorted(granted.keys() - due))

    def _batch(self, queue: Sequence[State]) -> list[State]:
        """Some messages of a queue, and none behind one of its group that is not among them."""
        batch: list[State] = []
        passed: set[str] = set()
        for message in queue:
            group = message["attributes"]["MessageGroupId"]
            if group in passed or self._chance.random() < 0.3:
                passed.add(group)
            else:
                batch.append(message)
        return batch


def _reached(number: int, call: Call) -> bool:
    return call.number >= number
