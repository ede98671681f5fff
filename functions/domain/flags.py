"""The deployed flags: their names, and what a parameter's text means.

A missing or unreadable value means the old, known behaviour, never an error.  Source: docs/contract.md, "Flags".
"""

import re
from typing import Final

PAGINATION_ENABLED: Final = "BookingDispatcherPaginationEnabled"
PAGE_SIZE: Final = "BookingDispatcherPageSize"
GROUPING: Final = "BookingDispatcherGrouping"
SET_ASIDE_LIMIT: Final = "BookingDispatcherSetAsideLimit"
STOP: Final = "BookingDispatcherStop"
"""The kill switch: read fresh before each page, where every other flag is read once."""

DEFAULT_PAGE_SIZE: Final = 1000
MAX_PAGE_SIZE: Final = 10_000
"""A query ends at 1 MB, which the smallest useful records reach near here: a larger page size has no effect."""
DEFAULT_SET_ASIDE_LIMIT: Final = 100

_WHOLE_NUMBER: Final = re.compile(r"\s*\+?([0-9]+)\s*", re.ASCII)


def is_clear_true(text: str) -> bool:
    """Only the word true switches paging on, in any case and with blanks around it, as .NET's `bool.Parse` reads it.

    `1`, `yes`, an empty text and anything else mean the old path: it is the safe one.
    """
    return text.strip().lower() == "true"


def groups_by_window(text: str) -> bool:
    """Only the word window asks for groups of the whole window; anything else means groups of each page."""
    return text.strip().lower() == "window"


def page_size_of(text: str) -> int:
    """The page size that a parameter means: 1000 if it is no positive integer, at most `MAX_PAGE_SIZE`."""
    return min(_whole_number(text) or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)


def set_aside_limit_of(text: str) -> int:
    """How many bad records a run may set aside; 0 allows none, no whole number means 100."""
    number = _whole_number(text)
    return DEFAULT_SET_ASIDE_LIMIT if number is None else number


def _whole_number(text: str) -> int | None:
    match = _WHOLE_NUMBER.fullmatch(text)
    return int(match[1].lstrip("0")[:20] or "0") if match else None  # 20 digits: far above any maximum
