"""How numbers, times and durations are written on screens."""

from datetime import datetime
from typing import Final

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 24 * HOUR
NONE: Final = "-"
"""Where there is no value, or it is not known."""


def count_text(count: int | None) -> str:
    """`1,234,567`."""
    return NONE if count is None else f"{count:,}"


def some(count: int, noun: str) -> str:
    """A count with its noun: `1 task`, `1,234 tasks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def seconds_text(seconds: float | None) -> str:
    """`0.4 s`, `21 s`, `3 min 20 s`, `2 h 05 min` or `3 d 04 h`."""
    if seconds is None:
        return NONE
    if seconds < 10:  # noqa: PLR2004 -- one digit before the point: a tenth still says something
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02} min"
    return f"{whole // DAY} d {whole % DAY // HOUR:02} h"


def moment_text(moment: datetime | None) -> str:
    """`2026-09-17 16:01:10`, in UTC as it comes."""
    return NONE if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"
