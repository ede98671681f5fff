"""What the plans of other pages and other runs say of the records at hand."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from functions.domain.booking import Member, RecordVersion
from functions.domain.plan import Settled
from functions.domain.run import Others, Run, RunIds
from functions.domain.staging import bucket_of
from functions.domain.versions import first_and_last
from functions.domain.window import Window
from functions.usecases.ports import Ledger, PlansOf, Span


def look_up(ledger: Ledger, run: Run, page: int, others: Others, members: Iterable[Member]) -> Settled:
    """Read the plans that can hold these records of a page, and those that can say more of a task found in doubt there.

    Those are the plans of this window if it had other runs, and a neighbour's for records on the edge that both windows
    read.  Where neither is the case nothing is read.  Where one is, this run's own plans are read too, for another page
    may have taken along a task that reaches into this one.
    """
    if others == Others():
        return Settled()
    settled = Settled(asked := frozenset(members))
    versions = [version for _, version in asked]
    known = _neighbours(run, others)
    reach = _by_window(versions, {run.window, *(window for window, run_ids in known.items() if run_ids == ())})
    touched = versions if others.own != () else [version for some in reach.values() for version in some]
    if touched:
        first = page == 1 and not run.in_lanes
        own = others.own if others.own is None or first else (*others.own, run.run_id)
        wanted = [PlansOf(run.window, own, span_of(touched))]
        wanted += [PlansOf(window, known[window], span_of(some)) for window, some in reach.items()]
        _read(ledger, settled, wanted, run.window, known)
    return settled


def look_up_buckets(ledger: Ledger, run: Run, others: Others, buckets: range) -> Settled:
    """Read all that other runs planned of these buckets: in this window, and in its neighbours on the shared edges.

    A group lies in one bucket, and so does every task.  Where there are no other runs nothing is read.
    """
    settled = Settled(_InBuckets(buckets))
    known = _neighbours(run, others)
    wanted = [
        PlansOf(window, known[window], Span(edge.removesuffix("Z"), edge), buckets)
        for window, edge in zip(known, run.window.edges, strict=True)
        if known[window] != () and window.date == run.window.date
    ]
    if others.own != ():
        wanted.append(PlansOf(run.window, others.own, None, buckets))
    _read(ledger, settled, wanted, run.window, known)
    return settled


def span_of(versions: Collection[RecordVersion]) -> Span:
    """The range of booking dates and times that the versions (at least one) lie in."""
    return Span(*first_and_last(versions))


@dataclass(frozen=True, slots=True)
class _InBuckets:
    """The members whose group lies in a range of buckets."""

    buckets: range

    def __contains__(self, member: object) -> bool:
        return isinstance(member, tuple) and bucket_of(member[0]) in self.buckets


def _neighbours(run: Run, others: Others) -> dict[Window, RunIds]:
    """The runs of the window before and of the one after, in this order."""
    return {run.window.previous: others.before, run.window.next: others.after}


def _read(ledger: Ledger, settled: Settled, wanted: list[PlansOf], own: Window, known: dict[Window, RunIds]) -> None:
    """Take in the plans that are wanted.

    A task in doubt may reach over an edge, to a window whose run has settled it: that one's plans are read as well, and
    so on.
    """
    visited = {own, *(some.window for some in wanted), *(window for window, run_ids in known.items() if run_ids == ())}
    while wanted:
        doubtful = [task for plan in ledger.plans(*wanted) for task in settled.add(plan)]
        reach = _by_window((version for task in doubtful for version in task.versions), visited)
        visited |= reach.keys()
        wanted = [PlansOf(window, known.get(window), span_of(some)) for window, some in reach.items()]


def _by_window(versions: Iterable[RecordVersion], leave_out: Collection[Window]) -> dict[Window, list[RecordVersion]]:
    """The versions by each window whose query reads them, but for the windows left out."""
    found: dict[Window, list[RecordVersion]] = {}
    for version in versions:
        for window in Window.all_reading(version.date, version.time):
            if window not in leave_out:
                found.setdefault(window, []).append(version)
    return found
