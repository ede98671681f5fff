"""The deployed application from outside: what it is given, and the effects that it leaves."""

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache, cached_property
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import LedgerTable, approval_key
from functions.adapters.task_data import S3TaskData
from functions.domain.pack import Layout
from functions.domain.plan import Plan
from functions.domain.run import Counts
from functions.domain.task import Extent
from functions.domain.window import Window
from functions.usecases.ports import PlansOf
from tests.deployed.wire import Call, Fault, React, Wire
from tools.deployment import Deployment
from tools.emulator.access import client_settings, session
from tools.samples import Item
from tools.seed import put

EXECUTION_SECONDS: Final = 120.0
"""The longest wait for the end of an execution.  Half a second is usual."""

QUEUES: Final = {"Point": "PointTaskQueueUrl", "ECoupon": "CouponTaskQueueUrl"}

RECONCILING: Final = (
    "plan_reconcile",
    "read_bookings",
    "audit_table",
    "read_objects",
    "read_plans",
    "compare_records",
    "write_report",
)
"""A reconcile's functions, in their order; the table is audited only where that is asked for."""

COMPARING: Final = ("plan_compare", "compare_paths")
"""A comparison's functions, in their order."""

REDOING: Final = (
    "plan_redo",
    "count_missing",
    "ask_for_approval",
    "check_approval",
    "take_leases",
    "redo_page",
    "summarize_run",
    "record_repair",
)
"""The functions of a redo, in their order; where it takes leases and is summed up it uses a run's."""


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution that has ended."""

    arn: str
    status: str
    output: dict[str, Any]
    error: str | None
    report: dict[str, Any]
    """What the cause of a failure says."""
    started: datetime


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it stands on its queue, and the object that it points at."""

    application: "Application"
    queue: str
    body: dict[str, Any]
    data: dict[str, Any]
    message_group: str

    @property
    def content(self) -> bytes:
        """The object as it was written, or its bytes in a pack."""
        key, named = self.data["Key"], self.data.get("Range")
        extent = Extent(key, named["Start"], named["Length"], self.data["Sha256"]) if named else None
        return self.application.content(key, extent)

    @property
    def object(self) -> dict[str, Any]:
        """The object as JSON; no digit of a number is lost."""
        content: dict[str, Any] = json.loads(self.content, parse_float=Decimal)
        return content

    @property
    def records(self) -> list[str]:
        """The records in the object's order."""
        return _records(self.content)

    def delivered(self, message_id: str) -> dict[str, Any]:
        """The task as Lambda hands it to a worker the first time."""
        attributes = {"ApproximateReceiveCount": "1", "MessageGroupId": self.message_group}
        return {"messageId": message_id, "body": json.dumps(self.body), "attributes": attributes}


class Effects(NamedTuple):
    """The records of a window by the places that hold them; one that is held twice stands there twice."""

    on_queues: list[str]
    in_bucket: list[str]
    in_ledger: list[str]
    """Of the tasks that were sent, as the plans say."""


OnCall: TypeAlias = Callable[[str], list[dict[str, str]]]
"""The messages, each with `Subject` and `Message`, that name an execution."""

NOWHERE: Final = Effects([], [], [])


def everywhere(*records: str) -> Effects:
    """The effects where these records, and no others, were dispatched once each."""
    return Effects(sorted(records), sorted(records), sorted(records))


def forbid_uploads_of(member: str) -> React:
    """The upload of the task of a member of `Day.book` is refused for good."""
    header = f'"MemberId":"member-{member}"'.encode()

    def react(call: Call) -> Fault | None:
        is_task = call.operation == "PutObject" and call.request["Key"].startswith("tasks/")
        return Fault.FORBIDDEN if is_task and header in call.request["Body"] else None

    return react


