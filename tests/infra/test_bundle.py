"""The Lambda bundle."""

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import botocore
import pytest
from botocore.loaders import Loader
from botocore.regions import EndpointResolver

from infra.bundle import LambdaBundle
from tools import bundle as builder
from tools.workspace import ROOT

IMPORTS = """
import sys
sys.path.insert(0, sys.argv[1])
import boto3
from aws_lambda_powertools import Logger, Metrics
from pydantic import BaseModel

class Model(BaseModel):
    number: int

Model.model_validate({"number": 1})
Logger(service="test").info("ready")
Metrics(namespace="Test", service="test").add_metric("Ready", "Count", 1)
for service in ("dynamodb", "s3", "sqs", "ssm", "sns", "sts"):
    boto3.client(service, region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x")

boto3.client("s3", region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x").generate_presigned_url(
    "put_object", {"Bucket": "bucket", "Key": "key"}
)

import functions.handlers.dispatch_page
assert all(module.__file__.startswith(sys.argv[1]) for name, module in sys.modules.items()
           if name.split(".")[0] in {"boto3", "botocore", "functions", "pydantic", "pydantic_core", "urllib3"}
           and getattr(module, "__file__", None))
print("imported")
"""

TEXT_FOR_PEOPLE = re.compile(r'"documentation": "(?:[^"\\]|\\.)*"')

UNCHECKED_HASH = 0b01
"""The flags of a `.pyc` that is never compared with its source (PEP 552)."""


