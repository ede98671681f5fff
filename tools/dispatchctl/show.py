"""One run, page by page."""

import heapq
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from functions.domain.cursor import TIME_ATTRIBUTE, Token
from functions.domain.lane import FIRST_FOLD, FIRST_MERGE, Step
from functions.domain.run import Counts, Path
from functions.domain.window import utc_text
from tools.dispatchctl.outcome import record_json, run_view
from tools.dispatchctl.run import watch
from tools.dispatchctl.shell import AsJson, RunName, app, application_of, screen
from tools.dispatchctl.units import count_text, moment_text, seconds_text
from tools.runs.history import Fault
from tools.runs.overview import still_stopped
from tools.runs.records import PageRecord, RunRecord, faults_of, find_run, pages_of

ENDS: Final = 20
"""So many of the first and of the last pages are shown."""
SLOWEST: Final = 5
FAULTS: Final = 20
TOKEN_WIDTH: Final = 20
COUNTS: Final = {
    "Read": "Evaluated",
    "Waiting": "Waiting",
    "Dispatched": "Dispatched",
    "Before": "AlreadyDispatched",
    "Aside": "SetAside",
    "Tasks": "Tasks",
}
"""The columns of counts, and their names in an output."""
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?=$|#)")
"""A token's date is its run's; a shard's number may stand behind it."""


