"""The end of a run that went well: give the window back and say what was done."""

from typing import Any

from functions.domain.run import Progress, Run
from functions.domain.window import parse_instant
from functions.usecases.ports import Leases


def summarize_run(run: Run, progress: Progress, leases: Leases, now: float) -> dict[str, Any]:
    """Release the run's leases and return the machine's output; `now` is in epoch seconds.

    If the process dies before it returns, the retry gives the same output: nothing is added up here.
    """
    if not run.dry_run:
        leases.release(run)
    return {
        "Outcome": "DryRun" if run.dry_run else "Dispatched",
        "RunId": run.run_id,
        "WindowStart": run.window.start_text,
        "WindowEnd": run.window.end_text,
        "Path": run.path.value,
        "PageSize": run.page_size,
        **progress.totals.to_state(),
        "DurationSeconds": max(0, int(now) - parse_instant(run.started_at).seconds),
    }
