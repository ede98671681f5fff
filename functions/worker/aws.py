"""The worker's AWS: the tasks' objects in S3, the bookings, and the sandbox's grants in a DynamoDB table.

The grant table's items, by `Pk`; a group, key or time stands in no key, only its hash:

- `grant#<SHA-256 of group and record version>`: what was granted, for which task, and when.  Kept for ever: this is
  what makes a repeat harmless;
- `task#<id>`: every order of the task is settled, with the outcomes counted by the attempt that came to the end;
- `message#<id>`: why a message failed the last time;
- `stock#<promotion engine>`: how many coupons are left (`Left`); without it there are enough.
"""

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from functions.domain.booking import RecordVersion, Route
from functions.domain.cursor import TIME_ATTRIBUTE
from functions.domain.errors import ConfigurationError, DispatcherError, TransientError
from functions.domain.task import Extent
from functions.domain.values import Item
from functions.worker.contract import UnworkableTask
from functions.worker.ports import Answer, Message, Standing
from functions.worker.task import Order, Schema

REWARDED: Final = {"S": "Rewarded"}
LOG_RETENTION: Final = timedelta(days=220)
"""A task may be sent as long as its plan lives (200 days), and then stands up to 14 days on its queue."""

_CONFIG: Final = Config(
    connect_timeout=2,
    read_timeout=10,
    retries={"mode": "standard", "total_max_attempts": 3},
    response_checksum_validation="when_required",
    tcp_keepalive=True,
)
_JUDGED_BY: Final = ("RewardStatus", "ShopId", "MemberId", "PromotionEngineId", "RewardType", TIME_ATTRIBUTE)
"""The attributes by which an order was judged, beside the date: none may have changed when it is granted."""
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.1
_UNREADABLE: Final = frozenset({"AccessDenied", "NoSuchKey"})
"""Without the right to list a bucket, which a worker does not have, S3 says of a missing object that it is denied."""
_BEYOND: Final = "InvalidRange"
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "ResourceNotFoundException"})
_CONDITION_FAILED: Final = "ConditionalCheckFailed"
_CONTENTION: Final = frozenset({"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"})


def client(service: str) -> Any:
    """A client with explicit time limits."""
    create: Callable[..., Any] = boto3.client
    return create(service, config=_CONFIG)


@dataclass(frozen=True, slots=True)
class S3TaskObjects:
    """`TaskObjects` on the task-data bucket."""

    client: Any
    bucket: str

    def read(self, key: str, extent: Extent | None = None) -> bytes:
        """See `TaskObjects.read`."""
        place = {"Bucket": self.bucket, "Key": key}
        if extent is not None:
            place["Range"] = extent.byte_range
        with _translated("GetObject"):
            try:
                content: bytes = self.client.get_object(**place)["Body"].read()
            except ClientError as error:
                if _code(error) in _UNREADABLE:
                    raise UnworkableTask(f"its object is missing, or may not be read: {_described(error)}") from None
                if _code(error) == _BEYOND:
                    raise UnworkableTask(f"its object ends before its range: {_described(error)}") from None
                raise
        return content


