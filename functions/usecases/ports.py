"""What the use cases need of the outside world.  `functions/adapters` gives it on AWS, tests give fakes.

Every method raises only the errors of `domain/errors.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from functions.domain.booking import BadRecord
from functions.domain.cursor import Token
from functions.domain.page import QueryPage
from functions.domain.plan import Plan
from functions.domain.run import Others, Run
from functions.domain.task import NewTask, Task
from functions.domain.window import Window


@dataclass(frozen=True, slots=True)
class Holder:
    """The run that holds a window's edges, and until when (epoch seconds) if it does not renew."""

    run_id: str
    held_until: int


@dataclass(frozen=True, slots=True)
class Lease:
    """One attempt's right to plan and send for its run: valid until `held_until` (epoch seconds), or superseded."""

    run: Run
    attempt: str
    held_until: int


@dataclass(frozen=True, slots=True)
class Span:
    """A range of booking dates and times, both ends included."""

    low: str
    high: str


class BookingIndex(Protocol):
    """The bookings of a window, one page at a time."""

    @property
    def key_attributes(self) -> Sequence[str]:
        """The names of the table's primary key attributes, one or two."""

    def query_page(self, window: Window, token: Token | None, page_size: int) -> QueryPage:
        """Read one page behind `token`, in the order of booking times; `page_size` bounds what is evaluated."""


class Leases(Protocol):
    """Who may work on a window."""

    def take(self, run: Run) -> Holder | None:
        """Take both edges of the run's window at once, or none; None if they are held now, else who holds the window.

        Taking again what the run holds already renews it.

        Raises:
            WindowBusy: a neighbouring window's run holds an edge.
        """

    def others(self, run: Run) -> Others:
        """Whether other runs of this window and of its neighbours were ever started."""

    def renew(self, run: Run) -> Lease:
        """Begin a new attempt: renew both edges and supersede the attempt before, in one call.

        Raises:
            LeaseLost: the run no longer holds an edge.
        """

    def release(self, run: Run) -> None:
        """Give back those edges that the run still holds."""


class Ledger(Leases, Protocol):
    """Plans, and the leases beside them: a plan is written only under its leases."""

    def read_plan(self, run: Run, page: int) -> Plan | None:
        """The plan of this run's page, read consistently; a finished one comes without its tasks."""

    def plans(self, window: Window, span: Span | None = None, run_id: str | None = None) -> list[Plan]:
        """The plans of a window (of one run, or of all) with a task in the span, by run and page."""

    def create_plan(self, lease: Lease, plan: Plan) -> None:
        """Write the plan once, under the lease.  From here on this page is decided.

        Raises:
            LeaseLost: the lease is no longer this attempt's, or another attempt wrote the plan.
        """

    def finish_plan(self, lease: Lease, plan: Plan) -> Plan:
        """Mark the plan finished with its final counts, under the lease.

        Raises:
            LeaseLost: the lease is no longer this attempt's.
        """


class TaskData(Protocol):
    """The bucket that holds the tasks' objects and the records set aside."""

    def upload(self, tasks: Sequence[NewTask]) -> None:
        """Write every task's object; on return all of them exist.  The first failure starts no further upload."""

    def set_aside(self, run: Run, page: int, records: Sequence[BadRecord]) -> None:
        """Write the records with their reasons to the one object of this run's page."""


class TaskQueues(Protocol):
    """The FIFO queues, one for each route."""

    def send(self, tasks: Sequence[Task], before_batch: Callable[[], None]) -> None:
        """Send every task; on return the queues have them all.  Tasks of one group keep their order.

        `before_batch` is called before each batch and stops the sending by raising.
        """


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
    clock: Callable[[], float]
    """Epoch seconds."""
