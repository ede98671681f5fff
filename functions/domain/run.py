"""A run: what was decided once when it started, how far it is, and what it counted.

These travel in the state machine's state.  The names there are PascalCase; a missing or mistyped field is refused,
since interpreters differ in what they make of one.
"""

import operator
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from functions.domain.budget import PAGE_LEASE_SECONDS, WINDOW_LEASE_SECONDS
from functions.domain.cursor import Token
from functions.domain.errors import ConfigurationError
from functions.domain.lane import Range, ranges_of
from functions.domain.window import Window

State: TypeAlias = Mapping[str, Any]

DEFAULT_PAGE_BUDGET: Final = 2000
"""An execution holds 25,000 history events, and a page takes seven of them."""
_Kind = TypeVar("_Kind")


class Path(StrEnum):
    """How a run reads its window, and what it groups."""

    FULL = "full"
    """All at once, in memory; groups are the window's."""
    PAGED = "paged"
    """Page by page; groups are each page's."""
    GROUPED = "grouped"
    """Page by page, staged and merged; groups are the window's."""
    REDO = "redo"
    """Version by version, as a report lists what is missing; groups are each page's."""

    @property
    def lease_seconds(self) -> int:
        """How long a lease lasts that is renewed for one call of this path's function."""
        return WINDOW_LEASE_SECONDS if self is Path.FULL else PAGE_LEASE_SECONDS


@dataclass(frozen=True, slots=True)
class Counts:
    """What one page, one chunk or a whole run did.  `waiting = dispatched + already_dispatched + set_aside`."""

    pages: int = 0
    evaluated: int = 0
    waiting: int = 0
    dispatched: int = 0
    already_dispatched: int = 0
    set_aside: int = 0
    groups: int = 0
    tasks: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*map(operator.add, astuple(self), astuple(other)))

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(*map(operator.sub, astuple(self), astuple(other)))

    @property
    def as_done_before(self) -> "Counts":
        """What these pages count for an execution that has found them done: nothing of them is dispatched by it."""
        already = self.already_dispatched + self.dispatched
        return replace(self, dispatched=0, already_dispatched=already, groups=0, tasks=0)

    def to_state(self) -> dict[str, int]:
        """`{"Pages": 1, "Evaluated": 5, ...}`."""
        return {_pascal(name): value for name, value in asdict(self).items()}

    @classmethod
    def from_state(cls, state: State) -> "Counts":
        """The inverse of `to_state`.

        Raises:
            ConfigurationError: a field is missing or no integer.
        """
        return cls(*(field_of(state, _pascal(f.name), int) for f in fields(cls)))


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a deployment fixes for all its runs."""

    shards: int = 0
    concurrency: int = 1
    page_budget: int = DEFAULT_PAGE_BUDGET


@dataclass(frozen=True, slots=True)
class LeaseOwner:
    """An execution that works on a run of a window."""

    run_id: str
    execution_id: str
    window: Window


@dataclass(frozen=True, slots=True)
class Run:
    """What holds for the whole run; read once from the input and the parameters."""

    run_id: str
    """Names the run in the journal; a resumed run keeps its id."""
    execution_id: str
    """Names the execution that works on it, and holds its leases."""
    started_at: str
    window: Window
    path: Path
    page_size: int
    dry_run: bool
    set_aside_limit: int
    lease_seconds: int
    resume: bool = False
    """Go on with the window's last run, if that has not come to its end."""
    given: tuple[str, ...] = ()
    """The fields of the input: what was given outweighs what a resumed run had."""
    redrives: int = 0
    """How often this execution had been redriven when it last went on."""
    slices: int = 1
    """So many ranges of time are read side by side."""
    shards: int = 0
    """So many partitions hold each date of the index; 0 where it is not sharded."""
    concurrency: int = 1
    """At most so many lanes are worked on side by side."""
    page_budget: int = DEFAULT_PAGE_BUDGET
    """After so many pages the next execution goes on, for an execution's history is bounded."""
    handed_over: bool = False
    """Whether the run had passed that budget when its leases were taken: its own loop over pages is over."""

    @property
    def ranges(self) -> tuple[Range, ...]:
        """What each of the lanes that query reads, by the lane's number."""
        return ranges_of(self.window, self.slices, self.shards)

    @property
    def in_lanes(self) -> bool:
        """Whether the run has lanes to lay out; else its one lane is the execution's own loop."""
        several = self.handed_over or self.slices * max(self.shards, 1) > 1
        return self.path is Path.GROUPED or (self.path is Path.PAGED and several)

    @property
    def grant(self) -> str:
        """Names the taking of the leases under which the run works; whoever works under an earlier one is superseded.

        An execution takes them once when it begins, and once more whenever it is redriven.
        """
        return f"{self.execution_id}#{self.redrives}"

    @property
    def lease_owner(self) -> "LeaseOwner":
        """Who holds this run's edges."""
        return LeaseOwner(self.run_id, self.execution_id, self.window)

    def to_state(self) -> dict[str, Any]:
        """The state's `Run`."""
        return {
            "RunId": self.run_id,
            "ExecutionId": self.execution_id,
            "StartedAt": self.started_at,
            "WindowStart": self.window.start_text,
            "WindowEnd": self.window.end_text,
            "Path": self.path.value,
            "PageSize": self.page_size,
            "DryRun": self.dry_run,
            "SetAsideLimit": self.set_aside_limit,
            "LeaseSeconds": self.lease_seconds,
            "Resume": self.resume,
            "Given": list(self.given),
            "Redrives": self.redrives,
            "Slices": self.slices,
            "Shards": self.shards,
            "Concurrency": self.concurrency,
            "PageBudget": self.page_budget,
            "HandedOver": self.handed_over,
            "InLanes": self.in_lanes,
        }

    @classmethod
    def from_state(cls, state: State) -> "Run":
        """The inverse of `to_state`.

        Raises:
            ConfigurationError: a field is missing or mistyped.
        """
        try:
            window = Window.starting(field_of(state, "WindowStart", str))
            path = Path(field_of(state, "Path", str))
        except ValueError as error:
            raise ConfigurationError(f"state: Run: {error}") from None
        return cls(
            run_id=field_of(state, "RunId", str),
            execution_id=field_of(state, "ExecutionId", str),
            started_at=field_of(state, "StartedAt", str),
            window=window,
            path=path,
            page_size=field_of(state, "PageSize", int),
            dry_run=field_of(state, "DryRun", bool),
            set_aside_limit=field_of(state, "SetAsideLimit", int),
            lease_seconds=field_of(state, "LeaseSeconds", int),
            resume=field_of(state, "Resume", bool),
            given=tuple(field_of(state, "Given", list)),
            redrives=field_of(state, "Redrives", int),
            slices=field_of(state, "Slices", int),
            shards=field_of(state, "Shards", int),
            concurrency=field_of(state, "Concurrency", int),
            page_budget=field_of(state, "PageBudget", int),
            handed_over=field_of(state, "HandedOver", bool),
        )


