import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "functions").rglob("*.py"))
}
AWS = {"boto3", "botocore", "aws_lambda_powertools"}
OUTSIDE = {"os", "time", "random", "uuid", "secrets", "socket", "threading", "logging", "subprocess", "pathlib"}
"""Modules of the standard library that reach the clock, the environment, chance or the machine."""
CLOCK = {"now", "utcnow", "today"}


def imported(module: str) -> set[str]:
    """What a module imports, dotted; `from package import name` gives `package.name` where that is a module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(SOURCES[module].read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                names.add(name if name in SOURCES else str(node.module))
    return names


def layer(name: str) -> list[str]:
    return [module for module in SOURCES if module.startswith(f"functions.{name}.")]


def foreign(module: str) -> set[str]:
    """The top-level packages outside this product and the standard library."""
    tops = {name.partition(".")[0] for name in imported(module)}
    return tops - set(sys.stdlib_module_names) - {"functions"}


def own(module: str) -> set[str]:
    return {name for name in imported(module) if name.startswith("functions")}


def test_all_layers_are_looked_at() -> None:
    assert {module.split(".")[1] for module in SOURCES if module != "functions"} == {
        "adapters",
        "domain",
        "handlers",
        "settings",
        "usecases",
        "worker",
    }


@pytest.mark.parametrize("module", layer("domain"))
def test_the_domain_knows_only_itself_and_is_pure(module: str) -> None:
    assert not foreign(module)
    assert not {name.partition(".")[0] for name in imported(module)} & OUTSIDE
    assert all(name.startswith("functions.domain.") for name in own(module))


@pytest.mark.parametrize("module", layer("usecases"))
def test_a_use_case_knows_the_domain_the_ports_and_pydantic(module: str) -> None:
    assert foreign(module) <= {"pydantic"}
    assert not {name.partition(".")[0] for name in imported(module)} & OUTSIDE
    assert all(name.startswith(("functions.domain.", "functions.usecases.")) for name in own(module))


@pytest.mark.parametrize("module", [*layer("domain"), *layer("usecases")])
def test_no_clock_is_read_inside(module: str) -> None:
    tree = ast.parse(SOURCES[module].read_text("utf-8"))

    assert not {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & CLOCK


@pytest.mark.parametrize("module", layer("adapters"))
def test_an_adapter_knows_the_domain_the_ports_and_aws_and_never_a_handler(module: str) -> None:
    assert foreign(module) <= AWS
    assert all(
        name.startswith(("functions.domain.", "functions.adapters")) or name == "functions.usecases.ports"
        for name in own(module)
    )


@pytest.mark.parametrize("module", layer("handlers"))
def test_nothing_in_the_handlers_speaks_to_aws_itself(module: str) -> None:
    assert not foreign(module) & {"boto3", "botocore"}


@pytest.mark.parametrize("module", layer("worker"))
def test_the_worker_knows_of_the_dispatcher_its_domain_only(module: str) -> None:
    assert foreign(module) <= AWS | {"pydantic"}
    assert all(name.startswith(("functions.domain.", "functions.worker")) for name in own(module))


@pytest.mark.parametrize("name", ["contract", "task", "ports", "work"])
def test_what_the_worker_decides_it_decides_without_aws(name: str) -> None:
    module = f"functions.worker.{name}"
    inner = {f"functions.worker.{other}" for other in ("contract", "task", "ports", "work")}

    assert foreign(module) <= {"pydantic"}
    assert not {name.partition(".")[0] for name in imported(module)} & OUTSIDE
    assert {name for name in own(module) if name.startswith("functions.worker")} <= inner


def test_the_dispatcher_does_not_know_the_worker() -> None:
    dispatcher = [module for module in SOURCES if not module.startswith("functions.worker")]

    assert not [module for module in dispatcher if any(name.startswith("functions.worker") for name in own(module))]


def _handlers() -> list[str]:
    return [module for module in layer("handlers") if "\ndef handler(" in SOURCES[module].read_text("utf-8")]


def test_there_is_one_handler_for_each_function() -> None:
    assert {module.rpartition(".")[2] for module in _handlers()} == {
        "plan_run",
        "take_leases",
        "dispatch_page",
        "dispatch_window",
        "lay_out_lanes",
        "stage_page",
        "fold_pages",
        "merge_bucket",
        "summarize_run",
        "report_failure",
        "record_end",
        "plan_reconcile",
        "read_bookings",
        "audit_table",
        "read_objects",
        "read_plans",
        "compare_records",
        "write_report",
        "plan_compare",
        "compare_paths",
        "plan_redo",
        "count_missing",
        "ask_for_approval",
        "check_approval",
        "redo_page",
        "record_repair",
    }


@pytest.mark.parametrize("module", _handlers())
def test_a_handler_is_short_and_decides_nothing(module: str) -> None:
    text = SOURCES[module].read_text("utf-8")

    assert len(text.splitlines()) < 40
    assert not [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.If | ast.IfExp | ast.Match)]
    assert not {name for name in own(module) if name.startswith("functions.adapters")}


def test_only_the_settings_read_the_environment() -> None:
    readers = {module for module in SOURCES if "os" in imported(module)}

    assert readers == {"functions.settings", "functions.worker.wiring"}


def test_there_is_no_import_circle() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"a circle: {' -> '.join((*path, module))}"
        if module in done or module not in SOURCES:
            return
        for name in own(module):
            visit(name, (*path, module))
        done.add(module)

    for module in SOURCES:
        visit(module, ())


def test_no_module_is_a_grab_bag() -> None:
    assert not {module.rpartition(".")[2] for module in SOURCES} & {"utils", "helpers", "common", "manager", "misc"}
