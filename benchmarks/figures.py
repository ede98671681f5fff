"""What the benchmark's measurements come to: figures, each with its goal where it has one, and their table."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from benchmarks import reconcile, scale
from benchmarks.measured_page import SIDE_BY_SIDE
from benchmarks.memory import MB, OBJECT
from benchmarks.priced_ledger import AGAIN, BUSY, QUIET
from functions.adapters import pool
from functions.domain.lane import Step
from functions.domain.run import Path
from tools.cost.usage import CPU_MEMORY_MB

PACKED: Final = "packed"
LAYOUTS: Final = (OBJECT, PACKED)
MILLION: Final = 1_000_000

PRICES: Final = scale.list_prices()

RECORD_SECONDS: Final = 0.05
RECORD_GB: Final = 0.25
"""Assumed of a function that dispatches one record: three calls of 15 ms and a little, with 256 MB."""
RECORD_TRANSITIONS: Final = 2
"""Of a child execution that dispatches one record: its start and its one task."""


class Variant(NamedTuple):
    """A kind of page: see `benchmarks.measured_page`."""

    kind: str
    client: str
    layout: str
    threads: int
    memory: int = CPU_MEMORY_MB
    """MB of the function; with so many it has one processor."""

    @property
    def text(self) -> str:
        """For a terminal."""
        size = "" if self.memory == CPU_MEMORY_MB else f", {self.memory:,} MB"
        return f"{self.kind}, {self.layout}, {self.threads} threads, {self.client} client{size}"

    @property
    def slow(self) -> bool:
        """Whether one page in one process must do."""
        return self.kind == "naive"

    @property
    def share(self) -> float:
        """Of a processor, that the memory buys."""
        return self.memory / CPU_MEMORY_MB

    @property
    def once(self) -> bool:
        """Whether one process must do."""
        return self.slow or self.share < 1


THREADS: Final[Mapping[str, int]] = {OBJECT: 16, PACKED: 8}
HANDLER: Final = {layout: Variant("handler", "product", layout, THREADS[layout]) for layout in LAYOUTS}
BARE: Final = {layout: Variant("bare", "default", layout, THREADS[layout]) for layout in LAYOUTS}
BARE_TUNED: Final = {layout: Variant("bare", "product", layout, THREADS[layout]) for layout in LAYOUTS}
UNTUNED: Final = Variant("handler", "default", OBJECT, THREADS[OBJECT])
PACKED_WIDE: Final = Variant("handler", "product", PACKED, THREADS[OBJECT])
FULL_READ: Final = Variant("full", "product", OBJECT, THREADS[OBJECT])
NAIVE: Final = Variant("naive", "default", OBJECT, 1)
QUERY: Final = Variant("query", "product", OBJECT, 1)
QUERY_DEFAULT: Final = Variant("query", "default", OBJECT, 1)
SIZES: Final = (512, 768, 1024, 1280, 1536, CPU_MEMORY_MB)
"""Of the page function, in MB."""
SIZED: Final = {
    layout: [Variant("handler", "product", layout, pool.THREADS, memory) for memory in SIZES] for layout in LAYOUTS
}
"""As it is deployed; with a whole processor it is one of those above."""
VARIANTS: Final = (
    *HANDLER.values(),
    *BARE.values(),
    *BARE_TUNED.values(),
    UNTUNED,
    PACKED_WIDE,
    FULL_READ,
    QUERY,
    QUERY_DEFAULT,
    NAIVE,
    *(variant for variants in SIZED.values() for variant in variants if variant.share < 1),
)


class Started(NamedTuple):
    """What is imported, and what is made of it: see `benchmarks.started_function`."""

    module: str
    collaborators: str = ""
    installed: bool = False
    """From the installed packages as they are, not from the bundle."""


BARE_START: Final = Started("boto3", installed=True)
BUNDLED_START: Final = Started("boto3")
PAGE_START: Final = Started("functions.handlers.dispatch_page", "dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page took in one process, medians: seconds, and requests by operation."""

    first: float
    cpu: float
    wall: float
    requests: Mapping[str, float]
    stub_cpu: float
    most_at_once: int
    """So many requests waited for their answers at the same time."""
    connections: int
    """Made anew while the pages were measured."""
    phases: list[tuple[str, int]]
    """The calls of so many `recorded` pages, in their order."""
    recorded: int
    share: float | None = None
    """Of a processor, that the process got where it was short of it; None where it never was."""


