"""What a reconcile sees and keeps in the task-data bucket: the keys of the tasks' objects, and its reports."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from functions.adapters.clients import translated
from functions.adapters.multipart import ObjectWriter


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