@app.command()
def show(
    context: typer.Context,
    name: RunName = "last",
    *,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for its end first.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="All pages, not only the first, the last and the slowest.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one run: its facts, its counts, its lanes and pages, and what went wrong on the way."""
    application = application_of(context)
    record = find_run(application, name)
    if follow and record.is_running:
        record = watch(application, record.execution, record.window)
    now = datetime.now(UTC)
    if as_json:
        for text in json_texts(record, pages_of(application, record), faults_of(application, record), now):
            print(text)
        return
    console = screen()
    console.print(run_view(application, record, now, is_stopped=still_stopped(application, record)))
    digest = Digest.of(pages_of(application, record), every=every)
    console.print(pages_view(record, digest))
    faults = list(faults_of(application, record))
    if faults:
        console.print(faults_view(faults))


@dataclass(slots=True)
class Lane:
    """What one lane did."""

    pages: int = 0
    counts: Counts = field(default_factory=Counts)
    seconds: float = 0.0
    tries: int = 0
    is_open: bool = False


@dataclass(slots=True)
class Digest:
    """What is shown of a run's pages, however many there are."""

    first: list[PageRecord] = field(default_factory=list)
    last: deque[PageRecord] = field(default_factory=deque)
    slowest: list[PageRecord] = field(default_factory=list)
    lanes: dict[int, Lane] = field(default_factory=dict)
    count: int = 0

    @classmethod
    def of(cls, pages: Iterable[PageRecord], *, every: bool = False) -> "Digest":
        """Read all pages once, and keep the first, the last and the slowest of them; all, if `every`."""
        digest = cls(last=deque(maxlen=ENDS))
        slow: list[tuple[float, int, PageRecord]] = []
        for page in pages:
            digest.count += 1
            if every or digest.count <= ENDS:
                digest.first.append(page)
            else:
                digest.last.append(page)
            entry = (page.seconds or 0.0, -digest.count, page)
            if len(slow) < SLOWEST:
                heapq.heappush(slow, entry)
            else:
                heapq.heappushpop(slow, entry)
            digest._add(page)
        digest.slowest = [page for seconds, _, page in sorted(slow, reverse=True) if seconds]
        return digest

    @property
    def left_out(self) -> int:
        """Pages between the first and the last."""
        return self.count - len(self.first) - len(self.last)

    def _add(self, page: PageRecord) -> None:
        lane = self.lanes.setdefault(page.lane, Lane())
        lane.pages += 1
        lane.counts += page.counts
        lane.seconds += page.seconds or 0.0
        lane.tries += max(0, page.attempts - 1)
        lane.is_open = not page.finished


def step_of(lane: int, path: str | None) -> str:
    """What a lane of this number does."""
    if lane >= FIRST_MERGE:
        return Step.MERGE.value
    if lane >= FIRST_FOLD:
        return Step.FOLD.value
    return Step.STAGE.value if path == Path.GROUPED else Step.DISPATCH.value


def token_text(token: Token | None) -> str:
    """Where a page starts, shortened: a booking's time and key, with its shard if it has one; or where a merge is."""
    if not token:
        return "the start"
    values = {name: next(iter(value.values())) for name, value in token.items()}
    if "From" in values:
        text = f"group {values['After']}" if "After" in values else f"buckets {values['From']} to {values['To']}"
    else:
        time = values.pop(TIME_ATTRIBUTE, "")
        text = " ".join(filter(None, [time, *(_DATE.sub("", value) for value in values.values())]))
    return text if len(text) <= TOKEN_WIDTH else f"{text[: TOKEN_WIDTH - 3]}..."


def pages_view(record: RunRecord, digest: Digest) -> RenderableType:
    """The lanes and the pages."""
    if not digest.count:
        why = "a dry run in one call tells no pages" if record.dry_run else "no page was planned"
        return Text(f"\nNo pages: {why}.")
    parts: list[RenderableType] = []
    if len(digest.lanes) > 1:
        parts += [Text("\nLanes", style="bold"), _lanes_table(record, digest)]
    parts += [Text(f"\nPages ({digest.count:,})", style="bold"), _pages_table(digest)]
    if digest.left_out:
        parts.append(Text(f"{digest.left_out:,} pages between them are left out; `--all` shows them."))
    if digest.slowest and digest.count > ENDS:
        parts += [Text("\nThe slowest", style="bold"), _table(digest.slowest)]
    return Group(*parts)


def _pages_table(digest: Digest) -> Table:
    table = _table(digest.first)
    if digest.left_out:
        table.add_row(*["..."] * len(table.columns))
    for page in digest.last:
        table.add_row(*_page_cells(page))
    return table


def _table(pages: Iterable[PageRecord]) -> Table:
    table = _columns(("Lane", "Page", *COUNTS, "Took", "Tries"), ("From",))
    for page in pages:
        table.add_row(*_page_cells(page))
    return table


def _page_cells(page: PageRecord) -> Iterator[Text]:
    took = seconds_text(page.seconds) if page.finished else "open"
    yield from map(Text, (str(page.lane), f"{page.page:,}", *_count_cells(page.counts, COUNTS), took))
    yield Text(count_text(page.attempts or None))
    yield Text(token_text(page.token))


def _lanes_table(record: RunRecord, digest: Digest) -> Table:
    shown = [title for title in COUNTS if title != "Waiting"]  # what follows it adds up to it
    table = _columns(("Lane", "Pages", *shown, "Took", "Retries"), ("Step", "State"))
    for number, lane in digest.lanes.items():
        table.add_row(
            str(number),
            count_text(lane.pages),
            *_count_cells(lane.counts, shown),
            seconds_text(lane.seconds or None),
            count_text(lane.tries),
            step_of(number, record.path),
            "open" if lane.is_open else "done",
        )
    return table


def _count_cells(counts: Counts, titles: Iterable[str]) -> Iterator[str]:
    state = counts.to_state()
    return (count_text(state[COUNTS[title]]) for title in titles)


def _columns(numbers: Iterable[str], texts: Iterable[str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    for title in texts:
        table.add_column(title, overflow="fold", no_wrap=title != "Error")
    return table


def faults_view(faults: list[Fault]) -> RenderableType:
    """The attempts that failed."""
    table = _columns((), ("At (UTC)", "Step", "Page", "Try", "Error"))
    for fault in faults[-FAULTS:]:
        page = "" if fault.page is None else f"{fault.page}" + (f" of lane {fault.lane}" if fault.lane else "")
        error = f"{fault.error}: {fault.message}" if fault.message else fault.error
        table.add_row(*map(Text, (moment_text(fault.at), fault.step, page, str(fault.attempt), error)))
    title = f"\nAttempts that failed ({len(faults):,}{', the last of them' if len(faults) > FAULTS else ''})"
    return Group(Text(title, style="bold"), table)


def json_texts(record: RunRecord, pages: Iterable[PageRecord], faults: Iterable[Fault], now: datetime) -> Iterator[str]:
    """A run as JSON, page by page: it is never held whole."""
    yield json.dumps({**record_json(record, now), "Pages": []}, indent=2).removesuffix("]\n}")
    separator = ""
    for page in pages:
        yield f"    {separator}{json.dumps(page_json(page, record.path))}"
        separator = ","
    yield "  ],"
    yield f'  "Faults": {json.dumps([fault_json(fault) for fault in faults])}'
    yield "}"


def page_json(page: PageRecord, path: str | None) -> dict[str, Any]:
    """A page for machines."""
    return {
        "Lane": page.lane,
        "Step": step_of(page.lane, path),
        "Page": page.page,
        "Token": page.token,
        "Counts": page.counts.to_state(),
        "Finished": page.finished,
        "StartedAt": page.started and utc_text(page.started),
        "Seconds": page.seconds,
        "Attempts": page.attempts,
    }


def fault_json(fault: Fault) -> dict[str, Any]:
    """A failed attempt for machines."""
    return {
        "At": utc_text(fault.at),
        "Step": fault.step,
        "Lane": fault.lane,
        "Page": fault.page,
        "Attempt": fault.attempt,
        "Error": fault.error,
        "Message": fault.message,
    }
