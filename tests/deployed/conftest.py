"""One instance for all tests of this folder: an embedded AWS of its own, which enforces every function's rights."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.deployed.application import QUEUES, Application, Day, Execution, OnCall
from tests.deployed.wire import Wire, wait_until
from tools.application import Application as Deployed
from tools.bundle import build, local_target
from tools.deployment import Deployment
from tools.filelock import LockedError, exclusive
from tools.local import stop, up
from tools.runs.redos import answer
from tools.worker import Worker
from tools.workspace import ROOT, Workspace

LAST = ("test_readme", "test_documents", "test_logs", "test_stop")
"""The modules that come after all others, in this order."""

COMMAND_SECONDS = 240.0
"""The longest that a command may take.  `make run`, the longest of them, takes twenty on an idle machine."""

Make: TypeAlias = Callable[[str], str]
"""Runs a command of the Makefile, and returns what it printed."""

COMMAND = [sys.executable, "-m", "tools.dispatchctl"]


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


Ctl: TypeAlias = Callable[..., Printed]
"""Runs a command line of `dispatchctl`."""


def environment(directory: Path) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DISPATCHER_"))}
    return {**ours, "DISPATCHER_STATE_DIR": str(directory)}


Redo: TypeAlias = Callable[..., Execution]
"""Runs the redo of a report that Ann asks for; `by` answers it, and without one nobody is to be asked."""

_STOP_WITH_THE_PARENT = """
import sys
from pathlib import Path
from tools.local import stop
from tools.workspace import Workspace
sys.stdin.read()
stop(Workspace(Path(sys.argv[1])))
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        if Path(__file__).parent not in item.path.parents:
            return 0
        return 2 + LAST.index(item.path.stem) if item.path.stem in LAST else 1

    items.sort(key=rank)


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Where the instance lives, apart from a developer's.  Of pytest-xdist's workers only one gets it."""
    base = tmp_path_factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    try:
        with exclusive(common / "deployed.lock"):
            yield Workspace(tmp_path_factory.mktemp("deployed"))
    except LockedError:
        pytest.fail("the tests of one instance must run in one process: leave out -n, or give -n 0")


@pytest.fixture(scope="session")
def application(workspace: Workspace) -> Iterator[Application]:
    build(local_target())
    with stopped_at_the_end(workspace):
        deployment = up(workspace, enforce_iam=True)
        wire = Wire(deployment.endpoint)
        with wire.serving():
            application = Application(deployment, wire)
            application.use_the_wire()
            yield application


@pytest.fixture
def day(application: Application) -> Day:
    return application.new_day()


@pytest.fixture
def make(workspace: Workspace) -> Make:
    """`make` as a reader of the README calls it, but on the tests' own instance."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment = {**inherited, "DISPATCHER_STATE_DIR": str(workspace.directory)}

    def run(target: str) -> str:
        with subprocess.Popen(  # noqa: S603 - a command of the README
            ["make", target],  # noqa: S607 - as a reader types it
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=COMMAND_SECONDS)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, printed
        return printed

    return run


@pytest.fixture
def ctl(application: Application, workspace: Workspace) -> Ctl:
    del application  # only that it stands

    def run(line: str, *, directory: Path = workspace.directory, expect: int = 0) -> Printed:
        done = subprocess.run(  # noqa: S603 -- our own command
            [*COMMAND, *shlex.split(line)],
            cwd=ROOT,
            env=environment(directory),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        printed = Printed(done.returncode, done.stdout, done.stderr)
        assert printed.code == expect, printed
        return printed

    return run


@pytest.fixture
def on_call(application: Application) -> Iterator[OnCall]:
    with application.on_call() as on_call:
        yield on_call


@pytest.fixture
def redo(application: Application) -> Redo:
    def run(report: dict[str, Any], *, by: str | None = None, verdict: str = "--approve") -> Execution:
        asked = {"Report": report, "RequestedBy": "Ann", "Reason": "It arrived late."}
        execution = application.start(asked, "Redo")
        if by is not None:
            assert wait_until(lambda: execution in application.waiting_redos())
            dynamodb, stepfunctions = map(application.client, ("dynamodb", "stepfunctions"))
            ledger, approved = application.outputs["LedgerTableName"], verdict == "--approve"
            answer(dynamodb, stepfunctions, ledger, execution, approved=approved, by=by)
        return application.end(execution)

    return run


@pytest.fixture
def worker(application: Application) -> Iterator[Worker]:
    """The worker, switched off, with empty queues before it, and no dead letter behind it."""
    sqs = application.client("sqs")
    for queue in QUEUES.values():
        sqs.purge_queue(QueueUrl=application.outputs[queue])
    deployment = Deployment(endpoint=application.endpoint, region="us-east-1", outputs=application.outputs)
    worker = Worker(Deployed(deployment))
    yield worker
    worker.switch(on=False)
    application.purge_dead_letters()


@contextmanager
def stopped_at_the_end(workspace: Workspace) -> Iterator[None]:
    """Stop the instance behind a block, and also when this process is killed: then the watcher's input ends."""
    command = [sys.executable, "-c", _STOP_WITH_THE_PARENT, str(workspace.directory)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True) as watcher:  # noqa: S603 - our own command
        assert watcher.stdin is not None
        try:
            yield
        finally:
            stop(workspace)
            watcher.kill()
