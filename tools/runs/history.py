"""What an execution's history tells: how long each step took, how often it was tried, and what went wrong."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from functions.domain.errors import ConfigurationError
from functions.domain.run import Counts
from tools.application import Application, detail_of

PAGE_STATES: Final = frozenset({"Dispatch page", "Stage page", "Fold pages", "Merge bucket"})
"""The states that do one page each time; `Dispatch whole window` does many."""
HISTORY_PAGE: Final = 1000
EVENTS_A_PAGE: Final = 10
"""Among so many there is one that tells the totals, if there is any: a page has seven, and a retry two."""
_FAULTS: Final = {
    "TaskFailed": "taskFailedEventDetails",
    "TaskStartFailed": "taskStartFailedEventDetails",
    "TaskSubmitFailed": "taskSubmitFailedEventDetails",
    "TaskTimedOut": "taskTimedOutEventDetails",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An attempt that failed."""

    at: datetime
    step: str
    lane: int | None
    page: int | None
    attempt: int
    error: str
    message: str


@dataclass(slots=True, kw_only=True)
class Visit:
    """One stay of an execution in a task's state, with all its attempts."""

    state: str
    entered: datetime
    before: Mapping[str, Any]
    """The state's `Progress` when it was entered."""
    left: datetime | None = None
    after: Mapping[str, Any] = field(default_factory=dict)
    """The same when it was left."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """The state's `Run` then."""
    lanes: tuple[Mapping[str, Any], ...] = ()
    """What it laid out."""
    attempts: int = 0
    faults: list[Fault] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """How long it stayed; None if it was not left."""
        return None if self.left is None else (self.left - self.entered).total_seconds()

    @property
    def did_a_page(self) -> bool:
        """Whether the page that it was entered for is done."""
        return self.state in PAGE_STATES and self.after.get("Page", 0) > self.before.get("Page", 0)


def visits(application: Application, execution: str) -> Iterator[Visit]:
    """The stays of an execution in states that call a function, in the order of time; the last may not have ended.

    The states of a `Map` are left out: lanes are executions of their own.
    """
    now: Visit | None = None
    pages = application.stepfunctions.get_paginator("get_execution_history").paginate(
        executionArn=execution, PaginationConfig={"PageSize": HISTORY_PAGE}
    )
    for event in (event for page in pages for event in page["events"]):
        kind = str(event["type"])
        if kind == "TaskStateEntered":
            entered: Any = event["stateEnteredEventDetails"]
            if entered["name"] == "Dispatch lane":
                continue
            progress = json.loads(entered.get("input") or "{}").get("Progress") or {}
            now = Visit(state=entered["name"], entered=event["timestamp"].astimezone(UTC), before=progress)
        elif now is not None:
            if kind == "TaskStateExited" and event["stateExitedEventDetails"]["name"] == now.state:
                output = json.loads(event["stateExitedEventDetails"].get("output") or "{}")
                now.left, now.after = event["timestamp"].astimezone(UTC), output.get("Progress") or {}
                now.run = output.get("Run") or {}
                if now.state == "Lay out lanes":
                    now.lanes = tuple((output.get("Layout") or {}).get("Lanes") or ())
                yield now
                now = None
            else:
                _note(now, kind, event)
    if now is not None:
        yield now


def newest_totals(application: Application, execution: str) -> Counts:
    """What an execution that does one page after the other has done so far, by the newest events of its history."""
    events = application.stepfunctions.get_execution_history(
        executionArn=execution, reverseOrder=True, maxResults=EVENTS_A_PAGE
    )["events"]
    for event in events:
        details: Any = event.get("stateEnteredEventDetails") or event.get("stateExitedEventDetails") or {}
        state = json.loads(details.get("input") or details.get("output") or "{}")
        with suppress(ConfigurationError):
            return Counts.from_state((state.get("Progress") or {}).get("Totals") or {})
    return Counts()


def _note(stay: Visit, kind: str, event: Mapping[str, Any]) -> None:
    """Note what an event says of the stay's attempts."""
    if kind == "TaskScheduled":
        stay.attempts += 1
    elif kind in _FAULTS:
        details = event[_FAULTS[kind]]
        page = stay.before if stay.state in PAGE_STATES else {}
        stay.faults.append(
            Fault(
                at=event["timestamp"].astimezone(UTC),
                step=stay.state,
                lane=page.get("Lane"),
                page=page.get("Page"),
                attempt=stay.attempts,
                error=details.get("error", kind),
                message=detail_of(details).get("Message", ""),
            )
        )
