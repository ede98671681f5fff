"""What a function loads when it starts: a cold start is paid for by each concurrent lane of an hour."""

import functools
import subprocess
import sys
from typing import Final

import pytest

from tests.unit.test_imports import AWS, ROOT, foreign, layer, own

CHECKED: Final = {"ask_for_approval", "check_approval", "plan_compare", "plan_reconcile", "plan_redo", "plan_run"}
"""The functions that read what a person wrote, once in a run; pydantic takes longer to load than its answer."""
OF_A_PAGE: Final = sorted(
    f"functions.handlers.{name}"
    for name in ("dispatch_page", "dispatch_window", "fold_pages", "lay_out_lanes", "merge_bucket", "stage_page")
)
LOADED: Final = {
    *("aws_lambda_powertools", "boto3", "botocore", "functions"),
    *("dateutil", "jmespath", "s3transfer", "six", "typing_extensions", "urllib3"),
}
"""The second line is what those of the first load themselves; with certifi, which no bundle holds, where it is."""

REPORT: Final = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
standard = sys.stdlib_module_names | set(sys.modules)
for handler in sys.argv[2:]:
    importlib.import_module(handler)
print(*{name.partition(".")[0] for name in sys.modules if name[0] != "_"} - standard)
"""


imports_of: Final = functools.cache(own)


def reached(module: str) -> set[str]:
    """The product's modules that are loaded with this one, itself included."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(imports_of(name))
    return found


HANDLERS: Final = layer("handlers")


@pytest.mark.parametrize("module", HANDLERS)
def test_pydantic_is_loaded_only_where_a_person_s_input_is_checked(module: str) -> None:
    packages = set().union(*map(foreign, reached(module)))
    assert packages <= AWS | ({"pydantic"} if module.rpartition(".")[2] in CHECKED else set())


def test_the_functions_of_a_page_load_these_packages_and_no_other() -> None:
    done = subprocess.run(  # noqa: S603 -- our own script
        [sys.executable, "-I", "-c", REPORT, str(ROOT), *OF_A_PAGE],
        env={"AWS_EC2_METADATA_DISABLED": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert set(done.stdout.split()) - {"certifi"} == LOADED
