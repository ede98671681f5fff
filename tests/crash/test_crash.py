"""Both proofs as the operator runs them, the second one as a sample; each in a process of its own, for it forks."""

import re
import subprocess
import sys
from typing import Final

from tools.workspace import ROOT

POINTS_SECONDS: Final = 1800
WORKER_SECONDS: Final = 300
SOAK_SECONDS: Final = 1500


def last_line(*arguments: str, seconds: int) -> str:
    """The last line of what it prints; an error with all of it if it fails."""
    command = [sys.executable, "-m", "tests.crash", *arguments]
    ended = subprocess.run(  # noqa: S603 -- the command above
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout.splitlines()[-1]


def test_whatever_call_goes_wrong_nothing_is_lost_and_nothing_goes_out_twice() -> None:
    line = last_line("points", seconds=POINTS_SECONDS)

    found = re.fullmatch(r"crash-test: (\d+) cases, 0 lost, 0 dispatched twice, (\d+) repeats \(worst (\d+)\)", line)
    assert found, line
    cases, repeats, worst = map(int, found.groups())
    assert cases > 500
    assert repeats > 0, "no repeat at all: nothing was broken off while a page was sending"
    assert worst <= 4, "a page has two tasks, and two faults are the most"


def test_a_worker_that_is_killed_at_any_call_grants_each_record_version_once() -> None:
    line = last_line("worker", seconds=WORKER_SECONDS)

    found = re.fullmatch(r"worker: (\d+) cases, 0 failed, done after (\d+) deliveries at the most", line)
    assert found, line
    cases, deliveries = map(int, found.groups())
    assert cases > 100
    assert deliveries == 3, "two faults break off two deliveries"


def test_random_schedules_of_faults_changes_and_rival_runs_lose_nothing_are_mended_and_granted_once() -> None:
    line = last_line("soak", "--schedules", "40", seconds=SOAK_SECONDS)

    found = re.fullmatch(
        r"soak: 40 schedules, 0 lost, 0 dispatched twice, \d+ repeats, (\d+) redone, (\d+) granted", line
    )
    assert found, line
    redone, granted = map(int, found.groups())
    assert redone > 40, "reconcile found next to nothing: all was dispatched before"
    assert granted > 100
