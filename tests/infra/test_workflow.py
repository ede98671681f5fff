"""The state machine as it is deployed: its definition after substitution, its role, its log."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from functions.domain import budget
from tests.infra.conftest import DEFINITION
from tests.infra.template import StackTemplate

NAMES = ("PlanRun", "TakeLeases", "DispatchPage", "DispatchWindow", "SummarizeRun", "ReportFailure")
NUMBERS = ("TimeoutSeconds", "IntervalSeconds", "MaxAttempts", "BackoffRate", "MaxDelaySeconds", "MaxConcurrency")


def machine(template: StackTemplate) -> dict[str, Any]:
    [described] = template.properties("AWS::StepFunctions::StateMachine").values()
    return dict(described)


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Every member of every object within, however deep."""
    if isinstance(value, dict):
        yield from value.items()
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from members(part)


@pytest.fixture(scope="module")
def definition(sandbox: StackTemplate) -> dict[str, Any]:
    """The definition with every placeholder filled in as CloudFormation does: as text."""
    described = machine(sandbox)
    text = described["DefinitionString"]
    for placeholder, value in described["DefinitionSubstitutions"].items():
        text = text.replace(f"${{{placeholder}}}", value)
    return dict(json.loads(text))


def test_every_placeholder_of_the_definition_is_supplied_and_every_one_supplied_is_used(
    sandbox: StackTemplate,
) -> None:
    used = set(re.findall(r"\$\{(\w+)\}", DEFINITION.read_text(encoding="utf-8")))
    assert used == {f"{name}FunctionArn" for name in NAMES}
    assert machine(sandbox)["DefinitionSubstitutions"] == {
        f"{name}FunctionArn": f"<Functions{name}Function.Arn>" for name in NAMES
    }


def test_numbers_arrive_as_numbers_and_no_placeholder_remains(definition: dict[str, Any]) -> None:
    assert "${" not in json.dumps(definition)
    numbers = [(key, value) for key, value in members(definition) if key in NUMBERS]
    assert numbers
    for key, value in numbers:
        assert type(value) in (int, float), key


def test_a_task_waits_longer_than_its_function_may_run(sandbox: StackTemplate, definition: dict[str, Any]) -> None:
    functions = sandbox.properties("AWS::Lambda::Function")
    tasks = [state for state in definition["States"].values() if state["Type"] == "Task"]
    assert tasks
    for task in tasks:
        function = task["Parameters"]["FunctionName"].removeprefix("<").removesuffix(".Arn>")
        assert task["TimeoutSeconds"] > functions[function]["Timeout"]


def tasks_of(definition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: state for name, state in definition["States"].items() if state["Type"] == "Task"}


def test_tasks_have_the_time_of_the_budget(definition: dict[str, Any]) -> None:
    assert {name: task["TimeoutSeconds"] for name, task in tasks_of(definition).items()} == {
        "Plan run": budget.SMALL_TASK_SECONDS,
        "Take leases": budget.SMALL_TASK_SECONDS,
        "Dispatch page": budget.PAGE_TASK_SECONDS,
        "Dispatch whole window": budget.WINDOW_TASK_SECONDS,
        "Summarize run": budget.SMALL_TASK_SECONDS,
        "Report failure": budget.SMALL_TASK_SECONDS,
    }


@pytest.mark.parametrize(
    ("function", "task", "lease"),
    [
        (budget.PAGE_FUNCTION_SECONDS, budget.PAGE_TASK_SECONDS, budget.PAGE_LEASE_SECONDS),
        (budget.WINDOW_FUNCTION_SECONDS, budget.WINDOW_TASK_SECONDS, budget.WINDOW_LEASE_SECONDS),
    ],
    ids=["page", "window"],
)
def test_a_call_ends_before_its_function_a_function_before_its_task_and_a_task_before_its_lease(
    function: int, task: int, lease: int
) -> None:
    once = budget.CONNECT_SECONDS + budget.READ_SECONDS
    assert budget.CALL_ATTEMPTS * once < budget.CALL_SECONDS < function < task < lease
    assert lease - function > budget.CALL_SECONDS, "a function's last call must end under its lease"


def test_a_small_function_has_the_time_of_a_call_that_is_tried_to_the_end() -> None:
    assert budget.CALL_SECONDS < budget.SMALL_FUNCTION_SECONDS < budget.SMALL_TASK_SECONDS


def test_a_neighbour_is_waited_for_longer_than_the_lease_of_one_that_died(definition: dict[str, Any]) -> None:
    [retrier] = [each for each in definition["States"]["Take leases"]["Retry"] if each["ErrorEquals"] == ["WindowBusy"]]
    assert retrier["BackoffRate"] == 1
    waited = retrier["IntervalSeconds"] * retrier["MaxAttempts"]
    assert waited > max(budget.PAGE_LEASE_SECONDS, budget.WINDOW_LEASE_SECONDS)
    assert waited + budget.WINDOW_TASK_SECONDS < definition["TimeoutSeconds"]


def test_tasks_name_the_partition_that_they_are_deployed_to(definition: dict[str, Any]) -> None:
    tasks = [state for state in definition["States"].values() if state["Type"] == "Task"]
    assert {task["Resource"] for task in tasks} == {"arn:<AWS::Partition>:states:::lambda:invoke"}


def test_the_machine_is_a_standard_one(sandbox: StackTemplate) -> None:
    assert machine(sandbox)["StateMachineType"] == "STANDARD"


def test_its_role_invokes_exactly_the_functions_of_the_definition(sandbox: StackTemplate) -> None:
    rights = sandbox.rights("WorkflowDispatchRole")
    log_delivery = {right for right in rights if right[0].startswith("logs:")}
    assert {resource for _, resource in log_delivery} == {"*"}
    assert {action for action, _ in log_delivery} == {
        "logs:CreateLogDelivery",
        "logs:DeleteLogDelivery",
        "logs:DescribeLogGroups",
        "logs:DescribeResourcePolicies",
        "logs:GetLogDelivery",
        "logs:ListLogDeliveries",
        "logs:PutResourcePolicy",
        "logs:UpdateLogDelivery",
    }
    assert rights - log_delivery == {("lambda:InvokeFunction", f"<Functions{name}Function.Arn>") for name in NAMES}


def test_every_step_is_logged_without_the_data_in_it(sandbox: StackTemplate) -> None:
    assert machine(sandbox)["LoggingConfiguration"] == {
        "Level": "ALL",
        "IncludeExecutionData": False,
        "Destinations": [{"CloudWatchLogsLogGroup": {"LogGroupArn": "<WorkflowLog.Arn>"}}],
    }
    assert sandbox.properties("AWS::Logs::LogGroup")["WorkflowLog"] == {
        "LogGroupName": "/aws/vendedlogs/states/BookingtimeDispatcherSandbox-Dispatch",
        "RetentionInDays": 90,
    }


def test_executions_are_traced_only_where_that_is_set(templates: dict[str, StackTemplate]) -> None:
    assert machine(templates["Traced"])["TracingConfiguration"] == {"Enabled": True}
    assert machine(templates["Sandbox"])["TracingConfiguration"] == {"Enabled": False}
