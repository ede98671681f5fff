"""The end of a run that went well: give the window back and say what was done."""

from collections.abc import Callable
from itertools import takewhile
from typing import Any

from functions.domain.errors import DispatcherError
from functions.domain.run import Path, Progress, Run
from functions.domain.window import parse_instant
from functions.usecases.ports import Journal, Leases, Staging
from functions.usecases.take_leases import DISPATCHED

STOPPED = "Stopped"
"""The outcome of a run that the kill switch stopped: what was created stays, and it can be resumed."""


def summarize_run(run: Run, progress: Progress, leases: Leases, journal: Journal, now: float) -> dict[str, Any]:
    """Note the run's end, release its leases and return the machine's output; `now` is in epoch seconds.

    A run that the kill switch stopped says before which page, and from which token it can be resumed.  If the process
    dies before it returns, the retry gives the same output: nothing is added up here.
    """
    outcome = STOPPED if progress.stopped else DISPATCHED
    if not run.dry_run:
        journal.conclude(run.lease_owner, outcome, progress.totals.to_state())
        leases.release(run.lease_owner)
    return {
        "Outcome": outcome if progress.stopped or not run.dry_run else "DryRun",
        "RunId": run.run_id,
        "WindowStart": run.window.start_text,
        "WindowEnd": run.window.end_text,
        "Path": run.path.value,
        "PageSize": run.page_size,
        **progress.totals.to_state(),
        **({"Page": progress.page, "Token": progress.token} if progress.stopped else {}),
        "DurationSeconds": max(0, int(now) - parse_instant(run.started_at).seconds),
    }


def delete_staged(
    run: Run, progress: Progress, journal: Journal, staging: Staging, in_time: Callable[[], bool]
) -> bool:
    """Delete what a run staged that came to its end, while there is time; whether all is gone.

    The bucket's lifecycle deletes the rest.
    """
    if run.path is not Path.GROUPED or run.dry_run or progress.stopped:
        return True
    try:
        keys = (plan.staged.key for plan in journal.outlines(run.lease_owner) if plan.staged)
        staging.delete(takewhile(lambda _: in_time(), keys))
    except DispatcherError:
        return False
    return in_time()
