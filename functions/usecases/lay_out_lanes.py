"""Which lanes of a run are left to do, and from where: told by the plans alone.

So laying out is the same at a run's start, after lanes have ended or handed over, and when it is redriven or resumed.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from operator import add
from typing import Any, Final

from functions.domain.cursor import Token
from functions.domain.errors import DispatchFailed
from functions.domain.lane import FIRST_FOLD, FIRST_MERGE, LAYOUT, Step
from functions.domain.plan import Plan
from functions.domain.run import Counts, Others, Path, Progress, Run
from functions.domain.staging import BUCKETS, bounds_of
from functions.usecases.attempt import Attempt, hold_to_limit
from functions.usecases.ports import Dispatch, Journal
from functions.usecases.progress import Reached

MERGE_RECORDS: Final = 50_000
"""A merge task has about so many records: what one call of its function dispatches."""
FOLD_OBJECTS: Final = 256
"""A merge reads at most about so many objects side by side; where more are staged, as many become one."""
MAX_FOLDS: Final = FIRST_MERGE - FIRST_FOLD
LAYOUT_CHARACTERS: Final = 200_000
"""Step Functions takes a state of 262,144 bytes, and there is more in it than the lanes."""
LANE_CHARACTERS: Final = 200
"""What a lane takes beside its progress."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The lanes to do next, none at the run's end; `progress` is the whole run's."""

    progress: Progress
    lanes: tuple[tuple[Step, Progress], ...]
    concurrency: int

    def to_state(self, run: Run, rounds: int) -> dict[str, Any]:
        """`{"Progress", "Lanes": [{"Step", "Name", "Progress"}], "Concurrency", "Round"}`.

        The name is the one of the lane's execution, the same whenever this round is laid out again.
        """
        lanes = [
            {"Step": step.value, "Name": _name(run, step, progress, rounds), "Progress": progress.to_state()}
            for step, progress in self.lanes
        ]
        return {
            "Progress": self.progress.to_state(),
            "Lanes": lanes,
            "Concurrency": self.concurrency,
            "Round": rounds,
        }


def lay_out_lanes(run: Run, others: Others, dispatch: Dispatch, journal: Journal, deadline: float) -> Layout:
    """Find the lanes that are not done, by the run's plans.

    A grouped run's lanes come in steps: all its pages are staged; then it is decided once how they are merged; they are
    folded where they are many; and merged.  While the kill switch is on no lane is begun, and the run is stopped.
    Lanes of pages go one after the other if another run has left a task in doubt that may reach into several of them;
    merges need not, for a task lies in one bucket.

    Raises:
        TooManyBadRecords: all lanes together have set aside more than the run's limit.
        DispatchFailed: what was merged is not what was staged.
        LeaseLost: the run no longer holds its window.
    """
    plans = _Plans(journal.outlines(run.lease_owner))
    hold_to_limit(run, plans.totals.set_aside)
    reading = [(_reading_step(run), plans.lane(lane)) for lane in range(len(run.ranges))]
    left = _left(reading)
    if not left and run.path is Path.GROUPED:
        how = plans.how_to_merge or _decide(run, plans, dispatch, deadline)
        left = _left(_folds(how, plans)) or _left(_merges(how, plans))
    if not left:
        plans.check_merged()
        return Layout(Progress(has_more=False, totals=plans.totals), (), 1)
    first = replace(left[0][1], totals=plans.totals)
    if dispatch.stop():
        return Layout(replace(first, stopped=True), (), 1)
    left = _fitting(left)
    dispatching = any(step is Step.DISPATCH for step, _ in left)
    one_by_one = len(left) == 1 or (dispatching and journal.in_doubt(run, others))
    return Layout(first, tuple(left), 1 if one_by_one else run.concurrency)


