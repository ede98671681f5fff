"""What a page costs in calls of AWS, counted at the clients below the real composition root.

A page is one query, one upload for each task, a send for each ten tasks of a route, one read of the kill switch, and
at most eight calls for leases and plan.  A transaction is one call.
"""

import gc
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Final, NamedTuple

import pytest

from functions.adapters.ledger import DynamoLedger
from functions.adapters.task_queues import SqsTaskQueues
from functions.domain.booking import Route
from functions.domain.cursor import Token
from functions.domain.errors import ConfigurationError
from functions.domain.lane import FIRST_MERGE
from functions.domain.run import Counts, Others, Path, Progress, Run
from functions.domain.values import Item
from functions.handlers import wiring
from functions.handlers.page_task import PageTask
from functions.usecases.attempt import CONFIRMED_SECONDS
from functions.usecases.dispatch_page import dispatch_page
from functions.usecases.merge_bucket import merge_bucket
from functions.usecases.ports import Dispatch
from functions.usecases.stage_page import stage_page
from tests.contract.staged import WINDOW, MakeIndex, a_run, calls_of, fresh, record, refusal, sent, side_by_side, stage

MOST_FOR_LEASES_AND_PLAN: Final = 8

RENEW = CREATE = NOTE = FINISH = "TransactWriteItems"
READ: Final = "GetItem"
OF_RUN: Final = "Query"
TASKS = CONFIRM = "BatchGetItem"


class Cost(NamedTuple):
    """The calls of one page."""

    queries: int
    uploads: int
    sends: int
    ledger: list[str]
    """The operations for leases and plan, in their order."""
    switch: int = 1
    """Reads of the kill switch."""
    staged: int = 0
    """Reads of staged objects."""


MERGED: Final[Token] = {"From": {"N": "0"}, "To": {"N": "256"}}
"""All buckets, from their start."""


def staging(run: Run, progress: Progress, _: Others, dispatch: Dispatch, deadline: float) -> Progress:
    """Stage a page; what other runs did is asked when it is merged."""
    return stage_page(run, progress, dispatch, deadline)


class Page:
    """The page function's collaborators as they are wired, and the calls that they make."""

    def __init__(self, client: Callable[[str], Any], table_name: str) -> None:
        self.dispatch: Dispatch = wiring.dispatch()
        self.sqs = client("sqs")
        self._dynamodb = client("dynamodb")
        self._ssm = client("ssm")
        self._table_name = table_name
        self.cost: Cost
        """Of the page done last, also where it failed."""
        self._calls = calls_of(*map(client, ("dynamodb", "s3", "sqs", "ssm")))

    def book(self, *records: Item) -> None:
        for each in records:
            self._dynamodb.put_item(TableName=self._table_name, Item=each)

    def set_the_switch(self, value: str) -> None:
        self._ssm.put_parameter(Name=os.environ["STOP_PARAMETER"], Value=value, Type="String", Overwrite=True)

    def done_by(self, run: Run, page: int = 1, lane: int = 0, task: PageTask = dispatch_page) -> tuple[Counts, Cost]:
        """Do a page of a lane, from its start, under the run's leases, which are given back; its work and cost."""
        assert self.dispatch.ledger.take(run) is None
        others = wiring.journal().others(run)
        self._calls.clear()
        try:
            progress = Progress(page, token=MERGED if task is merge_bucket else None, lane=lane)
            counts = task(run, progress, others, self.dispatch, time.time() + 300).totals
        finally:
            self.cost = self._cost()
            self.dispatch.ledger.release(run.lease_owner)
        return counts, self.cost

    def _cost(self) -> Cost:
        operations = Counter(call.operation for call in self._calls)
        of_others = ("PutObject", "GetObject", "SendMessageBatch", "GetParameters")
        of_ledger = [call for call in self._calls if call.operation not in of_others]
        cost = Cost(
            queries=sum("IndexName" in call.params for call in self._calls),
            uploads=operations["PutObject"],
            sends=operations["SendMessageBatch"],
            ledger=[call.operation for call in of_ledger if "IndexName" not in call.params],
            switch=operations["GetParameters"],
            staged=operations["GetObject"],
        )
        print(f"{cost}: {len(cost.ledger)} for leases and plan")  # noqa: T201 -- shown by pytest -rP
        assert len(cost.ledger) <= MOST_FOR_LEASES_AND_PLAN
        return cost


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
        "BOOKING_DATE_ATTRIBUTE": index.date_attribute,
        "BOOKING_SHARDS": "0",
        "LEDGER_TABLE_NAME": ledger.table.name,
        "TASK_DATA_BUCKET_NAME": queues.bucket,
        "POINT_TASK_QUEUE_URL": queues.urls[Route.POINT],
        "COUPON_TASK_QUEUE_URL": queues.urls[Route.COUPON],
        "STOP_PARAMETER": fresh("/stop"),
        "TASK_DATA_LAYOUT": "object",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    made_once = (wiring.dispatch, wiring.ledger_table, wiring.staging)
    for each in made_once:
        each.cache_clear()
    yield Page(aws, index.table_name)
    for each in made_once:
        each.cache_clear()
    gc.unfreeze()


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


