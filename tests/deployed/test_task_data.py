"""What stands in a task and its object, whatever the bookings hold."""

import re
from decimal import Decimal

import pytest

from tests.deployed.application import Application, Task, everywhere

DIGITS = "0.1000000000000000055511151231257827021"

MEMBERS: dict[str, dict[str, str]] = {
    "number": {"N": "100"},
    "text": {"S": "100"},
    "long": {"S": "會" * 682},
    "composed": {"S": "m\u00e9"},
    "decomposed": {"S": "me\u0301"},
    "path": {"S": "a/../b#?%+ \ufffe"},
}


@pytest.fixture(scope="module")
def tasks(application: Application) -> dict[str, Task]:
    """The task of each record."""
    day = application.new_day()
    for name, member in MEMBERS.items():
        day.book(name, "08:10:00Z", MemberId=member, Title="獎勵 🎁")
    for name, order_time in (("late", "2030-12-24T08:00:00.0000002+08:00"), ("early", "2030-12-24T00:00:00.0000001Z")):
        day.book(name, "08:10:00Z", "digits", OrderTime=order_time, Amount={"N": DIGITS}, Whole={"N": "1E+3"})
    day.book("sets", "08:10:00Z", "sets", Tags={"SS": ["b", "a"]}, Ranks={"NS": ["10", "9"]}, Seal={"B": b"\x00\xff"})
    day.book("too-long", "08:10:00Z", MemberId={"S": "會" * 683})

    output = day.run(8).output

    assert output.items() >= {"Dispatched": 9, "SetAside": 1, "Groups": 8, "Tasks": 8}.items()
    assert day.effects(8) == everywhere(*MEMBERS, "late", "early", "sets")
    return {record: task for task in day.tasks(8) for record in task.records}


def test_the_number_100_and_the_text_100_are_two_members(tasks: dict[str, Task]) -> None:
    assert (tasks["number"].data["MemberId"], tasks["text"].data["MemberId"]) == (100, "100")
    assert tasks["number"].message_group != tasks["text"].message_group
    assert tasks["number"].object["MemberId"] == 100
    assert tasks["text"].object["MemberId"] == "100"


def test_look_alikes_are_two_members(tasks: dict[str, Task]) -> None:
    composed, decomposed = tasks["composed"], tasks["decomposed"]

    assert (composed.data["MemberId"], decomposed.data["MemberId"]) == ("m\u00e9", "me\u0301")
    assert composed.message_group != decomposed.message_group


def test_any_characters_of_an_id_come_through_and_none_reaches_a_key_or_a_message_group(tasks: dict[str, Task]) -> None:
    for name, member in MEMBERS.items():
        task = tasks[name]
        assert task.data["MemberId"] == task.object["MemberId"]
        assert str(task.data["MemberId"]) == next(iter(member.values()))
        assert re.fullmatch(r"tasks/[0-9-]{10}/08/[0-9a-f]{2}/[0-9a-f]{64}\.json", task.data["Key"])
        assert re.fullmatch(r"[0-9a-f]{64}", task.message_group)
        assert task.content.isascii()
        assert task.object["Orders"][0]["Title"] == "獎勵 🎁"


def test_numbers_keep_every_digit(tasks: dict[str, Task]) -> None:
    order = tasks["early"].object["Orders"][0]

    assert order["Amount"] == Decimal(DIGITS)
    assert f'"Amount":{DIGITS},'.encode() in tasks["early"].content
    assert b'"Whole":1000' in tasks["early"].content


def test_orders_stand_by_instant_down_to_the_last_digit(tasks: dict[str, Task]) -> None:
    assert tasks["late"].records == ["early", "late"]


def test_sets_are_sorted_lists_and_binary_is_base64(tasks: dict[str, Task]) -> None:
    order = tasks["sets"].object["Orders"][0]

    assert (order["Tags"], order["Ranks"], order["Seal"]) == (["a", "b"], [9, 10], "AP8=")
