"""Reconcile: what the index says of a window's records, what the ledger says of them, and where the two differ.

Bookings, task data and plans become lines that begin with a SHA-256: of a record's version, or the one that names an
object: its task's id, or its pack's own digest.  Sorted and merged, all that is known of one version or object stands
together, and nothing else is held.
Source: docs/contract.md, "Reconcile".
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Any, Final

from functions.domain.booking import (
    Booking,
    Group,
    RecordVersion,
    Route,
    is_booking_time,
    is_waiting,
    key_text,
    read_booking,
    version_of,
)
from functions.domain.cursor import TIME_ATTRIBUTE
from functions.domain.errors import ConfigurationError
from functions.domain.lane import Range, ranges_of
from functions.domain.pack import pack_digest
from functions.domain.plan import Plan
from functions.domain.run import State, field_of
from functions.domain.staging import BUCKETS, StagedObject
from functions.domain.task import Task, tasks_prefix
from functions.domain.values import Item, quote
from functions.domain.versions import version_text
from functions.domain.window import HOUR, Window, parse_instant

REACH: Final = 2
"""A task lies within one hour and its edges; whoever takes it along meets it on an edge.  So it can stand in a plan of
the hour before or after its own, and one of its records in the hour beyond."""
FIRST_TIME: Final = "00:00:00"
LAST_TIME: Final = "24:00:00Z"
"""No window reads a key below or above these."""
LOWEST_KEY: Final = "\x00"
HIGHEST_KEY: Final = "\U0010ffff"
"""The bounds of whatever can stand in the sort key."""
_DIGEST_CHARACTERS: Final = 64
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_ABOUT_CHARACTERS: Final = 32
_UNREADABLE: Final = "-"


class Step(StrEnum):
    """What is done piece by piece."""

    BOOKINGS = "bookings"
    TABLE = "table"
    """Only where it was asked for."""
    OBJECTS = "objects"
    PLANS = "plans"
    COMPARED = "compared"


class Difference(StrEnum):
    """The classes; each is a count of the output and of the report, and a metric."""

    MISSING_IN_LEDGER = "MissingInLedger"
    """It waits and can be dispatched, and no plan has it."""
    MISSING_IN_BOOKINGS = "MissingInBookings"
    """It was dispatched, and the query no longer returns it: moved or deleted since."""
    VALUE_MISMATCH = "ValueMismatch"
    """It still waits long after it was dispatched, or its group or reward type changed since."""
    DUPLICATE = "Duplicate"
    """It stands in two tasks that were sent."""
    ORPHAN_OBJECT = "OrphanObject"
    """Task data that no plan names."""
    UNREACHABLE = "Unreachable"
    """It waits at a time that is none, or without the index's keys: no window will ever dispatch it."""
    MISSING_HOUR = "MissingHour"
    """No run of the window was recorded."""
    IN_DOUBT = "InDoubt"
    """It stands only in plans that were never finished."""


class Seen(StrEnum):
    """What the index says of a record."""

    WAITING = "waiting"
    SET_ASIDE = "set-aside"
    """It waits and is bad data."""
    UNREACHABLE = "unreachable"
    OTHER = "other"
    """It does not wait."""


class Planned(StrEnum):
    """What a plan says of a task."""

    FINISHED = "finished"
    SENT = "sent"
    """The plan is not finished, and notes the task as sent."""
    IN_DOUBT = "in doubt"