def test_a_packed_page_is_one_upload_whatever_its_tasks_and_otherwise_the_same(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASK_DATA_LAYOUT", "packed")
    wiring.dispatch.cache_clear()
    page.dispatch = wiring.dispatch()
    page.book(*bookings(23, "Point"), *bookings(11, "ECoupon", "15:00:00Z"))
    assert gc.get_freeze_count() > 0  # what stays as long as the process is not gone through again and again
    counts, cost = page.done_by(a_run("first"))
    assert (counts.waiting, counts.groups, counts.tasks) == (68, 23, 34)
    assert cost == Cost(queries=1, uploads=1, sends=3 + 2, ledger=[RENEW, READ, CREATE, FINISH])


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
def test_an_edge_that_a_neighbours_run_read_costs_two_reads_of_its_plans(page: Page, neighbour: Run, edge: str) -> None:
    page.book(*bookings(1, "Point", edge))
    page.done_by(neighbour)
    page.book(*bookings(12, "Point"))
    counts, cost = page.done_by(a_run("first"))
    assert (counts.already_dispatched, counts.dispatched, counts.tasks) == (2, 24, 12)
    assert cost == Cost(1, 12, 2, [RENEW, READ, OF_RUN, TASKS, CREATE, FINISH])


@pytest.fixture
def page_with_both_edges(page: Page) -> Page:
    """Both neighbours had one run each, and each dispatched a part of what is on its edge by now."""
    page.book(*bookings(1, "Point", "15:00:00Z"), *bookings(1, "Point", "16:00:00Z"))
    for run in (a_run("before", WINDOW.previous), a_run("after", WINDOW.next)):
        page.done_by(run)
    page.book(*bookings(12, "Point"), *bookings(1, "ECoupon", "15:00:00Z"), *bookings(1, "ECoupon", "16:00:00Z"))
    return page


def test_a_first_page_with_both_edges_and_a_run_of_each_neighbour_costs_seven(page_with_both_edges: Page) -> None:
    counts, cost = page_with_both_edges.done_by(a_run("first"))
    assert (counts.already_dispatched, counts.dispatched, counts.tasks) == (4, 28, 13)
    assert cost == Cost(1, 13, 2 + 1, [RENEW, READ, OF_RUN, OF_RUN, TASKS, CREATE, FINISH])


def test_a_later_page_looks_at_its_own_runs_earlier_ones_too_and_costs_eight(page_with_both_edges: Page) -> None:
    run = a_run("first")
    page_with_both_edges.done_by(run)
    counts, cost = page_with_both_edges.done_by(run, page=2)
    assert (counts.already_dispatched, counts.tasks) == (32, 0)
    own, of_neighbours = [OF_RUN], [OF_RUN, OF_RUN]
    assert cost == Cost(1, 0, 0, [RENEW, READ, *own, *of_neighbours, TASKS, CREATE, FINISH])


@pytest.mark.parametrize(("number", "own"), [(1, []), (2, [OF_RUN])], ids=["first page", "later page"])
def test_a_decided_page_with_both_edges_done_again_costs_no_more(
    page_with_both_edges: Page, number: int, own: list[str]
) -> None:
    page, run = page_with_both_edges, a_run("first")
    stage(page.sqs, "SendMessageBatch", side_by_side(*[refusal("AccessDenied", 403)] * 3))
    with pytest.raises(ConfigurationError):
        page.done_by(run, number)
    counts, cost = page.done_by(run, number)
    assert (counts.already_dispatched, counts.dispatched, counts.tasks) == (4, 28, 13)
    of_neighbours = [OF_RUN, OF_RUN]
    assert cost == Cost(0, 0, 3, [RENEW, READ, TASKS, *own, *of_neighbours, TASKS, FINISH])


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
    assert cost == Cost(1, 0, 0, [RENEW, READ, OF_RUN, TASKS, CREATE, FINISH])


def test_each_further_run_of_the_window_costs_a_query_and_all_their_tasks_one_read(page: Page) -> None:
    page.book(*bookings(12, "Point"))
    for number in range(3):
        page.done_by(a_run(f"earlier-{number}"))
    counts, cost = page.done_by(a_run("last"))
    assert (counts.already_dispatched, counts.tasks) == (24, 0)
    assert cost == Cost(1, 0, 0, [RENEW, READ, *[OF_RUN] * 3, TASKS, CREATE, FINISH])


def test_a_finished_page_done_again_is_looked_up_and_nothing_else(page: Page) -> None:
    page.book(*bookings(12, "Point"))
    run = a_run("first")
    first, _ = page.done_by(run)
    assert page.done_by(run) == (first, Cost(queries=0, uploads=0, sends=0, ledger=[RENEW, READ]))


def test_the_kill_switch_is_read_fresh_and_one_that_is_missing_or_unreadable_is_off(page: Page) -> None:
    assert page.dispatch.stop() is False
    for value, on in (("true", True), ("false", False), (" TRUE ", True), ("yes", False)):
        page.set_the_switch(value)
        assert page.dispatch.stop() is on


def test_a_page_under_the_kill_switch_reads_the_switch_and_whether_the_page_is_done(page: Page) -> None:
    page.book(*bookings(12, "Point"))
    page.set_the_switch("true")
    counts, cost = page.done_by(a_run("first"))
    assert counts == Counts()
    assert cost == Cost(queries=0, uploads=0, sends=0, ledger=[READ])


def test_a_page_that_takes_long_looks_before_its_next_calls_whether_it_was_superseded(page: Page) -> None:
    page.book(*bookings(1, "Point"))
    steps = count(time.time(), CONFIRMED_SECONDS + 1)
    page.dispatch = replace(page.dispatch, clock=lambda: next(steps))
    _, cost = page.done_by(a_run("first"))
    upload, plan, batch, mark = [CONFIRM], [CONFIRM, CREATE], [CONFIRM], [CONFIRM, FINISH]
    assert cost == Cost(queries=1, uploads=1, sends=1, ledger=[RENEW, READ, *upload, *plan, *batch, *mark])


def test_a_page_that_fails_half_way_costs_one_call_more_to_note_what_was_sent(page: Page) -> None:
    page.book(*bookings(12, "Point"))
    run = a_run("first")
    stage(page.sqs, "SendMessageBatch", side_by_side(sent, refusal("AccessDenied", 403)))
    with pytest.raises(ConfigurationError):
        page.done_by(run)
    assert page.cost.ledger == [RENEW, READ, CREATE, NOTE]
    counts, cost = page.done_by(run)
    assert (counts.dispatched, counts.tasks) == (24, 12)
    assert cost == Cost(queries=0, uploads=0, sends=1, ledger=[RENEW, READ, TASKS, FINISH])


def test_a_decided_page_done_again_is_sent_and_not_queried_or_uploaded_again(page: Page) -> None:
    page.book(*bookings(12, "Point"))
    run = a_run("first")
    stage(page.sqs, "SendMessageBatch", side_by_side(*[refusal("AccessDenied", 403)] * 2))
    with pytest.raises(ConfigurationError):
        page.done_by(run)
    counts, cost = page.done_by(run)
    assert (counts.dispatched, counts.tasks) == (24, 12)
    assert cost == Cost(queries=0, uploads=0, sends=2, ledger=[RENEW, READ, TASKS, FINISH])


def test_a_page_of_a_lane_costs_what_one_of_a_run_in_one_lane_does(page: Page) -> None:
    page.book(*bookings(12, "Point"), *bookings(3, "Point", "15:29:59Z"))
    counts, cost = page.done_by(replace(a_run("first"), slices=2), lane=1)
    assert (counts.evaluated, counts.tasks) == (24, 12)
    assert cost == Cost(queries=1, uploads=12, sends=2, ledger=[RENEW, READ, CREATE, FINISH])


def test_a_first_page_of_a_lane_looks_at_what_the_runs_other_lanes_took_along(page_with_both_edges: Page) -> None:
    run = replace(a_run("first"), slices=2)
    for lane, tasks in ((0, 1), (1, 13)):
        counts, cost = page_with_both_edges.done_by(run, lane=lane)
        assert (counts.already_dispatched, counts.tasks) == (2, tasks)
        own, of_neighbour = [OF_RUN], [OF_RUN]
        assert cost.ledger == [RENEW, READ, *own, *of_neighbour, TASKS, CREATE, FINISH]


GROUPED: Final = replace(a_run("first"), path=Path.GROUPED)


def test_a_staged_page_is_one_query_one_upload_and_three_calls_for_leases_and_plan(page: Page) -> None:
    page.book(*bookings(12, "Point"), *bookings(2, "ECoupon"))
    counts, cost = page.done_by(GROUPED, task=staging)
    assert counts == Counts(pages=1, evaluated=28)
    assert cost == Cost(queries=1, uploads=1, sends=0, ledger=[RENEW, READ, CREATE])
    assert page.done_by(GROUPED, task=staging) == (counts, Cost(0, 0, 0, [RENEW, READ]))


def test_a_chunk_of_a_merge_is_a_read_of_each_staged_object_and_two_queries_more_than_a_page(page: Page) -> None:
    page.book(*bookings(12, "Point"), *bookings(2, "ECoupon"))
    page.done_by(GROUPED, task=staging)
    counts, cost = page.done_by(GROUPED, lane=FIRST_MERGE, task=merge_bucket)
    assert (counts.dispatched, counts.groups, counts.tasks) == (28, 12, 14)
    of_folds, of_pages = [OF_RUN], [OF_RUN]
    ledger = [RENEW, READ, *of_folds, *of_pages, CREATE, FINISH]
    assert cost == Cost(queries=0, uploads=14, sends=2 + 1, ledger=ledger, staged=1)


def test_a_dry_run_is_its_query(page: Page) -> None:
    page.book(*bookings(12, "Point"), *bookings(1, "Voucher"))
    counts, cost = page.done_by(replace(a_run("first"), dry_run=True))
    assert (counts.waiting, counts.dispatched, counts.set_aside, counts.tasks) == (26, 24, 2, 12)
    assert cost == Cost(queries=1, uploads=0, sends=0, ledger=[])
