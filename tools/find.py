"""What became of one booking, by what the application in the workspace has left behind.

python -m tools.find RECORD    the value of the table's key; of both attributes where the key has two
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from functions.adapters.journal import DynamoJournal, run_ids
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import LedgerTable
from functions.adapters.task_data import S3TaskData
from functions.domain.booking import is_waiting
from functions.domain.cursor import DATE_ATTRIBUTE, TIME_ATTRIBUTE
from functions.domain.task import JOB_NAMES, Task
from functions.domain.values import object_text, value_text
from functions.domain.window import Window
from functions.usecases.ports import PlansOf
from tools.application import Application, NotDeployedError
from tools.command import leave
from tools.samples import Item

SHOWN: Final = ("RewardStatus", DATE_ATTRIBUTE, TIME_ATTRIBUTE)
"""What of a booking decides whether, and in which hour, it is read."""


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
    yield f"Booking {object_text(key)}"
    yield from (_fact(name, _text(booking.get(name))) for name in SHOWN)
    hours = _hours(booking)
    if not hours:
        yield f"Never read: without a {DATE_ATTRIBUTE} and {TIME_ATTRIBUTE} of a real moment, no hour finds it."
        return
    yield _fact("read by", " and ".join(f"the hour from {hour.start_text}" for hour in hours))
    searched = sorted({beside for hour in hours for beside in (hour.previous, hour, hour.next)})
    traces = [*_dispatched(application, key, searched), *_set_aside(application, key, searched)]
    for trace in traces:
        yield from trace.lines
    if all(trace.moment != _moment(booking) for trace in traces):
        yield from _untouched(application, booking, hours)


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


def _hours(booking: Item) -> tuple[Window, ...]:
    """The hours whose runs read the record; none where it does not stand in the index."""
    try:
        return Window.all_reading(booking[DATE_ATTRIBUTE]["S"], booking[TIME_ATTRIBUTE]["S"])
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
                            f"In a task of run {run_id}, page {plan.page}, as it was booked for {moment}",
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
    bucket = _bucket(application)
    for hour in hours:
        for file in application.set_aside(f"{hour.start:%Y-%m-%d/%H}/"):
            content = json.load(application.s3.get_object(Bucket=bucket, Key=file)["Body"])
            for record in content["Records"]:
                if key.items() <= record["Record"].items():
                    moment = _moment(record["Record"])
                    lines = (
                        f"Set aside by run {content['RunId']}, page {content['Page']}, as it was booked for {moment}",
                        _fact("reason", record["Reason"]),
                        _fact("file", f"s3://{bucket}/{file}"),
                    )
                    yield Trace(moment, lines)


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


def _moment(booking: Item) -> str:
    """When it is booked for, as the ledger says it."""
    return f"{booking[DATE_ATTRIBUTE]['S']}T{booking[TIME_ATTRIBUTE]['S']}"


def _bucket(application: Application) -> str:
    return application.deployment.outputs["TaskDataBucketName"]


def _ledger_table(application: Application) -> LedgerTable:
    return LedgerTable(application.dynamodb, application.deployment.outputs["LedgerTableName"], time.time)


def _fact(name: str, value: str) -> str:
    return f"  {name:<16}{value}"


def _text(value: dict[str, Any] | None) -> str:
    return "missing" if value is None else value_text(value)


if __name__ == "__main__":
    leave(main, interrupted="nothing was changed.")
