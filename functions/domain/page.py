"""One page of the index, and what of it can be dispatched."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from functions.domain.booking import BadRecord, Booking, is_waiting, read_booking
from functions.domain.cursor import Token
from functions.domain.values import Item


@dataclass(frozen=True, slots=True)
class QueryPage:
    """What one query returned."""

    items: Sequence[Item]
    """The records read; empty, never None, where there are none: an empty page may well have a next one."""
    next_token: Token | None
    """Where the next page starts; None is the end of the window, and the only sign of it."""
    evaluated_count: int
    """DynamoDB's ScannedCount, never the number of items."""


def sort_out(
    items: Iterable[Item], key_attributes: Sequence[str], date_attribute: str
) -> tuple[list[Booking], list[BadRecord]]:
    """The waiting records, in the order read: those that can be dispatched, and those that must be set aside."""
    bookings: list[Booking] = []
    bad: list[BadRecord] = []
    for item in items:
        if is_waiting(item):
            record = read_booking(item, key_attributes, date_attribute)
            if isinstance(record, Booking):
                bookings.append(record)
            else:
                bad.append(record)
    return bookings, bad
