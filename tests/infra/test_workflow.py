"""The state machines as they are deployed: their definitions after substitution, their roles, their logs."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from functions.domain import budget
from tests.infra.conftest import DEFINITIONS
from tests.infra.template import StackTemplate

FUNCTIONS = {
    "Dispatch": (
        *("PlanRun", "TakeLeases", "DispatchPage", "LayOutLanes"),
        *("DispatchWindow", "SummarizeRun", "ReportFailure"),
    ),
    "Lane": ("DispatchPage", "StagePage", "FoldPages", "MergeBucket"),
    "Reconcile": (
        *("PlanReconcile", "ReadBookings", "AuditTable", "ReadObjects"),
        *("ReadPlans", "CompareRecords", "WriteReport"),
    ),
    "Compare": ("PlanCompare", "ComparePaths"),
    "Redo": (
        *("PlanRedo", "CountMissing", "AskForApproval", "CheckApproval", "TakeLeases"),
        *("RedoPage", "SummarizeRun", "RecordRepair", "ReportFailure"),
    ),
}
"""Of each machine, those that it invokes."""
FILES = {name: DEFINITIONS / f"{name.lower()}.asl.json" for name in FUNCTIONS}
LANE_MACHINE = {
    "Dispatch": {"LaneStateMachineArn": "<WorkflowLane>"},
    "Lane": {},
    "Reconcile": {},
    "Compare": {},
    "Redo": {},
}
NUMBERS = ("TimeoutSeconds", "IntervalSeconds", "MaxAttempts", "BackoffRate", "MaxDelaySeconds", "MaxConcurrency")


whichever_machine = pytest.mark.parametrize("name", FUNCTIONS)


def machine(template: StackTemplate, name: str = "Dispatch") -> dict[str, Any]:
    return dict(template.properties("AWS::StepFunctions::StateMachine")[f"Workflow{name}"])


def definition_of(template: StackTemplate, name: str) -> dict[str, Any]:
    """The definition with every placeholder filled in as CloudFormation does: as text."""
    described = machine(template, name)
    text = described["DefinitionString"]
    for placeholder, value in described["DefinitionSubstitutions"].items():
        text = text.replace(f"${{{placeholder}}}", value)
    return dict(json.loads(text))


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Every member of every object within, however deep."""
    if isinstance(value, dict):
        yield from value.items()
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from members(part)


@pytest.fixture(scope="module")
def definition(sandbox: StackTemplate) -> dict[str, Any]:
    return definition_of(sandbox, "Dispatch")


