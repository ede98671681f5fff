"""Bounded side-by-side work: one pool of threads for each process, as wide as the clients' connection pools."""

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final, TypeVar

THREADS: Final = 16
"""Past 16 threads boto3 only burns CPU."""
SWITCH_SECONDS: Final = 0.001
"""So long a thread that computes holds up those that could make a call; Python's own 5 ms are a third of one."""

_Piece = TypeVar("_Piece")


@functools.cache
def _executor() -> ThreadPoolExecutor:
    sys.setswitchinterval(SWITCH_SECONDS)
    return ThreadPoolExecutor(THREADS, thread_name_prefix="aws")


def each(work: Callable[[_Piece], None], pieces: Iterable[_Piece]) -> None:
    """Do `work` for every piece, THREADS at a time.

    The first failure is raised, also one of making a piece.  No piece is begun after it, and those under way have ended
    when this returns.
    """
    failed = threading.Event()

    def guarded(piece: _Piece) -> None:
        if failed.is_set():
            return
        try:
            work(piece)
        except BaseException:
            failed.set()
            raise

    futures: list[Future[None]] = []
    try:
        futures.extend(_executor().submit(guarded, piece) for piece in pieces)
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:
        for future in futures:
            future.cancel()
        wait(futures)
    for future in futures:
        if not future.cancelled():
            future.result()


@contextmanager
def beside(work: Callable[[], None]) -> Iterator[None]:
    """Do `work` while the block runs; where the block ends it has ended too, and what it raised is raised."""
    future = _executor().submit(work)
    try:
        yield
    finally:
        wait([future])
    future.result()
