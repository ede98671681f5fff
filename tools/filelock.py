"""Exclusive locks between processes, which end with the process that holds them."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


class LockedError(TimeoutError):
    """Another process holds the lock."""


@contextmanager
def exclusive(path: Path, *, seconds: float = 0.0) -> Iterator[IO[bytes]]:
    """Hold the lock file `path`, after waiting for it for at most `seconds`.

    The lock belongs to the open file that is handed out: a child process that inherits it holds the lock on, and the
    system drops it with the last process that has it open, however that ends.

    Raises:
        LockedError: another process still holds it.
    """
    deadline = time.monotonic() + seconds
    with path.open("ab") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise LockedError(f"{path} is held by another process") from None
                time.sleep(0.02)
        yield lock
