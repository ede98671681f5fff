"""Every call of a run, gone wrong in every way: whatever happens, and whoever goes on, each booking goes out once.

The window holds what a real one may: groups split over pages, both routes, a bad record, a record of another status,
one that an earlier run dispatched, one on the edge that the neighbour's run dispatched and two that nobody has yet,
and in the middle a page without any record.
"""

import functools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import pytest
from moto import mock_aws

from functions.domain.pack import Layout
from functions.usecases import dispatch_window, lay_out_lanes, merge_bucket
from tests.crash.evidence import Evidence, Version
from tests.machine.faults import ALWAYS, Answer, Call, Fault
from tests.machine.walk import Account, Execution, State, Walk, booking, group_of, reads_bookings

TIME: Final = "2026-09-17T16:01:10Z"
BEFORE: Final = "2026-09-17T15:01:10Z"
_PAGED: Final[State] = {"ExecuteTime": TIME, "PaginationEnabled": True, "PageSize": 3}
PATHS: Final[dict[str, State]] = {
    "paged": _PAGED,
    "full": {"ExecuteTime": TIME, "PageSize": 3},
    "grouped": {**_PAGED, "Grouping": "window"},
    "sliced": {**_PAGED, "Slices": 2},
    "handed-over": _PAGED,
    "packed": _PAGED,
    "packed-full": {"ExecuteTime": TIME, "PageSize": 3},
    "packed-grouped": {**_PAGED, "Grouping": "window", "Slices": 2},
}
IN_LANES: Final = ("grouped", "sliced", "handed-over", "packed-grouped")
PAGE_BUDGETS: Final = {"handed-over": "2"}
PACKED: Final = ("packed", "packed-full", "packed-grouped")
"""Runs whose tasks lie in packs; what earlier runs dispatched lies in objects."""
RECOVERIES: Final = ("redrive", "resume")
MAX_RECOVERIES: Final = 5
SMALL: Final = {"CHUNK_RECORDS": 3, "MERGE_RECORDS": 6, "FOLD_OBJECTS": 2}
"""So that the full path has several plans too, and the grouped one several folds, merge tasks and chunks."""
LEASES_OVER: Final = 1000

KINDS: Final = {
    Fault.THROTTLED: "throttled",
    Fault.UNREACHED: "failed before its effect",
    Fault.FORBIDDEN: "refused for good",
    Fault.ANSWER_LOST: "answer lost after its effect",
    Fault.DIED_BEFORE: "process dead before",
    Fault.DIED_AFTER: "process dead after",
    Fault.HALF_DONE: "half of a batch done",
    Fault.HALF_ANSWERED: "half of a batch answered",
}
TRANSIENT: Final = (Fault.THROTTLED, Fault.UNREACHED, Fault.ANSWER_LOST)
FINAL: Final = (Fault.FORBIDDEN, Fault.DIED_BEFORE, Fault.DIED_AFTER)
HALVES: Final = {
    "SendMessageBatch": (Fault.HALF_DONE, Fault.HALF_ANSWERED),
    "BatchGetItem": (Fault.HALF_DONE,),
}

_A, _B, _C = group_of(1001, 2001, 3001), group_of(1001, 2002, 3001), group_of(1002, 2003, 3002)
_DISPATCHED_BEFORE: Final = booking("X", BookingTimeUTC="15:20:00Z", **_C)
_DISPATCHED_NEXT_DOOR: Final = booking("E1", BookingTimeUTC="15:00:00Z", **_A)
_NEW: Final = (
    booking("E2", BookingTimeUTC="15:00:00Z", OrderTime="2026-09-17T14:55:00Z", **_A),
    booking("A1", BookingTimeUTC="15:05:00Z", **_A),
    booking("A2", BookingTimeUTC="15:10:00Z", RewardType="ECoupon", **_A),
    booking("B1", BookingTimeUTC="15:15:00Z", **_B),
    booking("bad", BookingTimeUTC="15:25:00Z", OrderTime={"N": "7"}, **_B),
    booking("A3", BookingTimeUTC="15:30:00Z", **_A),
    booking("C1", BookingTimeUTC="15:35:00Z", RewardType="ECoupon", **_C),
    booking("done", BookingTimeUTC="15:40:00Z", RewardStatus="Rewarded", **_C),
    booking("B2", BookingTimeUTC="15:50:00Z", **_B),
    booking("E3", BookingTimeUTC="16:00:00Z", **_A),
)
KEY: Final = ("RecordId", "BookingDateUTC", "BookingTimeUTC")
EXPECTED: Final = {"Evaluated": 12, "Waiting": 11, "SetAside": 1}
PAGES: Final = {"paged": 5, "full": 5, "grouped": 5, "sliced": 6, "handed-over": 5} | {
    "packed": 5,
    "packed-full": 5,
    "packed-grouped": 6,
}
WAITING: Final = {
    Version(item["RecordId"]["S"], item["BookingDateUTC"]["S"], item["BookingTimeUTC"]["S"]): item
    for item in (_DISPATCHED_BEFORE, _DISPATCHED_NEXT_DOOR, *_NEW)
    if item["RewardStatus"]["S"] == "WaitToReward" and "S" in item["OrderTime"]
}


