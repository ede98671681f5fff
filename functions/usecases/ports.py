"""What the use cases need of the outside world.  `functions/adapters` gives it on AWS, tests give fakes.

Every method raises only the errors of `domain/errors.py`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from functions.domain.booking import BadRecord
from functions.domain.cursor import Token
from functions.domain.lane import Range
from functions.domain.page import QueryPage
from functions.domain.plan import Plan
from functions.domain.reconcile import DatedPlan, Piece, Step
from functions.domain.run import LeaseOwner, Others, Progress, Run, RunIds
from functions.domain.staging import StagedObject
from functions.domain.task import NewTask, Task
from functions.domain.window import Window


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that is worked on in a window, and until when (epoch seconds) if its leases are not renewed."""

    run_id: str
    held_until: int


@dataclass(frozen=True, slots=True)
class Lease:
    """One attempt's right to plan and send in its lane: valid until `held_until` (epoch seconds), or superseded."""

    run: Run
    attempt: str
    held_until: int
    lane: int = 0


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A run as the journal holds it."""

    run_id: str
    started_at: str
    path: str
    page_size: int
    slices: int
    shards: int
    outcome: str | None
    """How it ended; None while it runs, or where nobody saw it end."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of booking dates and times, both ends included."""

    low: str
    high: str


@dataclass(frozen=True, slots=True)
class PlansOf:
    """Plans of some runs of a window (None: of all its runs) with tasks in the span and in the buckets, where given."""

    window: Window
    run_ids: RunIds
    span: Span | None = None
    buckets: range | None = None


class BookingIndex(Protocol):
    """The bookings of a window, one page at a time."""

    @property
    def key_attributes(self) -> Sequence[str]:
        """The names of the table's primary key attributes, one or two."""

    @property
    def date_attribute(self) -> str:
        """The name of the index's partition key attribute."""

    @property
    def shards(self) -> int:
        """In how many partitions each date lies; 0 where the date alone is the key."""

    def query_page(self, keys: Range, token: Token | None, page_size: int) -> QueryPage:
        """Read one page behind `token`, in the order of booking times; `page_size` bounds what is evaluated."""


class BookingTable(Protocol):
    """The table behind the index, one page at a time."""

    @property
    def key_attributes(self) -> Sequence[str]:
        """The names of its primary key attributes, one or two."""

    def unkeyed_page(self, token: Token | None) -> QueryPage:
        """Read one page behind `token`: the primary keys of those records that wait and that the index does not hold.

        They lack a key attribute of the index, or have one of another type than text.
        """


class Leases(Protocol):
    """Who may work on a window."""

    def take(self, run: Run) -> Holder | None:
        """Take both edges of the run's window at once, or none; None if they are held now, else who holds the window.

        They are held under the run's grant.  Taking again what this execution holds already supersedes whoever works
        under an earlier grant.  The run stands in the journal from then on.

        Raises:
            WindowBusy: a neighbouring window's run holds an edge.
        """

    def renew(self, run: Run, lane: int = 0) -> Lease:
        """Begin a new attempt: renew both edges and supersede the attempt before in this lane, in one call.

        Raises:
            LeaseLost: the run no longer holds an edge under its grant.
        """

    def confirm(self, lease: Lease) -> None:
        """See that the window is still held under the run's grant and that no later attempt has begun in the lane.

        Raises:
            LeaseLost: it does not, or one has.
        """

    def release(self, owner: LeaseOwner) -> None:
        """Give back those edges that the owner's execution still holds."""


class Journal(Protocol):
    """Which runs there were, how far they came and how they ended."""

    def others(self, run: Run) -> Others:
        """The other runs of this window and the runs of its neighbours, whether they ended or not."""

    def last_run(self, window: Window) -> JournalEntry | None:
        """The latest run of the window that read it; a redo is none."""

    def outlines(self, owner: LeaseOwner) -> Iterator[Plan]:
        """The plans of the owner's run by lane and page, without their tasks."""

    def in_doubt(self, run: Run, others: Others) -> bool:
        """Whether a plan of the other runs is unfinished."""

    def owner_of(self, execution_id: str, ended_at: float = math.inf) -> LeaseOwner | None:
        """What an execution worked on; None if it never held a window, or took it again after `ended_at`.

        That is in epoch seconds, and of an end that is told late: the execution was redriven since.
        """

    def is_open(self, owner: LeaseOwner) -> bool:
        """Whether nobody has noted yet how the owner's execution ended, and none has gone on with its run."""

    def conclude(self, owner: LeaseOwner, outcome: str, detail: Mapping[str, Any]) -> bool:
        """Note how the owner's execution ended, unless that is known or another execution has gone on with the run.

        Returns whether it was noted now.
        """


