"""How far a run came: told by its plans alone."""

from collections.abc import Iterable
from typing import Final

from functions.domain.plan import Plan
from functions.domain.run import Counts, Progress

_START: Final = Progress()


def progress_of(plans: Iterable[Plan], progress: Progress = _START) -> Progress:
    """Where a lane goes on, by its plans in their order: behind its finished pages, with what they counted.

    A page that was planned and not finished is the next one: it is settled from its plan, never read again.
    """
    for plan in plans:
        if plan.finished and plan.page == progress.page:
            progress = progress.after(plan.counts, plan.next_token)
    return progress


class Reached:
    """What the plans of a run, which come by lane and page, say of all its lanes; no plan is kept."""

    def __init__(self, plans: Iterable[Plan]) -> None:
        """Take them in one by one."""
        self.totals = Counts()
        """Of the finished pages of all lanes."""
        self.in_lanes = False
        """Whether the run was done in more than its own loop over pages."""
        self._lanes: dict[int, Progress] = {}
        for plan in plans:
            self.take_in(plan)

    def take_in(self, plan: Plan) -> None:
        """Take in the next plan."""
        if plan.finished:
            self.totals += plan.counts
        self.in_lanes = self.in_lanes or plan.lane > 0 or plan.staged is not None
        self._lanes[plan.lane] = progress_of([plan], self.lane(plan.lane))

    def lane(self, number: int) -> Progress:
        """How far a lane is."""
        return self._lanes.get(number, Progress(lane=number))
