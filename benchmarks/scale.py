"""The memory, the speed and the cost of hours of many bookings, grouped as a whole, and of one giant group.

    python -m benchmarks.scale

Each figure is of processes of their own, one or two for each kind of function, which do its calls one after the other;
see `benchmarks.stored_hour` for what is real in them.  Every hour is dispatched to its end, and it is checked that each
booking is in one task, in order, and each task in one message.  The tables are printed; `results/scale.json` is written
beside this file.  The exit code is 1 if a goal is missed.  It needs Linux, about six minutes of two free cores, 3 GB of
temporary disk space and 0.3 GB of memory.
"""

import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import add
from pathlib import Path as FilePath
from typing import Any, Final, NamedTuple, TypeAlias

from benchmarks.dispatched_hour import run_on
from benchmarks.memory import LAYOUT as TASK_DATA_LAYOUT
from benchmarks.memory import MB, RESULTS, fresh_process
from benchmarks.stored_hour import LAYOUT
from functions.domain.lane import Step
from functions.domain.pack import Layout
from functions.domain.run import Path, Progress
from tools.cost.prices import read_prices

SIDE_BY_SIDE: Final = 2
MILLION: Final = 1_000_000
PEAK_GOAL: Final = 150 * MB
GROWTH_GOAL: Final = 1.10


class Hour(NamedTuple):
    """An hour to be dispatched: its bookings, of which so many are one member's, side by side or spread over it."""

    path: Path
    bookings: int
    group_size: int
    spread: bool = False
    layout: Layout = Layout.OBJECT


LARGE: Final = Hour(Path.GROUPED, MILLION, 5, spread=True)
SMALL: Final = Hour(Path.GROUPED, 100_000, 5, spread=True)
GIANT: Final = Hour(Path.GROUPED, 500_000, 500_000)
SINGLES: Final = Hour(Path.GROUPED, 50_000, 1)
PAGED_SINGLES: Final = Hour(Path.PAGED, 20_000, 1)
PAGED_FIVES: Final = Hour(Path.PAGED, 20_000, 5)
PACKED_SINGLES: Final = PAGED_SINGLES._replace(layout=Layout.PACKED)
PACKED_FIVES: Final = PAGED_FIVES._replace(layout=Layout.PACKED)
HOURS: Final = (LARGE, GIANT, SMALL, SINGLES, PAGED_SINGLES, PAGED_FIVES, PACKED_SINGLES, PACKED_FIVES)
PRICED: Final = {
    "paged, tasks of 1": PAGED_SINGLES,
    "paged, tasks of 5": PAGED_FIVES,
    "grouped, groups of 1": SINGLES,
    "grouped, groups of 5": LARGE,
}
"""A member's five bookings lie side by side on the paged path: if they lie in five pages they are five tasks of one."""
RATED: Final = ((PAGED_SINGLES, PAGED_FIVES), (PACKED_SINGLES, PACKED_FIVES))
"""Hours that differ in nothing but their tasks, of each layout."""

FUNCTIONS: Final[dict[str, str]] = {
    Step.STAGE: "StagePage",
    Step.FOLD: "FoldPages",
    LAYOUT: "LayOutLanes",
    Step.MERGE: "MergeBucket",
    Step.DISPATCH: "DispatchPage",
}


PRICES: Final = (
    "s3_write",
    "s3_read",
    "sqs_fifo_request",
    "dynamodb_write_unit",
    "dynamodb_read_unit",
    "lambda_request",
    "lambda_gb_second",
    "state_transition",
)


def list_prices() -> dict[str, float]:
    """US dollars for one of each, by the list that `dispatchctl cost` uses too; no free tier."""
    listed = read_prices()
    return {name: listed.each(name) for name in PRICES}


GB_SECONDS_A_CPU_SECOND: Final = 1769 / 1024
"""A function of 1,769 MB has one CPU, and a smaller one as much less of it: a second of CPU costs the same."""
S3_WRITES: Final = ("PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")


@dataclass(slots=True)
class Work:
    """What one kind of function did for an hour."""

    base: int = 0
    peak: int = 0
    cpu: float = 0
    invocations: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    write_units: int = 0
    read_units: float = 0

    def take_in(self, told: Mapping[str, Any]) -> None:
        """Take in one process: see `benchmarks.stored_hour.work`."""
        self.base = max(self.base, told["BaseBytes"])
        self.peak = max(self.peak, told["PeakBytes"])
        self.cpu += told["Cpu"]
        self.invocations += told["Invocations"]
        self.calls.update(told["Calls"])
        self.write_units += told["WriteUnits"]
        self.read_units += told["ReadUnits"]


