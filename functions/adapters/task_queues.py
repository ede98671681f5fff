"""The task queues: one FIFO queue for each route."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from functions.adapters.clients import retries, translated
from functions.adapters.pool import each
from functions.domain.booking import Route
from functions.domain.errors import DispatchFailed, TransientError
from functions.domain.task import Task, message_body, rounds

MAX_ENTRIES: Final = 10
MAX_BYTES: Final = 262_144
"""A queue may still have the old limit of 256 KiB; SQS itself takes 1 MiB."""

_ATTEMPTS: Final = 3
_PAUSE_SECONDS: Final = 0.2

_Entry: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True)
class SqsTaskQueues:
    """`TaskQueues` on SQS.

    The message group is the member group's hash and the deduplication id is the task's id, so a task that is sent again
    within five minutes is dropped by the queue; after that only its consumer can drop it.
    """

    client: Any
    urls: Mapping[Route, str]
    bucket: str

    def send(
        self, tasks: Sequence[Task], before_batch: Callable[[], None], accepted: Callable[[Iterable[str]], None]
    ) -> None:
        """See `TaskQueues.send`.

        Raises:
            TransientError: entries were still refused for no fault of theirs after a few attempts.
            DispatchFailed: SQS says that an entry itself is at fault.
        """
        for together in rounds(tasks):
            batches = (  # each is made while those before it are under way
                (self.urls[route], batch)
                for route in Route
                for batch in _batches(self._entry(task) for task in together if task.route is route)
            )
            each(lambda batch: self._send_batch(*batch, before_batch, accepted), batches)

    def _entry(self, task: Task) -> _Entry:
        return {
            "MessageBody": message_body(task, self.bucket),
            "MessageGroupId": task.message_group,
            "MessageDeduplicationId": task.task_id,
        }

    def _send_batch(
        self,
        url: str,
        batch: Sequence[_Entry],
        before_batch: Callable[[], None],
        accepted: Callable[[Iterable[str]], None],
    ) -> None:
        """Send until every entry stands in `Successful`; what is in neither list was not sent."""
        waiting = {str(place): entry for place, entry in enumerate(batch)}
        for attempt in range(_ATTEMPTS):
            if attempt:
                retries.add()
                time.sleep(random.uniform(0, _PAUSE_SECONDS * 2**attempt))  # noqa: S311 -- jitter is no secret
            before_batch()
            with translated("SendMessageBatch"):
                response = self.client.send_message_batch(
                    QueueUrl=url, Entries=[{"Id": name, **entry} for name, entry in waiting.items()]
                )
            taken = [waiting.pop(entry["Id"]) for entry in response.get("Successful", ())]
            accepted(entry["MessageDeduplicationId"] for entry in taken)
            for refused in response.get("Failed", ()):
                if refused.get("SenderFault"):
                    raise DispatchFailed(f"SendMessageBatch: entry refused, {refused.get('Code')}")
            if not waiting:
                return
        raise TransientError(f"SendMessageBatch: {len(waiting)} entries not accepted")


def _batches(entries: Iterable[_Entry]) -> Iterator[list[_Entry]]:
    """Cut into batches of at most MAX_ENTRIES and MAX_BYTES; the texts are ASCII, so characters are bytes."""
    batch: list[_Entry] = []
    size = 0
    for entry in entries:
        length = sum(map(len, entry.values()))
        if batch and (len(batch) == MAX_ENTRIES or size + length > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += length
    if batch:
        yield batch
