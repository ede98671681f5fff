"""Engines that stand for AWS in tests: each is a child process that ends with this one, however that ends.

A child writes its endpoint as one line and ends when its standard input does. The system closes that input together
with the process that holds the other end, so no engine outlives a test run that was killed.
"""

import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.emulator.instance import EmulatorError, serving
from tools.workspace import ROOT

START_SECONDS: Final = 40.0
"""The longest wait for an engine's endpoint. Half a second is usual."""
STOP_SECONDS: Final = 20.0
"""The longest wait for an engine's end. A tenth of a second is usual."""

_DYNALITE: Final = """
const server = require("dynalite")({ createTableMs: 0, deleteTableMs: 0, updateTableMs: 0 });
server.keepAliveTimeout = 75000;
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
process.stdin.on("end", () => process.exit()).resume();
"""


@contextmanager
def ministack(directory: Path) -> Iterator[str]:
    """The endpoint of an empty ministack that writes in `directory` only."""
    with _child([sys.executable, "-m", "tests.engines", str(directory)]) as endpoint:
        yield endpoint


@contextmanager
def dynalite() -> Iterator[str]:
    """The endpoint of an empty dynalite, a second engine of DynamoDB, which keeps all in memory.

    Raises:
        EmulatorError: it is not installed, or does not start.
    """
    if not (ROOT / "node_modules" / "dynalite").is_dir():
        raise EmulatorError("dynalite is not installed: run `npm ci`")
    with _child(["node", "-e", _DYNALITE]) as endpoint:
        yield endpoint


@contextmanager
def _child(command: Sequence[str]) -> Iterator[str]:
    with subprocess.Popen(  # noqa: S603 - the commands above
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
            endpoint = process.stdout.readline().decode().strip() if ready else ""
            if not endpoint:
                raise EmulatorError(f"no answer from {command[0]} {command[1]}")
            yield endpoint
        finally:
            process.stdin.close()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


if __name__ == "__main__":
    with serving(Path(sys.argv[1])) as emulator:
        print(emulator.endpoint, flush=True)  # noqa: T201 - this line is what the parent waits for
        sys.stdin.read()
