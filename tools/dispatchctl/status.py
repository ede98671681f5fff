"""One screen: what runs, what the last run did, and what waits for somebody."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from functions.domain.window import utc_text
from tools.command_line import command_line
from tools.dispatchctl.outcome import failure, hours_text, next_commands, place_text, record_json, sentence
from tools.dispatchctl.redo import question_json
from tools.dispatchctl.shell import AsJson, app, application_of, screen, show
from tools.dispatchctl.units import NONE, count_text, seconds_text, some
from tools.runs.overview import Overview, QueueState, overview
from tools.runs.records import STOPPED, RunRecord, hour_of
from tools.runs.redos import Question

WIDE: Final = 125
"""From so many columns on a run takes one line; on a narrower screen it takes two."""
SHOWN: Final = 3
"""At most so many that run are told in sentences."""
SHORTEST: Final = 8
"""An execution's name is cut to what tells it from the others, but no shorter: that much finds it again."""
COUNTS: Final = {
    "Pages": "Pages",
    "Read": "Evaluated",
    "Dispatched": "Dispatched",
    "Before": "AlreadyDispatched",
    "Aside": "SetAside",
    "Tasks": "Tasks",
}
"""The columns of counts, and their names in an output."""


@app.command()
def status(
    context: typer.Context,
    *,
    last: Annotated[int, typer.Option(min=1, max=1000, help="So many runs at most.")] = 20,
    hour: Annotated[str | None, typer.Option(metavar="HOUR", help="Only those of this hour.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what the last run did, what is running, and what waits for somebody."""
    application, now = application_of(context), datetime.now(UTC)
    window = hour_of(hour, "--hour") if hour else None
    found = overview(application, now, last, window)
    width = screen().width
    show(overview_json(found), lambda: overview_view(found, wide=width >= WIDE), as_json=as_json)


def overview_view(found: Overview, *, wide: bool) -> RenderableType:
    """The screen."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(style="bold", no_wrap=True)
    lines.add_column(overflow="fold")
    for name, value in facts(found):
        lines.add_row(name, Text(value))
    if not found.runs:
        return Group(lines, Text(), Text("No run is known."))
    return Group(lines, Text(), runs_table(found.runs, found.taken_at, wide=wide))


def facts(found: Overview) -> Iterator[tuple[str, str]]:
    """What stands above the runs; what is wrong comes first."""
    if found.flags.stopped:
        clear = command_line("stop --clear")
        yield "STOPPED", f"The kill switch is on: no run goes beyond its page. `{clear}` switches it off."
    if found.is_late:
        idle = found.idle_seconds
        since = "no run was ever started" if idle is None else f"the last run was started {seconds_text(idle)} ago"
        yield "LATE", f"The schedule starts a run every hour, and {since}."
    if found.dead_letters:
        yield "DEAD", f"{some(found.dead_letters, 'message')} could not be dealt with: see the queues."
    for record in found.runs[:SHOWN]:
        if record.is_running:
            yield "Running", sentence(record, found.taken_at)
    if found.last is not None:
        yield "Last run", sentence(found.last, found.taken_at)
        steps = next_commands(found.last, is_stopped=found.flags.stopped)
        yield from (("Next", f"{step.command}  # {step.why}") for step in steps)
    for record in found.open:
        if record != found.last:
            yield "Open", open_text(record)
    for redo in found.redos:
        yield "Redo waits", redo_text(redo)
    size = f", {found.flags.page_size:,} bookings a page" if found.flags.path != "full" else ""
    yield "Next path", f"{found.flags.path.value}{size} (paging is {'off' if found.flags.path == 'full' else 'on'})"
    schedule = {True: "every hour", False: "off: runs are started by hand", None: "not known: it cannot be read"}
    yield "Schedule", schedule[found.scheduled]
    told = [each for each in found.queues if not each.dead_letters or each.gone or each.waiting or each.in_flight]
    shown = map(queue_text, told)
    yield "Queues", "   ".join([*shown, *([] if found.dead_letters else ["no dead letters"])])


def open_text(record: RunRecord) -> str:
    """An hour that is still open: what closes it, and what happened to it."""
    what = "was stopped" if record.outcome == STOPPED else f"failed {place_text(record.detail)}: {failure(record)}"
    return f"{next_commands(record, is_stopped=False)[0].command}  # {hours_text(record.window)} {what}"


def redo_text(redo: Question) -> str:
    """A redo that waits for a second person: who asks, and how it is answered."""
    name = redo.execution.rpartition(":")[2]
    approve = command_line(f"approve {name} --by YOU")
    return f"{approve}  # asked by {redo.redo.requested_by} for {hours_text(redo.window)}"


def queue_text(queue: QueueState) -> str:
    """What lies on a queue."""
    if queue.gone:
        return f"{queue.name}: gone"
    flight = f" + {queue.in_flight:,} at work" if queue.in_flight else ""
    return f"{queue.name}: {queue.waiting:,}{flight}"


def runs_table(records: Sequence[RunRecord], now: datetime, *, wide: bool) -> Table:
    """The runs, a row each."""
    names = short_names([record.name for record in records])
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for title in _paired(["Hour", "Run", "Outcome", "Path"], wide=wide):
        table.add_column(title, overflow="fold")
    for title in _paired([*COUNTS, "Took", "Started"], wide=wide):
        table.add_column(title, justify="right", no_wrap=True)
    for record in records:
        named = [record.hour or NONE, names[record.name], outcome_text(record), record.path or NONE]
        totals = {} if record.totals is None else record.totals.to_state()
        counts = [count_text(totals.get(name)) for name in COUNTS.values()]
        timed = [seconds_text(record.seconds(now)), started_text(record.started, now)]
        table.add_row(*map(Text, _paired([*named, *counts, *timed], wide=wide)))
    return table


def outcome_text(record: RunRecord) -> str:
    """How it ended, in a word."""
    return "running" if record.outcome is None else record.outcome


def started_text(started: datetime, now: datetime) -> str:
    """`16:01:10` of today, else `09-17 16:01`."""
    return f"{started:%H:%M:%S}" if started.date() == now.date() else f"{started:%m-%d %H:%M}"


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name cut to what tells it from the others."""
    length = SHORTEST
    while len({name[:length] for name in names}) < len(set(names)):
        length += 1
    return {name: name[:length] for name in names}


def overview_json(found: Overview) -> dict[str, Any]:
    """The same for machines."""
    return {
        "TakenAt": utc_text(found.taken_at),
        "Stopped": found.flags.stopped,
        "NextPath": found.flags.path.value,
        "PageSize": found.flags.page_size,
        "Scheduled": found.scheduled,
        "SecondsSinceLastRun": found.idle_seconds,
        "Late": found.is_late,
        "LastRun": found.last
        and {**record_json(found.last, found.taken_at), "Says": sentence(found.last, found.taken_at)},
        "Queues": [
            {
                "Name": queue.name,
                "Messages": queue.waiting,
                "InFlight": queue.in_flight,
                "DeadLetters": queue.dead_letters,
                "Gone": queue.gone,
            }
            for queue in found.queues
        ],
        "Open": [record_json(record, found.taken_at) for record in found.open],
        "RedosWaiting": [question_json(redo) for redo in found.redos],
        "Runs": [record_json(record, found.taken_at) for record in found.runs],
    }


def _paired(cells: Sequence[str], *, wide: bool) -> Sequence[str]:
    """The cells on a wide screen, else each two of them as one of two lines."""
    return cells if wide else ["\n".join(pair) for pair in zip(cells[::2], cells[1::2], strict=True)]
