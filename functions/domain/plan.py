"""The plan of a page: the tasks that a page was decided to be, written once before anything is sent.

The plans are the ledger.  A version in a finished plan was dispatched; one that stands only in unfinished plans may
have been sent, so its task is taken as it is.  Source: the design's "The page plan is the ledger".
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from functions.domain.booking import Booking, Group, RecordVersion
from functions.domain.cursor import Token
from functions.domain.run import Counts
from functions.domain.task import NewTask, Task, compose, distinct_groups
from functions.domain.window import Window

Member: TypeAlias = tuple[Group, RecordVersion]
"""What the ledger knows a record by: its group and its version."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One page of one run.  `finished` says that all its tasks were sent."""

    page: int
    tasks: tuple[Task, ...]
    next_token: Token | None
    counts: Counts
    finished: bool = False

    @property
    def members(self) -> Iterable[Member]:
        """Every record version of every task."""
        return ((task.group, version) for task in self.tasks for version in task.versions)

    def without(self, settled: "Settled") -> "Plan":
        """This plan less the tasks that stand in a finished plan: those were sent, and are not sent again."""
        kept = tuple(task for task in self.tasks if task.task_id not in settled.task_ids)
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


@dataclass(frozen=True, slots=True)
class Settled:
    """What other plans say of some records: dispatched already, or in a task that may have been sent."""

    dispatched: frozenset[Member] = frozenset()
    in_doubt: dict[Member, Task] = field(default_factory=dict)
    task_ids: frozenset[str] = frozenset()
    """The ids of the tasks in finished plans."""

    @classmethod
    def by(cls, plans: Iterable[Plan]) -> "Settled":
        """What these plans say; a finished plan outweighs an unfinished one."""
        finished: list[Task] = []
        unfinished: list[Task] = []
        for plan in plans:
            (finished if plan.finished else unfinished).extend(plan.tasks)
        dispatched = frozenset((task.group, version) for task in finished for version in task.versions)
        in_doubt = {
            (task.group, version): task
            for task in unfinished
            for version in task.versions
            if (task.group, version) not in dispatched
        }
        return cls(dispatched, in_doubt, frozenset(task.task_id for task in finished))


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


def settle(bookings: Iterable[Booking], settled: Settled, window: Window) -> Composition:
    """Skip what was dispatched, take along the tasks in doubt as they are, compose tasks of the rest."""
    carried: dict[str, Task] = {}
    fresh: list[Booking] = []
    covered = already = 0
    for booking in bookings:
        member = (booking.group, booking.version)
        if member in settled.dispatched:
            already += 1
        elif member in settled.in_doubt:
            task = settled.in_doubt[member]
            carried[task.task_id] = task
            covered += 1
        else:
            fresh.append(booking)
    return Composition(tuple(carried.values()), tuple(compose(fresh, window)), covered + len(fresh), already)
