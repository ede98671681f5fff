"""The full-read path: the whole window in memory, grouped as one, dispatched in chunks by the same plans.

Its meaning is the old one: a group of the window is one task, whatever its size.  Its memory grows with the window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from functions.domain.booking import BadRecord, Booking
from functions.domain.page import sort_out
from functions.domain.plan import Composition, Plan, Settled, settle
from functions.domain.run import Counts, Others, Path, Progress, Run
from functions.domain.task import NewTask
from functions.domain.values import Item
from functions.usecases.attempt import Attempt, hold_to_limit, set_aside
from functions.usecases.dispatch_page import dispatch_page
from functions.usecases.look_up import look_up
from functions.usecases.ports import Dispatch, PlansOf
from functions.usecases.reading import pages_of

CHUNK_RECORDS = 1000
"""A chunk is closed at this many records, so that its plan stays small; a group is never split."""


def dispatch_window(run: Run, progress: Progress, others: Others, dispatch: Dispatch, deadline: float) -> Progress:
    """Read the whole window, then dispatch each of its groups once; return the progress at the window's end.

    The plans are numbered chunks.  A retry settles the chunks that were decided, reads the window again and goes on
    with what stands in none of them.  The last chunk carries the counts of the reading; once it is decided nothing
    is read again.  In a dry run the window is read and counted, and nothing is changed: also one of the other paths
    whose run is laid out in lanes, for lanes are laid out by their plans.  If the kill switch is on, no further chunk
    is begun and the progress is stopped.  `deadline` is in epoch seconds.

    Raises:
        TokenNotAdvancing, TooManyBadRecords, LeaseLost, ConfigurationError, TransientError: as named.
    """
    if dispatch.stop():
        return replace(progress, stopped=True) if run.dry_run else _stopped(progress, list(_planned(run, dispatch)))
    if run.dry_run:
        if run.path is Path.PAGED:
            return _counted(run, progress, others, dispatch, deadline)
        reading = _read(run, dispatch)
        composition = settle(reading.bookings, _settled(reading, run, 1, others, dispatch), run.window)
        return progress.after(composition.counts + reading.counts, None)
    attempt = Attempt(dispatch, run, deadline)
    planned = list(_planned(run, dispatch))
    done = [_carried_out(plan, others, attempt) for plan in planned]
    if not _closed(done):
        done += _dispatch_rest(_read(run, dispatch), planned, others, attempt)
    totals = sum((plan.counts for plan in done), Counts())
    if not _closed(done):
        return replace(progress, stopped=True, totals=totals)
    return progress.after(totals, None)


def _counted(run: Run, progress: Progress, others: Others, dispatch: Dispatch, deadline: float) -> Progress:
    """What the pages of all lanes would do, counted page by page; the first lane may have begun."""
    counts = Counts()
    for lane in range(len(run.ranges)):
        following = progress if lane == progress.lane else Progress(lane=lane)
        while following.has_more and not following.stopped:
            following = dispatch_page(run, following, others, dispatch, deadline)
        counts += following.totals
        hold_to_limit(run, counts.set_aside)
        if following.stopped:
            return replace(progress, stopped=True, totals=counts)
    return replace(progress, has_more=False, totals=counts)


def _stopped(progress: Progress, planned: list[Plan]) -> Progress:
    """Stopped with what was done; or at the end, where an attempt has come there and its answer was lost."""
    totals = sum((plan.counts for plan in planned if plan.finished), Counts())
    if _closed(planned) and all(plan.finished for plan in planned):
        return progress.after(totals, None)
    return replace(progress, stopped=True, totals=totals)


def _planned(run: Run, dispatch: Dispatch) -> Iterator[Plan]:
    """The chunks of this run that were decided."""
    return dispatch.ledger.plans(PlansOf(run.window, (run.run_id,)))


@dataclass(frozen=True, slots=True)
class _Reading:
    pages: int
    evaluated: int
    bookings: list[Booking]
    bad: list[BadRecord]

    @property
    def counts(self) -> Counts:
        """What the reading adds to the counts of the chunks."""
        return Counts(pages=self.pages, evaluated=self.evaluated, waiting=len(self.bad), set_aside=len(self.bad))


def _closed(done: Sequence[Plan]) -> bool:
    """Whether the last chunk is among these: the only one that counts queries."""
    return any(plan.counts.pages for plan in done)


def _carried_out(plan: Plan, others: Others, attempt: Attempt) -> Plan:
    if plan.finished:
        return plan
    settled = look_up(attempt.dispatch.ledger, attempt.lease.run, plan.page, others, plan.members)
    return attempt.carry_out(plan.without(settled))


def _read(run: Run, dispatch: Dispatch) -> _Reading:
    items: list[Item] = []
    pages = evaluated = 0
    for page in pages_of(run, dispatch.bookings):
        pages += 1
        evaluated += page.evaluated_count
        items += page.items
    bookings, bad = sort_out(items, dispatch.bookings.key_attributes, dispatch.bookings.date_attribute)
    set_aside(dispatch, run, Progress(), bad)
    return _Reading(pages, evaluated, bookings, bad)


def _settled(reading: _Reading, run: Run, chunk: int, others: Others, dispatch: Dispatch) -> Settled:
    return look_up(dispatch.ledger, run, chunk, others, [booking.member for booking in reading.bookings])


def _dispatch_rest(reading: _Reading, planned: Sequence[Plan], others: Others, attempt: Attempt) -> Iterator[Plan]:
    """Plan and send, chunk by chunk, what was read and stands in no chunk of this run yet; the kill switch ends it."""
    run, dispatch = attempt.lease.run, attempt.dispatch
    own = {member for plan in planned for member in plan.members}
    rest = [booking for booking in reading.bookings if booking.member not in own]
    settled = _settled(reading, run, len(planned) + 1, others, dispatch)
    composition = settle(rest, settled, run.window)
    chunks = _chunks(composition)
    for number, chunk in enumerate(chunks, start=1):
        if number > 1 and dispatch.stop():
            return
        counts = chunk.counts
        if number == len(chunks):
            counts += reading.counts
        plan = attempt.decide(Plan(len(planned) + number, chunk.tasks, None, counts), chunk.new)
        yield attempt.carry_out(plan)


def _chunks(composition: Composition) -> list[Composition]:
    """The composition cut after every CHUNK_RECORDS records, at least one piece.

    The first takes what was in doubt, the last counts what was dispatched already.
    """
    cuts: list[list[NewTask]] = [[]]
    records = 0
    for new in composition.new:
        if records >= CHUNK_RECORDS:
            cuts.append([])
            records = 0
        cuts[-1].append(new)
        records += len(new.task.versions)
    in_doubt = composition.dispatched - sum(len(new.task.versions) for new in composition.new)
    chunks = [Composition((), tuple(cut), sum(len(new.task.versions) for new in cut), 0) for cut in cuts]
    chunks[0] = replace(chunks[0], carried=composition.carried, dispatched=chunks[0].dispatched + in_doubt)
    chunks[-1] = replace(chunks[-1], already_dispatched=composition.already_dispatched)
    return chunks
