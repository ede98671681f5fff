"""`make run`: dispatch the worked example and a generated hour on the embedded AWS, and check that every count adds up.

It can be run again: what was dispatched before is counted as such, and makes no task.
"""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from functions.domain.window import Window
from tools.application import Application, Progress, QueuedTask, RunFailedError, Summary
from tools.command import leave
from tools.command_line import command_line
from tools.deployment import DeploymentError
from tools.emulator.instance import EmulatorError
from tools.filelock import LockedError
from tools.local import up
from tools.runs.records import hour_text
from tools.samples import Sample, generated_hour, small_hour, worked_example
from tools.seed import put, put_new
from tools.worker import NotDrainedError, Worker
from tools.workspace import Workspace

LABELS: Final = {
    "Outcome": "Outcome",
    "WindowStart": "Window from",
    "WindowEnd": "Window to",
    "Path": "Path",
    "PageSize": "Page size",
    "Pages": "Pages",
    "Evaluated": "Bookings evaluated",
    "Waiting": "Bookings waiting",
    "Dispatched": "  dispatched now",
    "AlreadyDispatched": "  dispatched before",
    "SetAside": "  set aside as bad data",
    "Groups": "Groups, summed over pages",
    "Tasks": "Tasks sent",
    "DurationSeconds": "Seconds",
}
"""The summary's fields as they are printed."""

BUSY_MARGIN_SECONDS: Final = 30.0
"""How long another run's lease may have been over before its hour is given up."""
BUSY_POLL_SECONDS: Final = 5.0


class WrongCountError(RuntimeError):
    """What was counted, what was seeded and what stands on the queues do not agree."""


def main() -> int:
    """Run the demonstration; the exit code says whether everything came out as it must."""
    try:
        demonstrate(Application(up(Workspace.chosen())))
    except (DeploymentError, EmulatorError, LockedError, NotDrainedError, RunFailedError, WrongCountError) as error:
        print(f"\nmake run: {error}", file=sys.stderr)
        return 1
    return 0


def demonstrate(application: Application) -> None:
    """Seed and dispatch both samples, then print what came of it and where it lies.

    Raises:
        RunFailedError: an execution failed.
        WrongCountError: counts do not add up.
    """
    for line in circle(application):
        print(line, flush=True)
    samples = (worked_example(), generated_hour())
    summaries = [dispatch(application, sample) for sample in samples]
    print(f"\n{table([sample.title for sample in samples], summaries)}")
    if not any(summary["Tasks"] for summary in summaries):
        print("\nAll of it was dispatched by an earlier run: the ledger knows, and no task was made again.")
    print(f"\n{example(application, samples[0].window_start)}")
    print(f"\n{places(application)}")
    print("\nNext (`source .venv/bin/activate` first)")
    for command, what in next_commands(samples[1]).items():
        print(f"  {command:<34}{what}")


def circle(application: Application) -> Iterator[str]:
    """A small hour all the way: booked, dispatched, granted by the worker, reconciled; what came of each step.

    The worker takes whatever stands on the queues, so it is switched on only for what this hour put there.

    Raises:
        RunFailedError: an execution failed.
        NotDrainedError: the worker did not come to the end of its tasks.
        WrongCountError: a booking was not granted once, or the reconcile found a difference.
    """
    sample, worker = small_hour(), Worker(application)
    yield f"\n{sample.title}: {len(sample.bookings)} bookings, each booked, dispatched, granted and reconciled"
    alone = worker.is_idle()
    put_new(
        application.dynamodb,
        application.deployment.outputs["BookingTableName"],
        sample.bookings,
        application.partitions,
    )
    summary = application.follow(application.start(sample.input), lambda *_: None)
    now, before = summary["Dispatched"], summary["AlreadyDispatched"]
    yield f"  dispatched: {now} now, {before} before, in {summary['Tasks']} tasks"
    if alone:
        with worker.working():
            worker.drain()
        granted = _granted(worker, sample)
        yield f"  granted:    {granted} of {len(sample.bookings)} by the worker, each once"
        if granted != len(sample.bookings):
            raise WrongCountError(
                f"{sample.title}: {granted} bookings were granted, {len(sample.bookings)} were booked"
            )
    else:
        yield "  granted:    the worker stays off, for tasks of other hours stand on the queues to be looked at"
    found = application.reconcile(sample.input)
    counts = ", ".join(f"{name} {count}" for name, count in found["Counts"].items() if count) or "no difference"
    yield f"  reconciled: {found['Outcome']}, {found['DispatchedRecords']} of {found['Bookings']} dispatched, {counts}"
    if (found["Outcome"], found["DispatchedRecords"]) != ("Clean", len(sample.bookings)):
        raise WrongCountError(f"{sample.title}: the reconcile says {found}")