class Point(NamedTuple):
    """The `number`th call since the run began, from 1, and what happens to it."""

    number: int
    fault: Fault


@dataclass(frozen=True, slots=True)
class Case:
    """A run with these faults, and how it is gone on with where it fails."""

    path: str
    points: tuple[Point, ...]
    recovery: str

    def __str__(self) -> str:
        points = "+".join(f"{point.number}.{point.fault.name}" for point in self.points)
        return f"{self.path}:{points}:{self.recovery}"

    @classmethod
    def named(cls, text: str) -> "Case":
        """The inverse of `str`."""
        path, points, recovery = text.split(":")
        pairs = (point.split(".") for point in points.split("+"))
        return cls(path, tuple(Point(int(number), Fault[name]) for number, name in pairs), recovery)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one case."""

    lost: int
    twice: int
    repeats: int
    violations: tuple[str, ...]


class Stage:
    """The account in which the earlier runs are done; only forks of this process go on from here."""

    def __init__(self, account: Account, walk: Walk) -> None:
        self.account = account
        self.walk = walk
        account.book(_DISPATCHED_BEFORE)
        walk.run(PATHS["paged"])
        account.book(_DISPATCHED_NEXT_DOOR)
        walk.run({**PATHS["paged"], "ExecuteTime": BEFORE})
        account.book(*_NEW)
        assert len(account.messages) == 2
        walk.watched = True
        self._begun = len(walk.calls.made)

    def calls(self, path: str) -> list[str]:
        """The operations of a run in which nothing goes wrong."""
        verdict = self.judge(Case(path, (), "redrive"))
        assert not verdict.violations, verdict.violations
        return [call.operation for call in self.walk.calls.made[self._begun :]]

    def judge(self, case: Case) -> Verdict:
        """Run the case until it comes to its end, and look at everything that it did."""
        random.seed(str(case))
        if case.path in PACKED:
            self.walk.set("TASK_DATA_LAYOUT", Layout.PACKED)
        if case.path in PAGE_BUDGETS:
            self.walk.set("PAGE_BUDGET", PAGE_BUDGETS[case.path])
        for point in case.points:
            self.walk.calls.stage(point.fault, functools.partial(_is, self._begun + point.number))
        self.walk.calls.answer(_reads_gap, _GAP, ALWAYS)
        execution = self._run_to_its_end(case)
        evidence = Evidence(self.walk.calls.done)
        sent = evidence.tasks_of
        lost = [version for version in WAITING if version not in sent]
        violations = [
            *(f"lost: {version}" for version in lost),
            *(f"in two tasks: {version}" for version in evidence.twice),
            *evidence.undecided(),
            *evidence.improper_repeats(),
            *self._end(execution, {**EXPECTED, "Pages": PAGES[case.path]}),
            *_orders(evidence),
        ]
        return Verdict(len(lost), len(evidence.twice), evidence.repeats, tuple(violations))

    def _run_to_its_end(self, case: Case) -> Execution:
        given = PATHS[case.path]
        execution = self.walk.run(given)
        for _ in range(MAX_RECOVERIES):
            if execution.status == "SUCCEEDED" and execution.output["Outcome"] == "Dispatched":
                break
            if execution.status == "SUCCEEDED":  # its predecessor could not give the window back
                self.walk.let_pass(LEASES_OVER)
            if case.recovery == "redrive" and execution.status != "SUCCEEDED":
                execution = self.walk.redrive(execution)
            else:
                execution = self.walk.run({**given, "Resume": True})
        return execution

    def _end(self, execution: Execution, expected: State) -> Iterator[str]:
        summary = execution.output
        if execution.status != "SUCCEEDED" or summary["Outcome"] != "Dispatched":
            yield f"came to no end: {execution.status} {execution.cause} {summary}"
            return
        rows = self.account.ledger
        partition = f"plan#{summary['WindowStart']}#{summary['RunId']}"
        plans = [row for row in rows if row["Pk"]["S"] == partition and "Counts" in row]
        if not all(plan["Finished"]["BOOL"] for plan in plans):
            yield "a plan was left unfinished"
        totals: dict[str, int] = {}
        for plan in plans:
            for name, count in json.loads(plan["Counts"]["S"]).items():
                totals[name] = totals.get(name, 0) + count
        if summary != summary | totals:
            yield f"the plans count {totals}, the summary says {summary}"
        if summary["Waiting"] != summary["Dispatched"] + summary["AlreadyDispatched"] + summary["SetAside"]:
            yield f"the summary does not add up: {summary}"
        if summary != summary | expected:
            yield f"the summary says {summary}, expected {expected}"
        if any(row["Pk"]["S"].startswith("edge#") for row in rows):
            yield "an edge is still held"


def make_small(patch: pytest.MonkeyPatch) -> None:
    """Let a dozen bookings be as many pieces as a large hour is."""
    for module in (dispatch_window, merge_bucket, lay_out_lanes):
        for name, records in SMALL.items():
            if hasattr(module, name):
                patch.setattr(module, name, records)


@contextmanager
def staged() -> Iterator[Stage]:
    """The stage, set up in this process."""
    with (
        mock_aws(config={"stepfunctions": {"execute_state_machine": True}}),
        pytest.MonkeyPatch.context() as patch,
    ):
        make_small(patch)
        account = Account()
        yield Stage(account, Walk(account, patch))


def single_faults(calls: Mapping[str, Sequence[str]], *, exhaustive: bool) -> Iterator[Case]:
    """Each call of each path with each fault; where that fails the run, it is gone on with in both ways.

    Unless it must be exhaustive, each call of a run in lanes meets one fault, all kinds in turn, for they are many.  So
    does a call of a run whose tasks lie in packs, but for those that write them: the others are the same calls.
    """
    for path, operations in calls.items():
        for number, operation in enumerate(operations, start=1):
            is_sampled = path in IN_LANES or (path in PACKED and operation != "PutObject")
            if is_sampled and not exhaustive:
                fault = (*TRANSIENT, *FINAL)[number % 6]
                yield Case(path, (Point(number, fault),), RECOVERIES[number // 6 % 2])
                continue
            for fault in (*TRANSIENT, *HALVES.get(operation, ())):
                yield Case(path, (Point(number, fault),), RECOVERIES[number % 2])
            for fault in FINAL:
                for recovery in RECOVERIES:
                    yield Case(path, (Point(number, fault),), recovery)


def double_faults(calls: Mapping[str, Sequence[str]], seed: int, wanted: int) -> Iterator[Case]:
    """Two faults in one run, the second one possibly in its failure branch or where it is gone on with."""
    chance = random.Random(seed)  # noqa: S311 -- a sample, no secret
    for _ in range(wanted):
        path = chance.choice([*PATHS])
        length = len(calls[path])
        first = chance.randint(1, length)
        second = chance.randint(first + 1, length + 8)
        faults = chance.choices((*TRANSIENT, *FINAL), k=2)
        yield Case(path, (Point(first, faults[0]), Point(second, faults[1])), chance.choice(RECOVERIES))


def _orders(evidence: Evidence) -> Iterator[str]:
    """Orders that are not exactly the record that was booked."""
    for order in evidence.orders():
        item = WAITING.get(Version.of(order), {})
        if order != {name: json.loads(value["N"]) if "N" in value else value["S"] for name, value in item.items()}:
            yield f"an order is not the record that was booked: {order}"


def _is(number: int, call: Call) -> bool:
    return call.number == number


def _reads_gap(call: Call) -> bool:
    """The read behind the last record before the gap."""
    return reads_bookings(call) and call.request.get("ExclusiveStartKey", {}).get("RecordId") == {"S": "X"}


_GAP: Final[Answer] = {
    "Items": [],
    "Count": 0,
    "ScannedCount": 0,
    "LastEvaluatedKey": {name: booking("gap", BookingTimeUTC="15:21:00Z")[name] for name in KEY},
}
