"""What each function reads of its environment.  A field is read from the variable of its name in capitals."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

from functions.domain.errors import ConfigurationError
from functions.domain.pack import Layout

_Settings = TypeVar("_Settings")


@dataclass(frozen=True, slots=True)
class ParameterSettings:
    """Of the functions that plan a run or a comparison: the full names of the flags, and what the deployment fixes."""

    pagination_enabled_parameter: str
    page_size_parameter: str
    grouping_parameter: str
    set_aside_limit_parameter: str
    booking_shards: int
    lane_concurrency: int
    page_budget: int


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Of the functions that take and give back leases."""

    ledger_table_name: str


@dataclass(frozen=True, slots=True)
class NotifierSettings:
    """Of the functions that tell a person."""

    alarm_topic_arn: str


@dataclass(frozen=True, slots=True)
class StagingSettings:
    """Of the function that deletes staged records."""

    task_data_bucket_name: str


@dataclass(frozen=True, slots=True)
class TableSettings:
    """Of the function that looks through the bookings table."""

    booking_table_name: str
    booking_key_attributes: tuple[str, ...]
    booking_date_attribute: str


@dataclass(frozen=True, slots=True)
class BookingSettings(TableSettings):
    """Of the functions that read bookings."""

    booking_index_name: str
    booking_shards: int


@dataclass(frozen=True, slots=True)
class ReconcileSettings:
    """Of the function that plans a reconcile."""

    booking_shards: int
    still_waiting_hours: int


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Of the functions that write reports."""

    stack_name: str
    booking_key_attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RedoSettings:
    """Of the function that plans a redo."""

    stack_name: str
    booking_shards: int


@dataclass(frozen=True, slots=True)
class ApprovalSettings:
    """Of the function that counts what a redo would dispatch."""

    redo_without_approval: int


@dataclass(frozen=True, slots=True)
class DispatchSettings(BookingSettings):
    """Of the functions that read bookings or dispatch them."""

    task_data_bucket_name: str
    point_task_queue_url: str
    coupon_task_queue_url: str
    stop_parameter: str
    task_data_layout: Layout


def load(kind: type[_Settings], environment: Mapping[str, str] = os.environ) -> _Settings:
    """Read a settings object; a tuple is a JSON list of texts.

    Raises:
        ConfigurationError: a variable is missing, empty, or not of its field's type; the message names it.
    """
    values: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]  # the kinds above are dataclasses
        name = field.name.upper()
        text = environment.get(name, "")
        if not text:
            raise ConfigurationError(f"environment variable {name} is missing")
        values[field.name] = _READERS[field.type](name, text)
    return kind(**values)


def _names(variable: str, text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not (isinstance(names, list) and names and all(isinstance(name, str) and name for name in names)):
        raise ConfigurationError(f"environment variable {variable} is no JSON list of names")
    return tuple(names)


def _text(_variable: str, text: str) -> str:
    return text


def _number(variable: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigurationError(f"environment variable {variable} is no whole number")
    return int(text)


def _layout(variable: str, text: str) -> Layout:
    try:
        return Layout(text)
    except ValueError:
        raise ConfigurationError(f"environment variable {variable} is none of {', '.join(Layout)}") from None


_READERS: Final[Mapping[object, Callable[[str, str], object]]] = {
    str: _text,
    int: _number,
    tuple[str, ...]: _names,
    Layout: _layout,
}
