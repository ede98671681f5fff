"""Reconciles on the real machine, after real runs: each difference as it comes about, and the report that finds it."""

import json
from collections.abc import Callable
from typing import Final

import pytest

from functions.domain.budget import PAGE_FUNCTION_SECONDS
from functions.domain.report import checksum_of
from functions.usecases.report_contract import ReconcileReport
from tests.machine.faults import Fault, every, nth
from tests.machine.walk import Account, Execution, State, Walk, booking, group_of, worked_example

TIME: Final = {"ExecuteTime": "2026-09-17T16:01:10Z"}
PAGED: Final = {**TIME, "PaginationEnabled": True, "PageSize": 2}
CLASSES: Final = (
    "MissingInLedger",
    "MissingInBookings",
    "ValueMismatch",
    "Duplicate",
    "OrphanObject",
    "Unreachable",
    "MissingHour",
    "InDoubt",
)
STEPS: Final = [
    "Begin reconcile",
    "Plan reconcile",
    "Read bookings",
    "More bookings?",
    "More to audit?",
    "Read objects",
    "More objects?",
    "Read plans",
    "More plans?",
    "Compare records",
    "More records?",
    "Write report",
    "Window reconciled",
]


@pytest.fixture(autouse=True)
def booked(account: Account) -> None:
    account.book(*worked_example())


def counts(**found: int) -> dict[str, int]:
    return dict.fromkeys(CLASSES, 0) | found


def report_of(account: Account, execution: Execution) -> State:
    place = execution.output["Report"]
    assert place["Bucket"] == "task-data"
    report: State = account.read(place["Key"])
    ReconcileReport.model_validate(report)
    return report


@pytest.mark.parametrize(
    "how", [{}, {"PaginationEnabled": True, "PageSize": 2}, {"PaginationEnabled": True, "Grouping": "window"}], ids=str
)
def test_a_window_that_was_dispatched_is_clean_on_every_path(walk: Walk, account: Account, how: State) -> None:
    walk.run({**TIME, **how})

    execution = walk.reconcile(TIME)

    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.visited == STEPS
    assert execution.output == {
        "Outcome": "Clean",
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Bookings": 5,
        "DispatchedRecords": 4,
        "Counts": counts(),
        "Report": execution.output["Report"],
    }
    report = report_of(account, execution)
    assert report["Sha256"] == checksum_of(report)
    assert (report["Outcome"], report["Stack"]) == ("Clean", "BookingtimeDispatcherTest")


def late(_: Walk, account: Account) -> None:
    account.book(booking("LATE", BookingTimeUTC="15:30:00Z"))


def moved(_: Walk, account: Account) -> None:
    account.book(booking("R1", BookingTimeUTC="18:30:00Z"))


def deleted(_: Walk, account: Account) -> None:
    account.cancel("R1")


def of_another_member(_: Walk, account: Account) -> None:
    account.book(booking("R1", **group_of(1001, 9, 3001)))


def dispatched_again_for_another_member(walk: Walk, account: Account) -> None:
    of_another_member(walk, account)
    walk.run(PAGED)


def orphaned(_: Walk, account: Account) -> None:
    account.put(f"tasks/2026-09-17/15/aa/{'a' * 64}.json")


def dead_in_doubt(walk: Walk, account: Account) -> None:
    late(walk, account)
    walk.calls.stage(Fault.DIED_BEFORE, every("SendMessageBatch"), times=2)
    assert walk.run(PAGED).status == "FAILED"


def unreachable(_: Walk, account: Account) -> None:
    account.book(booking("ODD", BookingTimeUTC="15:3:00Z"), booking("NIGHT", BookingTimeUTC="24:30:00Z"))


