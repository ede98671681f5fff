"""The plan of a page: the tasks that a page was decided to be, written once before anything is sent.

The plans are the ledger.  A version in a finished plan was dispatched; one that stands only in unfinished plans may
have been sent, so its task is taken as it is.  An attempt that fails half-way notes what it has sent.
Source: docs/contract.md, "Plan and lease".
"""

from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace

from functions.domain.booking import Booking, Member
from functions.domain.cursor import Token
from functions.domain.run import Counts
from functions.domain.staging import StagedObject
from functions.domain.task import NewTask, Task, compose, distinct_groups
from functions.domain.window import Window


@dataclass(frozen=True, slots=True)
class Plan:
    """One page of one lane of a run; without its tasks it is what the journal tells of the page."""

    page: int
    tasks: tuple[Task, ...]
    next_token: Token | None
    counts: Counts
    finished: bool = False
    """All its tasks were sent."""
    sent: frozenset[str] = frozenset()
    """The ids of those tasks that were sent, as an attempt that failed half-way noted them."""
    lane: int = 0
    staged: StagedObject | None = None
    """Where the page's records lie until they are merged; of a page that was staged, not dispatched."""

    @property
    def unsent(self) -> tuple[Task, ...]:
        """What is left to send."""
        return tuple(task for task in self.tasks if task.task_id not in self.sent)

    @property
    def members(self) -> Iterable[Member]:
        """Every record version of every task."""
        return (member for task in self.tasks for member in task.members)

    def placing(self, placed: Iterable[Task]) -> "Plan":
        """This plan with these tasks in place of those of the same ids: they know where their bodies lie."""
        by_id = {task.task_id: task for task in placed}
        return replace(self, tasks=tuple(by_id.get(task.task_id, task) for task in self.tasks))

    def without(self, settled: "Settled") -> "Plan":
        """This plan less the tasks that only another plan's run has sent: those are not sent again."""
        kept = tuple(task for task in self.tasks if task.task_id in self.sent or task.task_id not in settled.task_ids)
        if len(kept) == len(self.tasks):
            return self
        dropped = sum(len(task.versions) for task in self.tasks) - sum(len(task.versions) for task in kept)
        moved = min(dropped, self.counts.dispatched)
        counts = replace(
            self.counts,
            dispatched=self.counts.dispatched - moved,
            already_dispatched=self.counts.already_dispatched + moved,
            groups=distinct_groups(kept),
            tasks=len(kept),
        )
        return replace(self, tasks=kept, counts=counts)


@dataclass(slots=True)
class Settled:
    """What other plans say of the records asked for: dispatched already, or in a task that may have been sent.

    Plans are taken in one by one, and nothing is kept of them but what concerns these records.
    """

    asked: Container[Member] = frozenset()
    dispatched: set[Member] = field(default_factory=set)
    in_doubt: dict[Member, Task] = field(default_factory=dict)
    task_ids: set[str] = field(default_factory=set)
    """The ids of the tasks that were sent."""

    def knows(self, member: Member) -> bool:
        """Whether the record was dispatched, or is in a task that may have been sent."""
        return member in self.dispatched or member in self.in_doubt

    def add(self, plan: Plan) -> list[Task]:
        """Take in one plan; return the tasks that it leaves in doubt.  A task that was sent outweighs one in doubt."""
        doubtful = []
        for task in plan.tasks:
            members = [member for member in task.members if member in self.asked]
            if not members:
                continue
            if plan.finished or task.task_id in plan.sent:
                self.dispatched.update(members)
                self.task_ids.add(task.task_id)
                for member in members:
                    self.in_doubt.pop(member, None)
            else:
                self.in_doubt |= {member: task for member in members if member not in self.dispatched}
                doubtful.append(task)
        return doubtful


@dataclass(frozen=True, slots=True)
class Composition:
    """A page's records, sorted by what has to be done with them."""

    carried: tuple[Task, ...]
    """Tasks of unfinished plans, taken as they are; their objects exist."""
    new: tuple[NewTask, ...]
    dispatched: int
    already_dispatched: int

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks in the order of sending: what was in doubt first, since it is older."""
        return *self.carried, *(new.task for new in self.new)

    @property
    def counts(self) -> Counts:
        """What these records count."""
        return Counts(
            waiting=self.dispatched + self.already_dispatched,
            dispatched=self.dispatched,
            already_dispatched=self.already_dispatched,
            groups=distinct_groups(self.tasks),
            tasks=len(self.tasks),
        )


def settle(
    bookings: Iterable[Booking],
    settled: Settled,
    window: Window,
    composed: Callable[[Iterable[Booking], Window], Iterable[NewTask]] = compose,
) -> Composition:
    """Skip what was dispatched, take along the tasks in doubt as they are, compose tasks of the rest.

    No record is held here, so that what is held of them is up to `composed`.
    """
    sieve = _Sieve(settled)
    new = tuple(composed(sieve.fresh(bookings), window))
    dispatched = sieve.covered + sum(len(each.task.versions) for each in new)
    return Composition(tuple(sieve.carried.values()), new, dispatched, sieve.already_dispatched)


@dataclass(slots=True)
class _Sieve:
    settled: Settled
    carried: dict[str, Task] = field(default_factory=dict)
    covered: int = 0
    """So many records are in the tasks carried along."""
    already_dispatched: int = 0

    def fresh(self, bookings: Iterable[Booking]) -> Iterator[Booking]:
        """Let those through that no plan knows, and note the others."""
        for booking in bookings:
            member = booking.member
            if member in self.settled.dispatched:
                self.already_dispatched += 1
            elif member in self.settled.in_doubt:
                task = self.settled.in_doubt[member]
                self.carried[task.task_id] = task
                self.covered += 1
            else:
                yield booking
