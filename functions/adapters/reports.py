"""What a reconcile sees and keeps in the task-data bucket: the keys of the tasks' objects, and its reports."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.adapters.clients import code_of, translated
from functions.adapters.multipart import ObjectWriter
from functions.domain.errors import InvalidInput

_NOT_THERE: Final = frozenset({"NoSuchKey", "AccessDenied"})
"""Without the right to list the bucket S3 tells the two not apart."""


@dataclass(frozen=True, slots=True)
class S3TaskObjects:
    """`TaskObjects` on an S3 bucket."""

    client: Any
    bucket: str

    def keys(self, prefix: str, after: str) -> Iterator[str]:
        """See `TaskObjects.keys`: a call lists a thousand."""
        behind = {"StartAfter": after} if after else {}
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix, **behind)
        reading = iter(pages)
        while True:
            with translated("ListObjectsV2"):
                page = next(reading, None)
            if page is None:
                return
            yield from (found["Key"] for found in page.get("Contents", ()))


@dataclass(frozen=True, slots=True)
class S3Reports:
    """`Reports` on an S3 bucket."""

    client: Any
    bucket: str

    def write(self, key: str, pieces: Iterable[bytes]) -> None:
        """See `Reports.write`."""
        ObjectWriter(self.client, self.bucket, key, "application/json").write(pieces)

    def lines(self, key: str, offset: int = 0) -> Iterator[bytes]:
        """See `Reports.lines`: one streamed read."""
        behind = {"Range": f"bytes={offset}-"} if offset else {}
        with translated("GetObject"):
            try:
                body = self.client.get_object(Bucket=self.bucket, Key=key, **behind)["Body"]
            except ClientError as error:
                if code_of(error) in _NOT_THERE:
                    raise InvalidInput(f"Report.Key: {key} is not there, or may not be read") from None
                raise
        with closing(body):
            reading = body.iter_lines(keepends=True)
            while True:
                with translated("GetObject"):
                    line = next(reading, None)
                if line is None:
                    return
                yield line
