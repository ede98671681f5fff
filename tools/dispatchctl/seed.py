"""Bookings to try an hour with."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import track

from functions.domain.booking import is_waiting
from tools.application import Application
from tools.command_line import command_line
from tools.deployment import STACK
from tools.dispatchctl.outcome import hours_text
from tools.dispatchctl.shell import CommandError, ExitCode, app, application_of, target_of
from tools.dispatchctl.units import some
from tools.runs.records import hour_of, hour_text, last_closed_hour
from tools.samples import Item, any_hour
from tools.seed import put_new

CHUNK: Final = 50
MOST: Final = 1_000_000


@app.command()
def seed(  # noqa: PLR0913 -- a command's options are its arguments
    context: typer.Context,
    *,
    hour: Annotated[
        str | None,
        typer.Option(metavar="HOUR", help="Such as 2026-09-17T15, in UTC. The hour before now, if not given."),
    ] = None,
    bookings: Annotated[int, typer.Option(min=1, max=MOST, help="How many.")] = 1000,
    members: Annotated[int | None, typer.Option(min=1, help="Of about so many members; a third if not given.")] = None,
    bad: Annotated[int, typer.Option(min=0, help="So many of them are bad data, which is set aside.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Another number makes other bookings, the same one the same.")] = 0,
) -> None:
    """Put made-up bookings into the bookings table, to try an hour with. What stands there is never overwritten."""
    application = application_of(context)
    window = hour_of(hour, "--hour") if hour else last_closed_hour(datetime.now(UTC))
    check_own_table(application, f"{STACK}{target_of(context).stage}")
    made = any_hour(window, bookings, members, bad, seed)
    table = application.deployment.outputs["BookingTableName"]
    starts = track(
        range(0, len(made), CHUNK),
        description=f"Seeding {hour_text(window)}",
        console=Console(stderr=True),
        transient=True,
    )
    chunks = (made[start : start + CHUNK] for start in starts)
    new = sum(put_new(application.dynamodb, table, chunk, application.partitions) for chunk in chunks)
    there = f"; {len(made) - new:,} of the same names were there, and stay as they are" if new < len(made) else ""
    print(f"{some(new, 'booking')} put into {table} for {hours_text(window)}{there}.")
    print(f"Next: {command_line(f'run --hour {hour_text(window)}')}")
    for what, record in examples(made, bad).items():
        print(f"      {command_line(f'why {record}')}  # {what}")


def examples(made: Sequence[Item], bad: int) -> dict[str, str]:
    """Records to look at: one that waits for its reward, one that does not, and one that is bad data, if any."""
    waiting = [booking for booking in made if is_waiting(booking)]
    resting = [booking for booking in made if not is_waiting(booking)]
    found = {
        "one that waits": waiting[:1],
        "one that does not wait": resting[:1],
        # The last of those that wait are spoilt.
        "one that is bad data": waiting[-1:] if bad else [],
    }
    return {what: booking["RecordId"]["S"] for what, bookings in found.items() for booking in bookings}


def check_own_table(application: Application, stack: str) -> None:
    """Refuse to write into a bookings table that the stack has not made itself: it is the platform's.

    Raises:
        CommandError: it has not.
    """
    table = application.deployment.outputs["BookingTableName"]
    pages = application.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    made = {each.get("PhysicalResourceId") for page in pages for each in page["StackResourceSummaries"]}
    if table not in made:
        raise CommandError(
            f"{table} was not made by {stack}: it is imported, and only its owner writes bookings into it."
            " `seed` is for stages that have a table of their own, as Local and Sandbox",
            ExitCode.USAGE,
        )
