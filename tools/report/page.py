"""A run's report as one HTML page that needs nothing beside itself: no script, no font, no network."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path as File
from typing import Any, Final

from functions.domain.booking import Route
from functions.domain.reconcile import Difference
from functions.domain.run import Counts, Path
from functions.domain.task import JOB_NAMES
from tools.command_line import NAME
from tools.dispatchctl.outcome import ADVICE, Next, next_commands
from tools.dispatchctl.units import moment_text, seconds_text, some
from tools.report.charts import LABELLED, Charts, Column, Part, Row, Tick, compact
from tools.report.figures import Bar, Memory, Pages, RunReport, SizeClass
from tools.report.markup import Markup, element, join

STYLE: Final = File(__file__).with_name("page.css")
CHUNK: Final = "chunk"
"""What a page is called on the full path, where a chunk is what is planned and sent together."""
CENT: Final = 0.01
DASH: Final = "\N{EN DASH}"
NOT_RECORDED: Final = "not recorded"

PATHS: Final = {
    Path.FULL: "full: the hour at once",
    Path.PAGED: "paged: page by page",
    Path.GROUPED: "grouped: staged page by page, then merged",
}
ROUTES: Final = {Route.POINT: "Points", Route.COUPON: "Coupons"}
DIFFERENCES: Final = {
    Difference.MISSING_IN_LEDGER: "wait, can be dispatched, and were not",
    Difference.MISSING_IN_BOOKINGS: "were dispatched, and have been moved or deleted since",
    Difference.VALUE_MISMATCH: "were dispatched with another group or reward type, or still wait long after",
    Difference.DUPLICATE: "stand in two tasks that were sent",
    Difference.ORPHAN_OBJECT: "objects that no plan names",
    Difference.UNREACHABLE: "wait at a time that no hour reads",
    Difference.MISSING_HOUR: "hours that no run has worked on",
    Difference.IN_DOUBT: "stand only in plans that were not finished",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run's end in a word and a sentence."""

    level: str
    """`good`, `warn` or `bad`."""
    word: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Cell:
    """What a table's column is called, and whether numbers stand in it or sentences."""

    name: str
    kind: str = ""


