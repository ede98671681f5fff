"""How executions of the machines beside dispatch are waited for, and told when they fail."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from functions.domain.window import Window, utc_text
from functions.usecases.window_input import check_closed
from tools.application import Application
from tools.dispatchctl.outcome import ADVICE, where
from tools.dispatchctl.shell import CommandError, ExitCode
from tools.runs.machines import Ended, Machine, follow, start


def started(application: Application, machine: Machine, window: Window, given: dict[str, Any]) -> str:
    """Start an execution of a machine that reads one hour; its ARN.

    Raises:
        InvalidInput: the hour has not ended.
    """
    check_closed(window, utc_text(datetime.now(UTC)), "HOUR")
    return start(application, machine, {"ExecuteTime": window.end_text, **given})


def waited(application: Application, execution: str, doing: str, meanwhile: Callable[[], None] = lambda: None) -> Ended:
    """Wait for an execution's end, and say so on a screen meanwhile; Ctrl-C leaves the execution to itself.

    Raises:
        CommandError: it failed, or Ctrl-C was pressed.
    """
    try:
        with Console(stderr=True).status(f"{doing} ..."):
            ended = follow(application, execution, meanwhile)
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; execution {execution} goes on by itself", ExitCode.INTERRUPTED) from None
    if ended.error is not None:
        code = ExitCode.USAGE if ended.error == "InvalidInput" else ExitCode.FAILED
        raise CommandError(failure_text(application, ended, doing), code)
    return ended


def failure_text(application: Application, ended: Ended, doing: str) -> str:
    """A failed execution: what, why, what to do, and where to look."""
    said = f"{ended.error}: {ended.message}" if ended.message else str(ended.error)
    return "\n".join(
        (
            f"{doing} failed: {said}",
            ADVICE.get(str(ended.error), "The developers must see this."),
            f"  where  {where(application, ended.execution)}",
        )
    )


def plain_table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """A table without lines; the columns that are named as numbers stand to the right."""
    right = {*numbers}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table
