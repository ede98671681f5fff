"""The peak memory of the full path and of the page path, by the number of bookings in the hour.

    python -m benchmarks.memory

Each figure is of a process of its own, see `benchmarks.dispatched_hour` for what is real in it.  The table is printed;
`results/memory.json` and `results/memory.svg` are written beside this file.  The exit code is 1 if the page path's
memory grows by more than 5 %.  It needs Linux, three to four minutes of two free cores, and 1.6 GB of memory.

As in the deployed functions glibc keeps no freed blocks for each thread; with them the page path would grow by 5 %.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from statistics import median
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from functions.domain.run import Path

SIZES: Final = (10_000, 100_000, 300_000)
PATHS: Final = (Path.FULL, Path.PAGED)
"""Those that are compared; `benchmarks.scale` measures the third."""
RUNS: Final = {(Path.PAGED, SIZES[0]): 3}
"""A figure is the median of so many processes, else of one: this one is cheap, and the goal's ratio stands on it."""

GOAL: Final = 1.05
"""The page path's peak at the largest hour over that at the smallest."""

SIDE_BY_SIDE: Final = 2
PROCESS_SECONDS: Final = 1800
"""The longest that one process may take."""

MB: Final = 1_000_000
RESULTS: Final = FilePath(__file__).parent / "results"

OBJECT: Final = "object"
"""The task data's layout in which each task has an object of its own."""
LAYOUT: Final = "TASK_DATA_LAYOUT"
"""The variable that names it."""

_ROOT: Final = FilePath(__file__).parent.parent
_ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_DEFAULT_REGION": "eu-central-1",
    "BOOKING_TABLE_NAME": "bookings",
    "BOOKING_INDEX_NAME": "BookingDateUTC-BookingTimeUTC-index",
    "BOOKING_KEY_ATTRIBUTES": '["RecordId"]',
    "BOOKING_DATE_ATTRIBUTE": "BookingDateUTC",
    "BOOKING_SHARDS": "0",
    "LEDGER_TABLE_NAME": "ledger",
    "TASK_DATA_BUCKET_NAME": "task-data",
    "POINT_TASK_QUEUE_URL": "https://sqs.eu-central-1.amazonaws.com/111122223333/point.fifo",
    "COUPON_TASK_QUEUE_URL": "https://sqs.eu-central-1.amazonaws.com/111122223333/coupon.fifo",
    "STOP_PARAMETER": "BookingDispatcherStop",
    LAYOUT: OBJECT,
    "POWERTOOLS_SERVICE_NAME": "dispatcher",
    "POWERTOOLS_METRICS_NAMESPACE": "BookingtimeDispatcher",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1",
    "PYTHONHASHSEED": "0",
}
INK: Final = "#737b85"
_LINES: Final = {Path.FULL: ("full read", "#d9730d", (-120, -44)), Path.PAGED: ("page by page", "#2f81f7", (0, 10))}
"""Name, colour, and where the label stands, in points from the last point."""

STYLE: Final[dict[Any, Any]] = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "font.size": 10,
    "svg.fonttype": "path",
    "svg.hashsalt": "memory",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
_DROPPED: Final = ("AWS_", "MALLOC_", "GLIBC_", "POWERTOOLS_", "PYTHON", "LOG_LEVEL")
"""Variables of the caller that would change what is measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One process: its memory in bytes before the first page, and at most."""

    base: int
    peak: int
    peaks: list[int] = field(default_factory=list)
    """At most so far, behind each page."""


During: TypeAlias = Callable[[subprocess.Popen[str]], AbstractContextManager[object]]
"""What is done with a process while it runs."""
Peaks: TypeAlias = dict[tuple[Path, int], float]
"""Peak memory in bytes, by path and number of bookings."""


def measure(path: Path, bookings: int, layout: str = OBJECT) -> Measured:
    """Dispatch an hour in a fresh process; each task has an object of its own, unless the layout says otherwise.

    Raises:
        RuntimeError: the process failed, or not every booking came to be in a task that was written and sent.
        TimeoutExpired: it took longer than PROCESS_SECONDS.
    """
    process = fresh_process("benchmarks.dispatched_hour", path, str(bookings), environment={LAYOUT: layout})
    if process.returncode:
        raise RuntimeError(f"{path}, {bookings} bookings: {process.stderr[-2000:]}")
    told = json.loads(process.stdout.splitlines()[-1])
    totals = told["Totals"]
    if not totals["Evaluated"] == totals["Dispatched"] == bookings:
        raise RuntimeError(f"{path}, {bookings} bookings: {totals}")
    if totals["Tasks"] != told["Messages"] or (layout == OBJECT) != (totals["Tasks"] == told["Objects"]):
        raise RuntimeError(f"{path}, {bookings} bookings: {told}")
    return Measured(told["BaseBytes"], told["PeakBytes"], told["Peaks"])


def fresh_process(
    module: str,
    *arguments: str,
    stdin: str = "",
    environment: Mapping[str, str] = MappingProxyType({}),
    during: During = nullcontext,
) -> subprocess.CompletedProcess[str]:
    """Run a module of the benchmarks with the environment of a dispatching function, and nothing else that counts.

    Raises:
        TimeoutExpired: it took longer than PROCESS_SECONDS.
    """
    return fresh_python("-m", module, *arguments, stdin=stdin, environment=environment, during=during)


