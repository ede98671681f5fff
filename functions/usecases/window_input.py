"""Which hour an execution is about, by its input or by its start.

Source: docs/contract.md, "Input".
"""

import json
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from functions.domain.errors import InvalidInput
from functions.domain.window import Window, parse_instant

_SAID: Final = {
    "extra_forbidden": "unknown field",
    "missing": "missing",
    "model_type": "expected an object",
    "string_pattern_mismatch": "expected one line of text",
}
_Model = TypeVar("_Model", bound=BaseModel)


class WindowInput(BaseModel):
    """What names a window in a state machine's input; unknown fields and nulls are refused.

    Which fields were given is asked of `model_fields_set`: the defaults here stand for "not given".
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    ExecuteTime: str = ""
    Data: str = ""

    def window(self, started_at: str) -> Window:
        """The window of the one time that was given, or of the execution's start.

        Raises:
            InvalidInput: both times were given, or the one that was is none; the message names the field.
        """
        if {"ExecuteTime", "Data"} <= self.model_fields_set:
            raise InvalidInput("ExecuteTime: given together with Data; expected one of them")
        text = started_at
        if "ExecuteTime" in self.model_fields_set:
            text = self.ExecuteTime
        elif "Data" in self.model_fields_set:
            text = validated(SenderData, _json_of(self.Data), "Data").ExecuteTime
        try:
            return Window.before(parse_instant(text))
        except ValueError as error:
            raise InvalidInput(f"{self.time_field}: {error}") from None

    def closed_window(self, started_at: str) -> Window:
        """The window, which must have ended when the execution started.

        Raises:
            InvalidInput: as for `window`, or the hour has not ended.
        """
        window = self.window(started_at)
        check_closed(window, started_at, self.time_field)
        return window

    @property
    def time_field(self) -> str:
        """What names the window: a field of the input, or the execution's start."""
        given = {"ExecuteTime": "ExecuteTime", "Data": "Data.ExecuteTime"}
        return next((named for field, named in given.items() if field in self.model_fields_set), "StartTime")


class SenderData(BaseModel):
    """What is read of the JSON inside `Data`; its other fields are its sender's and ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    ExecuteTime: str


def check_closed(window: Window, started_at: str, field: str) -> None:
    """Refuse a window that had not ended when the execution started.

    Raises:
        InvalidInput: the message names the field that the window comes from.
    """
    if parse_instant(window.end_text) > parse_instant(started_at):
        raise InvalidInput(f"{field}: the window ends at {window.end_text}, which is still to come")


def validated(model: type[_Model], value: Any, prefix: str = "") -> _Model:
    """The input as its model reads it.

    Raises:
        InvalidInput: it breaks the contract; the message names the first field that does, behind `prefix`.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join([prefix] * bool(prefix) + [str(part)[:80] for part in first["loc"]])
        raise InvalidInput(f"{field or 'input'}: {_SAID.get(first['type'], first['msg'])}") from None


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("Data: expected a JSON object as text") from None
