"""What all commands share: which application they speak to, how they print, and the codes they exit with.

A command is a function with `@app.command()` in a module of this package that `__main__` imports.  It gets its
application from `application_of`, and prints what it found through `show`, as a screen or as JSON.
"""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console, RenderableType

from tools.application import Application
from tools.command_line import NAME, note_typed
from tools.deployment import STAGE as EMBEDDED

PICTURE_WIDTH: Final = 126
_SVG: Final = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""A picture fetches no font: it takes what stands behind the first one."""
PIPED_WIDTH: Final = 140
"""Columns of what is written to a file or a pipe, where there is no screen that could be too narrow."""


class ExitCode(IntEnum):
    """What a command exits with."""

    DONE = 0
    FAILED = 1
    """It could not be done; the last lines say why."""
    USAGE = 2
    """The command line, or a field of an input, is refused; nothing was done."""
    NOT_FOUND = 3
    """What was named is not there: a stack, a run, a booking."""
    FINDINGS = 4
    """It was done, and found what a person must see: differences, faults, a gate that was not passed."""
    INTERRUPTED = 130
    """Ctrl-C; what was started goes on."""


class CommandError(Exception):
    """A command ends here: the message says why, in words for the one who called it."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Target:
    """Which application is meant."""

    stage: str
    profile: str | None
    region: str | None

    def application(self) -> Application:
        """The application, as it stands there.

        Raises:
            NotDeployedError: it does not.
            ClientError, BotoCoreError: the account cannot be asked.
        """
        if self.stage == EMBEDDED:
            return Application.deployed()
        return Application.in_account(self.stage, self.profile, self.region)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a screen.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="`last`, an hour, a run's id, or an execution (its first 8 letters do).")
]

_recording: Final[list[Console]] = []
"""What a picture is taken of, where one was asked for."""

app: Final = typer.Typer(
    name=NAME,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Run the Bookingtime Dispatcher, look at its runs, and mend what went wrong.",
    epilog="Exit codes: 0 done, 1 failed, 2 refused input, 3 not found, 4 done with findings, 130 interrupted.",
)


@app.callback()
def options(
    context: typer.Context,
    stage: Annotated[
        str,
        typer.Option(envvar="DISPATCHER_STAGE", help=f"{EMBEDDED} is the embedded AWS, any other one in an account."),
    ] = EMBEDDED,
    profile: Annotated[str | None, typer.Option(envvar="AWS_PROFILE", help="The account's profile.")] = None,
    region: Annotated[str | None, typer.Option(envvar="AWS_REGION", help="The account's region.")] = None,
    picture: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Write the screen as a picture, too.")
    ] = None,
) -> None:
    """Note which application the command speaks to; it is asked for only where the command needs it."""
    context.obj = Target(stage, profile, region)
    if picture is not None:
        recording = Console(record=True, width=PICTURE_WIDTH)
        _recording[:] = [recording]
        title = f"{NAME} {context.invoked_subcommand}"
        context.call_on_close(lambda: recording.save_svg(str(picture), title=title, code_format=_SVG))
    given = {"stage": stage, "profile": profile, "region": region}
    typed = (name for name in given if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE")
    note_typed({name: str(given[name]) for name in typed})


def target_of(context: typer.Context) -> Target:
    """Which application the command line names."""
    target: Target = context.obj
    return target


def application_of(context: typer.Context) -> Application:
    """The application that the command line names; raises as `Target.application`."""
    return target_of(context).application()


def show(data: Any, view: Callable[[], RenderableType], *, as_json: bool) -> None:
    """Print `data` as JSON, or as the screen that `view` makes of it."""
    if as_json:
        print(json.dumps(data, indent=2))
    else:
        screen().print(view())


def screen() -> Console:
    """Where screens are printed: as wide as the terminal, or as the picture that is taken."""
    if _recording:
        return _recording[0]
    return Console() if sys.stdout.isatty() else Console(width=PIPED_WIDTH)
