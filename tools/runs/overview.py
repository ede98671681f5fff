"""How the application stands: what runs and ran, what the parameters say, and what lies on the queues."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.domain.flags import groups_by_window, is_clear_true, page_size_of
from functions.domain.run import Path
from functions.domain.window import Window
from tools.application import Application
from tools.runs.records import (
    ALREADY_RUNNING,
    INVALID_INPUT,
    STOPPED,
    RunRecord,
    of_hour,
    recent,
    running,
)
from tools.runs.redos import Question, waiting

LATE_SECONDS: Final = 2 * 3600
"""So long after the last run's start an hourly schedule has missed a run."""
LOOKED_AT: Final = 20
"""So many runs, or as many as are asked for, are looked at: for the last one, and for hours that are still open."""
MOST_LOOKED_AT: Final = 160
"""Among no more executions are they looked for, however many of them are dry runs."""
QUEUES: Final = {
    "PointTaskQueueUrl": "Points",
    "CouponTaskQueueUrl": "Coupons",
    "PointTaskDeadLetterQueueUrl": "Points, dead letters",
    "CouponTaskDeadLetterQueueUrl": "Coupons, dead letters",
    "ScheduleDeadLetterQueueUrl": "Schedule, dead letters",
    "ReconcileScheduleDeadLetterQueueUrl": "Reconcile schedule, dead letters",
    "WatchDeadLetterQueueUrl": "Bad ends, dead letters",
}
"""The queues' outputs, and how they are told."""
_NO_QUEUE: Final = {"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"}
_FLAGS: Final = ("StopParameter", "PaginationEnabledParameter", "GroupingParameter", "PageSizeParameter")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """What lies on a queue, as SQS counts it: approximately."""

    name: str
    waiting: int
    in_flight: int
    """Received, and neither deleted nor given back."""
    dead_letters: bool
    gone: bool = False
    """There is no such queue (any more)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the parameters say of the next run, and of all runs that there are."""

    stopped: bool
    """The kill switch is on."""
    path: Path
    page_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The whole at one moment."""

    taken_at: datetime
    flags: Flags
    scheduled: bool | None
    """Whether the hourly schedule is on; None where that cannot be asked."""
    queues: Sequence[QueueState]
    last: RunRecord | None
    """The last run that has ended; neither a dry run, nor one that found another one at work."""
    last_start: datetime | None
    """When a run was started last, whether it has ended or not."""
    runs: Sequence[RunRecord]
    """Those that run, then the others, each newest first."""
    open: Sequence[RunRecord]
    """The last run of each hour where that failed or was stopped, and nobody has gone on with it; newest first."""
    redos: Sequence[Question]
    """The redos that wait for a second person."""

    @property
    def idle_seconds(self) -> float | None:
        """How long ago a run was started last; None where none was."""
        return None if self.last_start is None else (self.taken_at - self.last_start).total_seconds()

    @property
    def is_late(self) -> bool:
        """Whether the schedule must have started a run since; unknown is not late."""
        return bool(self.scheduled) and (self.idle_seconds is None or self.idle_seconds > LATE_SECONDS)

    @property
    def dead_letters(self) -> int:
        """Messages that nobody could deal with."""
        return sum(queue.waiting + queue.in_flight for queue in self.queues if queue.dead_letters)


def overview(application: Application, now: datetime, limit: int, window: Window | None = None) -> Overview:
    """Look at all of it; of the runs at the newest `limit`, or at those of one hour."""
    newest = _newest(application, max(limit, LOOKED_AT))
    listed = newest if window is None else of_hour(application, window, limit)
    live = [record for record in running(application) if window in (None, record.window)]
    known = {record.execution for record in live}
    ended = (record for record in listed if is_real(record) and not record.is_running)
    return Overview(
        taken_at=now,
        flags=flags(application),
        scheduled=_scheduled(application),
        queues=queues(application),
        last=next(ended, None),
        last_start=next((record.started for record in newest if is_real(record)), None),
        runs=[*live, *(record for record in listed if record.execution not in known)][:limit],
        open=still_open([*live, *listed]),
        redos=[redo for redo in waiting(application) if window in (None, redo.window)],
    )


def is_real(record: RunRecord) -> bool:
    """Whether it was to dispatch, and did not find another one at work."""
    return not record.dry_run and record.outcome != ALREADY_RUNNING


def still_open(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Of these records, those that run first and then newest first, the last run of each hour that is not done.

    It failed or was stopped, and no execution has gone on with it.  A refused input is no run of its hour.
    """
    last: dict[Window, RunRecord] = {}
    for record in records:
        if record.window is not None and is_real(record) and record.outcome != INVALID_INPUT:
            last.setdefault(record.window, record)
    return [record for record in last.values() if _is_open(record)]


def _is_open(record: RunRecord) -> bool:
    if record.is_running or record.gone_on_by is not None:
        return False
    return not record.ended_well or record.outcome == STOPPED


def _newest(application: Application, runs: int) -> list[RunRecord]:
    """The newest executions, so many that as many are real, as far as that is looked for: dry runs hide no run."""
    looked = runs
    while True:
        newest = recent(application, looked)
        if len(newest) < looked or looked >= MOST_LOOKED_AT or sum(map(is_real, newest)) >= runs:
            return newest
        looked = min(2 * looked, MOST_LOOKED_AT)


def flags(application: Application) -> Flags:
    """What the parameters say, as a run reads them: one that is missing means the old behaviour."""
    names = {flag: application.deployment.outputs[flag] for flag in _FLAGS}
    answer = application.client("ssm").get_parameters(Names=list(names.values()))
    values = {parameter["Name"]: parameter["Value"] for parameter in answer["Parameters"]}
    stop, paged, grouping, size = (values.get(names[flag], "") for flag in _FLAGS)
    pages = Path.GROUPED if groups_by_window(grouping) else Path.PAGED
    return Flags(
        stopped=is_clear_true(stop),
        path=pages if is_clear_true(paged) else Path.FULL,
        page_size=page_size_of(size),
    )


def still_stopped(application: Application, record: RunRecord) -> bool:
    """Whether the kill switch has stopped a run, and is still on."""
    return record.outcome == STOPPED and flags(application).stopped


def queues(application: Application) -> list[QueueState]:
    """What lies on the queues that the outputs name."""
    sqs = application.client("sqs")
    outputs = application.deployment.outputs
    urls = {output: outputs[output] for output in QUEUES if output in outputs}
    counted = {output: _attributes(sqs, url) for output, url in urls.items()}
    return [
        QueueState(
            name=QUEUES[output],
            waiting=sum(int(counts.get(f"ApproximateNumberOfMessages{kind}", 0)) for kind in ("", "Delayed")),
            in_flight=int(counts.get("ApproximateNumberOfMessagesNotVisible", 0)),
            dead_letters="DeadLetter" in output,
            gone=not counts,
        )
        for output, counts in counted.items()
    ]


def _attributes(sqs: Any, url: str) -> Mapping[str, str]:
    """What SQS counts on a queue; nothing where there is no such queue."""
    names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "Delayed", "NotVisible")]
    try:
        attributes: Mapping[str, str] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    except ClientError as error:
        if error.response["Error"]["Code"] not in _NO_QUEUE:
            raise
        return {}
    return attributes


def _scheduled(application: Application) -> bool | None:
    """Whether the hourly schedule is enabled; None where it may not be read or is gone."""
    try:
        schedule = application.client("scheduler").get_schedule(Name=application.deployment.outputs["ScheduleName"])
    except ClientError:
        return None
    return bool(schedule["State"] == "ENABLED")
