"""The reference worker of the embedded AWS, which stands there switched off.

python -m tools.worker on     let it take the tasks off the queues as they come
python -m tools.worker off    let them stand again, to be looked at
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tools.application import Application, NotDeployedError
from tools.command import leave
from tools.emulator.access import client_settings, session

QUEUES: Final = ("PointTaskQueueUrl", "CouponTaskQueueUrl")
COUNTS: Final = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
DRAIN_SECONDS: Final = 300.0
"""The longest wait for empty queues.  Three thousand tasks take about half a minute."""
POLL_SECONDS: Final = 0.25


class NotDrainedError(RuntimeError):
    """The queues are not empty in time; the message says how many messages are left on each."""


@dataclass(frozen=True, slots=True)
class Worker:
    """The worker beside a deployed application."""

    application: Application

    @contextmanager
    def working(self) -> Iterator[None]:
        """Let it work for the length of a block."""
        self.switch(on=True)
        try:
            yield
        finally:
            self.switch(on=False)

    def switch(self, *, on: bool) -> None:
        """Let it take tasks, or let them stand."""
        functions = self._client("lambda")
        name = self.application.deployment.outputs["WorkerFunctionName"]
        for mapping in functions.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]:
            functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=on)

    def is_idle(self) -> bool:
        """Whether no task stands on the queues."""
        return not any(map(self._count, QUEUES))

    def drain(self) -> None:
        """Wait until both queues are empty.

        Raises:
            NotDrainedError: they are not in time.
        """
        deadline = time.monotonic() + DRAIN_SECONDS
        while left := {queue: count for queue in QUEUES if (count := self._count(queue))}:
            if time.monotonic() > deadline:
                raise NotDrainedError(f"messages still stand on queues: {left}")
            time.sleep(POLL_SECONDS)

    def grants(self) -> list[dict[str, Any]]:
        """The rows of all that was granted, typed."""
        pages = self.application.dynamodb.get_paginator("scan").paginate(
            TableName=self.application.deployment.outputs["GrantTableName"],
            FilterExpression="begins_with(Pk, :grant)",
            ExpressionAttributeValues={":grant": {"S": "grant#"}},
            ConsistentRead=True,
        )
        return [dict(row) for page in pages for row in page["Items"]]

    def _count(self, queue: str) -> int:
        answer = self._client("sqs").get_queue_attributes(
            QueueUrl=self.application.deployment.outputs[queue], AttributeNames=list(COUNTS)
        )
        return sum(int(answer["Attributes"][name]) for name in COUNTS)

    def _client(self, service: str) -> Any:
        make: Any = session().client
        return make(service, **client_settings(self.application.deployment.endpoint))


def main() -> int:
    """Switch it as the argument says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", choices=("on", "off"))
    state = parser.parse_args().state
    try:
        Worker(Application.deployed()).switch(on=state == "on")
    except NotDeployedError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"The worker is {state}.")
    return 0


if __name__ == "__main__":
    leave(main, interrupted="the worker stays as it is.")
