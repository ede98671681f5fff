"""One page after the other, and never the same one twice."""

from functions.domain.cursor import Token, check_advance, check_token
from functions.domain.page import QueryPage
from functions.domain.run import Run
from functions.usecases.ports import Dispatch


def read_page(run: Run, token: Token | None, dispatch: Dispatch) -> QueryPage:
    """Query the run's page that starts behind `token`.

    Raises:
        TokenNotAdvancing, InvalidToken: the page's own token would read this part again, or another.
    """
    page = dispatch.bookings.query_page(run.window, token, run.page_size)
    check_advance(token, check_token(page.next_token, run.window, dispatch.bookings.key_attributes))
    return page
