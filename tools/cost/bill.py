"""What an hour and a month cost, by service: of a forecast or of a run, on each path.

`tools.cost.usage` counts what is used, `tools.cost.prices` says what that costs; here one is multiplied with the other.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

from functions.domain.errors import InvalidInput
from functions.domain.flags import MAX_PAGE_SIZE
from functions.domain.pack import Layout
from functions.domain.reconcile import Difference
from functions.domain.run import Counts, Path
from tools.cost.prices import Prices
from tools.cost.usage import LEDGER_DAYS, Hour, Usage, page_bookings, pages_of, reconciling, run_of

MILLION: Final = 1_000_000
GB: Final = 1024**3
DAYS_A_MONTH: Final = 365 / 12
LOG_DAYS: Final = 90
LEAST_TASK_DAYS: Final = 214
"""The smallest `taskExpiryDays`."""
FULL_BOOKINGS: Final = 600_000
FULL_RECORD_BYTES: Final = 450
"""So many bookings of this size fit into the function that reads an hour at once (docs/scale.md)."""
ALARMS: Final = 23
DASHBOARDS: Final = 1
METRICS: Final = len(fields(Counts)) + len(("Retries", "RunSeconds", "RedoFailed")) + len(Difference)
"""Of a stack; a test holds these against the template and the code."""
PARAMETER_READS_A_SECOND: Final = 40
RECORD_CALL_SECONDS: Final = 0.05
RECORD_MEMORY_MB: Final = 1024
"""Of a function that is called for one record: about three calls of AWS one after the other; assumed."""

S3, S3_STORED = "S3 requests", "S3 storage"
SQS = "SQS"
INDEX, LEDGER, LEDGER_STORED = "DynamoDB index reads", "DynamoDB ledger", "DynamoDB ledger storage"
LAMBDA, STEP_FUNCTIONS = "Lambda", "Step Functions"
PARAMETERS, LOGS, METERED, SCHEDULER = "Parameter Store", "CloudWatch Logs", "CloudWatch alarms", "EventBridge"
SERVICES: Final = (
    S3,
    S3_STORED,
    SQS,
    INDEX,
    LEDGER,
    LEDGER_STORED,
    LAMBDA,
    STEP_FUNCTIONS,
    PARAMETERS,
    LOGS,
    METERED,
    SCHEDULER,
)

S3_WRITES: Final = ("PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "ListObjectsV2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds beside the hour itself."""

    hours_per_month: float = 730
    task_days: int = 365
    """So long a task's object is kept; the product keeps it until `taskExpiryDays` is set."""
    logs_machines: bool = True
    """Whether the state machines log every event, as they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """An hour that is expected."""

    bookings: int
    group_size: float = 5
    """Bookings of one shop, member, promotion engine and reward type in an hour."""
    spread: float = 1
    """Over so many pages a group's bookings lie on average: on the paged path so many tasks."""
    page_size: int = 1000
    record_bytes: int = 450
    """A booking, as DynamoDB counts it."""
    layout: Layout = Layout.OBJECT

    def __post_init__(self) -> None:
        """Check what no single option can.

        Raises:
            InvalidInput: the message names the field.
        """
        for name in ("group_size", "spread"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 1:
                raise InvalidInput(f"--{name.replace('_', '-')}: {value} is no number from 1 on")
        if self.group_size > self.bookings:
            raise InvalidInput(f"--group-size: {self.group_size:g} is more than all {self.bookings:,} bookings")
        if self.spread > self.group_size:
            raise InvalidInput(
                f"--spread: {self.spread:g} pages are more than a group of {self.group_size:g} can lie on"
            )

    def hour(self, path: Path) -> Hour:
        """The hour on this path."""
        pages = pages_of(self.bookings, self.page_size, self.record_bytes)
        spread = min(self.spread, pages) if path is Path.PAGED else 1
        return Hour(
            path=path,
            evaluated=self.bookings,
            dispatched=self.bookings,
            tasks=self.bookings / self.group_size * spread,
            pages=pages,
            page_size=self.page_size,
            record_bytes=self.record_bytes,
            layout=self.layout,
        )


def hour_of_run(path: Path, totals: Counts, page_size: int, record_bytes: int, layout: Layout = Layout.OBJECT) -> Hour:
    """The hour that a run has done, by its counts."""
    return Hour(
        path=path,
        evaluated=totals.evaluated,
        dispatched=totals.dispatched,
        tasks=totals.tasks,
        pages=max(1, totals.pages),
        page_size=page_size,
        record_bytes=record_bytes,
        layout=layout,
    )


@dataclass(frozen=True, slots=True)
class Line:
    """What is paid for one thing: so much of it in an hour, or in a month where it is paid by the month."""

    service: str
    item: str
    price: str
    quantity: float
    monthly: bool = False


@dataclass(frozen=True, slots=True)
class Amount:
    """US dollars."""

    hour: float
    month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What an hour costs on one path."""

    hour: Hour
    usage: Usage
    lines: tuple[Line, ...]
    prices: Prices
    terms: Terms

    def amount(self, line: Line) -> Amount:
        """What a line costs; what is paid by the month is shared out to the month's hours."""
        dollars = line.quantity * self.prices.each(line.price)
        hours = self.terms.hours_per_month
        return Amount(dollars / hours, dollars) if line.monthly else Amount(dollars, dollars * hours)

    @property
    def services(self) -> dict[str, Amount]:
        """By service, each of them."""
        dollars = dict.fromkeys(SERVICES, Amount(0, 0))
        for line in self.lines:
            so_far, more = dollars[line.service], self.amount(line)
            dollars[line.service] = Amount(so_far.hour + more.hour, so_far.month + more.month)
        return dollars

    @property
    def total(self) -> Amount:
        """Of all services."""
        amounts = self.services.values()
        return Amount(sum(each.hour for each in amounts), sum(each.month for each in amounts))

    @property
    def per_million(self) -> float | None:
        """US dollars for a million bookings; None where there was none."""
        return self.total.hour / self.hour.evaluated * MILLION if self.hour.evaluated else None

    @property
    def fits(self) -> bool:
        """Whether the path can do such an hour: the full one holds all of it in memory."""
        return self.hour.path is not Path.FULL or self.hour.evaluated * self.hour.record_bytes <= (
            FULL_BOOKINGS * FULL_RECORD_BYTES
        )

    @property
    def parameter_reads_a_second(self) -> float:
        """On average over an hour, were the run to last so long."""
        return self.usage.calls.get("GetParameters", 0) / 3600


def bill_of(hour: Hour, prices: Prices, terms: Terms) -> Bill:
    """What the hour's run costs, and the reconcile that follows it."""
    usage = run_of(hour) + reconciling(hour)
    return Bill(hour=hour, usage=usage, lines=tuple(_lines(usage, terms)), prices=prices, terms=terms)


def _lines(usage: Usage, terms: Terms) -> Iterator[Line]:
    calls = usage.calls
    yield Line(S3, "PUT and LIST requests", "s3_write", sum(calls.get(name, 0) for name in S3_WRITES))
    yield Line(S3, "GET requests", "s3_read", calls.get("GetObject", 0))
    yield Line(S3_STORED, "task objects", "s3_storage", _kept(usage.task_bytes, terms.task_days))
    yield Line(SQS, "requests", "sqs_fifo_request", calls.get("SendMessageBatch", 0))
    yield Line(INDEX, "read units", "dynamodb_read_unit", usage.index_read_units)
    yield Line(LEDGER, "write units", "dynamodb_write_unit", usage.ledger_write_units)
    yield Line(LEDGER, "read units", "dynamodb_read_unit", usage.ledger_read_units)
    for price in ("dynamodb_storage", "dynamodb_backup"):
        yield Line(LEDGER_STORED, "GB-months", price, _kept(usage.ledger_bytes, LEDGER_DAYS))
    yield Line(LAMBDA, "requests", "lambda_request", usage.invocations)
    yield Line(LAMBDA, "GB-seconds at work", "lambda_gb_second", usage.busy_gb_seconds)
    yield Line(LAMBDA, "GB-seconds of waiting", "lambda_gb_second", usage.waiting_gb_seconds)
    yield Line(STEP_FUNCTIONS, "state transitions", "state_transition", usage.transitions)
    yield Line(PARAMETERS, "reads", "parameter_read", calls.get("GetParameters", 0))
    logged = usage.function_log_bytes + usage.machine_log_bytes * terms.logs_machines
    yield Line(LOGS, "GB taken in", "log_ingested", logged / GB)
    yield Line(LOGS, "GB-months", "log_stored", _kept(logged, LOG_DAYS))
    yield Line(METERED, "metrics", "metric", METRICS, monthly=True)
    yield Line(METERED, "alarms", "alarm", ALARMS, monthly=True)
    yield Line(METERED, "dashboards", "dashboard", DASHBOARDS, monthly=True)
    yield Line(SCHEDULER, "scheduled starts", "schedule_start", usage.starts)


def _kept(written: float, days: float) -> float:
    """GB-months of what an hour writes, for as long as it is kept: what a month pays once the oldest is deleted."""
    return written / GB * days / DAYS_A_MONTH


@dataclass(frozen=True, slots=True)
class Saving:
    """What another setting would save."""

    setting: str
    saved: Amount


def savings(bill: Bill, forecast: Forecast | None = None) -> list[Saving]:
    """The settings that would make this bill smaller, the one that saves most first.

    Where groups lie is known of a forecast only: a run's counts do not say how many groups its hour has.
    """
    hour, prices, terms = bill.hour, bill.prices, bill.terms
    others: dict[str, Bill] = {}
    largest = page_bookings(MAX_PAGE_SIZE, hour.record_bytes)
    if hour.path is not Path.FULL and hour.page_size < largest:
        pages = pages_of(hour.evaluated, largest, hour.record_bytes, hour.slices)
        larger = replace(hour, page_size=largest, pages=min(pages, hour.pages))
        others[f"larger pages: BookingDispatcherPageSize {largest:,}, as many as 1 MB holds"] = bill_of(
            larger, prices, terms
        )
    if forecast is not None and hour.path is Path.PAGED:
        others["grouping by window: BookingDispatcherGrouping window"] = bill_of(
            forecast.hour(Path.GROUPED), prices, terms
        )
    if forecast is not None and hour.path is Path.GROUPED:
        others[f"grouping by page: BookingDispatcherGrouping page, at a spread of {forecast.spread:g}"] = bill_of(
            forecast.hour(Path.PAGED), prices, terms
        )
    if hour.layout is Layout.OBJECT:
        packed = replace(hour, layout=Layout.PACKED)
        others["one object for all tasks of a page: taskDataLayout packed"] = bill_of(packed, prices, terms)
    if terms.task_days > LEAST_TASK_DAYS:
        others[f"task objects kept shorter: taskExpiryDays {LEAST_TASK_DAYS}, the least, not {terms.task_days}"] = (
            bill_of(hour, prices, replace(terms, task_days=LEAST_TASK_DAYS))
        )
    if terms.logs_machines:
        others["state machines' logs cut down: level ERROR in infra/workflow.py"] = bill_of(
            hour, prices, replace(terms, logs_machines=False)
        )
    now = bill.total
    saved = [
        Saving(setting, Amount(now.hour - other.total.hour, now.month - other.total.month))
        for setting, other in others.items()
    ]
    return sorted((one for one in saved if one.saved.hour > 0), key=lambda one: -one.saved.hour)


@dataclass(frozen=True, slots=True)
class PerRecord:
    """What it would cost to start something for each booking, and nothing else of it."""

    way: str
    amount: Amount


def per_record(hour: Hour, prices: Prices, terms: Terms) -> list[PerRecord]:
    """Two ways that this product does not go."""
    transition = prices.each("state_transition")
    seconds = RECORD_CALL_SECONDS * RECORD_MEMORY_MB / 1024
    called = transition + prices.each("lambda_request") + seconds * prices.each("lambda_gb_second")
    ways = {
        "a Standard child execution for each booking: 2 transitions, its start and one state in it": 2 * transition,
        f"a Lambda invocation for each booking: 1 transition, 1 request, {1000 * RECORD_CALL_SECONDS:.0f} ms of"
        f" {RECORD_MEMORY_MB:,} MB": called,
    }
    hours = terms.hours_per_month
    return [PerRecord(way, Amount(each * hour.evaluated, each * hour.evaluated * hours)) for way, each in ways.items()]
