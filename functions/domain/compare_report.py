"""A comparison's report: the evidence for turning pagination on, and the gate that it has to pass.

Source: docs/contract.md, "Compare".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from functions.domain.compare import Difference, Differences, Parts, compared, figures_of
from functions.domain.flags import PAGINATION_ENABLED, STOP
from functions.domain.report import DIFFERENCES, SAMPLES, record_of, sealed
from functions.domain.run import Counts, Run
from functions.domain.versions import version_text

EQUAL: Final = "Equal"
PASSED: Final = "Passed"
FAILED: Final = "Failed"

_KNOWN_GAPS: Final = (
    "The index follows the table with a lag: what it did not return yet is in no path.",
    "Nothing is said of bookings that are made, moved or cancelled after they were read here.",
    "The pages are those of this reading: other bookings, or another page size, would be split elsewhere.",
    "What was dispatched already is composed too, as if this were the window's first run: no ledger is asked.",
    "No staged object is written or read back, and a group that a grouped run would stream is held like any other.",
)
_SIDE_BY_SIDE: Final = "Lanes work side by side; here one is taken behind the other, so their order may be another one."
_STOP_CONDITIONS: Final = (
    "A check of this gate has failed.",
    "A run fails, or an alarm of the stack goes off.",
    "A reconcile reports MissingInLedger, Duplicate, InDoubt or MissingHour.",
    "A consumer needs a group's orders of the hour in one task, and Split or OrderDiffers is not 0.",
)
_WAY_BACK: Final = (
    f"Set the parameter {PAGINATION_ENABLED} to false: the next run takes the full path. A run that has begun keeps "
    f"its path: let it end, or stop it by {STOP} and go on with Resume or a new run. Nothing is dispatched twice."
)


def compare_key(run: Run) -> str:
    """Where the report lies."""
    return f"reports/{run.window.start:%Y-%m-%d/%H}/{run.execution_id}-compare.json"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the comparison of the three paths comes to."""

    run: Run
    """The dry run that it was planned as."""
    read: Counts
    full: Parts
    paged: Parts
    grouped: Parts
    paged_differs: Differences
    grouped_differs: Differences

    @classmethod
    def of(cls, run: Run, read: Counts, full: Parts, paged: Parts, grouped: Parts) -> "Verdict":
        """Compare both paths by page with the full one."""
        return cls(run, read, full, paged, grouped, compared(full, paged), compared(full, grouped))

    @property
    def paths(self) -> dict[str, Any]:
        """The figures of each path, of those by page with their differences."""
        return {
            "Full": figures_of(self.full),
            "Paged": {**figures_of(self.paged), "Differences": self.paged_differs.counts},
            "Grouped": {**figures_of(self.grouped), "Differences": self.grouped_differs.counts},
        }

    @property
    def outcome(self) -> str:
        """Whether anything differs on either path."""
        return DIFFERENCES if self.paged_differs.found.total() + self.grouped_differs.found.total() else EQUAL

    @property
    def checks(self) -> list[dict[str, Any]]:
        """The gate's checks: each with its figure, what that may be, and whether it is."""
        both = self.paged_differs.found + self.grouped_differs.found
        in_one = both[Difference.ONLY_IN_FULL] + both[Difference.ONLY_IN_OTHER]
        records = sum(len(task.versions) for tasks in self.full.values() for task in tasks)
        share = self.paged_differs.found[Difference.SPLIT] / max(1, len(self.full))
        return [
            _check("Records", records, "at least 1", passed=records > 0),
            _at_most("RecordsOnlyInOnePath", in_one, 0),
            _at_most("BodyDiffers", both[Difference.BODY_DIFFERS], 0),
            _at_most("GroupedDifferences", self.grouped_differs.found.total(), 0),
            _at_most("SetAside", self.read.set_aside, self.run.set_aside_limit),
            _check("SplitShare", round(share, 4), "none: for information", passed=True),
        ]

    @property
    def gate(self) -> str:
        """Whether every check has passed."""
        return PASSED if all(check["Passed"] for check in self.checks) else FAILED


def report_of(verdict: Verdict, stack: str, key_attributes: Sequence[str]) -> dict[str, Any]:
    """The whole report, sealed."""
    run, read = verdict.run, verdict.read
    side_by_side = [_SIDE_BY_SIDE] if len(run.ranges) > 1 else []
    return sealed(
        {
            "Stack": stack,
            "ExecutionId": run.execution_id,
            "TakenAt": run.started_at,
            "WindowStart": run.window.start_text,
            "WindowEnd": run.window.end_text,
            "RecordVersion": [*key_attributes, "BookingDateUTC", "BookingTimeUTC"],
            "Sources": [
                "The bookings that the window's query returns, read once; all paths are composed of this reading.",
                "Full: grouped over all of it. Paged: grouped page by page. Grouped: staged, sorted, grouped by group.",
            ],
            "Coverage": {
                "Pages": read.pages,
                "Evaluated": read.evaluated,
                "Waiting": read.waiting,
                "SetAside": read.set_aside,
            },
            "KnownGaps": [*_KNOWN_GAPS, *side_by_side],
            "Outcome": verdict.outcome,
            **verdict.paths,
            "Samples": {
                "Paged": _samples(verdict.paged_differs.samples),
                "Grouped": _samples(verdict.grouped_differs.samples),
            },
            "Gate": {
                "Outcome": verdict.gate,
                "Checks": verdict.checks,
                "StopConditions": list(_STOP_CONDITIONS),
                "WayBack": _WAY_BACK,
                "Owner": "",
            },
            "Settings": {
                "PageSize": run.page_size,
                "Slices": run.slices,
                "Shards": run.shards,
                "SetAsideLimit": run.set_aside_limit,
                "SamplesOfEachClass": SAMPLES,
            },
        }
    )


def _samples(samples: Mapping[Difference, Sequence[Any]]) -> dict[str, list[dict[str, Any]]]:
    """Of each class the records it was first seen at: key, date and time, nothing else of them."""
    return {kind.value: [record_of(version_text(version)) for version in samples.get(kind, ())] for kind in Difference}


def _at_most(name: str, figure: int, limit: int) -> dict[str, Any]:
    return _check(name, figure, f"at most {limit}", passed=figure <= limit)


def _check(name: str, figure: float, threshold: str, *, passed: bool) -> dict[str, Any]:
    return {"Name": name, "Figure": figure, "Threshold": threshold, "Passed": passed}
