"""Hold the window's two edges before anything is read, and find where to begin."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from functions.domain.run import Others, Path, Progress, Run
from functions.domain.window import parse_instant, utc_text
from functions.usecases.ports import Holder, Journal, Leases
from functions.usecases.progress import progress_of

STAGED_DAYS: Final = 14
"""A day less than the bucket's lifecycle keeps what a run has staged."""

DISPATCHED = "Dispatched"
"""The outcome of a run that came to its end: nothing of it is left to go on with."""


@dataclass(frozen=True, slots=True)
class Start:
    """Whether the run may work on its window, and from where: `holder` is the other run that does, or None."""

    run: Run
    progress: Progress
    holder: Holder | None
    others: Others

    def to_state(self) -> dict[str, Any]:
        """`{"Run", "Progress", "Leases": {"Held", "Holder", "Others"}}`; a holder is `{"RunId", "HeldUntil"}`."""
        holder = self.holder and {
            "RunId": self.holder.run_id,
            "HeldUntil": utc_text(datetime.fromtimestamp(self.holder.held_until, UTC)),
        }
        leases = {"Held": self.holder is None, "Holder": holder, "Others": self.others.to_state()}
        return {"Run": self.run.to_state(), "Progress": self.progress.to_state(), "Leases": leases}


def take_leases(run: Run, progress: Progress, leases: Leases, journal: Journal) -> Start:
    """Take the edges, and learn which other runs' plans must be looked at; a dry run takes nothing.

    A run that resumes takes the place of the window's last run, unless that came to its end, and goes on behind its
    last finished page.  A run in lanes goes on wherever its lanes' plans say, whoever lays them out.  A redo goes on
    behind the pages that another redo of its report has finished, and does not count them as its own.  While the edges
    are held no other run can plan in this window or on its edges, so what is learned here holds for the whole run.

    Raises:
        WindowBusy: a neighbouring window's run holds an edge.
    """
    if run.resume:
        run = _in_place_of_last(run, journal)
    if not run.dry_run:
        holder = leases.take(run)
        if holder is not None:
            return Start(run, progress, holder, Others())
    if run.resume:
        paged = run.path is Path.PAGED and not run.in_lanes
        progress = progress_of(journal.outlines(run.lease_owner)) if paged else Progress()
        run = replace(run, resume=False)
    if run.path is Path.REDO:
        progress = progress_of(journal.outlines(run.lease_owner))
        progress = replace(progress, totals=progress.totals.as_done_before)
    if run.path is Path.PAGED and not run.dry_run:
        run = replace(run, handed_over=progress.page > run.page_budget)
    return Start(run, progress, None, journal.others(run))


def _in_place_of_last(run: Run, journal: Journal) -> Run:
    """The window's last run under its own settings, but for what the input gave and the limit that holds now.

    A grouped run is gone on with as long as what it staged is kept.
    On another path or in other lanes that were asked for, or with an index that is sharded anew, nothing can be gone on
    with: it is a new run, which skips what was dispatched.
    """
    last = journal.last_run(run.window)
    if last is None or last.outcome == DISPATCHED:
        return run
    if last.path == Path.GROUPED and _days_between(last.started_at, run.started_at) >= STAGED_DAYS:
        return run
    path = Path(last.path)
    otherwise = {
        "PaginationEnabled": (path is Path.FULL) is not (run.path is Path.FULL),
        "Grouping": path is not run.path,
        "Slices": last.slices != run.slices,
    }
    if last.shards != run.shards or any(otherwise[name] for name in otherwise if name in run.given):
        return run
    return replace(
        run,
        run_id=last.run_id,
        started_at=last.started_at,
        path=path,
        lease_seconds=path.lease_seconds,
        page_size=run.page_size if "PageSize" in run.given else last.page_size,
        slices=last.slices,
    )


def _days_between(earlier: str, later: str) -> int:
    return (parse_instant(later).seconds - parse_instant(earlier).seconds) // (24 * 3600)