def _granted(worker: Worker, sample: Sample) -> int:
    """How many of the sample's bookings were granted; a booking that was granted twice counts twice."""
    booked = {booking["RecordId"]["S"] for booking in sample.bookings}
    return sum(json.loads(row["RecordKey"]["S"])["RecordId"] in booked for row in worker.grants())


def dispatch(application: Application, sample: Sample) -> Summary:
    """Seed one sample, dispatch its window and check the counts; the run's summary.

    Where another run works on the window, as one that was left behind by Ctrl-C, its end is waited for.

    Raises:
        RunFailedError: the execution failed, or another one does not give the window back.
        WrongCountError: the counts do not add up.
    """
    started = time.monotonic()

    def report(progress: Progress, records: int) -> None:
        print(page_line(progress, records, time.monotonic() - started), flush=True)

    print(f"\n{sample.title}: {len(sample.bookings):,} bookings, dispatched by {json.dumps(sample.input)}", flush=True)
    table_name = application.deployment.outputs["BookingTableName"]
    put(application.dynamodb, table_name, sample.bookings, application.partitions)
    give_up = None
    while True:
        before = application.tasks(sample.window_start)
        summary = application.follow(application.start(sample.input), report)
        if summary["Outcome"] != "AlreadyRunning":
            check_counts(sample, summary, before, application.tasks(sample.window_start))
            return summary
        run, held_until = summary["RunId"], summary["HeldUntil"]
        if give_up is None:
            give_up = datetime.fromisoformat(held_until).timestamp() + BUSY_MARGIN_SECONDS
            print(f"  run {run} works on this hour, until {held_until} at the latest: waiting for its end", flush=True)
        elif time.time() > give_up:
            raise RunFailedError(f"run {run} still holds this hour, until {held_until}; try again when it has ended")
        others = application.running()
        for other in others:
            with suppress(RunFailedError):  # however it ends: then the hour is free, or its lease runs out
                application.follow(other, report)
        if not others:
            time.sleep(BUSY_POLL_SECONDS)


def page_line(progress: Progress, records: int, seconds: float) -> str:
    """How far a run is behind a page on which `records` bookings were read."""
    totals = progress["Totals"]
    pages = f"{totals['Pages']:>3} {'page, ' if totals['Pages'] == 1 else 'pages,'}"
    line = (
        f"  {pages} {totals['Evaluated']:>6,} bookings read, {totals['Waiting']:>6,} waiting ="
        f" {totals['Dispatched']:>6,} dispatched in {totals['Tasks']:>5,} tasks"
        f" + {totals['AlreadyDispatched']:>6,} dispatched before + {totals['SetAside']:>2,} set aside  {seconds:5.1f} s"
    )
    if not records and not progress["HasMore"]:
        line += "  (the last page is empty: only that says that there is no more)"
    return line


