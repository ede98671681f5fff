"""However an hour is cut into pages, the same records are dispatched, and each of them once."""

from typing import Any

import pytest

from tests.deployed.application import NOWHERE, Application, Day, everywhere

ALL = ("early", "first", "fraction", "gap", "last", "sharp", "tie-1", "tie-2", "tie-3")


def book_an_hour(day: Day) -> None:
    """Twelve bookings in the hour, with equal times and both ends, and one on each side.  Nine can be dispatched."""
    day.book("first", "08:00:00Z", "a")
    day.book("fraction", "08:00:00.25Z", "b", RewardType="ECoupon")
    day.book("early", "08:07:00Z", "a", RewardType="ECoupon")
    for tie in ("tie-1", "tie-2", "tie-3"):
        day.book(tie, "08:30:00Z", "b")
    day.book("rewarded", "08:30:00Z", "b", RewardStatus="Rewarded")
    day.book("lower-case", "08:30:00Z", "b", RewardStatus="waittoreward")
    day.book("gap", "08:45:59Z", "c")
    day.book("bad", "08:50:00Z", "c", RewardType="Voucher")
    day.book("last", "08:59:59.999999999Z", "a")
    day.book("sharp", "09:00:00Z", "c")
    day.book("before", "07:59:59.9Z", "a")
    day.book("after", "09:00:01Z", "a")


WAYS: dict[str, tuple[dict[str, Any], int]] = {
    "pages of 1": ({"PageSize": 1}, 13),
    "pages of 2": ({"PageSize": 2}, 7),
    "pages of 3": ({"PageSize": 3}, 5),
    "pages of 7": ({"PageSize": 7}, 2),
    "one page": ({"PageSize": 1000}, 1),
    "the full path": ({"PaginationEnabled": False}, 1),
}


@pytest.fixture(scope="module")
def days(application: Application) -> dict[str, Day]:
    """The same hour on a day for each way to read it."""
    days = {way: application.new_day() for way in WAYS}
    for way, (fields, pages) in WAYS.items():
        book_an_hour(days[way])
        output = days[way].run(8, **fields).output
        counts = {"Evaluated": 12, "Waiting": 10, "Dispatched": 9, "AlreadyDispatched": 0, "SetAside": 1}
        assert output.items() >= {"Outcome": "Dispatched", "Pages": pages, **counts}.items(), way
        assert output["Path"] == ("full" if "PaginationEnabled" in fields else "paged")
        assert output["Tasks"] == len(days[way].tasks(8)), way
    return days


@pytest.mark.parametrize("way", WAYS)
def test_the_same_records_are_dispatched_once_each_by(way: str, days: dict[str, Day]) -> None:
    assert days[way].effects(8) == everywhere(*ALL)


@pytest.mark.parametrize("way", ["one page", "the full path"])
def test_a_group_that_is_read_as_a_whole_is_one_task_on_each_route(way: str, days: dict[str, Day]) -> None:
    tasks = [(task.queue, task.data["MemberId"], task.records) for task in days[way].tasks(8)]

    assert sorted(tasks) == [
        ("ECoupon", "member-a", ["early"]),
        ("ECoupon", "member-b", ["fraction"]),
        ("Point", "member-a", ["first", "last"]),
        ("Point", "member-b", ["tie-1", "tie-2", "tie-3"]),
        ("Point", "member-c", ["gap", "sharp"]),
    ]


def test_a_group_on_several_pages_is_a_task_for_each_page_on_one_message_group(days: dict[str, Day]) -> None:
    tasks = [
        task for task in days["pages of 1"].tasks(8) if task.data["MemberId"] == "member-b" and task.queue == "Point"
    ]

    assert [task.records for task in tasks] == [["tie-1"], ["tie-2"], ["tie-3"]]
    assert len({task.message_group for task in tasks}) == 1


def test_a_dry_run_counts_what_the_run_then_does(day: Day) -> None:
    book_an_hour(day)
    ways = ({"PageSize": 5}, {"PaginationEnabled": False})
    counted = [day.run(8, **way, DryRun=True).output for way in ways]
    assert day.effects(8) == NOWHERE

    done = day.run(8, PageSize=5).output

    counts = ("Evaluated", "Waiting", "Dispatched", "AlreadyDispatched", "SetAside")
    assert [[output[name] for name in counts] for output in counted] == [[done[name] for name in counts]] * 2
    assert (counted[0]["Groups"], counted[0]["Tasks"]) == (done["Groups"], done["Tasks"])


def test_a_bad_record_lies_in_the_bucket_with_its_reason(application: Application, days: dict[str, Day]) -> None:
    (key,) = application.keys(f"set-aside/{days['pages of 2'].date}/08/")

    assert b'"Reason": "RewardType: expected Point or ECoupon"' in application.content(key)


@pytest.mark.parametrize(
    ("way", "again", "pages"),
    [
        ("pages of 2", {"PaginationEnabled": False}, 1),
        ("the full path", {"PageSize": 5}, 3),
        ("pages of 3", {"PageSize": 3}, 5),
    ],
    ids=["pages, then the full path", "the full path, then pages", "the same pages"],
)
def test_a_second_run_of_the_hour_makes_no_task(
    application: Application, days: dict[str, Day], way: str, again: dict[str, Any], pages: int
) -> None:
    with application.wire.recording() as calls:
        output = days[way].run(8, **again).output

    counts = {"Waiting": 10, "Dispatched": 0, "AlreadyDispatched": 9, "SetAside": 1, "Groups": 0, "Tasks": 0}
    assert output.items() >= {"Outcome": "Dispatched", "Pages": pages, "Evaluated": 12, **counts}.items()
    assert "SendMessageBatch" not in {call.operation for call in calls}
    assert days[way].effects(8) == everywhere(*ALL)
