"""A range of buckets, merged of all staged objects and dispatched chunk by chunk: each group once, complete, in order.

Source: docs/contract.md, "Staging".
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import dropwhile, groupby
from typing import Final, TypeAlias

from functions.domain.booking import Booking, Route
from functions.domain.budget import CALL_SECONDS
from functions.domain.cursor import Token
from functions.domain.errors import InvalidToken
from functions.domain.plan import Plan, Settled, settle
from functions.domain.run import Others, Progress, Run
from functions.domain.staging import StagedObject, bucket_of_digest, group_of, range_in, read_line
from functions.domain.task import NewTask, compose, compose_streamed
from functions.domain.window import Window
from functions.usecases.attempt import Attempt
from functions.usecases.dispatch_page import stopped
from functions.usecases.dispatch_window import CHUNK_RECORDS
from functions.usecases.look_up import look_up_buckets
from functions.usecases.ports import Dispatch, Staging

CHUNK_BYTES: Final = 4 * 1024 * 1024
"""A chunk is closed at so many bytes of records too, for all of them are held."""
GIANT_BYTES: Final = 8 * 1024 * 1024
"""A group of more is never held: it is read twice, once for its tasks' ids and once for their objects."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")

_Composed: TypeAlias = Callable[[Iterable[Booking], Window], Iterable[NewTask]]


def merge_bucket(run: Run, progress: Progress, others: Others, dispatch: Dispatch, deadline: float) -> Progress:
    """Dispatch one chunk after the other from where `progress` stands, as many as there is time for.

    A chunk is complete groups, and has a plan of its own: one that has a plan is never composed again.  If it is
    finished its result is taken, else its tasks are sent, less those that were sent.  If the kill switch is on, no
    further chunk is begun and the progress is stopped.  `deadline` is in epoch seconds.

    Raises:
        InvalidToken, LeaseLost, TransientError: as named.
    """
    share, _ = _place_in(progress.token)
    if dispatch.stop():
        return stopped(run, progress, dispatch)
    attempt = Attempt(dispatch, run, deadline, progress.lane)
    last_start = min(deadline, attempt.lease.held_until) - 2 * CALL_SECONDS
    chunks = _Chunks(attempt, others, share)
    while True:
        plan = chunks.plan(progress)
        if plan is None:
            return progress
        if not plan.finished:
            plan = attempt.carry_out(plan)
        progress = progress.after(plan.counts, plan.next_token)
        if not progress.has_more or progress.hands_over(run.page_budget) or dispatch.clock() >= last_start:
            return progress
        if dispatch.stop():
            return replace(progress, stopped=True)


def _place_in(token: object) -> tuple[range, bytes | None]:
    """The share of the buckets, and the last group that was done.

    Raises:
        InvalidToken: it is no token of a merge.
    """
    share = range_in(token)
    match token:
        case {"After": {"S": str(last)}} if _DIGEST.fullmatch(last) and bucket_of_digest(last) in share:
            return share, last.encode("ascii")
        case {"After": _}:
            raise InvalidToken("Token.After: expected the SHA-256 of a group between From and To")
    return share, None


def _token(share: range, last: bytes) -> Token:
    """Where the chunk behind this group begins."""
    return {"From": {"N": str(share.start)}, "To": {"N": str(share.stop)}, "After": {"S": last.decode("ascii")}}


