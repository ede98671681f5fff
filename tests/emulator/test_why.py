"""`dispatchctl why`: what became of a booking, by what a run left in ledger, bucket and queue."""

import io
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from functions.adapters.journal import DynamoJournal
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import LedgerTable
from functions.adapters.staging import S3Staging
from functions.adapters.task_data import S3TaskData
from functions.domain.booking import BadRecord, read_booking
from functions.domain.errors import InvalidInput
from functions.domain.lane import FIRST_MERGE
from functions.domain.pack import Layout
from functions.domain.plan import Plan
from functions.domain.run import Counts, Path, Progress, Run
from functions.domain.staging import page_key, staged_line
from functions.domain.task import compose, message_body
from functions.domain.window import Window
from functions.usecases.ports import Lease
from tests.emulator.conftest import Bench
from tools.application import Application
from tools.deployment import Deployment
from tools.dispatchctl.why import message_text, next_commands, to_json, verdict, view
from tools.emulator.instance import REGION
from tools.runs.why import Cause, State, Story, UnknownBookingError, story_of
from tools.samples import Item, worked_example
from tools.seed import Partitions, put

_, R1, R2, _, R4, R5, _ = worked_example().bookings
HOUR = Window.starting("2026-09-17T15:00:00Z")
LATER = HOUR.end + timedelta(hours=5)
LATER_HOUR = HOUR.next.next
WIDE = 300
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
        self.ledger.draft_plan(lease, plan)()
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

    def story(self, *values: str, now: datetime = LATER, also: Sequence[Window] = ()) -> Story:
        return story_of(self.application, values, now, also)

    def next(self, *values: str) -> list[str]:
        return [step.command for step in next_commands(self.story(*values))]

    def say(self, *values: str) -> str:
        """The screen, on a terminal that is wide enough for each fact to take one line."""
        console = Console(file=io.StringIO(), width=WIDE, color_system=None)
        with console.capture() as capture:
            console.print(view(self.story(*values)))
        return "\n".join(line.rstrip() for line in capture.get().splitlines())


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
        "Dispatched: it is in a task that was sent.",
        "",
        'Booking         {"RecordId":"R1"}',
        'RewardStatus    "WaitToReward"',
        'BookingDateUTC  "2026-09-17"',
        'BookingTimeUTC  "15:03:00Z"',
        "Read by         the run of 2026-09-17 15:00 to 16:00 UTC",
        "Looked in       2026-09-17T14, 2026-09-17T15, 2026-09-17T16",
        "",
        "In a task by run 20260917T160110Z-run, page 3, as it was booked for 2026-09-17T15:03:00Z",
        f"Task     {task_id}",
        "Route    Point (RewardPoint)",
        "Orders   2",
        f"Object   s3://{site.bucket}/tasks/2026-09-17/15/{task_id[:2]}/{task_id}.json",
        "Ledger   plan#2026-09-17T15:00:00Z#20260917T160110Z-run / row#0000#000003",
        "Message  on its queue",
        "Grant    not known: this stack has no worker of its own",
    ]


def test_of_a_task_in_a_pack_the_pack_and_its_bytes_are_told(site: Site) -> None:
    tasks = compose(site.read(R1, R2, R5), HOUR)
    with S3TaskData(site.application.s3, site.bucket, Layout.PACKED).uploading(tasks, lambda: None) as placed:
        plan = Plan(1, tuple(placed), None, Counts(pages=1))
    site.ledger.finish_plan(site.decide(plan), plan)
    extent = placed[1].extent
    assert extent is not None

    place = f"s3://{site.bucket}/{extent.key}, bytes={extent.start}-{extent.start + extent.length - 1}"
    assert f"Object   {place}" in site.say("R5").splitlines()


@pytest.mark.parametrize(
    ("finished", "message", "state"),
    [
        (True, "sent, and no longer on its queue: a consumer has it", State.SENT),
        (False, "not known to be sent: the run that goes on with this page sends it", State.IN_DOUBT),
    ],
)
def test_a_message_that_is_not_on_its_queue_was_taken_or_not_sent(
    site: Site,
    finished: bool,  # noqa: FBT001 - a table's column
    message: str,
    state: State,
) -> None:
    site.dispatch(R5, page=1, finished=finished, sent=False)

    assert f"Message  {message}" in site.say("R5").splitlines()
    assert site.story("R5").state is state


