"""What a reconcile reads and keeps, on real engines: its pieces, the plans with their times, keys, objects, reports."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any, Final

import pytest

from functions.adapters.bookings import DynamoBookingIndex, DynamoBookingTable
from functions.adapters.ledger import DynamoLedger
from functions.adapters.pieces import DynamoPieces
from functions.adapters.reports import S3Reports, S3TaskObjects
from functions.adapters.staging import S3Staging
from functions.domain.booking import WAITING
from functions.domain.cursor import check_key
from functions.domain.errors import ConfigurationError, InvalidToken, TransientError
from functions.domain.page import QueryPage
from functions.domain.plan import Plan
from functions.domain.reconcile import DatedPlan, Loop, Piece, Reconcile, Step
from functions.domain.run import Run
from functions.domain.staging import ALL_BUCKETS
from functions.domain.values import AttributeValue
from functions.usecases.pieces import Recorder
from functions.usecases.ports import Span
from functions.usecases.read_bookings import read_bookings
from tests.contract.staged import (
    NOW,
    WINDOW,
    Clock,
    MakeIndex,
    MakeTable,
    a_plan,
    a_run,
    a_staged_object,
    calls_of,
    composed,
    limit_pages,
    lost_answer,
    read_timeout,
    record,
    refusal,
    stage,
)
from tests.contract.staged import Step as Answer

ANY: Final = Span("0", "~")
PIECE: Final = Piece(1, {"Range": 0, "Token": {"RecordId": {"S": "\u65e5"}}}, {"Bookings": 3}, None)


@pytest.fixture
def pieces(ledger: DynamoLedger) -> DynamoPieces:
    return DynamoPieces(ledger.table)


@pytest.fixture
def s3(aws: Callable[[str], Any]) -> Any:
    return aws("s3")


# --- pieces


def test_a_piece_is_found_as_it_was_recorded(pieces: DynamoPieces) -> None:
    staged = a_staged_object("staging/x", "a", "b")
    second = Piece(2, None, {}, staged)

    assert pieces.find("one", Step.PLANS, 1) is None
    assert pieces.record("one", Step.PLANS, PIECE) == PIECE
    assert pieces.record("one", Step.PLANS, second) == second
    assert pieces.find("one", Step.PLANS, 1) == PIECE
    found = pieces.find("one", Step.PLANS, 2)
    assert found
    assert found.staged
    assert (found.cursor, found.staged.key) == (None, "staging/x")
    assert (list(found.staged.lines), list(found.staged.sizes)) == (list(staged.lines), list(staged.sizes))


def test_the_first_attempt_s_piece_stands_and_the_second_takes_it_for_its_own(pieces: DynamoPieces) -> None:
    pieces.record("one", Step.BOOKINGS, PIECE)
    other = replace(PIECE, counts={"Bookings": 9}, staged=a_staged_object("staging/other", "c"))

    assert pieces.record("one", Step.BOOKINGS, other) == PIECE
    assert list(pieces.of("one", Step.BOOKINGS)) == [PIECE]


def test_a_piece_whose_answer_was_lost_is_recorded_once(pieces: DynamoPieces) -> None:
    stage(pieces.table.client, "PutItem", [lost_answer])

    assert pieces.record("one", Step.BOOKINGS, PIECE) == PIECE


def test_the_pieces_of_a_step_and_an_execution_come_in_their_order_beyond_one_page(pieces: DynamoPieces) -> None:
    own = [replace(PIECE, number=number) for number in range(1, 13)]
    for piece in reversed(own):
        pieces.record("one", Step.PLANS, piece)
    pieces.record("one", Step.OBJECTS, PIECE)
    pieces.record("two", Step.PLANS, PIECE)
    limit_pages(pieces.table.client, 5)

    assert list(pieces.of("one", Step.PLANS)) == own
    assert list(pieces.of("two", Step.BOOKINGS)) == []


@pytest.mark.parametrize("operation", ["GetItem", "PutItem"])
def test_a_table_that_does_not_answer_is_transient(pieces: DynamoPieces, operation: str) -> None:
    stage(pieces.table.client, operation, itertools.repeat(read_timeout))
    call: dict[str, Callable[[], object]] = {
        "GetItem": lambda: pieces.find("one", Step.PLANS, 1),
        "PutItem": lambda: pieces.record("one", Step.PLANS, PIECE),
    }

    with pytest.raises(TransientError):
        call[operation]()


# --- plans


def planned(ledger: DynamoLedger, run: Run, *plans: Plan) -> None:
    assert ledger.take(run) is None
    for plan in plans:
        lease = ledger.renew(run, plan.lane)
        ledger.draft_plan(lease, plan)()
        if plan.finished:
            ledger.finish_plan(lease, plan)
    ledger.release(run.lease_owner)


def test_a_plan_says_when_it_was_finished(ledger: DynamoLedger, clock: Clock) -> None:
    open_plan, plan = a_plan(1, composed(record("R1"))), a_plan(2, composed(record("R2")))
    run = a_run()
    planned(ledger, run, open_plan)
    clock.now += 100
    assert ledger.take(run) is None
    lease = ledger.renew(run)
    ledger.draft_plan(lease, plan)()
    clock.now += 100
    ledger.finish_plan(lease, plan)

    assert list(ledger.dated(WINDOW, run.run_id, ANY, None)) == [
        DatedPlan(open_plan, None),
        DatedPlan(replace(plan, finished=True), NOW + 200),
    ]


def test_plans_are_read_on_behind_a_lane_s_page(ledger: DynamoLedger) -> None:
    places = [(0, 1), (0, 2), (0, 10), (2000, 1)]
    plans = [a_plan(page, composed(record(f"R{lane}-{page}")), lane=lane) for lane, page in places]
    planned(ledger, a_run(), *plans)
    limit_pages(ledger.table.client, 2)

    for start, after in enumerate([None, *places]):
        found = [(each.plan.lane, each.plan.page) for each in ledger.dated(WINDOW, "run-1", ANY, after)]
        assert found == places[start:]
    between = ledger.dated(WINDOW, "run-1", ANY, (0, 9))
    assert [(each.plan.lane, each.plan.page) for each in between] == [(0, 10), (2000, 1)]


def test_plans_without_tasks_and_plans_of_other_times_are_left_out(ledger: DynamoLedger) -> None:
    plans = [
        a_plan(1),
        a_plan(2, composed(record("R1", "15:10:00Z"))),
        a_plan(3, composed(record("R2", "15:50:00Z"), record("R3", "16:00:00Z"))),
    ]
    planned(ledger, a_run(), *plans)
    edge = Span("2026-09-17T16:00:00", "2026-09-17T17:00:00Z")

    assert [each.plan.page for each in ledger.dated(WINDOW, "run-1", ANY, None)] == [2, 3]
    assert [each.plan.page for each in ledger.dated(WINDOW, "run-1", edge, None)] == [3]
    assert list(ledger.dated(WINDOW.next, "run-1", ANY, None)) == []


def test_the_runs_of_a_window_come_by_their_start_with_how_they_ended(ledger: DynamoLedger) -> None:
    planned(ledger, a_run("b"))
    planned(ledger, a_run("a"))

    assert [(run.run_id, run.outcome) for run in ledger.runs_of(WINDOW)] == [("a", None), ("b", None)]
    assert list(ledger.runs_of(WINDOW.previous)) == []


# --- bookings, beyond the window too


BEYOND: Final = ["\t", " 15:00:00Z", "-", "00:00:0", "24:00:00Z0", "24:30:00Z", "7:00", "\u5348\u5f8c", "\U0001f550"]
OTHERS: Final = ["00:00:00", "14:59:59Z", "16:00:01Z", "24:00:00Z"]
OWN: Final = {"15:00:00Z": "waiting", "15:3:00Z": "unreachable", "16:00:00Z": "waiting"}
RECONCILE: Final = Reconcile("one", "2026-09-17T18:30:00Z", WINDOW, shards=0, still_waiting_hours=24)


def booked(dynamodb: Any, index: DynamoBookingIndex) -> DynamoBookingIndex:
    """The index of a table with a booking at each of these times, and one beyond the day that does not wait."""
    for number, time in enumerate([*BEYOND, *OTHERS, *OWN]):
        dynamodb.put_item(TableName=index.table_name, Item=record(f"R{number:02}", time))
    dynamodb.put_item(TableName=index.table_name, Item=record("done", "25:00:00Z", RewardStatus={"S": "Rewarded"}))
    return index


def test_the_keys_that_no_window_reads_are_two_ranges(dynamodb: Any, make_index: MakeIndex) -> None:
    index = booked(dynamodb, make_index(dynamodb))
    _, below, above = RECONCILE.ranges

    found = [item["BookingTimeUTC"]["S"] for keys in (below, above) for item in index.query_page(keys, None, 100).items]

    assert sorted(found) == sorted([*BEYOND, "25:00:00Z", "00:00:00", "24:00:00Z"])


def test_bookings_are_staged_by_what_they_are_to_a_run(
    aws: Callable[[str], Any], ledger: DynamoLedger, bucket: str, make_index: MakeIndex
) -> None:
    index = booked(aws("dynamodb"), make_index(aws("dynamodb")))
    recorder = Recorder(DynamoPieces(ledger.table), S3Staging(aws("s3"), bucket))

    assert not read_bookings(RECONCILE, Loop(), index, recorder, lambda: True).has_more

    lines = recorder.staging.read(recorder.staged(RECONCILE, Step.BOOKINGS), ALL_BUCKETS)
    fields = [line.decode("ascii").rstrip("\n").split("\t") for line in lines]
    assert {json.loads(version)[2]: seen for _, _, seen, _, version in fields} == {
        **dict.fromkeys(BEYOND, "unreachable"),
        **OWN,
    }


# --- the table behind the index


UNKEYED: Final[list[dict[str, AttributeValue]]] = [
    {},
    {"BookingDateUTC": {"S": "2026-09-17"}},
    {"BookingTimeUTC": {"S": "15:30:00Z"}},
    {"BookingDateUTC": {"N": "20260917"}, "BookingTimeUTC": {"S": "15:30:00Z"}},
    {"BookingDateUTC": {"S": "2026-09-17"}, "BookingTimeUTC": {"BOOL": True}},
    {"BookingDateUTC": {"NULL": True}, "BookingTimeUTC": {"NULL": True}},
]
KEYED: Final[dict[str, AttributeValue]] = {"BookingDateUTC": {"S": "no date"}, "BookingTimeUTC": {"S": "no time"}}


def looked_through(table: DynamoBookingTable) -> list[QueryPage]:
    """All pages, each from the token of the one before as it was text in the machine's state."""
    found, token = list[QueryPage](), None
    for _ in range(40):
        page = table.unkeyed_page(token)
        found.append(page)
        if page.next_token is None:
            return found
        token = check_key(json.loads(json.dumps(page.next_token)), table.key_attributes)
    pytest.fail("the table did not end")


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_the_records_that_wait_and_lack_a_key_of_the_index_are_found_by_their_primary_keys(
    dynamodb: Any, make_table: MakeTable, rows: int
) -> None:
    """The table has no index yet, for one that has refuses what is of another type."""
    table = make_table(dynamodb, Tenant="N", RecordId="B")
    waits: dict[str, AttributeValue] = {"RewardStatus": WAITING}
    others: list[dict[str, AttributeValue]] = [KEYED | waits, {}, KEYED, {"RewardStatus": {"S": "Rewarded"}}]
    keys: list[dict[str, AttributeValue]] = [
        {"Tenant": {"N": str(place % 2)}, "RecordId": {"B": bytes([place])}} for place in range(10)
    ]
    for key, attributes in zip(keys, [*(one | waits for one in UNKEYED), *others], strict=True):
        dynamodb.put_item(TableName=table.table_name, Item={**attributes, **key, "ShopId": {"N": "1"}})
    limit_pages(dynamodb, rows, "Scan")

    pages = looked_through(table)

    items = [item for page in pages for item in page.items]
    assert sorted(items, key=lambda item: item["RecordId"]["B"]) == keys[: len(UNKEYED)]
    assert sum(page.evaluated_count for page in pages) == len(keys)
    assert len(pages) >= len(keys) // rows


