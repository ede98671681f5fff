"""The contract's worked example, as it leaves the deployed application."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deployed.application import COMPARING, RECONCILING, REDOING, Application, Execution, Task, everywhere
from tests.deployed.wire import WATCH, Call
from tools.samples import worked_example

WINDOW = "2026-09-17T15:00:00Z"

A = {"ShopId": 1001, "MemberId": 2001, "PromotionEngineId": 3001}
B = {"ShopId": 1001, "MemberId": 2002, "PromotionEngineId": 3002}
C = {"ShopId": 1002, "MemberId": 2003, "PromotionEngineId": 3003}

MACHINES: dict[str, set[str]] = {
    "Dispatch": {
        "plan_run",
        "take_leases",
        "dispatch_page",
        "dispatch_window",
        "lay_out_lanes",
        "summarize_run",
        "report_failure",
    },
    "Lane": {"dispatch_page", "stage_page", "fold_pages", "merge_bucket"},
    "Reconcile": {*RECONCILING},
    "Compare": {*COMPARING},
    "Redo": {*REDOING, "report_failure"},
}
"""Each machine's functions, by the modules of their handlers."""


@pytest.fixture(scope="module")
def run(application: Application) -> tuple[Execution, list[Call]]:
    """The run of the example, and the calls that it made."""
    application.book(*worked_example().bookings)
    with application.wire.recording() as calls:
        execution = application.run({"ExecuteTime": "2026-09-17T16:01:10Z"})
    return execution, calls


def of_group(tasks: list[Task], group: dict[str, int]) -> Task:
    (task,) = [task for task in tasks if task.data.items() >= group.items()]
    return task


def test_the_summary_comes_out_exactly(run: tuple[Execution, list[Call]]) -> None:
    execution, _ = run
    summary = dict(execution.output)

    assert execution.status == "SUCCEEDED"
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,97}", summary.pop("RunId"))
    assert isinstance(summary.pop("DurationSeconds"), int)
    assert summary == {
        "Outcome": "Dispatched",
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Path": "paged",
        "PageSize": 1000,
        "Pages": 1,
        "Evaluated": 5,
        "Waiting": 4,
        "Dispatched": 4,
        "AlreadyDispatched": 0,
        "SetAside": 0,
        "Groups": 3,
        "Tasks": 3,
    }


@pytest.mark.usefixtures("run")
def test_the_four_waiting_records_stand_on_the_queues_in_the_bucket_and_in_the_ledger(application: Application) -> None:
    assert application.effects(WINDOW) == everywhere("R1", "R2", "R3", "R5")
    assert len(application.tasks(WINDOW)) == 3
    assert len(application.keys("tasks/2026-09-17/15/")) == 3


@pytest.mark.usefixtures("run")
def test_a_and_c_take_the_points_route_and_b_the_coupon_route(application: Application) -> None:
    tasks = application.tasks(WINDOW)

    routes = [(of_group(tasks, group).queue, of_group(tasks, group).body["JobName"]) for group in (A, B, C)]
    assert routes == [("Point", "RewardPoint"), ("ECoupon", "RewardCoupon"), ("Point", "RewardPoint")]


@pytest.mark.usefixtures("run")
def test_the_object_of_a_lists_r2_and_then_r1(application: Application) -> None:
    task = of_group(application.tasks(WINDOW), A)

    assert task.records == ["R2", "R1"]
    assert [order["OrderTime"] for order in task.object["Orders"]] == ["2026-09-17T14:30:00Z", "2026-09-17T14:50:00Z"]


@pytest.mark.usefixtures("run")
def test_a_task_is_a_pointer_to_an_object_with_the_same_header(application: Application) -> None:
    task = of_group(application.tasks(WINDOW), A)
    header = {
        **A,
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Bucket": application.outputs["TaskDataBucketName"],
        "Key": task.data["Key"],
        "OrderCount": 2,
    }

    assert task.body == {
        "JobName": "RewardPoint",
        "TaskId": task.body["TaskId"],
        "Data": json.dumps(header, separators=(",", ":")),
    }
    assert task.object == {**header, "Orders": task.object["Orders"]}


@pytest.mark.usefixtures("run")
def test_the_window_is_given_back(application: Application) -> None:
    held = {"edge#2026-09-17T15:00:00Z", "edge#2026-09-17T16:00:00Z"}

    assert not held & application.ledger_partitions()
    assert all(plan.finished for plan in application.plans(WINDOW))


def test_the_index_is_read_once_by_the_specified_query(
    application: Application, run: tuple[Execution, list[Call]]
) -> None:
    (query,) = [dict(call.request) for call in run[1] if application.is_query_of_bookings(call)]
    names, values = query.pop("ExpressionAttributeNames"), query.pop("ExpressionAttributeValues")
    texts = {**names, **{placeholder: value["S"] for placeholder, value in values.items()}}
    condition = re.sub(r"[#:]\w+", lambda placeholder: texts[placeholder[0]], query.pop("KeyConditionExpression"))

    assert condition == "BookingDateUTC = 2026-09-17 AND BookingTimeUTC BETWEEN 15:00:00 AND 16:00:00Z"
    assert query == {
        "TableName": application.outputs["BookingTableName"],
        "IndexName": "BookingDateUTC-BookingTimeUTC-index",
        "Limit": 1000,
    }


def test_a_page_keeps_to_its_budget_of_calls(application: Application, run: tuple[Execution, list[Call]]) -> None:
    operations = [call.operation for call in run[1]]
    query = next(place for place, call in enumerate(run[1]) if application.is_query_of_bookings(call))
    # Before the query the page renews the leases and asks for its plan; behind the page they are given back.
    page = operations[query - 2 : operations.index("DeleteItem")]

    assert page[:3] == ["TransactWriteItems", "GetItem", "Query"]
    assert (page.count("Query"), page.count("PutObject"), page.count("SendMessageBatch")) == (1, 3, 2)
    assert len(page) <= 1 + 3 + 2 + 8


def tasks_of(states: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tasks among these states, and among those of their maps."""
    for state in states.values():
        if state["Type"] == "Task":
            yield state
        yield from tasks_of(state.get("ItemProcessor", {}).get("States", {}))


def test_the_deployed_machines_are_the_definitions_with_every_placeholder_filled_in(application: Application) -> None:
    invoked: dict[str, set[str]] = {}
    started: dict[str, set[str]] = {}
    for machine in MACHINES:
        described = application.client("stepfunctions").describe_state_machine(
            stateMachineArn=application.outputs[f"{machine}StateMachineArn"]
        )
        assert "${" not in described["definition"]
        definition = json.loads(described["definition"])
        assert definition["StartAt"] == f"Begin {'run' if machine == 'Dispatch' else machine.lower()}"
        assert definition["StartAt"] in definition["States"]
        given = [task["Parameters"] for task in tasks_of(definition["States"])]
        invoked[machine] = {each["FunctionName"] for each in given if "FunctionName" in each}
        started[machine] = {each["StateMachineArn"] for each in given if "StateMachineArn" in each}

    functions = {module: function["FunctionArn"] for module, function in application.functions().items()}
    assert invoked == {machine: {functions[module] for module in modules} for machine, modules in MACHINES.items()}
    assert functions.keys() - {WATCH, "grant_tasks"} == set().union(*MACHINES.values())
    assert started.pop("Dispatch") == {application.outputs["LaneStateMachineArn"]}
    assert not any(started.values())