def test_a_task_in_doubt_names_the_command_that_sends_it(site: Site) -> None:
    site.dispatch(R5, page=1, finished=False, sent=False)

    assert site.next("R5") == ["dispatchctl resume 2026-09-17T15"]


def test_in_an_account_a_message_is_told_by_when_it_was_sent(site: Site) -> None:
    site.dispatch(R5, page=1, finished=True, sent=True)
    story = site.story("R5")
    [task] = story.tasks
    assert task.finished is not None

    elsewhere = replace(story, tasks=(replace(task, on_queue=None),))

    assert message_text(elsewhere.tasks[0]) == (
        f"sent by {task.finished:%Y-%m-%d %H:%M:%S} UTC; what became of it, only a consumer knows"
    )
    assert elsewhere.state is State.SENT


def test_a_booking_that_was_rewarded_since_is_found_in_its_task(site: Site) -> None:
    site.dispatch(R5, page=1, finished=True, sent=False)
    rewarded = R5 | {"RewardStatus": {"S": "Rewarded"}}
    site.put(rewarded)

    said = site.say("R5")

    assert 'RewardStatus    "Rewarded"' in said
    assert "In a task by run" in said
    assert "Not dispatched" not in said


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"RewardStatus": {"S": "Cancelled"}}, "it does not wait any more (NotWaiting)."),
        (
            {"MemberId": {"S": "another"}},
            "its shop, member, engine or reward is another one by now, or bad data (Changed).",
        ),
    ],
)
def test_a_dispatched_booking_that_a_worker_skips_is_told_so(site: Site, attributes: Item, why: str) -> None:
    site.dispatch(R5, page=1, finished=True, sent=True)
    assert "skips" not in verdict(site.story("R5"))
    site.put({**R5, **attributes})

    assert verdict(site.story("R5")) == (
        f"Dispatched: it is in a task that was sent. A worker that has not settled it yet skips it: {why}"
    )


def test_a_booking_that_was_moved_is_told_as_it_was_and_as_it_is(site: Site) -> None:
    site.dispatch(R5, page=1, finished=True, sent=False)
    moved = R5 | {"BookingTimeUTC": {"S": "16:10:00Z"}}
    site.put(moved)

    said = site.say("R5")

    assert "as it was booked for 2026-09-17T15:59:00Z" in said
    assert said.startswith(
        "Dispatched as it was booked for 2026-09-17T15:59:00Z, and moved since: as it stands now, it is not dispatched:"
        " no run has worked on the hour 2026-09-17 16:00 to 17:00 UTC."
    )
    assert site.next("R5") == ["dispatchctl run --hour 2026-09-17T16"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BookingTimeUTC", None),
        ("BookingTimeUTC", {"S": "24:30:00Z"}),
        ("BookingTimeUTC", {"N": "15"}),
        ("BookingDateUTC", {"S": "2026-09-17#3"}),
    ],
)
def test_a_booking_that_lost_its_time_is_told_as_it_was_and_as_it_is(site: Site, name: str, value: Any) -> None:
    site.dispatch(R5, page=1, finished=True, sent=False)
    site.put({each: content for each, content in {**R5, name: value}.items() if content})

    assert verdict(site.story("R5", also=[HOUR])).startswith(
        "Dispatched as it was booked for 2026-09-17T15:59:00Z, and moved since: as it stands now, it is not dispatched:"
        f" no hour's run ever reads it, for {name} "
    )


