"""Reconciles of the deployed application: each difference as it comes about, and the report that finds exactly it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from functions.domain.report import checksum_of
from functions.usecases.report_contract import ReconcileReport
from tests.deployed.application import Application, Day, Execution, everywhere
from tests.deployed.wire import Fault, wait_until


@pytest.fixture
def day(application: Application) -> Day:
    """A day that is over, with two groups at eight that were dispatched."""
    day = application.past_day()
    day.book("R1", "08:10:00Z", "1")
    day.book("R2", "08:20:00Z", "1")
    day.book("R3", "08:30:00Z", "2", RewardType="ECoupon")
    assert day.run(8).output.items() >= {"Outcome": "Dispatched", "Dispatched": 3}.items()
    return day


def report_of(day: Day, execution: Execution) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(day.application.content(execution.output["Report"]["Key"]))
    ReconcileReport.model_validate(report)
    assert report["Sha256"] == checksum_of(report)
    return report


def differences(execution: Execution) -> dict[str, int]:
    assert execution.status == "SUCCEEDED", execution
    return {name: number for name, number in execution.output["Counts"].items() if number}


def test_a_window_that_was_dispatched_is_clean(day: Day) -> None:
    execution = day.reconcile(8)

    assert differences(execution) == {}
    assert execution.output.items() >= {"Outcome": "Clean", "Bookings": 3, "DispatchedRecords": 3}.items()
    assert report_of(day, execution)["Sources"]["TaskData"] == {"Objects": 2}


def late(day: Day) -> None:
    day.book("LATE", "08:40:00Z", "1")


def moved(day: Day) -> None:
    day.book("R1", "23:40:00Z", "1")


def of_another_member(day: Day) -> None:
    day.book("R1", "08:10:00Z", "9")


def dispatched_again_for_another_member(day: Day) -> None:
    of_another_member(day)
    day.run(8)


def orphaned(day: Day) -> None:
    key = f"tasks/{day.date}/08/aa/{'a' * 64}.json"
    day.application.client("s3").put_object(Bucket=day.application.outputs["TaskDataBucketName"], Key=key, Body=b"{}")


def cut_off(day: Day) -> None:
    """A later run plans the task of a late booking, and no queue takes it."""
    late(day)
    refused = {"SendMessageBatch": Fault.FORBIDDEN}
    with day.application.wire.reacting(lambda call: refused.get(call.operation)):
        assert day.run(8).status == "FAILED"


def put_at(day: Day, time_of_day: str) -> None:
    """Put a booking at a time that the tools refuse, and the index takes."""
    booking = {
        "RecordId": {"S": f"ODD@{day.date}"},
        "BookingDateUTC": {"S": str(day.date)},
        "BookingTimeUTC": {"S": time_of_day},
        "RewardStatus": {"S": "WaitToReward"},
    }
    day.application.client("dynamodb").put_item(TableName=day.application.outputs["BookingTableName"], Item=booking)


def misshapen(day: Day) -> None:
    put_at(day, "08:3:00Z")


def beyond_the_day(day: Day) -> None:
    put_at(day, "24:30:00Z")


@pytest.mark.parametrize(
    ("happens", "found"),
    [
        (late, "MissingInLedger"),
        (moved, "MissingInBookings"),
        (of_another_member, "ValueMismatch"),
        (dispatched_again_for_another_member, "Duplicate"),
        (orphaned, "OrphanObject"),
        (cut_off, "InDoubt"),
        (misshapen, "Unreachable"),
        (beyond_the_day, "Unreachable"),
    ],
)
def test_the_report_finds_exactly_what_happened(day: Day, happens: Callable[[Day], None], found: str) -> None:
    happens(day)

    execution = day.reconcile(8)

    assert differences(execution) == {found: 1}
    assert len(report_of(day, execution)["Samples"][found]) == 1


def test_a_run_that_was_cut_off_is_in_doubt_until_it_is_resumed_and_then_the_hour_is_clean(day: Day) -> None:
    cut_off(day)
    doubted = day.reconcile(8)

    resumed = day.run(8, Resume=True)

    assert doubted.output.items() >= {"Outcome": "Differences", "Bookings": 4, "DispatchedRecords": 3}.items()
    assert differences(doubted) == {"InDoubt": 1}
    assert resumed.output.items() >= {"Outcome": "Dispatched", "Dispatched": 1, "Tasks": 1}.items()
    assert day.effects(8) == everywhere("R1", "R2", "R3", "LATE")
    clean = day.reconcile(8)
    assert differences(clean) == {}
    assert clean.output.items() >= {"Outcome": "Clean", "Bookings": 4, "DispatchedRecords": 4}.items()


def test_an_hour_that_was_not_dispatched_is_missing(application: Application) -> None:
    assert differences(application.past_day().reconcile(8)) == {"MissingHour": 1}


def test_an_hour_that_is_still_to_come_is_refused_and_nothing_is_kept_of_it(application: Application) -> None:
    day = application.new_day()
    execution, client = application.start(day.input(8), "Reconcile"), application.client("stepfunctions")

    assert wait_until(lambda: client.describe_execution(executionArn=execution)["status"] != "RUNNING")

    ended = client.describe_execution(executionArn=execution)
    assert (ended["status"], ended["error"]) == ("FAILED", "InvalidInput")
    assert application.keys(f"staging/{day.date}/") == []


def test_a_record_without_index_keys_is_found_exactly_where_an_audit_of_the_table_is_asked_for(day: Day) -> None:
    def found(**fields: bool) -> tuple[int, list[str], dict[str, Any]]:
        execution = day.reconcile(8, **fields)
        report = report_of(day, execution)
        samples = [sample["Key"]["RecordId"] for sample in report["Samples"]["Unreachable"] if len(sample) == 1]
        return execution.output["Counts"]["Unreachable"], samples, report["Sources"]["Table"]

    table, name = day.application.outputs["BookingTableName"], f"UNKEYED@{day.date}"
    before, others, scanned = found(AuditTable=True)
    unkeyed = {"RecordId": {"S": name}, "BookingDateUTC": {"S": str(day.date)}, "RewardStatus": {"S": "WaitToReward"}}
    day.application.client("dynamodb").put_item(TableName=table, Item=unkeyed)

    assert found() == (0, [], {"Audited": False, "Scanned": 0})
    after, samples, scanned_then = found(AuditTable=True)
    assert (after, {*samples} - {*others}) == (before + 1, {name})
    assert scanned_then == {"Audited": True, "Scanned": scanned["Scanned"] + 1}
