"""A share of a processor for another process, as a Lambda function has one whose memory buys less than a whole.

Lambda bounds a function's processor time with the quota of Linux's scheduler: in each period of 20 ms its process may
use so much, and is held until the next one when that is used up.  Here it is held from outside, with no right that a
process does not have over its children: its clock is read, and it is stopped and continued by signals.  The clock of a
process that runs moves only with the kernel's ticks, up to 4 ms apart, so a period may be overdrawn; that is taken off
the next one, as the kernel does it.  What is not used is lost.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

PERIOD: Final = 0.02
LOOK: Final = 0.0005
"""Seconds between two looks at the clock, at least."""
SETTLED: Final = 0.0002
"""Seconds after which a process that was stopped stands still, and its clock is true."""
SECONDS: Final = 10
"""The longest that letting go of the process may take."""


class Share:
    """So large a part of a processor, and what a process truly got of it."""

    def __init__(self, part: float, processors: Iterable[int] = ()) -> None:
        """`processors` are those on which the process is watched; no processors are any."""
        self._part = part
        self._processors = set(processors)
        self._used = self._short = 0.0

    @property
    def got(self) -> float | None:
        """Processor time over time, in the periods in which the process was held; None where it never was."""
        return self._used / self._short if self._short else None

    @contextlib.contextmanager
    def given_to(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """Let a child have no more while the block lasts, then run on as it likes.  A whole one is not watched.

        Raises:
            TimeoutError: the process could not be let go of.
        """
        if self._part >= 1:
            yield
            return
        ended = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(self._watch, process, ended)
            try:
                yield
            finally:
                ended.set()
                watching.result(SECONDS)

    def _watch(self, process: subprocess.Popen[str], ended: threading.Event) -> None:
        if self._processors:
            os.sched_setaffinity(0, self._processors)  # of this thread alone
        try:
            with contextlib.suppress(OSError):  # the process has ended, and its clock with it
                self._hold(process, ended)
        finally:
            process.send_signal(signal.SIGCONT)

    def _hold(self, process: subprocess.Popen[str], ended: threading.Event) -> None:
        """Period after period, until the block ends or the process does."""
        clock = ~process.pid << 3 | 2  # as Linux numbers the clocks of processes
        begun, used, budget = time.monotonic(), time.clock_gettime(clock), 0.0
        end = begun + PERIOD
        while not ended.is_set() and process.poll() is None:
            budget = min(budget, 0) + self._part * PERIOD
            held = False
            while (now := time.monotonic()) < end and not ended.is_set():
                left = budget - (time.clock_gettime(clock) - used)
                if left <= 0 and not held:
                    process.send_signal(signal.SIGSTOP)
                    held = True
                ended.wait(end - now if held else min(max(left, LOOK), end - now))
            if not held:
                process.send_signal(signal.SIGSTOP)
                time.sleep(SETTLED)
            spent, now = time.clock_gettime(clock) - used, time.monotonic()
            process.send_signal(signal.SIGCONT)
            if held:
                self._used += spent
                self._short += now - begun
            begun, used, budget = now, used + spent, budget - spent
            end = max(end + PERIOD, now)