def test_a_booking_that_was_moved_far_away_is_found_in_the_hour_that_is_named(site: Site) -> None:
    site.dispatch(R5, page=1, finished=True, sent=False)
    site.put(R5 | {"BookingTimeUTC": {"S": "20:10:00Z"}})

    assert site.story("R5").tasks == ()
    assert site.next("R5") == ["dispatchctl run --hour 2026-09-17T20", "dispatchctl why R5 --hour OLDHOUR"]
    story = site.story("R5", also=[HOUR])
    assert [task.met.moment for task in story.tasks] == ["2026-09-17T15:59:00Z"]
    assert [step.command for step in next_commands(story)] == ["dispatchctl run --hour 2026-09-17T20"]


def test_where_an_hour_was_named_no_other_is_asked_for(site: Site) -> None:
    steps = next_commands(site.story("R1", also=[HOUR.previous.previous]))

    assert [step.command for step in steps] == ["dispatchctl run --hour 2026-09-17T15"]


def test_a_booking_that_was_deleted_is_found_in_the_hour_that_is_named(site: Site) -> None:
    site.dispatch(R5, page=1, finished=True, sent=False)
    table = site.application.deployment.outputs["BookingTableName"]
    site.application.dynamodb.delete_item(TableName=table, Key={"RecordId": {"S": "R5"}})

    with pytest.raises(UnknownBookingError, match="--hour"):
        site.story("R5")
    story = site.story("R5", also=[HOUR])

    assert [task.met.moment for task in story.tasks] == ["2026-09-17T15:59:00Z"]
    assert verdict(story) == (
        "Dispatched, and deleted since. A worker that has not settled it yet skips it: it is gone (Gone)."
    )
    said = to_json(story)
    assert (said["State"], said["Says"]) == ("Sent", verdict(story))
    assert said["Tasks"][0]["SkippedAs"] == "Gone"
    assert verdict(site.story("R5", also=[LATER_HOUR])) == "Not dispatched: the table does not hold it any more."


def test_a_booking_set_aside_is_found_with_its_reason_and_file(site: Site) -> None:
    bad = [BadRecord("OrderTime: missing", R2), BadRecord("MemberId: empty", R1)]
    S3TaskData(site.application.s3, site.bucket).set_aside(RUN, Progress(page=2), bad)

    said = site.say("R1")

    assert said.splitlines()[-3:] == [
        "Set aside by run 20260917T160110Z-run, page 2, as it was booked for 2026-09-17T15:03:00Z",
        "Reason  MemberId: empty",
        f"File    s3://{site.bucket}/set-aside/2026-09-17/15/20260917T160110Z-run/0000-000002.json",
    ]
    assert said.startswith("Not dispatched: it was set aside as bad data.")
    assert site.next("R1") == ["dispatchctl run --hour 2026-09-17T15"]


@pytest.mark.parametrize(("run_of", "named"), [(HOUR, "2026-09-17T15"), (HOUR.previous, "2026-09-17T14")])
def test_a_booking_set_aside_on_an_hours_edge_is_read_again_by_the_hour_that_set_it_aside(
    site: Site, run_of: Window, named: str
) -> None:
    edge = R1 | {"BookingTimeUTC": {"S": "15:00:00Z"}, "MemberId": {"S": ""}}
    site.put(edge)
    bad = [BadRecord("MemberId: empty", edge)]
    S3TaskData(site.application.s3, site.bucket).set_aside(replace(RUN, window=run_of), Progress(page=2), bad)

    assert site.next("R1") == [f"dispatchctl run --hour {named}"]


@pytest.mark.parametrize("member", ["", "7"])
def test_of_a_booking_on_an_hours_edge_the_hour_that_begins_there_is_run(site: Site, member: str) -> None:
    site.put(R1 | {"BookingTimeUTC": {"S": "15:00:00Z"}, "MemberId": {"S": member}})

    assert site.next("R1") == ["dispatchctl run --hour 2026-09-17T15", "dispatchctl why R1 --hour OLDHOUR"]
    assert verdict(site.story("R1")) == (
        "Not dispatched: no run has worked on the hour 2026-09-17 14:00 to 15:00 UTC."
        " No run has worked on the hour 2026-09-17 15:00 to 16:00 UTC."
    )