def test_in_a_sharded_index_the_table_is_looked_through_for_that_index_s_own_key(
    dynamodb: Any, make_table: MakeTable
) -> None:
    table = replace(make_table(dynamodb), date_attribute="BookingDateShard")
    dynamodb.put_item(TableName=table.table_name, Item=record("dated"))
    dynamodb.put_item(TableName=table.table_name, Item=record("sharded", BookingDateShard={"S": "2026-09-17#3"}))

    assert table.unkeyed_page(None).items == [{"RecordId": {"S": "dated"}}]


def test_a_table_of_nothing_ends_at_once(dynamodb: Any, make_table: MakeTable) -> None:
    assert make_table(dynamodb).unkeyed_page(None) == QueryPage((), None, 0)


def test_a_page_of_the_table_is_a_megabyte_whatever_is_left_of_it(
    aws: Callable[[str], Any], make_table: MakeTable
) -> None:
    table = make_table(aws("dynamodb"))
    for number in range(6):
        item = record(f"R{number}", Note={"S": "x" * 390_000})
        aws("dynamodb").put_item(TableName=table.table_name, Item=item)

    pages = looked_through(table)

    assert len(pages) > 1
    assert sum(page.evaluated_count for page in pages) == 6
    assert [*chain.from_iterable(page.items for page in pages)] == []


