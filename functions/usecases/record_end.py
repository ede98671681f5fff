"""An execution that died outside its failure branch: timed out, stopped, or failed by the service."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from functions.domain.execution import run_id_of
from functions.domain.failure import subject_of, text_of
from functions.domain.window import utc_text
from functions.usecases.ports import Journal, Leases, Notifier
from functions.usecases.progress import Reached


def record_end(change: Mapping[str, Any], leases: Leases, journal: Journal, notifier: Notifier) -> bool:
    """Note the end that a status change tells of, give the window back, tell a person; whether that was news.

    `change` is the `detail` of a Step Functions execution status change: `executionArn`, `name`, `startDate` and
    `stopDate` (epoch milliseconds) and `status` are read, never `input`, which is missing where it is large.  How far
    the run came is in its plans.  An end that the failure branch has noted, or of a run that was gone on with since, is
    no news.
    """
    started_at = utc_text(datetime.fromtimestamp(int(change["startDate"]) // 1000, UTC))
    ended_at = int(change.get("stopDate") or 0) / 1000 or math.inf
    owner = journal.owner_of(run_id_of(str(change["name"]), started_at), ended_at)
    if owner is None:
        return False
    leases.release(owner)
    if not journal.is_open(owner):
        return False
    reached = Reached(journal.outlines(owner))
    progress = reached.lane(0)
    detail = {
        "Error": str(change["status"]),
        "Message": "The execution ended without reaching its failure branch.",
        "RunId": owner.run_id,
        "WindowStart": owner.window.start_text,
        "WindowEnd": owner.window.end_text,
        **({} if reached.in_lanes else {"Page": progress.page, "Token": progress.token}),
        "Totals": reached.totals.to_state(),
        "Execution": str(change["executionArn"]),
    }
    notifier.notify(subject_of(owner.window.start_text, str(change["status"])), text_of(detail))
    journal.conclude(owner, str(change["status"]), detail)  # last: what was told twice is better than never
    return True
