"""The embedded AWS on this machine, with the application in it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tools.deployment import Deployment, deploy, write_whole
from tools.emulator import instance
from tools.emulator.instance import Emulator, EmulatorError
from tools.filelock import exclusive
from tools.workspace import ROOT, Workspace

WAIT_SECONDS: Final = 300.0
"""The longest wait for another `up` in the same workspace."""


def up(workspace: Workspace, *, root: Path = ROOT, enforce_iam: bool = False) -> Deployment:
    """Have an emulator with the application of `root` deployed in `workspace`, and say so in its `outputs.json`.

    What runs and stands already is used. Cut off at any point, the next call completes it. `enforce_iam` is for the
    emulator that is started (see `instance.start`).

    Raises:
        EmulatorError: the emulator does not start.
        DeploymentError: a cdk command failed.
        LockedError: another process is at it for too long.
    """
    workspace.directory.mkdir(parents=True, exist_ok=True)
    with exclusive(workspace.lock, seconds=WAIT_SECONDS):
        emulator = _healthy(workspace)
        if emulator is None:
            workspace.outputs.unlink(missing_ok=True)
            emulator = instance.start(workspace.emulator, enforce_iam=enforce_iam)
        print(f"The embedded AWS answers at {emulator.endpoint}", flush=True)
        deployment = deploy(emulator, root=root)
        write_whole(workspace.outputs, json.dumps(asdict(deployment), indent=2) + "\n")
        return deployment


def stop(workspace: Workspace) -> bool:
    """End the emulator of `workspace`, and say whether one was running.

    Raises:
        EmulatorError: it does not end.
    """
    workspace.outputs.unlink(missing_ok=True)
    return instance.stop(workspace.emulator)


def _healthy(workspace: Workspace) -> Emulator | None:
    """The running emulator; one that no longer answers is ended."""
    try:
        return instance.running(workspace.emulator)
    except EmulatorError:
        instance.stop(workspace.emulator)
        return None