@pytest.mark.parametrize(
    ("step", "error", "says"),
    [
        (read_timeout, TransientError, "Scan bookings: ReadTimeoutError"),
        (refusal("ProvisionedThroughputExceededException"), TransientError, "Scan bookings: ProvisionedThr"),
        (refusal("AccessDeniedException"), ConfigurationError, "Scan bookings: AccessDenied"),
        (refusal("ResourceNotFoundException"), ConfigurationError, "Scan bookings: ResourceNotFound"),
        (
            refusal("ValidationException", message="The provided starting key is invalid"),
            InvalidToken,
            "Scan bookings: ValidationException",
        ),
    ],
    ids=["no answer", "throttled", "forbidden", "not there", "another's token"],
)
def test_a_scan_that_fails_says_who_acts(
    aws: Callable[[str], Any], make_table: MakeTable, step: Answer, error: type[Exception], says: str
) -> None:
    table = make_table(aws("dynamodb"))
    stage(table.client, "Scan", itertools.repeat(step))

    with pytest.raises(error, match=f"^{says}"):
        table.unkeyed_page(None)


# --- task data and reports


def test_keys_come_in_their_order_behind_one_and_of_the_prefix_only(s3: Any, bucket: str) -> None:
    keys = [f"tasks/2026-09-17/15/{place:02}" for place in range(7)]
    for key in [*keys, "tasks/2026-09-17/16/00", "set-aside/x"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    objects = S3TaskObjects(s3, bucket)
    s3.meta.events.register(
        "provide-client-params.s3.ListObjectsV2", lambda params, **_: {**params, "MaxKeys": 3}, unique_id="pages"
    )

    assert list(objects.keys("tasks/2026-09-17/15/", "")) == keys
    assert list(objects.keys("tasks/2026-09-17/15/", keys[2])) == keys[3:]
    assert list(objects.keys("tasks/2026-09-17/15/", keys[-1])) == []


def test_keys_are_listed_as_they_are_asked_for(s3: Any, bucket: str) -> None:
    for place in range(4):
        s3.put_object(Bucket=bucket, Key=f"tasks/{place}", Body=b"")
    calls = calls_of(s3)
    keys = S3TaskObjects(s3, bucket).keys("tasks/", "")

    assert calls == []
    assert next(keys) == "tasks/0"
    assert [call.operation for call in calls] == ["ListObjectsV2"]


def test_keys_that_may_not_be_listed_are_the_owner_s_to_grant(s3: Any, bucket: str) -> None:
    stage(s3, "ListObjectsV2", [refusal("AccessDenied", 403)])

    with pytest.raises(ConfigurationError, match=r"^ListObjectsV2: AccessDenied"):
        list(S3TaskObjects(s3, bucket).keys("tasks/", ""))


def test_a_report_is_written_whole_and_again(s3: Any, bucket: str) -> None:
    reports = S3Reports(s3, bucket)
    for pieces in ([b'{"a":', b"1}"], [b"{}"]):
        reports.write("reports/x.json", pieces)
        written = s3.get_object(Bucket=bucket, Key="reports/x.json")
        assert (written["Body"].read(), written["ContentType"]) == (b"".join(pieces), "application/json")
