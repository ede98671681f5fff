"""`doctor`: what is wrong with an account, a table or a deployed stack."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final

import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Group as Screen
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from functions.domain.cursor import DATE_ATTRIBUTE
from functions.domain.lane import MAX_SHARDS
from tools.application import Application, NotDeployedError
from tools.command_line import command_line
from tools.deployment import STACK, Deployment
from tools.deployment import STAGE as EMBEDDED
from tools.dispatchctl.shell import AsJson, CommandError, ExitCode, Target, app, show, target_of
from tools.doctor.examination import BookingsTable, Examination, Finding, Status
from tools.doctor.examine import examine, table_of
from tools.doctor.site import DeployedStack, Site, UnresolvedError

SIGNS: Final = {
    Status.OK: ("✓", "ok", "green"),
    Status.WARNING: ("!", "warning", "yellow"),
    Status.FAULT: ("✗", "FAULT", "bold red"),
    Status.NOT_CHECKED: ("·", "not checked", "dim"),
}
"""A sign, a word and a colour for each outcome; the colour says nothing that the word does not."""


@app.command()
def doctor(  # noqa: PLR0913, PLR0917 -- a command's options are its arguments
    context: typer.Context,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="A bookings table to look at before anything is deployed.")
    ] = None,
    index: Annotated[str | None, typer.Option(metavar="NAME", help="Its index of dates and times.")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="ATTRIBUTE", help="Its key; given twice, the sort key comes second."),
    ] = None,
    date_attribute: Annotated[str, typer.Option(metavar="ATTRIBUTE", help="The index's partition key.")] = (
        DATE_ATTRIBUTE
    ),
    shards: Annotated[int, typer.Option(min=0, max=MAX_SHARDS, help="Partitions of each date of the index.")] = 0,
    as_json: AsJson = False,  # noqa: FBT002 -- an option, given by its name
) -> None:
    """Name each fault of an account and a table before deployment, or of a deployed stack, with what to do.

    Nothing is changed. Exit code 4: a fault was found.
    """
    target = target_of(context)
    if table is None:
        if index or key or shards or date_attribute != DATE_ATTRIBUTE:
            raise CommandError("the other options say how a --table is made; name that too", ExitCode.USAGE)
        it = _deployed(target)
    elif not index or not key or len(key) > 2:  # noqa: PLR2004 -- a key has one or two attributes
        raise CommandError("--table needs its --index, and --key once or twice", ExitCode.USAGE)
    else:
        bookings = BookingsTable(name=table, index=index, keys=tuple(key), date_attribute=date_attribute, shards=shards)
        it = Examination(Site.of(_before(target)), bookings, None)
    findings = examine(it)
    show(to_json(it, findings), lambda: screen(it, findings), as_json=as_json)
    if any(one.status is Status.FAULT for one in findings):
        raise typer.Exit(ExitCode.FINDINGS)


def to_json(it: Examination, findings: Sequence[Finding]) -> dict[str, Any]:
    """What was found, for programs."""
    counted = Counter(one.status for one in findings)
    return {
        "Account": it.site.greeting.account or None,
        "Region": it.site.region,
        "Table": it.table.name if it.table else None,
        "Stack": it.stack.name if it.stack else None,
        "Faults": counted[Status.FAULT],
        "Warnings": counted[Status.WARNING],
        "NotChecked": counted[Status.NOT_CHECKED],
        "Findings": [
            {
                "Group": one.group.value,
                "Name": one.name,
                "Status": one.status.value,
                "Seen": one.seen,
                "Advice": None if one.status is Status.OK else one.advice,
                "Link": one.link,
            }
            for one in findings
        ],
    }


def screen(it: Examination, findings: Sequence[Finding]) -> RenderableType:
    """What was found, group by group; what is wrong once more at the end, with what to do."""
    rows = Table(box=None, pad_edge=False, show_header=False)
    rows.add_column(no_wrap=True)
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    group = None
    for one in findings:
        if one.group is not group:
            rows.add_row(Text(one.group.value.upper(), style="bold"), "", "")
            group = one.group
        sign, word, style = SIGNS[one.status]
        rows.add_row(Text(f"  {sign} {word}", style=style), one.name, Text(one.seen))
    parts: list[RenderableType] = [Text(_title(it), style="bold"), Text(), rows, Text(), _counts(findings)]
    for status in (Status.FAULT, Status.WARNING):
        for one in findings:
            if one.status is status:
                parts += [Text(), _in_full(one)]
    return Screen(*parts)


def _in_full(one: Finding) -> RenderableType:
    sign, word, style = SIGNS[one.status]
    lines = Table(box=None, pad_edge=False, show_header=False)
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    lines.add_row(Text(f"{sign} {word}", style=style), Text(one.name, style="bold"))
    for label, text in (("  seen", one.seen), ("  do", one.advice), ("  why", one.link)):
        lines.add_row(label, Text(text))
    return lines


def _title(it: Examination) -> str:
    looked_at = it.stack.name if it.stack else f"table {it.table.name}" if it.table else "the account"
    return f"{looked_at}, account {it.site.greeting.account or 'unknown'}, {it.site.region}"


def _counts(findings: Sequence[Finding]) -> Text:
    counted = Counter(one.status for one in findings)
    return Text(f"{len(findings):,} checks: " + ", ".join(f"{counted[one]:,} {SIGNS[one][1]}" for one in Status))


def _deployed(target: Target) -> Examination:
    """What is deployed; where the account cannot be asked, only the account."""
    try:
        site = Site.of(target.application())
    except NotDeployedError as error:
        before = command_line("doctor --table NAME ...")
        hint = f"before a deployment, `{before}` looks at an account and a table"
        raise CommandError(f"{error}; {hint}", ExitCode.NOT_FOUND) from None
    except (BotoCoreError, ClientError):
        site = Site.of(_before(target))
        if site.greeting.error:
            return Examination(site, None, None)
        raise
    stack = DeployedStack.read(site, f"{STACK}{target.stage}")
    try:
        return Examination(site, table_of(stack), stack)
    except UnresolvedError as error:
        raise CommandError(f"{stack.name} is no dispatcher: {error}") from None


def _before(target: Target) -> Application:
    """Who may look at an account where nothing is deployed."""
    if target.stage == EMBEDDED:
        return Application.deployed()
    account = boto3.Session(profile_name=target.profile, region_name=target.region)
    return Application(Deployment("", account.region_name, {}), account)
