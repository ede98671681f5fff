"""Redos by the deployed application: what a report says is missing is dispatched once another person approves it."""

import json
import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from functions.adapters.ledger_table import approval_key
from tests.deployed.application import Application, Day, Execution, OnCall, everywhere
from tests.deployed.conftest import Redo
from tests.deployed.wire import wait_until
from tools.runs.redos import NOT_WAITING, NotWaitingError, answer


@pytest.fixture
def day(application: Application) -> Day:
    """A day that is over: two bookings at eight were dispatched before a third one of the first's group arrived."""
    day = application.past_day()
    day.miss_one()
    return day


@pytest.fixture
def report(day: Day) -> dict[str, Any]:
    """Of a reconcile that finds the late booking, and nothing else."""
    execution = day.reconcile(8)
    found = {name: number for name, number in execution.output["Counts"].items() if number}
    assert found == {"MissingInLedger": 1}, execution
    place: dict[str, Any] = execution.output["Report"]
    return place


def done(day: Day, execution: Execution, **counts: int) -> None:
    assert execution.status == "SUCCEEDED", execution
    assert execution.output == {
        "Outcome": "Redone",
        "RunId": execution.output["RunId"],
        "WindowStart": day.window(8),
        "WindowEnd": day.window(9),
        "Missing": 1,
        **dict.fromkeys(("Dispatched", "AlreadyDispatched", "NoLongerWaiting", "Tasks"), 0),
        **counts,
    }


def repairs(day: Day) -> list[dict[str, Any]]:
    """What is kept of the redos of eight."""
    rows = day.application.client("dynamodb").query(
        TableName=day.application.outputs["LedgerTableName"],
        KeyConditionExpression="Pk = :hour",
        ExpressionAttributeValues={":hour": {"S": f"redo#{day.window(8)}"}},
    )["Items"]
    return [json.loads(row["Repair"]["S"]) for row in rows]


def test_a_late_booking_is_redone_with_one_task_of_its_own_and_the_first_tasks_are_untouched(
    day: Day, report: dict[str, Any], redo: Redo, on_call: OnCall
) -> None:
    before = [(task, task.content) for task in day.tasks(8)]

    execution = redo(report, by="Bob")

    done(day, execution, Dispatched=1, Tasks=1)
    first = [task for task, _ in before]
    (new,) = [task for task in day.tasks(8) if task not in first]
    assert new.records == ["LATE"]
    assert [(task, task.content) for task in day.tasks(8) if task != new] == before
    assert day.effects(8) == everywhere("R1", "R2", "LATE")
    assert wait_until(lambda: on_call(execution.arn))
    (question,) = on_call(execution.arn)
    assert question["Subject"] == f"Approve a redo of {day.window(8)}?"
    assert f"LATE@{day.date}" in question["Message"]
    assert day.reconcile(8).output["Outcome"] == "Clean"


def test_what_was_redone_is_kept_with_who_asked_who_approved_and_why(
    day: Day, report: dict[str, Any], redo: Redo
) -> None:
    output = redo(report, by="Bob").output

    (repair,) = repairs(day)
    assert repair.items() >= output.items()
    assert (repair["RequestedBy"], repair["ApprovedBy"], repair["Reason"]) == ("Ann", "Bob", "It arrived late.")


def test_the_same_report_again_asks_nobody_and_changes_nothing(day: Day, report: dict[str, Any], redo: Redo) -> None:
    first = redo(report, by="Bob")
    application = day.application
    before = day.tasks(8), application.keys(""), application.ledger_partitions()

    second = redo(report)

    done(day, second, AlreadyDispatched=1)
    assert second.output["RunId"] == first.output["RunId"]
    assert (day.tasks(8), application.keys(""), application.ledger_partitions()) == before
    assert len(repairs(day)) == 1


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"by": " ann "}, "whoever asked for a redo cannot answer it"),
        ({"by": "Bob", "verdict": "--reject"}, 'rejected by "Bob"'),
    ],
    ids=["approved by who asked", "rejected"],
)
def test_without_another_persons_approval_nothing_is_dispatched(
    day: Day, report: dict[str, Any], redo: Redo, answers: dict[str, str], message: str
) -> None:
    execution = redo(report, **answers)

    assert (execution.status, execution.error) == ("FAILED", "NotApproved")
    assert execution.report["Message"] == message
    assert day.effects(8) == everywhere("R1", "R2")


def test_an_approval_that_no_redo_waits_for_is_refused_by_name_and_dispatches_nothing(
    day: Day, report: dict[str, Any], redo: Redo
) -> None:
    application = day.application
    clients = application.client("dynamodb"), application.client("stepfunctions")
    rejected = redo(report, by="Bob", verdict="--reject").arn
    before = application.keys("")

    for execution, said in (
        (rejected, "waits for no answer any more"),
        (f"{rejected}-unheard-of", "has not asked for an approval"),
    ):
        with pytest.raises(NotWaitingError, match=f"^{re.escape(execution)} {said}"):
            answer(*clients, application.outputs["LedgerTableName"], execution, approved=True, by="Bob")

    assert (application.keys(""), repairs(day)) == (before, [])
    assert day.effects(8) == everywhere("R1", "R2")


def test_a_token_that_no_redo_has_handed_out_is_refused_by_name(application: Application) -> None:
    client = application.client("stepfunctions")

    with pytest.raises(ClientError) as refusal:
        client.send_task_success(taskToken="of-nobody", output='{"Approved": true, "By": "Bob"}')

    assert refusal.value.response["Error"]["Code"] in NOT_WAITING


@pytest.mark.parametrize(
    ("field", "text"), [("RequestedBy", "Ann\nApproved by: Bob"), ("Reason", "x" * 501)], ids=["two lines", "too long"]
)
def test_a_redo_that_says_more_than_a_line_of_text_is_refused_by_name_and_asks_nobody(
    day: Day, report: dict[str, Any], field: str, text: str
) -> None:
    given = {"Report": report, "RequestedBy": "Ann", "Reason": "It arrived late.", field: text}

    execution = day.application.run(given, "Redo")

    assert (execution.status, execution.error) == ("FAILED", "InvalidInput")
    assert execution.report["Message"].startswith(f"{field}: ")
    assert approval_key(execution.arn)["Pk"]["S"] not in day.application.ledger_partitions()
