"""An hour's bookings against what was dispatched of them; of several hours, one after the other."""

import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from functions.domain.reconcile import Difference
from functions.domain.report import CLEAN
from functions.domain.window import Window, utc_text
from functions.usecases.window_input import check_closed
from tools.application import Application
from tools.dispatchctl.machines import plain_table, started, waited
from tools.dispatchctl.outcome import Next, facts_grid, hours_text, where
from tools.dispatchctl.run import First, Last, Yes, chosen_hours
from tools.dispatchctl.shell import AsJson, ExitCode, app, application_of, show
from tools.dispatchctl.units import count_text, seconds_text, some
from tools.runs.machines import Machine
from tools.runs.records import hour_text
from tools.runs.reports import Place, read_report

MEANINGS: Final = {
    Difference.MISSING_IN_LEDGER: "wait, can be dispatched, and were not",
    Difference.MISSING_IN_BOOKINGS: "were dispatched, and were moved or deleted since",
    Difference.VALUE_MISMATCH: "have another group or reward type since, or still wait long after",
    Difference.DUPLICATE: "were sent in two tasks",
    Difference.ORPHAN_OBJECT: "objects that no plan of the hour names",
    Difference.UNREACHABLE: "wait where no hour's run will ever read them",
    Difference.MISSING_HOUR: "no run of the hour is known",
    Difference.IN_DOUBT: "are only in tasks that may not have been sent",
}
"""What the classes count, in a few words."""
SHOWN: Final = 5
"""So many samples of each class are shown; the report holds more."""
LINE: Final = "{:<13} {:<11} {:>11} {:>11} {:>9}  {}"
CLASSES_WIDTH: Final = 38
"""What is left of 100 columns for the classes of an hour among several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What a reconcile of one hour found."""

    window: Window
    execution: str
    seconds: float
    outcome: str
    bookings: int
    dispatched: int
    counts: Mapping[str, int]
    report: Place
    samples: Mapping[str, Sequence[Mapping[str, Any]]]

    @property
    def found(self) -> dict[str, int]:
        """The classes that are not empty."""
        return {name: count for name, count in self.counts.items() if count}


