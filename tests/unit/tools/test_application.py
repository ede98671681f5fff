"""How a failed execution is told."""

import json
from typing import Any

import pytest

from tools.application import exports, failure_text
from tools.deployment import Deployment

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
