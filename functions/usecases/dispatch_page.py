"""One page, from its token to its finished plan and the next token.

Source: docs/contract.md, "Plan and lease".
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from functions.domain.cursor import Token
from functions.domain.page import QueryPage, sort_out
from functions.domain.plan import Composition, Plan, settle
from functions.domain.run import Counts, Others, Progress, Run
from functions.usecases.attempt import Attempt, set_aside
from functions.usecases.look_up import look_up
from functions.usecases.ports import Dispatch
from functions.usecases.reading import read_page, token_in

Read: TypeAlias = Callable[[], QueryPage]
"""Where a page's records come from."""


def dispatch_page(run: Run, progress: Progress, others: Others, dispatch: Dispatch, deadline: float) -> Progress:
    """Do the page that `progress` names and return the progress behind it.

    A page that has a plan is never queried again: if finished its result is returned, else its tasks are sent, less
    those that were sent.  In a dry run the page is read and counted, and nothing is changed.  If the kill switch is on,
    nothing is read, and the progress is stopped where it stands.  `deadline` is in epoch seconds.

    Raises:
        InvalidToken, TokenNotAdvancing, TooManyBadRecords, LeaseLost, TransientError: as named.
    """
    token = token_in(run, progress, dispatch.bookings)
    return dispatch_read(
        run, progress, others, dispatch, deadline, read=lambda: read_page(run, progress.lane, token, dispatch.bookings)
    )


def dispatch_read(  # noqa: PLR0913 -- a page's, and where its records come from
    run: Run, progress: Progress, others: Others, dispatch: Dispatch, deadline: float, *, read: Read
) -> Progress:
    """The same for a page whose records `read` gives; it is not called where the page has a plan."""
    if dispatch.stop():
        return stopped(run, progress, dispatch)
    if run.dry_run:
        _, next_token, counts = compose_page(run, progress, others, dispatch, read)
        return progress.after(counts, next_token)
    attempt = Attempt(dispatch, run, deadline, progress.lane)
    plan = dispatch.ledger.read_plan(run, progress.page, progress.lane)
    if plan is None:
        composition, next_token, counts = compose_page(run, progress, others, dispatch, read)
        plan = Plan(progress.page, composition.tasks, next_token, counts, lane=progress.lane)
        plan = attempt.decide(plan, composition.new)
    elif not plan.finished:
        plan = plan.without(look_up(dispatch.ledger, run, plan.page, others, plan.members))
    if not plan.finished:
        plan = attempt.carry_out(plan)
    return progress.after(plan.counts, plan.next_token)


def stopped(run: Run, progress: Progress, dispatch: Dispatch) -> Progress:
    """Stopped before this page; or behind it, where an attempt has finished it and its answer was lost."""
    plan = None if run.dry_run else dispatch.ledger.read_plan(run, progress.page, progress.lane)
    if plan is None or not plan.finished:
        return replace(progress, stopped=True)
    following = progress.after(plan.counts, plan.next_token)
    return replace(following, stopped=following.has_more)


def compose_page(
    run: Run, progress: Progress, others: Others, dispatch: Dispatch, read: Read
) -> tuple[Composition, Token | None, Counts]:
    """Read the page, set its bad records aside, and compose what has to be sent."""
    page = read()
    bookings, bad = sort_out(page.items, dispatch.bookings.key_attributes, dispatch.bookings.date_attribute)
    set_aside(dispatch, run, progress, bad)
    settled = look_up(dispatch.ledger, run, progress.page, others, (booking.member for booking in bookings))
    composition = settle(bookings, settled, run.window)
    counts = Counts(pages=1, evaluated=page.evaluated_count, waiting=len(bad), set_aside=len(bad))
    return composition, page.next_token, counts + composition.counts
