"""The end of a run that failed: note it, give the window back, tell a person; or, once redriven, go on."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from functions.domain.errors import DispatcherError
from functions.domain.failure import Failure, subject_of, text_of
from functions.domain.run import LeaseOwner, Path, Run, State
from functions.usecases.ports import Journal, Leases, Notifier
from functions.usecases.progress import Reached

FAILED = "Failed"


def report_failure(
    state: State, execution: Mapping[str, Any], leases: Leases, journal: Journal, notifier: Notifier
) -> dict[str, Any]:
    """Raise the recorded error by its stable name; once redriven since, return `Run` and `Progress` instead.

    The error's message is `Failure.detail` as JSON, and `NotDone` names what of recording, releasing and notifying
    failed itself; the execution ends with the first error all the same.

    Raises:
        DispatcherError: the recorded failure, as one of its named kinds.
    """
    failure = Failure.of_state(state)
    redrives = int(execution.get("RedriveCount") or 0)
    if redrives > int(failure.run.get("Redrives", 0)):
        return {"Run": {**failure.run, "Redrives": redrives}, "Progress": dict(failure.progress)}
    planned = "RunId" in failure.run
    released = not planned or _done(lambda: leases.release(_owner(failure)))  # first: to count a large run takes long
    detail = {**failure.detail, **_chunks_done(failure, journal), "Execution": str(execution.get("Id", "unknown"))}
    recorded = not planned or _done(lambda: journal.conclude(_owner(failure), FAILED, detail))
    subject, text = subject_of(detail.get("WindowStart"), failure.error), text_of(detail)
    notified = _done(lambda: notifier.notify(subject, text))
    steps = {"record": recorded, "release": released, "notify": notified}
    raise failure.kind(json.dumps({**detail, "NotDone": [name for name, done in steps.items() if not done]}))


def _chunks_done(failure: Failure, journal: Journal) -> dict[str, Any]:
    """How far a run came whose state knows nothing of its chunks or lanes: its plans do."""
    full = failure.run.get("Path") == Path.FULL
    if not (full or failure.lane or failure.run.get("InLanes")):
        return {}
    try:
        reached = Reached(journal.outlines(_owner(failure)))
    except DispatcherError:
        return {}
    lane = 0 if full else failure.lane.get("Lane")
    at: dict[str, Any] = {"Page": None}
    if lane is not None:
        progress = reached.lane(lane)
        token = failure.lane_start if progress.page == 1 else progress.token  # no plan says where a lane begins
        at = {"Page": progress.page} if full else {"Page": progress.page, "Token": token}
    return {**failure.lane, **at, "Totals": reached.totals.to_state()}


def _owner(failure: Failure) -> LeaseOwner:
    return Run.from_state(failure.run).lease_owner


def _done(step: Callable[[], object]) -> bool:
    """Whether a step of the clean-up went well; one that did not is named in the failure, and hides it not."""
    try:
        step()
    except DispatcherError:
        return False
    return True
