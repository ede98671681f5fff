"""The third source of a reconcile: the plans of the window's runs, and of the hours around it where records meet."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from functions.domain.reconcile import DatedPlan, Loop, Reconcile, Step, plan_lines
from functions.domain.run import State, field_of
from functions.domain.window import Window
from functions.usecases.pieces import Lines, Read, Recorder
from functions.usecases.ports import JournalEntry, Plans, Span

_ANY: Final = Span("0", "~")
"""Of every plan that has tasks."""


class _Place(NamedTuple):
    """Behind a plan: where the next call goes on."""

    window: str
    run_id: str
    lane: int
    page: int

    @classmethod
    def of_cursor(cls, cursor: State) -> "_Place":
        return cls(
            field_of(cursor, "Window", str),
            field_of(cursor, "Run", str),
            field_of(cursor, "Lane", int),
            field_of(cursor, "Page", int),
        )

    @property
    def cursor(self) -> State:
        return {"Window": self.window, "Run": self.run_id, "Lane": self.lane, "Page": self.page}


def read_plans(
    reconcile: Reconcile, loop: Loop, plans: Plans, recorder: Recorder, has_time: Callable[[], bool]
) -> Loop:
    """Read plan after plan from where `loop` stands, until a piece is full.

    They are read last: what had no plan when it was read may have been dispatched since, and would seem to be missing.
    """
    return recorder.once(reconcile, Step.PLANS, loop, lambda: _read(reconcile, loop, plans, has_time))


def _read(reconcile: Reconcile, loop: Loop, plans: Plans, has_time: Callable[[], bool]) -> Read:
    lines, counts = Lines(), Counter[str]()
    place = None if loop.cursor is None else _Place.of_cursor(loop.cursor)
    for window, run, dated in _behind(reconcile, place, plans):
        own = window == reconcile.window
        if dated is None:
            counts += Counter(Runs=own, OpenRuns=own and run.outcome is None)
            continue
        plan = dated.plan
        lines.add(plan_lines(reconcile, window, dated))
        counts += Counter(Plans=own, Tasks=own and len(plan.tasks))
        if lines.are_enough or not has_time():
            return Read(lines, counts, _Place(window.start_text, run.run_id, plan.lane, plan.page).cursor)
    return Read(lines, counts, None)


def _behind(
    reconcile: Reconcile, place: _Place | None, plans: Plans
) -> Iterator[tuple[Window, JournalEntry, DatedPlan | None]]:
    """Each run behind the place, once without a plan where it begins, and then with each of its plans."""
    begun = place[:2] if place else ("", "")
    for window in reconcile.windows:
        span = _ANY if window == reconcile.window else Span(*reconcile.moments)
        for run in plans.runs_of(window):
            at = (window.start_text, run.run_id)
            if at < begun:
                continue
            if at > begun:
                yield window, run, None
            after = place[2:] if place and at == begun else None
            for dated in plans.dated(window, run.run_id, span, after):
                yield window, run, dated
