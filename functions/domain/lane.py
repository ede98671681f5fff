"""Lanes: what of a run is done one piece after the other, side by side with the run's other lanes.

A run in one lane reads its whole window.  `Slices` split the window into ranges of time, shards split its date; each
(shard, slice) is a lane, and so is each merge task of a run that groups its whole window.
Source: docs/contract.md, "Lanes".
"""

from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from functions.domain.window import HOUR, Window

MAX_SLICES: Final = 120
MAX_SHARDS: Final = 64
MAX_RANGES: Final = 240
"""So many lanes are read at most: their plans are listed whenever lanes are laid out."""

FIRST_FOLD: Final = 1000
FIRST_MERGE: Final = 2000
LAYOUT: Final = 3000
"""The lane whose one plan holds how a grouped run's staged records are merged."""


class Step(StrEnum):
    """What is done in a lane, piece by piece; the names are those that the state machine chooses by."""

    DISPATCH = "dispatch"
    """Pages are read and dispatched."""
    STAGE = "stage"
    """Pages are read and staged, to be merged later."""
    FOLD = "fold"
    """Many staged pages are folded into one object."""
    MERGE = "merge"
    """A range of buckets is merged and dispatched in chunks."""


class Range(NamedTuple):
    """What the queries of a lane read: keys of one index partition from `low` to `high`, both ends included."""

    date_key: str
    """The index's partition: a date, in a sharded index followed by `#` and the shard."""
    low: str
    high: str
    excludes_low: bool
    """A key that equals `low` is another lane's, which reads up to it."""


def ranges_of(window: Window, slices: int = 1, shards: int = 0) -> tuple[Range, ...]:
    """The ranges that together are exactly the window, shard by shard and in the order of time; lane by lane.

    Slices meet between two seconds, at a text without `Z`: `15:20:00.5Z` sorts before `15:20:00Z`, and both behind
    `15:20:00`.  `shards` is 0 where the index is not sharded.
    """
    cuts = [window.start + timedelta(seconds=HOUR.seconds * place // slices) for place in range(1, slices)]
    bounds = [window.low, *(f"{cut:%H:%M:%S}" for cut in cuts), window.high]
    keys = [f"{window.date}#{shard}" for shard in range(shards)] or [window.date]
    return tuple(
        Range(date_key, bounds[place], bounds[place + 1], excludes_low=place > 0)
        for date_key in keys
        for place in range(slices)
    )
