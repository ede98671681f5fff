"""ExecuteTime, the hour it stands for, and the range of index keys that this hour reads.

Source: docs/contract.md, "Input" and "Query".
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

HOUR: Final = timedelta(hours=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_GRAMMAR: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_NO_SUCH: Final = "no such date or time"


class Instant(NamedTuple):
    """A point in time: whole seconds since 1970 in UTC, and nanoseconds; compares in time order."""

    seconds: int
    nanoseconds: int


def parse_instant(text: str) -> Instant:
    """Read `YYYY-MM-DDThh:mm:ss[.f{1,9}]` followed by `Z`, `z` or `±hh:mm`.

    Nothing else is accepted: a text without an offset would be read differently on each machine.

    Raises:
        ValueError: the text is outside the grammar, or no such date or time exists.
    """
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ValueError("expected YYYY-MM-DDThh:mm:ss[.fffffffff] followed by Z or an offset ±hh:mm")
    day, hour, minute, second, fraction, sign, offset_hours, offset_minutes = match.groups()
    if hour > "23" or minute > "59" or second > "59":
        raise ValueError(_NO_SUCH)
    seconds = ((_days(day) * 24 + int(hour)) * 60 + int(minute)) * 60 + int(second)
    if sign is not None:
        offset = int(offset_hours) * 3600 + int(offset_minutes) * 60
        seconds += offset if sign == "-" else -offset
    return Instant(seconds, int(fraction.ljust(9, "0")) if fraction else 0)


@lru_cache(maxsize=512)  # a page's orders are of few days
def _days(day: str) -> int:
    """Days since 1970."""
    try:
        return date.fromisoformat(day).toordinal() - _EPOCH.toordinal()
    except ValueError:
        raise ValueError(_NO_SUCH) from None  # Python's own text may quote the value


@lru_cache(maxsize=16)  # a page asks for its hour's a thousand times
def utc_text(moment: datetime) -> str:
    """`2026-09-17T15:00:00Z` for a moment in UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")  # strftime does not pad years below 1000


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """One UTC hour of bookings; `start` is its first moment, on the hour."""

    start: datetime

    @classmethod
    def before(cls, execute_time: Instant) -> "Window":
        """The hour before the one in which `execute_time` lies: start = (ExecuteTime - 1 h) cut to the hour.

        Raises:
            ValueError: the hour, or one beside it, lies outside the years 1 to 9999.
        """
        try:
            hour = _EPOCH + timedelta(hours=execute_time.seconds // 3600)
            window = cls(hour - HOUR)
            _ = window.previous, window.next.end
        except OverflowError:
            raise ValueError("the hour lies outside the years 1 to 9999") from None
        return window

    @classmethod
    def starting(cls, text: str) -> "Window":
        """The window whose `start_text` is `text`.

        Raises:
            ValueError: `text` is no full UTC hour in the form of `start_text`.
        """
        window = cls(datetime.fromisoformat(text))
        if window.start_text != text or not text.endswith(":00:00Z"):
            raise ValueError("expected a full UTC hour, YYYY-MM-DDThh:00:00Z")
        return window

    @property
    def end(self) -> datetime:
        """The first moment after the hour."""
        return self.start + HOUR

    @property
    def previous(self) -> "Window":
        """The hour before this one; it shares this hour's start edge."""
        return Window(self.start - HOUR)

    @property
    def next(self) -> "Window":
        """The hour after this one; it shares this hour's end edge."""
        return Window(self.end)

    @property
    def start_text(self) -> str:
        """`2026-09-17T15:00:00Z`."""
        return utc_text(self.start)

    @property
    def end_text(self) -> str:
        """`2026-09-17T16:00:00Z`."""
        return utc_text(self.end)

    @property
    def edges(self) -> tuple[str, str]:
        """The names of the two hour edges that a run of this window holds."""
        return self.start_text, self.end_text

    @property
    def date(self) -> str:
        """The index's partition: `YYYY-MM-DD` of the start."""
        return self.start_text[:10]

    @property
    def low(self) -> str:
        """The lower bound of the sort key, without `Z`: `15:00:00.5Z` sorts before `15:00:00Z`."""
        return f"{self.start.hour:02}:00:00"

    @property
    def high(self) -> str:
        """The upper bound of the sort key, inclusive.

        At midnight it is `24:00:00Z` on the start's date: DynamoDB refuses a reversed BETWEEN, and `00:00:00Z` lies in
        the next date's partition, which the next window reads.
        """
        return f"{self.start.hour + 1:02}:00:00Z"

    @classmethod
    def all_reading(cls, date: str, booking_time: str) -> tuple["Window", ...]:
        """The windows whose query reads this index key: two where it stands on an hour's edge within a date."""
        hour = min(int(booking_time[:2]), 23)
        window = cls(datetime.fromisoformat(date).replace(tzinfo=UTC) + hour * HOUR)
        if hour > 0 and booking_time <= f"{window.low}Z":
            return window.previous, window
        return (window,)
