"""One booking as the index gives it: which are waiting, which are bad data, and what a good one means.

Source: docs/contract.md, "Booking".
"""

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from functions.domain.cursor import DATE_ATTRIBUTE, TIME_ATTRIBUTE
from functions.domain.errors import ConfigurationError
from functions.domain.values import AttributeValue, Item, number_text, object_text, quote
from functions.domain.window import Instant, parse_instant

WAITING: Final[AttributeValue] = {"S": "WaitToReward"}
MAX_ID_BYTES: Final = 2048
"""A longer id could push its task past a queue's message limit; DynamoDB's own keys have the same bound."""


_TIME: Final = re.compile(r"(?:[01][0-9]|2[0-4]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?Z?")


class Route(StrEnum):
    """Where a task goes; the value is the reward type of its records."""

    POINT = "Point"
    COUPON = "ECoupon"


_ROUTES: Final = {route.value: route for route in Route}


class Group(NamedTuple):
    """(shop, member, promotion engine) as JSON literals: number 100 and text "100" are two ids."""

    shop: str
    member: str
    engine: str

    @property
    def text(self) -> str:
        """The group as one JSON array; no two groups share it."""
        return f"[{self.shop},{self.member},{self.engine}]"


class RecordVersion(NamedTuple):
    """One record at one booking time: a re-booked record is another version and is dispatched again."""

    key: str
    """The record's primary key as canonical JSON, e.g. `{"RecordId":"R1"}`."""
    date: str
    time: str

    @property
    def moment(self) -> str:
        """Booking date and time as one text, in the order of the index."""
        return f"{self.date}T{self.time}"


Member: TypeAlias = tuple[Group, RecordVersion]
"""What the ledger knows a record by: its group and its version."""

KeyOrder: TypeAlias = tuple[str | Decimal | bytes, ...]


class Booking(NamedTuple):
    """A waiting booking that can be dispatched."""

    group: Group
    route: Route
    order_time: Instant
    key_order: KeyOrder
    version: RecordVersion
    document: str
    """Every attribute of the record, as one JSON object."""

    @property
    def member(self) -> Member:
        """What the ledger knows it by."""
        return self.group, self.version


class BadRecord(NamedTuple):
    """A waiting booking that cannot be dispatched, and why; the reason names the attribute, never its value."""

    reason: str
    item: Item


def is_waiting(item: Item) -> bool:
    """Exactly the string `WaitToReward`; another spelling, another type or no status is not waiting."""
    return item.get("RewardStatus") == WAITING


def read_booking(
    item: Item, key_attributes: Sequence[str], date_attribute: str = DATE_ATTRIBUTE
) -> Booking | BadRecord:
    """What a waiting record means, or the reason why it must be set aside.

    `date_attribute` is the index's partition key: a date, in a sharded index followed by `#` and the shard, which is
    where the record stands and no part of its version.

    Raises:
        ConfigurationError: the table's key attributes are not those of the settings.
    """
    key = _key(item, key_attributes)
    try:
        return Booking(
            group=Group(_id(item, "ShopId"), _id(item, "MemberId"), _id(item, "PromotionEngineId")),
            route=_route(item),
            order_time=_order_time(item),
            key_order=tuple(map(_comparable, key.values())),
            version=RecordVersion(
                object_text(key),
                item[date_attribute]["S"].partition("#")[0],
                _booking_time(item),
            ),
            document=_document(item),
        )
    except ValueError as error:
        return BadRecord(str(error), item)


def version_of(item: Item, key_attributes: Sequence[str], date_attribute: str = DATE_ATTRIBUTE) -> RecordVersion:
    """Where any record of the index stands, whatever its other attributes are and whether its time is one.

    Raises:
        ConfigurationError: the table's key attributes are not those of the settings.
    """
    date = item[date_attribute]["S"].partition("#")[0]
    return RecordVersion(key_text(item, key_attributes), date, item[TIME_ATTRIBUTE]["S"])


def key_text(item: Item, key_attributes: Sequence[str]) -> str:
    """The record's primary key, as its version has it.

    Raises:
        ConfigurationError: the table's key attributes are not those of the settings.
    """
    return object_text(_key(item, key_attributes))


def is_booking_time(text: str) -> bool:
    """Whether a sort key of the index is a time of day; the index takes any text."""
    return _TIME.fullmatch(text) is not None


def _key(item: Item, key_attributes: Sequence[str]) -> dict[str, AttributeValue]:
    try:
        return {name: item[name] for name in key_attributes}
    except KeyError as missing:
        raise ConfigurationError(f"the bookings have no key attribute {missing}") from None


def _id(item: Item, name: str) -> str:
    value = item.get(name)
    if value is None:
        raise ValueError(f"{name}: missing")
    text = value.get("S")
    if text is not None:
        if not text:
            raise ValueError(f"{name}: empty")
        if len(text.encode("utf-8", "surrogatepass")) > MAX_ID_BYTES:
            raise ValueError(f"{name}: longer than {MAX_ID_BYTES} bytes")
        return quote(text)
    number = value.get("N")
    if number is None:
        raise ValueError(f"{name}: expected type N or S")
    return number_text(number)


def _booking_time(item: Item) -> str:
    """The index orders by text, so a query for 19:00 to 20:00 also returns `1:30:00Z`, which means no time."""
    time: str = item[TIME_ATTRIBUTE]["S"]
    if not is_booking_time(time):
        raise ValueError(f"{TIME_ATTRIBUTE}: expected HH:MM:SSZ")
    return time


def _route(item: Item) -> Route:
    value = item.get("RewardType")
    if value is None:
        raise ValueError("RewardType: missing")
    route = _ROUTES.get(value.get("S", ""))
    if route is None:
        raise ValueError("RewardType: expected Point or ECoupon")
    return route


def _order_time(item: Item) -> Instant:
    value = item.get("OrderTime")
    if value is None:
        raise ValueError("OrderTime: missing")
    text = value.get("S")
    if text is None:
        raise ValueError("OrderTime: expected type S")
    try:
        return parse_instant(text)
    except ValueError as error:
        raise ValueError(f"OrderTime: {error}") from None


def _comparable(value: AttributeValue) -> str | Decimal | bytes:
    """A key value in DynamoDB's own order: numbers by value, strings and binary by their bytes."""
    ((kind, content),) = value.items()
    return Decimal(content) if kind == "N" else content


def _document(item: Item) -> str:
    document = object_text(item)
    if "\\ud" in document:  # only then can there be half a surrogate pair, which is no character
        try:
            json.dumps(json.loads(document, parse_int=str, parse_float=str), ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("an attribute holds half a surrogate pair") from None
    return document
