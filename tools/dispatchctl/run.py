"""Runs that are started by hand: of one hour or of several, and of an hour that is gone on with."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from functions.adapters.journal import DynamoJournal
from functions.domain.errors import InvalidInput
from functions.domain.run import Counts, Path
from functions.domain.window import HOUR, Window
from functions.usecases.plan_run import RunInput
from functions.usecases.window_input import validated
from tools.application import Application
from tools.command_line import command_line
from tools.dispatchctl.outcome import failure_view, hours_text, next_commands, record_json, run_view
from tools.dispatchctl.shell import AsJson, CommandError, ExitCode, app, application_of, show
from tools.dispatchctl.units import count_text, seconds_text
from tools.runs.overview import is_real
from tools.runs.records import (
    DISPATCHED,
    STOPPED,
    RunRecord,
    counts_before,
    find_run,
    follow,
    hour_of,
    hour_text,
    last_closed_hour,
    ledger_table,
    of_hour,
)
from tools.runs.records import LOOKED_AT as EXECUTIONS_LOOKED_AT

LINE: Final = "{:<13} {:<18} {:>6} {:>10} {:>10} {:>10} {:>6} {:>9} {:>10}"
"""A run of a range: 100 columns."""
MOST_HOURS: Final = 200
"""More than a week of hours is taken only where that is said to be meant."""
NOT_ENDED: Final = "Note: this hour has not ended: what is booked for it later is dispatched by a later run."


class Way(StrEnum):
    """The paths that can be asked for."""

    FULL = "full"
    PAGED = "paged"
    GROUPED = "grouped"

    @property
    def fields(self) -> dict[str, Any]:
        """What of an input asks for it."""
        if self is Way.FULL:
            return {"PaginationEnabled": False}
        return {"PaginationEnabled": True, "Grouping": "window" if self is Way.GROUPED else "page"}


Hour = Annotated[str | None, typer.Option("--hour", metavar="HOUR", help="Such as 2026-09-17T15, in UTC.")]
First = Annotated[
    str | None, typer.Option("--from", metavar="HOUR", help="The first of several hours, one after the other.")
]
Last = Annotated[
    str | None, typer.Option("--to", metavar="HOUR", help="The last of them; the hour before now, if not given.")
]

Yes = Annotated[bool, typer.Option("--yes", help=f"Also of more than {MOST_HOURS} hours.")]


@app.command()
def run(  # noqa: PLR0913 -- a command's options are its arguments
    context: typer.Context,
    *,
    hour: Hour = None,
    first: First = None,
    last: Last = None,
    path: Annotated[Way | None, typer.Option(help="How the hour is read; the parameters say, if not given.")] = None,
    page_size: Annotated[int | None, typer.Option(min=1, max=10_000, help="Bookings on a page at most.")] = None,
    slices: Annotated[int | None, typer.Option(min=1, max=120, help="Parts of the hour, read side by side.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read and count; change nothing.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Dispatch an hour, or several; the hour before now if none is named. Follows each to its end."""
    application = application_of(context)
    now = datetime.now(UTC)
    windows = chosen_hours(hour, first, last, now, yes=yes)
    if any(window.end > now for window in windows):
        print(NOT_ENDED, file=sys.stderr)
    given = {
        **(path.fields if path else {}),
        **({"PageSize": page_size} if page_size else {}),
        **({"Slices": slices} if slices else {}),
        **({"DryRun": True} if dry_run else {}),
    }
    several, records = len(windows) > 1, []
    if several and not as_json:
        print(f"{len(windows)} hours, one after the other, oldest first")
        print(LINE.format("Hour", "Outcome", "Pages", "Read", "Dispatched", "Before", "Aside", "Tasks", "Took"))
    for window in windows:
        record = _followed(application, window, given)
        records.append(record)
        if several and not as_json:
            print(line(record), flush=True)
        if not record.ended_well or record.outcome == STOPPED:
            break
    _tell(application, records, several=several, as_json=as_json)
    _leave_with(application, records, left=windows[len(records) :])


