"""One page, from its token to its finished plan and the next token.

Source: the design's "The page plan is the ledger", steps 1 to 6.
"""

from functions.domain.cursor import Token, check_advance, check_token
from functions.domain.errors import ConfigurationError
from functions.domain.page import sort_out
from functions.domain.plan import Composition, Plan, settle
from functions.domain.run import Counts, Others, Progress, Run
from functions.domain.task import distinct_groups
from functions.usecases.look_up import look_up
from functions.usecases.ports import Dispatch
from functions.usecases.sending import carry_out, decide, set_aside

MAX_PAGES = 3000
"""An execution holds 25,000 history events and a page takes seven, so it ends near page 3,500."""


def dispatch_page(run: Run, progress: Progress, others: Others, dispatch: Dispatch) -> Progress:
    """Do the page that `progress` names and return the progress behind it.

    A page that has a plan is never queried again: if finished its result is returned, else its tasks are sent, less
    those that stand in a finished plan.  In a dry run the page is read and counted, and nothing is changed.

    Raises:
        InvalidToken, TokenNotAdvancing, TooManyBadRecords, LeaseLost, ConfigurationError, TransientError: as named.
    """
    token = check_token(progress.token, run.window, dispatch.bookings.key_attributes)
    if progress.page > MAX_PAGES:
        raise ConfigurationError(f"the window has more than {MAX_PAGES} pages: raise the page size")
    if run.dry_run:
        composition, next_token, counts = _read(run, progress, token, others, dispatch)
        return progress.after(counts, next_token)
    lease = dispatch.ledger.renew(run)
    plan = dispatch.ledger.read_plan(run, progress.page)
    if plan is None:
        composition, next_token, counts = _read(run, progress, token, others, dispatch)
        plan = Plan(progress.page, composition.tasks, next_token, counts)
        decide(dispatch, lease, plan, composition.new)
    elif not plan.finished:
        plan = plan.without(look_up(dispatch.ledger, run, others, [version for _, version in plan.members]))
    if not plan.finished:
        plan = carry_out(dispatch, lease, plan)
    return progress.after(plan.counts, plan.next_token)


def _read(
    run: Run, progress: Progress, token: Token | None, others: Others, dispatch: Dispatch
) -> tuple[Composition, Token | None, Counts]:
    """Query the page, set its bad records aside, and compose what has to be sent."""
    page = dispatch.bookings.query_page(run.window, token, run.page_size)
    check_advance(token, page.next_token)
    bookings, bad = sort_out(page.items, dispatch.bookings.key_attributes)
    set_aside(dispatch, run, progress.page, bad, progress.totals)
    settled = look_up(dispatch.ledger, run, others, [booking.version for booking in bookings])
    composition = settle(bookings, settled, run.window)
    counts = Counts(
        pages=1,
        evaluated=page.evaluated_count,
        waiting=len(bookings) + len(bad),
        dispatched=composition.dispatched,
        already_dispatched=composition.already_dispatched,
        set_aside=len(bad),
        groups=distinct_groups(composition.tasks),
        tasks=len(composition.tasks),
    )
    return composition, page.next_token, counts
