"""The kill switch, and the end of one execution."""

from typing import Annotated, Final

import typer

from tools.application import Application
from tools.command_line import NAME, command_line
from tools.dispatchctl.outcome import hours_text
from tools.dispatchctl.shell import CommandError, ExitCode, app, application_of
from tools.dispatchctl.units import some
from tools.runs.records import find_run, running

ABORTING: Final = """\
Ending one execution cuts it off wherever it is, also in the middle of a page:
  - what was sent stays sent, and the ledger knows it; nothing of a later page is begun
  - its hour is free again within seconds, when the application has noted the end
  - `{resume}` goes on with the page that was cut off, and sends nothing twice
To stop between two pages instead, and all runs, use `{stop}`."""


@app.command()
def stop(
    context: typer.Context,
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Switch it off again: runs may go on.")] = False,
    execution: Annotated[
        str | None, typer.Option(metavar="RUN", help="End this one execution at once, and no other.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before an execution is ended.")] = False,
) -> None:
    """Switch the kill switch on: every run stops before its next page, also those that are started later."""
    if clear and execution:
        raise CommandError("--clear: given together with --execution; expected one of them", ExitCode.USAGE)
    application = application_of(context)
    if execution:
        _abort(application, execution, asks=not yes)
        return
    switch(application, on=not clear)
    live = some(len(running(application)), "run")
    if clear:
        print(f"The kill switch is off; {live} at work. A stopped hour goes on with `{command_line('resume HOUR')}`.")
    else:
        print(f"The kill switch is on: {live} at work, each stops before its next page, and so does any later one.")
        look, clear_it = command_line("status"), command_line("stop --clear")
        print(f"Look at them with `{look}`; switch it off again with `{clear_it}`.")


def switch(application: Application, *, on: bool) -> None:
    """Set the kill switch."""
    application.client("ssm").put_parameter(
        Name=application.deployment.outputs["StopParameter"],
        Value="true" if on else "false",
        Type="String",
        Overwrite=True,
    )


def _abort(application: Application, name: str, *, asks: bool) -> None:
    """End an execution, after saying what that means.

    Raises:
        UnknownRunError: there is none of this name.
        CommandError: it has ended already, or the question was answered with no.
    """
    record = find_run(application, name)
    if not record.is_running:
        raise CommandError(f"execution {record.name} has ended: {record.outcome}")
    means = ABORTING.format(resume=command_line(f"resume {record.hour or 'HOUR'}"), stop=command_line("stop"))
    print(f"Execution {record.name}, of {hours_text(record.window)}\n{means}")
    if asks and not typer.confirm("End it now?"):
        raise CommandError("nothing was done")
    application.stepfunctions.stop_execution(
        executionArn=record.execution, cause=f"Stopped by an operator with {NAME}."
    )
    print(f"Ended. Next: {command_line(f'resume {record.hour}')}" if record.hour else "Ended.")