@app.command()
def resume(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="HOUR|RUN", help="An hour, a run's id, an execution, or `last`.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Go on with the last run of an hour where it ended. What is finished is not read again, nothing is sent twice."""
    application = application_of(context)
    window = _hour_named(application, name)
    before = DynamoJournal(ledger_table(application)).last_run(window)
    if before is None:
        check_ran(application, window)
    record = _followed(application, window, {"Resume": True})
    if not as_json:
        print(went_on(record, before.run_id if before else None, before.outcome if before else None))
    _tell(application, [record], several=False, as_json=as_json)
    _leave_with(application, [record], left=[])


def chosen_hours(  # noqa: PLR0913 -- what a command line says of hours
    hour: str | None, first: str | None, last: str | None, now: datetime, *, yes: bool = False, named: str = "--hour"
) -> list[Window]:
    """The hours that the options name, oldest first; the hour before now where they name none.

    `named` is what the one hour is called on the command line; `yes` says that many hours are meant.

    Raises:
        CommandError: they contradict each other, or are more than anybody means without saying so.
        InvalidInput: one of them is no hour.
    """
    if hour and (first or last):
        raise CommandError(f"{named}: given together with --from or --to; name one hour, or a range", ExitCode.USAGE)
    if last and not first:
        raise CommandError("--to: given without --from", ExitCode.USAGE)
    if not first:
        return [hour_of(hour, named) if hour else last_closed_hour(now)]
    window, end = hour_of(first, "--from"), hour_of(last, "--to") if last else last_closed_hour(now)
    if window > end:
        raise CommandError(f"--from: {hour_text(window)} lies behind {hour_text(end)}", ExitCode.USAGE)
    hours = (end.start - window.start) // HOUR + 1
    if hours > MOST_HOURS and not yes:
        raise CommandError(f"--from: {hours:,} hours are more than {MOST_HOURS}; --yes takes them all", ExitCode.USAGE)
    return [Window(window.start + HOUR * place) for place in range(hours)]


def check_ran(application: Application, window: Window) -> None:
    """Refuse to go on with an hour that the journal knows no run of, unless one failed before it was noted there.

    Raises:
        CommandError: none did.
    """
    if not any(is_real(record) for record in of_hour(application, window, EXECUTIONS_LOOKED_AT)):
        begin = command_line(f"run --hour {hour_text(window)}")
        raise CommandError(f"no run of {hours_text(window)} is known; `{begin}` starts one", ExitCode.NOT_FOUND)


def went_on(record: RunRecord, before: str | None, ended: str | None) -> str:
    """Whether a run that was to go on with an hour's last one did: `before` is that one's id, `ended` its outcome."""
    if record.run_id is None:
        return "Nothing was gone on with."
    if record.run_id == before:
        return f"Went on with run {before}: the counts are those of all its executions."
    if before is None:
        return f"Began a new run, {record.run_id}: none of this hour was known."
    why = "had come to its end" if ended == DISPATCHED else "could not be gone on with"
    return f"Began a new run, {record.run_id}: the last one, {before}, {why}. What was dispatched is skipped."


def line(record: RunRecord) -> str:
    """A run among several."""
    counts = record.totals or Counts()
    return LINE.format(
        record.hour or "",
        record.outcome or "",
        count_text(counts.pages),
        count_text(counts.evaluated),
        count_text(counts.dispatched),
        count_text(counts.already_dispatched),
        count_text(counts.set_aside),
        count_text(counts.tasks),
        seconds_text(record.seconds(record.ended or record.started)),
    )


def watch(application: Application, execution: str, window: Window | None) -> RunRecord:
    """Follow an execution to its end, with a progress bar; Ctrl-C leaves it to itself.

    Raises:
        CommandError: Ctrl-C was pressed.
    """
    try:
        with _meter(application, window) as move:
            return follow(application, execution, move)
    except KeyboardInterrupt:
        name = execution.rpartition(":")[2]
        raise CommandError(
            f"interrupted; execution {name} goes on.\n"
            f"  watch it   {command_line(f'show {name} --follow')}\n"
            f"  end it     {command_line(f'stop --execution {name}')}\n"
            f"  stop all   {command_line('stop')}",
            ExitCode.INTERRUPTED,
        ) from None


def _followed(application: Application, window: Window, given: dict[str, Any]) -> RunRecord:
    """Start a run of an hour, and follow it to its end.

    Raises:
        InvalidInput: the machine would refuse the input; nothing is started.
    """
    run_input = {"ExecuteTime": window.end_text, **given}
    validated(RunInput, run_input)
    return watch(application, application.start(run_input), window)


@contextmanager
def _meter(application: Application, window: Window | None) -> "Iterator[Any]":
    """A progress bar for the length of a block, and what moves it; its end is known where the hour ran before."""
    known = counts_before(application, window) if window else None
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[done]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        title = hour_text(window) if window else "Running"
        bar = progress.add_task(title, total=None, done="starting")
        yield _Move(progress, bar, known)


class _Move:
    """Moves a progress bar with what a run has counted."""

    def __init__(self, progress: Progress, bar: TaskID, known: Counts | None) -> None:
        self._progress, self._bar, self._known = progress, bar, known
        self._first: tuple[datetime, int] | None = None

    def __call__(self, record: RunRecord, done: Counts) -> None:
        now = datetime.now(UTC)
        began, read_before = self._first = self._first or (now, done.evaluated)
        seconds = (now - began).total_seconds()
        rate = f"  {(done.evaluated - read_before) / seconds:,.0f}/s" if seconds >= 1 else ""
        time = seconds_text(record.seconds(now))
        self._progress.update(
            self._bar,
            total=work(record.path, self._known) if self._known else None,
            completed=work(record.path, done),
            done=f"{done.pages:,} pages  {done.evaluated:,} bookings{rate}  {time}",
        )


def work(path: str | None, counts: Counts) -> int:
    """How much of a run's work is done: each booking is read; on the grouped path it is merged as well."""
    return counts.evaluated + (counts.waiting if path == Path.GROUPED else 0)


def _hour_named(application: Application, name: str) -> Window:
    """The hour that is named, or that a run is of.

    Raises:
        UnknownRunError: no run is named so.
        CommandError: it is none of an hour.
    """
    with suppress(InvalidInput):
        return hour_of(name)
    window = find_run(application, name).window
    if window is None:
        raise CommandError(f"run {name} was of no hour: its input was refused", ExitCode.NOT_FOUND)
    return window


def _tell(application: Application, records: list[RunRecord], *, several: bool, as_json: bool) -> None:
    """Print what came of the runs, but for lines that were printed as they ended."""
    now = datetime.now(UTC)
    if as_json:
        show({"Runs": [record_json(record, now) for record in records]}, lambda: "", as_json=True)
    elif not several and records[0].ended_well:
        show({}, lambda: run_view(application, records[0], now), as_json=False)


def _leave_with(application: Application, records: list[RunRecord], left: list[Window]) -> None:
    """End the command by what came of its runs.

    Raises:
        CommandError: one failed, was stopped, or found another one at work.
    """
    last = records[-1]
    if not last.ended_well:
        span = f"run --from {hour_text(left[0])} --to {hour_text(left[-1])}" if left else ""
        rest = f"\n  then   {command_line(span)}" if left else ""
        refused = last.outcome == "InvalidInput"
        raise CommandError(failure_view(application, last) + rest, ExitCode.USAGE if refused else ExitCode.FAILED)
    undone = [record for record in records if record.outcome not in {DISPATCHED, "DryRun"}]
    if undone:
        hours = ", ".join(f"{record.hour} ({record.outcome})" for record in undone)
        steps = "".join(f"\n  next   {step.command}    # {step.why}" for step in next_commands(undone[-1]))
        raise CommandError(f"not dispatched by this command: {hours}{steps}", ExitCode.FINDINGS)
