"""What the plans of other pages and other runs say of the records at hand."""

from collections.abc import Collection, Iterable

from functions.domain.booking import Member, RecordVersion
from functions.domain.plan import Settled
from functions.domain.run import Others, Run, RunIds
from functions.domain.window import Window
from functions.usecases.ports import Ledger, PlansOf, Span


def look_up(ledger: Ledger, run: Run, page: int, others: Others, members: Iterable[Member]) -> Settled:
    """Read the plans that can hold these records of a page, and those that can say more of a task found in doubt there.

    Those are the plans of this window if it had other runs, and a neighbour's for records on the edge that both windows
    read.  Where neither is the case nothing is read.  Where one is, this run's own earlier pages are read too, for they
    may have taken along a task that reaches into this page.  A task in doubt may reach over an edge, to a window whose
    run has settled it: that one's plans are read as well, and so on.
    """
    settled = Settled(frozenset(members))
    versions = [version for _, version in settled.asked]
    known: dict[Window, RunIds] = {run.window.previous: others.before, run.window.next: others.after}
    visited = {run.window, *(window for window, run_ids in known.items() if run_ids == ())}
    reach = _by_window(versions, visited)
    touched = versions if others.own != () else [version for some in reach.values() for version in some]
    if not touched:
        return settled
    own = others.own if others.own is None or page == 1 else (*others.own, run.run_id)
    wanted = [PlansOf(run.window, own, span_of(touched))]
    while wanted or reach:
        wanted += [PlansOf(window, known.get(window), span_of(some)) for window, some in reach.items()]
        visited |= reach.keys()
        doubtful = [task for plan in ledger.plans(*wanted) for task in settled.add(plan)]
        reach = _by_window((version for task in doubtful for version in task.versions), visited)
        wanted = []
    return settled


def span_of(versions: Collection[RecordVersion]) -> Span:
    """The range of booking dates and times that the versions (at least one) lie in."""
    moments = [version.moment for version in versions]
    return Span(min(moments), max(moments))


def _by_window(versions: Iterable[RecordVersion], leave_out: Collection[Window]) -> dict[Window, list[RecordVersion]]:
    """The versions by each window whose query reads them, but for the windows left out."""
    found: dict[Window, list[RecordVersion]] = {}
    for version in versions:
        for window in Window.all_reading(version.date, version.time):
            if window not in leave_out:
                found.setdefault(window, []).append(version)
    return found
