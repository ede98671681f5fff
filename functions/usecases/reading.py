"""One page after the other, and never the same one twice."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import dropwhile

from functions.domain.cursor import TIME_ATTRIBUTE, Token, check_advance, check_token
from functions.domain.errors import ConfigurationError
from functions.domain.lane import Range
from functions.domain.page import QueryPage
from functions.domain.run import Progress, Run
from functions.usecases.ports import BookingIndex


def token_in(run: Run, progress: Progress, index: BookingIndex) -> Token | None:
    """The token that the lane's next page starts from, checked.

    Raises:
        InvalidToken: it is not one of this lane's own.
    """
    return checked(progress.token, run.ranges[progress.lane], index)


def read_page(run: Run, lane: int, token: Token | None, index: BookingIndex) -> QueryPage:
    """Query the lane's page that starts behind `token`.

    Raises:
        TokenNotAdvancing, InvalidToken: the page's own token would read this part again, or another.
        ConfigurationError: the index is sharded otherwise than when the run was planned, which would find nothing.
    """
    _check_shards(run, index)
    return read_range(run.ranges[lane], token, run.page_size, index)


def pages_of(run: Run, index: BookingIndex) -> Iterator[QueryPage]:
    """Every page of every lane of the run, one after the other.

    Raises:
        TokenNotAdvancing, InvalidToken, ConfigurationError: as for `read_page`.
    """
    _check_shards(run, index)
    for keys in run.ranges:
        yield from pages_in(keys, run.page_size, index)


def pages_in(keys: Range, page_size: int, index: BookingIndex) -> Iterator[QueryPage]:
    """Every page of a range, the first one even if it is empty.

    Raises:
        TokenNotAdvancing, InvalidToken: as for `read_range`.
    """
    page = read_range(keys, None, page_size, index)
    yield page
    while page.next_token is not None:
        page = read_range(keys, page.next_token, page_size, index)
        yield page


def read_range(keys: Range, token: Token | None, page_size: int, index: BookingIndex) -> QueryPage:
    """Query the page of a range that starts behind `token`.

    Raises:
        TokenNotAdvancing, InvalidToken: the page's own token would read this part again, or another.
    """
    page = index.query_page(keys, token, page_size)
    check_advance(token, checked(page.next_token, keys, index))
    if keys.excludes_low:
        return replace(page, items=list(dropwhile(lambda item: item[TIME_ATTRIBUTE] == {"S": keys.low}, page.items)))
    return page


def _check_shards(run: Run, index: BookingIndex) -> None:
    if run.shards != index.shards:
        raise ConfigurationError(
            f"the run was planned for {run.shards} shards, the index has {index.shards}: start anew"
        )


def checked(token: object, keys: Range, index: BookingIndex) -> Token | None:
    """The token, if a query of this range can have returned it; None is the range's start.

    Raises:
        InvalidToken: it is another's.
    """
    return check_token(token, keys, index.key_attributes, index.date_attribute)