def invocations(definition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tasks that invoke functions."""
    return {name: state for name, state in definition["States"].items() if state["Type"] == "Task"}


@pytest.fixture(scope="module")
def start(definition: dict[str, Any]) -> dict[str, Any]:
    """The task that starts a lane."""
    return dict(definition["States"]["Dispatch lanes"]["ItemProcessor"]["States"]["Dispatch lane"])


def test_there_are_four_machines(sandbox: StackTemplate) -> None:
    assert sandbox.properties("AWS::StepFunctions::StateMachine").keys() == {f"Workflow{name}" for name in FUNCTIONS}


@whichever_machine
def test_every_placeholder_of_a_definition_is_supplied_and_every_one_supplied_is_used(
    sandbox: StackTemplate, name: str
) -> None:
    supplied = {f"{function}FunctionArn": f"<Functions{function}Function.Arn>" for function in FUNCTIONS[name]}
    assert machine(sandbox, name)["DefinitionSubstitutions"] == supplied | LANE_MACHINE[name]
    used = set(re.findall(r"\$\{(\w+)\}", FILES[name].read_text(encoding="utf-8")))
    assert used == supplied.keys() | LANE_MACHINE[name].keys()


@whichever_machine
def test_numbers_arrive_as_numbers_and_no_placeholder_remains(sandbox: StackTemplate, name: str) -> None:
    definition = definition_of(sandbox, name)
    assert "${" not in json.dumps(definition)
    numbers = [(key, value) for key, value in members(definition) if key in NUMBERS]
    assert numbers
    for key, value in numbers:
        assert type(value) in (int, float), key


@whichever_machine
def test_a_task_waits_longer_than_its_function_may_run(sandbox: StackTemplate, name: str) -> None:
    functions = sandbox.properties("AWS::Lambda::Function")
    tasks = invocations(definition_of(sandbox, name)).values()
    assert tasks
    for task in tasks:
        function = task["Parameters"]["FunctionName"].removeprefix("<").removesuffix(".Arn>")
        assert task["TimeoutSeconds"] > functions[function]["Timeout"]


def test_tasks_have_the_time_of_the_budget(sandbox: StackTemplate, definition: dict[str, Any]) -> None:
    assert {name: task["TimeoutSeconds"] for name, task in invocations(definition).items()} == {
        "Plan run": budget.SMALL_TASK_SECONDS,
        "Take leases": budget.SMALL_TASK_SECONDS,
        "Dispatch page": budget.PAGE_TASK_SECONDS,
        "Lay out lanes": budget.PAGE_TASK_SECONDS,
        "Dispatch whole window": budget.WINDOW_TASK_SECONDS,
        "Summarize run": budget.SMALL_TASK_SECONDS,
        "Report failure": budget.SMALL_TASK_SECONDS,
    }
    lane = invocations(definition_of(sandbox, "Lane"))
    assert {name: task["TimeoutSeconds"] for name, task in lane.items()} == dict.fromkeys(
        ("Dispatch page", "Stage page", "Fold pages", "Merge bucket"), budget.PAGE_TASK_SECONDS
    )
    reconcile = invocations(definition_of(sandbox, "Reconcile"))
    assert {name: task["TimeoutSeconds"] for name, task in reconcile.items()} == {
        "Plan reconcile": budget.SMALL_TASK_SECONDS,
        **dict.fromkeys(
            ("Read bookings", "Audit table", "Read objects", "Read plans", "Compare records", "Write report"),
            budget.PAGE_TASK_SECONDS,
        ),
    }
    compare = invocations(definition_of(sandbox, "Compare"))
    assert {name: task["TimeoutSeconds"] for name, task in compare.items()} == {
        "Plan compare": budget.SMALL_TASK_SECONDS,
        "Compare paths": budget.WINDOW_TASK_SECONDS,
    }


def test_a_redo_has_the_time_of_the_budget_and_ends_after_its_approval_can_have_come(sandbox: StackTemplate) -> None:
    redo = definition_of(sandbox, "Redo")
    assert {name: task["TimeoutSeconds"] for name, task in invocations(redo).items()} == {
        **dict.fromkeys(("Plan redo", "Count missing", "Redo page"), budget.PAGE_TASK_SECONDS),
        "Ask for approval": budget.APPROVAL_TASK_SECONDS,
        **dict.fromkeys(
            ("Check approval", "Refuse late approval", "Take leases", "Note repair", "Summarize run", "Record repair"),
            budget.SMALL_TASK_SECONDS,
        ),
        "Report failure": budget.SMALL_TASK_SECONDS,
    }
    assert redo["TimeoutSeconds"] > budget.APPROVAL_TASK_SECONDS + 3600


def test_a_lane_is_waited_for_as_long_as_it_may_take(sandbox: StackTemplate, start: dict[str, Any]) -> None:
    assert start["TimeoutSeconds"] == definition_of(sandbox, "Lane")["TimeoutSeconds"]


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


@whichever_machine
def test_tasks_name_the_partition_that_they_are_deployed_to(sandbox: StackTemplate, name: str) -> None:
    tasks = invocations(definition_of(sandbox, name)).values()
    invoke = "arn:<AWS::Partition>:states:::lambda:invoke"
    waited_for = {f"{invoke}.waitForTaskToken"} if name == "Redo" else set()
    assert {task["Resource"] for task in tasks} == {invoke} | waited_for


def test_a_lane_is_started_in_the_partition_that_it_is_deployed_to(start: dict[str, Any]) -> None:
    assert start["Resource"] == "arn:<AWS::Partition>:states:::states:startExecution.sync:2"
    assert start["Parameters"]["StateMachineArn"] == "<WorkflowLane>"


@whichever_machine
def test_a_machine_is_a_standard_one(sandbox: StackTemplate, name: str) -> None:
    assert machine(sandbox, name)["StateMachineType"] == "STANDARD"


LOG_DELIVERY = {
    (f"logs:{action}", "*")
    for action in (
        *("CreateLogDelivery", "DeleteLogDelivery", "GetLogDelivery", "ListLogDeliveries", "UpdateLogDelivery"),
        *("DescribeLogGroups", "DescribeResourcePolicies", "PutResourcePolicy"),
    )
}
ACCOUNT = "<AWS::Region>:<AWS::AccountId>"
START_LANES = {
    ("states:StartExecution", "<WorkflowLane>"),
    *(
        (f"states:{action}", f"arn:<AWS::Partition>:states:{ACCOUNT}:execution:<WorkflowLane.Name>:*")
        for action in ("DescribeExecution", "StopExecution")
    ),
    *(
        (
            f"events:{action}",
            f"arn:<AWS::Partition>:events:{ACCOUNT}:rule/StepFunctionsGetEventsForStepFunctionsExecutionRule",
        )
        for action in ("DescribeRule", "PutRule", "PutTargets")
    ),
}
"""As Step Functions asks for it, of a machine that waits for the executions that it starts."""


@whichever_machine
def test_its_role_invokes_exactly_the_functions_of_the_definition_and_a_run_s_starts_lanes(
    sandbox: StackTemplate, name: str
) -> None:
    invoke = {("lambda:InvokeFunction", f"<Functions{function}Function.Arn>") for function in FUNCTIONS[name]}
    more = START_LANES if name == "Dispatch" else set()
    assert sandbox.rights(f"Workflow{name}Role") == LOG_DELIVERY | invoke | more


def test_a_machine_is_made_when_its_role_may_do_all_that(sandbox: StackTemplate) -> None:
    """Step Functions refuses one whose role may not make the rule by which it hears of an execution's end."""
    made = sandbox.resources("AWS::StepFunctions::StateMachine")["WorkflowDispatch"]
    assert any(name.startswith("WorkflowDispatchRoleDefaultPolicy") for name in made["DependsOn"])


@whichever_machine
def test_every_step_is_logged_without_the_data_in_it(sandbox: StackTemplate, name: str) -> None:
    log = {"Dispatch": "WorkflowLog"}.get(name, f"Workflow{name}Log")
    assert machine(sandbox, name)["LoggingConfiguration"] == {
        "Level": "ALL",
        "IncludeExecutionData": False,
        "Destinations": [{"CloudWatchLogsLogGroup": {"LogGroupArn": f"<{log}.Arn>"}}],
    }
    assert sandbox.properties("AWS::Logs::LogGroup")[log] == {
        "LogGroupName": f"/aws/vendedlogs/states/BookingtimeDispatcherSandbox-{name}",
        "RetentionInDays": 90,
    }


@whichever_machine
def test_executions_are_traced_only_where_that_is_set(templates: dict[str, StackTemplate], name: str) -> None:
    assert machine(templates["Traced"], name)["TracingConfiguration"] == {"Enabled": True}
    assert machine(templates["Sandbox"], name)["TracingConfiguration"] == {"Enabled": False}
