"""A failed run as a person reads it: what happened, what was and was not dispatched, how to go on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from functions.domain.errors import ERRORS_BY_NAME, DispatcherError, DispatchFailed, TransientError
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

    @classmethod
    def of_state(cls, state: State) -> "Failure":
        """Read the state that a Catch left; its recorded cause may be empty or no JSON.

        A state without an error comes from a choice that found nothing to choose by.
        """
        caught = _mapping(state.get("Error"))
        return cls(
            error=str(caught.get("Error", DispatchFailed.__name__)),
            message=_message_of(caught.get("Cause")) if caught else UNREADABLE,
            run=_mapping(state.get("Run")),
            progress=_mapping(state.get("Progress")),
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
    page, totals = detail.get("Page"), _mapping(detail.get("Totals"))
    lines = [
        f"Window:     {detail.get('WindowStart', 'unknown')} to {detail.get('WindowEnd', 'unknown')}",
        f"Run:        {detail.get('RunId', 'none was planned')}",
        f"Execution:  {detail.get('Execution')}",
        f"Failed at:  {f'{piece} {page}' if page else 'the start, nothing was read'}",
        f"Error:      {detail.get('Error')}: {detail.get('Message')}",
    ]
    if totals:
        lines += [
            "",
            f"Dispatched before that {piece}: {totals.get('Tasks')} tasks with {totals.get('Dispatched')} records.",
        ]
        if piece == "page":
            lines += [f"Read before that page: {totals.get('Evaluated')} records on {totals.get('Pages')} pages."]
        lines += [f"Not dispatched: whatever of this {piece} was not sent yet, and every {piece} after it."]
    return "\n".join([*lines, "", *_how_to_go_on(detail.get("WindowEnd"))])


def _how_to_go_on(window_end: Any) -> list[str]:
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
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        text = str(parsed.get("errorMessage") or "")
    return text[:MAX_MESSAGE]


def _mapping(value: Any) -> State:
    return value if isinstance(value, Mapping) else {}