def content(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_functions_load_from_it_with_nothing_of_this_machine(local_bundle: LambdaBundle) -> None:
    bare = [sys.executable, "-S", "-I", "-B", "-c", IMPORTS, str(local_bundle.directory)]
    done = subprocess.run(  # noqa: S603 -- our own script
        bare, env={"AWS_EC2_METADATA_DISABLED": "true"}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported"


def test_it_is_under_fifteen_megabytes_without_the_sdk(aws_bundle: LambdaBundle) -> None:
    assert builder.unpacked_bytes(aws_bundle.directory, without=builder.SDK) < 15_000_000


def test_its_compiled_modules_outlive_the_archives_lost_time_stamps(aws_bundle: LambdaBundle) -> None:
    compiled = list(aws_bundle.directory.rglob("*.pyc"))
    assert compiled
    for module in compiled:
        assert int.from_bytes(module.read_bytes()[4:8], "little") == UNCHECKED_HASH, module


def test_it_holds_no_sources_of_this_machine(aws_bundle: LambdaBundle) -> None:
    here = str(ROOT).encode()
    assert not [path for path in aws_bundle.directory.rglob("*.pyc") if here in path.read_bytes()]


def test_every_user_may_read_it(aws_bundle: LambdaBundle) -> None:
    for path in aws_bundle.directory.rglob("*"):
        assert path.stat().st_mode & 0o444 == 0o444, path


def test_only_what_the_functions_use_describes_aws(aws_bundle: LambdaBundle) -> None:
    data = aws_bundle.directory / "botocore" / "data"
    assert {path.name for path in data.iterdir() if path.is_dir()} == builder.SERVICES
    assert {path.name for path in data.iterdir() if path.is_file()} == {
        "_retry.json",
        "endpoints.json",
        "partitions.json",
        "sdk-default-configuration.json",
    }


@pytest.mark.parametrize("service", sorted(builder.SERVICES))
def test_a_service_is_described_in_full_but_without_texts_for_people(aws_bundle: LambdaBundle, service: str) -> None:
    loader = Loader(
        extra_search_paths=[str(aws_bundle.directory / "botocore" / "data")], include_default_search_paths=False
    )
    ours, botocores = (each.load_service_model(service, "service-2") for each in (loader, Loader()))
    assert json.loads(TEXT_FOR_PEOPLE.sub('"documentation": ""', json.dumps(botocores))) == ours != botocores


def test_the_services_used_are_reached_in_every_region_as_before(aws_bundle: LambdaBundle) -> None:
    ours, botocores = (
        EndpointResolver(json.loads((data / "endpoints.json").read_bytes()))
        for data in (aws_bundle.directory / "botocore" / "data", Path(botocore.__file__).parent / "data")
    )
    assert ours.get_available_partitions() == botocores.get_available_partitions()
    for partition in botocores.get_available_partitions():
        for service in builder.SERVICES:
            regions = botocores.get_available_endpoints(service, partition, allow_non_regional=True)
            assert ours.get_available_endpoints(service, partition, allow_non_regional=True) == regions
            for region in regions:
                assert ours.construct_endpoint(service, region) == botocores.construct_endpoint(service, region)


def test_the_same_sources_give_the_same_bytes_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = content(builder.build(builder.local_target()))
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_NO_BINARY", ":all:")
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    assert content(builder.build(builder.local_target(), tmp_path)) == once


class Repository:
    """A small `functions` package and a counted, offline stand-in for the installation of its dependencies."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.functions = root / "functions"
        self.bundles = root / "bundle"
        self.installations = 0
        (self.functions / "handlers").mkdir(parents=True)
        self.lock = self.functions / "requirements.txt"
        self.lock.write_text("pydantic==2\n")
        (self.functions / "handlers" / "page.py").write_text("PAGE = 1\n")
        monkeypatch.setattr(builder, "FUNCTIONS", self.functions)
        monkeypatch.setattr(builder, "LOCK", self.lock)
        monkeypatch.setattr(builder, "_install_dependencies", self._install)

    def _install(self, _target: builder.Target, directory: Path) -> None:
        self.installations += 1
        (directory / "pydantic.py").write_text("VERSION = 2\n")

    def build(self) -> Path:
        return builder.build(builder.local_target(), self.bundles)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    return Repository(tmp_path, monkeypatch)


def test_an_unchanged_bundle_is_left_alone(repository: Repository) -> None:
    def written(directory: Path) -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in directory.rglob("*")}

    before = written(repository.build())
    assert written(repository.build()) == before
    assert repository.installations == 1


def test_a_changed_function_is_copied_without_installing_again(repository: Repository) -> None:
    repository.build()
    (repository.functions / "handlers" / "page.py").write_text("PAGE = 2\n")
    (repository.functions / "handlers" / "window.py").write_text("")
    directory = repository.build()
    assert (directory / "functions" / "handlers" / "page.py").read_text() == "PAGE = 2\n"
    assert repository.installations == 1

    (repository.functions / "handlers" / "window.py").unlink()
    assert not (repository.build() / "functions" / "handlers" / "window.py").exists()


def test_a_changed_lock_installs_again(repository: Repository) -> None:
    repository.build()
    repository.lock.write_text("pydantic==3\n")
    directory = repository.build()
    assert repository.installations == 2
    assert (directory / "functions" / "handlers" / "page.py").exists()


def test_a_build_that_died_half_way_is_no_bundle_and_is_made_anew(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = repository.build()
    (repository.functions / "handlers" / "page.py").write_text("PAGE = 2\n")
    with monkeypatch.context() as dying:
        dying.setattr(builder, "_copy_functions", lambda _directory: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            repository.build()
    assert not (directory / "bundle.json").exists()
    assert (repository.build() / "functions" / "handlers" / "page.py").read_text() == "PAGE = 2\n"
    assert LambdaBundle.read(directory).python == builder.PYTHON


def test_what_pip_says_goes_before_the_reason_why_there_is_no_bundle(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_target: builder.Target, _directory: Path) -> None:
        raise subprocess.CalledProcessError(1, ["pip"])

    monkeypatch.setattr(builder, "_install_dependencies", refuse)
    made = builder.build
    monkeypatch.setattr(builder, "build", lambda target: made(target, repository.bundles))
    with pytest.raises(SystemExit, match="The local bundle was not built"):
        builder.main(["local"])