def fresh_python(
    *arguments: str,
    stdin: str = "",
    environment: Mapping[str, str] = MappingProxyType({}),
    during: During = nullcontext,
) -> subprocess.CompletedProcess[str]:
    """The same for any arguments of Python; `environment` comes on top.  However this ends, so does the process.

    Raises:
        TimeoutExpired: it took longer than PROCESS_SECONDS.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED)}
    command = [sys.executable, *arguments]
    with subprocess.Popen(
        command,
        cwd=_ROOT,
        env={**kept, **_ENVIRONMENT, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            with during(process):
                told, errors = process.communicate(stdin, PROCESS_SECONDS)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, told, errors)


def measure_all() -> tuple[float, Peaks]:
    """The base and all peaks, medians where there are several; the longest processes are begun first."""
    cells = [(path, size) for size in reversed(SIZES) for path in PATHS for _ in range(RUNS.get((path, size), 1))]
    measured: dict[tuple[Path, int], list[Measured]] = {}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        futures = {pool.submit(measure, *cell): cell for cell in cells}
        try:
            for future in as_completed(futures):
                path, size = futures[future]
                measured.setdefault((path, size), []).append(future.result())
                print(f"  {path} {size:,}: {future.result().peak / MB:.1f} MB", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    base = median(one.base for several in measured.values() for one in several)
    return base, {cell: median(one.peak for one in several) for cell, several in measured.items()}


def growth(peaks: Peaks, path: Path) -> float:
    """How many times the memory of the smallest hour the largest takes."""
    return peaks[path, SIZES[-1]] / peaks[path, SIZES[0]]


def bytes_a_booking(peaks: Peaks, path: Path) -> float:
    """What each further booking adds between the smallest hour and the largest."""
    return (peaks[path, SIZES[-1]] - peaks[path, SIZES[0]]) / (SIZES[-1] - SIZES[0])


def table(base: float, peaks: Peaks) -> str:
    """The figures for a terminal."""
    head = ["path", "base", *(f"{size:,}" for size in SIZES), f"{SIZES[-1]:,} / {SIZES[0]:,}", "for each booking more"]
    rows = [head]
    for path in PATHS:
        megabytes = [f"{value / MB:,.1f}" for value in (base, *(peaks[path, size] for size in SIZES))]
        rows.append([path, *megabytes, f"x {growth(peaks, path):.3f}", f"{bytes_a_booking(peaks, path):,.0f} B"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def figures(base: float, peaks: Peaks) -> list[dict[str, Any]]:
    """The figures for a machine: `name`, `value`, `goal` and `met`; where there is no goal, both are None."""
    large, ratio = SIZES[-1], f"{SIZES[-1]:,} bookings / {SIZES[0]:,}"
    shown = {
        f"full: peak RSS, {ratio}": round(growth(peaks, Path.FULL), 2),
        f"full / paged: peak RSS, {large:,} bookings": round(peaks[Path.FULL, large] / peaks[Path.PAGED, large], 2),
        "base: RSS before the first page, MB": round(base / MB, 1),
        **{
            f"{path}: peak RSS, {size:,} bookings, MB": round(peaks[path, size] / MB, 1) for path, size in sorted(peaks)
        },
        **{f"{path}: for each booking more, bytes": round(bytes_a_booking(peaks, path)) for path in PATHS},
    }
    paged = round(growth(peaks, Path.PAGED), 4)
    return [
        {"name": f"paged: peak RSS, {ratio}", "value": paged, "goal": f"<= {GOAL}", "met": paged <= GOAL},
        *({"name": name, "value": value, "goal": None, "met": None} for name, value in shown.items()),
    ]


def plot(peaks: Peaks) -> Figure:
    """Both paths' peaks over the size of the hour, to be read on a light and on a dark page alike."""
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.add_subplot(
        title="Peak memory while one hour is dispatched",
        xlabel="bookings in the hour",
        ylabel="peak RSS of the process (MB)",
        xlim=(0, SIZES[-1]),
        ylim=(0, 1.08 * max(peaks.values()) / MB),
    )
    for path, (name, colour, offset) in _LINES.items():
        megabytes = [peaks[path, size] / MB for size in SIZES]
        axes.plot(SIZES, megabytes, color=colour, marker="o", linewidth=2.5, clip_on=False)
        axes.annotate(
            f"{name}: {megabytes[-1]:,.0f} MB\n{growth(peaks, path):,.2f} times that at {SIZES[0]:,}",
            (SIZES[-1], megabytes[-1]),
            xytext=offset,
            textcoords="offset points",
            ha="right",
            color=colour,
            fontweight="bold",
        )
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(length=0)
    axes.grid(axis="y", color=INK, alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def main() -> int:
    """Measure, print and write; 1 if the goal is missed."""
    print(
        "Peak memory of one dispatched hour, each figure of a fresh process: real handlers, adapters and botocore.\n"
        "No AWS and no emulator: each request is answered in the process, at botocore's before-send event.",
        flush=True,
    )
    begun = time.monotonic()
    base, peaks = measure_all()
    print(f"\nPeak RSS in MB (10^6 bytes), page size 1,000\n{table(base, peaks)}\n")
    told = figures(base, peaks)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "memory.json").write_text(json.dumps({"figures": told}, indent=2) + "\n", "ascii")
    with rc_context(STYLE):
        plot(peaks).savefig(RESULTS / "memory.svg", transparent=True, metadata={"Date": None})
    met = all(figure["met"] is not False for figure in told)
    verdict = "reached" if met else "MISSED"
    print(f"Goal, paged {SIZES[-1]:,} / {SIZES[0]:,} <= {GOAL}: {verdict}.  {time.monotonic() - begun:.0f} s")
    print(f"Written: {RESULTS / 'memory.json'}, {RESULTS / 'memory.svg'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
