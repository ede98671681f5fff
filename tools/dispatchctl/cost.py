"""What an hour and a month cost: of a run that was, or of an hour that is expected."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import Annotated, Any, Final

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from functions.domain.errors import InvalidInput
from functions.domain.flags import MAX_PAGE_SIZE
from functions.domain.pack import Layout
from functions.domain.run import Path
from tools.command_line import command_line
from tools.cost.bill import (
    FULL_BOOKINGS,
    FULL_RECORD_BYTES,
    PARAMETER_READS_A_SECOND,
    Amount,
    Bill,
    Forecast,
    PerRecord,
    Saving,
    Terms,
    bill_of,
    hour_of_run,
    per_record,
    savings,
)
from tools.cost.prices import LISTED, Prices, read_prices
from tools.dispatchctl.outcome import record_json, sentence
from tools.dispatchctl.shell import AsJson, CommandError, ExitCode, app, application_of, show, target_of
from tools.dispatchctl.units import NONE
from tools.runs.records import RunRecord, find_run, layout_of

PATHS: Final = (Path.FULL, Path.PAGED, Path.GROUPED)
_LAYOUTS: Final = {Layout.OBJECT: "an object for each task", Layout.PACKED: "one object for each page"}
MOST_BOOKINGS: Final = 1_000_000_000
MOST_RECORD_BYTES: Final = 400 * 1024
MOST_HOURS: Final = 744
MOST_DAYS: Final = 36_500
NOT_COUNTED: Final = (
    "Not counted: free tiers and discounts, retries, a second run of an hour, the bookings table itself, consumers."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What is shown: a bill for each hour and path, and what would make it smaller."""

    prices: Prices
    terms: Terms
    bills: tuple[tuple[Bill, tuple[Saving, ...]], ...]
    per_record: tuple[PerRecord, ...]
    """Of the last hour."""
    notes: tuple[str, ...]
    run: RunRecord | None = None

    @property
    def hours(self) -> int:
        """How many hours are compared."""
        return len({bill.hour.evaluated for bill, _ in self.bills})


@app.command()
def cost(  # noqa: PLR0913 -- a command's options are its arguments
    context: typer.Context,
    *,
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run's id, `last`, or an hour such as 2026-09-17T15: what it costs."),
    ] = None,
    bookings: Annotated[
        list[int] | None,
        typer.Option(min=1, max=MOST_BOOKINGS, help="Bookings an hour, as a forecast; give several to compare them."),
    ] = None,
    group_size: Annotated[
        float, typer.Option(min=1, help="Bookings of one shop, member, engine and reward type in an hour.")
    ] = 5,
    spread: Annotated[float, typer.Option(min=1, help="Over so many pages a group's bookings lie on average.")] = 1,
    page_size: Annotated[int, typer.Option(min=1, max=MAX_PAGE_SIZE, help="Bookings a page has at most.")] = 1000,
    record_bytes: Annotated[
        int, typer.Option(min=1, max=MOST_RECORD_BYTES, help="Size of a booking, as DynamoDB counts it.")
    ] = 450,
    hours_per_month: Annotated[float, typer.Option(min=1, max=MOST_HOURS, help="Such hours in a month.")] = 730,
    task_days: Annotated[int, typer.Option(min=1, max=MOST_DAYS, help="So long task objects are kept.")] = 365,
    layout: Annotated[
        Layout | None,
        typer.Option(
            show_default=f"a RUN's own, else {Layout.OBJECT}",
            help="How task data is laid out: the deployment's setting taskDataLayout.",
        ),
    ] = None,
    prices: Annotated[
        FilePath, typer.Option(show_default="tools/cost/prices.json", help="Another price list, of the same form.")
    ] = LISTED,
    as_json: AsJson = False,
) -> None:
    """Say what an hour and a month cost, by service, on each path, and which setting would save most.

    Give a RUN to go by its real counts, or --bookings for a forecast. Prices are --region's where known.
    """
    if (run is None) == (not bookings):
        raise InvalidInput("give either a RUN or --bookings")
    terms = Terms(hours_per_month=hours_per_month, task_days=task_days)
    if run is None:
        listed = read_prices(target_of(context).region or None, prices)
        forecasts = [
            Forecast(
                bookings=each,
                group_size=group_size,
                spread=spread,
                page_size=page_size,
                record_bytes=record_bytes,
                layout=layout or Layout.OBJECT,
            )
            for each in bookings or ()
        ]
        costs = of_forecasts(forecasts, listed, terms)
    else:
        application = application_of(context)
        record = find_run(application, run)
        listed = read_prices(application.deployment.region, prices)
        costs = of_run(record, record_bytes, listed, terms, layout or layout_of(application, record))
    show(to_json(costs), lambda: view(costs), as_json=as_json)


