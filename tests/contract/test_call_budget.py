"""What a page costs in calls of AWS, counted at the clients below the real composition root.

A page is one query, one upload for each task, a send for each ten tasks of a route, and at most eight calls for leases
and plan.  A transaction is one call.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from functions.adapters.ledger import DynamoLedger
from functions.adapters.task_queues import SqsTaskQueues
from functions.domain.booking import Route
from functions.domain.errors import ConfigurationError
from functions.domain.run import Counts, Progress, Run
from functions.domain.values import Item
from functions.handlers import wiring
from functions.usecases.dispatch_page import dispatch_page
from functions.usecases.ports import Dispatch
from tests.contract.staged import WINDOW, MakeIndex, a_run, calls_of, record, refusal, stage

MOST_FOR_LEASES_AND_PLAN: Final = 8

RENEW = CREATE = FINISH = "TransactWriteItems"
READ: Final = "GetItem"
TASKS: Final = "BatchGetItem"


class Cost(NamedTuple):
    """The calls of one page."""

    queries: int
    uploads: int
    sends: int
    ledger: list[str]
    """The operations for leases and plan, in their order."""


class Page:
    """The page function's collaborators as they are wired, and the calls that they make."""

    def __init__(self, client: Callable[[str], Any], table_name: str) -> None:
        self.dispatch: Dispatch = wiring.dispatch()
        self.sqs = client("sqs")
        self._dynamodb = client("dynamodb")
        self._table_name = table_name
        self._calls = calls_of(*map(client, ("dynamodb", "s3", "sqs", "ssm")))

    def book(self, *records: Item) -> None:
        for each in records:
            self._dynamodb.put_item(TableName=self._table_name, Item=each)

    def done_by(self, run: Run) -> tuple[Counts, Cost]:
        """Do the run's first page under its leases, which are given back; what it did, and its cost."""
        assert self.dispatch.ledger.take(run) is None
        others = self.dispatch.ledger.others(run)
        self._calls.clear()
        try:
            counts = dispatch_page(run, Progress(), others, self.dispatch).totals
            return counts, self._cost()
        finally:
            self.dispatch.ledger.release(run)

    def _cost(self) -> Cost:
        of_ledger = [call for call in self._calls if call.operation not in ("PutObject", "SendMessageBatch")]
        return Cost(
            queries=sum("IndexName" in call.params for call in self._calls),
            uploads=sum(call.operation == "PutObject" for call in self._calls),
            sends=sum(call.operation == "SendMessageBatch" for call in self._calls),
            ledger=[call.operation for call in of_ledger if "IndexName" not in call.params],
        )


