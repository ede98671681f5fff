"""Put bookings into the sandbox table."""

import hashlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Final

from mypy_boto3_dynamodb import DynamoDBClient
from mypy_boto3_dynamodb.type_defs import WriteRequestOutputTypeDef, WriteRequestTypeDef

from functions.domain.cursor import DATE_ATTRIBUTE
from tools.samples import Item

BATCH_SIZE: Final = 25
"""What one BatchWriteItem takes."""
ATTEMPTS: Final = 8
"""How often a batch is sent until all of it is written, with a growing pause between."""

_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?Z")


class InvalidBookingError(ValueError):
    """A booking whose keys the table or its index cannot hold; the message names the attribute."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """How the index of the bookings is partitioned."""

    date_attribute: str = DATE_ATTRIBUTE
    """The index's partition key."""
    shards: int = 0
    """So many partitions hold each date; 0 where the index is not sharded."""

    def holding(self, booking: Item) -> Item:
        """The booking with the index's partition key: its date, in a sharded index followed by `#` and its shard."""
        key = booking[DATE_ATTRIBUTE]["S"]
        if self.shards:
            key = f"{key}#{shard_of(booking['RecordId']['S'], self.shards)}"
        return {**booking, self.date_attribute: {"S": key}}


def shard_of(record_id: str, shards: int) -> int:
    """The shard of a record: by a hash of its key, so that a record stays in one and all have about as many."""
    return int.from_bytes(hashlib.sha256(record_id.encode()).digest()[:8]) % shards


_UNSHARDED: Final = Partitions()


def check(booking: Item) -> None:
    """Refuse a booking that DynamoDB would refuse, or would leave out of the index. Bad data elsewhere may be meant.

    Raises:
        InvalidBookingError: a key of the table or of the index is missing, of another type than S, or no such key.
    """
    for name in ("RecordId", "BookingDateUTC", "BookingTimeUTC"):
        value = booking.get(name, {})
        if list(value) != ["S"] or not isinstance(value["S"], str) or not value["S"]:
            raise InvalidBookingError(f"{name}: expected a text (type S) that is not empty")
    day, moment = booking["BookingDateUTC"]["S"], booking["BookingTimeUTC"]["S"]
    try:
        is_day = date.fromisoformat(day).isoformat() == day
    except ValueError:
        is_day = False
    if not is_day:
        raise InvalidBookingError("BookingDateUTC: expected YYYY-MM-DD")
    if not _TIME.fullmatch(moment):
        raise InvalidBookingError("BookingTimeUTC: expected HH:MM:SSZ, with or without a fraction of the second")


def put(dynamodb: DynamoDBClient, table: str, bookings: Sequence[Item], partitions: Partitions = _UNSHARDED) -> None:
    """Write the bookings, each over what stands under its `RecordId`; none is written when one is refused.

    They come with their plain dates, and are put where the index's partitions have them.

    Raises:
        InvalidBookingError: a booking is refused.
        TimeoutError: the table did not take all of them.
    """
    for booking in bookings:
        check(booking)
    for start in range(0, len(bookings), BATCH_SIZE):
        _write(dynamodb, table, map(partitions.holding, bookings[start : start + BATCH_SIZE]))


def put_new(dynamodb: DynamoDBClient, table: str, bookings: Sequence[Item], partitions: Partitions = _UNSHARDED) -> int:
    """Write those bookings whose `RecordId` is not there yet; whatever became of the others stays as it is.

    Returns how many were written.

    Raises:
        InvalidBookingError: a booking is refused; none is written.
    """
    for booking in bookings:
        check(booking)
    written = 0
    for booking in bookings:
        with suppress(dynamodb.exceptions.ConditionalCheckFailedException):
            dynamodb.put_item(
                TableName=table,
                Item=partitions.holding(booking),
                ConditionExpression="attribute_not_exists(#key)",
                ExpressionAttributeNames={"#key": "RecordId"},
            )
            written += 1
    return written


def _write(dynamodb: DynamoDBClient, table: str, batch: Iterable[Item]) -> None:
    """Write one batch, entry by entry: what the answer does not take is sent again."""
    left: Mapping[str, Sequence[WriteRequestTypeDef | WriteRequestOutputTypeDef]]
    left = {table: [{"PutRequest": {"Item": booking}} for booking in batch]}
    for attempt in range(ATTEMPTS):
        left = dynamodb.batch_write_item(RequestItems=left)["UnprocessedItems"]
        if not left:
            return
        time.sleep(0.05 * 2**attempt)
    raise TimeoutError(f"{table} did not take {len(left[table])} of its bookings in {ATTEMPTS} attempts")