def of_forecasts(forecasts: Sequence[Forecast], prices: Prices, terms: Terms) -> Costs:
    """The costs of hours that are expected, on each path."""
    bills = []
    for forecast in forecasts:
        for path in PATHS:
            bill = bill_of(forecast.hour(path), prices, terms)
            bills.append((bill, tuple(savings(bill, forecast))))
    last = forecasts[-1]
    notes = []
    if len(forecasts) == 1 and last.spread < last.group_size:
        apart = Forecast(
            bookings=last.bookings,
            group_size=last.group_size,
            spread=last.group_size,
            page_size=last.page_size,
            record_bytes=last.record_bytes,
            layout=last.layout,
        )
        most = bill_of(apart.hour(Path.PAGED), prices, terms).total
        notes.append(
            f"Paged costs {_dollars(most.hour)} an hour if no two bookings of a group share a page"
            f" (--spread {last.group_size:g}); `{command_line('compare HOUR')}` shows where they lie."
        )
    return Costs(
        prices=prices,
        terms=terms,
        bills=tuple(bills),
        per_record=tuple(per_record(bills[-1][0].hour, prices, terms)),
        notes=(*notes, *_notes([bill for bill, _ in bills], prices)),
    )


def of_run(record: RunRecord, record_bytes: int, prices: Prices, terms: Terms, layout: Layout) -> Costs:
    """The costs of a run, by its counts.

    Raises:
        CommandError: it did nothing that could be counted.
    """
    if record.totals is None or record.path is None or record.page_size is None:
        raise CommandError(f"{record.name} read nothing, so there is nothing to count", ExitCode.NOT_FOUND)
    hour = hour_of_run(Path(record.path), record.totals, record.page_size, record_bytes, layout)
    bill = bill_of(hour, prices, terms)
    notes = [f"By the run's counts, for bookings of {record_bytes:,} bytes (--record-bytes); a month of such hours."]
    if record.dry_run:
        notes.append("It was a dry run: this is what a run would cost.")
    if record.is_running:
        notes.append("It still runs: this is what was done so far.")
    if record.totals.already_dispatched:
        notes.append("Some was dispatched before: reading the earlier runs' plans is not counted.")
    if hour.path is Path.PAGED:
        notes.append(
            "How many groups the hour has is not in a run's counts: give --bookings and --group-size for that."
        )
    return Costs(
        prices=prices,
        terms=terms,
        bills=((bill, tuple(savings(bill))),),
        per_record=tuple(per_record(hour, prices, terms)),
        notes=(*notes, *_notes([bill], prices)),
        run=record,
    )


def _notes(bills: Sequence[Bill], prices: Prices) -> Iterator[str]:
    if any(bill.parameter_reads_a_second > PARAMETER_READS_A_SECOND for bill in bills):
        yield (
            f"More than {PARAMETER_READS_A_SECOND} parameters a second are read: that takes Parameter Store's higher"
            " throughput, and its price in `parameter_read`."
        )
    of_region = f"List prices of {prices.listed_for}"
    if prices.region != prices.listed_for:
        of_region += f", {prices.own} of {len(prices.by_name)} replaced by those of {prices.region}"
    assumed = f"; assumed: {', '.join(prices.assumed)}" if prices.assumed else ""
    yield f"{of_region}; looked up {prices.looked_up}{assumed}."
    yield NOT_COUNTED


def view(costs: Costs) -> RenderableType:
    """The screen: a table for each path, or one for all hours that are compared."""
    parts: list[RenderableType] = []
    if costs.run is not None:
        parts += [Text(sentence(costs.run, datetime.now(UTC))), Text()]
    if costs.hours > 1:
        parts += [_comparison(costs), Text()]
    else:
        for bill, saved in costs.bills:
            parts += [*_bill(bill), *_saved(bill, saved), Text()]
        parts += [_ways(costs.per_record), Text()]
    return Group(*parts, *map(Text, costs.notes))