class Place(StrEnum):
    """Whose plan a record stands in."""

    OWN = "own"
    """One of the window's."""
    ELSEWHERE = "elsewhere"
    """One of the window's, which took along a neighbour's task: the record is not the window's."""
    NEIGHBOUR = "neighbour"
    """A neighbour's, and the record is the window's too."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """What holds for the whole reconcile."""

    execution_id: str
    taken_at: str
    """When its execution started: the moment that all ages are counted to."""
    window: Window
    shards: int
    still_waiting_hours: int
    audit_table: bool = False
    """Whether the table is looked through for records that the index does not hold."""

    @property
    def window_ranges(self) -> tuple[Range, ...]:
        """What the window's runs read."""
        return ranges_of(self.window, shards=self.shards)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The same, and behind it what of the window's date no window reads."""
        beyond = ((LOWEST_KEY, FIRST_TIME), (LAST_TIME, HIGHEST_KEY))
        return *self.window_ranges, *(
            Range(keys.date_key, low, high, excludes_low=False) for keys in self.window_ranges for low, high in beyond
        )

    @property
    def windows(self) -> list[Window]:
        """The window and its neighbours: all whose runs can have planned its records."""
        return [Window(self.window.start + hours * HOUR) for hours in range(-REACH, REACH + 1)]

    @property
    def overdue(self) -> int:
        """A record still waits long after dispatch if its plan was finished before this, in epoch seconds."""
        return parse_instant(self.taken_at).seconds - self.still_waiting_hours * HOUR.seconds

    @property
    def moments(self) -> tuple[str, str]:
        """The first and the last booking moment that the window's query returns, as `RecordVersion.moment` has them."""
        return f"{self.window.date}T{self.window.low}", f"{self.window.date}T{self.window.high}"

    def reads(self, version: RecordVersion) -> bool:
        """Whether the window's query returns this key."""
        first, last = self.moments
        return first <= version.moment <= last

    def to_state(self) -> dict[str, Any]:
        """The state's `Reconcile`."""
        return {
            "ExecutionId": self.execution_id,
            "TakenAt": self.taken_at,
            "WindowStart": self.window.start_text,
            "WindowEnd": self.window.end_text,
            "Shards": self.shards,
            "StillWaitingHours": self.still_waiting_hours,
            "AuditTable": self.audit_table,
        }

    @classmethod
    def from_state(cls, state: State) -> "Reconcile":
        """The inverse of `to_state`.

        Raises:
            ConfigurationError: a field is missing or mistyped.
        """
        try:
            window = Window.starting(field_of(state, "WindowStart", str))
        except ValueError as error:
            raise ConfigurationError(f"state: Reconcile: {error}") from None
        return cls(
            execution_id=field_of(state, "ExecutionId", str),
            taken_at=field_of(state, "TakenAt", str),
            window=window,
            shards=field_of(state, "Shards", int),
            still_waiting_hours=field_of(state, "StillWaitingHours", int),
            audit_table=field_of(state, "AuditTable", bool),
        )


@dataclass(frozen=True, slots=True)
class Loop:
    """How far a step is: the piece to do next, and from where.  `cursor` is the step's own, None at its start."""

    piece: int = 1
    cursor: State | None = None
    has_more: bool = True

    def to_state(self) -> dict[str, Any]:
        """`{"Piece", "Cursor", "HasMore"}`; `HasMore` is always there and always a boolean."""
        return {"Piece": self.piece, "Cursor": self.cursor, "HasMore": self.has_more}

    @classmethod
    def from_state(cls, state: State) -> "Loop":
        """The inverse of `to_state`.

        Raises:
            ConfigurationError: a field is missing or mistyped.
        """
        piece = field_of(state, "Piece", int)
        return cls(piece, state.get("Cursor"), field_of(state, "HasMore", bool))


@dataclass(frozen=True, slots=True)
class DatedPlan:
    """A plan with its tasks, and when it was finished (epoch seconds); None if it never was."""

    plan: Plan
    finished_at: int | None


@dataclass(frozen=True, slots=True)
class Piece:
    """What one call of a step came to; recorded once, so that no second attempt reads anything else."""

    number: int
    cursor: State | None
    """Where the next piece starts; None at the step's end."""
    counts: Mapping[str, int]
    staged: StagedObject | None
    """Where its lines lie; None where there are none."""

    @property
    def following(self) -> Loop:
        """How far the step is once this piece is done."""
        return Loop(self.number + 1, self.cursor, self.cursor is not None)


