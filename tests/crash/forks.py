"""Each case in a fork of this process: all begin in the same state, and none sees what another did."""

import contextlib
import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, Generic, TypeVar

CASE_SECONDS: Final = 120
"""A case that takes longer hangs. One second is usual."""

_FORKS: Final = multiprocessing.get_context("fork")
_Case = TypeVar("_Case")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class _Fork(Generic[_Case]):
    case: _Case
    process: BaseProcess
    ends_at: float


def in_forks(
    work: Callable[[_Case], _Result], cases: Iterable[_Case], lanes: int = os.cpu_count() or 1
) -> Iterator[tuple[_Case, _Result | None]]:
    """Do `work` for every case, `lanes` at a time; None is the result of one that hung or broke down."""
    waiting = iter(cases)
    running: dict[Connection, _Fork[_Case]] = {}
    gc.freeze()  # or the collector of each fork would copy all that they share
    try:
        while True:
            while len(running) < lanes and (case := next(waiting, None)) is not None:
                here, there = _FORKS.Pipe(duplex=False)
                process = _FORKS.Process(target=_report, args=(work, case, there), daemon=True)
                process.start()
                there.close()
                running[here] = _Fork(case, process, time.monotonic() + CASE_SECONDS)
            if not running:
                return
            ready = wait(list(running), timeout=1)
            for here, fork in list(running.items()):
                if here in ready or time.monotonic() > fork.ends_at:
                    del running[here]
                    yield fork.case, _result(here, fork.process, over=here not in ready)
    finally:
        for fork in running.values():
            fork.process.kill()


def _report(work: Callable[[_Case], _Result], case: _Case, there: Connection) -> None:
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        there.send(work(case))


def _result(here: Connection, process: BaseProcess, *, over: bool) -> _Result | None:
    if over:
        process.kill()
    try:
        return None if over else here.recv()
    except EOFError:
        return None
    finally:
        process.join()
        here.close()
