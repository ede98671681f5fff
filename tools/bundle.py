"""Build what the Lambda functions run from: `functions` and its locked dependencies, without Docker.

    python -m tools.bundle local    for the embedded AWS: wheels of this machine
    python -m tools.bundle aws      for an AWS account: Linux wheels of the declared processor

A bundle is `.local/bundle/<target>`.  Its two halves are made apart, each only when what it comes from
changed: the dependencies (slow, asks the package index) and the functions (a copy).  The same input gives
the same bytes, so an unchanged bundle is not uploaded again.

Modules are compiled with *unchecked* hashes: deployment resets the time stamps inside the archive, and with
the usual time stamp check Lambda would throw every `.pyc` away and compile at each cold start.
"""

import argparse
import gzip
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.bundle import MANIFEST, Architecture, LambdaBundle
from tools.command import leave
from tools.filelock import LockedError, exclusive
from tools.workspace import ROOT

FUNCTIONS: Final = ROOT / "functions"
LOCK: Final = FUNCTIONS / "requirements.txt"
BUNDLES: Final = ROOT / ".local" / "bundle"

BUILD_SECONDS: Final = 600
"""The longest that a build may take, or wait for another one of its target."""

PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"

SERVICES: Final = frozenset({"dynamodb", "s3", "sqs", "ssm", "sns", "sts"})
"""The AWS services whose API descriptions stay in botocore, of more than four hundred."""

UNUSED: Final = (
    "bin",
    "aws_lambda_powertools/event_handler",  # HTTP and GraphQL routing: nothing here is called over HTTP
    "boto3/data",  # the resource API: clients only are used
    "boto3/examples",
    "pydantic/mypy.py",
    "pydantic/v1",  # the old API; reached only by types that still have its validators
)
UNUSED_NAMES: Final = ("*.pyi", "py.typed", "examples-1.json", "INSTALLER", "RECORD", "REQUESTED", "sboms")

SDK: Final = ("boto3", "botocore", "s3transfer")
"""Left out of the second size: Lambda's own runtime brings these too."""

