"""What a redo does is kept: when it begins, and what it has done when it ends, which is told as well."""

from typing import Any

from functions.domain.redo import Redo
from functions.domain.run import Progress, Run, State
from functions.usecases.ports import Repairs
from functions.usecases.redo_page import no_longer_waiting
from functions.usecases.summarize_run import STOPPED

BEGUN = "Begun"
"""Kept before anything is dispatched; it stays where the redo fails."""
REDONE = "Redone"


def record_repair(  # noqa: PLR0913 -- what is kept, by name
    run: Run, redo: Redo, progress: Progress, *, count: State, approval: State, repairs: Repairs
) -> dict[str, Any]:
    """Keep who asked, who approved, when, why, and the counts before and after; return the machine's output."""
    totals = progress.totals
    output = {
        "Outcome": _outcome(progress),
        "RunId": run.run_id,
        "WindowStart": run.window.start_text,
        "WindowEnd": run.window.end_text,
        "Missing": redo.missing,
        "Dispatched": totals.dispatched,
        "AlreadyDispatched": totals.already_dispatched,
        "NoLongerWaiting": no_longer_waiting(totals),
        "Tasks": totals.tasks,
    }
    before = count["Progress"]["Totals"]
    repair = {
        **output,
        "Report": redo.report_key,
        "RequestedBy": redo.requested_by,
        "Reason": redo.reason,
        "ApprovedBy": approval["By"],
        "StartedAt": run.started_at,
        "Before": before,
        "After": totals.to_state(),
    }
    repairs.keep(run, repair)
    return output


def _outcome(progress: Progress) -> str:
    if progress.stopped:
        return STOPPED
    return BEGUN if progress.has_more else REDONE
