"""Runs as the operator's tools know them, staged: what executions and plans of each kind tell, without either."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from functions.domain.booking import Group, RecordVersion, Route
from functions.domain.plan import Plan
from functions.domain.reconcile import Difference
from functions.domain.run import Counts
from functions.domain.task import Task
from functions.domain.window import Window
from tools.report.figures import Memory, Places, Reconciled, RunReport, cost_of, counted, pages_over_time, tasks_of
from tools.runs.history import Fault
from tools.runs.records import PageRecord, RunRecord

WINDOW: Final = Window.starting("2026-09-17T15:00:00Z")
BEGAN: Final = datetime(2026, 9, 17, 16, 1, tzinfo=UTC)
MADE: Final = datetime(2026, 9, 17, 22, 0, tzinfo=UTC)
RUN_ID: Final = "20260917T160100Z-hourly"
MEMBER: Final = "member-4711"
RECORD: Final = "B00042"
"""What stands for data of a booking: neither may be told to anybody."""


def run_record(**facts: Any) -> RunRecord:
    """A run that dispatched its hour on the paged path in a minute, or another one by its `facts`."""
    return replace(
        RunRecord(
            execution="arn:aws:states:eu-west-1:123456789012:execution:Dispatch:hourly",
            status="SUCCEEDED",
            started=BEGAN,
            ended=BEGAN + timedelta(minutes=1),
            run_id=RUN_ID,
            window=WINDOW,
            path="paged",
            page_size=1000,
            outcome="Dispatched",
            totals=None,
            detail={},
            redrives=0,
        ),
        **facts,
    )


def page_record(page: int, counts: Counts, **facts: Any) -> PageRecord:
    """A finished page that the first attempt did in a second and a bit, one behind the other."""
    return replace(
        PageRecord(
            lane=0,
            page=page,
            token={"RecordId": {"S": RECORD}},
            counts=counts,
            finished=True,
            started=BEGAN + timedelta(seconds=1.5 * page),
            seconds=1.2 + page % 7 / 10,
            attempts=1,
        ),
        **facts,
    )


def counts_of(evaluated: int, waiting: int, *, before: int = 0, aside: int = 0) -> Counts:
    """A page's counts; its tasks hold two records each."""
    dispatched = waiting - before - aside
    tasks = -(-dispatched // 2)
    return Counts(1, evaluated, waiting, dispatched, before, aside, tasks, tasks)


def plan_of(page: int, sizes: Iterable[int], *, finished: bool = True) -> Plan:
    """A plan whose tasks hold so many records each, every third of them coupons."""
    tasks = []
    for place, size in enumerate(sizes):
        route = Route.COUPON if place % 3 == 2 else Route.POINT
        version = RecordVersion(RECORD, "2026-09-17", "15:03:00Z")
        group = Group("1001", f'"{MEMBER}"', "3001")
        tasks.append(Task(f"{page:032}{place:032}", route, group, WINDOW, (version,) * size))
    return Plan(page, tuple(tasks), None, Counts(), finished=finished)


def fault(step: str, error: str, minute: int) -> Fault:
    """An attempt that failed."""
    at = BEGAN + timedelta(minutes=minute)
    return Fault(at=at, step=step, lane=0, page=1, attempt=1, error=error, message="")


def places(*, embedded: bool = False, files: int = 0) -> Places:
    """Where the things of a run in an account lie."""
    named = [f"set-aside/2026-09-17/15/{RUN_ID}/0000-{page:06}.json" for page in range(1, min(files, 20) + 1)]
    return Places(
        stage="BookingtimeDispatcherSandbox",
        region="eu-west-1",
        bucket="bookingtimedispatchersandbox-taskdata-1a2b3c",
        ledger_table="BookingtimeDispatcherSandbox-Ledger",
        queues=(
            "https://sqs.eu-west-1.amazonaws.com/1/points.fifo",
            "https://sqs.eu-west-1.amazonaws.com/1/coupons.fifo",
        ),
        console=None if embedded else "https://eu-west-1.console.aws.amazon.com/states/home?region=eu-west-1",
        set_aside=named,
        set_aside_files=files,
    )


def report_of(
    run: RunRecord, pages: Iterable[PageRecord] = (), plans: Iterable[Plan] | None = (), **facts: Any
) -> RunReport:
    """The report of a run with these pages and plans."""
    over_time = pages_over_time(pages)
    report = RunReport(
        run=run,
        made_at=MADE,
        counts=run.totals or over_time.counts,
        pages=over_time,
        whole_window=None,
        tasks=None if plans is None else tasks_of(plans),
        faults=(),
        memory=(),
        reconciled=None,
        cost=cost_of(run, run.totals or over_time.counts, "eu-west-1"),
        still_stopped=False,
        places=places(),
    )
    return replace(report, **facts)


def three_pages() -> RunReport:
    """The usual hour, small: three pages and a last one that is empty."""
    pages = [
        page_record(1, counts_of(1000, 870)),
        page_record(2, counts_of(1000, 910, before=25)),
        page_record(3, counts_of(412, 300, aside=4), attempts=2, seconds=4.1),
    ]
    return report_of(
        run_record(),
        pages,
        [plan_of(page, (1, 1, 1, 2, 2, 3, 9, 17)) for page in (1, 2, 3)],
        faults=counted([fault("Dispatch page", "TransientError", 0)]),
        memory=[Memory(step="Dispatch page", invocations=4, peak_mb=148, limit_mb=512)],
        reconciled=reconciled(),
        places=places(files=1),
    )


def three_thousand_pages() -> RunReport:
    """Three million bookings, read for more than an hour; every hundredth page was tried twice."""

    def pages() -> Iterator[PageRecord]:
        for page in range(1, 3001):
            often = 2 if page % 100 == 0 else 1
            waiting = 700 + page * 37 % 300
            yield page_record(
                page, counts_of(1000, waiting, aside=page % 50 == 0), attempts=often, seconds=1.3 * often**2
            )

    faults = [fault("Dispatch page", "TransientError", minute) for minute in range(30)]
    return report_of(
        run_record(ended=BEGAN + timedelta(minutes=76)),
        pages(),
        (plan_of(page, (1, 1, 2, 5, page % 40 + 1, page)) for page in range(1, 3001)),
        faults=counted([*faults, fault("Take leases", "WindowBusy", 0)]),
        memory=[Memory(step="Dispatch page", invocations=3030, peak_mb=151, limit_mb=512)],
        reconciled=reconciled(MissingInLedger=3, ValueMismatch=1200),
        places=places(files=60),
    )


def failed() -> RunReport:
    """It failed on its third page, whose token names a record."""
    detail = {
        "Error": "TooManyBadRecords",
        "Message": "104 records were set aside, and the limit is 100",
        "Page": 3,
        "Token": {"RecordId": {"S": RECORD}},
    }
    pages = [page_record(1, counts_of(1000, 870, aside=40)), page_record(2, counts_of(1000, 910, aside=60))]
    return report_of(
        run_record(status="FAILED", outcome="TooManyBadRecords", detail=detail),
        [*pages, page_record(3, Counts(), finished=False, seconds=None)],
        [plan_of(1, (1, 2, 3)), plan_of(3, (1, 2), finished=False)],
        faults=counted([fault("Dispatch page", "TooManyBadRecords", 1)]),
        places=places(files=2),
    )


def full_path() -> RunReport:
    """The full path: chunks, whose times no history tells."""
    pages = [page_record(page, counts_of(0, 1000), started=None, seconds=None, attempts=0) for page in range(1, 5)]
    last = page_record(5, Counts(pages=5, evaluated=4800, waiting=40, dispatched=40, tasks=20, groups=20))
    return report_of(
        run_record(path="full"),
        [*pages, replace(last, started=None, seconds=None, attempts=0)],
        [plan_of(page, (1, 2, 3, 4, 5, 6)) for page in range(1, 6)],
        whole_window=(48.4, 1),
        places=places(embedded=True),
    )


def grouped() -> RunReport:
    """Eight lanes are staged, and then merged in four, each by one call that did two chunks."""
    staged = [
        page_record(page, Counts(1, 1000), lane=lane, started=BEGAN + timedelta(seconds=lane / 10 + page * 2))
        for lane in range(8)
        for page in range(1, 6)
    ]
    merged = [
        page_record(
            1, replace(counts_of(0, 4000), pages=0), lane=2000 + lane, started=BEGAN + timedelta(seconds=20 + lane)
        )
        for lane in range(4)
    ]
    return report_of(run_record(path="grouped"), [*staged, *merged], [plan_of(1, (1, 30, 400, 5000))])


def dry_run() -> RunReport:
    """It counted, and kept nothing."""
    pages = [page_record(page, counts_of(1000, 900, aside=page)) for page in range(1, 10)]
    return report_of(run_record(outcome="DryRun", dry_run=True), pages, None)


def empty_hour() -> RunReport:
    """One query, which found nothing."""
    return report_of(run_record(ended=BEGAN + timedelta(seconds=1.4)), [page_record(1, counts_of(0, 0))])


def extreme() -> RunReport:
    """Five hours, pages of ten thousand, one giant group, and everything that can be told told."""
    pages = [
        page_record(
            page,
            counts_of(10_000, 9_999 if page % 2 else 1, before=page % 2, aside=page % 2),
            started=BEGAN + timedelta(seconds=32 * page),
            seconds=31.9 if page != 77 else 1_640.0,
            attempts=5 if page == 77 else 1,
        )
        for page in range(1, 564)
    ]
    long_name = "Lambda.CodeArtifactUserPendingException"
    return report_of(
        run_record(
            status="TIMED_OUT", outcome="States.Timeout", ended=BEGAN + timedelta(hours=5), page_size=10_000, redrives=3
        ),
        pages,
        [plan_of(1, (1, 1, 700_000)), plan_of(2, (1,) * 9_000)],
        faults=counted([fault("Dispatch page", long_name, minute) for minute in range(9)]),
        memory=[
            Memory(step=step, invocations=1_234_567, peak_mb=3_007, limit_mb=3_008)
            for step in ("Stage page", "Merge bucket")
        ],
        reconciled=reconciled(MissingInLedger=2_700_000, MissingHour=1),
        places=places(files=2_345),
    )


def still_running() -> RunReport:
    """It has not ended."""
    return report_of(
        run_record(status="RUNNING", outcome=None, ended=None),
        [page_record(1, counts_of(1000, 870))],
        [plan_of(1, (1, 2))],
    )


def refused() -> RunReport:
    """Its input was no input: no hour, no page, no plan."""
    detail = {"Error": "InvalidInput", "Message": "ExecuteTime: expected <YYYY-MM-DDThh:mm:ss> & an offset"}
    facts = {"run_id": None, "window": None, "path": None, "page_size": None}
    return report_of(run_record(status="FAILED", outcome="InvalidInput", detail=detail, **facts))


def reconciled(**differences: int) -> Reconciled:
    """A reconcile two hours after the window."""
    counts = {kind.value: differences.get(kind.value, 0) for kind in Difference}
    return Reconciled(
        outcome="Differences" if differences else "Clean",
        taken_at="2026-09-17T17:30:00Z",
        bookings=2_412,
        dispatched=2_076,
        counts=counts,
        key="reports/2026-09-17/15/reconcile-1.json",
    )


REPORTS: Final[Mapping[str, Callable[[], RunReport]]] = {
    "three-pages": three_pages,
    "three-thousand-pages": three_thousand_pages,
    "failed": failed,
    "full-path": full_path,
    "grouped": grouped,
    "dry-run": dry_run,
    "empty-hour": empty_hour,
    "extreme": extreme,
    "still-running": still_running,
    "refused": refused,
}
