"""What a run's report tells: gathered from its executions, plans, logs and reconciles, and nothing of a booking in it.

What is gathered does not grow with the hour's bookings: of its tasks only the sizes are counted, and of its pages some
numbers each are held until they are put into at most `MAX_BARS` bars.
"""

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from itertools import islice
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError

from functions.domain.booking import Route
from functions.domain.pack import Layout
from functions.domain.plan import Plan
from functions.domain.run import Counts, Path
from functions.domain.window import Window, utc_text
from tools.application import Application
from tools.cost.bill import Terms, bill_of, hour_of_run, savings
from tools.cost.prices import read_prices
from tools.dispatchctl.outcome import record_json, where
from tools.runs.history import Fault, visits
from tools.runs.overview import still_stopped
from tools.runs.records import PageRecord, RunRecord, faults_of, layout_of, pages_of, plans_of
from tools.runs.reports import read_report, reconciles_of

MAX_BARS: Final = 120
"""More would be thinner than two pixels of a phone's screen."""
RECORD_BYTES: Final = 450
"""Assumed of a booking, as `dispatchctl cost` does."""
FILES_NAMED: Final = 20
"""So many set-aside files are named; of the others it is said how many they are."""
WHOLE_WINDOW: Final = "Dispatch whole window"
PAGE_STEPS: Final = {
    Path.FULL: (WHOLE_WINDOW,),
    Path.PAGED: ("Dispatch page",),
    Path.GROUPED: ("Stage page", "Fold pages", "Merge bucket"),
}
"""The states whose functions hold bookings, whose memory is therefore of interest."""