def test_a_booking_set_aside_in_a_lane_is_found_with_the_lane(site: Site) -> None:
    S3TaskData(site.application.s3, site.bucket).set_aside(RUN, Progress(page=2, lane=5), [BadRecord("why", R1)])

    *_, line, _, file = site.say("R1").splitlines()

    assert line.startswith("Set aside by run 20260917T160110Z-run, lane 5, page 2, as it was booked for")
    assert file.endswith("/20260917T160110Z-run/0005-000002.json")


def test_a_booking_that_a_run_would_set_aside_is_told_so_before_there_is_one(site: Site) -> None:
    site.put(R1 | {"MemberId": {"S": ""}})

    assert "Bad data        MemberId: empty: a run sets it aside" in site.say("R1").splitlines()


def test_a_booking_of_a_grouped_run_is_staged_until_its_group_is_merged(site: Site) -> None:
    site.stage(R5, page=1, lane=0)
    place = site.stage(R1, R2, page=3, lane=2)

    assert site.say("R1").splitlines()[-2:] == [
        (
            "Staged by run 20260917T160110Z-run, lane 2, page 3, as it was booked for 2026-09-17T15:03:00Z,"
            " and in no task until its group is merged"
        ),
        f"Object  {place}",
    ]
    assert site.story("R1").state is State.STAGED

    site.dispatch(R1, R2, page=1, lane=FIRST_MERGE, finished=True, sent=False)
    said = site.say("R1")

    assert "In a task by run 20260917T160110Z-run, lane 2000, page 1, as it was booked for" in said
    assert "Staged" not in said


def test_a_booking_that_was_moved_since_it_was_staged_is_told_as_it_is(site: Site) -> None:
    site.stage(R1, page=1, lane=0)
    site.put(R1 | {"BookingTimeUTC": {"S": "15:04:00Z"}})

    assert "Staged" not in site.say("R1")


def test_what_a_run_staged_that_came_to_its_end_is_gone_and_no_error(site: Site) -> None:
    place = site.stage(R1, page=1, lane=0)
    site.application.s3.delete_object(Bucket=site.bucket, Key=place.removeprefix(f"s3://{site.bucket}/"))

    assert "it was not read yet by run 20260917T160110Z-run" in site.say("R1")


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

    assert f'{date_attribute:<14}  "2026-09-17#5"' in site.say("R1")
    assert "In a task by run 20260917T160110Z-run, page 1, as it was booked for 2026-09-17T15:03:00Z" in site.say("R1")
    assert "page 1, as it was booked for 2026-09-17T15:20:00Z\nReason  why" in site.say("R2")
    assert "Staged by run 20260917T160110Z-run, lane 1, page 1" in site.say("R5")
    assert {site.story(record).state for record in ("R1", "R2", "R5")} == {State.SENT, State.SET_ASIDE, State.STAGED}


def test_a_booking_that_does_not_wait_is_told_why(site: Site) -> None:
    said = site.say("R4")

    assert said.startswith('Not dispatched: only the status "WaitToReward" waits for a reward.')
    assert site.next("R4") == ["dispatchctl why R4 --hour OLDHOUR"]


def test_a_booking_whose_hour_has_not_ended_is_told_so(site: Site) -> None:
    [untouched] = site.story("R1", now=HOUR.end - timedelta(seconds=1)).untouched

    assert (untouched.cause, untouched.window) == (Cause.HOUR_NOT_ENDED, HOUR)


@pytest.mark.parametrize(
    ("outcome", "cause", "commands"),
    [
        (None, Cause.RUN_NOT_ENDED, ["dispatchctl show 20260917T160110Z-run --follow"]),
        (
            "Stopped",
            Cause.RUN_FAILED,
            ["dispatchctl show 20260917T160110Z-run", "dispatchctl resume 2026-09-17T15"],
        ),
        (
            "Dispatched",
            Cause.NOT_READ,
            ["dispatchctl run --hour 2026-09-17T15", "dispatchctl reconcile 2026-09-17T15"],
        ),
    ],
)
def test_a_booking_that_the_hours_run_has_not_read_names_the_run_and_the_command(
    site: Site, outcome: str | None, cause: Cause, commands: list[str]
) -> None:
    site.dispatch(R5, page=1, finished=True, sent=False)
    if outcome:
        assert DynamoJournal(site.ledger.table).conclude(RUN.lease_owner, outcome, {})

    [untouched] = site.story("R1").untouched

    assert (untouched.cause, untouched.run_id, untouched.outcome) == (cause, RUN.run_id, outcome)
    assert site.next("R1") == [*commands, "dispatchctl why R1 --hour OLDHOUR"]