@pytest.mark.parametrize(
    ("happens", "found"),
    [
        (late, {"MissingInLedger": 1}),
        (moved, {"MissingInBookings": 1}),
        (deleted, {"MissingInBookings": 1}),
        (of_another_member, {"ValueMismatch": 1}),
        (dispatched_again_for_another_member, {"Duplicate": 1}),
        (orphaned, {"OrphanObject": 1}),
        (dead_in_doubt, {"InDoubt": 1}),
        (unreachable, {"Unreachable": 2}),
    ],
)
def test_the_report_finds_exactly_what_happened(
    walk: Walk, account: Account, happens: Callable[[Walk, Account], None], found: dict[str, int]
) -> None:
    walk.run(PAGED)
    happens(walk, account)

    execution = walk.reconcile(TIME)

    assert (execution.output["Outcome"], execution.output["Counts"]) == ("Differences", counts(**found))
    report = report_of(account, execution)
    [(kind, count)] = found.items()
    assert len(report["Samples"][kind]) == count
    assert report["Sha256"] == checksum_of(report)


def test_records_without_index_keys_are_found_exactly_where_an_audit_is_asked_for(walk: Walk, account: Account) -> None:
    walk.run(PAGED)
    account.book(booking("LOST"), booking("NEVER"), booking("DONE", RewardStatus="Rewarded"))
    account.strip("LOST", "BookingTimeUTC")
    account.strip("NEVER", "BookingDateUTC", "BookingTimeUTC")
    account.strip("DONE", "BookingTimeUTC")

    plain, audited = walk.reconcile(TIME), walk.reconcile({**TIME, "AuditTable": True})

    assert (plain.output["Counts"], plain.visited) == (counts(), STEPS)
    assert audited.output["Counts"] == counts(Unreachable=2)
    place = STEPS.index("More to audit?")
    assert audited.visited == [*STEPS[:place], "More to audit?", "Audit table", *STEPS[place:]]
    assert [report_of(account, each)["Sources"]["Table"] for each in (plain, audited)] == [
        {"Audited": False, "Scanned": 0},
        {"Audited": True, "Scanned": 10},
    ]
    samples = report_of(account, audited)["Samples"]["Unreachable"]
    assert sorted(sample["Key"]["RecordId"] for sample in samples) == ["LOST", "NEVER"]


def test_an_audit_goes_on_page_by_page_from_the_table_s_own_token(walk: Walk, account: Account) -> None:
    walk.run(PAGED)
    account.book(*(booking(f"BIG-{n}", BookingTimeUTC="23:30:00Z", Note="x" * 390_000) for n in range(6)))
    account.strip("BIG-4", "BookingTimeUTC")
    walk.calls.precede(every("Scan"), lambda: walk.let_pass(PAGE_FUNCTION_SECONDS), times=9)

    execution = walk.reconcile({**TIME, "AuditTable": True})

    starts = [call.request.get("ExclusiveStartKey") for call in walk.calls.of("Scan")]
    assert (starts[0], len(starts)) == (None, 3)
    assert [{*start} for start in starts[1:] if start] == [{"RecordId"}] * 2
    assert execution.visited.count("Audit table") == 3
    assert execution.output["Counts"] == counts(Unreachable=1)
    assert report_of(account, execution)["Sources"]["Table"]["Scanned"] == 13


def test_an_hour_that_was_never_dispatched_is_missing(walk: Walk) -> None:
    assert walk.reconcile(TIME).output["Counts"] == counts(MissingHour=1, MissingInLedger=4)


def test_an_orphan_is_what_an_attempt_has_uploaded_that_died_before_its_plan(walk: Walk, account: Account) -> None:
    """A record of the same group comes before the next attempt, which composes another task of them."""
    walk.calls.stage(Fault.DIED_BEFORE, nth("TransactWriteItems", 3))
    execution = walk.run({**PAGED, "PageSize": 100})
    account.book(booking("LATE"))
    assert walk.redrive(execution).status == "SUCCEEDED"

    assert walk.reconcile(TIME).output["Counts"] == counts(OrphanObject=1)


def test_the_window_s_task_is_left_alone_where_a_late_booking_is_found(walk: Walk, account: Account) -> None:
    walk.run(PAGED)
    late(walk, account)
    messages, objects = account.messages, set(account.objects)

    execution = walk.reconcile(TIME)

    assert account.messages == messages
    assert {key.split("/")[0] for key in set(account.objects) - objects} == {"reports", "staging"}
    assert report_of(account, execution)["Samples"]["MissingInLedger"] == [
        {"Key": {"RecordId": "LATE"}, "BookingDateUTC": "2026-09-17", "BookingTimeUTC": "15:30:00Z"}
    ]