class Application:
    """What was deployed.  Its functions call AWS over the wire."""

    def __init__(self, deployment: Deployment, wire: Wire) -> None:
        self.outputs: Final = deployment.outputs
        self.endpoint: Final = deployment.endpoint
        self.wire: Final = wire
        self._days = count()
        self._past_days = count()
        self._ledger = DynamoLedger(
            LedgerTable(self.client("dynamodb"), self.outputs["LedgerTableName"], time.time),
            S3TaskData(self.client("s3"), self.outputs["TaskDataBucketName"]),
        )

    def client(self, service: str) -> Any:
        """A client that may do everything."""
        return _client(service, self.endpoint)

    def functions(self) -> dict[str, dict[str, Any]]:
        """The configuration of each function, by the module of its handler."""
        pages = self.client("lambda").get_paginator("list_functions").paginate()
        ours = [each for page in pages for each in page["Functions"] if each["Handler"].startswith("functions.")]
        return {function["Handler"].split(".")[2]: function for function in ours}

    @cached_property
    def function_names(self) -> dict[str, str]:
        """The name of each function, by the module of its handler."""
        return {module: function["FunctionName"] for module, function in self.functions().items()}

    def use_the_wire(self) -> None:
        """Let every function call AWS over the wire."""
        for module, function in self.functions().items():
            ours = {"AWS_ENDPOINT_URL": self.wire.endpoint, "AWS_SDK_UA_APP_ID": module}
            self._configure(function, ours)

    def lay_out(self, layout: Layout) -> None:
        """Give every function that dispatches this layout of task data, as a deployment with the setting does."""
        for function in self.functions().values():
            if "TASK_DATA_LAYOUT" in function["Environment"]["Variables"]:
                self._configure(function, {"TASK_DATA_LAYOUT": layout.value})

    def _configure(self, function: dict[str, Any], variables: dict[str, str]) -> None:
        """Set these environment variables of a function beside those that it has."""
        self.client("lambda").update_function_configuration(
            FunctionName=function["FunctionName"],
            Environment={"Variables": {**function["Environment"]["Variables"], **variables}},
        )

    def new_day(self) -> "Day":
        """A date that is this test's own, with its neighbours."""
        return Day(self, date(2031, 1, 2) + timedelta(days=3 * next(self._days)))

    def past_day(self) -> "Day":
        """Such a date that is over: an hour that is still to come is neither reconciled, compared nor redone."""
        return Day(self, date(2021, 1, 2) + timedelta(days=3 * next(self._past_days)))

    def book(self, *bookings: Item) -> None:
        """Put bookings into the table."""
        put(self.client("dynamodb"), self.outputs["BookingTableName"], bookings)

    def start(self, run_input: Any, machine: str = "Dispatch") -> str:
        """Start an execution."""
        started = self.client("stepfunctions").start_execution(
            stateMachineArn=self.outputs[f"{machine}StateMachineArn"], input=json.dumps(run_input)
        )
        return str(started["executionArn"])

    def end(self, execution: str) -> Execution:
        """An execution, when it has ended."""
        deadline = time.monotonic() + EXECUTION_SECONDS
        while time.monotonic() < deadline:
            described = self.client("stepfunctions").describe_execution(executionArn=execution)
            if described["status"] != "RUNNING":
                return Execution(
                    arn=execution,
                    status=described["status"],
                    output=json.loads(described.get("output") or "{}"),
                    error=described.get("error"),
                    report=_report(described.get("cause")),
                    started=described["startDate"].astimezone(UTC),
                )
            time.sleep(0.05)
        pytest.fail(f"{execution} did not end")

    def run(self, run_input: Any, machine: str = "Dispatch") -> Execution:
        """Start an execution and wait for its end."""
        return self.end(self.start(run_input, machine))

    def tasks(self, window_start: str) -> list[Task]:
        """The tasks of a window that stand on the queues.  None is received."""
        return [task for queue in QUEUES for task in self._tasks(queue) if task.data["WindowStart"] == window_start]

    def effects(self, window_start: str) -> Effects:
        """What the runs of a window did."""
        prefix = f"tasks/{window_start[:10]}/{window_start[11:13]}/"
        planned = [(plan, task) for plan in self.plans(window_start) for task in plan.tasks]
        done = [task for plan, task in planned if plan.finished or task.task_id in plan.sent]
        return Effects(
            on_queues=sorted(record for task in self.tasks(window_start) for record in task.records),
            in_bucket=sorted(record for key in self.keys(prefix) for record in _records(self.content(key))),
            in_ledger=sorted(_name(json.loads(v.key)["RecordId"]) for task in done for v in task.versions),
        )

    def keys(self, prefix: str) -> list[str]:
        """The keys of the bucket that begin so."""
        pages = self.client("s3").get_paginator("list_objects_v2")
        found = pages.paginate(Bucket=self.outputs["TaskDataBucketName"], Prefix=prefix)
        return [content["Key"] for page in found for content in page.get("Contents", ())]

    def content(self, key: str, extent: Extent | None = None) -> bytes:
        """An object of the bucket, or some bytes of it."""
        place = {"Bucket": self.outputs["TaskDataBucketName"], "Key": key}
        if extent is not None:
            place["Range"] = extent.byte_range
        answer = self.client("s3").get_object(**place)
        content: bytes = answer["Body"].read()
        return content

    def plans(self, window_start: str) -> list[Plan]:
        """The plans of a window's runs."""
        return list(self._ledger.plans(PlansOf(Window.starting(window_start), None)))

    def errors(self, execution: str) -> list[str]:
        """The errors of an execution's attempts so far, in their order."""
        pages = self.client("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=execution)
        events = (event for page in pages for event in page["events"])
        return [event["taskFailedEventDetails"]["error"] for event in events if event["type"] == "TaskFailed"]

    def set_timeout(self, module: str, seconds: int) -> None:
        """Give a function another timeout.  Its warm processes are ended."""
        self.client("lambda").update_function_configuration(FunctionName=self.function_names[module], Timeout=seconds)

    def logged(self, module: str, run_id: str) -> list[dict[str, Any]]:
        """What a function logged of a run."""
        group = self.functions()[module]["LoggingConfig"]["LogGroup"]
        pages = self.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
        lines = [event["message"] for page in pages for event in page["events"] if run_id in event["message"]]
        return [json.loads(line) for line in lines if line.startswith("{")]

    @contextmanager
    def on_call(self) -> Iterator[OnCall]:
        """Who is told of failures for the length of a block: a queue that is subscribed to the topic."""
        sqs, topic = self.client("sqs"), self.outputs["AlarmTopicArn"]
        queue = sqs.create_queue(QueueName="on-call")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        allow = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": topic}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
        subscription = self.client("sns").subscribe(
            TopicArn=topic, Protocol="sqs", Endpoint=arn, ReturnSubscriptionArn=True
        )["SubscriptionArn"]
        try:
            yield lambda execution: [
                told
                for message in self._messages(queue)
                if execution in (told := json.loads(message["Body"]))["Message"]
            ]
        finally:
            self.client("sns").unsubscribe(SubscriptionArn=subscription)
            sqs.delete_queue(QueueUrl=queue)

    def dead_letters(self, name: str) -> list[str]:
        """The bodies of the messages of a queue with this in its name."""
        (queue,) = [url for url in self.client("sqs").list_queues()["QueueUrls"] if name in url]
        return [message["Body"] for message in self._messages(queue)]

    def purge_dead_letters(self) -> None:
        """Leave no message on a dead-letter queue."""
        for output, url in self.outputs.items():
            if output.endswith("DeadLetterQueueUrl"):
                self.client("sqs").purge_queue(QueueUrl=url)

    def waiting_redos(self) -> list[str]:
        """The redos that have asked a second person."""
        running = self.client("stepfunctions").list_executions(
            stateMachineArn=self.outputs["RedoStateMachineArn"], statusFilter="RUNNING"
        )["executions"]
        asked = self.ledger_partitions()
        return [each["executionArn"] for each in running if approval_key(each["executionArn"])["Pk"]["S"] in asked]

    def ledger_partitions(self) -> set[str]:
        """The partition keys of all rows of the ledger."""
        pages = self.client("dynamodb").get_paginator("scan").paginate(TableName=self.outputs["LedgerTableName"])
        return {row["Pk"]["S"] for page in pages for row in page["Items"]}

    @contextmanager
    def parameter(self, output: str, value: str | None) -> Iterator[None]:
        """Another value of a parameter, or none, for the length of a block."""
        name, ssm = self.outputs[output], self.client("ssm")
        before = ssm.get_parameter(Name=name)["Parameter"]["Value"]
        if value is None:
            ssm.delete_parameter(Name=name)
        else:
            self.set_parameter(output, value)
        try:
            yield
        finally:
            self.set_parameter(output, before)

    def set_parameter(self, output: str, value: str) -> None:
        """Give a parameter another value."""
        self.client("ssm").put_parameter(Name=self.outputs[output], Value=value, Type="String", Overwrite=True)

    def is_query_of_bookings(self, call: Call) -> bool:
        """Whether a call reads a page of the index."""
        return call.operation == "Query" and call.request["TableName"] == self.outputs["BookingTableName"]

    def is_send(self, call: Call, queue: str) -> bool:
        """Whether a call sends tasks to a queue."""
        return call.operation == "SendMessageBatch" and call.request["QueueUrl"] == self.outputs[QUEUES[queue]]

    def _tasks(self, queue: str) -> Iterator[Task]:
        for message in self._messages(self.outputs[QUEUES[queue]]):
            body = json.loads(message["Body"])
            yield Task(self, queue, body, json.loads(body["Data"]), message["MessageGroupId"])

    def _messages(self, queue_url: str) -> list[dict[str, Any]]:
        query = urllib.parse.urlencode({"QueueUrl": queue_url})
        address = f"{self.endpoint}/_ministack/sqs/messages?{query}"
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - the emulator's own address
            accounts = json.load(answer)["messages"]
        queues = [each for regions in accounts.values() for queues in regions.values() for each in queues.values()]
        return [message for messages in queues for message in messages]


@dataclass(frozen=True, slots=True)
class Day:
    """A date that is one test's own.  Its records are `<name>@<date>`; the tests see their names."""

    application: Application
    date: date

    @property
    def next(self) -> "Day":
        """The date after it."""
        return Day(self.application, self.date + timedelta(days=1))

    def book(self, name: str, time_of_day: str, member: str = "a", **attributes: str | dict[str, Any]) -> None:
        """Book a reward; attributes are texts or typed values.  A name that is booked already is booked anew."""
        typed = {key: {"S": value} if isinstance(value, str) else value for key, value in attributes.items()}
        booking = {
            "RecordId": {"S": f"{name}@{self.date}"},
            "ShopId": {"N": "1001"},
            "MemberId": {"S": f"member-{member}"},
            "PromotionEngineId": {"N": "3001"},
            "BookingDateUTC": {"S": str(self.date)},
            "BookingTimeUTC": {"S": time_of_day},
            "RewardStatus": {"S": "WaitToReward"},
            "RewardType": {"S": "Point"},
            "OrderTime": {"S": "2030-12-24T08:00:00+08:00"},
            "OrderId": {"S": f"order-{name}@{self.date}"},
            "Amount": {"N": "27182.81828"},
        }
        self.application.book({**booking, **typed})

    def book_members(self, count: int, hour: int = 8) -> list[str]:
        """Book a reward for each of `member-1`, `member-2`, ..., a minute apart; return the names `R1`, `R2`, ..."""
        for number in range(1, count + 1):
            kind = "ECoupon" if number % 4 == 0 else "Point"
            self.book(f"R{number}", f"{hour:02}:{number:02}:00Z", str(number), RewardType=kind)
        return [f"R{number}" for number in range(1, count + 1)]

    def miss_one(self) -> None:
        """`R1` and `R2` at eight are dispatched before `LATE` arrives, which is of the group of `R1`."""
        self.book("R1", "08:10:00Z", "1")
        self.book("R2", "08:20:00Z", "2", RewardType="ECoupon")
        assert self.run(8).output["Tasks"] == 2
        self.book("LATE", "08:15:00Z", "1")

    def window(self, hour: int) -> str:
        """The start of the window of an hour, e.g. `2031-01-02T08:00:00Z`."""
        return f"{self.date}T{hour:02}:00:00Z"

    def input(self, hour: int, **fields: Any) -> dict[str, Any]:
        """What starts the run of an hour's window, in the minute after it."""
        midnight = datetime(self.date.year, self.date.month, self.date.day, tzinfo=UTC)
        after = midnight + timedelta(hours=hour + 1, minutes=1, seconds=10)
        return {"ExecuteTime": f"{after:%Y-%m-%dT%H:%M:%SZ}", **fields}

    def start(self, hour: int, **fields: Any) -> str:
        """Start the run of an hour's window."""
        return self.application.start(self.input(hour, **fields))

    def run(self, hour: int, **fields: Any) -> Execution:
        """Run an hour's window."""
        return self.application.end(self.start(hour, **fields))

    def tasks(self, hour: int) -> list[Task]:
        """The tasks of an hour that stand on the queues."""
        return self.application.tasks(self.window(hour))

    def effects(self, hour: int) -> Effects:
        """What the runs of an hour did."""
        return self.application.effects(self.window(hour))

    def reconcile(self, hour: int, **fields: Any) -> Execution:
        """Compare an hour's bookings with what was dispatched of them."""
        return self.application.run(self.input(hour, **fields), "Reconcile")

    def planned(self, hour: int) -> dict[str, int]:
        """The totals of an hour's finished plans."""
        plans = self.application.plans(self.window(hour))
        return sum((plan.counts for plan in plans if plan.finished), Counts()).to_state()


def starts(application: Application, calls: list[Call]) -> list[str | None]:
    """Where each read of the index began."""
    keys = [call.request.get("ExclusiveStartKey") for call in calls if application.is_query_of_bookings(call)]
    return [key and key["RecordId"]["S"].partition("@")[0] for key in keys]


def assert_done(day: Day, output: dict[str, Any], records: list[str]) -> None:
    """Each record stands in one task of one finished plan, and the summary says what the plans say."""
    assert output["Outcome"] == "Dispatched"
    assert day.effects(8) == everywhere(*records)
    assert output.items() >= day.planned(8).items()


def _records(content: bytes) -> list[str]:
    """The records of a task's object, or of all tasks of a pack."""
    return [_name(order["RecordId"]) for body in content.splitlines() for order in json.loads(body)["Orders"]]


def _name(record_id: str) -> str:
    return record_id.partition("@")[0]


def _report(cause: str | None) -> dict[str, Any]:
    """The JSON in the message of the function that the failure ended in."""
    report: dict[str, Any] = json.loads(json.loads(cause)["errorMessage"]) if cause else {}
    return report


@cache
def _client(service: str, endpoint: str) -> Any:
    make: Any = session().client
    return make(service, **client_settings(endpoint))