def test_a_booking_on_an_hours_edge_is_found_in_the_task_of_either_hour(site: Site) -> None:
    edge = R1 | {"BookingTimeUTC": {"S": "16:00:00Z"}}
    site.put(edge)
    site.dispatch(edge, page=1, finished=True, sent=False)

    said = site.say("R1")

    assert "the run of 2026-09-17 15:00 to 16:00 UTC and the run of 2026-09-17 16:00 to 17:00 UTC" in said
    assert "In a task by run" in said
    assert "Not dispatched" not in said


@pytest.mark.parametrize(
    ("attributes", "detail"),
    [
        ({"BookingTimeUTC": None}, "BookingTimeUTC is missing"),
        ({"BookingDateUTC": {"N": "20260917"}}, "BookingDateUTC is no text"),
        ({"BookingDateUTC": {"S": "17.09.2026"}}, "BookingDateUTC is no date as the index takes it, YYYY-MM-DD"),
        ({"BookingDateUTC": {"S": "2026-09-17#3"}}, "BookingDateUTC is no date as the index takes it, YYYY-MM-DD"),
        ({"BookingTimeUTC": {"S": "24:30:00Z"}}, "BookingTimeUTC lies in no hour of a day"),
        ({"BookingTimeUTC": {"S": "three"}}, "BookingTimeUTC lies in no hour of a day"),
    ],
)
def test_a_booking_whose_index_keys_have_another_shape_is_never_read(
    site: Site, attributes: dict[str, Any], detail: str
) -> None:
    site.put({name: value for name, value in (R1 | attributes).items() if value is not None})

    said = site.say("R1")

    assert said.startswith(f"Not dispatched: no hour's run ever reads it, for {detail}.")
    assert "Read by" not in said


def test_a_time_that_is_none_but_lies_in_an_hours_range_is_read_and_set_aside(site: Site) -> None:
    site.put(R1 | {"BookingTimeUTC": {"S": "1:30:00Z"}})

    story = site.story("R1")

    assert [hour.start_text for hour in story.hours] == ["2026-09-17T19:00:00Z"]
    assert story.fault == "BookingTimeUTC: expected HH:MM:SSZ"


def test_a_booking_that_the_table_does_not_hold_is_unknown(site: Site) -> None:
    with pytest.raises(UnknownBookingError, match="R99"):
        site.say("R99")


def test_values_that_are_no_key_of_the_table_are_refused(site: Site, bench: Bench) -> None:
    with pytest.raises(InvalidInput, match=r"^SORT_VALUE: this table has no sort key, only RecordId$"):
        site.say("R1", "more")
    with pytest.raises(InvalidInput, match=r"^RECORD: the value of RecordId is empty, which no key is$"):
        site.say("")
    numbered = _site(bench, {"Shop": "S", "Number": "N"})
    with pytest.raises(InvalidInput, match=r"^RECORD: Number is a number in this table$"):
        numbered.say("a", "b")
    with pytest.raises(InvalidInput, match=r"^RECORD: expected a value for each of Shop, Number$"):
        numbered.say("a")


def test_a_key_of_two_attributes_and_a_number_is_named_by_both_values(bench: Bench) -> None:
    site = _site(bench, {"Shop": "S", "Number": "N"})
    booking: Any = {"Shop": {"S": "a"}, "Number": {"N": "7"}, **R1}
    site.put(booking)
    site.dispatch(booking, page=1, finished=True, sent=False)

    said = site.say("a", "7")

    assert 'Booking         {"Number":7,"Shop":"a"}' in said
    assert "In a task by run" in said
