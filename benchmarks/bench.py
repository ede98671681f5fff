"""What dispatching takes, measured in one run against its own baselines.

    python -m benchmarks.bench [--quick] [--sizes] [--results DIRECTORY]

Pages are done over TLS against a stub of AWS, the client pinned to one processor and the stub to others, in several
fresh processes that take turns; a figure is a median.  What is not of time (memory, calls, bytes) is measured after
that, two processes side by side.  `docs/performance.md` tells how each figure is made.  The table is printed;
`latest.txt`, `latest.json`, `page.svg` and `cost.svg` are written beside it.  The exit code is 1 if a goal is missed,
but for `--quick`.

It needs Linux, a quarter of an hour of two free cores, and 1.6 GB of memory.  `--quick` does the same work on so little
that no figure means anything: it shows that the suite works.
"""

import argparse
import json
import os
import platform
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path as FilePath
from statistics import median
from typing import Any, Final

import botocore
from matplotlib import rc_context

from benchmarks import memory, reconcile, scale
from benchmarks.figures import (
    BARE,
    BARE_START,
    BUNDLED_START,
    LAYOUTS,
    PAGE_START,
    SIZED,
    SIZES,
    VARIANTS,
    Figure,
    Measured,
    Page,
    Started,
    Variant,
    figures,
    prices_of,
    sizes,
    table,
)
from benchmarks.memory import LAYOUT, OBJECT, RESULTS, STYLE, fresh_process, fresh_python
from benchmarks.plots import cost_plot, page_plot
from benchmarks.priced_ledger import BUSY, QUIET
from benchmarks.share import Share
from benchmarks.stub_aws import Stub, running
from functions.domain.run import Path
from functions.settings import DispatchSettings
from tools.bundle import BUNDLES, SDK, unpacked_bytes

BUNDLE: Final = BUNDLES / "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much is measured."""

    latency: float
    page_size: int
    processes: int
    """Of each kind of page, and of what is not said otherwise."""
    pages: int
    """Measured in each of these."""
    queries: int
    starts: int
    """Of the page function, and of what it is compared with."""
    functions: int | None
    """So many more are started; None are all."""
    smallest: int
    """Bookings, of the hours whose memory is compared."""
    largest: int
    full: int
    """Bookings of the full read's hour, at most the largest."""
    sizes: tuple[int, ...]
    """The page function's memories, in MB, beside the one that buys a whole processor."""
    ledger_pages: int
    grouped: int
    """Bookings that are staged and merged."""
    reconciled: int


FULL: Final = Scope(
    latency=0.015,
    page_size=1000,
    processes=3,
    pages=6,
    queries=30,
    starts=9,
    functions=None,
    smallest=10_000,
    largest=1_000_000,
    full=300_000,
    sizes=SIZES,
    ledger_pages=10,
    grouped=100_000,
    reconciled=100_000,
)
QUICK: Final = Scope(
    latency=0.002,
    page_size=40,
    processes=1,
    pages=2,
    queries=2,
    starts=1,
    functions=0,
    smallest=2_000,
    largest=3_000,
    full=3_000,
    sizes=(1024,),
    ledger_pages=2,
    grouped=1_500,
    reconciled=2_500,
)


@contextmanager
def pinned(processor: int | None) -> Iterator[None]:
    """Stay on the processor that is measured; on none is on any."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if processor is None else {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def known_layouts() -> tuple[str, ...]:
    """The task data's layouts that this product has."""
    return LAYOUTS if LAYOUT.lower() in {each.name for each in fields(DispatchSettings)} else (OBJECT,)


