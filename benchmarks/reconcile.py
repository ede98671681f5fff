"""The memory, the speed and the calls of a reconcile of an hour of many bookings, all of which were dispatched.

    python -m benchmarks.reconcile

Each step is a process of its own, which does all its calls one after the other, as a function that stays warm; see
`benchmarks.reconciled_hour`.  It is checked that every booking is found and nothing differs.  A table is printed, and
`results/reconcile.json` is written beside this file.  The exit code is 1 if a goal is missed.  It needs Linux, about
three minutes of a free core, and 0.6 GB of temporary disk space.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from benchmarks.memory import MB, RESULTS, fresh_process
from benchmarks.reconciled_hour import HOUR, REPORT
from functions.domain.reconcile import Step

MILLION: Final = 1_000_000
LARGE: Final = 500_000
SMALL: Final = 250_000
PEAK_GOAL: Final = 150 * MB
GROWTH_GOAL: Final = 1.10
"""Over an hour that fills all buffers: what is held of the objects that are merged grows up to its bound."""
FUNCTIONS: Final = {
    Step.BOOKINGS: "ReadBookings",
    Step.OBJECTS: "ReadObjects",
    Step.PLANS: "ReadPlans",
    Step.COMPARED: "CompareRecords",
    REPORT: "WriteReport",
}

Told: TypeAlias = Mapping[str, Any]
Measured: TypeAlias = dict[str, Told]
"""What each function's process told, by the function's step."""


def measure(bookings: int) -> Measured:
    """Reconcile an hour of so many bookings in a temporary directory.

    Raises:
        RuntimeError: a process failed, or a difference was found.
    """
    with tempfile.TemporaryDirectory(prefix="reconcile-") as directory:
        _process(HOUR, bookings, directory)
        measured = {step: _process(step, bookings, directory) for step in FUNCTIONS}
    output = measured[REPORT]["Answer"]
    if (output["Outcome"], output["Bookings"], output["DispatchedRecords"]) != ("Clean", bookings, bookings):
        raise RuntimeError(f"{bookings} bookings: {output}")
    return measured


def _process(step: str, bookings: int, directory: str) -> Told:
    task = {"Step": step, "Bookings": bookings, "Directory": directory}
    process = fresh_process("benchmarks.reconciled_hour", stdin=json.dumps(task))
    if process.returncode:
        raise RuntimeError(f"{step} of {bookings} bookings: {process.stderr[-2000:]}")
    told: Told = json.loads(process.stdout.splitlines()[-1])
    return told


def calls_a_million(measured: Measured, bookings: int) -> dict[str, int]:
    """How many calls of each operation a million bookings take."""
    calls = sum((Counter(told["Calls"]) for told in measured.values()), Counter[str]())
    return {name: round(count * MILLION / bookings) for name, count in sorted(calls.items())}


def figures(large: Measured, small: Measured) -> Iterable[dict[str, Any]]:
    """The figures for a machine: `name`, `value`, `goal` and `met`; where there is no goal, both are None."""
    for step, name in FUNCTIONS.items():
        peak = large[step]["PeakBytes"]
        yield _figure(f"{name}: peak RSS, {LARGE:,} bookings, MB", round(peak / MB, 1), PEAK_GOAL / MB)
        yield _figure(
            f"{name}: peak RSS, {LARGE:,} bookings / {SMALL:,}",
            round(peak / small[step]["PeakBytes"], 3),
            GROWTH_GOAL,
        )
    for operation, count in calls_a_million(large, LARGE).items():
        yield _figure(f"{operation}, calls for a million bookings", count)


def _figure(name: str, value: float, most: float | None = None) -> dict[str, Any]:
    if most is None:
        return {"name": name, "value": value, "goal": None, "met": None}
    return {"name": name, "value": value, "goal": f"<= {most:g}", "met": value <= most}


def table(large: Measured, small: Measured) -> str:
    """Peaks and speed, as Markdown."""
    rows = [
        f"| function | base | {SMALL:,} | {LARGE:,} | calls of it | bookings a CPU second |",
        "|---------:|-----:|-------:|--------:|------------:|----------------------:|",
    ]
    for step, name in FUNCTIONS.items():
        told = large[step]
        peaks = " | ".join(
            f"{bytes_ / MB:.1f}" for bytes_ in (told["BaseBytes"], small[step]["PeakBytes"], told["PeakBytes"])
        )
        rows.append(f"| {name} | {peaks} | {told['Invocations']} | {LARGE / told['Cpu']:,.0f} |")
    return "\n".join(rows)


def main() -> int:
    """Measure, print and write; 1 if a goal is missed."""
    small, large = measure(SMALL), measure(LARGE)
    told = list(figures(large, small))
    print(f"Peak RSS in MB (10^6 bytes)\n\n{table(large, small)}\n\nCalls for a million bookings\n")
    for operation, count in calls_a_million(large, LARGE).items():
        print(f"  {operation:<16}{count:>7,}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "reconcile.json").write_text(json.dumps({"figures": told}, indent=2) + "\n", "ascii")
    missed = [figure for figure in told if figure["met"] is False]
    for figure in missed:
        print(f"MISSED: {figure['name']} {figure['goal']}: {figure['value']}")
    print(f"\nGoals: {'MISSED' if missed else 'reached'}.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
