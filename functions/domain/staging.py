"""Staged records: a page's waiting bookings as lines that sort as text, with an index of byte ranges by bucket.

A grouped run stages its pages and merges them afterwards.  A line begins with what it sorts by: the SHA-256 of its
group, its OrderTime by instant, its record key.  So sorting and merging compare bytes, and only those.
Source: docs/contract.md, "Staging".
"""

import hashlib
import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from functions.domain.booking import Booking, Group, RecordVersion, Route
from functions.domain.errors import InvalidToken
from functions.domain.task import message_group
from functions.domain.window import Instant, Window

BUCKETS: Final = 256
"""A bucket is the first byte of a group's SHA-256, so that a group lies in one bucket."""
ALL_BUCKETS: Final = range(BUCKETS)

_DIGEST_CHARACTERS: Final = 64
_SECONDS_WIDTH: Final = 12
_FIRST_SECOND: Final = -62_135_683_200
"""A day before the year 1: no instant that can be written lies before it."""
_LOWEST_EXPONENT: Final = -1000
"""Below every exponent of a DynamoDB number."""
_NEGATIVE, _ZERO, _POSITIVE = "0", "1", "2"
_COMPLEMENT: Final = str.maketrans("0123456789", "9876543210")
_INDEX: Final = struct.Struct(f"<{2 * BUCKETS}Q")


def staged_line(booking: Booking) -> bytes:
    """One line of ASCII: fields between tabs, which occur in none of them.

    Lines of one group sort as `compose` sorts their bookings.
    """
    seconds, nanoseconds = booking.order_time
    fields = (
        message_group(booking.group),
        f"{seconds - _FIRST_SECOND:0{_SECONDS_WIDTH}}{nanoseconds:09}",
        " ".join(map(_ordered, booking.key_order)),
        booking.route.value,
        *booking.group,
        *booking.version,
        booking.document,
    )
    return ("\t".join(fields) + "\n").encode("ascii")


def read_line(line: bytes) -> Booking:
    """The inverse of `staged_line`, but that the record's key stands in the line's own form, which sorts the same."""
    _, order_time, key_order, route, shop, member, engine, key, date, time, document = (
        line[:-1].decode("ascii").split("\t")
    )
    return Booking(
        group=Group(shop, member, engine),
        route=Route(route),
        order_time=Instant(int(order_time[:_SECONDS_WIDTH]) + _FIRST_SECOND, int(order_time[_SECONDS_WIDTH:])),
        key_order=(key_order,),
        version=RecordVersion(key, date, time),
        document=document,
    )


def group_of(line: bytes) -> bytes:
    """The SHA-256 of the line's group, as the line begins with it."""
    return line[:_DIGEST_CHARACTERS]


def bucket_of(group: Group) -> int:
    """The bucket that the group's records lie in."""
    return bucket_of_digest(message_group(group))


def bucket_of_digest(digest: bytes | str) -> int:
    """The bucket of the group with this SHA-256."""
    return int(digest[:2], 16)


def _ordered(value: str | Decimal | bytes) -> str:
    """A key value as text in DynamoDB's order.

    What ends it, a blank or a tab, sorts below every digit, so that of two values the one that the other begins with
    comes first.
    """
    if isinstance(value, Decimal):
        return _ordered_number(value)
    return (value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value).hex()


def _ordered_number(value: Decimal) -> str:
    """Sign, exponent of the first digit, digits; below zero all digits are complemented, and the longer comes first."""
    if not value:
        return _ZERO
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    text = f"{value.adjusted() - _LOWEST_EXPONENT:04}{digits}"
    return f"{_POSITIVE}{text}" if value > 0 else f"{_NEGATIVE}{text.translate(_COMPLEMENT)}~"


@dataclass(frozen=True, slots=True)
class StagedObject:
    """An object of staged lines: how many lines and bytes each bucket has."""

    key: str
    lines: Sequence[int]
    sizes: Sequence[int]

    def extent(self, buckets: range) -> range:
        """Where the lines of these buckets lie, as a range of bytes."""
        start = sum(self.sizes[: buckets.start])
        return range(start, start + sum(self.sizes[buckets.start : buckets.stop]))


def pack(staged: StagedObject) -> bytes:
    """The object's index, in a few hundred bytes for the ledger's row."""
    return zlib.compress(_INDEX.pack(*staged.lines, *staged.sizes), 9)


def unpack(key: str, packed: bytes) -> StagedObject:
    """The object of this key with the index that `pack` wrote."""
    numbers = array("Q", _INDEX.unpack(zlib.decompress(packed)))
    return StagedObject(key, numbers[:BUCKETS], numbers[BUCKETS:])


def page_key(run_id: str, window: Window, lane: int, page: int, lines: Iterable[bytes]) -> str:
    """Where a staged page lies.

    The lines are part of it: a superseded attempt that read other ones cannot replace what a plan's index was made of.
    """
    return f"{_prefix(run_id, window)}/{lane:04}-{page:06}-{content_of(lines)}"


def content_of(lines: Iterable[bytes]) -> str:
    """A name that only these lines have."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()[:16]


def fold_key(run_id: str, window: Window, lane: int) -> str:
    """Where a fold lies: its lines are always the same, for what is folded is."""
    return f"{_prefix(run_id, window)}/fold-{lane:04}"


def _prefix(run_id: str, window: Window) -> str:
    return f"staging/{window.start:%Y-%m-%d/%H}/{run_id}"


def range_in(token: object) -> range:
    """What a fold or a merge works on: `{"From": {"N": "0"}, "To": {"N": "16"}}`, without the end.

    Raises:
        InvalidToken: it names no range.
    """
    try:
        named = range(*(int(token[name]["N"]) for name in ("From", "To")))  # type: ignore[index]  # what is no mapping is refused
    except (KeyError, TypeError, ValueError):
        raise InvalidToken("Token: expected the numbers From and To") from None
    if not named or named.start < 0:
        raise InvalidToken("Token: From does not lie before To")
    return named


class StagedIndex:
    """The index of lines that are being written."""

    def __init__(self) -> None:
        """Begin with no line."""
        self._lines = array("Q", bytes(8 * BUCKETS))
        self._sizes = array("Q", bytes(8 * BUCKETS))

    def noting(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines as they come, each counted as it passes."""
        for line in lines:
            bucket = bucket_of_digest(line)
            self._lines[bucket] += 1
            self._sizes[bucket] += len(line)
            yield line

    def of(self, key: str) -> StagedObject:
        """The object of this key, once all its lines have passed."""
        return StagedObject(key, self._lines, self._sizes)


def bounds_of(lines: Sequence[int], target: int) -> list[range]:
    """Share out the buckets, which have so many lines: contiguous ranges of about `target` lines, all of equal size.

    A bucket is never split.  Together the ranges are all buckets; there is one at least, and an hour of at most
    `target` lines has no second one.
    """
    left = sum(lines)
    share = left / max(1, -(-left // target))
    bounds: list[range] = []
    start = gathered = 0
    for bucket, count in enumerate(lines):
        gathered += count
        if gathered >= share and gathered < left:
            bounds.append(range(start, bucket + 1))
            start = bucket + 1
            left -= gathered
            gathered = 0
    return [*bounds, range(start, len(lines))]