@dataclass(slots=True)
class Dispatched:
    """What an hour took: by kind of function, and how often the state machines went from state to state."""

    works: dict[str, Work] = field(default_factory=dict)
    transitions: int = 0

    @property
    def calls(self) -> Counter[str]:
        """All calls by operation."""
        return sum((work.calls for work in self.works.values()), Counter())


Measured: TypeAlias = dict[Hour, Dispatched]


class Machine:
    """The state machines' part: an hour from its first page to its last task, each lane's work in fresh processes."""

    def __init__(self, hour: Hour, directory: str, free: threading.Semaphore) -> None:
        self.dispatched = Dispatched()
        self._hour = hour
        self._directory = directory
        self._free = free
        self._run = run_on(hour.path, 1 if hour.path is Path.PAGED else SIDE_BY_SIDE).to_state()
        self._told: list[dict[str, Any]] = []

    def dispatch(self) -> Dispatched:
        """Dispatch the hour.

        Raises:
            RuntimeError: a process failed, or a booking is not in exactly one task that was sent.
        """
        if self._hour.path is Path.PAGED:
            progress = self._work(Step.DISPATCH, [Progress().to_state()])
            self.dispatched.transitions += 2 * self.dispatched.works[Step.DISPATCH].invocations
        else:
            progress = self._in_lanes()
        check(self._hour, progress["Totals"], self._told)
        return self.dispatched

    def _in_lanes(self) -> dict[str, Any]:
        """Do all lanes that are laid out, until none is left; the run's progress at the end."""
        rounds = 0
        while True:
            layout = self._work(LAYOUT, rounds=rounds)
            self.dispatched.transitions += 3
            lanes, rounds = layout["Lanes"], layout["Round"]
            if not lanes:
                progress: dict[str, Any] = layout["Progress"]
                return progress
            (step,) = {lane["Step"] for lane in lanes}
            shares = [[lane["Progress"] for lane in lanes[first::SIDE_BY_SIDE]] for first in range(SIDE_BY_SIDE)]
            before = self._invocations
            with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
                list(pool.map(self._work, [step] * SIDE_BY_SIDE, filter(None, shares)))
            # the map and in it each lane's task; in the lane its first state and its last, and two for each call
            self.dispatched.transitions += 1 + 4 * len(lanes) + 2 * (self._invocations - before)

    @property
    def _invocations(self) -> int:
        return sum(work.invocations for work in self.dispatched.works.values())

    def _work(self, step: str, lanes: Iterable[Any] = (), rounds: int = 0) -> dict[str, Any]:
        """Let a fresh process do these lanes, or lay out what is left; the last answer."""
        task = {
            "Step": step,
            "Bookings": self._hour.bookings,
            "GroupSize": self._hour.group_size,
            "Spread": self._hour.spread,
            "Directory": self._directory,
            "Run": self._run,
            "Lanes": list(lanes),
            "Round": rounds,
        }
        with self._free:
            environment = {TASK_DATA_LAYOUT: self._hour.layout}
            process = fresh_process("benchmarks.stored_hour", stdin=json.dumps(task), environment=environment)
        if process.returncode:
            raise RuntimeError(f"{self._hour}, {step}: {process.stderr[-2000:]}")
        told = json.loads(process.stdout.splitlines()[-1])
        self._told.append(told)
        self.dispatched.works.setdefault(step, Work()).take_in(told)
        answer: dict[str, Any] = told["Answer"]
        return answer


def check(hour: Hour, totals: Mapping[str, int], told: Sequence[Mapping[str, Any]]) -> None:
    """See that what the processes told of the hour (`benchmarks.stored_hour.work`) is all of it, once.

    Raises:
        RuntimeError: it is not.
    """
    if not totals["Evaluated"] == totals["Waiting"] == totals["Dispatched"] == hour.bookings:
        raise RuntimeError(f"{hour}: {totals}")
    seen = bytes(hour.bookings)
    for one in told:
        seen = bytes(map(add, seen, FilePath(one["Seen"]).read_bytes()))
    if seen.count(1) != hour.bookings:
        raise RuntimeError(f"{hour}: {hour.bookings - seen.count(1)} bookings are not in exactly one task")
    objects, messages = (
        [sum(column) for column in zip(*(one[name] for one in told), strict=True)] for name in ("Objects", "Messages")
    )
    if objects != messages or objects[0] != totals["Tasks"]:
        raise RuntimeError(f"{hour}: {objects} objects, {messages} messages, {totals}")


