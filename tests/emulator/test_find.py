"""`make find`: what became of a booking, by what a run left in ledger, bucket and queue."""

import time
from dataclasses import dataclass
from typing import Any

import pytest

from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import LedgerTable
from functions.adapters.staging import S3Staging
from functions.adapters.task_data import S3TaskData
from functions.domain.booking import BadRecord, read_booking
from functions.domain.lane import FIRST_MERGE
from functions.domain.plan import Plan
from functions.domain.run import Counts, Path, Progress, Run
from functions.domain.staging import page_key, staged_line
from functions.domain.task import compose, message_body
from functions.domain.window import Window
from functions.usecases.ports import Lease
from tests.emulator.conftest import Bench
from tools.application import Application
from tools.deployment import Deployment
from tools.emulator.instance import REGION
from tools.find import UnknownBookingError, find
from tools.samples import Item, worked_example
from tools.seed import Partitions, put

_, R1, R2, _, R4, R5, _ = worked_example().bookings
HOUR = Window.starting("2026-09-17T15:00:00Z")
RUN = Run(
    run_id="20260917T160110Z-run",
    execution_id="20260917T160110Z-run",
    started_at="2026-09-17T16:01:10Z",
    window=HOUR,
    path=Path.PAGED,
    page_size=1000,
    dry_run=False,
    set_aside_limit=20,
    lease_seconds=390,
)


@dataclass(frozen=True)
class Site:
    """An application without its state machine: the test does what a run does."""

    application: Application
    sqs: Any
    key: tuple[str, ...]

    @property
    def bucket(self) -> str:
        return self.application.deployment.outputs["TaskDataBucketName"]

    def put(self, booking: Item) -> None:
        item: Any = booking
        table = self.application.deployment.outputs["BookingTableName"]
        self.application.dynamodb.put_item(TableName=table, Item=item)

    @property
    def ledger(self) -> DynamoLedger:
        outputs = self.application.deployment.outputs
        table = LedgerTable(self.application.dynamodb, outputs["LedgerTableName"], time.time)
        return DynamoLedger(table, S3TaskData(self.application.s3, self.bucket))

    def read(self, *bookings: Item) -> list[Any]:
        date_attribute = self.application.partitions.date_attribute
        return [read_booking(booking, self.key, date_attribute) for booking in bookings]

    def decide(self, plan: Plan) -> Lease:
        """Write a plan under the run's leases."""
        assert self.ledger.take(RUN) is None
        lease = self.ledger.renew(RUN, plan.lane)
        self.ledger.create_plan(lease, plan)
        return lease

    def stage(self, *bookings: Item, page: int, lane: int) -> str:
        """Stage a page of the bookings; where its object lies."""
        lines = sorted(map(staged_line, self.read(*bookings)))
        key = page_key(RUN.run_id, HOUR, lane, page, lines)
        staged = S3Staging(self.application.s3, self.bucket).write(key, lines)
        self.decide(Plan(page, (), None, Counts(pages=1), finished=True, lane=lane, staged=staged))
        return f"s3://{self.bucket}/{key}"

    def dispatch(self, *bookings: Item, page: int, finished: bool, sent: bool, lane: int = 0) -> str:
        """Plan one task of the bookings, and do with it what is said; its id."""
        outputs = self.application.deployment.outputs
        (new,) = compose(self.read(*bookings), HOUR)
        plan = Plan(page, (new.task,), None, Counts(pages=1), lane=lane)
        lease = self.decide(plan)
        if sent:
            self.sqs.send_message(
                QueueUrl=outputs["PointTaskQueueUrl"], MessageBody=message_body(new.task, self.bucket)
            )
        if finished:
            self.ledger.finish_plan(lease, plan)
        return new.task.task_id

    def say(self, *values: str) -> str:
        return "\n".join(find(self.application, values))


def _site(bench: Bench, key: dict[str, str], **settings: str) -> Site:
    name = f"find-{time.monotonic_ns()}"
    dynamodb, sqs = bench.client("dynamodb"), bench.client("sqs")
    for table, keys in (("bookings", key), ("ledger", {"Pk": "S", "Sk": "S"})):
        dynamodb.create_table(
            TableName=f"{name}-{table}",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": part, "AttributeType": kind} for part, kind in keys.items()],
            KeySchema=[
                {"AttributeName": part, "KeyType": role} for part, role in zip(keys, ("HASH", "RANGE"), strict=False)
            ],
        )
    bench.client("s3").create_bucket(Bucket=f"{name}-tasks")
    queues = {
        output: sqs.create_queue(QueueName=f"{name}-{output}")["QueueUrl"]
        for output in ("PointTaskQueueUrl", "CouponTaskQueueUrl")
    }
    outputs = {
        "BookingTableName": f"{name}-bookings",
        "LedgerTableName": f"{name}-ledger",
        "TaskDataBucketName": f"{name}-tasks",
        **queues,
        **settings,
    }
    return Site(Application(Deployment(bench.emulator.endpoint, REGION, outputs)), sqs, tuple(key))


