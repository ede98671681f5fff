"""The embedded AWS with the application in it: begun and ended."""

import typer

from tools import local
from tools.bundle import build, local_target
from tools.command_line import command_line
from tools.deployment import STAGE as EMBEDDED
from tools.dispatchctl.shell import CommandError, ExitCode, app, target_of
from tools.workspace import ROOT, Workspace


@app.command()
def up(context: typer.Context) -> None:
    """Start the embedded AWS on this machine and deploy the application into it; what stands already is kept."""
    _check_embedded(context, "`make deploy` deploys to an account")
    if not (ROOT / "node_modules" / ".bin" / "cdk").exists():
        raise CommandError("the CDK is not installed; `make up` installs all that is needed, once")
    build(local_target())
    workspace = Workspace.chosen()
    local.up(workspace)
    print(f"The application is deployed; where everything is: {workspace.outputs}")
    print(f"Next: {command_line('seed')}    # put bookings into the hour before")
    print(f"      {command_line('run')}     # dispatch them")


@app.command()
def down(context: typer.Context) -> None:
    """End the embedded AWS; all that it held is gone."""
    _check_embedded(context, "`make destroy` removes a sandbox from an account, data included")
    print("The embedded AWS has ended." if local.stop(Workspace.chosen()) else "No embedded AWS was running.")


def _check_embedded(context: typer.Context, instead: str) -> None:
    """Refuse a stage that stands in an account.

    Raises:
        CommandError: it does.
    """
    stage = target_of(context).stage
    if stage != EMBEDDED:
        raise CommandError(f"the embedded AWS holds stage {EMBEDDED} only, not {stage}; {instead}", ExitCode.USAGE)
