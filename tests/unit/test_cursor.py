import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.cursor import DATE_ATTRIBUTE, Token, check_advance, check_token, start_key, token_of
from functions.domain.errors import InvalidToken, TokenNotAdvancing
from functions.domain.lane import ranges_of
from tests.unit.fakes import booking, window

KEY = ("RecordId",)
(KEYS,) = ranges_of(window())
TOKEN: Token = {
    "RecordId": {"S": "R1"},
    "BookingDateUTC": {"S": "2026-09-17"},
    "BookingTimeUTC": {"S": "15:10:00Z"},
}


def through_state(last_evaluated_key: dict[str, Any]) -> dict[str, Any]:
    """The ExclusiveStartKey that comes of a LastEvaluatedKey after a trip through the state machine's JSON."""
    state = json.loads(json.dumps(token_of(last_evaluated_key)))
    key_attributes = [name for name in last_evaluated_key if not name.startswith("Booking")]
    token = check_token(state, KEYS, key_attributes, DATE_ATTRIBUTE)
    assert token is not None
    return start_key(token)


def last_key(**key: dict[str, Any]) -> dict[str, Any]:
    return {**key, "BookingDateUTC": {"S": "2026-09-17"}, "BookingTimeUTC": {"S": "15:10:00Z"}}


@pytest.mark.parametrize(
    "key",
    [
        pytest.param({"Id": {"S": "R1"}}, id="a text"),
        pytest.param({"Id": {"S": "日本" * 341}}, id="a key of 2,046 bytes"),
        pytest.param({"Id": {"S": 'a"\\\u0000\ufffe\U0001f600'}}, id="characters that JSON escapes"),
        pytest.param({"Id": {"N": "-12345678901234567890.0123456789"}}, id="a number with more digits than a float"),
        pytest.param({"Id": {"N": "1" + "0" * 125}}, id="the largest number, written out"),
        pytest.param({"Id": {"N": "0." + "0" * 129 + "1"}}, id="the smallest number, written out"),
        pytest.param({"Id": {"B": b"\x3c\xff"}}, id="binary"),
        pytest.param({"Id": {"S": "R1"}, "Rev": {"N": "3"}}, id="a partition key and a sort key"),
        pytest.param({"Id": {"B": bytes(range(256)) * 8}, "Rev": {"B": b"\x00"}}, id="two binary keys"),
    ],
)
def test_a_token_comes_back_unchanged(key: dict[str, dict[str, Any]]) -> None:
    assert through_state(last_key(**key)) == last_key(**key)


@given(st.one_of(st.text(min_size=1).map(lambda s: {"S": s}), st.binary(min_size=1).map(lambda b: {"B": b})))
def test_any_key_comes_back_unchanged(value: dict[str, Any]) -> None:
    assert through_state(last_key(Id=value)) == last_key(Id=value)


def test_binary_travels_as_base64() -> None:
    assert token_of({"Id": {"B": b"\x3c\xff"}}) == {"Id": {"B": "PP8="}}


@pytest.mark.parametrize("end", [None, {}])
def test_only_a_missing_last_evaluated_key_ends_a_run(end: dict[str, Any] | None) -> None:
    assert token_of(end) is None


@pytest.mark.parametrize("absent", [None, {}])
def test_null_and_the_empty_object_mean_from_the_start(absent: object) -> None:
    assert check_token(absent, KEYS, KEY, DATE_ATTRIBUTE) is None


