"""The bookings table, its index, and the form of a few of its records."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.domain.booking import WAITING, is_booking_time
from functions.domain.cursor import TIME_ATTRIBUTE
from tools.doctor.examination import DENIED, Examination, Group, NotChecked, Seen, Status, check, listed, refusal
from tools.doctor.site import code_of

PAGE_READ_UNITS: Final = 128
"""A page is 1 MB at most, and a unit reads 8 KB of an index, which is eventually consistent."""
READ: Final = ("MemberId", "OrderTime", "PromotionEngineId", "RewardStatus", "RewardType", "ShopId")
"""What the dispatcher understands of a booking, beside its keys.  Everything else is copied into its task."""


@check(
    Group.TABLE,
    "table-exists",
    "Name the bookings table as it is called in this account and region.",
    "docs/contract.md#booking",
)
def table_exists(it: Examination) -> Seen:
    """The table is there, and can be used."""
    try:
        status = it.described["TableStatus"]
    except NotChecked:
        return Status.FAULT, f"no table {it.bookings.name} in {it.site.region}"
    # A table is updated while one of its indexes is made, and can be used meanwhile.
    return (Status.OK if status in {"ACTIVE", "UPDATING"} else Status.FAULT), f"{it.bookings.name} is {status}"


@check(
    Group.TABLE,
    "table-keys",
    "Set bookingKeyAttributes to the table's own key: partition key first, then the sort key if it has one.",
    "docs/contract.md#booking",
)
def table_keys(it: Examination) -> Seen:
    """The table's key is the one that a run's tokens will be checked against."""
    have, types = _keys(it.described["KeySchema"]), _types(it.described)
    seen = ", ".join(f"{name} ({types[name]})" for name in have)
    if have == list(it.bookings.keys):
        return Status.OK, seen
    return Status.FAULT, f"the table has {seen}; {', '.join(it.bookings.keys)} is configured"


@check(
    Group.TABLE,
    "table-throughput",
    "Give the index more read units, or make the table on demand: a throttled page is tried again, and late.",
    "docs/limits.md#bounds-of-each-part",
)
def table_throughput(it: Examination) -> Seen:
    """The index has the read units of one page a second."""
    if it.site.embedded:
        raise NotChecked("the embedded AWS does not limit throughput")
    if it.described.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST":
        units = it.index.get("OnDemandThroughput", {}).get("MaxReadRequestUnits", -1)
        seen = "on demand" + (f", at most {units:,} read units a second" if units > 0 else "")
    else:
        units = it.index["ProvisionedThroughput"]["ReadCapacityUnits"]
        seen = f"{units:,} read units provisioned for the index; a page of 1 MB takes {PAGE_READ_UNITS}"
    return (Status.WARNING if 0 < units < PAGE_READ_UNITS else Status.OK), seen


@check(
    Group.INDEX,
    "index-exists",
    "Name the table's own index, or add one over the booking date and BookingTimeUTC.",
    "docs/contract.md#booking",
)
def index_exists(it: Examination) -> Seen:
    """The table has the index."""
    have = [index["IndexName"] for index in it.described.get("GlobalSecondaryIndexes", ())]
    if it.bookings.index in have:
        return Status.OK, it.bookings.index
    return Status.FAULT, f"no index {it.bookings.index}; the table has {', '.join(have) or 'none'}"


@check(
    Group.INDEX,
    "index-active",
    "Wait until the index is ACTIVE and no longer backfilling: until then it shows only some of the bookings.",
    "docs/scale.md#moving-a-table-to-a-sharded-index",
)
def index_active(it: Examination) -> Seen:
    """The index holds every booking, and not only those that were copied so far."""
    status = it.index.get("IndexStatus")
    if status is None:
        raise NotChecked("the index's status is not told")
    if it.index.get("Backfilling"):
        return Status.FAULT, f"{status}, backfilling"
    # Updating means its throughput: it is read meanwhile.
    return (Status.OK if status in {"ACTIVE", "UPDATING"} else Status.FAULT), status


@check(
    Group.INDEX,
    "index-keys",
    "An index's keys cannot be changed: make another one with these keys, each of type S, or name its partition key as "
    "bookingDateAttribute.",
    "docs/contract.md#booking",
)
def index_keys(it: Examination) -> Seen:
    """The index is keyed by the date and the time, both texts."""
    types = _types(it.described)
    have = [(name, types[name]) for name in _keys(it.index["KeySchema"])]
    seen = ", ".join(f"{name} ({kind})" for name, kind in have)
    expected = [(it.bookings.date_attribute, "S"), (TIME_ATTRIBUTE, "S")]
    if have == expected:
        return Status.OK, seen
    return Status.FAULT, f"{seen}; expected {', '.join(f'{name} ({kind})' for name, kind in expected)}"


@check(
    Group.INDEX,
    "index-projection",
    "Make an index that projects all attributes: a task's object holds every attribute of its records.",
    "docs/contract.md#booking",
)
def index_projection(it: Examination) -> Seen:
    """The index shows what a task needs of a booking."""
    projection = it.index["Projection"]
    kind = projection["ProjectionType"]
    if kind == "ALL":
        return Status.OK, "all attributes"
    shown = {*projection.get("NonKeyAttributes", ()), *_keys(it.described["KeySchema"])}
    missing = sorted({*READ} - shown)
    if missing:
        return Status.FAULT, f"{kind}, without {', '.join(missing)}"
    return Status.WARNING, f"{kind}: tasks will lack the other attributes"


@check(
    Group.INDEX,
    "index-read",
    "Give these credentials dynamodb:Query on the index.",
    "docs/contract.md#query",
)
def index_read(it: Examination) -> Seen:
    """A query like the dispatcher's own is answered."""
    today = it.site.clock().date().isoformat()
    index = it.index["IndexName"]
    try:
        it.site.ask(
            "dynamodb",
            "query",
            TableName=it.bookings.name,
            IndexName=index,
            Limit=1,
            Select="COUNT",
            KeyConditionExpression="#date = :date",
            ExpressionAttributeNames={"#date": it.bookings.date_attribute},
            ExpressionAttributeValues={":date": {"S": f"{today}#0" if it.bookings.shards else today}},
        )
    except ClientError as error:
        if code_of(error) not in DENIED:
            raise
        return Status.FAULT, refusal(error)
    return Status.OK, "one query was answered"


