"""The first source of a reconcile: every record that the window's query returns, and those that no query ever does."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from functions.domain.booking import is_waiting
from functions.domain.reconcile import Loop, Reconcile, Step, beyond_line, booking_line, is_beyond
from functions.domain.run import field_of
from functions.usecases.pieces import Lines, Read, Recorder
from functions.usecases.ports import BookingIndex
from functions.usecases.reading import checked, read_range

PAGE_RECORDS: Final = 1000


def read_bookings(
    reconcile: Reconcile, loop: Loop, bookings: BookingIndex, recorder: Recorder, has_time: Callable[[], bool]
) -> Loop:
    """Read page after page from where `loop` stands, until a piece is full; one page's records are held at a time.

    Raises:
        InvalidToken, TokenNotAdvancing: as named.
    """
    return recorder.once(reconcile, Step.BOOKINGS, loop, lambda: _read(reconcile, loop, bookings, has_time))


def _read(reconcile: Reconcile, loop: Loop, bookings: BookingIndex, has_time: Callable[[], bool]) -> Read:
    ranges, of_window = reconcile.ranges, len(reconcile.window_ranges)
    place, token = 0, None
    if loop.cursor is not None:
        place = field_of(loop.cursor, "Range", int)
        token = checked(loop.cursor.get("Token"), ranges[place], bookings)
    names = bookings.key_attributes, bookings.date_attribute
    lines, counts = Lines(), Counter[str]()
    while True:
        page = read_range(ranges[place], token, PAGE_RECORDS, bookings)
        if place < of_window:
            lines.add(booking_line(item, *names) for item in page.items)
            counts += Counter(Bookings=len(page.items), Waiting=sum(map(is_waiting, page.items)))
        else:
            lines.add(beyond_line(item, *names) for item in page.items if is_beyond(item))
        token = page.next_token
        place += token is None
        if place == len(ranges):
            return Read(lines, counts, None)
        if lines.are_enough or not has_time():
            return Read(lines, counts, {"Range": place, "Token": token})