def measure(hour: Hour, free: threading.Semaphore) -> Dispatched:
    """Dispatch an hour in a temporary directory of its own; at most as many processes run as are `free`."""
    with tempfile.TemporaryDirectory(prefix="scale-") as directory:
        dispatched = Machine(hour, directory, free).dispatch()
    peaks = ", ".join(f"{FUNCTIONS[step]} {work.peak / MB:.1f} MB" for step, work in dispatched.works.items())
    print(f"  {hour.path}, {hour.bookings:,} bookings, groups of {hour.group_size:,}: {peaks}", flush=True)
    return dispatched


def measure_all() -> Measured:
    """All hours; the largest is begun first."""
    free = threading.BoundedSemaphore(SIDE_BY_SIDE)
    with ThreadPoolExecutor(len(HOURS)) as pool:
        return dict(zip(HOURS, pool.map(lambda hour: measure(hour, free), HOURS), strict=True))


def costs(hour: Hour, dispatched: Dispatched, prices: Mapping[str, float]) -> dict[str, float]:
    """US dollars for a million bookings, by service.

    Lambda's time is the CPU's of this machine: what a function waits for comes on top.  Not counted is what a run does
    once (its leases, its summary), what is stored, logged and traced, and what the consumers do.
    """
    calls, works = dispatched.calls, dispatched.works.values()
    dollars = {
        "S3": prices["s3_write"] * sum(calls[name] for name in S3_WRITES) + prices["s3_read"] * calls["GetObject"],
        "SQS": prices["sqs_fifo_request"] * calls["SendMessageBatch"],
        "DynamoDB": prices["dynamodb_write_unit"] * sum(work.write_units for work in works)
        + prices["dynamodb_read_unit"] * sum(work.read_units for work in works),
        "Lambda": prices["lambda_request"] * sum(work.invocations for work in works)
        + prices["lambda_gb_second"] * GB_SECONDS_A_CPU_SECOND * sum(work.cpu for work in works),
        "Step Functions": prices["state_transition"] * dispatched.transitions,
    }
    return {service: value * MILLION / hour.bookings for service, value in dollars.items()}


def calls_a_million(hour: Hour, dispatched: Dispatched) -> dict[str, int]:
    """How many calls of each operation a million bookings take."""
    return {name: round(count * MILLION / hour.bookings) for name, count in sorted(dispatched.calls.items())}


def figures(measured: Measured) -> list[dict[str, Any]]:
    """The figures for a machine: `name`, `value`, `goal` and `met`; where there is no goal, both are None."""
    return [*_memory(measured), *_speed(measured), *_cost(measured)]


def _memory(measured: Measured) -> Iterable[dict[str, Any]]:
    for hour in (LARGE, SMALL, GIANT):
        for step, work in measured[hour].works.items():
            name = f"{FUNCTIONS[step]}: peak RSS, {hour.bookings:,} bookings in groups of {hour.group_size:,}, MB"
            yield _figure(name, round(work.peak / MB, 1), PEAK_GOAL / MB)
    large, small = measured[LARGE].works, measured[SMALL].works
    for step, work in large.items():
        if step in small:
            name = f"{FUNCTIONS[step]}: peak RSS, {LARGE.bookings:,} bookings / {SMALL.bookings:,}"
            yield _figure(name, round(work.peak / small[step].peak, 3), GROWTH_GOAL)


def _speed(measured: Measured) -> Iterable[dict[str, Any]]:
    for hour in (LARGE, GIANT):
        for step, work in measured[hour].works.items():
            if step != LAYOUT:
                name = f"{FUNCTIONS[step]}: bookings a CPU second, {hour.bookings:,} in groups of {hour.group_size:,}"
                yield _figure(name, round(hour.bookings / work.cpu))
    for singles, fives in RATED:
        for of, seconds in zip(("record", "task"), rates(singles, fives, measured), strict=True):
            yield _figure(f"DispatchPage, {singles.layout}: CPU microseconds for a {of}", round(1e6 * seconds))


