"""A source of a reconcile where it is asked for: the records of the table that the index does not hold."""

from collections import Counter
from collections.abc import Callable

from functions.domain.cursor import check_key
from functions.domain.errors import TokenNotAdvancing
from functions.domain.reconcile import Loop, Reconcile, Step, unkeyed_line
from functions.usecases.pieces import Lines, Read, Recorder
from functions.usecases.ports import BookingTable


def audit_table(
    reconcile: Reconcile, loop: Loop, table: BookingTable, recorder: Recorder, has_time: Callable[[], bool]
) -> Loop:
    """Look through page after page of the table from where `loop` stands, until a piece is full or time is up.

    The loop's cursor is the table's own token.

    Raises:
        InvalidToken, TokenNotAdvancing: as named.
    """
    return recorder.once(reconcile, Step.TABLE, loop, lambda: _read(loop, table, has_time))


def _read(loop: Loop, table: BookingTable, has_time: Callable[[], bool]) -> Read:
    token = check_key(loop.cursor, table.key_attributes)
    lines, counts = Lines(), Counter[str]()
    while True:
        page = table.unkeyed_page(token)
        if page.next_token is not None and page.next_token == token:
            raise TokenNotAdvancing("the page's LastEvaluatedKey is its ExclusiveStartKey")
        lines.add(unkeyed_line(item, table.key_attributes) for item in page.items)
        counts["Scanned"] += page.evaluated_count
        token = page.next_token
        if token is None or lines.are_enough or not has_time():
            return Read(lines, counts, token)