def _bill(bill: Bill) -> Iterator[RenderableType]:
    hour = bill.hour
    yield Text(f"{bill.hour.path.capitalize()}, task data as {_LAYOUTS[bill.hour.layout]}", style="bold")
    yield Text(
        f"{hour.evaluated:,.0f} bookings an hour, {hour.pages:,.0f} pages of at most {hour.page_size:,},"
        f" {hour.tasks:,.0f} tasks of {hour.group_size:,.1f}"
    )
    if not bill.fits:
        most = FULL_BOOKINGS * FULL_RECORD_BYTES // hour.record_bytes
        yield Text(f"DOES NOT FIT: this path holds the hour in memory, about {most:,} bookings of this size.")
        return
    table = _table("Service", "An hour, $", "A month, $", "Share")
    total = bill.total
    for service, amount in bill.services.items():
        table.add_row(service, *_cells(amount), f"{amount.hour / total.hour:.1%}")
    table.add_section()
    table.add_row("Together", *_cells(total), "100.0%", style="bold")
    yield table
    if bill.per_million is not None:
        yield Text(f"{_dollars(bill.per_million)} for a million bookings")


def _saved(bill: Bill, saved: Sequence[Saving]) -> Iterator[RenderableType]:
    if not bill.fits or not saved:
        return
    table = _table("What would save most", "An hour, $", "A month, $")
    for one in saved:
        table.add_row(one.setting, *_cells(one.saved))
    yield Text()
    yield table


def _ways(ways: Sequence[PerRecord]) -> Table:
    table = _table("For comparison: starting something for each booking, and nothing else", "An hour, $", "A month, $")
    for one in ways:
        table.add_row(one.way, *_cells(one.amount))
    return table


def _comparison(costs: Costs) -> Table:
    table = Table(box=box.MARKDOWN)
    for name in ("Bookings an hour", "Path", "Pages", "Tasks", "$ an hour", "$ a month", "$ for a million"):
        table.add_column(name, justify="left" if name == "Path" else "right", no_wrap=True)
    for bill, _ in costs.bills:
        hour = bill.hour
        counted = (f"{hour.evaluated:,.0f}", hour.path.value, f"{hour.pages:,.0f}", f"{hour.tasks:,.0f}")
        if not bill.fits:
            table.add_row(*counted, "does not fit", NONE, NONE)
            continue
        per_million = NONE if bill.per_million is None else f"{bill.per_million:,.2f}"
        table.add_row(*counted, *_cells(bill.total), per_million)
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first, overflow="fold", min_width=26)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _cells(amount: Amount) -> tuple[str, str]:
    return _number(amount.hour, 4), _number(amount.month, 2)


def _number(dollars: float, places: int) -> str:
    least: float = 10**-places
    return f"<{least:.{places}f}" if 0 < dollars < least / 2 else f"{dollars:,.{places}f}"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}"


def to_json(costs: Costs) -> dict[str, Any]:
    """The same for machines; amounts are US dollars and not rounded."""
    prices = costs.prices
    return {
        "Prices": {
            "Region": prices.region,
            "ListedFor": prices.listed_for,
            "Own": prices.own,
            "LookedUp": str(prices.looked_up),
            "Assumed": prices.assumed,
        },
        "HoursPerMonth": costs.terms.hours_per_month,
        "TaskDays": costs.terms.task_days,
        "Run": costs.run and record_json(costs.run, datetime.now(UTC)),
        "Bills": [_bill_json(bill, saved) for bill, saved in costs.bills],
        "PerRecord": [{"Way": one.way, **_amount_json(one.amount)} for one in costs.per_record],
        "Notes": list(costs.notes),
    }


def _bill_json(bill: Bill, saved: Sequence[Saving]) -> dict[str, Any]:
    hour = bill.hour
    return {
        "Path": hour.path.value,
        "Layout": bill.hour.layout.value,
        "Fits": bill.fits,
        "Bookings": hour.evaluated,
        "Dispatched": hour.dispatched,
        "Pages": hour.pages,
        "PageSize": hour.page_size,
        "Tasks": hour.tasks,
        "RecordBytes": hour.record_bytes,
        **_amount_json(bill.total),
        "DollarsPerMillion": bill.per_million,
        "Services": [{"Service": name, **_amount_json(amount)} for name, amount in bill.services.items()],
        "Lines": [
            {
                "Service": line.service,
                "Item": line.item,
                "Price": line.price,
                "Quantity": line.quantity,
                "Monthly": line.monthly,
                **_amount_json(bill.amount(line)),
            }
            for line in bill.lines
        ],
        "Calls": dict(sorted(bill.usage.calls.items())),
        "Savings": [{"Setting": one.setting, **_amount_json(one.saved)} for one in saved],
    }


def _amount_json(amount: Amount) -> dict[str, float]:
    return {"DollarsAnHour": amount.hour, "DollarsAMonth": amount.month}