Usage: TypeAlias = Mapping[str, Any]
"""See `benchmarks.priced_ledger.Usage`."""


@dataclass(slots=True)
class Measured:
    """All that was measured; what could not be is missing."""

    latency: float
    smallest: int
    largest: int
    full: int
    """Sizes of hours, in bookings."""
    page_size: int = 1000
    stub_latency: float = 0
    pages: dict[Variant, list[Page]] = field(default_factory=dict)
    starts: dict[Started, list[float]] = field(default_factory=dict)
    bundle: tuple[int, int] | None = None
    """Bytes, with the SDK and without."""
    peaks: dict[tuple[Path, str, int], list[int]] = field(default_factory=dict)
    ledger: dict[tuple[str, str], Usage] = field(default_factory=dict)
    """By layout and run."""
    grouped: tuple[scale.Hour, scale.Dispatched] | None = None
    reconciled: tuple[int, reconcile.Measured] | None = None

    def cpu(self, variant: Variant) -> float | None:
        """Milliseconds of processor time of a page."""
        return _middle([1000 * page.cpu for page in self.pages.get(variant, ())])

    def wall(self, variant: Variant) -> float | None:
        """Milliseconds of a page."""
        return _middle([1000 * page.wall for page in self.pages.get(variant, ())])

    def first(self, variant: Variant) -> float | None:
        """Milliseconds of a process's first page."""
        return _middle([1000 * page.first for page in self.pages.get(variant, ())])

    def bound(self, layout: str, threads: int | None = None) -> float | None:
        """Milliseconds of a page that did nothing but wait, as long as its calls must wait for each other.

        Without another number it is that of the layout's own threads.
        """
        pages = self.pages.get(BARE[layout])
        return 1000 * self.latency * waits(pages[0], threads or THREADS[layout]) if pages else None

    def peak(self, path: Path, layout: str, bookings: int) -> float | None:
        """Bytes."""
        return _middle(self.peaks.get((path, layout, bookings), []))

    def start(self, start: Started) -> float | None:
        """Milliseconds of processor time."""
        return _middle([1000 * seconds for seconds in self.starts.get(start, ())])


def _middle(values: list[float] | list[int]) -> float | None:
    return median(values) if values else None


