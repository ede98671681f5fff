"""Starting, finding and stopping emulators."""

import multiprocessing
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.emulator.conftest import Bench
from tools.emulator import instance
from tools.emulator.instance import EmulatorError
from tools.workspace import ROOT

SHOWING = """
import os

def handler(event, context):
    return {"pid": os.getpid(), "environment": dict(os.environ)}
"""


def _is_alive(process_id: int) -> bool:
    """Whether a process runs. One that has ended and was not yet collected by its parent does not."""
    stat = Path(f"/proc/{process_id}/stat")
    try:
        os.kill(process_id, 0)
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _ends(process_id: int) -> bool:
    """Whether a process has ended, or does so within five seconds."""
    deadline = time.monotonic() + 5
    while _is_alive(process_id) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not _is_alive(process_id)


def test_an_emulator_listens_on_the_loopback_address_only(bench: Bench) -> None:
    # Every address of 127.0.0.0/8 reaches a socket that is bound to all interfaces.
    with socket.socket() as caller:
        caller.settimeout(1)
        assert caller.connect_ex(("127.0.0.2", bench.emulator.port)) != 0


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells the sockets of a process")
def test_an_emulator_opens_no_other_port(bench: Bench) -> None:
    process = Path(f"/proc/{bench.emulator.process_id}")
    own = {link.readlink().name.removeprefix("socket:[").removesuffix("]") for link in (process / "fd").iterdir()}
    rows = [row.split() for name in ("tcp", "tcp6") for row in (process / "net" / name).read_text().splitlines()[1:]]
    listening = {row[1] for row in rows if row[3] == "0A" and row[9] in own}

    assert listening == {f"0100007F:{bench.emulator.port:04X}"}


def test_a_function_sees_nothing_of_the_callers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "the-callers-own")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TZ", "Asia/Singapore")
    with instance.serving(tmp_path) as emulator:
        bench = Bench(emulator)
        environment = bench.invoke(bench.create_function("showing", SHOWING)).payload["environment"]

    assert not {"AWS_PROFILE", "HTTPS_PROXY", "PYTHONPATH"} & environment.keys()
    assert environment["TZ"] == "UTC"
    assert environment["HOME"].startswith(str(tmp_path))
    assert environment["AWS_ENDPOINT_URL"] == emulator.endpoint


def test_stopping_leaves_no_process_and_no_file_but_the_log(tmp_path: Path) -> None:
    with instance.serving(tmp_path) as emulator:
        bench = Bench(emulator)
        worker = bench.invoke(bench.create_function("showing", SHOWING)).payload["pid"]
        assert _is_alive(worker)

        assert instance.stop(tmp_path)

        assert not _is_alive(emulator.process_id)
        assert _ends(worker)
        assert {path.name for path in tmp_path.iterdir()} == {"lock", "log.txt"}
        assert not instance.stop(tmp_path)


def test_two_emulators_stand_side_by_side_and_share_nothing(tmp_path: Path, bench: Bench) -> None:
    bench.client("s3").create_bucket(Bucket="here")
    with instance.serving(tmp_path) as other:
        assert other.port != bench.emulator.port
        assert Bench(other).client("s3").list_buckets()["Buckets"] == []


def test_a_second_emulator_in_one_directory_is_refused(tmp_path: Path) -> None:
    with instance.serving(tmp_path) as emulator:
        with pytest.raises(EmulatorError, match="is running"):
            instance.start(tmp_path)
        assert instance.running(tmp_path) == emulator


def test_an_emulator_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    starter = multiprocessing.get_context("spawn").Process(target=instance.start, args=(tmp_path,))
    starter.start()
    starter.join(60)
    try:
        assert starter.exitcode == 0
        assert instance.running(tmp_path) is not None
    finally:
        assert instance.stop(tmp_path)


def test_what_a_killed_emulator_left_behind_is_not_taken_for_a_running_one(tmp_path: Path) -> None:
    with instance.serving(tmp_path) as killed:
        os.killpg(killed.process_id, signal.SIGKILL)

        assert instance.running(tmp_path) is None
        assert (killed.home / "instance.json").exists()
        assert not instance.stop(tmp_path)
    with instance.serving(tmp_path) as next_one:
        assert instance.running(tmp_path) == next_one


def test_an_emulator_that_hangs_is_reported_and_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with instance.serving(tmp_path) as hanging:
        monkeypatch.setattr(instance, "START_SECONDS", 0.5)
        monkeypatch.setattr(instance, "STOP_SECONDS", 0.5)
        os.kill(hanging.process_id, signal.SIGSTOP)

        with pytest.raises(EmulatorError, match="does not answer"):
            instance.running(tmp_path)
        assert instance.stop(tmp_path)
        assert not _is_alive(hanging.process_id)


def test_an_emulator_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").touch()
    monkeypatch.setattr(instance, "_SOURCE_ROOT", tmp_path)

    with pytest.raises(EmulatorError, match=r"No module named 'tools\.emulator'"):
        instance.start(tmp_path / "emulator")