class _Chunks:
    """The plans of a share of the buckets, as one call comes to them."""

    def __init__(self, attempt: Attempt, others: Others, share: range) -> None:
        self._attempt = attempt
        self._share = share
        self._first = True
        self._decided = True
        """Until a chunk is found that has no plan: those behind it have none either."""
        run, dispatch = attempt.lease.run, attempt.dispatch
        self._settled = cache(lambda: look_up_buckets(dispatch.ledger, run, others, share))
        """Read once, if at all: what other runs planned does not change while this run holds its leases."""
        self._records = cache(lambda: _Records(dispatch.staging, list(dispatch.ledger.staged(run)), share))

    def plan(self, progress: Progress) -> Plan | None:
        """The plan of the chunk that the progress names, as it was decided, or as it is now.

        None where a giant group comes next and this call has done chunks already: the next call has all of its time.
        """
        run, ledger = self._attempt.lease.run, self._attempt.dispatch.ledger
        first, self._first = self._first, False
        if self._decided:
            plan = ledger.read_plan(run, progress.page, progress.lane)
            if plan is not None:
                return plan if plan.finished else plan.without(self._settled())
            self._decided = False
        chunk = self._records().chunk(_place_in(progress.token)[1])
        if isinstance(chunk, _GiantGroup) and not first:
            return None
        return self._decide(chunk, progress)

    def _decide(self, chunk: "_Chunk | _GiantGroup", progress: Progress) -> Plan:
        window = self._attempt.lease.run.window
        composition = settle(chunk.bookings, self._settled(), window, self._composed(chunk))
        following = _token(self._share, chunk.last) if chunk.is_followed else None
        finished = not composition.tasks
        plan = Plan(progress.page, composition.tasks, following, composition.counts, finished, lane=progress.lane)
        return self._attempt.decide(plan, composition.new)

    def _composed(self, chunk: "_Chunk | _GiantGroup") -> _Composed:
        if isinstance(chunk, _GiantGroup):
            return partial(compose_streamed, documents=partial(_Documents, chunk, self._settled()))
        return compose


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Complete groups, held together."""

    bookings: list[Booking]
    last: bytes
    """The SHA-256 of the last group."""
    is_followed: bool
    """Whether another group comes behind it."""


class _Records:
    """The staged records of a share of the buckets, merged of all objects and read group by group."""

    def __init__(self, staging: Staging, objects: Sequence[StagedObject], share: range) -> None:
        self._staging = staging
        self._objects = objects
        self._share = share
        self._groups: Iterator[tuple[bytes, Iterator[bytes]]] = iter(())
        self._next: tuple[bytes, Iterator[bytes]] | None = None

    def chunk(self, after: bytes | None) -> "_Chunk | _GiantGroup":
        """The groups behind this one that together have CHUNK_RECORDS records, or the next one if it is a giant."""
        if self._next is None:
            self._open(after)
        bookings: list[Booking] = []
        size, last = 0, b""
        while self._next is not None and len(bookings) < CHUNK_RECORDS and size < CHUNK_BYTES:
            digest, lines = self._next
            group, group_size = _held(lines)
            if group_size > GIANT_BYTES:
                self._close()  # what is read ahead takes memory; and the group is read from its beginning
                return _Chunk(bookings, last, is_followed=True) if bookings else _GiantGroup(self, digest)
            bookings += group
            size += group_size
            last = digest
            self._next = next(self._groups, None)
        return _Chunk(bookings, last, self._next is not None)

    def from_bucket(self, first: int) -> Iterator[bytes]:
        """All lines of the share from this bucket on."""
        return self._staging.read(self._objects, range(first, self._share.stop))

    def _open(self, after: bytes | None) -> None:
        if after is None:
            lines = self.from_bucket(self._share.start)
        else:
            lines = dropwhile(lambda line: group_of(line) <= after, self.from_bucket(bucket_of_digest(after)))
        self._groups = groupby(lines, group_of)
        self._next = next(self._groups, None)

    def _close(self) -> None:
        self._groups, self._next = iter(()), None


def _held(lines: Iterable[bytes]) -> tuple[list[Booking], int]:
    """A group's bookings and the bytes of its lines; none of a giant, which is not read to its end."""
    bookings: list[Booking] = []
    size = 0
    for line in lines:
        size += len(line)
        if size > GIANT_BYTES:
            return [], size
        bookings.append(read_line(line))
    return bookings, size


class _GiantGroup(Iterable[Booking]):
    """The bookings of one group in order, read anew each time that they are asked for."""

    def __init__(self, records: _Records, digest: bytes) -> None:
        self._records = records
        self.last = digest
        self.is_followed = False
        """Whether another group comes behind it; known once it was read to its end."""

    @property
    def bookings(self) -> Iterable[Booking]:
        return self

    def __iter__(self) -> Iterator[Booking]:
        for line in self._records.from_bucket(bucket_of_digest(self.last)):
            digest = group_of(line)
            if digest == self.last:
                yield read_line(line)
            elif digest > self.last:
                self.is_followed = True
                return


@dataclass(frozen=True, slots=True)
class _Documents(Iterable[str]):
    """The documents of a giant group's records of one route, less those that a plan knows."""

    group: _GiantGroup
    settled: Settled
    route: Route

    def __iter__(self) -> Iterator[str]:
        return (
            booking.document
            for booking in self.group
            if booking.route is self.route and not self.settled.knows(booking.member)
        )
