"""A failed run as a person reads it: what happened, what was and was not dispatched, how to go on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from functions.domain.errors import ERRORS_BY_NAME, DispatcherError, DispatchFailed, TransientError
from functions.domain.execution import REDO_RUN
from functions.domain.run import Path, State

MAX_MESSAGE: Final = 1000
UNREADABLE: Final = "A function did not return what the state machine expects."
TRANSIENT_NAMES: Final = frozenset(
    {
        "States.Timeout",
        "Sandbox.Timedout",
        "Lambda.Unknown",
        "Lambda.ClientExecutionTimeoutException",
        "Lambda.ServiceException",
        "Lambda.AWSLambdaException",
        "Lambda.SdkClientException",
        "Lambda.TooManyRequestsException",
        "Lambda.CodeArtifactUserPendingException",
    }
)
"""What the machine tries again, beside our own `TransientError`."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed execution's state says; any part may be missing, for it may have failed anywhere."""

    error: str
    message: str
    run: State
    progress: State
    lane: State
    """`Step` and `Lane` of the lane that failed; empty where none did."""
    lane_start: Any
    """The token that its execution was given."""

    @classmethod
    def of_state(cls, state: State) -> "Failure":
        """Read the state that a Catch left; its recorded cause may be empty or no JSON.

        A state without an error comes from a choice that found nothing to choose by.
        """
        caught = _mapping(state.get("Error"))
        execution = _parsed(caught.get("Cause"))
        lane: State = {}
        lane_start = None
        if "ExecutionArn" in execution:  # a lane's own execution failed: its description is the cause
            caught = {
                "Error": execution.get("Error") or f"Lane.{execution.get('Status')}",
                "Cause": execution.get("Cause"),
            }
            given = _parsed(execution.get("Input"))
            start = _mapping(given.get("Progress"))
            lane = {"Step": given.get("Step"), "Lane": start.get("Lane")}
            lane_start = start.get("Token")
        return cls(
            error=str(caught.get("Error", DispatchFailed.__name__)),
            message=_message_of(caught.get("Cause")) if caught else UNREADABLE,
            run=_mapping(state.get("Run")),
            progress=_mapping(state.get("Progress")),
            lane=lane,
            lane_start=lane_start,
        )

    @property
    def kind(self) -> type[DispatcherError]:
        """The stable name under which the execution ends."""
        if self.error in TRANSIENT_NAMES:
            return TransientError
        return ERRORS_BY_NAME.get(self.error, DispatchFailed)

    @property
    def detail(self) -> dict[str, Any]:
        """`Error`, `Message`, and as far as known the run's id, window and path, `Page`, `Token` and `Totals`.

        `Token` is where that page starts; `Totals` are those of the pages before it.
        """
        return {
            "Error": self.error,
            "Message": self.message,
            **{key: self.run[key] for key in ("RunId", "WindowStart", "WindowEnd", "Path") if key in self.run},
            **{key: self.progress[key] for key in ("Page", "Token", "Totals") if key in self.progress},
        }


def subject_of(window_start: str | None, error: str) -> str:
    """The subject of a message: printable ASCII, under 100 characters, or the topic refuses it."""
    subject = f"Bookings of {window_start or 'an unknown window'} not dispatched: {error}"
    return "".join(character if " " <= character <= "~" else "?" for character in subject)[:99]


def text_of(detail: Mapping[str, Any]) -> str:
    """The failure as one message for whoever is on call."""
    piece = "chunk" if detail.get("Path") == Path.FULL else "page"
    page, lane, totals = detail.get("Page"), detail.get("Lane"), _mapping(detail.get("Totals"))
    at = f"{piece} {page}" if page else "one of its lanes" if totals else "the start, nothing was read"
    if lane is not None:
        at += f" of lane {lane} ({detail.get('Step')})"
    lines = [
        f"Window:     {detail.get('WindowStart', 'unknown')} to {detail.get('WindowEnd', 'unknown')}",
        f"Run:        {detail.get('RunId', 'none was planned')}",
        f"Execution:  {detail.get('Execution')}",
        f"Failed at:  {at}",
        f"Error:      {detail.get('Error')}: {detail.get('Message')}",
    ]
    if totals:
        before = f"before that {piece}" if page and lane is None else "so far"
        lines += ["", f"Dispatched {before}: {_some(totals, 'Tasks')} with {_some(totals, 'Dispatched', 'record')}."]
        if piece == "page":
            lines += [f"Read {before}: {_some(totals, 'Evaluated', 'record')} on {_some(totals, 'Pages')}."]
        rest = f"whatever of this {piece} was not sent yet, and every {piece} after it"
        lines += [f"Not dispatched: {rest if page and lane is None else 'everything else'}."]
    return "\n".join([*lines, "", *_how_to_go_on(detail)])


def _some(totals: State, name: str, noun: str | None = None) -> str:
    """A count with its noun, e.g. `1 task`."""
    count = totals.get(name, 0)
    noun = noun or name.lower().removesuffix("s")
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _how_to_go_on(detail: Mapping[str, Any]) -> list[str]:
    window_end = detail.get("WindowEnd")
    if str(detail.get("RunId")).startswith(REDO_RUN):
        return ["To go on, start a new execution with the same input; it repeats nothing that was dispatched."]
    if window_end is None:
        return ["To go on, start a new execution with an input that is mended."]
    return [
        "To go on when the cause is mended, do one of these; neither repeats what was dispatched:",
        "- Redrive the execution (within 14 days, with the definition that it was started with).",
        f'- Start a new execution with the input {{"ExecuteTime": "{window_end}", "Resume": true}}.',
    ]


def _message_of(cause: Any) -> str:
    """The text of a function's error; its stack trace stays in the function's log."""
    text = cause if isinstance(cause, str) else ""
    parsed = _json_of(text)
    if isinstance(parsed, dict):
        text = str(parsed.get("errorMessage") or "")
    return text[:MAX_MESSAGE]


def _parsed(value: Any) -> State:
    """The object that is given, as such or as JSON; empty where it is none."""
    return _mapping(_json_of(value) if isinstance(value, str) else value)


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: Any) -> State:
    return value if isinstance(value, Mapping) else {}