INDEX_SETTINGS: Final = frozenset(
    {"PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"}
    | {"PIP_TRUSTED_HOST", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_PROXY"}
    | {"PIP_CACHE_DIR", "PIP_DEFAULT_TIMEOUT", "PIP_RETRIES"}
)
"""What the caller's environment may say to pip: where to look.  What is installed, the lock's hashes fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a bundle runs."""

    name: str
    architecture: Architecture
    wheel_platforms: tuple[str, ...]
    """Wheel tags that this place can load; empty where it is this machine."""

    @property
    def identity(self) -> list[str]:
        """What, beside the lock and the sources, decides the bytes."""
        here = [] if self.wheel_platforms else [sysconfig.get_platform()]
        return [PYTHON, str(sys.implementation.cache_tag), self.architecture, *self.wheel_platforms, *here]


def local_target() -> Target:
    """Name this machine, which runs the functions of the embedded AWS."""
    arm = platform.machine().lower() in {"arm64", "aarch64"}
    return Target(name="local", architecture="arm64" if arm else "x86_64", wheel_platforms=())


def aws_target() -> Target:
    """Name AWS Lambda on Graviton, the cheaper of its two processors.

    Python 3.11 runs there on Amazon Linux 2 (glibc 2.26), later versions on Amazon Linux 2023 (glibc 2.34).
    """
    tags = ["manylinux2014_aarch64", "manylinux_2_17_aarch64"]
    if sys.version_info >= (3, 12):
        tags += ["manylinux_2_28_aarch64", "manylinux_2_34_aarch64"]
    return Target(name="aws", architecture="arm64", wheel_platforms=tuple(tags))


TARGETS: Final[dict[str, Callable[[], Target]]] = {"local": local_target, "aws": aws_target}


def build(target: Target, bundles: Path = BUNDLES) -> Path:
    """Bring the bundle of `target` up to date, say so if there was something to do, and return its directory.

    A build that dies half-way leaves a directory that nobody takes for a bundle, and the next build makes it
    anew.  Builds of one target wait for each other.

    Raises:
        subprocess.SubprocessError: pip or the compiler failed, and said so on standard error.
        LockedError: another build of this target does not end.
    """
    directory = bundles / target.name
    bundles.mkdir(parents=True, exist_ok=True)
    with exclusive(bundles / f"{target.name}.lock", seconds=BUILD_SECONDS):
        stamp_file = bundles / f"{target.name}.stamp"
        wanted = {"dependencies": _digest(target, [LOCK]), "functions": _digest(target, _function_files())}
        found = _read_stamp(stamp_file) if directory.is_dir() else {}
        if found == wanted:
            return directory
        for sign_of_completion in (stamp_file, directory / MANIFEST):
            sign_of_completion.unlink(missing_ok=True)
        if found.get("dependencies") != wanted["dependencies"]:
            _replace(directory, bundles, lambda fresh: _install_dependencies(target, fresh))
        _replace(directory / FUNCTIONS.name, bundles, _copy_functions)
        LambdaBundle(directory=directory, python=PYTHON, architecture=target.architecture).write_manifest()
        stamp_file.write_text(json.dumps(wanted), encoding="ascii")
        print(_label(target, directory))
    return directory


def unpacked_bytes(directory: Path, *, without: Iterable[str] = ()) -> int:
    """Sum the sizes of all files, those of the named top-level packages left out."""
    left_out = set(without)
    files = (path for path in directory.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files if path.relative_to(directory).parts[0] not in left_out)


def main(arguments: list[str] | None = None) -> None:
    """Build the named bundles."""
    parser = argparse.ArgumentParser(prog="python -m tools.bundle", description="Build the Lambda bundles.")
    parser.add_argument("targets", nargs="+", choices=sorted(TARGETS), metavar="local|aws")
    for name in parser.parse_args(arguments).targets:
        target = TARGETS[name]()
        try:
            build(target)
        except (subprocess.SubprocessError, LockedError) as error:
            sys.exit(f"The {name} bundle was not built: {error}")


def _label(target: Target, directory: Path) -> str:
    """A bundle's name, kind and sizes."""
    total, own = (unpacked_bytes(directory, without=left_out) / 1e6 for left_out in ((), SDK))
    return (
        f"Bundle {directory.name}: python{PYTHON} {target.architecture},"
        f" {total:.1f} MB unpacked, {own:.1f} MB without {', '.join(SDK)}"
    )


def _install_dependencies(target: Target, directory: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-input", "--disable-pip-version-check"]
    pip += ["--no-compile", "--require-hashes", "--only-binary=:all:"]
    pip += [f"--target={directory}", f"--requirement={LOCK}"]
    if target.wheel_platforms:
        pip += ["--implementation=cp", f"--python-version={PYTHON}"]
        pip += [f"--platform={tag}" for tag in target.wheel_platforms]
    own = {name for name in os.environ if name.startswith(("PIP_", "PYTHON"))} - INDEX_SETTINGS
    surroundings = {name: value for name, value in os.environ.items() if name not in own}
    subprocess.run(pip, env=surroundings, check=True, timeout=BUILD_SECONDS)
    _prune(directory)
    _shorten(directory / "botocore" / "data")
    _compile(directory, deployed_as="/var/task")


def _copy_functions(directory: Path) -> None:
    for source in _function_files():
        copy = directory / source.relative_to(FUNCTIONS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    _compile(directory, deployed_as=f"/var/task/{FUNCTIONS.name}")


def _function_files() -> list[Path]:
    files = (path for path in sorted(FUNCTIONS.rglob("*")) if path.is_file() and path != LOCK)
    return [path for path in files if "__pycache__" not in path.parts and not path.name.startswith(".")]


def _prune(directory: Path) -> None:
    """Take out what no function loads.  Licences and METADATA stay: scanners read them."""
    unused = [directory / name for name in UNUSED]
    unused += [path for pattern in UNUSED_NAMES for path in directory.rglob(pattern)]
    for service in (path for path in (directory / "botocore" / "data").iterdir() if path.is_dir()):
        versions = sorted(service.iterdir())
        unused += versions[:-1] if service.name in SERVICES else [service]
    for path in unused:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _shorten(data: Path) -> None:
    """Leave of botocore's descriptions what its clients read: a cold start parses all of it, and holds it.

    No texts for people, and of the endpoints those of the services used.  What was compressed is not: the archive is.
    """
    for path in sorted(data.rglob("*.json.gz")):
        _write_json(path.with_suffix(""), _undocumented(json.loads(gzip.decompress(path.read_bytes()))))
        path.unlink()
    path = data / "endpoints.json"
    endpoints = json.loads(path.read_bytes())
    for partition in endpoints["partitions"]:
        used = {name: service for name, service in partition["services"].items() if name in SERVICES}
        partition["services"] = used
    _write_json(path, endpoints)


def _undocumented(description: Any) -> Any:
    """A description, at any depth, whose `documentation` is empty; botocore asks for some of it by name."""
    if isinstance(description, dict):
        return {
            name: "" if name == "documentation" and isinstance(value, str) else _undocumented(value)
            for name, value in description.items()
        }
    if isinstance(description, list):
        return [_undocumented(value) for value in description]
    return description


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, separators=(",", ":")), encoding="ascii")


def _compile(directory: Path, *, deployed_as: str) -> None:
    """Compile every module; code objects name the path in Lambda, so the build's own leaves no trace."""
    compiler = [sys.executable, "-I", "-m", "compileall", "-q", "--invalidation-mode=unchecked-hash"]
    subprocess.run([*compiler, "-s", directory, "-p", deployed_as, directory], check=True, timeout=BUILD_SECONDS)


def _replace(directory: Path, bundles: Path, fill: Callable[[Path], None]) -> None:
    """Fill a fresh directory and put it in the place of the old one: never a mixture of two builds.

    Lambda runs as a user of its own: everything is made readable to all, whatever this user's umask.
    """
    with tempfile.TemporaryDirectory(dir=bundles, prefix=f".{directory.name}-") as workshop:
        fresh = Path(workshop) / directory.name
        fresh.mkdir()
        fill(fresh)
        for path in [fresh, *fresh.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        if directory.exists():
            shutil.rmtree(directory)
        fresh.rename(directory)


def _digest(target: Target, sources: Iterable[Path]) -> str:
    """Name the content that a half is made from, this builder's own rules included."""
    digest = hashlib.sha256(json.dumps(target.identity).encode())
    digest.update(Path(__file__).read_bytes())
    for path in sources:
        content = path.read_bytes()
        digest.update(json.dumps([path.relative_to(FUNCTIONS).as_posix(), len(content)]).encode())
        digest.update(content)
    return digest.hexdigest()


def _read_stamp(path: Path) -> dict[str, str]:
    try:
        stamp: dict[str, str] = json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return {}
    return stamp


if __name__ == "__main__":
    leave(main, interrupted="the next command builds it anew.")
