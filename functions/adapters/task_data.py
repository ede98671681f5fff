"""The task-data bucket: the tasks' objects, the records set aside, and the bodies of plans too large for the ledger."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from functions.adapters.clients import translated
from functions.adapters.multipart import ObjectWriter, at_once
from functions.adapters.pool import beside, each
from functions.domain.booking import BadRecord
from functions.domain.pack import Layout, Pack
from functions.domain.run import Progress, Run
from functions.domain.task import NewTask, Task, object_pieces
from functions.domain.values import binary_text

_JSON_LINES: Final = "application/x-ndjson"


@dataclass(frozen=True, slots=True)
class S3TaskData:
    """`TaskData` on an S3 bucket.  Every key derives from content, so that writing again writes the same."""

    client: Any
    bucket: str
    layout: Layout = Layout.OBJECT

    @contextmanager
    def uploading(self, tasks: Sequence[NewTask], before_each: Callable[[], None]) -> Iterator[Sequence[Task]]:
        """See `TaskData.uploading`: one pack, beside what is done meanwhile, or objects side by side.

        Documents that are read while they are uploaded are read for one task at a time, and outside the pool, whose
        threads their reading may need.
        """

        def put(new: NewTask) -> None:
            self._put(new.task.object_key, object_pieces(new, self.bucket), before_each=before_each)

        held: list[NewTask] = []
        streamed: list[NewTask] = []
        for new in tasks:
            (held if isinstance(new.documents, Sequence) else streamed).append(new)
        if held and self.layout is Layout.PACKED:
            pack = Pack.of(held, self.bucket)
            with beside(lambda: self._put(pack.key, pack.pieces(), _JSON_LINES, before_each)):
                yield *pack.tasks, *(new.task for new in streamed)
        else:
            yield tuple(new.task for new in tasks)
            each(put, held)
        for new in streamed:
            put(new)

    def set_aside(self, run: Run, progress: Progress, records: Sequence[BadRecord]) -> None:
        """See `TaskData.set_aside`: `RunId`, `WindowStart`, `Lane`, `Page`, `Records` of `Reason` and `Record`."""
        body = {
            "RunId": run.run_id,
            "WindowStart": run.window.start_text,
            "Lane": progress.lane,
            "Page": progress.page,
            "Records": [{"Reason": record.reason, "Record": record.item} for record in records],
        }
        text = json.dumps(body, default=binary_text, sort_keys=True, allow_nan=False)
        place = f"{run.window.start:%Y-%m-%d/%H}/{run.run_id}/{progress.lane:04}-{progress.page:06}"
        self._put(f"set-aside/{place}.json", [text.encode("ascii")])

    def put_plan_body(self, key: str, body: bytes) -> None:
        """Write the body of a plan that is too large for its row."""
        self._put(key, [body], "application/octet-stream")

    def get_plan_body(self, key: str) -> bytes:
        """The body that `put_plan_body` wrote."""
        with translated("GetObject"):
            content: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return content

    def _put(
        self,
        key: str,
        pieces: Iterable[bytes],
        content_type: str = "application/json",
        before_each: Callable[[], None] = at_once,
    ) -> None:
        ObjectWriter(self.client, self.bucket, key, content_type, before_each).write(pieces)