@pytest.fixture
def site(bench: Bench) -> Site:
    """A site of the worked example's bookings, and no run yet."""
    site = _site(bench, {"RecordId": "S"})
    for booking in worked_example().bookings:
        site.put(booking)
    return site


def test_a_dispatched_booking_is_found_in_its_task_on_the_queue(site: Site) -> None:
    task_id = site.dispatch(R1, R2, page=3, finished=True, sent=True)

    assert site.say("R1").splitlines() == [
        'Booking {"RecordId":"R1"}',
        '  RewardStatus    "WaitToReward"',
        '  BookingDateUTC  "2026-09-17"',
        '  BookingTimeUTC  "15:03:00Z"',
        "  read by         the hour from 2026-09-17T15:00:00Z",
        "In a task of run 20260917T160110Z-run, page 3, as it was booked for 2026-09-17T15:03:00Z",
        f"  task            {task_id}",
        "  route           Point (RewardPoint)",
        "  orders          2",
        f"  object          s3://{site.bucket}/tasks/2026-09-17/15/{task_id[:2]}/{task_id}.json",
        "  message         on its queue",
    ]


@pytest.mark.parametrize(
    ("finished", "message"),
    [
        (True, "sent, and no longer on its queue: a consumer has it"),
        (False, "not known to be sent: the run that goes on with this page sends it"),
    ],
)
def test_a_message_that_is_not_on_its_queue_was_taken_or_not_sent(site: Site, finished: bool, message: str) -> None:  # noqa: FBT001 - a table's column
    site.dispatch(R5, page=1, finished=finished, sent=False)

    assert site.say("R5").endswith(f"  message         {message}")


def test_a_booking_that_was_rewarded_since_is_found_in_its_task(site: Site) -> None:
    site.dispatch(R5, page=1, finished=True, sent=False)
    rewarded = R5 | {"RewardStatus": {"S": "Rewarded"}}
    site.put(rewarded)

    said = site.say("R5")

    assert '  RewardStatus    "Rewarded"' in said
    assert "In a task of run" in said
    assert "Not dispatched" not in said


def test_a_booking_that_was_moved_is_told_as_it_was_and_as_it_is(site: Site) -> None:
    site.dispatch(R5, page=1, finished=True, sent=False)
    moved = R5 | {"BookingTimeUTC": {"S": "16:10:00Z"}}
    site.put(moved)

    said = site.say("R5")

    assert "as it was booked for 2026-09-17T15:59:00Z" in said
    assert said.endswith(
        "Never read: no run has worked on the hour from 2026-09-17T16:00:00Z.\n"
        'To have it dispatched, start the machine with {"ExecuteTime": "2026-09-17T17:00:00Z"}.'
    )


def test_a_booking_set_aside_is_found_with_its_reason_and_file(site: Site) -> None:
    bad = [BadRecord("OrderTime: missing", R2), BadRecord("MemberId: empty", R1)]
    S3TaskData(site.application.s3, site.bucket).set_aside(RUN, Progress(page=2), bad)

    assert site.say("R1").splitlines()[-3:] == [
        "Set aside by run 20260917T160110Z-run, page 2, as it was booked for 2026-09-17T15:03:00Z",
        "  reason          MemberId: empty",
        f"  file            s3://{site.bucket}/set-aside/2026-09-17/15/20260917T160110Z-run/0000-000002.json",
    ]


def test_a_booking_set_aside_in_a_lane_is_found_with_the_lane(site: Site) -> None:
    S3TaskData(site.application.s3, site.bucket).set_aside(RUN, Progress(page=2, lane=5), [BadRecord("why", R1)])

    *_, line, _, file = site.say("R1").splitlines()

    assert line.startswith("Set aside by run 20260917T160110Z-run, lane 5, page 2, as it was booked for")
    assert file.endswith("/20260917T160110Z-run/0005-000002.json")


def test_a_booking_of_a_grouped_run_is_staged_until_its_group_is_merged(site: Site) -> None:
    site.stage(R5, page=1, lane=0)
    place = site.stage(R1, R2, page=3, lane=2)

    assert site.say("R1").splitlines()[-2:] == [
        "Staged by run 20260917T160110Z-run, lane 2, page 3, and in no task yet: it is when its group is merged",
        f"  object          {place}",
    ]

    site.dispatch(R1, R2, page=1, lane=FIRST_MERGE, finished=True, sent=False)
    said = site.say("R1")

    assert "In a task of run 20260917T160110Z-run, lane 2000, page 1, as it was booked for" in said
    assert "Staged" not in said


