"""Locks between processes. (Two open files stand for two processes: the system treats them alike.)"""

import time
from pathlib import Path

import pytest

from tools.filelock import LockedError, exclusive


def test_a_held_lock_is_refused_to_others_and_given_after_its_end(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with exclusive(path), pytest.raises(LockedError, match="held by another process"), exclusive(path):
        pytest.fail("two hold one lock")
    with exclusive(path):
        pass


def test_the_wait_for_a_lock_is_bounded(tmp_path: Path) -> None:
    started = time.monotonic()
    with exclusive(tmp_path / "lock"), pytest.raises(LockedError), exclusive(tmp_path / "lock", seconds=0.1):
        pytest.fail("two hold one lock")

    assert 0.1 <= time.monotonic() - started < 5
