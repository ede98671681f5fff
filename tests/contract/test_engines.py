"""The engines of these tests: neither is left out, and none outlives the process that started it."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests import engines
from tools.emulator.instance import EmulatorError
from tools.workspace import ROOT

START_AND_HANG = """
import sys, time
from pathlib import Path
from tests import engines
engine = engines.dynalite() if sys.argv[1] == "dynalite" else engines.ministack(Path(sys.argv[2]))
with engine as endpoint:
    print(endpoint, flush=True)
    time.sleep(60)
"""


def answers(endpoint: str) -> bool:
    try:
        urllib.request.urlopen(endpoint, timeout=5).close()  # noqa: S310 - a loopback endpoint
    except urllib.error.HTTPError as error:
        error.close()
    except OSError:
        return False
    return True


def test_an_engine_ends_even_where_its_starter_is_killed(engine: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", START_AND_HANG, engine, str(tmp_path / engine)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:  # noqa: S603 - ours
        assert starter.stdout is not None
        endpoint = starter.stdout.readline().strip()
        assert answers(endpoint)
        starter.kill()
    deadline = time.monotonic() + engines.STOP_SECONDS
    while answers(endpoint):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_missing_second_engine_is_an_error_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engines, "ROOT", tmp_path)
    with pytest.raises(EmulatorError, match=r"^dynalite is not installed: run `npm ci`$"), engines.dynalite():
        pass