def rates(singles: Hour, fives: Hour, measured: Measured) -> tuple[float, float]:
    """CPU seconds of a page for a record and for a task, of two hours of which one has a fifth of the other's tasks."""
    one, five = (measured[hour].works[Step.DISPATCH].cpu / hour.bookings for hour in (singles, fives))
    task = (one - five) / (1 / singles.group_size - 1 / fives.group_size)
    return one - task / singles.group_size, task


def _cost(measured: Measured) -> Iterable[dict[str, Any]]:
    for name, hour in PRICED.items():
        for operation, count in calls_a_million(hour, measured[hour]).items():
            yield _figure(f"{name}: {operation}, calls for a million bookings", count)
        dollars = costs(hour, measured[hour], list_prices())
        for service, value in dollars.items():
            yield _figure(f"{name}: {service}, US dollars for a million bookings", round(value, 4))
        yield _figure(f"{name}: US dollars for a million bookings", round(sum(dollars.values()), 4))


def _figure(name: str, value: float, most: float | None = None) -> dict[str, Any]:
    if most is None:
        return {"name": name, "value": value, "goal": None, "met": None}
    return {"name": name, "value": value, "goal": f"<= {most:g}", "met": value <= most}


def memory_table(measured: Measured) -> str:
    """Peaks and speed, as Markdown."""
    sizes = [f"{hour.bookings:,}" for hour in (SMALL, LARGE)]
    rows = [["function", "base", *sizes, "ratio", f"one group of {GIANT.bookings:,}", "bookings a CPU second"]]
    large, small, giant = (measured[hour].works for hour in (LARGE, SMALL, GIANT))
    for step, work in large.items():
        rows.append(
            [
                FUNCTIONS[step],
                f"{work.base / MB:.1f}",
                f"{small[step].peak / MB:.1f}" if step in small else "-",
                f"{work.peak / MB:.1f}",
                f"{work.peak / small[step].peak:.3f}" if step in small else "-",
                f"{giant[step].peak / MB:.1f}" if step in giant else "-",
                "-" if step == LAYOUT else f"{LARGE.bookings / work.cpu:,.0f}",
            ]
        )
    return _markdown(rows)


def cost_table(measured: Measured) -> str:
    """Calls and their cost for a million bookings, as Markdown."""
    calls = {name: calls_a_million(hour, measured[hour]) for name, hour in PRICED.items()}
    dollars = {name: costs(hour, measured[hour], list_prices()) for name, hour in PRICED.items()}
    operations = sorted({operation for some in calls.values() for operation in some})
    services = next(iter(dollars.values()))
    return _markdown(
        [
            ["for a million bookings", *PRICED],
            *([operation, *(f"{some.get(operation, 0):,}" for some in calls.values())] for operation in operations),
            *([service, *(f"$ {some[service]:.4f}" for some in dollars.values())] for service in services),
            ["together", *(f"$ {sum(some.values()):.4f}" for some in dollars.values())],
        ]
    )


def _markdown(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    head, *others = [
        f"| {' | '.join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows
    ]
    return "\n".join([head, f"|{'|'.join('-' * (width + 1) + ':' for width in widths)}|", *others])


def main() -> int:
    """Measure, print and write; 1 if a goal is missed."""
    print(
        "Hours of many bookings, grouped as a whole: real handlers, adapters and botocore in fresh processes.\n"
        "No AWS and no emulator: each request is answered in the process, at botocore's before-send event.\n"
        "What is staged lies in local files.  CPU seconds are without the stub's own.",
        flush=True,
    )
    begun = time.monotonic()
    measured = measure_all()
    print(f"\nPeak RSS in MB (10^6 bytes), page size 1,000, groups of {LARGE.group_size}\n\n{memory_table(measured)}")
    print(f"\nCalls, and what they cost in US dollars (tools/cost/prices.json)\n\n{cost_table(measured)}\n")
    told = figures(measured)
    RESULTS.mkdir(exist_ok=True)
    content = {"prices": list_prices(), "figures": told}
    (RESULTS / "scale.json").write_text(json.dumps(content, indent=2) + "\n", "ascii")
    missed = [figure for figure in told if figure["met"] is False]
    for figure in missed:
        print(f"MISSED: {figure['name']} {figure['goal']}: {figure['value']}")
    print(f"Goals: {'MISSED' if missed else 'reached'}.  {time.monotonic() - begun:.0f} s")
    print(f"Written: {RESULTS / 'scale.json'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
