"""A deployed application, in an account or on the embedded AWS, as the operator's commands use it."""

import http.client
import json
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from mypy_boto3_dynamodb import DynamoDBClient
from mypy_boto3_s3 import S3Client
from mypy_boto3_stepfunctions import SFNClient

from functions.domain.cursor import DATE_ATTRIBUTE
from functions.domain.task import Extent
from tools.deployment import STACK, Deployment
from tools.emulator.access import client_settings, session
from tools.seed import Partitions
from tools.workspace import Workspace

RUN_SECONDS: Final = 300.0
"""The longest wait for the end of an execution. Ten thousand bookings take about twenty."""
POLL_SECONDS: Final = 0.25
LONGEST_POLL_SECONDS: Final = 30.0
RESTS: Final = 4
"""So many times as long as asking took is waited until it is asked again."""

ACCOUNT_CONFIG: Final = Config(
    connect_timeout=5, read_timeout=60, retries={"total_max_attempts": 5, "mode": "standard"}
)

Summary = dict[str, Any]
"""What an execution returns."""

Progress = dict[str, Any]
"""The state's `Progress` behind a page: `Page` is the next one, `Totals` what was done so far."""


OnPage = Callable[[Progress, int], None]
"""Is told of a page: the progress behind it, and how many bookings were read on it."""


class RunFailedError(RuntimeError):
    """An execution did not end well, or not in time; the message says which one, and why."""


