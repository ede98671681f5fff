"""The bookings, read one page at a time: by the index, and the table behind it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.adapters.clients import code_of, describe, translated
from functions.domain.booking import WAITING
from functions.domain.cursor import DATE_ATTRIBUTE, TIME_ATTRIBUTE, Token, start_key, token_of
from functions.domain.errors import ConfigurationError, DispatcherError, IndexNotReady, InvalidToken
from functions.domain.lane import Range
from functions.domain.page import QueryPage

_CONDITION: Final = "#date = :date AND #time BETWEEN :low AND :high"
_UNKEYED: Final = "#status = :waiting AND NOT (attribute_type(#date, :text) AND attribute_type(#time, :text))"
"""A missing attribute has no type.  One of another type may stand in a table that was given its index later."""
_TOKEN_REFUSED: Final = ("exclusive start key", "exclusivestartkey", "starting key", "cannot be restarted")


@dataclass(frozen=True, slots=True)
class DynamoBookingIndex:
    """`BookingIndex` on a DynamoDB global secondary index.

    All projected attributes are read, since a task's object holds every attribute of its records.  `ConsistentRead` is
    never sent: a global secondary index has eventual consistency only.
    """

    client: Any
    table_name: str
    index_name: str
    key_attributes: Sequence[str]
    date_attribute: str = DATE_ATTRIBUTE
    shards: int = 0

    def query_page(self, keys: Range, token: Token | None, page_size: int) -> QueryPage:
        """See `BookingIndex.query_page`.

        Raises:
            IndexNotReady: the index is being created or backfilled.
            ConfigurationError: there is no such table or index, or no right to read it.
            InvalidToken: DynamoDB does not take the token.
            TransientError: throttled, timed out or unavailable.
        """
        request: dict[str, Any] = {
            "TableName": self.table_name,
            "IndexName": self.index_name,
            "Limit": page_size,
            "KeyConditionExpression": _CONDITION,
            "ExpressionAttributeNames": {"#date": self.date_attribute, "#time": TIME_ATTRIBUTE},
            "ExpressionAttributeValues": {
                ":date": {"S": keys.date_key},
                ":low": {"S": keys.low},
                ":high": {"S": keys.high},
            },
        }
        return _page("Query bookings", self.client.query, request, token)


@dataclass(frozen=True, slots=True)
class DynamoBookingTable:
    """`BookingTable` on a DynamoDB table.

    A page is what DynamoDB reads of it in a call, a megabyte; what the filter leaves out is read and paid for too.
    """

    client: Any
    table_name: str
    key_attributes: Sequence[str]
    date_attribute: str = DATE_ATTRIBUTE

    def unkeyed_page(self, token: Token | None) -> QueryPage:
        """See `BookingTable.unkeyed_page`.

        Raises:
            ConfigurationError: there is no such table, or no right to read it.
            InvalidToken: DynamoDB does not take the token.
            TransientError: throttled, timed out or unavailable.
        """
        keys = {f"#key{place}": name for place, name in enumerate(self.key_attributes)}
        request: dict[str, Any] = {
            "TableName": self.table_name,
            "ProjectionExpression": ", ".join(keys),
            "FilterExpression": _UNKEYED,
            "ExpressionAttributeNames": {
                "#status": "RewardStatus",
                "#date": self.date_attribute,
                "#time": TIME_ATTRIBUTE,
                **keys,
            },
            "ExpressionAttributeValues": {":waiting": WAITING, ":text": {"S": "S"}},
        }
        return _page("Scan bookings", self.client.scan, request, token)


def _page(name: str, call: Callable[..., Any], request: dict[str, Any], token: Token | None) -> QueryPage:
    if token is not None:
        request["ExclusiveStartKey"] = start_key(token)
    with translated(name):
        try:
            response = call(**request)
        except ClientError as error:
            kind = _validation_kind(error)
            if kind is None:
                raise
            raise kind(f"{name}: {describe(error)}") from None
    return QueryPage(
        items=response.get("Items") or (),
        next_token=token_of(response.get("LastEvaluatedKey")),
        evaluated_count=response["ScannedCount"],
    )


def _validation_kind(error: ClientError) -> type[DispatcherError] | None:
    """DynamoDB tells these cases apart by their text only."""
    if code_of(error) != "ValidationException":
        return None
    text = str(error.response.get("Error", {}).get("Message", "")).lower()
    if "backfilling" in text:
        return IndexNotReady
    if any(phrase in text for phrase in _TOKEN_REFUSED):
        return InvalidToken
    if "index" in text:
        return ConfigurationError
    return None
