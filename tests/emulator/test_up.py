"""`make up` and `make stop`, with a small application whose cloud assembly is written by hand."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools import deployment
from tools.deployment import DeploymentError
from tools.emulator import instance
from tools.emulator.instance import Emulator
from tools.local import stop, up
from tools.workspace import ROOT, Workspace

APPLICATION = """
import json, os, pathlib

assembly = pathlib.Path(os.environ["CDK_OUTDIR"])
template = {
    "Resources": {"Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "tasks-%s"}}},
    "Outputs": {"PointTaskQueueUrl": {"Value": {"Ref": "Queue"}}},
}
stack = {
    "type": "aws:cloudformation:stack",
    "environment": "aws://unknown-account/unknown-region",
    "properties": {"templateFile": "template.json"},
}
(assembly / "template.json").write_text(json.dumps(template))
(assembly / "manifest.json").write_text(
    json.dumps({"version": "36.0.0", "artifacts": {"BookingtimeDispatcherLocal": stack}})
)
with open("synthesized", "a") as count:
    count.write("x")
"""


class Project:
    """A folder with an application, and a workspace to deploy it in."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.workspace = Workspace(directory / "state")
        self.root.mkdir()
        (self.root / "cdk.json").write_text(json.dumps({"app": "python3 app.py"}))
        self.write("first")
        for name in deployment.INPUTS:
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).touch()

    def write(self, queue: str) -> None:
        (self.root / "app.py").write_text(APPLICATION % queue)

    def up(self) -> dict[str, str]:
        return up(self.workspace, root=self.root).outputs

    def emulator(self) -> Emulator:
        emulator = instance.running(self.workspace.emulator)
        assert emulator is not None
        return emulator

    def times_synthesized(self) -> int:
        return len((self.root / "synthesized").read_text())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """One for all tests, since starting from nothing takes seconds: each begins with what it needs."""
    project = Project(tmp_path_factory.mktemp("project"))
    yield project
    stop(project.workspace)


def test_up_deploys_and_says_where_everything_is(project: Project) -> None:
    outputs = project.up()

    said = json.loads(project.workspace.outputs.read_text())
    assert set(said) == {"endpoint", "region", "outputs"}
    assert said["outputs"] == outputs
    assert outputs["PointTaskQueueUrl"] == f"{said['endpoint']}/000000000000/tasks-first"


def test_a_second_up_uses_what_stands_already(project: Project) -> None:
    first, emulator, synthesized = project.up(), project.emulator(), project.times_synthesized()
    project.workspace.outputs.unlink()

    assert project.up() == first
    assert project.emulator() == emulator
    assert project.times_synthesized() == synthesized
    assert project.workspace.outputs.exists()


def test_a_changed_source_is_deployed_into_the_same_emulator(project: Project) -> None:
    project.up()
    emulator = project.emulator()
    project.write("second")
    try:
        assert project.up()["PointTaskQueueUrl"].endswith("/tasks-second")
        assert project.emulator() == emulator
    finally:
        project.write("first")


def test_two_ups_at_once_make_one_emulator(project: Project) -> None:
    stop(project.workspace)
    with ThreadPoolExecutor(2) as pool:
        first, second = [pool.submit(project.up) for _ in range(2)]

    assert first.result() == second.result()


def test_a_killed_emulator_is_replaced_and_deployed_into_without_another_synthesis(project: Project) -> None:
    project.up()
    killed, synthesized = project.emulator(), project.times_synthesized()
    os.killpg(killed.process_id, signal.SIGKILL)

    assert project.up()["PointTaskQueueUrl"].endswith("/tasks-first")
    assert project.emulator().process_id != killed.process_id
    assert project.times_synthesized() == synthesized


def test_a_deployment_that_failed_is_made_up_for_by_the_next_up(project: Project) -> None:
    stop(project.workspace)
    (project.root / "app.py").write_text("raise SystemExit('the application is broken')")
    try:
        with pytest.raises(DeploymentError, match="the application is broken"):
            project.up()
        assert not project.workspace.outputs.exists()
    finally:
        project.write("first")

    assert project.up()["PointTaskQueueUrl"].endswith("/tasks-first")


def test_the_callers_aws_configuration_is_not_used(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    stop(project.workspace)
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-caller")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")

    assert project.up()["PointTaskQueueUrl"].endswith("/tasks-first")


def test_stop_takes_the_outputs_away(project: Project) -> None:
    project.up()

    assert stop(project.workspace)
    assert not project.workspace.outputs.exists()
    assert not stop(project.workspace)


def test_the_workspace_is_chosen_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPATCHER_STATE_DIR", raising=False)
    assert Workspace.chosen() == Workspace(ROOT / ".local")

    monkeypatch.setenv("DISPATCHER_STATE_DIR", str(tmp_path))
    assert Workspace.chosen() == Workspace(tmp_path)
