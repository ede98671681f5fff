"""One emulator in a directory: start it, find it again from another process, stop it."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.filelock import LockedError, exclusive

LOOPBACK = "127.0.0.1"
REGION = "us-east-1"
START_SECONDS = 30.0
"""The longest wait for an emulator's first answer. Half a second is usual."""
STOP_SECONDS = 5.0
"""The longest wait for its end after SIGTERM, and again after SIGKILL. A tenth of a second is usual."""

_SOURCE_ROOT = Path(__file__).resolve().parents[2]
_children: dict[Path, subprocess.Popen[bytes]] = {}
"""The emulators that this process started, kept to collect their exit."""


class EmulatorError(RuntimeError):
    """An emulator does not start, answer or end as it should."""


@dataclass(frozen=True, slots=True)
class Emulator:
    """A running emulator."""

    process_id: int
    port: int
    home: Path
    """A folder that lives and dies with it, where others may note what they did to it."""

    @property
    def endpoint(self) -> str:
        """The URL that stands for every AWS service."""
        return f"http://{LOOPBACK}:{self.port}"


def start(directory: Path, *, enforce_iam: bool = False) -> Emulator:
    """Start an empty emulator that writes in `directory` only, and return when it answers.

    It listens on a free port of the loopback interface, sees nothing of this process's environment, and runs on after
    this process, until `stop`. With `enforce_iam`, a function is denied what its role does not allow.

    Raises:
        EmulatorError: one is running there already, or it does not answer in time.
    """
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        with exclusive(directory / "lock", seconds=1) as lock, socket.socket() as listener:
            _remove_remains(directory)
            venv.create(_home(directory) / "python", symlinks=True)
            (_home(directory) / "tmp").mkdir()
            listener.bind((LOOPBACK, 0))
            with _log(directory).open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tools.emulator.serve", str(listener.fileno()), str(directory)],
                    cwd=_SOURCE_ROOT,
                    env=_environment(directory, listener.getsockname()[1], enforce_iam=enforce_iam),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    # The lock lives as long as a process has it open: now the emulator holds it.
                    pass_fds=(listener.fileno(), lock.fileno()),
                    # A group of its own is not ended by a Ctrl-C at the terminal, and is ended as a whole by `stop`.
                    start_new_session=True,
                )
    except LockedError:
        raise EmulatorError(f"an emulator is running in {directory} already") from None
    _children[directory] = process
    try:
        return _ready(directory)
    except BaseException:
        stop(directory)
        raise


def running(directory: Path) -> Emulator | None:
    """The emulator that runs in `directory`, when it answers; None where there is none.

    Raises:
        EmulatorError: there is one, and it does not answer in time.
    """
    directory = directory.resolve()
    try:
        return _ready(directory)
    except EmulatorError:
        if _is_held(directory):
            raise
        return None


def stop(directory: Path) -> bool:
    """End the emulator of `directory` and its functions, and remove what it wrote; say whether one was running.

    Returns when the emulator is gone; its functions get the same signal. Its log stays.

    Raises:
        EmulatorError: it does not end.
    """
    directory = directory.resolve()
    if not directory.is_dir():
        return False
    was_running = _is_held(directory)
    if was_running:
        process_id = _recorded(directory).process_id
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process_id, signal_number)
            with contextlib.suppress(LockedError), exclusive(directory / "lock", seconds=STOP_SECONDS):
                break
    try:
        with exclusive(directory / "lock", seconds=1):
            _remove_remains(directory)
    except LockedError:
        raise EmulatorError(f"the emulator in {directory} does not end") from None
    return was_running


@contextlib.contextmanager
def serving(directory: Path, *, enforce_iam: bool = False) -> Iterator[Emulator]:
    """An emulator in `directory`, started as `start` does, for the length of a block."""
    emulator = start(directory, enforce_iam=enforce_iam)
    try:
        yield emulator
    finally:
        stop(directory)


def record_this_process(directory: Path) -> None:
    """Note this process as the emulator of `directory`. Called by the emulator, before anything else."""
    record = json.dumps({"process_id": os.getpid(), "port": int(os.environ["GATEWAY_PORT"])})
    part = _record(directory).with_suffix(".part")
    part.write_text(record)
    part.rename(_record(directory))


def function_interpreter(directory: Path) -> Path:
    """The Python that runs the functions: without any package, so that a bundle must hold all that it imports."""
    return _home(directory) / "python" / "bin" / "python"


def _environment(directory: Path, port: int, *, enforce_iam: bool) -> dict[str, str]:
    """All that the emulator, and through it a function, sees of this machine."""
    temporary = str(_home(directory) / "tmp")
    return {
        "PATH": os.defpath,
        "HOME": temporary,
        "TMPDIR": temporary,
        "TZ": "UTC",
        "PYTHONUTF8": "1",
        "GATEWAY_PORT": str(port),
        "BIND_HOST": LOOPBACK,
        "MINISTACK_HOST": LOOPBACK,  # the host in queue URLs; an address also keeps bucket names out of host names
        "MINISTACK_REGION": REGION,
        "AUTH": str(enforce_iam).lower(),
        "LOG_LEVEL": "WARNING",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        # It would remove the containers of every other ministack on this machine's Docker.
        "DOCKER_HOST": f"unix://{temporary}/no-docker",
    }


def _ready(directory: Path) -> Emulator:
    """The emulator of `directory`, once it answers."""
    emulator = _recorded(directory)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and _is_held(directory):
        connection = http.client.HTTPConnection(LOOPBACK, emulator.port, timeout=2)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/_ministack/ready")
            if connection.getresponse().status == http.client.OK:
                return emulator
        time.sleep(0.02)
    raise _no_answer(directory)


def _recorded(directory: Path) -> Emulator:
    """The emulator that runs in `directory`, which may be one that has just been started."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and _is_held(directory):
        if _record(directory).exists():
            return Emulator(**json.loads(_record(directory).read_text()), home=_home(directory))
        time.sleep(0.02)
    raise _no_answer(directory)


def _no_answer(directory: Path) -> EmulatorError:
    log = _log(directory)
    last_line = next(reversed(log.read_text().splitlines()), "nothing") if log.exists() else "nothing"
    return EmulatorError(f"the emulator does not answer; the last line of {log}: {last_line}")


def _is_held(directory: Path) -> bool:
    """Whether an emulator runs in `directory`, or starts. No ended process leaves its lock behind."""
    try:
        with exclusive(directory / "lock"):
            return False
    except LockedError:
        return True
    except FileNotFoundError:
        return False


def _home(directory: Path) -> Path:
    return directory / "run"


def _record(directory: Path) -> Path:
    return _home(directory) / "instance.json"


def _log(directory: Path) -> Path:
    return directory / "log.txt"


def _remove_remains(directory: Path) -> None:
    """Remove what an ended emulator left in `directory`, its log excepted. The caller holds the lock."""
    if child := _children.pop(directory, None):
        child.wait(STOP_SECONDS)
    shutil.rmtree(_home(directory), ignore_errors=True)