def page(report: RunReport) -> str:
    """The whole page."""
    charts = Charts()
    title = f"Run report: {_hour(report)}"
    sections: Sequence[Callable[[RunReport, Charts], Markup]] = (
        _bookings,
        _over_time,
        _sizes,
        _routes,
        _faults,
        _memory,
        _reconcile,
        _cost,
        _places,
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(STYLE.read_text(encoding="utf-8"))),
    )
    body = element(
        "body",
        _patterns(),
        element("main", _header(report), *(section(report, charts) for section in sections), _footer(report)),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def verdict(report: RunReport) -> Verdict:
    """What came of the run, in one sentence for whoever is on call."""
    run, counts = report.run, report.counts
    read = some(counts.evaluated, "booking")
    done = f"{some(counts.dispatched, 'booking')} dispatched in {some(counts.tasks, 'task')}"
    if run.is_running:
        return Verdict("warn", "Running", f"It has not ended: so far {read} read, {done}.")
    if not run.ended_well:
        text = f"It ended with {run.outcome or run.status}{_failed_at(report)}: {done} before that, the rest was not."
        return Verdict("bad", "Failed", text)
    if not report.holds:
        return Verdict("bad", "Counts differ", "It ended well, but not every booking that waited is accounted for.")
    return _good_end(report, done)


def _good_end(report: RunReport, done: str) -> Verdict:
    run, counts = report.run, report.counts
    match run.outcome:
        case "AlreadyRunning":
            holder = run.detail.get("RunId", "another run")
            return Verdict("warn", "Already running", f"It did nothing, since {holder} worked on this hour.")
        case "Stopped":
            text = f"The kill switch stopped it: {done} until then. A resume goes on from there."
            return Verdict("warn", "Stopped", text)
        case "DryRun":
            would = f"a run would dispatch {some(counts.dispatched, 'booking')} in {some(counts.tasks, 'task')}"
            aside = f" and set {counts.set_aside:,} aside" if counts.set_aside else ""
            return Verdict("good", "Dry run", f"Nothing was changed: {would}{aside}.")
    return Verdict("good", "Dispatched", _accounted(report))


def _accounted(report: RunReport) -> str:
    counts = report.counts
    if not counts.waiting:
        read = f"None of the {some(counts.evaluated, 'booking')} read" if counts.evaluated else "No booking"
        return f"{read} of this hour waited for a reward: there was nothing to dispatch."
    parts = [
        *([f"{counts.dispatched:,} dispatched in {some(counts.tasks, 'task')}"] if counts.dispatched else []),
        *([f"{counts.already_dispatched:,} dispatched before"] if counts.already_dispatched else []),
        *([f"{counts.set_aside:,} set aside as bad data"] if counts.set_aside else []),
    ]
    several = counts.waiting > 1
    waited = f"All {counts.waiting:,} bookings that waited are" if several else "The one booking that waited is"
    return f"{waited} accounted for: {', '.join(parts)}."


def _header(report: RunReport) -> Markup:
    run, counts, found = report.run, report.counts, verdict(report)
    seconds = run.seconds(report.made_at)
    rate = (
        f"{counts.evaluated / seconds:,.0f} read a second" if seconds and counts.evaluated and not run.goes_on else ""
    )
    figures = (
        ("Bookings read", f"{counts.evaluated:,}", f"on {some(counts.pages, 'page')}"),
        ("Waiting", f"{counts.waiting:,}", _share(counts.waiting, counts.evaluated, "of those read")),
        ("Dispatched", f"{counts.dispatched:,}", f"{counts.already_dispatched:,} before"),
        ("Set aside", f"{counts.set_aside:,}", "bad data"),
        ("Tasks", f"{counts.tasks:,}", f"of {some(counts.groups, 'group')}"),
        ("Took", _duration(seconds), rate),
    )
    facts = {
        "Path": PATHS.get(run.path, run.path) if run.path else NOT_RECORDED,  # type: ignore[call-overload]
        "Page size": f"{some(run.page_size, 'booking')} a query" if run.page_size else NOT_RECORDED,
        "Began": _moment(run.started),
        "Ended": _moment(run.ended) if run.ended else "not yet",
        "Run": element("code", run.run_id or "none: it worked on no hour"),
    }
    return element(
        "header",
        element("p", f"{report.places.stage} \N{MIDDLE DOT} run report", class_="eyebrow"),
        element("h1", _hour(report)),
        element("p", element("span", found.word, class_=f"badge {found.level}"), class_="outcome"),
        element("p", found.sentence, class_="lead"),
        element(
            "dl",
            *(
                element(
                    "div",
                    element("dt", name),
                    element("dd", value, *([element("small", note)] if note else [])),
                )
                for name, value, note in figures
            ),
            class_="figures",
        ),
        _facts(facts),
    )


def _bookings(report: RunReport, charts: Charts) -> Markup:
    """What was read, what of it waited, and what the waiting ones became."""
    counts = report.counts
    if not counts.evaluated and not counts.waiting:
        return _section("What became of the bookings", element("p", "No booking was read."))
    done = counts.dispatched + counts.already_dispatched + counts.set_aside
    left, rest = max(counts.waiting - done, 0), max(counts.evaluated - counts.waiting, 0)
    would = report.run.dry_run
    became = (
        ("sent", "Would be dispatched" if would else "Dispatched", counts.dispatched),
        ("before", "Dispatched before", counts.already_dispatched),
        ("aside", "Would be set aside" if would else "Set aside", counts.set_aside),
        *([("rest", "Waiting, not accounted for", left)] if left else []),
    )
    equals = "=" if report.holds else "\N{NOT EQUAL TO}"
    sum_text = (
        f"{counts.waiting:,} waiting {equals} {counts.dispatched:,} dispatched"
        f" + {counts.already_dispatched:,} dispatched before + {counts.set_aside:,} set aside"
    )
    picture = charts.nested(
        "What became of the bookings",
        f"Of {counts.evaluated:,} bookings read {counts.waiting:,} waited. {sum_text}.",
        (Part(counts.waiting, "all"), Part(rest, "rest")),
        [Part(value, fill) for fill, _, value in became],
        (f"{counts.evaluated:,} read", f"{counts.waiting:,} waiting"),
    )
    others = "Not waiting, or staged and not merged yet" if _unmerged(report) else "Not waiting"
    shown = (("all", "Waiting", counts.waiting), *became, ("rest", others, rest))
    legend = element(
        "ul",
        *(
            element(
                "li",
                _swatch(fill),
                element("span", name),
                element("span", element("b", f"{value:,}"), join(" ", _percent(value, counts.evaluated))),
            )
            for fill, name, value in shown
        ),
        class_="legend",
    )
    holds = "" if report.holds else " The two sides differ: look at the run before anything else."
    return _section(
        "What became of the bookings",
        element("p", element("strong", sum_text), f". Shares are of the bookings read.{holds}"),
        element("figure", picture, legend),
    )


def _over_time(report: RunReport, charts: Charts) -> Markup:
    pages, noun = report.pages, _noun(report)
    if not pages.bars:
        text = _whole_window(report) or "No page was read."
        return _section("Pages over time", element("p", text))
    bars = pages.bars
    few = len(bars) <= LABELLED
    each = f"a {noun}" if pages.pages_a_bar == 1 else f"{pages.pages_a_bar:,} {noun}s, a bar"
    ticks = _ticks(bars)
    figures = [
        element(
            "figure",
            element("figcaption", element("b", "Bookings"), f", {each}"),
            _legend(*((fill, name) for fill, name, count in _became(pages.counts, noun) if count)),
            charts.columns(
                "Bookings over time",
                f"{pages.counts.evaluated:,} bookings read and {pages.counts.dispatched:,} dispatched on"
                f" {some(pages.number, noun)}.",
                [_bookings_of(bar, noun) for bar in bars],
                ticks,
                whole=True,
            ),
        )
    ]
    if pages.timed:
        figures += [_seconds(pages, noun, charts, ticks), _calls(pages, noun, charts, ticks)]
    sentences = (
        [_pace(pages, noun)] if pages.timed else [_whole_window(report) or f"When each {noun} began is not recorded."]
    )
    if pages.lanes > 1:
        sentences.append(
            f"They were done in {pages.lanes:,} lanes side by side, and stand in the order in which they began."
        )
    if report.run.path == Path.GROUPED:
        sentences.append("The first ones read and stage, the last ones merge and dispatch.")
    if pages.shared:
        sentences.append(f"{pages.shared:,} of them were done by the call that did the one before.")
    if pages.open:
        sentences.append(
            f"{some(pages.open, noun)} of them {'is' if pages.open == 1 else 'are'} planned and not finished."
        )
    if 0 < pages.timed < pages.number:
        sentences.append(
            f"An execution before this one did {pages.number - pages.timed:,} of them: their times are in its history."
        )
    began = ", and when the first and the last began (UTC)" if pages.timed else ""
    return _section(
        "Pages over time",
        element("p", " ".join(sentences)),
        element("p", f"Below each chart: the numbers of the {noun}s{began}.", class_="quiet"),
        element("div", *figures, class_="charts few" if few else "charts"),
        element("details", element("summary", "The same in numbers"), _pages_table(pages, noun)),
    )


def _became(counts: Counts, noun: str) -> tuple[tuple[str, str, int], ...]:
    """What is drawn of some pages: a fill, its name, its bookings; a merge dispatches what others have read.

    The last chunk of the full path carries the counts of all that was read, which is not that chunk's to show.
    """
    return (
        ("sent", "dispatched", counts.dispatched),
        ("before", "before", counts.already_dispatched),
        ("aside", "set aside", counts.set_aside),
        ("rest", "read only", 0 if noun == CHUNK else max(counts.evaluated - counts.waiting, 0)),
    )


def _bookings_of(bar: Bar, noun: str) -> Column:
    parts = [Part(count, fill) for fill, _, count in _became(bar.counts, noun)]
    return Column(parts, compact(sum(part.value for part in parts)))


def _seconds(pages: Pages, noun: str, charts: Charts, ticks: Sequence[Tick]) -> Markup:
    several = pages.pages_a_bar > 1
    columns = [
        Column(
            (Part(bar.seconds or 0, "sent"),),
            _tenths(bar.seconds),
            bar.slowest if several else None,
        )
        for bar in pages.bars
    ]
    return element(
        "figure",
        element("figcaption", element("b", "Seconds"), f" a {noun}, retries included"),
        _legend(("sent", "on average"), ("mark", "slowest")) if several else _legend(("sent", f"each {noun}")),
        charts.columns("Duration over time", _pace(pages, noun), columns, ticks),
    )


def _calls(pages: Pages, noun: str, charts: Charts, ticks: Sequence[Tick]) -> Markup:
    columns = [
        Column((Part(bar.calls - bar.retries, "sent"), Part(bar.retries, "aside")), f"{bar.calls:,}")
        for bar in pages.bars
    ]
    return element(
        "figure",
        element("figcaption", element("b", "Calls"), f" of the {noun} function"),
        _legend(("sent", "first calls"), ("aside", "retries")),
        charts.columns(
            "Calls over time",
            f"{some(pages.calls, 'call')} of the function for {some(pages.timed, noun)};"
            f" {some(pages.retries, 'call')} of them repeated one that failed.",
            columns,
            ticks,
            whole=True,
        ),
    )


def _pages_table(pages: Pages, noun: str) -> Markup:
    several = pages.pages_a_bar > 1
    columns = [
        Cell(f"{noun}s".capitalize()),
        Cell("Began, UTC"),
        *(Cell(name, "number") for name in ("Read", "Waiting", "Dispatched", "Before", "Set aside", "Tasks")),
        Cell("Seconds each" if several else "Seconds", "number"),
        *([Cell("Slowest, s", "number")] if several else []),
        Cell("Calls", "number"),
    ]
    rows = [
        [
            bar.name,
            bar.started.strftime("%H:%M:%S") if bar.started else NOT_RECORDED,
            *(
                f"{value:,}"
                for value in (
                    bar.counts.evaluated,
                    bar.counts.waiting,
                    bar.counts.dispatched,
                    bar.counts.already_dispatched,
                    bar.counts.set_aside,
                    bar.counts.tasks,
                )
            ),
            _tenths(bar.seconds),
            *([_tenths(bar.slowest)] if several else []),
            f"{bar.calls:,}" if bar.calls else DASH,
        ]
        for bar in pages.bars
    ]
    return _table(columns, rows)


def _sizes(report: RunReport, charts: Charts) -> Markup:
    title = "Group sizes"
    tasks = report.tasks
    if tasks is None:
        text = f"A dry run keeps no plan, so how many orders each task would hold is {NOT_RECORDED}."
        return _section(title, element("p", text))
    if not tasks.number:
        return _section(title, element("p", "No task was made."))
    mean = tasks.orders / tasks.number
    text = (
        f"{some(tasks.number, 'task')} with {some(tasks.orders, 'order')}: {mean:,.1f} orders a task on average,"
        f" {tasks.largest:,} in the largest."
    )
    if report.run.path == Path.PAGED:
        text += " A group that stands on several pages has a task on each of them."
    chart = charts.rows(
        title,
        text,
        [Row(_orders(each), (Part(each.tasks, "sent"),), f"{each.tasks:,}") for each in tasks.sizes],
    )
    columns = [Cell("Orders in a task"), Cell("Tasks", "number"), Cell("Orders together", "number")]
    rows = [[each.name, f"{each.tasks:,}", f"{each.orders:,}"] for each in tasks.sizes]
    return _section(
        title,
        element("p", text),
        element("figure", element("figcaption", element("b", "Tasks"), ", by the orders that they hold"), chart),
        element("details", element("summary", "The same in numbers"), _table(columns, rows)),
    )


def _routes(report: RunReport, charts: Charts) -> Markup:
    title = "Tasks by route"
    if report.tasks is None:
        return _section(title, element("p", f"A dry run keeps no plan: {NOT_RECORDED}."))
    tasks = report.tasks
    if not tasks.number:
        return _section(title, element("p", "No task was made."))
    text = ", ".join(f"{some(each.tasks, 'task')} on the {ROUTES[each.route].lower()} route" for each in tasks.routes)
    chart = charts.rows(
        title,
        f"{text}.",
        [Row(ROUTES[each.route], (Part(each.tasks, "sent"),), f"{each.tasks:,}") for each in tasks.routes],
    )
    columns = [
        Cell("Route"),
        Cell("Job"),
        *(Cell(name, "number") for name in ("Tasks", "Orders", "Orders in the largest")),
    ]
    rows = [
        [ROUTES[each.route], JOB_NAMES[each.route], f"{each.tasks:,}", f"{each.orders:,}", f"{each.largest:,}"]
        for each in tasks.routes
    ]
    unsent = f" {some(tasks.unsent, 'task')} of them: planned, and not known to be sent." if tasks.unsent else ""
    return _section(
        title,
        element("p", f"{text}.{unsent}"),
        element("figure", element("figcaption", element("b", "Tasks"), ", by the queue that they go to"), chart),
        _table(columns, rows),
    )


def _faults(report: RunReport, _: Charts) -> Markup:
    run, faults = report.run, report.faults
    failed = sum(each.times for each in faults)
    sentences = [
        f"{some(failed, 'attempt')} failed." if failed else "No attempt failed.",
        f"{some(report.pages.retries, 'call')} repeated one of a page." if report.pages.retries else "",
        f"The execution was redriven {some(run.redrives, 'time')}." if run.redrives else "",
        "It went on with a run that had not come to its end." if run.resumes else "",
    ]
    content = [element("p", " ".join(filter(None, sentences)))]
    if faults:
        columns = [Cell("Step"), Cell("Error"), Cell("Times", "number"), Cell("First, UTC"), Cell("Last, UTC")]
        rows = [
            [
                each.step,
                each.error,
                f"{each.times:,}",
                f"{each.first:%Y-%m-%d %H:%M:%S}",
                f"{each.last:%Y-%m-%d %H:%M:%S}",
            ]
            for each in faults
        ]
        content.append(_table(columns, rows))
    if not run.is_running and not run.ended_well:
        outcome = run.outcome or run.status
        facts = {
            "Error": outcome,
            "Message": str(run.detail.get("Message") or NOT_RECORDED),
            "To do": ADVICE.get(outcome, "The developers must see this."),
        }
        content += [element("h3", "What ended it"), _facts(facts)]
    return _section("Retries and faults", *content)


def _memory(report: RunReport, charts: Charts) -> Markup:
    title = "Memory"
    if not report.memory:
        why = join("The embedded AWS does not measure it; ", element("code", "make bench-memory"), " does.")
        if report.places.console:
            why = Markup("Lambda's reports of these calls are not in the logs, or may not be read.")
        return _section(title, element("p", f"{NOT_RECORDED.capitalize()}. ", why))
    text = "; ".join(
        f"{each.step}: at most {each.peak_mb:,} of {each.limit_mb:,} MB in {some(each.invocations, 'call')}"
        for each in report.memory
    )
    chart = charts.rows(title, f"{text}.", list(map(_used, report.memory)))
    columns = [Cell("Step"), *(Cell(name, "number") for name in ("Peak, MB", "Limit, MB", "Calls"))]
    rows = [[each.step, f"{each.peak_mb:,}", f"{each.limit_mb:,}", f"{each.invocations:,}"] for each in report.memory]
    return _section(
        title,
        element("p", f"{text}. Calls of other runs at that time are among them."),
        element("figure", element("figcaption", element("b", "Peak"), ", of what the function may use"), chart),
        _table(columns, rows),
    )


def _used(memory: Memory) -> Row:
    share = memory.peak_mb / memory.limit_mb
    return Row(memory.step, (Part(share, "sent"), Part(max(1 - share, 0), "rest")), f"{share:.0%}")


def _reconcile(report: RunReport, _: Charts) -> Markup:
    title, found = "Reconcile of this hour", report.reconciled
    if found is None:
        text = "No reconcile has compared this hour yet. One starts by itself at minute 30 for the hour before."
        return _section(title, element("p", text))
    clean = not any(found.counts.values())
    badge = element("span", found.outcome, class_=f"badge {'good' if clean else 'warn'}")
    ended = report.run.ended
    stale = " It was taken before this run had ended." if ended is None or _read(found.taken_at) < ended else ""
    text = (
        f" Of {some(found.bookings, 'booking')} that the hour's query returned {found.dispatched:,} were dispatched by"
        f" {_moment(_read(found.taken_at))}.{stale}"
    )
    differing = {name: count for name, count in found.counts.items() if count}
    others = [name for name in found.counts if name not in differing]
    columns = [Cell("Class"), Cell("Bookings that", "prose"), Cell("Number", "number")]
    rows = [[name, _meaning(name), f"{count:,}"] for name, count in differing.items()]
    return _section(
        title,
        element("p", badge, text),
        *([_table(columns, rows)] if rows else []),
        element("p", f"None of the class{'' if len(others) == 1 else 'es'} {', '.join(others)}.", class_="quiet"),
        _facts({"Report": element("code", f"s3://{report.places.bucket}/{found.key}")}),
    )


def _cost(report: RunReport, charts: Charts) -> Markup:
    title, cost = "Cost", report.cost
    if cost is None:
        return _section(title, element("p", "Nothing was read, so there is nothing to count."))
    kind = "A run like this dry run would cost" if report.run.dry_run else "By its counts this hour costs"
    million = "" if cost.per_million is None else f", {_dollars(cost.per_million)} for a million bookings"
    text = (
        f"{kind} {_dollars(cost.hour)}, its reconcile included{million}."
        f" A month of such hours costs {_dollars(cost.month)}."
    )
    chart = charts.rows(
        title,
        text,
        [Row(each.name, (Part(each.month, "sent"),), _amount(each.month, 2)) for each in cost.services],
    )
    columns = [Cell("Service"), Cell("An hour, $", "number"), Cell("A month, $", "number")]
    rows = [[each.name, _amount(each.hour, 4), _amount(each.month, 2)] for each in cost.services]
    notes = [
        f"List prices in US dollars of {cost.region}, looked up on {cost.looked_up}.",
        f"Bookings of {cost.record_bytes:,} bytes are assumed.",
    ]
    if cost.saving is not None:
        notes.append(f"What would save most, {_dollars(cost.saving.month)} a month: {cost.saving.name}.")
    return _section(
        title,
        element("p", text),
        element("figure", element("figcaption", element("b", "US dollars"), " for a month of such hours"), chart),
        element("details", element("summary", "The same in numbers"), _table(columns, rows)),
        element("p", " ".join(notes), class_="quiet"),
    )


def _amount(dollars: float, places: int) -> str:
    least: float = 10**-places
    return f"<{least:.{places}f}" if 0 < dollars < least / 2 else f"{dollars:,.{places}f}"


def _dollars(amount: float) -> str:
    return "<$0.01" if 0 < amount < CENT / 2 else f"${amount:,.2f}"


def _places(report: RunReport, _: Charts) -> Markup:
    run, places = report.run, report.places
    execution: Markup = element("code", run.execution)
    if places.console:
        execution = join(element("a", "in the console", href=places.console), " ", execution)
    facts: dict[str, str] = {"Execution": execution}
    if run.window is not None:
        prefix = f"{run.window.start:%Y-%m-%d/%H}"
        facts["Task objects"] = element("code", f"s3://{places.bucket}/tasks/{prefix}/")
    facts["Queues"] = join(*_lines(element("code", queue) for queue in places.queues))
    facts["Ledger"] = element("code", places.ledger_table)
    content = [_facts(facts)]
    if places.set_aside:
        more = places.set_aside_files - len(places.set_aside)
        folder = places.set_aside[0].rpartition("/")[0]
        content += [
            element("h3", "Files of records that were set aside"),
            element("p", "Each holds the bad records of a page, with the reason of each. They lie below"),
            element("p", element("code", f"s3://{places.bucket}/{folder}/")),
            element(
                "ul",
                *(element("li", element("code", key.rpartition("/")[2])) for key in places.set_aside),
                *([element("li", f"and {more:,} more")] if more else []),
                class_="files",
            ),
        ]
    commands = (element("li", element("code", each.command), f": {each.why}") for each in _commands(report))
    content += [element("h3", "To go on"), element("ul", *commands, class_="commands")]
    return _section("Where things lie", *content)


def _commands(report: RunReport) -> Iterator[Next]:
    yield from next_commands(report.run, is_stopped=report.still_stopped)
    yield Next.of("why RECORD", "what became of one booking")
    if report.run.hour is not None and report.reconciled is None:
        yield Next.of(f"reconcile {report.run.hour}", "compare the hour's bookings with what was dispatched")


def _footer(report: RunReport) -> Markup:
    made = f"Made {_moment(report.made_at)} by "
    rest = ". Times are UTC. No booking's or member's id is on this page."
    return element("footer", element("p", made, element("code", f"{NAME} report"), rest))


def _duration(seconds: float | None) -> str:
    return NOT_RECORDED if seconds is None else seconds_text(seconds)


def _hour(report: RunReport) -> str:
    window = report.run.window
    if window is None:
        return "A run without an hour"
    start, end = window.start, window.next.start
    return f"{start.day} {start:%B} {start.year}, {start:%H:%M}{DASH}{end:%H:%M} UTC"


def _failed_at(report: RunReport) -> str:
    detail = report.run.detail
    number, lane = detail.get("Page"), detail.get("Lane")
    if not number:
        return ""
    return f" on {_noun(report)} {number:,}" + (f" of lane {lane}" if lane else "")


def _noun(report: RunReport) -> str:
    return CHUNK if report.run.path == Path.FULL else "page"


def _unmerged(report: RunReport) -> bool:
    return report.run.path == Path.GROUPED and report.run.outcome != "Dispatched"


def _whole_window(report: RunReport) -> str:
    if report.whole_window is None:
        return ""
    seconds, calls = report.whole_window
    return (
        f"One step read and dispatched all of it: {some(calls, 'call')}, {_duration(seconds)}."
        " It does not tell when each part was done."
    )


def _pace(pages: Pages, noun: str) -> str:
    if pages.number == 1:
        return f"The one {noun} took {_duration(pages.slowest_seconds)}."
    return (
        f"{some(pages.number, noun)}: half of them took up to {_duration(pages.median_seconds)},"
        f" the slowest {_duration(pages.slowest_seconds)}."
    )


def _ticks(bars: Sequence[Bar]) -> list[Tick]:
    """Below few bars the number of each; below many those of the first, the middle and the last."""
    last = len(bars) - 1
    places = range(len(bars)) if len(bars) <= LABELLED else (0, last // 2, last)
    timed = {0, last} if len(bars) <= LABELLED else set(places)
    return [
        Tick(
            place,
            [bars[place].name, *([f"{began:%H:%M:%S}"] if (began := bars[place].started) and place in timed else [])],
        )
        for place in places
    ]


def _section(title: str, *content: str) -> Markup:
    return element("section", element("h2", title), *content)


def _facts(facts: dict[str, str]) -> Markup:
    return element(
        "dl", *(join(element("dt", name), element("dd", value)) for name, value in facts.items()), class_="facts"
    )


def _table(columns: Sequence[Cell], rows: Sequence[Sequence[str]]) -> Markup:
    """A table whose rows a narrow screen folds; its roles are said, since folding takes them away."""
    head = element(
        "thead",
        element(
            "tr",
            *(element("th", cell.name, scope="col", role="columnheader", class_=cell.kind or None) for cell in columns),
            role="row",
        ),
        role="rowgroup",
    )
    body = element(
        "tbody",
        *(
            element(
                "tr",
                *(
                    element(
                        "td" if place else "th",
                        text,
                        scope=None if place else "row",
                        role="cell" if place else "rowheader",
                        data_name=cell.name,
                        class_=cell.kind or None,
                    )
                    for place, (cell, text) in enumerate(zip(columns, row, strict=True))
                ),
                role="row",
            )
            for row in rows
        ),
        role="rowgroup",
    )
    return element("table", head, body, role="table")


def _legend(*entries: tuple[str, str]) -> Markup:
    items = (element("li", _swatch(fill), element("span", name)) for fill, name in entries)
    return element("ul", *items, class_="legend short")


def _swatch(fill: str) -> Markup:
    y, height = (6, 2) if fill == "mark" else (1, 12)
    square = element("rect", x="1", y=y, width="14", height=height, class_=fill)
    return element("svg", square, height=14, aria_hidden="true")


def _patterns() -> Markup:
    """The fills that are told apart without their colour."""
    hatched = element("path", d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2", stroke_width="2")
    crossed = element("path", d="M0,6 l6,-6 M0,0 l6,6", stroke_width="2")
    drawn = (
        element("pattern", path, id=name, width="6", height="6", patternUnits="userSpaceOnUse")
        for name, path in (("hatched", hatched), ("crossed", crossed))
    )
    return element("svg", element("defs", *drawn), height=0, class_="patterns", aria_hidden="true")


def _lines(pieces: Any) -> list[Markup]:
    return [join(piece, element("br")) for piece in pieces]


def _meaning(name: str) -> str:
    return DIFFERENCES.get(Difference(name), "") if name in set(Difference) else ""


def _orders(each: SizeClass) -> str:
    """A class of sizes in few characters; the table beside the chart names it exactly."""
    if each.least == each.most:
        return f"{each.least} order{'' if each.least == 1 else 's'}"
    return f"{compact(each.least)}{DASH}{compact(each.most)}"


def _share(part: int, whole: int, of: str) -> str:
    return f"{_percent(part, whole)} {of}" if whole else ""


def _percent(part: int, whole: int) -> str:
    """Whole per cents, but never 0 or 100 for what is not."""
    if not whole:
        return ""
    share = part / whole * 100
    if 0 < share < 1:
        return "<1%"
    if 1 - 1 / 100 < part / whole < 1:
        return ">99%"
    return f"{share:.0f}%"


def _tenths(seconds: float | None) -> str:
    return DASH if seconds is None else f"{seconds:,.1f}"


def _moment(moment: datetime) -> str:
    return f"{moment_text(moment)} UTC"


def _read(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