def waits(page: Page, threads: int) -> float:
    """So many answers a page waits for one after the other: uploads and sends go side by side, the rest does not."""
    rounds = sum(-(-count // threads) if operation in SIDE_BY_SIDE else count for operation, count in page.phases)
    return rounds / page.recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure; `goal` is the most that it may be, and None where it is only shown."""

    name: str
    value: float | None
    """None where it could not be measured."""
    goal: str | None = None
    met: bool | None = None
    note: str = ""
    """What it is made of, and where it misses its goal, why."""

    def to_json(self) -> dict[str, Any]:
        """`name`, `value`, `goal`, `met` and `note`."""
        return {"name": self.name, "value": self.value, "goal": self.goal, "met": self.met, "note": self.note}


NOT_BUILT: Final = "not built: the product does not know this layout"


def _ratio(name: str, above: float | None, below: float | None, most: float | None = None, **told: str) -> Figure:
    """One value over another; `unit` is of both, and `why` the reason if the goal is missed, `absent` if one is."""
    goal = f"<= {most:.2f}" if most is not None else None
    if above is None or below is None:
        return Figure(
            name=name, value=None, goal=goal, met=None if goal is None else False, note=told.get("absent", "")
        )
    value = round(above / below, 4)
    met = None if most is None else value <= most
    note = f"{_number(above)} / {_number(below)} {told['unit']}"
    if met is False:
        note += f"; {told['why']}"
    return Figure(name=name, value=value, goal=goal, met=met, note=note)


def _times(text: str, above: float | None, below: float | None) -> str:
    """A reason that is another ratio."""
    return "" if above is None or below is None else f"{text} {above / below:.2f}"


def _shown(name: str, value: float | None, note: str = "") -> Figure:
    return Figure(name=name, value=None if value is None else float(_number(value).replace(",", "")), note=note)


def _number(value: float) -> str:
    """Four digits that count."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"  # noqa: PLR2004 -- as many digits


def figures(measured: Measured) -> list[Figure]:
    """All figures; those with a goal come first."""
    goals = [*_pages(measured), *_memory(measured), *_starts(measured), *_costs(measured), *_ledger(measured)]
    shown = [*_shown_pages(measured), *_shown_starts(measured), *_shown_paths(measured), *_shown_costs(measured)]
    every = [*goals, *shown, *sizes(measured)]
    return [figure for figure in every if figure.goal] + [figure for figure in every if not figure.goal]


WITHIN: Final = 1.30
"""So many times its latency bound a page may take."""


def _pages(measured: Measured) -> Iterator[Figure]:
    cpu, wall, bound = measured.cpu, measured.wall, measured.bound
    for layout in LAYOUTS:
        handler, tuned = cpu(HANDLER[layout]), cpu(BARE_TUNED[layout])
        own = "" if handler is None or tuned is None else f"{_number(handler - tuned)} ms are its own logic"
        name = f"page handler CPU / bare, same calls and threads, {layout}"
        yield _ratio(name, handler, cpu(BARE[layout]), 1.15, unit="ms", why=own, absent=NOT_BUILT)
        yield _ratio(f"{name}, bare with the product's client", handler, tuned, unit="ms", absent=NOT_BUILT)
    name = "page CPU, object, tuned / default boto3 pool"
    why = _times("of the calls alone the product's client takes", cpu(BARE_TUNED[OBJECT]), cpu(BARE[OBJECT]))
    yield _ratio(name, cpu(HANDLER[OBJECT]), cpu(UNTUNED), 0.80, unit="ms", why=why)
    for layout in LAYOUTS:
        busy = cpu(HANDLER[layout])
        why = "" if busy is None else f"the one processor works for {_number(busy)} ms of it, and a bound knows no work"
        name = f"wall / latency bound at {1000 * measured.latency:g} ms, {layout}, {THREADS[layout]} threads"
        yield _ratio(name, wall(HANDLER[layout]), bound(layout), WITHIN, unit="ms", why=why, absent=NOT_BUILT)
    slow, fast = wall(HANDLER[OBJECT]), wall(PACKED_WIDE)
    unit = f"ms, {THREADS[OBJECT]} threads each"
    why = _times("of CPU it takes", cpu(PACKED_WIDE), cpu(HANDLER[OBJECT]))
    yield _ratio("wall, packed / object", fast, slow, 0.30, unit=unit, why=why, absent=NOT_BUILT)
    name = f"wall, packed with {THREADS[PACKED]} threads / object with {THREADS[OBJECT]}"
    yield _ratio(name, wall(HANDLER[PACKED]), slow, unit="ms", absent=NOT_BUILT)
    why = _times("by the latency bound alone it is", bound(OBJECT), wall(NAIVE))
    yield _ratio("wall, object / naive", slow, wall(NAIVE), 0.05, unit="ms", why=why)
    why = "botocore walks the answer by its shape"
    yield _ratio("Query CPU / default client.query", cpu(QUERY), cpu(QUERY_DEFAULT), 0.25, unit="ms", why=why)


def _memory(measured: Measured) -> Iterator[Figure]:
    small, large, full = measured.smallest, measured.largest, measured.full

    def peak(path: Path, layout: str, bookings: int) -> float | None:
        found = measured.peak(path, layout, bookings)
        return None if found is None else found / MB

    for layout in LAYOUTS:
        above, below = (peak(Path.PAGED, layout, size) for size in (large, small))
        name = f"peak RSS, {large:,} bookings / {small:,}, paged, {layout}"
        more = None if above is None or below is None else (above - below) * MB / (large - small)
        why = "" if more is None else f"{more:.2f} bytes for each booking more"
        yield _ratio(name, above, below, 1.05, unit="MB", why=why, absent=NOT_BUILT)
    above, below = peak(Path.FULL, OBJECT, full), peak(Path.PAGED, OBJECT, full)
    yield _ratio(f"peak RSS, full path / paged at {full:,}", above, below, unit="MB")


def _starts(measured: Measured) -> Iterator[Figure]:
    name = "start-up CPU of the page function / bare boto3 with three clients"
    above, below = measured.start(PAGE_START), measured.start(BARE_START)
    why = "it makes four clients, and imports what it logs with"
    yield _ratio(name, above, below, 1.25, unit="ms", why=why, absent="no bundle: make bundle-local")


def _bundled_start(measured: Measured) -> Figure:
    name = "same, against boto3 from the bundle, whose service data is shortened"
    return _ratio(name, measured.start(PAGE_START), measured.start(BUNDLED_START), unit="ms")


def prices_of(measured: Measured) -> dict[str, dict[str, float]]:
    """US dollars for a million records by service, of each layout that there is, and of the two ways without pages.

    A page's Lambda time is its wall time on a processor of its own.  What a run does once is left out, as is what the
    consumers do.
    """
    found = {}
    for layout in LAYOUTS:
        usage, wall = measured.ledger.get((layout, QUIET)), measured.wall(HANDLER[layout])
        if usage is not None and wall is not None:
            found[layout] = scale.costs(
                scale.Hour(Path.PAGED, usage["evaluated"], 0), _dispatched(usage, wall / 1000), PRICES
            )
    record = {
        "S3": MILLION * PRICES["s3_write"],
        "SQS": MILLION * PRICES["sqs_fifo_request"],
        "DynamoDB": MILLION * PRICES["dynamodb_write_unit"],
        "Lambda": MILLION * (PRICES["lambda_request"] + RECORD_SECONDS * RECORD_GB * PRICES["lambda_gb_second"]),
        "Step Functions": 0.0,
    }
    found["an invocation for each record"] = record
    found["a child execution for each record"] = {
        **record,
        "Step Functions": MILLION * RECORD_TRANSITIONS * PRICES["state_transition"],
    }
    return found


def _dispatched(usage: Usage, page_seconds: float) -> scale.Dispatched:
    pages = usage["pages"]
    work = scale.Work(
        cpu=page_seconds * pages,
        invocations=pages,
        write_units=usage["write_units"],
        read_units=usage["read_units"],
    )
    work.calls.update(usage["calls"])
    return scale.Dispatched({Step.DISPATCH: work}, transitions=2 * pages)


COST_GOALS: Final = {OBJECT: 3.25, PACKED: 0.20}


def _costs(measured: Measured) -> Iterator[Figure]:
    prices = prices_of(measured)
    for layout, most in COST_GOALS.items():
        name, goal = f"modelled cost per million records, {layout}, US dollars", f"<= {most:.2f}"
        if layout not in prices:
            yield Figure(name=name, value=None, goal=goal, met=False, note=NOT_BUILT)
            continue
        value = round(sum(prices[layout].values()), 4)
        note = ", ".join(f"{service} {dollars:.3f}" for service, dollars in prices[layout].items())
        yield Figure(name=name, value=value, goal=goal, met=value <= most, note=note)


RUNS: Final = {QUIET: "first run", AGAIN: "re-run", BUSY: "busy edge"}
LEDGER_CALLS: Final = 6
LEDGER_DOLLARS: Final = 0.06


def _ledger(measured: Measured) -> Iterator[Figure]:
    """The price of leases and plans; the goals are of a first run."""
    for (layout, run), usage in sorted(measured.ledger.items()):
        pages, calls = usage["pages"], usage["ledger_calls"]
        written = PRICES["dynamodb_write_unit"] * usage["write_units"]
        dollars = (written + PRICES["dynamodb_read_unit"] * usage["ledger_read_units"]) * MILLION / usage["evaluated"]
        name = f"leases and plans, {RUNS[run]}, {layout}"
        each_page = {operation: round(count / pages, 2) for operation, count in calls.items()}
        made = sum(calls.values()) / pages
        yield _bounded(
            f"{name}: calls a page",
            round(made, 2),
            LEDGER_CALLS if run == QUIET else None,
            ", ".join(f"{operation} {count:g}" for operation, count in each_page.items()),
        )
        yield _bounded(
            f"{name}: US dollars per million records",
            round(dollars, 4),
            LEDGER_DOLLARS if run == QUIET else None,
            f"a page: {usage['write_units'] / pages:.1f} write units, {usage['ledger_read_units'] / pages:.1f} read "
            f"units, ${dollars * usage['evaluated'] / MILLION / pages:.6f}",
        )
        yield _shown(f"{name}: bytes a page, requests and answers", usage["ledger_bytes"] / pages)


def _bounded(name: str, value: float, most: float | None, note: str) -> Figure:
    if most is None:
        return Figure(name=name, value=value, note=note)
    return Figure(name=name, value=value, goal=f"<= {most:g}", met=value <= most, note=note)


def _shown_pages(measured: Measured) -> Iterator[Figure]:
    for variant, pages in measured.pages.items():
        if variant.share < 1:
            continue
        of = "a page" if variant.kind != "full" else "a page's share"
        spread = ", ".join(_number(1000 * page.cpu) for page in pages)
        yield _shown(f"CPU of {of}, ms: {variant.text}", measured.cpu(variant), f"processes: {spread}")
        if variant.kind != "query":
            spread = ", ".join(_number(1000 * page.wall) for page in pages)
            yield _shown(f"wall of {of}, ms: {variant.text}", measured.wall(variant), f"processes: {spread}")
    for layout in LAYOUTS:
        if layout in (variant.layout for variant in measured.pages):
            handler = HANDLER[layout]
            yield _shown(f"wall of a process's first page, ms: {handler.text}", measured.first(handler))
            yield _shown(
                f"latency bound of a page, ms: {layout}", measured.bound(layout), "the recorded calls, by arithmetic"
            )
            page = measured.pages[handler][0]
            calls = ", ".join(f"{operation} {_number(count)}" for operation, count in page.requests.items())
            note = f"{calls}; at most {page.most_at_once} at once, {page.connections} on a new connection"
            yield _shown(f"requests of a page: {layout}", sum(page.requests.values()), note)
    yield from _stub(measured)


def _stub(measured: Measured) -> Iterator[Figure]:
    """Whether the stub held anything up."""
    pages = measured.pages.get(HANDLER[OBJECT])
    if pages:
        page = pages[0]
        requests = sum(page.requests.values())
        yield _shown("stub: requests a second of its CPU", requests / page.stub_cpu)
        yield _shown("client: requests a second of its CPU", requests / page.cpu, "the page handler, object")
        yield _shown("stub: share of its processor that it uses", page.stub_cpu / page.wall, "during these pages")
    yield _shown("stub: ms that an answer takes", 1000 * measured.stub_latency, f"set to {1000 * measured.latency:g}")


def _shown_starts(measured: Measured) -> Iterator[Figure]:
    below = measured.start(BARE_START)
    yield _bundled_start(measured)
    for start in measured.starts:
        if start not in (BARE_START, BUNDLED_START, PAGE_START):
            name = f"start-up CPU, imports alone, {start.module.rpartition('.')[2]} / bare boto3 with three clients"
            yield _ratio(name, measured.start(start), below, unit="ms")
    if measured.bundle:
        whole, own = measured.bundle
        yield _shown("bundle, MB unpacked", whole / MB, f"{own / MB:.1f} without boto3 and botocore")


def _shown_paths(measured: Measured) -> Iterator[Figure]:
    if measured.grouped:
        hour, dispatched = measured.grouped
        yield from _works(f"of {hour.bookings:,} in groups of 5", hour.bookings, _grouped(dispatched))
    if measured.reconciled:
        bookings, told = measured.reconciled
        works = ((reconcile.FUNCTIONS[step], one["PeakBytes"], one["Cpu"]) for step, one in told.items())
        yield from _works(f"of {bookings:,}", bookings, works)


def _grouped(dispatched: scale.Dispatched) -> Iterator[tuple[str, int, float]]:
    return ((scale.FUNCTIONS[step], work.peak, work.cpu) for step, work in dispatched.works.items())


def _works(of: str, bookings: int, works: Iterable[tuple[str, int, float]]) -> Iterator[Figure]:
    for name, peak, cpu in works:
        yield _shown(f"{name}: bookings a CPU second {of}", bookings / cpu, f"peak RSS {peak / MB:.1f} MB")


def _shown_costs(measured: Measured) -> Iterator[Figure]:
    prices = {name: sum(dollars.values()) for name, dollars in prices_of(measured).items()}
    layouts = [layout for layout in LAYOUTS if layout in prices]
    for name in (name for name in prices if name not in LAYOUTS):
        yield _shown(f"modelled cost per million records, {name}, US dollars", prices[name])
        for layout in layouts:
            yield _ratio(f"cost, {name} / {layout}", prices[name], prices[layout], unit="US dollars")


def sizes(measured: Measured) -> Iterator[Figure]:
    """The page function at each memory: its page, that against its latency bound, and what its Lambda time costs."""
    for layout, variants in SIZED.items():
        bound = measured.bound(layout, pool.THREADS)
        for variant in variants:
            page, wall = measured.pages.get(variant), measured.wall(variant)
            if page is None or wall is None:
                continue
            of, got = f"{layout}, {variant.memory:,} MB", page[0].share
            truly = "never held" if got is None else f"truly {got:.3f}"
            note = f"share {variant.share:.3f}, {truly}; {_number(measured.cpu(variant) or 0)} ms of CPU"
            yield _shown(f"memory: wall of a page, ms: {of}", wall, note)
            yield _ratio(f"memory: wall / latency bound, {pool.THREADS} threads: {of}", wall, bound, unit="ms")
            dollars = lambda_dollars(variant.memory, wall / 1000) * MILLION / measured.page_size
            yield _shown(f"memory: Lambda, US dollars per million records: {of}", dollars)
        for threads in sorted({THREADS[layout], pool.THREADS}, reverse=True):
            yield _smallest(measured, layout, threads)


def lambda_dollars(memory: int, seconds: float) -> float:
    """US dollars of a call of a function of so many MB."""
    return PRICES["lambda_request"] + memory / 1024 * seconds * PRICES["lambda_gb_second"]


def _smallest(measured: Measured, layout: str, threads: int) -> Figure:
    """The smallest memory with which a page is near its bound, by the bound of so many threads."""
    name = f"memory: smallest with a page within {WITHIN:.2f} of its bound with {threads} threads, MB: {layout}"
    bound = measured.bound(layout, threads)
    walls = {variant.memory: measured.wall(variant) for variant in SIZED[layout]}
    ratios = {memory: wall / bound for memory, wall in walls.items() if wall is not None and bound is not None}
    if not ratios:
        return Figure(name=name, value=None, note=NOT_BUILT)
    within = [memory for memory, ratio in ratios.items() if ratio <= WITHIN]
    if not within:
        best = min(ratios, key=ratios.__getitem__)
        return Figure(name=name, value=None, note=f"none of them: at {best:,} MB it takes {ratios[best]:.2f} of it")
    return Figure(name=name, value=min(within), note=f"{ratios[min(within)]:.2f} of {_number(bound or 0)} ms")


def table(told: Iterable[Figure]) -> str:
    """The figures for a terminal, as Markdown."""
    rows = [["figure", "value", "goal", "met", "of"]]
    for figure in told:
        met = {True: "yes", False: "NO", None: ""}[figure.met]
        value = "-" if figure.value is None else _number(figure.value)
        rows.append([figure.name, value, figure.goal or "shown", met, figure.note])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in rows]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])
