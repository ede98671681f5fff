"""The options that `dispatchctl` was called with, and what is to be typed next, for the same application."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Final

NAME: Final = "dispatchctl"
_OF_THE_ACCOUNT: Final = ("profile", "region")
"""The options that AWS's own command line has as well."""
_typed: Final[dict[str, str]] = {}
"""The options before the command, as they were typed; those of the environment hold for the next command too."""


def note_typed(options: Mapping[str, str]) -> None:
    """Note the options before the command, by their names: those that were typed, and no others."""
    _typed.clear()
    _typed.update(options)


def command_line(command: str) -> str:
    """A command as it is to be typed next, e.g. `dispatchctl --stage Sandbox status`: for the same application."""
    return f"{_called(NAME, _typed)} {command}"


def aws_line(command: str) -> str:
    """A command of AWS's command line as it is to be typed next: for the same account."""
    return f"{_called('aws', [name for name in _OF_THE_ACCOUNT if name in _typed])} {command}"


def _called(program: str, options: Iterable[str]) -> str:
    return shlex.join([program, *(word for name in options for word in (f"--{name}", _typed[name]))])
