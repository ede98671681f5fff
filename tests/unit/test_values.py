import json
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.values import AttributeValue, number_text, object_text, value_text


@pytest.mark.parametrize(
    "digits", ["100", "0", "-7", "1.5", "0.1", "12345678901234567890.12", "0.1000000000000000055511151231257827021"]
)
def test_a_number_keeps_every_digit(digits: str) -> None:
    assert number_text(digits) == digits


@pytest.mark.parametrize(
    ("stored", "written"),
    [
        ("1.50", "1.5"),
        ("1E+3", "1000"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("0E+3", "0"),
        ("100.00", "100"),
        ("1E-3", "0.001"),
        ("007", "7"),
        ("0.00", "0"),
        ("10.010", "10.01"),
        ("1.\u06650", "1.5"),
        ("+5", "5"),
        ("9.9E+125", "99" + "0" * 124),
    ],
)
def test_equal_numbers_are_written_alike_and_without_exponent(stored: str, written: str) -> None:
    assert number_text(stored) == written


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12))
def test_a_number_s_value_is_never_changed(number: Decimal) -> None:
    assert Decimal(number_text(str(number))) == number
    assert "E" not in number_text(str(number))


def test_a_map_with_data_for_names_is_written_like_any_other() -> None:
    members = {f'"{number % 7}%s{number:03}': {"N": str(number)} for number in range(200)}

    text = object_text(members)
    assert json.loads(text) == {name: int(value["N"]) for name, value in members.items()}
    assert list(json.loads(text)) == sorted(members)


VALUES: dict[str, tuple[AttributeValue, str]] = {
    "a text": ({"S": "a"}, '"a"'),
    "an empty text": ({"S": ""}, '""'),
    "a text beyond ASCII": ({"S": "é\U0001f600"}, '"\\u00e9\\ud83d\\ude00"'),
    "a number": ({"N": "1.50"}, "1.5"),
    "true": ({"BOOL": True}, "true"),
    "false": ({"BOOL": False}, "false"),
    "null": ({"NULL": True}, "null"),
    "binary": ({"B": b"\x00\xff"}, '"AP8="'),
    "a set of texts": ({"SS": ["b", "a", "é"]}, '["a","b","\\u00e9"]'),
    "a set of numbers": ({"NS": ["10", "9", "-1.50"]}, "[-1.5,9,10]"),
    "a set of binaries": ({"BS": [b"\x01", b"\x00\xff"]}, '["AP8=","AQ=="]'),
    "a list keeps its order": ({"L": [{"S": "b"}, {"N": "1"}, {"NULL": True}]}, '["b",1,null]'),
    "an empty list": ({"L": []}, "[]"),
    "a map": ({"M": {"b": {"N": "1"}, "a": {"S": "x"}}}, '{"a":"x","b":1}'),
    "maps and lists in one another": (
        {"M": {"l": {"L": [{"M": {"s": {"SS": ["y", "x"]}}}, {"L": [{"B": b"\x00"}]}]}}},
        '{"l":[{"s":["x","y"]},["AA=="]]}',
    ),
}


@pytest.mark.parametrize(("value", "text"), VALUES.values(), ids=VALUES.keys())
def test_every_type_has_one_text(value: AttributeValue, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize("value", [{"X": "1"}, {"M": {"a": {"X": "1"}}}, {"L": [{"X": "1"}]}])
def test_an_unknown_type_is_refused(value: AttributeValue) -> None:
    with pytest.raises(ValueError, match="unknown attribute type"):
        value_text(value)


def test_a_record_s_attributes_are_sorted_by_name() -> None:
    assert object_text({"b": {"S": "2"}, "B": {"S": "1"}, "a": {"N": "3"}}) == '{"B":"1","a":3,"b":"2"}'


def _typed(children: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(children, max_size=3).map(lambda content: {"L": content})
    maps = st.dictionaries(st.text(max_size=3), children, max_size=3).map(lambda content: {"M": content})
    return lists | maps


@given(
    st.recursive(
        st.text(max_size=5).map(lambda s: {"S": s})
        | st.integers().map(lambda n: {"N": str(n)})
        | st.booleans().map(lambda b: {"BOOL": b})
        | st.binary(max_size=5).map(lambda b: {"B": b})
        | st.sets(st.text(max_size=3), min_size=1).map(lambda s: {"SS": list(s)}),
        _typed,
        max_leaves=10,
    )
)
def test_any_value_s_text_is_ascii_json(value: dict[str, Any]) -> None:
    text = value_text(value)

    assert text.isascii()
    json.loads(text)


COMPOSE = """
import sys
from functions.domain.booking import Booking, read_booking
from functions.domain.task import compose, message_body, object_body
from functions.domain.window import Window

bookings = []
for number, member in enumerate(["mem-é", "mem-2", "mem-é"]):
    booking = read_booking({
        "RecordId": {"B": bytes([number])},
        "BookingDateUTC": {"S": "2026-09-17"}, "BookingTimeUTC": {"S": "15:10:00Z"},
        "ShopId": {"S": "shop-1"}, "MemberId": {"S": member}, "PromotionEngineId": {"N": "1.50"},
        "RewardType": {"S": "Point"}, "OrderTime": {"S": "2026-09-17T14:00:00Z"},
        "Tags": {"SS": list({"red", "green", "blue", "black", "white"})},
        "Sizes": {"NS": list({"10", "9", "1.5", "100"})},
        "Keys": {"BS": list({b"a", b"b", b"c", b"d"})},
    }, ("RecordId",))
    assert isinstance(booking, Booking)
    bookings.append(booking)
for new in compose(bookings, Window.starting("2026-09-17T15:00:00Z")):
    print(new.task.object_key, new.task.message_group, message_body(new.task, "bucket"), object_body(new, "bucket"))
"""


def test_two_processes_write_identical_bytes_whatever_their_hash_seed() -> None:
    written = {
        subprocess.run(  # noqa: S603 -- this interpreter with the text above
            [sys.executable, "-c", COMPOSE],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(written) == 1
    assert b'"Tags":["black","blue","green","red","white"]' in next(iter(written))
