"""DynamoDB attribute values as canonical JSON text.

The text is ASCII, sorted, and keeps every digit: equal records give equal bytes on every machine and in every process.
"""

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any, Final, TypeAlias

AttributeValue: TypeAlias = Mapping[str, Any]
"""One typed value as botocore's client gives it, e.g. `{"N": "1.50"}`; binary is `bytes`."""

Item: TypeAlias = Mapping[str, AttributeValue]
"""One record: attribute names and their typed values."""

_ATTRIBUTES: Final = 64
"""A record or map of more members has data for names, which are others each time."""

quote = encode_basestring_ascii
"""A string as a JSON literal of ASCII characters."""


def number_text(text: str) -> str:
    """A DynamoDB number in plain digits: no exponent, no trailing zeros, no `-0`, no digit lost."""
    whole, point, fraction = text.partition(".")
    if whole.isdigit() and (whole[0] != "0" or len(whole) == 1):  # most are written as they are read
        if not point:
            return text
        if fraction.isdigit() and text.isascii():
            return text.rstrip("0").rstrip(".")
    digits = format(Decimal(text), "f")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits


def binary_text(value: bytes) -> str:
    """Base64 of a binary value, the form that DynamoDB itself uses in JSON."""
    return base64.b64encode(value).decode("ascii")


def object_text(members: Mapping[str, AttributeValue]) -> str:
    """A record or map as a JSON object, sorted by name."""
    names = tuple(members)
    labels = _known_labels(names) if len(names) <= _ATTRIBUTES else _labels(names)
    return "{" + ",".join([label + value_text(members[name]) for name, label in labels]) + "}"


def _labels(names: tuple[str, ...]) -> Sequence[tuple[str, str]]:
    """The names in order, each with what stands before its value."""
    return [(name, f"{quote(name)}:") for name in sorted(names)]


_known_labels = lru_cache(maxsize=64)(_labels)
"""The records of a table have few sets of attributes."""


def value_text(value: AttributeValue) -> str:
    """One typed value as JSON: numbers keep their digits, sets are sorted lists, binary is base64.

    Raises:
        ValueError: the type is none of DynamoDB's.
    """
    if "S" in value:  # most are texts
        return quote(value["S"])
    ((kind, content),) = value.items()
    write = _WRITERS.get(kind)
    if write is None:
        raise ValueError("unknown attribute type")
    return write(content)


def _list_text(elements: Iterable[str]) -> str:
    return "[" + ",".join(elements) + "]"


_WRITERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "N": number_text,
    "BOOL": lambda content: "true" if content else "false",
    "NULL": lambda _: "null",
    "M": object_text,
    "L": lambda content: _list_text(map(value_text, content)),
    "B": lambda content: quote(binary_text(content)),
    "SS": lambda content: _list_text(map(quote, sorted(content))),
    "NS": lambda content: _list_text(map(number_text, sorted(content, key=Decimal))),
    "BS": lambda content: _list_text(quote(binary_text(element)) for element in sorted(content)),
}