@check(
    Group.INDEX,
    "sample-dates",
    "Write the partition key as YYYY-MM-DD, in a sharded index as YYYY-MM-DD#n, and set bookingShards to the number of "
    "shards: another date is never asked for, so its bookings would never be dispatched.",
    "docs/contract.md#booking",
)
def sample_dates(it: Examination) -> Seen:
    """The sampled records stand in partitions that the dispatcher asks for."""
    return _sampled(it, it.bookings.date_attribute, lambda value: _is_partition(value.get("S", ""), it.bookings.shards))


@check(
    Group.INDEX,
    "sample-times",
    "Write BookingTimeUTC as HH:MM:SSZ, with or without a fraction: another text is set aside, or never found.",
    "docs/contract.md#booking",
)
def sample_times(it: Examination) -> Seen:
    """The sampled records have times of day."""
    return _sampled(it, TIME_ATTRIBUTE, lambda value: is_booking_time(value.get("S", "")))


@check(
    Group.INDEX,
    "sample-status",
    f"Write the status of waiting bookings exactly as {WAITING['S']}: any other spelling is left alone.",
    "docs/contract.md#booking",
)
def sample_status(it: Examination) -> Seen:
    """No sampled record means to wait, and is spelt so that it does not."""

    def is_meant(value: Mapping[str, Any]) -> bool:
        text = re.sub("[^a-z]", "", str(value.get("S", "")).lower())
        return value == WAITING or text != WAITING["S"].lower()

    return _sampled(it, "RewardStatus", is_meant)


def _sampled(it: Examination, attribute: str, is_sound: Callable[[Mapping[str, Any]], bool]) -> Seen:
    if any(one.look(it)[0] is Status.FAULT for one in (index_keys, index_projection)):
        raise NotChecked("the index is not as it must be")
    if not it.samples:
        raise NotChecked("the index holds no record")
    values = [record.get(attribute, {}) for record in it.samples]
    bad = [json.dumps(next(iter(value.values()), None)) for value in values if not is_sound(value)]
    if bad:
        return Status.FAULT, listed(f"{len(bad)} of {len(values)} sampled records: ", sorted(set(bad)))
    return Status.OK, f"{len(values)} sampled records"


def _is_partition(text: str, shards: int) -> bool:
    day, mark, shard = text.partition("#")
    try:
        is_day = date.fromisoformat(day).isoformat() == day
    except ValueError:
        return False
    return is_day and ((mark, shard) == ("", "") if not shards else shard in map(str, range(shards)))


def _keys(schema: Sequence[Mapping[str, str]]) -> list[str]:
    """The names of a key, the partition key first."""
    return [part["AttributeName"] for part in sorted(schema, key=lambda part: part["KeyType"] != "HASH")]


def _types(described: Mapping[str, Any]) -> Mapping[str, str]:
    return {one["AttributeName"]: one["AttributeType"] for one in described["AttributeDefinitions"]}
