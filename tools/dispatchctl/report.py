"""A run's report, as a page for a browser, a phone or paper."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tools.dispatchctl.shell import AsJson, CommandError, RunName, app, application_of, show
from tools.report.figures import gather, to_json
from tools.report.page import page, verdict
from tools.runs.records import RunRecord, find_run


@app.command()
def report(
    context: typer.Context,
    name: RunName = "last",
    *,
    output: Annotated[
        Path | None, typer.Option(dir_okay=False, help="The file; by default run-report-HOUR-EXECUTION.html, here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a run's report as one HTML page that needs nothing beside itself; --json prints its numbers instead."""
    application = application_of(context)
    record = find_run(application, name)
    told = gather(application, record, datetime.now(UTC))
    if as_json:
        show(to_json(told), Text, as_json=True)
        return
    file = output or Path(file_name(record))
    try:
        file.write_text(page(told), encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}") from None
    found = verdict(told)
    print(f"{found.word}: {found.sentence}")
    print(f"{file.resolve()}, {file.stat().st_size / 1000:,.0f} kB")


def file_name(record: RunRecord) -> str:
    """`run-report-2026-09-17T15-1a2b3c4d.html`: another run of the hour has another file, the same run the same."""
    return f"run-report-{record.hour or 'no-hour'}-{record.name[:8]}.html"