def booking_line(item: Item, key_attributes: Sequence[str], date_attribute: str) -> str:
    """A record of the window's query: its version, what it is to a run, and what makes up its task.

    Raises:
        ConfigurationError: the table's key attributes are not those of the settings.
    """
    version = version_of(item, key_attributes, date_attribute)
    record = read_booking(item, key_attributes, date_attribute)
    about, seen = _UNREADABLE, Seen.SET_ASIDE
    if isinstance(record, Booking):
        about, seen = about_of(record.route, record.group), Seen.WAITING
    if not is_waiting(item):
        seen = Seen.OTHER
    elif not is_booking_time(version.time):
        seen = Seen.UNREACHABLE
    return _record_line(version, "B", seen, about)


def beyond_line(item: Item, key_attributes: Sequence[str], date_attribute: str) -> str:
    """A record that waits where no window's query comes."""
    version = version_of(item, key_attributes, date_attribute)
    return _record_line(version, "B", Seen.UNREACHABLE, _UNREADABLE)


def unkeyed_line(item: Item, key_attributes: Sequence[str]) -> str:
    """A record that waits and that the index does not hold: it has no version, and is known by its key alone."""
    return _line(f"[{key_text(item, key_attributes)}]", "B", Seen.UNREACHABLE, _UNREADABLE)


def is_beyond(item: Item) -> bool:
    """Whether a record waits where no window's query comes; the bounds themselves are read by a window's."""
    return is_waiting(item) and not FIRST_TIME <= item[TIME_ATTRIBUTE]["S"] <= LAST_TIME


def object_line(window: Window, key: str) -> str:
    """A key under the window's prefix, behind its task's id, its pack's digest, or a hash where it is none of ours."""
    task_id = key[-_DIGEST_CHARACTERS - 5 : -5]
    own = key == f"{tasks_prefix(window)}{task_id[:2]}/{task_id}.json"
    name = task_id if own else pack_digest(window, key)
    if name is None or _DIGEST.fullmatch(name) is None:  # a line must begin with a digest, or its share is not its own
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    return "\t".join((name, "O", quote(key)))


def _object_name(task: Task) -> str:
    """What the line of the object that holds the task's body begins with."""
    return (pack_digest(task.window, task.extent.key) if task.extent else None) or task.task_id


def plan_lines(reconcile: Reconcile, of_window: Window, dated: DatedPlan) -> Iterator[str]:
    """The records of a plan that concern the window, and, of the window's own plan, the objects of its tasks."""
    own, plan = of_window == reconcile.window, dated.plan
    if own:
        yield from (f"{name}\tT" for name in dict.fromkeys(map(_object_name, plan.tasks)))
    for task in plan.tasks:
        state = Planned.FINISHED if plan.finished else Planned.SENT if task.task_id in plan.sent else Planned.IN_DOUBT
        about = about_of(task.route, task.group)
        for version in task.versions:
            reads = reconcile.reads(version)
            if own or reads:
                place = (Place.OWN if reads else Place.ELSEWHERE) if own else Place.NEIGHBOUR
                yield _record_line(version, "P", state, place, task.task_id, about, str(dated.finished_at or 0))


def about_of(route: Route, group: Group) -> str:
    """A digest of what makes a record another task's: its group and its reward type."""
    return hashlib.sha256(f"{route} {group.text}".encode("ascii")).hexdigest()[:_ABOUT_CHARACTERS]


def _record_line(version: RecordVersion, *fields: str) -> str:
    return _line(version_text(version), *fields)


def _line(text: str, *fields: str) -> str:
    return "\t".join((hashlib.sha256(text.encode("ascii")).hexdigest(), *fields, text))


def digest_of(line: bytes) -> bytes:
    """The SHA-256 that the line begins with."""
    return line[:_DIGEST_CHARACTERS]


