"""Deploy the CDK app into an emulator with the real `cdk bootstrap` and `cdk deploy`."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.emulator.access import ACCOUNT, environment
from tools.emulator.instance import REGION, Emulator
from tools.filelock import exclusive
from tools.workspace import ROOT

STAGE: Final = "Local"
STACK: Final = "BookingtimeDispatcher"
"""The stack's name, before its stage's."""
LOCAL_STACK: Final = f"{STACK}{STAGE}"
COMMAND_SECONDS: Final = 300.0
"""The longest that one cdk command may take. Synthesis takes about eight seconds, the others one or two."""

INPUTS: Final = (
    "app.py",
    "cdk.json",
    "functions",
    "infra",
    "package-lock.json",
    "requirements.txt",
    "statemachine",
    "tools/bundle.py",
)
"""The files and folders that decide what is deployed."""


class DeploymentError(RuntimeError):
    """A cdk command failed."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployed application and where it answers."""

    endpoint: str
    """Empty in an account."""
    region: str
    outputs: dict[str, str]


def deploy(emulator: Emulator, *, root: Path = ROOT) -> Deployment:
    """Deploy the application of `root` into the emulator, unless it stands there as it is.

    What was done is noted in the emulator's home: so a deployment that was cut off is done again, and a finished one
    is not. The caller sees to it that nothing else deploys there at the same time.

    Raises:
        DeploymentError: a cdk command failed.
    """
    digest = inputs_digest(root)
    note = emulator.home / "deployed.json"
    deployed = json.loads(note.read_text()) if note.exists() else {}
    if deployed.get("digest") != digest:
        assembly = synthesize(digest, root=root)
        settings = environment(emulator.endpoint)
        with tempfile.TemporaryDirectory() as empty:
            if not (emulator.home / "bootstrapped").exists():
                # From an empty folder: beside a cdk.json it would synthesize the application.
                _cdk(["bootstrap", f"aws://{ACCOUNT}/{REGION}"], Path(empty), settings, root)
                (emulator.home / "bootstrapped").touch()
            outputs = Path(empty, "outputs.json")
            command = ["deploy", LOCAL_STACK, "--app", str(assembly), "--require-approval", "never"]
            _cdk([*command, "--outputs-file", str(outputs)], Path(empty), settings, root)
            deployed = {"digest": digest, "outputs": json.loads(outputs.read_text())[LOCAL_STACK]}
        write_whole(note, json.dumps(deployed))
    return Deployment(emulator.endpoint, REGION, deployed["outputs"])


def synthesize(digest: str, *, root: Path = ROOT) -> Path:
    """The cloud assembly of the application of `root` for the local stage; made anew when `digest` is another one.

    It knows no account and no emulator, so that all of them share it.

    Raises:
        DeploymentError: the application does not synthesize.
    """
    build = root / ".local"
    assembly, note = build / "cdk.out" / STAGE, build / "cdk.out" / f"{STAGE}.digest"
    note.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(build / "cdk.out" / "lock", seconds=COMMAND_SECONDS):
        if not note.exists() or note.read_text() != digest:
            note.unlink(missing_ok=True)
            shutil.rmtree(assembly, ignore_errors=True)
            # Without credentials: given some, cdk would ask AWS whose they are.
            _cdk(["synth", "--quiet", "--output", str(assembly), "--context", f"stage={STAGE}"], root, {}, root)
            write_whole(note, digest)
    return assembly


def inputs_digest(root: Path = ROOT) -> str:
    """A digest of the sources of `root` and of this Python: where it is the same, the same application is deployed."""
    digest = hashlib.sha256(sys.version.encode())
    for file in _inputs(root):
        content = file.read_bytes()
        digest.update(f"\0{file.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Put `text` at `path` so that no reader sees a part of it."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)


def _inputs(root: Path) -> Iterator[Path]:
    for name in INPUTS:
        path = root / name
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (file for file in files if file.is_file() and "__pycache__" not in file.parts)


def _cdk(arguments: list[str], directory: Path, settings: dict[str, str], root: Path) -> None:
    """Run the locked cdk in `directory`. It sees nothing of the caller's AWS configuration."""
    started = time.monotonic()
    print(f"cdk {arguments[0]} ...", end=" ", flush=True)
    home = root / ".local" / "home"
    home.mkdir(parents=True, exist_ok=True)
    command = [str(ROOT / "node_modules" / ".bin" / "cdk"), *arguments, "--no-notices"]
    variables = {
        # cdk starts the application with the first `python3` that it finds: this one's.
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))),
        "HOME": str(home),
        "TMPDIR": tempfile.gettempdir(),
        "AWS_EC2_METADATA_DISABLED": "true",
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "NODE_NO_WARNINGS": "1",
        "NO_COLOR": "1",
        **settings,
    }
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DeploymentError(f"cdk {arguments[0]} was not done after {COMMAND_SECONDS:.0f} s") from None
    if done.returncode:
        last_lines = "\n".join(done.stdout.splitlines()[-40:])
        raise DeploymentError(f"cdk {arguments[0]} failed:\n{last_lines}")
    print(f"{time.monotonic() - started:.1f} s", flush=True)
