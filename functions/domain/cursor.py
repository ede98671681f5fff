"""The token: a page's whole LastEvaluatedKey, as JSON, handed back unchanged as ExclusiveStartKey.

Source: docs/contract.md, "Page and token".
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from functions.domain.errors import InvalidToken, TokenNotAdvancing
from functions.domain.lane import Range
from functions.domain.values import Item, binary_text

DATE_ATTRIBUTE: Final = "BookingDateUTC"
"""The index's partition key, unless a deployment names another one."""
TIME_ATTRIBUTE: Final = "BookingTimeUTC"

Token: TypeAlias = dict[str, dict[str, str]]
"""DynamoDB-typed JSON: `{"RecordId": {"S": "R1"}, ...}`, binary as base64."""

_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")


def token_of(last_evaluated_key: Item | None) -> Token | None:
    """The token of a page; None where DynamoDB gave no LastEvaluatedKey, the only end of a run."""
    if not last_evaluated_key:
        return None
    return {
        name: {kind: binary_text(content) if kind == "B" else content}
        for name, value in last_evaluated_key.items()
        for kind, content in value.items()
    }


def start_key(token: Token) -> dict[str, dict[str, Any]]:
    """The ExclusiveStartKey that equals the LastEvaluatedKey which `token` was made of."""
    return {
        name: {kind: base64.b64decode(content) if kind == "B" else content}
        for name, value in token.items()
        for kind, content in value.items()
    }


def check_token(value: object, keys: Range, key_attributes: Sequence[str], date_attribute: str) -> Token | None:
    """Accept a state's token only if this lane's own query can have returned it.

    It has exactly the key attributes of the table and the index, each of a key's type, this lane's date and a time
    within its bounds.  Absent, None and `{}` all mean: from the start.

    Raises:
        InvalidToken: it is another run's, or has been altered; the message names the attribute, not its value.
    """
    token = check_key(value, {date_attribute, TIME_ATTRIBUTE, *key_attributes})
    if token is None:
        return None
    if token[date_attribute] != {"S": keys.date_key}:
        raise InvalidToken(f"Token.{date_attribute}: not the date of this run's window")
    time = token[TIME_ATTRIBUTE].get("S")
    if time is None or not keys.low <= time <= keys.high:
        raise InvalidToken(f"Token.{TIME_ATTRIBUTE}: not within this run's window")
    return token


def check_key(value: object, names: Iterable[str]) -> Token | None:
    """Accept a token that has exactly these attributes, each of a key's type; absent, None and `{}` are the start.

    Raises:
        InvalidToken: it has not; the message names the attribute, not its value.
    """
    if value is None or value == {}:
        return None
    if not isinstance(value, Mapping):
        raise InvalidToken("Token: expected an object of key attributes")
    expected = set(names)
    if set(value) != expected:
        raise InvalidToken(f"Token: expected exactly the attributes {', '.join(sorted(expected))}")
    return {name: _checked(name, value[name]) for name in value}


def check_advance(start: Token | None, following: Token | None) -> None:
    """Refuse a token that would read the same or an earlier part again.

    Raises:
        TokenNotAdvancing: `following` equals `start`, or stands before it in the index.
    """
    if start is None or following is None:
        return
    if following == start or following[TIME_ATTRIBUTE]["S"] < start[TIME_ATTRIBUTE]["S"]:
        raise TokenNotAdvancing("the page's LastEvaluatedKey does not lie behind its ExclusiveStartKey")


def _checked(name: str, value: object) -> dict[str, str]:
    if not (isinstance(value, Mapping) and len(value) == 1):
        raise InvalidToken(f"Token.{name}: expected one typed value")
    ((kind, content),) = value.items()
    if not (isinstance(content, str) and content and _IS_OF_KIND.get(kind, _never)(content)):
        raise InvalidToken(f"Token.{name}: expected a value of type S, N or B")
    return {kind: content}


def _never(_content: str) -> bool:
    return False


def _is_base64(content: str) -> bool:
    try:
        base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


_IS_OF_KIND: Final[Mapping[str, Callable[[str], bool]]] = {
    "S": lambda _: True,
    "N": lambda content: _NUMBER.fullmatch(content) is not None,
    "B": _is_base64,
}