def share_from(first: int, objects: Sequence[StagedObject], most: int) -> range:
    """The buckets from `first` on that are compared in one call: until they have `most` lines together.

    They follow from what is staged alone: whoever compares them writes the same.
    """
    gathered, end = 0, first
    while end < BUCKETS and gathered < most:
        gathered += sum(one.lines[end] for one in objects)
        end += 1
    return range(first, end)


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference: of a record (`[key, date, time]`, or `[key]`), or of an object (its key); all as JSON."""

    kind: Difference
    text: str

    @classmethod
    def of_line(cls, line: bytes) -> "Finding":
        """Read the line of a finding."""
        _, kind, text = line[:-1].decode("ascii").split("\t")
        return cls(Difference(kind), text)

    def line(self, digest: bytes) -> bytes:
        """As a line that sorts as what it was found in."""
        return b"%b\t%b\t%b\n" % (digest, self.kind.encode("ascii"), self.text.encode("ascii"))


class Comparison:
    """Compares sorted lines as they pass, and counts."""

    def __init__(self, overdue: int) -> None:
        """`overdue`: see `Reconcile.overdue`."""
        self.counts: Counter[str] = Counter()
        self._overdue = overdue

    def findings(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines of all differences, sorted."""
        for digest, group in groupby(lines, digest_of):
            known = _Known(line[:-1].decode("ascii").split("\t") for line in group)
            self.counts["DispatchedRecords"] += known.is_dispatched
            self.counts["SetAside"] += known.seen == Seen.SET_ASIDE and not known.is_planned
            for kind in sorted(known.differences(self._overdue)):
                self.counts[kind] += 1
                yield Finding(kind, known.text).line(digest)


class _Known:
    """All that is known of one record's version, or of one object of task data."""

    def __init__(self, lines: Iterable[Sequence[str]]) -> None:
        self.text = ""
        self.seen: str | None = None
        self.is_dispatched = False
        """A finished plan of the window has it."""
        self.is_planned = False
        """A plan has it, and it is the window's."""
        self._about = ""
        self._sent: dict[str, str] = {}
        """The tasks that were sent, and what they are about."""
        self._is_finished = False
        self._finished_at: list[int] = []
        self._has_object = self._has_task = False
        for _, kind, *fields in lines:
            match kind:
                case "B":
                    self._take_booking(*fields)
                case "P":
                    self._take_planned(*fields)
                case "O":
                    (self.text,) = fields
                    self._has_object = True
                case "T":
                    self._has_task = True

    def differences(self, overdue: int) -> Iterator[Difference]:
        """What is wrong with it."""
        if self._has_object and not self._has_task:
            yield Difference.ORPHAN_OBJECT
        if self.is_planned and len(self._sent) > 1:
            yield Difference.DUPLICATE
        if self.is_planned and not self._is_finished:
            yield Difference.IN_DOUBT
        elif self.is_planned and self.seen is None:
            yield Difference.MISSING_IN_BOOKINGS
        elif self.is_planned and (self._has_changed or self._is_overdue(overdue)):
            yield Difference.VALUE_MISMATCH
        elif not self.is_planned and self.seen == Seen.WAITING:
            yield Difference.MISSING_IN_LEDGER
        elif not self.is_planned and self.seen == Seen.UNREACHABLE:
            yield Difference.UNREACHABLE

    @property
    def _has_changed(self) -> bool:
        return self._about not in self._sent.values()

    def _is_overdue(self, overdue: int) -> bool:
        return self.seen == Seen.WAITING and min(self._finished_at, default=overdue) < overdue

    def _take_booking(self, seen: str, about: str, text: str) -> None:
        """A record that moved to another shard while it was read is seen twice, and may have changed between."""
        self.text = text
        if self.seen in (None, Seen.OTHER):
            self.seen, self._about = seen, about

    def _take_planned(self, *fields: str) -> None:
        state, place, task_id, about, finished_at, self.text = fields
        if state != Planned.IN_DOUBT:
            self._sent[task_id] = about
        if state == Planned.FINISHED:
            self._is_finished = True
            self._finished_at += [int(finished_at)] if finished_at != "0" else []
            self.is_dispatched |= place != Place.NEIGHBOUR
        self.is_planned |= place != Place.ELSEWHERE