_REPORT_LINE: Final = re.compile(r"Memory Size: (\d+) MB\s+Max Memory Used: (\d+) MB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Some pages of a run that began one after the other, or one page."""

    first: int
    last: int
    """Their places in the order in which the pages began, from 1."""
    started: datetime | None
    """When the first of them did; None where the history does not tell."""
    counts: Counts
    seconds: float | None
    """What a page took, on average."""
    slowest: float | None
    calls: int
    """How often the page's function was called; 0 where the history does not tell."""
    retries: int
    """Those that were not a page's first."""

    @property
    def name(self) -> str:
        """`7`, or `1-25`."""
        return f"{self.first:,}" if self.first == self.last else f"{self.first:,}\N{EN DASH}{self.last:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The pages of a run over time."""

    number: int
    lanes: int
    open: int
    """Pages that were planned and are not finished."""
    bars: Sequence[Bar]
    counts: Counts
    timed: int
    """Of so many the execution's history tells when they began."""
    shared: int
    """Of those so many were done by the call that did the page before them, such as the chunks of a merge."""
    median_seconds: float | None
    slowest_seconds: float | None
    calls: int
    retries: int

    @property
    def pages_a_bar(self) -> int:
        """The last bar may have fewer."""
        return self.bars[0].last if self.bars else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRoute:
    """The tasks of a route."""

    route: Route
    tasks: int
    orders: int
    largest: int
    """The most orders in one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeClass:
    """The tasks that hold from `least` to `most` orders."""

    least: int
    most: int
    tasks: int
    orders: int

    @property
    def name(self) -> str:
        """`3`, or `6-10`."""
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,}\N{EN DASH}{self.most:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The tasks of a run by size and by route."""

    routes: Sequence[OfRoute]
    sizes: Sequence[SizeClass]
    number: int
    orders: int
    largest: int
    unsent: int
    """Those of them that are planned and not known to be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCount:
    """Attempts that failed in the same step by the same error."""

    step: str
    error: str
    times: int
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the invocations of a step's function used while the run worked."""

    step: str
    invocations: int
    peak_mb: int
    limit_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """The latest reconcile of the run's hour."""

    outcome: str
    taken_at: str
    """When it began, UTC; it knows nothing of what was dispatched later."""
    bookings: int
    dispatched: int
    counts: Mapping[str, int]
    key: str
    """Of its report in the bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dollars:
    """US dollars for one service, or saved by one setting."""

    name: str
    hour: float
    month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the run's hour costs by its counts, its reconcile included, and a month of such hours."""

    services: Sequence[Dollars]
    hour: float
    month: float
    per_million: float | None
    """For so many bookings read."""
    record_bytes: int
    """Assumed of a booking."""
    region: str
    """Whose prices these are, mostly."""
    looked_up: str
    saving: Dollars | None
    """The setting that would save most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where things lie."""

    stage: str
    region: str
    bucket: str
    ledger_table: str
    queues: Sequence[str]
    console: str | None
    """The execution's page in the console; None on the embedded AWS, which has none."""
    set_aside: Sequence[str]
    """The keys of the first files of records that were set aside."""
    set_aside_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """All that the page tells."""

    run: RunRecord
    made_at: datetime
    counts: Counts
    pages: Pages
    whole_window: tuple[float | None, int] | None
    """How long the step that reads all at once took, and its calls; None where there was none."""
    tasks: Tasks | None
    """None where no plan tells of them: a dry run keeps none."""
    faults: Sequence[FaultCount]
    memory: Sequence[Memory]
    """Empty where it was not recorded."""
    reconciled: Reconciled | None
    cost: Cost | None
    """None where nothing was read."""
    still_stopped: bool
    """Whether the kill switch has stopped it, and is still on."""
    places: Places

    @property
    def holds(self) -> bool:
        """Whether every record that waited is dispatched now, was before, or is set aside."""
        counts = self.counts
        return counts.waiting == counts.dispatched + counts.already_dispatched + counts.set_aside


def gather(application: Application, run: RunRecord, now: datetime) -> RunReport:
    """Ask for all that is known of a run, which may be one that has not ended.

    Raises:
        ClientError, DispatcherError: as of the calls that are made.
    """
    pages = pages_over_time(pages_of(application, run))
    counts = run.totals or pages.counts
    return RunReport(
        run=run,
        made_at=now,
        counts=counts,
        pages=pages,
        whole_window=_whole_window(application, run),
        tasks=None if run.dry_run else tasks_of(plans_of(application, run)),
        faults=counted(faults_of(application, run)),
        memory=memory_used(application, run, now),
        reconciled=_reconciled(application, run.window),
        cost=cost_of(run, counts, application.deployment.region, layout_of(application, run)),
        still_stopped=still_stopped(application, run),
        places=_places(application, run),
    )


def pages_over_time(records: Iterable[PageRecord]) -> Pages:
    """Put the pages into bars, in the order in which they began; those of an execution before are the first.

    The records come lane by lane.  One whose start is not known was begun with the page before it, if that one's is.
    """
    noted: list[_Noted] = []
    lanes, unfinished, shared = set(), 0, 0
    for record in records:
        lanes.add(record.lane)
        unfinished += not record.finished
        began = record.started.timestamp() if record.started else 0.0
        if not began and noted and noted[-1].lane == record.lane and noted[-1].began:
            began = noted[-1].began
            shared += 1
        noted.append(_Noted(began, record.lane, record.page, record.counts, record.seconds, record.attempts))
    noted.sort(key=lambda page: page[:3])
    width = -(-len(noted) // MAX_BARS) or 1
    bars = [_bar(noted[place : place + width], place) for place in range(0, len(noted), width)]
    seconds = [page.seconds for page in noted if page.seconds is not None]
    return Pages(
        number=len(noted),
        lanes=len(lanes),
        open=unfinished,
        bars=bars,
        counts=sum((bar.counts for bar in bars), Counts()),
        timed=sum(page.began > 0 for page in noted),
        shared=shared,
        median_seconds=statistics.median(seconds) if seconds else None,
        slowest_seconds=max(seconds, default=None),
        calls=sum(bar.calls for bar in bars),
        retries=sum(bar.retries for bar in bars),
    )


def tasks_of(plans: Iterable[Plan]) -> Tasks:
    """Count the tasks by route and by orders; no plan is held."""
    counted_sizes: Counter[tuple[Route, int]] = Counter()
    unsent = 0
    for plan in plans:
        counted_sizes.update((task.route, len(task.versions)) for task in plan.tasks)
        unsent += 0 if plan.finished else len(plan.unsent)
    sizes: Counter[int] = Counter()
    for (_, size), times in counted_sizes.items():
        sizes[size] += times
    return Tasks(
        routes=[_of_route(route, counted_sizes) for route in Route],
        sizes=size_classes(sizes),
        number=sizes.total(),
        orders=sum(size * times for size, times in sizes.items()),
        largest=max(sizes, default=0),
        unsent=unsent,
    )


def size_classes(sizes: Mapping[int, int]) -> list[SizeClass]:
    """The sizes 1 to 5 by themselves, and all above in steps of about twice; without gaps up to the largest."""
    classes = []
    least, bounds = 1, _bounds()
    while least <= max(sizes, default=0):
        most = next(bounds)
        inside = {size: times for size, times in sizes.items() if least <= size <= most}
        orders = sum(size * times for size, times in inside.items())
        classes.append(SizeClass(least=least, most=most, tasks=sum(inside.values()), orders=orders))
        least = most + 1
    return classes


def counted(faults: Iterable[Fault]) -> list[FaultCount]:
    """Count the faults by step and error, the most frequent first."""
    found: dict[tuple[str, str], list[datetime]] = {}
    for fault in faults:
        found.setdefault((fault.step, fault.error), []).append(fault.at)
    counts = [
        FaultCount(step=step, error=error, times=len(moments), first=min(moments), last=max(moments))
        for (step, error), moments in found.items()
    ]
    return sorted(counts, key=lambda each: (-each.times, each.step, each.error))


def cost_of(run: RunRecord, counts: Counts, region: str, layout: Layout = Layout.OBJECT) -> Cost | None:
    """What it costs, as `dispatchctl cost` says it; of a run that has not ended, what was done so far."""
    if run.path not in set(PAGE_STEPS) or run.page_size is None or not counts.evaluated:
        return None
    prices = read_prices(region)
    bill = bill_of(hour_of_run(Path(run.path), counts, run.page_size, RECORD_BYTES, layout), prices, Terms())
    services = [Dollars(name=name, hour=amount.hour, month=amount.month) for name, amount in bill.services.items()]
    best = next(iter(savings(bill)), None)
    return Cost(
        services=sorted((each for each in services if each.month), key=lambda each: -each.month),
        hour=bill.total.hour,
        month=bill.total.month,
        per_million=bill.per_million,
        record_bytes=RECORD_BYTES,
        region=prices.region if prices.own else prices.listed_for,
        looked_up=str(prices.looked_up),
        saving=Dollars(name=best.setting, hour=best.saved.hour, month=best.saved.month) if best else None,
    )


def to_json(report: RunReport) -> dict[str, Any]:
    """The report for machines: names in PascalCase, moments in UTC.

    The token of a failed page is left out, since it holds the key of a record.
    """
    told: dict[str, Any] = _told(report)
    return {**told, "Run": _told(record_json(report.run, report.made_at))}


def _told(value: Any) -> Any:
    match value:
        case datetime():
            return utc_text(value.astimezone(UTC))
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _told(each) for key, each in value.items() if key != "Token"}
        case list() | tuple():
            return [_told(each) for each in value]
    if is_dataclass(value):
        return {field.name.title().replace("_", ""): _told(getattr(value, field.name)) for field in fields(value)}
    return value


class _Noted(NamedTuple):
    """A page by what is shown of it."""

    began: float
    lane: int
    page: int
    counts: Counts
    seconds: float | None
    calls: int


def _bar(pages: Sequence[_Noted], place: int) -> Bar:
    seconds = [page.seconds for page in pages if page.seconds is not None]
    began = pages[0].began
    return Bar(
        first=place + 1,
        last=place + len(pages),
        started=datetime.fromtimestamp(began, UTC) if began else None,
        counts=sum((page.counts for page in pages), Counts()),
        seconds=statistics.fmean(seconds) if seconds else None,
        slowest=max(seconds, default=None),
        calls=sum(page.calls for page in pages),
        retries=sum(max(page.calls - 1, 0) for page in pages),
    )


def _bounds() -> Iterator[int]:
    """1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, ..."""
    yield from range(1, 5)
    power = 1
    while True:
        yield from (5 * power, 10 * power, 20 * power)
        power *= 10


def _of_route(route: Route, counted_sizes: Mapping[tuple[Route, int], int]) -> OfRoute:
    sizes = {size: times for (of, size), times in counted_sizes.items() if of == route}
    return OfRoute(
        route=route,
        tasks=sum(sizes.values()),
        orders=sum(size * times for size, times in sizes.items()),
        largest=max(sizes, default=0),
    )


def _whole_window(application: Application, run: RunRecord) -> tuple[float | None, int] | None:
    """The step of the full path, which is one call for all pages; also what a dry run in lanes is counted by."""
    if run.path != Path.FULL and not run.dry_run:
        return None
    found = [visit for visit in visits(application, run.execution) if visit.state == WHOLE_WINDOW]
    return (found[-1].seconds, sum(visit.attempts for visit in found)) if found else None


def memory_used(application: Application, run: RunRecord, now: datetime) -> list[Memory]:
    """What Lambda reports of the invocations while the run worked; those of another hour's run are among them.

    The embedded AWS writes the memory of all its children into each report, so there is nothing to be told of it.
    Neither is where the caller may not read the logs.
    """
    if application.account is None or run.path not in set(PAGE_STEPS):
        return []
    found = []
    with suppress(ClientError):
        for step, function in _functions(application, PAGE_STEPS[Path(run.path)]):
            configuration = application.client("lambda").get_function_configuration(FunctionName=function)
            pages = (
                application.client("logs")
                .get_paginator("filter_log_events")
                .paginate(
                    logGroupName=configuration["LoggingConfig"]["LogGroup"],
                    startTime=int(run.started.timestamp() * 1000),
                    endTime=int((run.ended or now).timestamp() * 1000),
                    filterPattern='"REPORT RequestId"',
                )
            )
            memory = memory_of(step, (event["message"] for page in pages for event in page["events"]))
            found += [memory] if memory else []
    return found


def memory_of(step: str, lines: Iterable[str]) -> Memory | None:
    """What Lambda's `REPORT` lines say together; None where there is none."""
    used = [tuple(map(int, match.groups())) for match in map(_REPORT_LINE.search, lines) if match]
    if not used:
        return None
    limits, peaks = zip(*used, strict=True)
    return Memory(step=step, invocations=len(used), peak_mb=max(peaks), limit_mb=max(limits))


def _functions(application: Application, steps: Sequence[str]) -> Iterator[tuple[str, str]]:
    """These states and their functions, as the machine's definition or that of its lanes names them."""
    definition = _definition(application, application.deployment.outputs["DispatchStateMachineArn"])
    lane = definition["Dispatch lanes"]["ItemProcessor"]["States"]["Dispatch lane"]["Parameters"]["StateMachineArn"]
    states = definition if set(steps) <= set(definition) else _definition(application, lane)
    return ((step, states[step]["Parameters"]["FunctionName"]) for step in steps)


def _definition(application: Application, machine: str) -> dict[str, Any]:
    """The states of a machine."""
    described = application.stepfunctions.describe_state_machine(stateMachineArn=machine)
    states: dict[str, Any] = json.loads(described["definition"])["States"]
    return states


def _reconciled(application: Application, window: Window | None) -> Reconciled | None:
    """The latest report of the hour; its samples, which name records, are left where they are."""
    place = None if window is None else next(reconciles_of(application, window), None)
    if place is None:
        return None
    report = read_report(application, place)
    return Reconciled(
        outcome=report["Outcome"],
        taken_at=report["TakenAt"],
        bookings=report["Sources"]["Bookings"]["Bookings"],
        dispatched=report["Sources"]["Ledger"]["DispatchedRecords"],
        counts=report["Counts"],
        key=place.key,
    )


def _places(application: Application, run: RunRecord) -> Places:
    deployment, outputs = application.deployment, application.deployment.outputs
    files: Iterator[str] = iter(())
    if run.window is not None and run.run_id is not None and not run.dry_run:
        files = application.set_aside(f"{run.window.start:%Y-%m-%d/%H}/{run.run_id}/")
    named = list(islice(files, FILES_NAMED))
    return Places(
        stage=outputs["DispatchStateMachineArn"].rpartition(":")[2].partition("-")[0],
        region=deployment.region,
        bucket=outputs["TaskDataBucketName"],
        ledger_table=outputs["LedgerTableName"],
        queues=(outputs["PointTaskQueueUrl"], outputs["CouponTaskQueueUrl"]),
        console=None if application.account is None else where(application, run.execution),
        set_aside=named,
        set_aside_files=len(named) + sum(1 for _ in files),
    )
