"""A redo: which record versions a report says are missing, who asked for them, and where each is looked for.

Source: docs/contract.md, "Redo".
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from functions.domain.cursor import Token
from functions.domain.errors import InvalidToken
from functions.domain.execution import REDO_RUN
from functions.domain.lane import Range
from functions.domain.run import Run, State, field_of
from functions.domain.values import quote
from functions.domain.window import Window

CHUNK: Final = 1000
"""So many queries at most one call makes: one for each version and shard."""
SAMPLES: Final = 20
MAX_SAMPLES_BYTES: Final = 2000
"""The state stays under 8 KB."""
MAX_REQUESTER: Final = 100
MAX_REASON: Final = 500
ONE_LINE: Final = r"^[^\p{Cc}\p{Zl}\p{Zp}]*[^\p{Cc}\p{Z}][^\p{Cc}\p{Zl}\p{Zp}]*$"
"""What a person says, by a Unicode regular expression: not blank, and nothing that breaks the lines it is told in."""
_OFFSET: Final = "Offset"


@dataclass(frozen=True, slots=True)
class Redo:
    """What holds for the whole redo beside its run."""

    report_key: str
    list_key: str
    """Where the missing versions stand, one a line."""
    missing: int
    requested_by: str
    reason: str

    def to_state(self) -> dict[str, Any]:
        """The state's `Redo`."""
        return {
            "Report": self.report_key,
            "List": self.list_key,
            "Missing": self.missing,
            "RequestedBy": self.requested_by,
            "Reason": self.reason,
        }

    @classmethod
    def from_state(cls, state: State) -> "Redo":
        """The inverse of `to_state`.

        Raises:
            ConfigurationError: a field is missing or mistyped.
        """
        return cls(
            report_key=field_of(state, "Report", str),
            list_key=field_of(state, "List", str),
            missing=field_of(state, "Missing", int),
            requested_by=field_of(state, "RequestedBy", str),
            reason=field_of(state, "Reason", str),
        )


@dataclass(frozen=True, slots=True)
class Missing:
    """A version as the list has it."""

    key: str
    date: str
    time: str

    @classmethod
    def of_line(cls, line: bytes) -> "Missing":
        """Read a line of the list.

        Raises:
            ValueError: it is no JSON array of three texts.
        """
        text = line.decode("ascii")
        match json.loads(text, parse_int=str, parse_float=str):  # the key is taken as it stands: no digit is lost
            case [dict(), str(date), str(time)] if text.endswith(end := f",{quote(date)},{quote(time)}]\n"):
                return cls(text.removeprefix("[").removesuffix(end), date, time)
            case _:
                raise ValueError("expected [key, date, time]")

    def is_of(self, window: Window) -> bool:
        """Whether the window's query returns it."""
        return self.date == window.date and window.low <= self.time <= window.high


def redo_run_id(report_key: str) -> str:
    """The run of every redo of a report: what one has dispatched stands in its plans for the next."""
    return f"{REDO_RUN}{hashlib.sha256(report_key.encode('utf-8')).hexdigest()[:32]}"


def ranges_at(places: Iterable[tuple[str, str]], run: Run) -> list[Range]:
    """What is queried for these dates and times: each alone, in every shard."""
    return [
        Range(date_key, time, time, excludes_low=False)
        for date, time in places
        for date_key in [f"{date}#{shard}" for shard in range(run.shards)] or [date]
    ]


def token_at(offset: int) -> Token:
    """The token of a page of the list that begins at a byte."""
    return {_OFFSET: {"N": str(offset)}}


def offset_of(token: object) -> int:
    """Where in the list a page begins; without a token at the start.

    Raises:
        InvalidToken: it is no token of a redo.
    """
    match token:
        case None:
            return 0
        case {"Offset": {"N": str(digits)}} if digits.isascii() and digits.isdigit():
            return int(digits)
        case _:
            raise InvalidToken("Token: expected a place in the list of missing versions")
