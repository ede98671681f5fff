"""Many staged pages, folded into one object: a merge reads all objects side by side, so they must not be too many.

Source: docs/contract.md, "Staging".
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from functions.domain.plan import Plan
from functions.domain.run import Counts, Progress, Run
from functions.domain.staging import ALL_BUCKETS, fold_key, range_in
from functions.usecases.attempt import Attempt
from functions.usecases.dispatch_page import stopped
from functions.usecases.ports import Dispatch

LINES_UNWATCHED: Final = 10_000
"""Some hundredths of a second's work."""


def fold_pages(run: Run, progress: Progress, dispatch: Dispatch, deadline: float) -> Progress:
    """Fold the staged pages that the token names, by their place among all; return the progress at the lane's end.

    The fold's plan is written last, when its object is there; it counts nothing.  If the kill switch is on, nothing is
    read, and the progress is stopped where it stands.  `deadline` is in epoch seconds.

    Raises:
        InvalidToken, LeaseLost, TransientError: as named.
    """
    places = range_in(progress.token)
    if dispatch.stop():
        return stopped(run, progress, dispatch)
    attempt = Attempt(dispatch, run, deadline, progress.lane)
    plan = dispatch.ledger.read_plan(run, progress.page, progress.lane)
    if plan is None:
        pages = list(islice(dispatch.ledger.staged(run, folded=False), places.start, places.stop))
        lines = _watched(dispatch.staging.read(pages, ALL_BUCKETS), attempt)
        staged = dispatch.staging.write(fold_key(run.run_id, run.window, progress.lane), lines)
        plan = Plan(progress.page, (), None, Counts(), finished=True, lane=progress.lane, staged=staged)
        attempt.decide(plan, ())
    return progress.after(plan.counts, plan.next_token)


def _watched(lines: Iterator[bytes], attempt: Attempt) -> Iterator[bytes]:
    """The lines, with a look from time to time whether the attempt may go on."""
    for number, line in enumerate(lines):
        if number % LINES_UNWATCHED == 0:
            attempt.check()
        yield line
