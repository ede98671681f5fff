"""How a failed execution is told."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tools.application import Application, exports, failure_text
from tools.deployment import Deployment
from tools.seed import Partitions

DEPLOYMENT = Deployment("http://127.0.0.1:9", "us-east-1", {"TaskDataBucketName": "bucket"})
DETAIL = {
    "Error": "TooManyBadRecords",
    "Message": "21 records were set aside, the limit is 20",
    "RunId": "20260918T100110Z-run",
    "WindowStart": "2026-09-18T09:00:00Z",
    "Page": 3,
}


def _described(error: str, cause: str) -> dict[str, Any]:
    return {"executionArn": "arn:execution", "status": "FAILED", "error": error, "cause": cause}


def test_too_many_bad_records_are_told_line_by_line_with_the_place_of_their_files() -> None:
    cause = json.dumps({"errorType": "TooManyBadRecords", "errorMessage": json.dumps(DETAIL)})

    assert failure_text(_described("TooManyBadRecords", cause), DEPLOYMENT).splitlines() == [
        "the execution ended FAILED",
        "  Error      TooManyBadRecords",
        "  Message    21 records were set aside, the limit is 20",
        "  Hour       2026-09-18T09:00:00Z",
        "  Page       3",
        "  Execution  arn:execution",
        "Where to look",
        '  README.md, "When a run fails"',
        f"  {exports(DEPLOYMENT)}",
        "  aws s3 ls s3://bucket/set-aside/2026-09-18/09/20260918T100110Z-run/",
    ]


@pytest.mark.parametrize(
    ("detail", "page"),
    [
        ({"Page": 3}, "3"),
        ({"Step": "merge", "Lane": 2001, "Page": 3}, "3 of lane 2001 (merge)"),
        ({"Page": None}, "none of its own"),
    ],
    ids=["of the run's one lane", "of one of its lanes", "between its lanes"],
)
def test_a_failure_is_told_with_its_page_and_lane(detail: dict[str, Any], page: str) -> None:
    cause = json.dumps({"errorMessage": json.dumps({**DETAIL, **detail})})

    assert f"  Page       {page}" in failure_text(_described("LeaseLost", cause), DEPLOYMENT).splitlines()


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
        ("[]", "[]"),
    ],
)
def test_a_cause_of_any_form_is_told_as_it_is(cause: str, message: str) -> None:
    told = failure_text(_described("DispatchFailed", cause), DEPLOYMENT).splitlines()

    assert told[1:5] == [
        "  Error      DispatchFailed",
        f"  Message    {message}",
        "  Hour       none was planned",
        "  Page       none was read",
    ]
    assert told[-2:] == ["Where to look", '  README.md, "When a run fails"']