@app.command()
def reconcile(  # noqa: PLR0913 -- a command's options are its arguments
    context: typer.Context,
    hour: Annotated[
        str | None, typer.Argument(metavar="[HOUR]", help="Such as 2026-09-17T15, in UTC; the hour before now.")
    ] = None,
    *,
    first: First = None,
    last: Last = None,
    audit_table: Annotated[
        bool,
        typer.Option("--audit-table", help="Look for bookings that no index shows as well: reads the whole table."),
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Compare an hour's bookings with what was dispatched of them. Nothing is changed.

    Exit code 4: there are differences.
    """
    application = application_of(context)
    now = datetime.now(UTC)
    windows = chosen_hours(hour, first, last, now, yes=yes, named="HOUR")
    check_closed(windows[-1], utc_text(now), "--to" if last else "HOUR")
    given = {"AuditTable": True} if audit_table else {}
    several, done = len(windows) > 1, []
    if several and not as_json:
        print(f"{len(windows)} hours, one after the other, oldest first")
        print(LINE.format("Hour", "Outcome", "Bookings", "Dispatched", "Differ", "Classes"))
    for window in windows:
        done.append(_reconciled(application, window, given))
        if several and not as_json:
            print(line(done[-1]), flush=True)
    if as_json:
        show({"Reconciles": [to_json(each) for each in done], "Counts": dict(together(done))}, lambda: "", as_json=True)
    elif several:
        print(sum_text(done))
    else:
        show({}, lambda: view(application, done[0]), as_json=False)
    if any(each.outcome != CLEAN for each in done):
        raise typer.Exit(ExitCode.FINDINGS)


def _reconciled(application: Application, window: Window, given: dict[str, Any]) -> Reconciled:
    """Reconcile an hour.

    Raises:
        CommandError: it failed.
        InvalidInput: the hour has not ended.
    """
    execution = started(application, Machine.RECONCILE, window, given)
    ended = waited(application, execution, f"The reconcile of {hour_text(window)}")
    place = Place.of(ended.detail["Report"])
    return Reconciled(
        window=window,
        execution=execution,
        seconds=ended.seconds,
        outcome=ended.detail["Outcome"],
        bookings=ended.detail["Bookings"],
        dispatched=ended.detail["DispatchedRecords"],
        counts=ended.detail["Counts"],
        report=place,
        samples=read_report(application, place)["Samples"] if ended.detail["Outcome"] != CLEAN else {},
    )


def next_commands(done: Reconciled) -> Iterator[Next]:
    """What mends the differences of an hour."""
    hour, found = hour_text(done.window), done.found
    if Difference.MISSING_HOUR in found:
        yield Next.of(f"run --hour {hour}", "no run has worked on it yet")
    elif Difference.MISSING_IN_LEDGER in found:
        yield Next.of(f"redo {hour} --by NAME --reason TEXT", "dispatch what is missing, once a second person approves")
    if Difference.IN_DOUBT in found:
        yield Next.of(f"resume {hour}", "send what is in doubt; nothing is sent twice")
    if found:
        yield Next.of("why RECORD", "all that is known of one of the samples")


def view(application: Application, done: Reconciled) -> RenderableType:
    """The screen of one hour."""
    differ, hour = sum(done.found.values()), hours_text(done.window)
    says = (
        f"The reconcile of {hour} found {some(differ, 'difference')} in"
        f" {some(len(done.found), 'class').removesuffix('s') + 'es' if len(done.found) > 1 else '1 class'}."
        if differ
        else f"The reconcile of {hour} found no difference."
    )
    facts = {
        "Bookings": f"{count_text(done.bookings)} records that the hour's query returns",
        "Dispatched": f"{count_text(done.dispatched)} record versions in the plans of the hour's runs",
        "Took": seconds_text(done.seconds),
        "Report": done.report.url,
        "Where": where(application, done.execution),
    }
    table = plain_table("Class", "Count", "Records that", numbers=("Count",))
    for kind, meaning in MEANINGS.items():
        count = done.counts.get(kind, 0)
        table.add_row(kind.value, count_text(count), meaning, style="bold" if count else "")
    parts: list[RenderableType] = [Text(says), Text(), facts_grid(facts, next_commands(done)), Text(), table]
    if any(done.samples.values()):
        parts += [Text(), samples_view(done)]
    return Group(*parts)


def samples_view(done: Reconciled) -> RenderableType:
    """Some records of each class."""
    table = plain_table("Class", "Record or object", "Booked for")
    for name, samples in done.samples.items():
        for sample in samples[:SHOWN]:
            table.add_row(name, Text(sample_text(sample)), moment_of(sample))
    total = sum(map(len, done.samples.values()))
    shown = sum(min(SHOWN, len(samples)) for samples in done.samples.values())
    title = f"Samples ({shown:,}" + (f" of the report's {total:,})" if shown < total else ")")
    return Group(Text(title, style="bold"), table)


def sample_text(sample: Mapping[str, Any]) -> str:
    """What names a sample: a record's key values, as `why` takes them, or an object's key."""
    if "Object" in sample:
        return str(sample["Object"])
    return " ".join(each if isinstance(each, str) else json.dumps(each) for each in sample["Key"].values())


def moment_of(sample: Mapping[str, Any]) -> str:
    """When a sample is booked for; empty where it has no such time."""
    return " ".join(str(sample[name]) for name in ("BookingDateUTC", "BookingTimeUTC") if name in sample)


def together(done: Sequence[Reconciled]) -> Counter[str]:
    """The counts of several hours, by class."""
    counts: Counter[str] = Counter()
    for each in done:
        counts.update(each.counts)
    return counts


def line(done: Reconciled) -> str:
    """An hour among several."""
    return _line(hour_text(done.window), done.outcome, done.bookings, done.dispatched, done.found)


def sum_text(done: Sequence[Reconciled]) -> str:
    """All hours together, and what mends them."""
    differ = [each for each in done if each.found]
    found = {name: count for name, count in together(done).items() if count}
    bookings, dispatched = sum(each.bookings for each in done), sum(each.dispatched for each in done)
    lines = [_line("Together", f"{len(differ)} differ", bookings, dispatched, found)]
    for each in differ:
        lines += [f"  report {each.report.url}"]
        lines += [f"  next   {step.command}  # {step.why}" for step in list(next_commands(each))[:1]]
    return "\n".join(lines)


def _line(title: str, outcome: str, bookings: int, dispatched: int, found: Mapping[str, int]) -> str:
    classes = ", ".join(f"{name} {count:,}" for name, count in found.items())
    first, *rest = textwrap.wrap(classes, CLASSES_WIDTH, break_long_words=False) or [""]
    differ = count_text(sum(found.values()))
    row = LINE.format(title, outcome, count_text(bookings), count_text(dispatched), differ, first)
    return "\n".join([row.rstrip(), *(LINE.format(*[""] * 5, more) for more in rest)])


def to_json(done: Reconciled) -> dict[str, Any]:
    """The same for machines."""
    return {
        "Execution": done.execution,
        "WindowStart": done.window.start_text,
        "WindowEnd": done.window.end_text,
        "Outcome": done.outcome,
        "Bookings": done.bookings,
        "DispatchedRecords": done.dispatched,
        "Counts": dict(done.counts),
        "DurationSeconds": round(done.seconds, 3),
        "Report": done.report.to_input(),
        "Samples": {name: list(samples) for name, samples in done.samples.items()},
    }
