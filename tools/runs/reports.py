"""The reports that reconciles and comparisons leave in the bucket."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.domain.errors import InvalidInput
from functions.domain.window import Window
from tools.application import Application

_PLACE: Final = re.compile(r"s3://(?P<bucket>[^/]+)/(?P<key>.+)")
_KEY: Final = "reports/"
_NO_RECONCILES: Final = ("-compare.json", "-missing.jsonl")
"""What lies beside the reports of reconciles."""


class UnknownReportError(LookupError):
    """There is no such report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a report lies."""

    bucket: str
    key: str

    @classmethod
    def of(cls, output: Any) -> "Place":
        """Where an output says that its report lies."""
        return cls(bucket=output["Bucket"], key=output["Key"])

    @property
    def url(self) -> str:
        """`s3://bucket/key`."""
        return f"s3://{self.bucket}/{self.key}"

    def to_input(self) -> dict[str, str]:
        """`Report` of a redo's input."""
        return {"Bucket": self.bucket, "Key": self.key}


def place_of(application: Application, text: str) -> Place:
    """The place that a text names: `s3://bucket/key`, or a key of the application's own bucket.

    Raises:
        InvalidInput: it names none.
    """
    if match := _PLACE.fullmatch(text):
        return Place(**match.groupdict())
    if text.startswith(_KEY):
        return Place(bucket=application.deployment.outputs["TaskDataBucketName"], key=text)
    raise InvalidInput(
        f"REPORT: {text!r} is no hour such as 2026-09-17T15, no key under {_KEY}, and no s3://bucket/key"
    )


def read_report(application: Application, place: Place) -> dict[str, Any]:
    """A report as it was written.

    Raises:
        UnknownReportError: there is none at that place.
        InvalidInput: what lies there is no report.
    """
    try:
        answer = application.s3.get_object(Bucket=place.bucket, Key=place.key)
    except ClientError as error:
        if error.response["Error"]["Code"] not in {"NoSuchKey", "NoSuchBucket"}:
            raise
        raise UnknownReportError(f"no report lies at {place.url}") from None
    try:
        report: dict[str, Any] = json.load(answer["Body"])
    except ValueError:
        raise InvalidInput(f"REPORT: {place.url} is no JSON") from None
    return report


def reconciles_of(application: Application, window: Window) -> Iterator[Place]:
    """Where the reports of an hour's reconciles lie, newest first."""
    bucket = application.deployment.outputs["TaskDataBucketName"]
    pages = application.s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=f"{_KEY}{window.start:%Y-%m-%d/%H}/"
    )
    found = [each for page in pages for each in page.get("Contents", ()) if not each["Key"].endswith(_NO_RECONCILES)]
    # Within a second S3 tells no order: then the name does, which begins with when the reconcile was started.
    for entry in sorted(found, key=lambda each: (each["LastModified"], each["Key"]), reverse=True):
        yield Place(bucket=bucket, key=entry["Key"])


def newest_with_missing(application: Application, window: Window) -> Place:
    """Where the newest report of an hour lies that lists something as missing.

    Raises:
        UnknownReportError: none does.
    """
    looked = 0
    for place in reconciles_of(application, window):
        looked += 1
        if read_report(application, place).get("Missing"):
            return place
    said = f"{looked} of its reports list nothing as missing" if looked else "it was not reconciled yet"
    raise UnknownReportError(f"nothing to redo for the hour from {window.start_text}: {said}")
