"""Prices as dated data: AWS's list prices of one region, and what differs in others.

`prices.json` beside this file holds them; another file of the same form can be given.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from functions.domain.errors import InvalidInput

LISTED: Final = Path(__file__).with_name("prices.json")
NAMES: Final = (
    "s3_write",
    "s3_read",
    "s3_storage",
    "sqs_fifo_request",
    "dynamodb_write_unit",
    "dynamodb_read_unit",
    "dynamodb_storage",
    "dynamodb_backup",
    "lambda_request",
    "lambda_gb_second",
    "state_transition",
    "parameter_read",
    "log_ingested",
    "log_stored",
    "metric",
    "alarm",
    "dashboard",
    "schedule_start",
)
CONFIRMED: Final = "confirmed"
_DATE: Final = re.compile(r"\d{4}(-\d{2}){0,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for so many of a unit."""

    dollars: float
    amount: float
    unit: str
    as_of: str | None
    """The day, month or year that the source itself names; None where it names none."""
    source: str
    confirmed: bool
    """Whether the source says so; one that is assumed is to be looked up there."""

    @property
    def each(self) -> float:
        """US dollars for one."""
        return self.dollars / self.amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Every price that is used, for one region."""

    region: str
    listed_for: str
    """The list's own region, whose prices stand in where none is known for this one."""
    looked_up: date
    """When the list was last gone through."""
    by_name: Mapping[str, Price]
    own: int
    """So many of them are this region's own."""

    def each(self, name: str) -> float:
        """US dollars for one of what this price is for."""
        return self.by_name[name].each

    @property
    def assumed(self) -> list[str]:
        """The names of the prices that no source confirmed."""
        return [name for name, price in self.by_name.items() if not price.confirmed]


def read_prices(region: str | None = None, path: Path = LISTED) -> Prices:
    """The prices of a region, by default the list's own; what is not known of it is taken from there.

    Raises:
        InvalidInput: the file cannot be read, or an entry is missing or no price; the message names it.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(f"--prices: {path}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidInput(f"--prices: {path}: no JSON: {error}") from None
    if not isinstance(content, dict):
        raise InvalidInput(f"--prices: {path}: expected an object")
    entries, listed_for = _object(content, "prices"), str(content.get("region"))
    differing = _object(_object(content, "regions"), region) if region in content.get("regions", ()) else {}
    for name in (*entries, *differing):
        if name not in NAMES:
            raise InvalidInput(f"--prices: {name}: no price of that name is used")
    by_name = {name: _price(name, {**_object(entries, name), **differing.get(name, {})}) for name in NAMES}
    return Prices(
        region=region or listed_for,
        listed_for=listed_for,
        looked_up=_day(content.get("looked_up")),
        by_name=by_name,
        own=len(NAMES) if region in (None, listed_for) else len(differing),
    )


def _object(content: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    value = content.get(str(name))
    if not isinstance(value, dict):
        raise InvalidInput(f"--prices: {name}: expected an object")
    return value


def _price(name: str, entry: Mapping[str, Any]) -> Price:
    try:
        return Price(
            dollars=_number(entry["dollars"], least=0),
            amount=_number(entry["for"], least=1),
            unit=str(entry["unit"]),
            as_of=_as_of(entry["as_of"]),
            source=str(entry["source"]),
            confirmed=entry["status"] == CONFIRMED,
        )
    except KeyError as error:
        raise InvalidInput(f"--prices: {name}.{error.args[0]}: missing") from None
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"--prices: {name}: {error}") from None


def _number(value: object, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < least:
        raise ValueError(f"{value!r} is no number from {least} on")
    return float(value)


def _as_of(value: object) -> str | None:
    if value is not None and not (isinstance(value, str) and _DATE.fullmatch(value)):
        raise ValueError(f"as_of: {value!r} is no date such as 2026-06-13, 2026-06 or 2026")
    return value


def _day(value: object) -> date:
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise InvalidInput(f"--prices: looked_up: {value!r} is no date such as 2026-06-13") from None
