"""How a developer command ends."""

import sys
from collections.abc import Callable
from typing import Final, NoReturn

INTERRUPTED: Final = 130
"""The exit code of a command that Ctrl-C ended: what a shell makes of SIGINT."""


def leave(command: Callable[[], int | None], *, interrupted: str) -> NoReturn:
    """Run `command` and exit with its code; on Ctrl-C say `interrupted`, instead of where it was."""
    try:
        code = command()
    except KeyboardInterrupt:
        print(f"\nInterrupted; {interrupted}", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)