class _Plans(Reached):
    """What the journal tells of a run: how far each lane is, and how much is staged."""

    def __init__(self, plans: Iterable[Plan]) -> None:
        self.staged = 0
        """Objects."""
        self.records = [0] * BUCKETS
        """Staged records of each bucket."""
        self.how_to_merge: Token | None = None
        self._merged = 0
        super().__init__(plans)

    def take_in(self, plan: Plan) -> None:
        """Take in the next plan, and count what it has staged."""
        super().take_in(plan)
        if FIRST_MERGE <= plan.lane < LAYOUT:
            self._merged += plan.counts.waiting
        if plan.lane == LAYOUT:
            self.how_to_merge = plan.next_token
        elif plan.staged and plan.lane < FIRST_FOLD:
            self.staged += 1
            self.records = [*map(add, self.records, plan.staged.lines)]

    def check_merged(self) -> None:
        """See that every staged record was merged: nothing else would tell.

        Raises:
            DispatchFailed: it was not.
        """
        if self._merged != sum(self.records):
            raise DispatchFailed(f"{sum(self.records)} records were staged, {self._merged} were merged")


def _reading_step(run: Run) -> Step:
    return Step.STAGE if run.path is Path.GROUPED else Step.DISPATCH


def _left(lanes: Iterable[tuple[Step, Progress]]) -> list[tuple[Step, Progress]]:
    return [(step, progress) for step, progress in lanes if progress.has_more]


def _fitting(lanes: list[tuple[Step, Progress]]) -> list[tuple[Step, Progress]]:
    """As many lanes as a state can hold; the others are laid out when these have ended."""
    sizes = accumulate(len(json.dumps(progress.to_state())) + LANE_CHARACTERS for _, progress in lanes)
    return [lane for lane, size in zip(lanes, sizes, strict=True) if size < LAYOUT_CHARACTERS]


def _decide(run: Run, plans: _Plans, dispatch: Dispatch, deadline: float) -> Token:
    """Decide once how the staged pages are merged: another version of this code may be the one that goes on."""
    bounds = [buckets.start for buckets in bounds_of(plans.records, MERGE_RECORDS)]
    fold = max(FOLD_OBJECTS, -(-plans.staged // MAX_FOLDS)) if plans.staged > FOLD_OBJECTS else 0
    how = {
        "Bounds": {"S": ",".join(map(str, [*bounds, BUCKETS]))},
        "Fold": {"N": str(fold)},
        "Staged": {"N": str(plans.staged)},
    }
    Attempt(dispatch, run, deadline, LAYOUT).decide(Plan(1, (), how, Counts(), finished=True, lane=LAYOUT), ())
    return how


def _folds(how: Token, plans: _Plans) -> Iterator[tuple[Step, Progress]]:
    staged, fold = int(how["Staged"]["N"]), int(how["Fold"]["N"])
    starts = range(0, staged, fold) if fold else ()
    for lane, start in enumerate(starts, start=FIRST_FOLD):
        token = {"From": {"N": str(start)}, "To": {"N": str(min(start + fold, staged))}}
        yield Step.FOLD, _from(token, plans.lane(lane))


def _merges(how: Token, plans: _Plans) -> Iterator[tuple[Step, Progress]]:
    bounds = how["Bounds"]["S"].split(",")
    for lane, (start, end) in enumerate(pairwise(bounds), start=FIRST_MERGE):
        yield Step.MERGE, _from({"From": {"N": start}, "To": {"N": end}}, plans.lane(lane))


def _from(token: Token, progress: Progress) -> Progress:
    """A lane that has not begun begins here."""
    return replace(progress, token=token) if progress.page == 1 and progress.has_more else progress


def _name(run: Run, step: Step, progress: Progress, rounds: int) -> str:
    """At most 80 characters; an execution that goes on with the run gives its lanes other names."""
    whose = hashlib.sha256(f"{run.execution_id} {run.redrives}".encode()).hexdigest()[:12]
    return f"{run.window.start:%Y%m%dT%H}-{step}-{progress.lane}-page-{progress.page}-{whose}-{rounds}"
