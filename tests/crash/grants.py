"""The reference worker in this process: the table of its grants, messages as Lambda hands them over, its answers."""

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any, Final

import boto3
import pytest
from aws_lambda_powertools import Metrics

from functions.domain.budget import WORKER_FUNCTION_SECONDS
from functions.worker import grant_tasks, wiring
from tests.crash.evidence import Version
from tests.machine.faults import ProcessDied
from tests.machine.walk import REGION, State, Walk

GRANTS: Final = "grants"


class Worker:
    """The worker of a walk; `patch` undoes what this puts into the process."""

    def __init__(self, walk: Walk, patch: pytest.MonkeyPatch) -> None:
        self._walk = walk
        dynamodb().create_table(
            TableName=GRANTS,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "Pk", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "Pk", "KeyType": "HASH"}],
        )
        for name, value in (("GRANT_TABLE_NAME", GRANTS), ("POSTPONE_MINUTES", "60")):
            walk.set(name, value)
        wiring.desk.cache_clear()
        wiring.desk()
        patch.setattr(grant_tasks, "metrics", Metrics())
        patch.setattr(grant_tasks.logger.registered_handler, "stream", walk.log)

    def deliver(self, messages: Sequence[State], delivery: int) -> list[State]:
        """One batch; those that the queue keeps."""
        event = {"Records": messages, "Delivery": delivery}
        context = SimpleNamespace(
            function_name="GrantTasks",
            memory_limit_in_mb=512,
            invoked_function_arn="worker",
            aws_request_id=f"delivery-{delivery}",
            get_remaining_time_in_millis=lambda: 1000 * WORKER_FUNCTION_SECONDS,
        )
        try:
            with self._walk.calls.made_by("GrantTasks", event), redirect_stdout(self._walk.log):
                failures = grant_tasks.handler(event, context)["batchItemFailures"]
        except ProcessDied:
            return [*messages]
        failed = {failure["itemIdentifier"] for failure in failures}
        return [message for message in messages if message["messageId"] in failed]

    def forget_tasks(self) -> None:
        """Let the notes of finished tasks expire, as they do after months."""
        for row in scan(GRANTS):
            if row["Pk"]["S"].startswith("task#"):
                dynamodb().delete_item(TableName=GRANTS, Key={"Pk": row["Pk"]})

    @property
    def granted(self) -> Counter[Version]:
        """How often each record version was granted, by the writes that had their effect."""
        rows = (
            write["Put"]["Item"]
            for call, _ in self._walk.calls.done
            if call.operation == "TransactWriteItems" and "Delivery" in call.payload
            for write in call.request["TransactItems"]
            if "Put" in write
        )
        return Counter(
            Version(json.loads(row["RecordKey"]["S"])["RecordId"], row["BookingDate"]["S"], row["BookingTime"]["S"])
            for row in rows
        )


def as_delivered(contents: Iterable[State]) -> list[State]:
    """Messages as Lambda hands them to the function."""
    return [
        {
            "messageId": f"message-{place}",
            "body": json.dumps(content),
            "attributes": {
                "MessageGroupId": str(json.loads(content["Data"])["MemberId"]),
                "ApproximateReceiveCount": "1",
            },
        }
        for place, content in enumerate(contents)
    ]


def scan(table: str) -> list[State]:
    """All of a table, in some fixed order."""
    rows: list[State] = dynamodb().scan(TableName=table)["Items"]
    return sorted(rows, key=json.dumps)


@functools.cache
def dynamodb() -> Any:
    """A client of the test's own: its calls are neither noted nor made to fail."""
    create: Callable[..., Any] = boto3.Session(region_name=REGION).client
    return create("dynamodb")
