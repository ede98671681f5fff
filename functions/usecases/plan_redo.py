"""What a redo will dispatch: read once from its input and the report, and checked before anything is changed."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, StringConstraints

from functions.domain.errors import InvalidInput
from functions.domain.execution import run_id_of
from functions.domain.redo import CHUNK, MAX_REASON, MAX_REQUESTER, ONE_LINE, Missing, Redo, redo_run_id
from functions.domain.report import CHECKSUM, checksum_of
from functions.domain.run import Path, Run, field_of
from functions.domain.window import Window
from functions.usecases.ports import Reports
from functions.usecases.report_contract import MissingList, ReconcileReport
from functions.usecases.window_input import check_closed, validated

_KEY: Final = re.compile(r"reports/[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9]{2}/[A-Za-z0-9_-]{1,97}\.json")
_STRICT: Final = ConfigDict(extra="forbid", strict=True, frozen=True)


class ReportPlace(BaseModel):
    """Where a reconcile's output says that its report lies."""

    model_config = _STRICT

    Bucket: str
    Key: str


class RedoInput(BaseModel):
    """The redo machine's input; unknown fields and nulls are refused."""

    model_config = _STRICT

    Report: ReportPlace
    RequestedBy: Annotated[str, StringConstraints(pattern=ONE_LINE, max_length=MAX_REQUESTER)]
    Reason: Annotated[str, StringConstraints(pattern=ONE_LINE, max_length=MAX_REASON)]


def plan_redo(execution: Mapping[str, Any], stack: str, shards: int, reports: Reports) -> tuple[Run, Redo]:
    """Read the input, the report and its list, and fix what holds for the whole redo.

    `execution` is the state machine's `$$.Execution`: `Input`, `Name`, `StartTime` and `RedriveCount` are used.

    Raises:
        InvalidInput: the input or the report breaks the contract, or the report is another stack's, altered, of an hour
            that has not ended, or without anything missing; the message names the field.
    """
    given = validated(RedoInput, execution.get("Input"))
    started_at = field_of(execution, "StartTime", str)
    report = _report(given.Report, reports)
    if report.Stack != stack:
        raise InvalidInput("Report.Stack: the report is of another stack")
    window = Window.starting(report.WindowStart)
    check_closed(window, started_at, "Report.WindowEnd")
    if report.Missing is None:
        raise InvalidInput("Report.Missing: nothing is missing")
    list_key = f"{given.Report.Key.removesuffix('.json')}-missing.jsonl"
    _check_list(report.Missing, list_key, window, reports)
    redo = Redo(given.Report.Key, list_key, report.Missing.Count, given.RequestedBy.strip(), given.Reason.strip())
    run = Run(
        run_id=redo_run_id(given.Report.Key),
        execution_id=run_id_of(field_of(execution, "Name", str), started_at),
        started_at=started_at,
        window=window,
        path=Path.REDO,
        page_size=max(1, CHUNK // max(1, shards)),
        dry_run=False,
        set_aside_limit=redo.missing,
        lease_seconds=Path.REDO.lease_seconds,
        redrives=int(execution.get("RedriveCount") or 0),
        shards=shards,
    )
    return run, redo


def _report(place: ReportPlace, reports: Reports) -> ReconcileReport:
    if place.Bucket != reports.bucket:
        raise InvalidInput("Report.Bucket: the bucket is another stack's")
    if _KEY.fullmatch(place.Key) is None:
        raise InvalidInput("Report.Key: expected reports/<date>/<hour>/<execution>.json")
    try:
        report = json.loads(b"".join(reports.lines(place.Key)))
        told, counted = report[CHECKSUM], checksum_of(report)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidInput("Report: it is no report of a reconcile") from None
    if told != counted:
        raise InvalidInput(f"Report.{CHECKSUM}: the report was altered")
    return validated(ReconcileReport, report, "Report")


def _check_list(listed: MissingList, list_key: str, window: Window, reports: Reports) -> None:
    if listed.Key != list_key:
        raise InvalidInput("Report.Missing.Key: the list is another report's")
    digest, count, foreign = hashlib.sha256(), 0, 0
    for line in reports.lines(list_key):
        digest.update(line)
        count += 1
        foreign += not _is_of(window, line)
    if digest.hexdigest() != listed.Sha256:
        raise InvalidInput("Report.Missing.Sha256: the list was altered")
    if count != listed.Count:
        raise InvalidInput(f"Report.Missing.Count: the list has {count} lines")
    if foreign:
        raise InvalidInput(f"Report.Missing: {foreign} lines are no record versions of the window")


def _is_of(window: Window, line: bytes) -> bool:
    try:
        return Missing.of_line(line).is_of(window)
    except (ValueError, RecursionError):
        return False