class NotDeployedError(RuntimeError):
    """No application is deployed in the workspace, or in the account."""


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A task as it stands on its queue."""

    job_name: str
    task_id: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Application:
    """The deployed application, and who speaks to it."""

    deployment: Deployment
    account: boto3.Session | None = None
    """Of the account where it stands; None on the embedded AWS."""

    def client(self, service: str) -> Any:
        """A client of one service, where the application stands."""
        make: Any = self._session.client
        if self.account is None:
            return make(service, **client_settings(self.deployment.endpoint))
        return make(service, config=ACCOUNT_CONFIG)

    @cached_property
    def _session(self) -> boto3.Session:
        """One for all clients: to make one, and to read a service's model for it, takes longer than most calls."""
        return self.account or session()

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """The client of the tables."""
        client: DynamoDBClient = self.client("dynamodb")
        return client

    @cached_property
    def s3(self) -> S3Client:
        """The client of the bucket."""
        client: S3Client = self.client("s3")
        return client

    @cached_property
    def stepfunctions(self) -> SFNClient:
        """The client of the state machines."""
        client: SFNClient = self.client("stepfunctions")
        return client

    @property
    def partitions(self) -> Partitions:
        """How the index of its bookings is partitioned."""
        outputs = self.deployment.outputs
        return Partitions(outputs.get("BookingDateAttribute", DATE_ATTRIBUTE), int(outputs.get("BookingShards", "0")))

    @classmethod
    def deployed(cls) -> "Application":
        """The application that stands in the chosen workspace.

        Raises:
            NotDeployedError: none does.
        """
        outputs = Workspace.chosen().outputs
        if not outputs.exists():
            raise NotDeployedError("nothing is deployed; `make up` deploys, `make run` dispatches two hours as well")
        return cls(Deployment(**json.loads(outputs.read_text())))

    @classmethod
    def in_account(cls, stage: str, profile: str | None, region: str | None) -> "Application":
        """The application of a stage in the account and region of a profile, or of the environment.

        Raises:
            NotDeployedError: its stack does not stand there.
            ClientError, BotoCoreError: the account cannot be asked.
        """
        account = boto3.Session(profile_name=profile, region_name=region)
        stack = f"{STACK}{stage}"
        try:
            described = account.client("cloudformation", config=ACCOUNT_CONFIG).describe_stacks(StackName=stack)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ValidationError":
                raise
            raise NotDeployedError(f"no stack {stack} stands in {account.region_name}") from None
        outputs = {output["OutputKey"]: output["OutputValue"] for output in described["Stacks"][0].get("Outputs", ())}
        return cls(Deployment("", account.region_name, outputs), account)

    def start(self, run_input: dict[str, Any]) -> str:
        """Start an execution; its ARN."""
        machine = self.deployment.outputs["DispatchStateMachineArn"]
        return self.stepfunctions.start_execution(stateMachineArn=machine, input=json.dumps(run_input))["executionArn"]

    def reconcile(self, run_input: dict[str, Any]) -> Summary:
        """Compare a window's bookings with what was dispatched of them; the output.

        Raises:
            RunFailedError: the execution fails, or runs on for too long.
        """
        started = self.stepfunctions.start_execution(
            stateMachineArn=self.deployment.outputs["ReconcileStateMachineArn"], input=json.dumps(run_input)
        )
        return self.output(started["executionArn"])

    def running(self) -> list[str]:
        """The executions that have not ended."""
        machine = self.deployment.outputs["DispatchStateMachineArn"]
        listed = self.stepfunctions.list_executions(stateMachineArn=machine, statusFilter="RUNNING")
        return [execution["executionArn"] for execution in listed["executions"]]

    def follow(self, execution: str, on_page: OnPage) -> Summary:
        """Report each page of an execution, and return its output when it has ended.

        Raises:
            RunFailedError: it fails, or runs on for too long.
        """
        reported = evaluated = 0

        def report() -> None:
            nonlocal reported, evaluated
            pages = list(self._pages(execution))
            for progress in pages[reported:]:
                before, evaluated = evaluated, progress["Totals"]["Evaluated"]
                on_page(progress, evaluated - before)
            reported = len(pages)

        return self.output(execution, report)

    def output(
        self, execution: str, meanwhile: Callable[[], None] = lambda: None, *, seconds: float = RUN_SECONDS
    ) -> Summary:
        """The output of an execution when it has ended; `meanwhile` is called whenever its status was asked for.

        The more it takes to ask, the longer is the pause until it is asked again.

        Raises:
            RunFailedError: it fails, or has not ended after so many seconds.
        """
        deadline = time.monotonic() + seconds
        while (asked := time.monotonic()) < deadline:
            described = self.stepfunctions.describe_execution(executionArn=execution)
            meanwhile()
            if described["status"] == "SUCCEEDED":
                output: Summary = json.loads(described["output"])
                return output
            if described["status"] != "RUNNING":
                message = detail_of(described).get("Message", "")
                raise RunFailedError(f"{execution} ended {described['status']}: {described.get('error')}: {message}")
            pause = max(POLL_SECONDS, RESTS * (time.monotonic() - asked))
            time.sleep(min(pause, LONGEST_POLL_SECONDS))
        raise RunFailedError(f"{execution} was not done after {seconds:.0f} s")

    def tasks(self, window_start: str) -> dict[str, QueuedTask]:
        """The tasks of one window that stand on the two queues, by id. They are looked at, not received."""
        found = {}
        for queue in ("PointTaskQueueUrl", "CouponTaskQueueUrl"):
            for message in self.messages(self.deployment.outputs[queue]):
                body = json.loads(message["Body"])
                task = QueuedTask(body["JobName"], body["TaskId"], json.loads(body["Data"]))
                if task.data["WindowStart"] == window_start:
                    found[task.task_id] = task
        return found

    def messages(self, queue_url: str) -> Iterator[dict[str, Any]]:
        """All messages of a queue of the embedded AWS, in the order in which they were sent. None is received."""
        address = urllib.parse.urlsplit(self.deployment.endpoint)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        with closing(connection):
            connection.request("GET", f"/_ministack/sqs/messages?{urllib.parse.urlencode({'QueueUrl': queue_url})}")
            accounts = json.load(connection.getresponse())["messages"]
        for regions in accounts.values():
            for queues in regions.values():
                for messages in queues.values():
                    yield from messages

    def task_object(self, task: QueuedTask) -> dict[str, Any]:
        """The body that a task points at: an object, or a range of bytes of a pack."""
        key, named = task.data["Key"], task.data.get("Range")
        place = {"Bucket": task.data["Bucket"], "Key": key}
        if named:
            place["Range"] = Extent(key, named["Start"], named["Length"], task.data["Sha256"]).byte_range
        answer = self.s3.get_object(**place)
        content: dict[str, Any] = json.load(answer["Body"])
        return content

    def set_aside(self, prefix: str = "") -> Iterator[str]:
        """The keys of the files of records set aside, of one hour or run where `prefix` names it."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.deployment.outputs["TaskDataBucketName"], Prefix=f"set-aside/{prefix}"
        )
        return (entry["Key"] for page in pages for entry in page.get("Contents", ()))

    def _pages(self, execution: str) -> Iterator[Progress]:
        """The progress behind each page that the execution has done, from its history; a failed page is none.

        The pages of lanes are done by other executions: theirs is known whenever lanes are laid out, and told at once.
        """
        done = 0
        pages = self.stepfunctions.get_paginator("get_execution_history").paginate(executionArn=execution)
        for event in (event for page in pages for event in page["events"]):
            exited = event.get("stateExitedEventDetails", {})
            if exited.get("name") in {"Dispatch page", "Note progress"}:
                progress = json.loads(exited["output"])["Progress"]
                if progress["Totals"]["Pages"] > done:
                    done = progress["Totals"]["Pages"]
                    yield progress


def detail_of(described: Any) -> dict[str, Any]:
    """What a failure's cause says: JSON in the `errorMessage` of the function that reported it, or any text."""
    text = described.get("cause", "")
    with suppress(json.JSONDecodeError, KeyError, TypeError):
        text = json.loads(text)["errorMessage"]
        detail = json.loads(text)
        if isinstance(detail, dict):
            return detail
    return {"Message": text}
