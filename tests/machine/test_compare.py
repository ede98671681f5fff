"""Compares the paths on the real machine: what paging would change, and that nothing is dispatched for it."""

import json
from typing import Final

import pytest

from functions.domain.report import checksum_of
from tests.machine.faults import Fault, every, nth
from tests.machine.walk import Account, Execution, State, Walk, worked_example

TIME: Final = {"ExecuteTime": "2026-09-17T16:01:10Z"}
STEPS: Final = ["Begin compare", "Plan compare", "Compare paths", "Window compared"]
NONE: Final = dict.fromkeys(("OnlyInFull", "OnlyInOther", "Split", "OrderDiffers", "BodyDiffers"), 0)
FULL: Final = {"Tasks": 3, "Groups": 3, "Records": 4, "LargestGroup": 2, "MostParts": 1}


@pytest.fixture(autouse=True)
def booked(account: Account) -> None:
    account.book(*worked_example())


def report_of(account: Account, execution: Execution) -> State:
    place = execution.output["Report"]
    assert place["Bucket"] == "task-data"
    report: State = account.read(place["Key"])
    return report


def test_a_page_splits_a_group_and_the_grouped_path_equals_the_full_one(walk: Walk, account: Account) -> None:
    execution = walk.compare({**TIME, "PageSize": 1})

    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.visited == STEPS
    assert execution.output == {
        "Outcome": "Differences",
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Full": FULL,
        "Paged": {**FULL, "Tasks": 4, "MostParts": 2, "Differences": {**NONE, "Split": 1, "OrderDiffers": 1}},
        "Grouped": {**FULL, "Differences": NONE},
        "Gate": "Passed",
        "Report": execution.output["Report"],
    }
    report = report_of(account, execution)
    assert report["Sha256"] == checksum_of(report)
    assert report["Stack"] == "BookingtimeDispatcherTest"


def test_an_hour_on_one_page_is_equal_on_all_paths(walk: Walk) -> None:
    output = walk.compare(TIME).output

    assert (output["Outcome"], output["Gate"]) == ("Equal", "Passed")


def test_nothing_is_changed_but_for_the_report(walk: Walk, account: Account) -> None:
    ledger, objects, messages = account.ledger, account.objects, account.messages

    execution = walk.compare({**TIME, "PageSize": 2})

    key = execution.output["Report"]["Key"]
    assert key.startswith("reports/2026-09-17/15/")
    assert key.endswith("-compare.json")
    assert (account.ledger, account.messages) == (ledger, messages)
    assert set(account.objects) - set(objects) == {key}
    assert {call.operation for call in walk.calls.made} == {"GetParameters", "Query", "PutObject"}


def test_what_was_dispatched_already_is_compared_all_the_same(walk: Walk) -> None:
    before = walk.compare(TIME).output
    walk.run(TIME)

    assert walk.compare(TIME).output["Full"] == before["Full"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"ExecuteTime": "2099-01-01T00:00:00Z"}, "ExecuteTime"),
        ({**TIME, "Grouping": "window"}, "Grouping"),
        ({**TIME, "PageSize": 0}, "PageSize"),
        ([], "input"),
    ],
    ids=["to come", "a run's field", "no page", "no object"],
)
def test_an_input_that_breaks_the_contract_is_refused_by_name_before_anything_is_read(
    walk: Walk, given: object, field: str
) -> None:
    execution = walk.compare(given)

    assert (execution.status, execution.error) == ("FAILED", "InvalidInput")
    assert json.loads(execution.cause)["errorMessage"].startswith(f"{field}: ")
    assert walk.calls.made == []


@pytest.mark.parametrize("operation", ["GetParameters", "Query", "PutObject"])
def test_a_call_that_went_wrong_once_changes_nothing(walk: Walk, operation: str) -> None:
    walk.calls.stage(Fault.THROTTLED, nth(operation, 1))

    execution = walk.compare(TIME)

    assert (execution.status, execution.output["Outcome"]) == ("SUCCEEDED", "Equal")


def test_a_failed_comparison_has_its_error_s_name_and_a_redrive_reads_the_hour_again(walk: Walk) -> None:
    walk.calls.stage(Fault.FORBIDDEN, every("PutObject"))
    execution = walk.compare(TIME)
    assert (execution.status, execution.error) == ("FAILED", "ConfigurationError")

    execution = walk.redrive(execution)

    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.visited == STEPS[2:]


def test_a_comparison_logs_no_record(walk: Walk) -> None:
    walk.compare({**TIME, "PageSize": 1})

    log = walk.log.getvalue()
    assert "window compared" in log
    assert "RecordId" not in log
    assert "2001" not in log
