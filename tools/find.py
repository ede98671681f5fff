"""What became of one booking, by what the application in the workspace has left behind.

python -m tools.find RECORD    the value of the table's key; of both attributes where the key has two
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from functions.adapters.journal import DynamoJournal, run_ids
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import LedgerTable
from functions.adapters.staging import S3Staging
from functions.adapters.task_data import S3TaskData
from functions.domain.booking import Booking, is_waiting, read_booking
from functions.domain.cursor import TIME_ATTRIBUTE
from functions.domain.errors import ConfigurationError
from functions.domain.lane import FIRST_FOLD
from functions.domain.run import LeaseOwner
from functions.domain.staging import bucket_of, read_line
from functions.domain.task import JOB_NAMES, Task
from functions.domain.values import object_text, value_text
from functions.domain.window import Window
from functions.usecases.ports import PlansOf
from tools.application import Application, NotDeployedError
from tools.command import leave
from tools.samples import Item


@dataclass(frozen=True, slots=True)
class Trace:
    """What was done with the record as it was booked for a moment."""

    moment: str
    lines: tuple[str, ...]


class UnknownBookingError(LookupError):
    """The bookings table holds no such record."""


def main() -> int:
    """Print what became of the record that the arguments name."""
    parser = argparse.ArgumentParser(
        prog="make find", usage="make find RECORD=B00042", description="Say what became of one booking."
    )
    parser.add_argument("record", nargs="+")
    values = parser.parse_args().record
    try:
        print("\n".join(find(Application.deployed(), values)))
    except (NotDeployedError, UnknownBookingError) as error:
        print(f"make find: {error}", file=sys.stderr)
        return 1
    return 0


def find(application: Application, values: Sequence[str]) -> Iterator[str]:
    """Say of one record, named by the values of its key, how it stands and what was done with it, line by line.

    The hours beside its own are searched too: a record on an hour's edge is read by both, and one that was moved may
    have been dispatched where it stood before.

    Raises:
        UnknownBookingError: there is none.
    """
    key, booking = _booking(application, values)
    date_attribute = application.partitions.date_attribute
    yield f"Booking {object_text(key)}"
    # What decides whether, and in which hour, it is read.
    yield from (_fact(name, _text(booking.get(name))) for name in ("RewardStatus", date_attribute, TIME_ATTRIBUTE))
    hours = _hours(booking, date_attribute)
    if not hours:
        yield f"Never read: without a {date_attribute} and {TIME_ATTRIBUTE} of a real moment, no hour finds it."
        return
    yield _fact("read by", " and ".join(f"the hour from {hour.start_text}" for hour in hours))
    searched = sorted({beside for hour in hours for beside in (hour.previous, hour, hour.next)})
    traces = [*_dispatched(application, key, searched), *_set_aside(application, key, searched)]
    for trace in traces:
        yield from trace.lines
    if all(trace.moment != _moment(booking, date_attribute) for trace in traces):
        staged = next(_staged(application, key, booking, hours), None)
        yield from staged.lines if staged else _untouched(application, booking, hours)


def _booking(application: Application, values: Sequence[str]) -> tuple[Item, Item]:
    """The record's key and all of it."""
    table = application.deployment.outputs["BookingTableName"]
    described = application.dynamodb.describe_table(TableName=table)["Table"]
    kinds = {attribute["AttributeName"]: attribute["AttributeType"] for attribute in described["AttributeDefinitions"]}
    names = [element["AttributeName"] for element in described["KeySchema"]]
    if len(values) != len(names):
        raise UnknownBookingError(f"expected a value for each of {', '.join(names)}")
    key: Item = {name: {kinds[name]: value} for name, value in zip(names, values, strict=True)}
    booking: Any = application.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
    if booking is None:
        raise UnknownBookingError(f"no booking {object_text(key)} stands in {table}")
    return {name: booking[name] for name in names}, booking


def _hours(booking: Item, date_attribute: str) -> tuple[Window, ...]:
    """The hours whose runs read the record; none where it does not stand in the index."""
    try:
        return Window.all_reading(_date(booking, date_attribute), booking[TIME_ATTRIBUTE]["S"])
    except (KeyError, ValueError):
        return ()


def _dispatched(application: Application, key: Item, hours: Iterable[Window]) -> Iterator[Trace]:
    """The tasks that hold the record, from the plans of the hours' runs."""
    bucket, table, name = _bucket(application), _ledger_table(application), object_text(key)
    ledger = DynamoLedger(table, S3TaskData(application.s3, bucket))
    for hour in hours:
        for run_id in run_ids(table, hour):
            for plan in ledger.plans(PlansOf(hour, (run_id,))):
                for task in plan.tasks:
                    for moment in (version.moment for version in task.versions if version.key == name):
                        was_sent = plan.finished or task.task_id in plan.sent
                        lines = (
                            f"In a task of run {run_id}, {_place(plan.lane, plan.page)}, as it was booked for {moment}",
                            _fact("task", task.task_id),
                            _fact("route", f"{task.route.value} ({JOB_NAMES[task.route]})"),
                            _fact("orders", str(len(task.versions))),
                            _fact("object", f"s3://{bucket}/{task.object_key}"),
                            _fact("message", _message(application, task, was_sent=was_sent)),
                        )
                        yield Trace(moment, lines)


