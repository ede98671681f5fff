"""The task-data bucket: the tasks' objects, the records set aside, and the bodies of plans too large for the ledger."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from functions.adapters.clients import translated
from functions.adapters.pool import each
from functions.domain.booking import BadRecord
from functions.domain.run import Run
from functions.domain.task import NewTask, object_body
from functions.domain.values import binary_text


@dataclass(frozen=True, slots=True)
class S3TaskData:
    """`TaskData` on an S3 bucket.  Every key derives from content, so that writing again writes the same."""

    client: Any
    bucket: str

    def upload(self, tasks: Sequence[NewTask], before_each: Callable[[], None]) -> None:
        """See `TaskData.upload`; a pool of threads writes them side by side."""

        def put(new: NewTask) -> None:
            before_each()
            self._put(new.task.object_key, object_body(new, self.bucket))

        each(put, tasks)

    def set_aside(self, run: Run, page: int, records: Sequence[BadRecord]) -> None:
        """See `TaskData.set_aside`: `RunId`, `WindowStart`, `Page`, `Records` of `Reason` and the typed `Record`."""
        body = {
            "RunId": run.run_id,
            "WindowStart": run.window.start_text,
            "Page": page,
            "Records": [{"Reason": record.reason, "Record": record.item} for record in records],
        }
        text = json.dumps(body, default=binary_text, sort_keys=True, allow_nan=False)
        self._put(f"set-aside/{run.window.start:%Y-%m-%d/%H}/{run.run_id}/{page:06}.json", text.encode("ascii"))

    def put_plan_body(self, key: str, body: bytes) -> None:
        """Write the body of a plan that is too large for its row."""
        self._put(key, body, "application/octet-stream")

    def get_plan_body(self, key: str) -> bytes:
        """The body that `put_plan_body` wrote."""
        with translated("GetObject"):
            content: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return content

    def _put(self, key: str, body: bytes, content_type: str = "application/json") -> None:
        with translated("PutObject"):
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType=content_type)
