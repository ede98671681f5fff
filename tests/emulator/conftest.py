"""An emulator for the tests of its patches, and small functions and state machines on it."""

import base64
import io
import json
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tools.emulator.access import client_settings, session
from tools.emulator.instance import Emulator, serving

ROLE = "arn:aws:iam::000000000000:role/function"
EXECUTION_SECONDS = 20.0


@dataclass(frozen=True)
class Invocation:
    """What one invocation answered."""

    payload: Any
    error: str | None
    log: str
    seconds: float


@dataclass(frozen=True)
class Bench:
    """An emulator and what the tests do on it."""

    emulator: Emulator

    def client(self, service: str) -> Any:
        """A client of the emulator, as root."""
        return _client(service, self.emulator.endpoint)

    def create_function(self, name: str, source: str, *, role: str = ROLE, timeout: int = 5) -> str:
        """A function whose `handler` is in `source`; its ARN."""
        answer = self.client("lambda").create_function(
            FunctionName=name,
            Runtime="python3.12",
            Handler="app.handler",
            Role=role,
            Code={"ZipFile": archive_of(source)},
            Timeout=timeout,
        )
        return str(answer["FunctionArn"])

    def invoke(self, function: str, event: Any = None) -> Invocation:
        """Invoke a function and read its answer and its log."""
        client = self.client("lambda")
        started = time.monotonic()
        answer = client.invoke(FunctionName=function, Payload=json.dumps(event), LogType="Tail")
        seconds = time.monotonic() - started
        log = base64.b64decode(answer.get("LogResult", "")).decode()
        return Invocation(json.load(answer["Payload"]), answer.get("FunctionError"), log, seconds)

    def execute(self, states: dict[str, Any], run_input: Any) -> dict[str, Any]:
        """Run a state machine of `states`, whose first one starts, to its end."""
        stepfunctions = self.client("stepfunctions")
        machine = stepfunctions.create_state_machine(
            name=f"machine-{time.monotonic_ns()}",
            definition=json.dumps({"StartAt": next(iter(states)), "States": states}),
            roleArn=ROLE,
        )["stateMachineArn"]
        execution = stepfunctions.start_execution(stateMachineArn=machine, input=json.dumps(run_input))["executionArn"]
        deadline = time.monotonic() + EXECUTION_SECONDS
        while time.monotonic() < deadline:
            described: dict[str, Any] = stepfunctions.describe_execution(executionArn=execution)
            if described["status"] != "RUNNING":
                return described
            time.sleep(0.05)
        pytest.fail(f"{execution} did not end")


def archive_of(source: str) -> bytes:
    """A code archive whose one module is `app`."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as code:
        code.writestr("app.py", source)
    return archive.getvalue()


@cache
def _client(service: str, endpoint: str) -> Any:
    make: Any = session().client
    return make(service, **client_settings(endpoint))


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with serving(Path(tmp_path_factory.mktemp("emulator"))) as emulator:
        yield Bench(emulator)


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """An emulator that enforces IAM."""
    with serving(Path(tmp_path_factory.mktemp("guarded")), enforce_iam=True) as emulator:
        yield Bench(emulator)
