"""How the application is spoken to: its clients, its tasks, and executions that are followed to their end."""

import io
import json
from dataclasses import replace
from typing import Any

import boto3
import pytest

from tools.application import Application, QueuedTask, RunFailedError
from tools.deployment import Deployment
from tools.emulator.access import session
from tools.seed import Partitions

DEPLOYMENT = Deployment("http://127.0.0.1:9", "us-east-1", {"TaskDataBucketName": "bucket"})


@pytest.mark.parametrize(
    ("outputs", "partitions"),
    [
        ({}, Partitions("BookingDateUTC", 0)),
        ({"BookingDateAttribute": "BookingDateShard", "BookingShards": "8"}, Partitions("BookingDateShard", 8)),
    ],
    ids=["as it is by default", "sharded"],
)
def test_the_deployments_outputs_say_how_the_index_is_partitioned(
    outputs: dict[str, str], partitions: Partitions
) -> None:
    assert Application(replace(DEPLOYMENT, outputs=outputs)).partitions == partitions


def test_the_clients_of_an_application_share_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[boto3.Session] = []

    def make() -> boto3.Session:
        made.append(session())
        return made[-1]

    monkeypatch.setattr("tools.application.session", make)
    application = Application(DEPLOYMENT)

    for service in ("s3", "sqs", "s3"):
        assert application.client(service).meta.endpoint_url == DEPLOYMENT.endpoint

    assert len(made) == 1


@pytest.mark.parametrize(
    ("packed", "asked"),
    [({}, {}), ({"Range": {"Start": 3, "Length": 4}, "Sha256": "0" * 64}, {"Range": "bytes=3-6"})],
    ids=["an object of its own", "a pack"],
)
def test_the_body_of_a_task_is_read_where_its_message_says(packed: dict[str, Any], asked: dict[str, str]) -> None:
    application, bucket = Application(DEPLOYMENT), Bucket()
    application.__dict__["s3"] = bucket
    place = {"Bucket": "bucket", "Key": "tasks/one"}

    application.task_object(QueuedTask("RewardPoint", "one", {**place, **packed}))

    assert bucket.asked == [place | asked]


class Bucket:
    """A bucket that notes what is read."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []

    def get_object(self, **place: str) -> dict[str, Any]:
        self.asked.append(place)
        return {"Body": io.BytesIO(b"{}")}


class History:
    """An execution whose history is given."""

    def __init__(self, *exited: tuple[str, dict[str, Any]]) -> None:
        self._events = [{"stateExitedEventDetails": {"name": name, "output": json.dumps(it)}} for name, it in exited]

    def describe_execution(self, executionArn: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        return {"executionArn": executionArn, "status": "SUCCEEDED", "output": "{}"}

    def get_paginator(self, _: str) -> "History":
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        return [{"events": self._events[:2]}, {"events": [{}, *self._events[2:]]}]


def _behind(pages: int) -> dict[str, Any]:
    return {"Progress": {"Totals": {"Pages": pages, "Evaluated": 10 * pages}}}


@pytest.mark.parametrize(
    ("history", "told"),
    [
        pytest.param(
            [
                ("Plan run", {}),
                ("Dispatch page", _behind(1)),
                ("Dispatch page", _behind(1)),
                ("Dispatch page", _behind(2)),
            ],
            [(1, 10), (2, 10)],
            id="page by page, without one that failed",
        ),
        pytest.param(
            [("Note progress", _behind(0)), ("Note progress", _behind(7)), ("Note progress", _behind(7))],
            [(7, 70)],
            id="all pages of the lanes at once",
        ),
        pytest.param(
            [("Dispatch page", _behind(2)), ("Note progress", _behind(2)), ("Note progress", _behind(4))],
            [(2, 20), (4, 20)],
            id="across a hand-over",
        ),
    ],
)
def test_the_pages_of_an_execution_are_told_from_its_history(
    history: list[tuple[str, dict[str, Any]]], told: list[tuple[int, int]]
) -> None:
    application = Application(DEPLOYMENT)
    application.__dict__["stepfunctions"] = History(*history)
    seen: list[tuple[int, int]] = []

    application.follow("arn:execution", lambda progress, records: seen.append((progress["Totals"]["Pages"], records)))

    assert seen == told


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        ("", ""),
        ("killed", "killed"),
        (json.dumps({"errorMessage": "no such function"}), "no such function"),
        (json.dumps({"errorMessage": "[1]"}), "[1]"),
        (
            json.dumps({"errorMessage": json.dumps({"Message": "21 records were set aside"})}),
            "21 records were set aside",
        ),
        ("[]", "[]"),
    ],
)
def test_a_failure_is_told_by_its_error_and_its_message_whatever_form_its_cause_has(cause: str, message: str) -> None:
    application = Application(DEPLOYMENT)
    application.__dict__["stepfunctions"] = Failed(cause)

    with pytest.raises(RunFailedError) as failure:
        application.output("arn:execution")

    assert str(failure.value) == f"arn:execution ended FAILED: DispatchFailed: {message}"


class Failed:
    """An execution that failed with a cause."""

    def __init__(self, cause: str) -> None:
        self._cause = cause

    def describe_execution(self, executionArn: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        return {"executionArn": executionArn, "status": "FAILED", "error": "DispatchFailed", "cause": self._cause}