def _message(application: Application, task: Task, *, was_sent: bool) -> str:
    """Where the task's message is."""
    if task.task_id in application.tasks(task.window.start_text):
        return "on its queue"
    if was_sent:
        return "sent, and no longer on its queue: a consumer has it"
    return "not known to be sent: the run that goes on with this page sends it"


def _set_aside(application: Application, key: Item, hours: Iterable[Window]) -> Iterator[Trace]:
    """The files in which the record was set aside as bad data."""
    bucket, date_attribute = _bucket(application), application.partitions.date_attribute
    for hour in hours:
        for file in application.set_aside(f"{hour.start:%Y-%m-%d/%H}/"):
            content = json.load(application.s3.get_object(Bucket=bucket, Key=file)["Body"])
            for record in content["Records"]:
                if key.items() <= record["Record"].items():
                    moment = _moment(record["Record"], date_attribute)
                    place = _place(content["Lane"], content["Page"])
                    lines = (
                        f"Set aside by run {content['RunId']}, {place}, as it was booked for {moment}",
                        _fact("reason", record["Reason"]),
                        _fact("file", f"s3://{bucket}/{file}"),
                    )
                    yield Trace(moment, lines)


def _staged(application: Application, key: Item, booking: Item, hours: Iterable[Window]) -> Iterator[Trace]:
    """The staged objects that hold the record as it stands, and were not merged yet or are no more to be."""
    read = read_booking(booking, tuple(key), application.partitions.date_attribute) if is_waiting(booking) else None
    if not isinstance(read, Booking):
        return
    table, staging = _ledger_table(application), S3Staging(application.s3, _bucket(application))
    journal, bucket = DynamoJournal(table), bucket_of(read.group)
    for hour in hours:
        for run_id in run_ids(table, hour):
            for plan in journal.outlines(LeaseOwner(run_id, run_id, hour)):
                if plan.staged is None or plan.lane >= FIRST_FOLD:
                    continue
                with suppress(ConfigurationError):  # the run came to its end meanwhile: what it staged is gone
                    lines = staging.read([plan.staged], range(bucket, bucket + 1))
                    if any(read_line(line).version == read.version for line in lines):
                        place = _place(plan.lane, plan.page)
                        told = (
                            f"Staged by run {run_id}, {place}, and in no task yet: it is when its group is merged",
                            _fact("object", f"s3://{staging.bucket}/{plan.staged.key}"),
                        )
                        yield Trace(read.version.moment, told)


def _untouched(application: Application, booking: Item, hours: Iterable[Window]) -> Iterator[str]:
    """Why nothing was done with the record as it stands."""
    if not is_waiting(booking):
        yield 'Not dispatched: only the status "WaitToReward" waits for a reward.'
        return
    journal = DynamoJournal(_ledger_table(application))
    for hour in hours:
        run = journal.last_run(hour)
        if run is None:
            yield f"Never read: no run has worked on the hour from {hour.start_text}."
        else:
            ended = f"ended {run.outcome}" if run.outcome else "has not ended"
            yield f"Not read by run {run.run_id}, the last of the hour from {hour.start_text}, which {ended}."
        yield f'To have it dispatched, start the machine with {{"ExecuteTime": "{hour.end_text}"}}.'


def _place(lane: int, page: int) -> str:
    """Which page of a run: the first lane is the only one where a run is not laid out in lanes."""
    return f"lane {lane}, page {page}" if lane else f"page {page}"


def _date(booking: Item, date_attribute: str) -> str:
    """The date it is booked for; in a sharded index its shard stands behind it."""
    date: str = booking[date_attribute]["S"]
    return date.partition("#")[0]


def _moment(booking: Item, date_attribute: str) -> str:
    """When it is booked for, as the ledger says it."""
    return f"{_date(booking, date_attribute)}T{booking[TIME_ATTRIBUTE]['S']}"


def _bucket(application: Application) -> str:
    return application.deployment.outputs["TaskDataBucketName"]


def _ledger_table(application: Application) -> LedgerTable:
    return LedgerTable(application.dynamodb, application.deployment.outputs["LedgerTableName"], time.time)


def _fact(name: str, value: str) -> str:
    return f"  {name:<15} {value}"


def _text(value: dict[str, Any] | None) -> str:
    return "missing" if value is None else value_text(value)


if __name__ == "__main__":
    leave(main, interrupted="nothing was changed.")
