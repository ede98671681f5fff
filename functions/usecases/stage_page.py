"""One page of a grouped run, from its token to the object that holds its records until they are merged.

Source: docs/contract.md, "Staging".
"""

from functions.domain.cursor import Token
from functions.domain.page import sort_out
from functions.domain.plan import Plan
from functions.domain.run import Counts, Progress, Run
from functions.domain.staging import page_key, staged_line
from functions.usecases.attempt import Attempt, set_aside
from functions.usecases.dispatch_page import stopped
from functions.usecases.ports import Dispatch
from functions.usecases.reading import read_page, token_in


def stage_page(run: Run, progress: Progress, dispatch: Dispatch, deadline: float) -> Progress:
    """Stage the page that `progress` names and return the progress behind it.

    A page that has a plan is never queried again.  Its plan is written last, when its object is there: it is finished
    at once, has no task, and holds the object's index.  If the kill switch is on, nothing is read, and the progress is
    stopped where it stands.  `deadline` is in epoch seconds.

    Raises:
        InvalidToken, TokenNotAdvancing, TooManyBadRecords, LeaseLost, TransientError: as named.
    """
    token = token_in(run, progress, dispatch.bookings)
    if dispatch.stop():
        return stopped(run, progress, dispatch)
    attempt = Attempt(dispatch, run, deadline, progress.lane)
    plan = dispatch.ledger.read_plan(run, progress.page, progress.lane)
    if plan is None:
        plan = _staged(run, progress, token, attempt)
        attempt.decide(plan, ())
    return progress.after(plan.counts, plan.next_token)


def _staged(run: Run, progress: Progress, token: Token | None, attempt: Attempt) -> Plan:
    """Query the page, set its bad records aside, and write the good ones; a page without any has no object."""
    dispatch = attempt.dispatch
    page = read_page(run, progress.lane, token, dispatch.bookings)
    bookings, bad = sort_out(page.items, dispatch.bookings.key_attributes, dispatch.bookings.date_attribute)
    set_aside(dispatch, run, progress, bad)
    lines = sorted(map(staged_line, bookings))
    staged = None
    if lines:
        attempt.check()
        staged = dispatch.staging.write(page_key(run.run_id, run.window, progress.lane, progress.page, lines), lines)
    counts = Counts(pages=1, evaluated=page.evaluated_count, waiting=len(bad), set_aside=len(bad))
    return Plan(progress.page, (), page.next_token, counts, finished=True, lane=progress.lane, staged=staged)
