"""One page of a redo: so many missing versions, each looked for where it is said to wait, and dispatched as any page.

Source: docs/contract.md, "Redo".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Final

from functions.domain.booking import is_waiting, version_of
from functions.domain.cursor import Token
from functions.domain.page import QueryPage
from functions.domain.redo import MAX_SAMPLES_BYTES, SAMPLES, Missing, Redo, offset_of, ranges_at, token_at
from functions.domain.run import Counts, Others, Progress, Run
from functions.domain.values import Item
from functions.usecases.dispatch_page import compose_page, dispatch_read
from functions.usecases.ports import BookingIndex, Dispatch, Journal, Reports
from functions.usecases.reading import pages_in

_QUERY_LIMIT: Final = 1000


@dataclass(frozen=True, slots=True)
class Count:
    """What a redo would dispatch, as far as it is counted."""

    progress: Progress
    samples: tuple[str, ...] = ()
    """Keys of records that would be dispatched."""

    def to_state(self, without_approval: int) -> dict[str, Any]:
        """The state's `Count`; up to `without_approval` records need no second person."""
        dispatched = self.progress.totals.dispatched
        return {
            "Progress": self.progress.to_state(),
            "Samples": list(self.samples),
            "HasMore": self.progress.has_more,
            "AnyLeft": dispatched > 0,
            "NeedsApproval": dispatched > without_approval,
            "AlreadyDispatched": self.progress.totals.already_dispatched,
            "NoLongerWaiting": no_longer_waiting(self.progress.totals),
        }


def no_longer_waiting(totals: Counts) -> int:
    """How many of the versions asked for wait no more, or cannot be dispatched by now."""
    return totals.evaluated - totals.dispatched - totals.already_dispatched


def count_page(  # noqa: PLR0913 -- a page's, and what was counted before it
    run: Run, redo: Redo, count: Count, *, journal: Journal, reports: Reports, dispatch: Dispatch
) -> Count:
    """Count one page more of what a redo of the report would dispatch now; nothing is changed and no lease is held.

    An earlier redo of the report is one of the other runs here: what it has dispatched is not counted again.  A page
    that it left unfinished is counted as it was planned, even if all was sent: else nothing would seem to be left, and
    its records would stay in doubt, for nobody would go on with it.
    """
    progress = count.progress
    begun = {plan.page: plan for plan in journal.outlines(run.lease_owner) if not plan.finished}
    if progress.page in begun:
        plan = begun[progress.page]
        return replace(count, progress=progress.after(plan.counts, plan.next_token))
    trial = replace(run, run_id=run.execution_id, dry_run=True)
    composition, following, counts = compose_page(
        trial,
        progress,
        journal.others(trial),
        dispatch,
        lambda: _missing_page(trial, redo, progress.token, reports, dispatch.bookings),
    )
    keys = (version.key for task in composition.tasks for version in task.versions)
    return Count(progress.after(counts, following), tuple(_sampled([*count.samples], keys)))


def redo_page(  # noqa: PLR0913 -- a page's, and the list that it is a page of
    run: Run, redo: Redo, progress: Progress, others: Others, *, reports: Reports, dispatch: Dispatch, deadline: float
) -> Progress:
    """Do the page that `progress` names by the rules of every page, and return the progress behind it.

    Raises:
        InvalidToken, LeaseLost, TransientError: as named.
    """
    offset_of(progress.token)
    return dispatch_read(
        run,
        progress,
        others,
        dispatch,
        deadline,
        read=lambda: _missing_page(run, redo, progress.token, reports, dispatch.bookings),
    )


def _missing_page(run: Run, redo: Redo, token: Token | None, reports: Reports, index: BookingIndex) -> QueryPage:
    """Those of the next versions of the list that still wait; `evaluated_count` is how many were looked for."""
    offset = offset_of(token)
    lines = reports.lines(redo.list_key, offset)
    chunk = list(islice(lines, run.page_size))
    following = offset + sum(map(len, chunk))
    has_more = next(lines, None) is not None
    items = list(_waiting([Missing.of_line(line) for line in chunk], run, index))
    return QueryPage(items, token_at(following) if has_more else None, len(chunk))


def _waiting(asked: Sequence[Missing], run: Run, index: BookingIndex) -> Iterator[Item]:
    """The records that wait at a version asked for, each once."""
    left = set(asked)
    for keys in ranges_at(dict.fromkeys((one.date, one.time) for one in asked), run):
        for item in chain.from_iterable(page.items for page in pages_in(keys, _QUERY_LIMIT, index)):
            found = Missing(*version_of(item, index.key_attributes, index.date_attribute))
            if found in left and is_waiting(item):
                left.remove(found)
                yield item


def _sampled(samples: list[str], keys: Iterator[str]) -> list[str]:
    for key in keys:
        if len(samples) == SAMPLES or sum(map(len, samples)) + len(key) > MAX_SAMPLES_BYTES:
            break
        samples.append(key)
    return samples