@pytest.mark.parametrize(
    ("given", "window_start"),
    [
        ({"ExecuteTime": "2026-09-18T00:01:10+08:00"}, "2026-09-17T15:00:00Z"),
        ({"Data": json.dumps({**TIME, "Job": "other"})}, "2026-09-17T15:00:00Z"),
    ],
    ids=["an offset", "wrapped"],
)
def test_an_input_names_the_window_as_it_does_for_a_run(walk: Walk, given: State, window_start: str) -> None:
    walk.run(given)

    assert walk.reconcile(given).output["WindowStart"] == window_start


def test_without_a_time_it_is_the_hour_before_the_execution_s_start(walk: Walk) -> None:
    execution = walk.reconcile({})

    assert execution.output["WindowEnd"][:13] == execution.started_at[:13]
    assert execution.output["WindowEnd"][13:] == ":00:00Z"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"ExecuteTime": "2099-01-01T00:00:00Z"}, "ExecuteTime"),
        ({**TIME, "PageSize": 5}, "PageSize"),
        ({"From": "2026-09-17T00:00:00Z"}, "From"),
        ({**TIME, "AuditTable": "true"}, "AuditTable"),
        ([], "input"),
        ({"ExecuteTime": "yesterday"}, "ExecuteTime"),
    ],
    ids=["to come", "a run's field", "a range", "no boolean", "no object", "no time"],
)
def test_an_input_that_breaks_the_contract_is_refused_by_name_before_anything_is_read(
    walk: Walk, given: object, field: str
) -> None:
    execution = walk.reconcile(given)

    assert (execution.status, execution.error) == ("FAILED", "InvalidInput")
    assert json.loads(execution.cause)["errorMessage"].startswith(f"{field}: ")
    assert walk.calls.made == []


@pytest.mark.parametrize(
    "operation", ["Query", "Scan", "GetItem", "PutItem", "PutObject", "ListObjectsV2", "GetObject"]
)
@pytest.mark.parametrize("fault", [Fault.THROTTLED, Fault.ANSWER_LOST, Fault.DIED_AFTER], ids=lambda fault: fault.name)
def test_a_call_that_went_wrong_once_changes_nothing(
    walk: Walk, account: Account, operation: str, fault: Fault
) -> None:
    walk.run(PAGED)
    late(walk, account)
    walk.calls.stage(fault, lambda call: call.operation == operation and "Reconcile" in call.payload)

    execution = walk.reconcile({**TIME, "AuditTable": True})
    if fault is Fault.DIED_AFTER:  # a process that ended is no transient error
        assert execution.error == "Runtime.ExitError"
        execution = walk.redrive(execution)

    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.output["Counts"] == counts(MissingInLedger=1)


def test_a_failed_reconcile_has_its_error_s_name_and_a_redrive_goes_on_with_what_failed(
    walk: Walk, account: Account
) -> None:
    walk.run(PAGED)
    late(walk, account)
    walk.calls.stage(Fault.FORBIDDEN, every("ListObjectsV2"))
    execution = walk.reconcile(TIME)
    assert (execution.status, execution.error) == ("FAILED", "ConfigurationError")
    queries = len(walk.starts)

    execution = walk.redrive(execution)

    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.visited[0] == "Read objects"
    assert execution.output["Counts"] == counts(MissingInLedger=1)
    assert len(walk.starts) == queries


def test_a_reconcile_is_counted_by_class_and_logs_no_record(walk: Walk, account: Account) -> None:
    walk.run(PAGED)
    late(walk, account)
    account.book(booking("LOST"))
    account.strip("LOST", "BookingTimeUTC")
    start = len(walk.log.getvalue())

    walk.reconcile({**TIME, "AuditTable": True})

    log = walk.log.getvalue()[start:]
    metrics = [json.loads(line) for line in log.splitlines() if '"_aws"' in line]
    [counted] = [one for one in metrics if "MissingInLedger" in one]
    found = {"MissingInLedger", "Unreachable"}
    assert {name: counted[name] for name in CLASSES} == {name: [float(name in found)] for name in CLASSES}
    assert "LATE" not in log
    assert "LOST" not in log
    assert "2001" not in log