class Ledger(Leases, Protocol):
    """Plans, and the leases beside them: a plan is written only under its leases."""

    def read_plan(self, run: Run, page: int, lane: int = 0) -> Plan | None:
        """The plan of this lane's page, read consistently; a finished one comes without its tasks."""

    def plans(self, *wanted: PlansOf) -> Iterator[Plan]:
        """The plans that are wanted, each with its tasks, by run, lane and page; one at a time: few are held."""

    def staged(self, run: Run, *, folded: bool = True) -> Iterator[StagedObject]:
        """The objects that hold the run's staged records, by lane and page: its folds if there are any, else its pages.

        Its pages in any case, unless `folded`: folds are written side by side, and each is one of the pages.
        """

    def draft_plan(self, lease: Lease, plan: Plan) -> Callable[[], None]:
        """Make ready what is called to write the plan once, under the lease; from then on this page is decided.

        Nothing is written before.  The call raises LeaseLost if the lease is no longer this attempt's, or another
        attempt wrote the plan.
        """

    def note_sent(self, lease: Lease, plan: Plan) -> None:
        """Keep the ids in `plan.sent` beside the plan, under the lease.

        Raises:
            LeaseLost: the lease is no longer this attempt's.
        """

    def finish_plan(self, lease: Lease, plan: Plan) -> Plan:
        """Mark the plan finished with its final counts, under the lease.

        Raises:
            LeaseLost: the lease is no longer this attempt's.
        """


class TaskData(Protocol):
    """The bucket that holds the tasks' objects and the records set aside."""

    def uploading(
        self, tasks: Sequence[NewTask], before_each: Callable[[], None]
    ) -> AbstractContextManager[Sequence[Task]]:
        """Write every task's body: the context gives the tasks as they say where, and behind it all bodies exist.

        The first failure starts no further upload, and is raised where the context ends.  `before_each` is called
        before each upload, or part of one, and stops them by raising.
        """

    def set_aside(self, run: Run, progress: Progress, records: Sequence[BadRecord]) -> None:
        """Write the records with their reasons to the one object of this page of the lane."""


class Staging(Protocol):
    """The bucket's part that holds the records of a grouped run between reading and merging."""

    def write(self, key: str, lines: Iterable[bytes]) -> StagedObject:
        """Write the lines, which come sorted, as one object and return its index; memory is bounded, not by the lines.

        Writing again replaces the object; the index that a plan holds is of the object that it was written with.
        """

    def read(self, objects: Sequence[StagedObject], buckets: range) -> Iterator[bytes]:
        """All lines of these buckets in order, merged of all objects; memory is bounded, not by the lines."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is not there is no error."""


class TaskQueues(Protocol):
    """The FIFO queues, one for each route."""

    def send(
        self, tasks: Sequence[Task], before_batch: Callable[[], None], accepted: Callable[[Iterable[str]], None]
    ) -> None:
        """Send every task; on return the queues have them all.  Tasks of one group keep their order.

        `before_batch` is called before each batch and stops the sending by raising; `accepted` is told the ids of
        tasks as soon as their queue has confirmed them.  Both are called from several threads.
        """


class Notifier(Protocol):
    """Tells a person."""

    def notify(self, subject: str, text: str) -> None:
        """Send one readable message."""


class Parameters(Protocol):
    """The deployed flags."""

    def read(self) -> Mapping[str, str]:
        """The parameters that exist, by their short names (`BookingDispatcherPageSize`, ...)."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The collaborators of a dispatching function."""

    bookings: BookingIndex
    ledger: Ledger
    task_data: TaskData
    task_queues: TaskQueues
    staging: Staging
    stop: Callable[[], bool]
    """Whether the kill switch is on, read fresh."""
    clock: Callable[[], float]
    """Epoch seconds."""


class Plans(Protocol):
    """The ledger as a reconcile reads it: every plan, whoever's, and no lease."""

    def runs_of(self, window: Window) -> Sequence[JournalEntry]:
        """The runs of a window that ever held it, by start time."""

    def dated(self, window: Window, run_id: str, span: Span, after: tuple[int, int] | None) -> Iterator[DatedPlan]:
        """The run's plans with tasks in the span, behind a lane's page, by lane and page; few are held at a time."""


class TaskObjects(Protocol):
    """The keys of the tasks' objects."""

    def keys(self, prefix: str, after: str) -> Iterator[str]:
        """The keys that begin so, in their order, behind the key `after`; listed as they are asked for."""


class Pieces(Protocol):
    """What the calls of a reconcile came to, each recorded once."""

    def find(self, execution_id: str, step: Step, number: int) -> Piece | None:
        """The piece, if it was recorded."""

    def record(self, execution_id: str, step: Step, piece: Piece) -> Piece:
        """Record the piece, and return the one that stands there: another attempt's, if that one was first."""

    def of(self, execution_id: str, step: Step) -> Iterator[Piece]:
        """The step's pieces in their order."""


class Reports(Protocol):
    """The bucket's part that keeps the reports."""

    @property
    def bucket(self) -> str:
        """Its name."""

    def write(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write one object from the pieces of its body, whatever their number."""

    def lines(self, key: str, offset: int = 0) -> Iterator[bytes]:
        """The lines of an object from a byte on, with their ends, read as they are asked for.

        Raises:
            InvalidInput: there is no such object, or none that may be read.
        """


class Repairs(Protocol):
    """What is asked of a person before a redo, and what is kept of it."""

    def ask(self, execution: str, token: str) -> None:
        """Note the task token by which the execution (its ARN) is answered; a later one takes its place."""

    def keep(self, run: Run, repair: Mapping[str, Any]) -> None:
        """Keep, without end, what a redo did so far; a later call of the execution takes its place."""
