"""The application that is deployed on an emulator, as the developer commands use it."""

import http.client
import json
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from mypy_boto3_dynamodb import DynamoDBClient
from mypy_boto3_s3 import S3Client
from mypy_boto3_stepfunctions import SFNClient

from tools.deployment import Deployment
from tools.emulator.access import client_settings, session

RUN_SECONDS: Final = 300.0
"""The longest wait for the end of an execution. Ten thousand bookings take about twenty."""
POLL_SECONDS: Final = 0.25

Summary = dict[str, Any]
"""What an execution returns."""

Progress = dict[str, Any]
"""The state's `Progress` behind a page: `Page` is the next one, `Totals` what was done so far."""


class RunFailedError(RuntimeError):
    """An execution did not end well, or not in time; the message holds its error and cause."""


@dataclass(frozen=True, slots=True)
class QueuedTask:
    """A task as it stands on its queue."""

    job_name: str
    task_id: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Application:
    """The deployed application behind its endpoint."""

    deployment: Deployment

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """The client of the tables."""
        return session().client("dynamodb", **client_settings(self.deployment.endpoint))

    @cached_property
    def s3(self) -> S3Client:
        """The client of the bucket."""
        return session().client("s3", **client_settings(self.deployment.endpoint))

    @cached_property
    def stepfunctions(self) -> SFNClient:
        """The client of the state machine."""
        return session().client("stepfunctions", **client_settings(self.deployment.endpoint))

    def dispatch(self, run_input: dict[str, Any], on_page: Callable[[Progress], None]) -> Summary:
        """Start an execution, report each of its pages, and return its output.

        Raises:
            RunFailedError: it fails, or runs on for too long.
        """
        execution = self.stepfunctions.start_execution(
            stateMachineArn=self.deployment.outputs["DispatchStateMachineArn"], input=json.dumps(run_input)
        )["executionArn"]
        deadline = time.monotonic() + RUN_SECONDS
        reported = 0
        while time.monotonic() < deadline:
            described = self.stepfunctions.describe_execution(executionArn=execution)
            pages = list(self._pages(execution))
            for progress in pages[reported:]:
                on_page(progress)
            reported = len(pages)
            if described["status"] == "SUCCEEDED":
                summary: Summary = json.loads(described["output"])
                return summary
            if described["status"] != "RUNNING":
                raise RunFailedError(f"{execution} is {described['status']}: {_failure(described)}")
            time.sleep(POLL_SECONDS)
        raise RunFailedError(f"{execution} was not done after {RUN_SECONDS:.0f} s")

    def tasks(self, window_start: str) -> dict[str, QueuedTask]:
        """The tasks of one window that stand on the two queues, by id. They are looked at, not received."""
        found = {}
        for queue in ("PointTaskQueueUrl", "CouponTaskQueueUrl"):
            for body in self._messages(self.deployment.outputs[queue]):
                task = QueuedTask(body["JobName"], body["TaskId"], json.loads(body["Data"]))
                if task.data["WindowStart"] == window_start:
                    found[task.task_id] = task
        return found

    def task_object(self, task: QueuedTask) -> dict[str, Any]:
        """The object that a task points at."""
        answer = self.s3.get_object(Bucket=task.data["Bucket"], Key=task.data["Key"])
        content: dict[str, Any] = json.load(answer["Body"])
        return content

    def _pages(self, execution: str) -> Iterator[Progress]:
        """The progress behind each page that the execution has done, from its history."""
        pages = self.stepfunctions.get_paginator("get_execution_history").paginate(executionArn=execution)
        for event in (event for page in pages for event in page["events"]):
            exited = event.get("stateExitedEventDetails", {})
            if exited.get("name") == "Dispatch page":
                yield json.loads(exited["output"])["Progress"]

    def _messages(self, queue_url: str) -> Iterator[dict[str, Any]]:
        """The bodies of all messages of a queue, in the order in which they were sent."""
        address = urllib.parse.urlsplit(self.deployment.endpoint)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        with closing(connection):
            connection.request("GET", f"/_ministack/sqs/messages?{urllib.parse.urlencode({'QueueUrl': queue_url})}")
            accounts = json.load(connection.getresponse())["messages"]
        for regions in accounts.values():
            for queues in regions.values():
                for messages in queues.values():
                    yield from (json.loads(message["Body"]) for message in messages)


def _failure(described: Any) -> str:
    """Error and cause of a failed execution; of a function's error only its message, which is where its facts are."""
    cause = described.get("cause", "")
    with suppress(json.JSONDecodeError, KeyError, TypeError):
        cause = json.loads(cause)["errorMessage"]
    return f"{described.get('error')}: {cause}"
