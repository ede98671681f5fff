"""The end of a run that failed: give the window back and say where it stopped and why."""

import json
from collections.abc import Mapping
from typing import Any, Final

from functions.domain.errors import ERRORS_BY_NAME, DispatcherError, DispatchFailed, TransientError
from functions.domain.run import Run, State
from functions.usecases.ports import Leases

_TRANSIENT_NAMES: Final = ("States.Timeout", "Sandbox.Timedout", "Lambda.")


def report_failure(state: State, leases: Leases) -> DispatcherError:
    """Release the run's leases and return the error that ends the execution, by its stable name.

    Its message is a JSON object: `Error`, `Message`, `RunId`, `WindowStart`, `WindowEnd`, `Path`, `Page`, `Token`
    (where that page starts), `Totals` (of the pages before it) and `LeasesReleased`, as far as they are known.  The
    state may lack anything, and the recorded cause may be empty or no JSON.
    """
    error = state.get("Error")
    error = error if isinstance(error, Mapping) else {}
    name = str(error.get("Error", ""))
    run, progress = _mapping(state, "Run"), _mapping(state, "Progress")
    report = {
        "Error": name,
        "Message": _message_of(error.get("Cause")),
        **{key: run[key] for key in ("RunId", "WindowStart", "WindowEnd", "Path") if key in run},
        **{key: progress[key] for key in ("Page", "Token", "Totals") if key in progress},
    }
    if run:
        report["LeasesReleased"] = _released(run, leases)
    return _kind_of(name)(json.dumps(report))


def _released(run: State, leases: Leases) -> bool:
    """Whether the leases are given back; if that fails they expire by themselves, and the report says so."""
    try:
        leases.release(Run.from_state(run))
    except DispatcherError:
        return False
    return True


def _kind_of(name: str) -> type[DispatcherError]:
    if name.startswith(_TRANSIENT_NAMES):
        return TransientError
    return ERRORS_BY_NAME.get(name, DispatchFailed)


def _message_of(cause: Any) -> str:
    """The text of a function's error; its stack trace stays in the function's log."""
    text = cause if isinstance(cause, str) else ""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text[:1000]
    return str(parsed.get("errorMessage") or "")[:1000] if isinstance(parsed, dict) else text[:1000]


def _mapping(state: State, name: str) -> State:
    value = state.get(name)
    return value if isinstance(value, Mapping) else {}
