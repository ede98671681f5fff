"""The full-read path: the whole window in memory, grouped as one, dispatched in chunks by the same plans.

Its meaning is the old one: a group of the window is one task, whatever its size.  Its memory grows with the window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from functions.domain.booking import BadRecord, Booking
from functions.domain.cursor import Token, check_advance
from functions.domain.page import sort_out
from functions.domain.plan import Composition, Plan, Settled, settle
from functions.domain.run import Counts, Others, Progress, Run
from functions.domain.task import NewTask, distinct_groups
from functions.domain.values import Item
from functions.usecases.look_up import look_up
from functions.usecases.ports import Dispatch, Lease
from functions.usecases.sending import carry_out, decide, set_aside

CHUNK_RECORDS = 1000
"""A chunk is closed at this many records, so that its plan stays small; a group is never split."""


def dispatch_window(run: Run, progress: Progress, others: Others, dispatch: Dispatch) -> Progress:
    """Read the whole window, then dispatch each of its groups once; return the progress at the window's end.

    The plans are numbered chunks.  A retry settles the chunks that were decided, reads the window again and goes on
    with what stands in none of them.  The last chunk carries the counts of the reading; once it is decided nothing
    is read again.  In a dry run the window is read and counted, and nothing is changed.

    Raises:
        TokenNotAdvancing, TooManyBadRecords, LeaseLost, ConfigurationError, TransientError: as named.
    """
    if run.dry_run:
        reading = _read(run, dispatch)
        composition = settle(reading.bookings, _settled(reading, run, others, dispatch), run.window)
        counts = _chunk_counts(composition)
        return progress.after(counts + reading.counts(composition.already_dispatched), None)
    lease = dispatch.ledger.renew(run)
    planned = dispatch.ledger.plans(run.window, run_id=run.run_id)
    done = [_carried_out(plan, others, lease, dispatch) for plan in planned]
    if not any(plan.counts.pages for plan in done):
        reading = _read(run, dispatch)
        done += _dispatch_rest(reading, planned, others, lease, dispatch)
    return progress.after(sum((plan.counts for plan in done), Counts()), None)


@dataclass(frozen=True, slots=True)
class _Reading:
    pages: int
    evaluated: int
    bookings: list[Booking]
    bad: list[BadRecord]

    def counts(self, already_dispatched: int) -> Counts:
        """What the reading adds to the counts of the chunks."""
        return Counts(
            pages=self.pages,
            evaluated=self.evaluated,
            waiting=already_dispatched + len(self.bad),
            already_dispatched=already_dispatched,
            set_aside=len(self.bad),
        )


def _carried_out(plan: Plan, others: Others, lease: Lease, dispatch: Dispatch) -> Plan:
    if plan.finished:
        return plan
    settled = look_up(dispatch.ledger, lease.run, others, [version for _, version in plan.members])
    return carry_out(dispatch, lease, plan.without(settled))


def _read(run: Run, dispatch: Dispatch) -> _Reading:
    items: list[Item] = []
    token: Token | None = None
    pages = evaluated = 0
    while True:
        page = dispatch.bookings.query_page(run.window, token, run.page_size)
        check_advance(token, page.next_token)
        pages += 1
        evaluated += page.evaluated_count
        items += page.items
        token = page.next_token
        if token is None:
            break
    bookings, bad = sort_out(items, dispatch.bookings.key_attributes)
    set_aside(dispatch, run, 1, bad, Counts())
    return _Reading(pages, evaluated, bookings, bad)


def _settled(reading: _Reading, run: Run, others: Others, dispatch: Dispatch) -> Settled:
    return look_up(dispatch.ledger, run, others, [booking.version for booking in reading.bookings])


def _dispatch_rest(
    reading: _Reading, planned: Sequence[Plan], others: Others, lease: Lease, dispatch: Dispatch
) -> Iterator[Plan]:
    """Plan and send, chunk by chunk, what was read and stands in no chunk of this run yet."""
    run = lease.run
    own = {member for plan in planned for member in plan.members}
    rest = [booking for booking in reading.bookings if (booking.group, booking.version) not in own]
    composition = settle(rest, _settled(reading, run, others, dispatch), run.window)
    chunks = _chunks(composition)
    for number, chunk in enumerate(chunks, start=1):
        counts = _chunk_counts(chunk)
        if number == len(chunks):
            counts += reading.counts(composition.already_dispatched)
        plan = Plan(len(planned) + number, chunk.tasks, None, counts)
        decide(dispatch, lease, plan, chunk.new)
        yield carry_out(dispatch, lease, plan)


def _chunks(composition: Composition) -> list[Composition]:
    """The composition cut after every CHUNK_RECORDS records, at least one piece; the first takes what was in doubt."""
    cuts: list[list[NewTask]] = [[]]
    records = 0
    for new in composition.new:
        if records >= CHUNK_RECORDS:
            cuts.append([])
            records = 0
        cuts[-1].append(new)
        records += len(new.documents)
    in_doubt = composition.dispatched - sum(len(new.documents) for new in composition.new)
    chunks = [Composition((), tuple(cut), sum(len(new.documents) for new in cut), 0) for cut in cuts]
    chunks[0] = replace(chunks[0], carried=composition.carried, dispatched=chunks[0].dispatched + in_doubt)
    return chunks


def _chunk_counts(chunk: Composition) -> Counts:
    return Counts(
        waiting=chunk.dispatched,
        dispatched=chunk.dispatched,
        groups=distinct_groups(chunk.tasks),
        tasks=len(chunk.tasks),
    )