def test_a_booking_that_was_moved_since_it_was_staged_is_told_as_it_is(site: Site) -> None:
    site.stage(R1, page=1, lane=0)
    site.put(R1 | {"BookingTimeUTC": {"S": "15:04:00Z"}})

    assert "Staged" not in site.say("R1")


def test_what_a_run_staged_that_came_to_its_end_is_gone_and_no_error(site: Site) -> None:
    place = site.stage(R1, page=1, lane=0)
    site.application.s3.delete_object(Bucket=site.bucket, Key=place.removeprefix(f"s3://{site.bucket}/"))

    assert "Not read by run 20260917T160110Z-run" in site.say("R1")


@pytest.mark.parametrize("date_attribute", ["BookingDateUTC", "BookingDateShard"])
def test_a_booking_of_a_sharded_index_is_found_by_its_date_without_the_shard(bench: Bench, date_attribute: str) -> None:
    site = _site(bench, {"RecordId": "S"}, BookingDateAttribute=date_attribute, BookingShards="8")
    assert site.application.partitions == Partitions(date_attribute, 8)
    table = site.application.deployment.outputs["BookingTableName"]
    put(site.application.dynamodb, table, [R1, R2, R5], site.application.partitions)
    sharded = {booking["RecordId"]["S"]: site.application.partitions.holding(booking) for booking in (R1, R2, R5)}
    site.dispatch(sharded["R1"], page=1, finished=True, sent=False)
    S3TaskData(site.application.s3, site.bucket).set_aside(RUN, Progress(page=1), [BadRecord("why", sharded["R2"])])
    site.stage(sharded["R5"], page=1, lane=1)

    assert f'  {date_attribute:<15} "2026-09-17#5"' in site.say("R1")
    assert "In a task of run 20260917T160110Z-run, page 1, as it was booked for 2026-09-17T15:03:00Z" in site.say("R1")
    assert "page 1, as it was booked for 2026-09-17T15:20:00Z\n  reason          why" in site.say("R2")
    assert "Staged by run 20260917T160110Z-run, lane 1, page 1" in site.say("R5")
    assert "Never read" not in site.say("R1") + site.say("R2") + site.say("R5")


def test_a_booking_that_does_not_wait_is_told_why(site: Site) -> None:
    assert site.say("R4").endswith('Not dispatched: only the status "WaitToReward" waits for a reward.')


def test_a_booking_that_came_after_the_hours_run_names_that_run(site: Site) -> None:
    site.dispatch(R5, page=1, finished=True, sent=False)

    assert site.say("R1").splitlines()[-2:] == [
        "Not read by run 20260917T160110Z-run, the last of the hour from 2026-09-17T15:00:00Z, which has not ended.",
        'To have it dispatched, start the machine with {"ExecuteTime": "2026-09-17T16:00:00Z"}.',
    ]


def test_a_booking_on_an_hours_edge_is_found_in_the_task_of_either_hour(site: Site) -> None:
    edge = R1 | {"BookingTimeUTC": {"S": "16:00:00Z"}}
    site.put(edge)
    site.dispatch(edge, page=1, finished=True, sent=False)

    said = site.say("R1")

    assert "the hour from 2026-09-17T15:00:00Z and the hour from 2026-09-17T16:00:00Z" in said
    assert "In a task of run" in said
    assert "Never read" not in said


def test_a_booking_without_index_keys_is_never_read(site: Site) -> None:
    site.put({name: value for name, value in R1.items() if name != "BookingTimeUTC"})

    said = site.say("R1")

    assert "  BookingTimeUTC  missing" in said
    assert said.endswith("Never read: without a BookingDateUTC and BookingTimeUTC of a real moment, no hour finds it.")


@pytest.mark.parametrize(("values", "reason"), [(["R99"], "R99"), (["R1", "more"], "a value for each of RecordId")])
def test_a_booking_that_the_table_does_not_hold_is_refused(site: Site, values: list[str], reason: str) -> None:
    with pytest.raises(UnknownBookingError, match=reason):
        site.say(*values)


def test_a_key_of_two_attributes_and_a_number_is_named_by_both_values(bench: Bench) -> None:
    site = _site(bench, {"Shop": "S", "Number": "N"})
    booking: Any = {"Shop": {"S": "a"}, "Number": {"N": "7"}, **R1}
    site.put(booking)
    site.dispatch(booking, page=1, finished=True, sent=False)

    said = site.say("a", "7")

    assert said.startswith('Booking {"Number":7,"Shop":"a"}')
    assert "In a task of run" in said
