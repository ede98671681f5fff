"""What the plans of other pages and other runs say of the records at hand."""

from collections.abc import Collection

from functions.domain.booking import RecordVersion
from functions.domain.plan import Settled
from functions.domain.run import Others, Run
from functions.usecases.ports import Ledger, Span


def look_up(ledger: Ledger, run: Run, others: Others, versions: Collection[RecordVersion]) -> Settled:
    """Read the plans that can hold these versions.

    Those are the plans of this window if it had other runs, and the plans of a neighbour for records on the edge that
    both windows read; such a record brings in all others of its task while that is in doubt.  Where neither is the
    case nothing is read.  Where one is, this run's own earlier pages are read too, for they may have taken along a
    task that reaches into this page.
    """
    plans = ledger.plans(run.window, span_of(versions)) if others.own and versions else []
    in_doubt = [version for plan in plans if not plan.finished for _, version in plan.members]
    on_edges: list[RecordVersion] = []
    for neighbour, had_runs in ((run.window.previous, others.before), (run.window.next, others.after)):
        reach = [*versions, *in_doubt] if had_runs else []
        on_edge = [version for version in reach if neighbour in run.window.neighbours_reading(version.time)]
        if on_edge:
            plans += ledger.plans(neighbour, span_of(on_edge))
            on_edges += on_edge
    if on_edges and not others.own:
        plans += ledger.plans(run.window, span_of(on_edges), run.run_id)
    return Settled.by(plans)


def span_of(versions: Collection[RecordVersion]) -> Span:
    """The range of booking dates and times that the versions (at least one) lie in."""
    moments = [version.moment for version in versions]
    return Span(min(moments), max(moments))