NOT_THIS_RUNS: dict[str, tuple[object, str]] = {
    "no object": ("R1", "Token: expected an object"),
    "a list": ([TOKEN], "Token: expected an object"),
    "nought": (0, "Token: expected an object"),
    "only the last time": ({"BookingTimeUTC": {"S": "15:10:00Z"}}, "Token: expected exactly the attributes"),
    "without the table's key": (
        {name: TOKEN[name] for name in ("BookingDateUTC", "BookingTimeUTC")},
        "Token: expected exactly the attributes BookingDateUTC, BookingTimeUTC, RecordId",
    ),
    "another table's key": (
        {"Id" if name == "RecordId" else name: value for name, value in TOKEN.items()},
        "Token: expected exactly the attributes",
    ),
    "one attribute more": ({**TOKEN, "Rev": {"N": "1"}}, "Token: expected exactly the attributes"),
    "untyped": ({**TOKEN, "RecordId": "R1"}, "Token.RecordId: expected one typed value"),
    "two types": ({**TOKEN, "RecordId": {"S": "R1", "N": "1"}}, "Token.RecordId: expected one typed value"),
    "no type": ({**TOKEN, "RecordId": {}}, "Token.RecordId: expected one typed value"),
    "null for a value": ({**TOKEN, "RecordId": None}, "Token.RecordId: expected one typed value"),
    "a type that no key has": ({**TOKEN, "RecordId": {"BOOL": "true"}}, "Token.RecordId: expected a value of type"),
    "a null type": ({**TOKEN, "RecordId": {"NULL": True}}, "Token.RecordId: expected a value of type"),
    "a JSON number for N": ({**TOKEN, "RecordId": {"N": 1}}, "Token.RecordId: expected a value of type"),
    "an N that is no number": ({**TOKEN, "RecordId": {"N": "NaN"}}, "Token.RecordId: expected a value of type"),
    "a B that is no base64": ({**TOKEN, "RecordId": {"B": "PP8"}}, "Token.RecordId: expected a value of type"),
    "a B of other characters": ({**TOKEN, "RecordId": {"B": "é==="}}, "Token.RecordId: expected a value of type"),
    "an empty key": ({**TOKEN, "RecordId": {"S": ""}}, "Token.RecordId: expected a value of type"),
    "the date as a number": ({**TOKEN, "BookingDateUTC": {"N": "20260917"}}, "Token.BookingDateUTC: not the date"),
    "another date": ({**TOKEN, "BookingDateUTC": {"S": "2026-09-16"}}, "Token.BookingDateUTC: not the date"),
    "the time as a number": ({**TOKEN, "BookingTimeUTC": {"N": "151000"}}, "Token.BookingTimeUTC: not within"),
    "before the window": ({**TOKEN, "BookingTimeUTC": {"S": "14:59:59Z"}}, "Token.BookingTimeUTC: not within"),
    "behind the window": ({**TOKEN, "BookingTimeUTC": {"S": "16:00:01Z"}}, "Token.BookingTimeUTC: not within"),
}


@pytest.mark.parametrize(("value", "reason"), NOT_THIS_RUNS.values(), ids=NOT_THIS_RUNS.keys())
def test_a_token_that_is_not_this_run_s_is_refused(value: object, reason: str) -> None:
    with pytest.raises(InvalidToken) as refused:
        check_token(value, KEYS, KEY, DATE_ATTRIBUTE)

    assert str(refused.value).startswith(reason)


def test_a_refusal_names_the_attribute_and_never_its_value() -> None:
    with pytest.raises(InvalidToken) as refused:
        check_token({**TOKEN, "RecordId": {"N": "secret-1"}}, KEYS, KEY, DATE_ATTRIBUTE)

    assert "RecordId" in str(refused.value)
    assert "secret-1" not in str(refused.value)


@pytest.mark.parametrize("time", ["15:00:00.5Z", "15:00:00Z", "15:59:59Z", "16:00:00Z"])
def test_a_token_may_stand_on_either_edge_of_the_window(time: str) -> None:
    token = {**TOKEN, "BookingTimeUTC": {"S": time}}

    assert check_token(token, KEYS, KEY, DATE_ATTRIBUTE) == token


def at(time: str, record_id: str = "R1") -> Token:
    return {**TOKEN, "BookingTimeUTC": {"S": time}, "RecordId": {"S": record_id}}


@pytest.mark.parametrize(
    "following",
    [pytest.param(at("15:10:00Z"), id="the same"), pytest.param(at("15:09:59Z", "R2"), id="an earlier one")],
)
def test_a_token_that_does_not_advance_is_refused(following: Token) -> None:
    with pytest.raises(TokenNotAdvancing, match="does not lie behind its ExclusiveStartKey"):
        check_advance(at("15:10:00Z"), following)


@pytest.mark.parametrize(
    ("start", "following"),
    [
        pytest.param(None, at("15:10:00Z"), id="the first page"),
        pytest.param(at("15:10:00Z"), None, id="the last page"),
        pytest.param(at("15:10:00Z"), at("15:10:01Z"), id="a later time"),
        pytest.param(at("15:10:00Z", "R9"), at("15:10:00Z", "R1"), id="another record of the same time"),
    ],
)
def test_a_token_that_advances_is_accepted(start: Token | None, following: Token | None) -> None:
    check_advance(start, following)


def test_a_token_of_a_composite_key_has_four_attributes() -> None:
    record = booking("R1", Id="R1", Rev=2)
    last = {name: record[name] for name in ("Id", "Rev", "BookingDateUTC", "BookingTimeUTC")}

    assert check_token(token_of(last), KEYS, ("Id", "Rev"), DATE_ATTRIBUTE) == last