@dataclass(frozen=True, slots=True)
class DynamoBookings:
    """`Bookings` on the bookings table itself: a read by primary key can be consistent, one of the index cannot."""

    client: Any
    table_name: str
    schema: Schema

    def newest(self, key: Item) -> Item | None:
        """See `Bookings.newest`."""
        with _translated("GetItem bookings"):
            answer = self.client.get_item(TableName=self.table_name, Key=key, ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item

    def postpone(self, standing: Standing, to: RecordVersion) -> bool:
        """See `Bookings.postpone`; the booking stays in its shard."""
        _, separator, shard = standing.booking[self.schema.date_attribute]["S"].partition("#")
        moved = {
            self.schema.date_attribute: {"S": f"{to.date}{separator}{shard}"},
            TIME_ATTRIBUTE: {"S": to.time},
        }
        with _translated("UpdateItem bookings"):
            try:
                self.client.update_item(**self.change(standing, moved))
            except self.client.exceptions.ConditionalCheckFailedException:
                return False
        return True

    def change(self, standing: Standing, attributes: Item) -> dict[str, Any]:
        """The update that sets these attributes, if the booking still stands as it was read."""
        judged = {name: standing.booking[name] for name in (*_JUDGED_BY, self.schema.date_attribute)}
        names = {f"#n{place}": name for place, name in enumerate({**judged, **attributes})}
        placeholders = {name: placeholder for placeholder, name in names.items()}
        was = {f":was{place}": value for place, value in enumerate(judged.values())}
        new = {f":new{place}": value for place, value in enumerate(attributes.values())}
        condition = (f"{placeholders[name]} = {value}" for name, value in zip(judged, was, strict=True))
        setting = (f"{placeholders[name]} = {value}" for name, value in zip(attributes, new, strict=True))
        return {
            "TableName": self.table_name,
            "Key": self.schema.key_of(standing.booking),
            "ConditionExpression": " AND ".join(condition),
            "UpdateExpression": f"SET {', '.join(setting)}",
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": {**was, **new},
        }


@dataclass(frozen=True, slots=True)
class SandboxGrants:
    """`Grants` and `TaskLog` on the grant table.

    Grant, mark and stock are one transaction: either the record version is granted and its booking marked, or nothing
    was done.  So it does not matter where a worker dies.
    """

    client: Any
    table_name: str
    bookings: DynamoBookings
    clock: Callable[[], datetime]

    def grant(self, standing: Standing) -> Answer:
        """See `Grants.grant`."""
        order = standing.order
        row = {
            **_grant_key(order),
            "TaskId": {"S": order.task_id},
            "Route": {"S": order.route.value},
            "Group": {"S": order.group.text},
            "RecordKey": {"S": order.version.key},
            "BookingDate": {"S": order.version.date},
            "BookingTime": {"S": order.version.time},
            "GrantedAt": {"S": self.clock().isoformat(timespec="milliseconds")},
        }
        put = {"TableName": self.table_name, "Item": row, "ConditionExpression": "attribute_not_exists(Pk)"}
        mark = self.bookings.change(standing, {"RewardStatus": REWARDED})
        writes = [{"Put": put}, {"Update": mark}, *self._take_one(order)]
        refused = _written(self.client, "TransactWriteItems grant", writes)
        if refused is None:
            return Answer.GRANTED
        answers = (Answer.ALREADY_GRANTED, Answer.CHANGED, Answer.OUT_OF_STOCK)
        return next(answer for answer, code in zip(answers, refused, strict=False) if code == _CONDITION_FAILED)

    def is_granted(self, order: Order) -> bool:
        """See `Grants.is_granted`."""
        return self._get(_grant_key(order)) is not None

    def is_finished(self, task_id: str) -> bool:
        """See `TaskLog.is_finished`."""
        return self._get(_key("task", task_id)) is not None

    def finish(self, task_id: str, counts: Mapping[str, int]) -> None:
        """See `TaskLog.finish`."""
        self._put(_key("task", task_id), Counts={"S": json.dumps(counts)})

    def note_failure(self, message: Message, reason: str) -> None:
        """See `TaskLog.note_failure`."""
        self._put(_key("message", message.message_id), Reason={"S": reason}, Receives={"N": str(message.receives)})

    def _take_one(self, order: Order) -> Iterator[dict[str, Any]]:
        """The write that takes a coupon out of the stock, where there is a limit to it."""
        if order.route is not Route.COUPON:
            return
        key = _key("stock", order.group.engine)
        if self._get(key) is not None:
            yield {
                "Update": {
                    "TableName": self.table_name,
                    "Key": key,
                    "ConditionExpression": "#left > :none",
                    "UpdateExpression": "SET #left = #left - :one",
                    "ExpressionAttributeNames": {"#left": "Left"},
                    "ExpressionAttributeValues": {":none": {"N": "0"}, ":one": {"N": "1"}},
                }
            }

    def _get(self, key: Item) -> Item | None:
        with _translated("GetItem grants"):
            answer = self.client.get_item(TableName=self.table_name, Key=key, ConsistentRead=True)
        item: Item | None = answer.get("Item")
        return item

    def _put(self, key: Item, **attributes: Any) -> None:
        now = self.clock()
        item = {
            **key,
            **attributes,
            "At": {"S": now.isoformat(timespec="milliseconds")},
            "ExpiresAt": {"N": str(int((now + LOG_RETENTION).timestamp()))},
        }
        with _translated("PutItem grants"):
            self.client.put_item(TableName=self.table_name, Item=item)


def _key(kind: str, name: str) -> Item:
    return {"Pk": {"S": f"{kind}#{name}"}}


def _grant_key(order: Order) -> Item:
    return _key("grant", hashlib.sha256(order.version_text.encode("ascii")).hexdigest())


def _written(dynamodb: Any, operation: str, writes: list[dict[str, Any]]) -> list[str] | None:
    """Write all or nothing; None when written, else DynamoDB's code for each write, one of which is a failed condition.

    A stock is drawn on by many at once: those who meet are tried again after a pause.
    """
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(random.uniform(0, _PAUSE_SECONDS * 2**attempt))  # noqa: S311 -- jitter is no secret
        with _translated(operation):
            try:
                dynamodb.transact_write_items(TransactItems=writes)
            except dynamodb.exceptions.TransactionCanceledException as error:
                codes = [str(reason.get("Code")) for reason in error.response.get("CancellationReasons", [])]
                if _CONDITION_FAILED in codes:
                    return codes
                if not _CONTENTION & {*codes}:
                    raise
            else:
                return None
    raise TransientError(f"{operation}: others write the same")


@contextmanager
def _translated(operation: str) -> Iterator[None]:
    """Say of a failed call the operation and AWS's code only: AWS's own texts may quote values."""
    try:
        yield
    except DispatcherError:
        raise
    except ClientError as error:
        kind = ConfigurationError if _code(error) in _DENIED else TransientError
        raise kind(f"{operation}: {_described(error)}") from None
    except BotoCoreError as error:
        raise TransientError(f"{operation}: {type(error).__name__}") from None


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _described(error: ClientError) -> str:
    request_id = error.response.get("ResponseMetadata", {}).get("RequestId", "unknown")
    return f"{_code(error)} (request {request_id})"