def check_counts(
    sample: Sample, summary: Summary, before: Mapping[str, QueuedTask], after: Mapping[str, QueuedTask]
) -> None:
    """Hold the summary against what was seeded and against the tasks on the queues before and after the run.

    Raises:
        WrongCountError: it names every count that is wrong.
    """
    new = [task for task_id, task in after.items() if task_id not in before]
    done = summary["Dispatched"] + summary["AlreadyDispatched"] + summary["SetAside"]
    checks = [
        ("Evaluated", summary["Evaluated"], sample.evaluated),
        ("Waiting", summary["Waiting"], sample.waiting),
        ("SetAside", summary["SetAside"], sample.set_aside),
        ("Dispatched + AlreadyDispatched + SetAside", done, summary["Waiting"]),
    ]
    if not summary["Dispatched"]:
        checks.append(("Tasks", summary["Tasks"], 0))
    if not before:  # else a run that was cut off may have sent some of the tasks, whose repeats the queue drops
        checks.append(("Tasks", summary["Tasks"], len(new)))
        checks.append(("Dispatched", summary["Dispatched"], sum(task.data["OrderCount"] for task in new)))
        if sample.tasks is not None and not summary["AlreadyDispatched"]:
            checks.append(("Tasks", summary["Tasks"], sample.tasks))
    wrong = [f"{name} is {value:,} and must be {due:,}" for name, value, due in checks if value != due]
    if wrong:
        raise WrongCountError(f"{sample.title}: {', '.join(wrong)}")


def table(titles: Sequence[str], summaries: Sequence[Summary]) -> str:
    """The summaries side by side, one labelled line for each field."""
    rows = [("", *titles)]
    paths = {summary["Path"] for summary in summaries}
    queries = {"Pages": "Queries"} if paths == {"full"} else {}
    of_windows = {} if "paged" in paths else {"Groups": "Groups"}
    for field, label in (LABELS | queries | of_windows).items():
        values = [summary[field] for summary in summaries]
        rows.append((label, *(f"{value:,}" if isinstance(value, int) else str(value) for value in values)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            (row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)))
        )
        for row in rows
    )


def example(application: Application, window_start: str) -> str:
    """One task of the window and its object, the object's orders cut short."""
    task = next(iter(application.tasks(window_start).values()), None)
    if task is None:
        return f"No task of the window from {window_start} stands on the queues: somebody has received them."
    orders = application.task_object(task)["Orders"]
    shown = [{name: order[name] for name in ("RecordId", "OrderTime", "BookingTimeUTC")} for order in orders[:3]]
    more = len(orders) - len(shown)
    return "\n".join(
        (
            f"A task on its queue: {task.job_name} {task.task_id}",
            *(f"  {name:<20}{value}" for name, value in task.data.items()),
            "and the orders in its object (shortened)",
            *(f"  {json.dumps(order)}" for order in shown),
            *([f"  and {more} more"] if more else []),
        )
    )


def places(application: Application) -> str:
    """Where everything lies."""
    deployment = application.deployment
    outputs = deployment.outputs
    bucket = outputs["TaskDataBucketName"]
    lines = {
        "Endpoint": deployment.endpoint,
        "State machine": outputs["DispatchStateMachineArn"],
        "Bookings": outputs["BookingTableName"],
        "Ledger": outputs["LedgerTableName"],
        "Task objects": f"s3://{bucket}/tasks/",
        "Bad records": f"s3://{bucket}/set-aside/",
        "Points queue": outputs["PointTaskQueueUrl"],
        "Coupon queue": outputs["CouponTaskQueueUrl"],
        "Parameters": f"\n  {'':<15}".join(value for name, value in outputs.items() if name.endswith("Parameter")),
        "All of it": str(Workspace.chosen().outputs),
    }
    return "\n".join(("Where it lies", *(f"  {name:<15}{place}" for name, place in lines.items())))


def next_commands(sample: Sample) -> dict[str, str]:
    """What one can do next, and what that shows: `sample` is the larger hour."""
    hour = hour_text(Window.starting(sample.window_start))
    return {
        command_line("status"): "what ran, and what lies on the queues",
        command_line(f"show {hour}"): "a run, page by page",
        command_line(f"report {hour}"): "the same as a page for a browser",
        command_line("why B00042"): "what became of one booking",
        "make run": "again: nothing is dispatched twice",
        "make stop": "end the embedded AWS; what it holds is gone",
    }


if __name__ == "__main__":
    leave(main, interrupted="what was started goes on. `make stop` ends everything.")