class Bench:
    """One run of the suite."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._layouts = known_layouts()
        first, *others = sorted(os.sched_getaffinity(0))
        self._client = first if others else None
        self._stub = others
        self.measured = Measured(scope.latency, scope.smallest, scope.largest, scope.full, scope.page_size)

    def run(self) -> Measured:
        """Measure all of it."""
        self.pages(VARIANTS)
        self._starts()
        self._side_by_side()
        return self.measured

    def pages(self, variants: Sequence[Variant]) -> None:
        """Every kind of page once in each round, so that whatever else the machine does falls on all of them."""
        scope = self._scope
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as directory,
            running(FilePath(directory), self._stub) as stub,
        ):
            with pinned(self._client):
                stub.calibrate(scope.latency)
            for place in range(scope.processes):
                for variant in variants:
                    if variant.layout not in self._layouts or (variant.share < 1 and variant.memory not in scope.sizes):
                        continue
                    if place == 0 or not variant.once:
                        page = self._page(variant, stub)
                        self.measured.pages.setdefault(variant, []).append(page)
                        took = f"{1000 * page.cpu:,.1f} ms of CPU, {1000 * page.wall:,.0f} ms"
                        print(f"  {variant.text}: {took}", flush=True)
            stub.set(scope.latency, 0)
            with pinned(self._client):
                self.measured.stub_latency = stub.seconds_of_a_request()

    def _page(self, variant: Variant, stub: Stub) -> Page:
        """One process.

        Raises:
            RuntimeError: it failed, or used more threads than it should.
        """
        scope = self._scope
        pages = {"query": scope.queries, "naive": 1, "full": min(2, scope.pages)}
        task = {
            "kind": variant.kind,
            "client": variant.client,
            "threads": variant.threads,
            "page_size": scope.page_size,
            "latency": 0 if variant.kind == "query" else scope.latency,
            "warm": 1 if variant.slow else 2,
            "pages": pages.get(variant.kind, scope.pages),
            "processor": self._client,
        }
        environment = {**stub.environment, LAYOUT: variant.layout}
        share = Share(variant.share, self._stub)
        process = fresh_process(
            "benchmarks.measured_page", stdin=json.dumps(task), environment=environment, during=share.given_to
        )
        if process.returncode:
            raise RuntimeError(f"{variant.text}: {process.stderr[-2000:]}")
        told = json.loads(process.stdout.splitlines()[-1])
        if told["most_at_once"] > variant.threads:
            raise RuntimeError(f"{variant.text}: {told['most_at_once']} requests at once")
        phases = [(str(operation), int(count)) for operation, count in told["phases"]]
        return Page(
            first=told["first"],
            cpu=median(told["cpu"]),
            wall=median(told["wall"]),
            requests=told["requests"],
            stub_cpu=told["stub_cpu"],
            most_at_once=told["most_at_once"],
            connections=told["connections"],
            phases=phases,
            recorded=told["recorded"],
            share=share.got,
        )

    def _starts(self) -> None:
        """What starts take: each function out of the bundle, and boto3 with three clients there and as installed."""
        if not BUNDLE.is_dir():
            return
        self.measured.bundle = (unpacked_bytes(BUNDLE), unpacked_bytes(BUNDLE, without=SDK))
        modules = [
            f"functions.handlers.{path.stem}"
            for path in sorted((BUNDLE / "functions" / "handlers").glob("*.py"))
            if "\ndef handler(" in path.read_text("utf-8")
        ]
        compared = (BARE_START, BUNDLED_START, PAGE_START)
        shown = list(map(Started, modules[: self._scope.functions]))
        for place in range(self._scope.starts):
            for start in (*compared, *(shown if place < self._scope.processes else ())):
                self.measured.starts.setdefault(start, []).append(self._start(start))
        print(f"  {len(self.measured.starts)} starts: done", flush=True)

    def _start(self, start: Started) -> float:
        script = FilePath(__file__).with_name("started_function.py")
        directory = sysconfig.get_path("purelib") if start.installed else str(BUNDLE)
        arguments = filter(None, (directory, start.module, start.collaborators))
        process = fresh_python("-I", "-S", str(script), *arguments, environment={LAYOUT: OBJECT})
        if process.returncode:
            raise RuntimeError(f"{start}: {process.stderr[-2000:]}")
        return float(process.stdout.splitlines()[-1])

    def whole_paths(self) -> list[Callable[[], None]]:
        """Staging and merging an hour, and reconciling one."""
        scope, measured = self._scope, self.measured

        def grouped() -> None:
            hour = scale.Hour(Path.GROUPED, scope.grouped, 5, spread=True)
            measured.grouped = (hour, scale.measure(hour, threading.BoundedSemaphore(1)))

        def reconciled() -> None:
            measured.reconciled = (scope.reconciled, reconcile.measure(scope.reconciled))
            print(f"  reconcile, {scope.reconciled:,} bookings: done", flush=True)

        return [grouped, reconciled]

    def _side_by_side(self) -> None:
        """What does not depend on what else the machine does; the longest is begun first."""
        scope = self._scope
        work: list[Callable[[], None]] = [
            *(partial(self._memory, Path.PAGED, scope.largest, layout) for layout in self._layouts),
            partial(self._memory, Path.FULL, scope.full, OBJECT),
            *self.whole_paths(),
            *(partial(self._ledger, layout) for layout in self._layouts),
            *(partial(self._memory, Path.PAGED, scope.smallest, layout) for layout in self._layouts * scope.processes),
        ]
        with ThreadPoolExecutor(memory.SIDE_BY_SIDE) as pool:
            futures: list[Future[None]] = [pool.submit(one) for one in work]
            try:
                for future in futures:
                    future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _memory(self, path: Path, bookings: int, layout: str) -> None:
        told = memory.measure(path, bookings, layout)
        peaks = self.measured.peaks
        peaks.setdefault((path, layout, bookings), []).append(told.peak)
        if path is Path.PAGED and bookings == self._scope.largest:
            peaks[path, layout, self._scope.full] = [told.peaks[self._scope.full // 1000 - 1]]
        print(f"  {path}, {layout}, {bookings:,} bookings: {told.peak / memory.MB:.1f} MB", flush=True)

    def _ledger(self, layout: str) -> None:
        """The last page is one booking short of full: behind a full one comes another, which is empty."""
        bookings = self._scope.ledger_pages * self._scope.page_size - 1
        for hour in (QUIET, BUSY):
            with tempfile.TemporaryDirectory(prefix="bench-") as directory:
                task = {
                    "Hour": hour,
                    "Bookings": bookings,
                    "PageSize": self._scope.page_size,
                    "Directory": directory,
                }
                process = fresh_process(
                    "benchmarks.priced_ledger", stdin=json.dumps(task), environment={LAYOUT: layout}
                )
            if process.returncode:
                raise RuntimeError(f"ledger, {hour}: {process.stderr[-2000:]}")
            for run, used in json.loads(process.stdout.splitlines()[-1]).items():
                self.measured.ledger[layout, run] = used
        print(f"  ledger, {layout}: done", flush=True)


def machine() -> dict[str, Any]:
    """On what it was measured."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "botocore": botocore.__version__,
        "load before": round(os.getloadavg()[0], 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench", description="Measure what dispatching takes.")
    parser.add_argument("--quick", action="store_true", help="on so little that no figure means anything")
    parser.add_argument("--sizes", action="store_true", help="the page function's memories alone; nothing is written")
    parser.add_argument("--results", type=FilePath, default=RESULTS, help="where the results are written")
    chosen = parser.parse_args(arguments)
    begun, on = time.monotonic(), machine()
    print("Dispatching, measured against its own baselines: see docs/performance.md", flush=True)
    bench = Bench(QUICK if chosen.quick else FULL)
    if chosen.sizes:
        bench.pages([variant for layout in LAYOUTS for variant in (BARE[layout], *SIZED[layout])])
        print(f"\n{table(sizes(bench.measured))}\n")
        return 0
    measured = bench.run()
    told = figures(measured)
    write(chosen.results, told, measured, on)
    print(f"\n{table(told)}\n")
    missed = [figure for figure in told if figure.met is False and not chosen.quick]
    for figure in missed:
        print(f"MISSED: {figure.name}: {figure.value} instead of {figure.goal}; {figure.note}")
    met = "MISSED" if missed else "of so little they mean nothing" if chosen.quick else "reached"
    print(f"Goals: {met}.  {time.monotonic() - begun:.0f} s")
    print(f"Written: {', '.join(str(chosen.results / name) for name in WRITTEN)}")
    return 1 if missed else 0


WRITTEN: Final = ("latest.txt", "latest.json", "page.svg", "cost.svg")


def write(directory: FilePath, told: list[Figure], measured: Measured, on: dict[str, Any]) -> None:
    """Write the table, the figures and the plots."""
    directory.mkdir(parents=True, exist_ok=True)
    text, content, page, cost = (directory / name for name in WRITTEN)
    text.write_text(f"{table(told)}\n\n{json.dumps(on)}\n", "utf-8")
    content.write_text(json.dumps({"on": on, "figures": [each.to_json() for each in told]}, indent=2) + "\n", "utf-8")
    with rc_context({**STYLE, "svg.hashsalt": "bench"}):
        page_plot(measured).savefig(page, transparent=True, metadata={"Date": None})
        cost_plot(prices_of(measured)).savefig(cost, transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