RunIds: TypeAlias = tuple[str, ...] | None
"""Runs of one window; None where they are too many to carry, and must be asked for."""


@dataclass(frozen=True, slots=True)
class Others:
    """The other runs whose plans can hold this run's records; the same as long as its leases are held."""

    before: RunIds = ()
    """Of the previous window."""
    own: RunIds = ()
    """Of this window."""
    after: RunIds = ()
    """Of the next window."""

    def to_state(self) -> dict[str, list[str] | None]:
        """`{"Before": [...], "Own": [...], "After": [...]}`."""
        return {_pascal(name): None if ids is None else list(ids) for name, ids in asdict(self).items()}

    @classmethod
    def from_state(cls, state: State) -> "Others":
        """The inverse of `to_state`.

        Raises:
            ConfigurationError: a field is missing or mistyped.
        """
        return cls(*(_run_ids(state, name) for name in ("Before", "Own", "After")))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a lane is: the page to do next, the token to read it from, and what the pages before it did."""

    page: int = 1
    token: Token | None = None
    has_more: bool = True
    stopped: bool = False
    """The kill switch was on before this page: nothing more is read until the run is resumed."""
    totals: Counts = Counts()
    lane: int = 0

    def after(self, counts: Counts, next_token: Token | None) -> "Progress":
        """The progress once this page is done: a lane goes on exactly as long as there is a token."""
        totals = self.totals + counts
        return Progress(self.page + 1, next_token, next_token is not None, totals=totals, lane=self.lane)

    def hands_over(self, page_budget: int) -> bool:
        """Whether the next page is not this execution's any more."""
        return self.has_more and self.page > 1 and (self.page - 1) % page_budget == 0

    def to_state(self) -> dict[str, Any]:
        """The state's `Progress`; `HasMore` is always there and always a boolean."""
        return {
            "Lane": self.lane,
            "Page": self.page,
            "Token": self.token,
            "HasMore": self.has_more,
            "Stopped": self.stopped,
            "Totals": self.totals.to_state(),
        }

    @classmethod
    def from_state(cls, state: State) -> "Progress":
        """The inverse of `to_state`; the token is taken as it is and checked where it is used.

        Raises:
            ConfigurationError: a field is missing or mistyped.
        """
        page = field_of(state, "Page", int)  # from here on the state is known to be an object
        if "Token" not in state:
            raise ConfigurationError("state: missing field Token")
        return cls(
            page=page,
            token=state["Token"],
            has_more=field_of(state, "HasMore", bool),
            stopped=field_of(state, "Stopped", bool),
            totals=Counts.from_state(field_of(state, "Totals", Mapping)),  # type: ignore[type-abstract]  # only isinstance
            lane=field_of(state, "Lane", int),
        )


def field_of(state: State, name: str, kind: type[_Kind]) -> _Kind:
    """A required field of the state.

    Raises:
        ConfigurationError: it is missing, null or of another type; the message names it.
    """
    value = state.get(name) if isinstance(state, Mapping) else None
    if value is None:
        raise ConfigurationError(f"state: missing field {name}")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ConfigurationError(f"state: field {name} is no {kind.__name__}")
    return value


def _run_ids(state: State, name: str) -> RunIds:
    if isinstance(state, Mapping) and name in state and state[name] is None:
        return None
    return tuple(field_of(state, name, list))


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