@pytest.fixture
def page(
    aws: Callable[[str], Any],
    make_index: MakeIndex,
    ledger: DynamoLedger,
    queues: SqsTaskQueues,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Page]:
    index = make_index(aws("dynamodb"))
    environment = {
        "BOOKING_TABLE_NAME": index.table_name,
        "BOOKING_INDEX_NAME": index.index_name,
        "BOOKING_KEY_ATTRIBUTES": json.dumps(index.key_attributes),
        "LEDGER_TABLE_NAME": ledger.table.name,
        "TASK_DATA_BUCKET_NAME": queues.bucket,
        "POINT_TASK_QUEUE_URL": queues.urls[Route.POINT],
        "COUPON_TASK_QUEUE_URL": queues.urls[Route.COUPON],
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    wiring.dispatch.cache_clear()
    yield Page(aws, index.table_name)
    wiring.dispatch.cache_clear()


def bookings(members: int, kind: str, time: str = "15:30:00Z") -> list[Item]:
    """Two bookings of each member."""
    return [
        record(f"{kind}-{n}-{time}", time, MemberId={"N": str(n // 2)}, RewardType={"S": kind})
        for n in range(2 * members)
    ]


def test_a_page_is_one_query_an_upload_a_task_a_send_for_ten_tasks_and_four_calls_for_leases_and_plan(
    page: Page,
) -> None:
    page.book(*bookings(23, "Point"), *bookings(11, "ECoupon", "15:00:00Z"))
    counts, cost = page.done_by(a_run("first"))
    assert (counts.waiting, counts.groups, counts.tasks) == (68, 23, 34)
    assert cost == Cost(queries=1, uploads=34, sends=3 + 2, ledger=[RENEW, READ, CREATE, FINISH])
    assert len(cost.ledger) <= MOST_FOR_LEASES_AND_PLAN


def test_records_set_aside_are_one_upload_more(page: Page) -> None:
    page.book(*bookings(1, "Point"), *bookings(2, "Voucher"))
    counts, cost = page.done_by(a_run("first"))
    assert (counts.dispatched, counts.set_aside) == (2, 4)
    assert cost == Cost(queries=1, uploads=1 + 1, sends=1, ledger=[RENEW, READ, CREATE, FINISH])


def test_a_page_without_waiting_records_uploads_and_sends_nothing(page: Page) -> None:
    page.book(record("R1", RewardStatus={"S": "Rewarded"}))
    counts, cost = page.done_by(a_run("first"))
    assert counts == Counts(pages=1, evaluated=1)
    assert cost == Cost(queries=1, uploads=0, sends=0, ledger=[RENEW, READ, CREATE, FINISH])


@pytest.mark.parametrize(
    ("neighbour", "edge"),
    [
        pytest.param(a_run("before", WINDOW.previous), "15:00:00Z", id="before"),
        pytest.param(a_run("after", WINDOW.next), "16:00:00Z", id="after"),
    ],
)
def test_an_edge_that_a_neighbours_run_read_costs_three_reads_of_its_plans_and_one_of_its_own(
    page: Page, neighbour: Run, edge: str
) -> None:
    page.book(*bookings(1, "Point", edge))
    page.done_by(neighbour)
    page.book(*bookings(12, "Point"))
    counts, cost = page.done_by(a_run("first"))
    assert (counts.already_dispatched, counts.dispatched, counts.tasks) == (2, 24, 12)
    of_neighbour, own = ["Query", "Query", TASKS], ["Query"]
    assert cost == Cost(1, 12, 2, [RENEW, READ, *of_neighbour, *own, CREATE, FINISH])
    assert len(cost.ledger) <= MOST_FOR_LEASES_AND_PLAN


def test_a_page_with_both_edges_pays_for_both_neighbours(page: Page) -> None:
    page.book(*bookings(1, "Point", "15:00:00Z"), *bookings(1, "Point", "16:00:00Z"))
    for run in (a_run("before", WINDOW.previous), a_run("after", WINDOW.next)):
        page.done_by(run)
    counts, cost = page.done_by(a_run("first"))
    assert (counts.already_dispatched, counts.tasks) == (4, 0)
    of_each_neighbour, own = ["Query", "Query", TASKS], ["Query"]
    assert cost == Cost(1, 0, 0, [RENEW, READ, *of_each_neighbour * 2, *own, CREATE, FINISH])


def test_a_page_away_from_the_edges_costs_no_look_up_though_neighbours_had_runs(page: Page) -> None:
    page.book(*bookings(1, "Point"))
    for run in (a_run("before", WINDOW.previous), a_run("after", WINDOW.next)):
        page.done_by(run)
    _, cost = page.done_by(a_run("first"))
    assert cost == Cost(queries=1, uploads=1, sends=1, ledger=[RENEW, READ, CREATE, FINISH])


def test_a_page_that_another_run_dispatched_costs_a_look_up_and_neither_uploads_nor_sends(page: Page) -> None:
    page.book(*bookings(12, "Point"))
    page.done_by(a_run("first"))
    counts, cost = page.done_by(a_run("second"))
    assert (counts.already_dispatched, counts.tasks) == (24, 0)
    runs, plans_of_each_run = ["Query"], ["Query", "Query"]
    assert cost == Cost(1, 0, 0, [RENEW, READ, *runs, *plans_of_each_run, TASKS, CREATE, FINISH])
    assert len(cost.ledger) <= MOST_FOR_LEASES_AND_PLAN


def test_a_finished_page_done_again_is_looked_up_and_nothing_else(page: Page) -> None:
    page.book(*bookings(12, "Point"))
    run = a_run("first")
    first, _ = page.done_by(run)
    assert page.done_by(run) == (first, Cost(queries=0, uploads=0, sends=0, ledger=[RENEW, READ]))


def test_a_decided_page_done_again_is_sent_and_not_queried_or_uploaded_again(page: Page) -> None:
    page.book(*bookings(12, "Point"))
    run = a_run("first")
    stage(page.sqs, "SendMessageBatch", [refusal("AccessDenied", 403)])
    with pytest.raises(ConfigurationError):
        page.done_by(run)
    counts, cost = page.done_by(run)
    assert (counts.dispatched, counts.tasks) == (24, 12)
    assert cost == Cost(queries=0, uploads=0, sends=2, ledger=[RENEW, READ, TASKS, FINISH])


def test_a_dry_run_is_its_query(page: Page) -> None:
    page.book(*bookings(12, "Point"), *bookings(1, "Voucher"))
    counts, cost = page.done_by(replace(a_run("first"), dry_run=True))
    assert (counts.waiting, counts.dispatched, counts.set_aside, counts.tasks) == (26, 24, 2, 12)
    assert cost == Cost(queries=1, uploads=0, sends=0, ledger=[])
