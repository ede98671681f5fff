"""Hours that are read in lanes: grouped as a whole, in slices, and handed over from one execution to the next."""

from collections.abc import Iterator
from typing import Any

import pytest

from functions.domain.booking import Booking, read_booking
from functions.domain.lane import FIRST_MERGE
from functions.domain.task import compose, object_body
from functions.domain.window import Window
from tests.deployed.application import (
    Application,
    Day,
    Execution,
    Task,
    assert_done,
    everywhere,
    forbid_uploads_of,
    starts,
)
from tests.deployed.test_pages import ALL, book_an_hour
from tests.deployed.wire import Call, Fault, wait_until

WAYS: dict[str, dict[str, Any]] = {
    "the full path": {"PaginationEnabled": False},
    "grouped, pages of 2": {"Grouping": "window", "PageSize": 2},
    "grouped, one page": {"Grouping": "window"},
    "grouped, three slices": {"Grouping": "window", "PageSize": 2, "Slices": 3},
}
SLICED: dict[str, dict[str, Any]] = {
    "two slices": {"Slices": 2, "PageSize": 2},
    "slices that meet at 08:30:00, where four are booked": {"Slices": 2, "PageSize": 3},
    "more slices than bookings": {"Slices": 15},
}
PAGES_OF_ONE = {"PageSize": 1}
ALL_GROUPS = {"From": {"N": "0"}, "To": {"N": "256"}}
"""Where the one merge of a small hour begins."""


def composed(application: Application, day: Day) -> dict[str, bytes]:
    """The objects of an hour that is grouped as a whole, by key, composed here of what is booked."""
    table = application.outputs["BookingTableName"]
    pages = application.client("dynamodb").get_paginator("scan").paginate(TableName=table)
    window = Window.starting(day.window(8))
    read = [
        read_booking(item, ("RecordId",))
        for page in pages
        for item in page["Items"]
        if item["BookingDateUTC"]["S"] == window.date
        and window.low <= item["BookingTimeUTC"]["S"] <= window.high
        and item["RewardStatus"]["S"] == "WaitToReward"
    ]
    tasks = compose((booking for booking in read if isinstance(booking, Booking)), window)
    bucket = application.outputs["TaskDataBucketName"]
    return {new.task.object_key: object_body(new, bucket) for new in tasks}


@pytest.mark.parametrize("way", WAYS)
def test_an_hour_that_is_grouped_as_a_whole_gives_the_same_tasks_with_the_same_bodies(
    application: Application, day: Day, way: str
) -> None:
    book_an_hour(day)

    output = day.run(8, **WAYS[way]).output

    expected = composed(application, day)
    prefix = f"tasks/{day.window(8)[:10]}/08/"
    assert {key: application.content(key) for key in application.keys(prefix)} == expected
    assert sorted(task.data["Key"] for task in day.tasks(8)) == sorted(expected)
    counts = {"Evaluated": 12, "Waiting": 10, "Dispatched": 9, "AlreadyDispatched": 0, "SetAside": 1, "Tasks": 5}
    assert output.items() >= {"Outcome": "Dispatched", **counts}.items()
    assert output["Path"] == ("full" if "PaginationEnabled" in WAYS[way] else "grouped")
    assert not application.keys(f"staging/{day.window(8)[:10]}/08/"), "what was staged is deleted at the run's end"


@pytest.mark.parametrize("way", SLICED)
def test_an_hour_in_slices_dispatches_the_same_records_once_each(day: Day, way: str) -> None:
    book_an_hour(day)

    output = day.run(8, **SLICED[way]).output

    assert day.effects(8) == everywhere(*ALL)
    assert output.items() >= {"Outcome": "Dispatched", "Path": "paged", "Evaluated": 12, "Dispatched": 9}.items()


def book_thirty(day: Day) -> list[str]:
    """Thirty orders of one group, whose booking times and order times run against each other; in order."""
    for number in range(30):
        day.book(f"O{number:02}", f"08:{number:02}:00Z", "one", OrderTime=f"2030-12-24T08:{59 - number}:00Z")
    return [f"O{number:02}" for number in reversed(range(30))]


def test_thirty_orders_of_one_group_over_three_pages_are_one_task_in_order_where_windows_are_grouped(day: Day) -> None:
    in_order = book_thirty(day)

    day.run(8, Grouping="window", PageSize=10)

    assert [task.records for task in day.tasks(8)] == [in_order]


def test_they_are_three_tasks_on_one_message_group_the_first_page_s_first_where_pages_are_grouped(day: Day) -> None:
    in_order = book_thirty(day)

    day.run(8, Grouping="page", PageSize=10)

    tasks: list[Task] = day.tasks(8)
    assert [task.records for task in tasks] == [in_order[20:], in_order[10:20], in_order[:10]]
    assert len({task.message_group for task in tasks}) == 1


@pytest.fixture
def pages_an_execution(application: Application) -> Iterator[int]:
    """An execution does two pages, and then the next one goes on."""
    client, name = application.client("lambda"), application.function_names["plan_run"]
    before = application.functions()["plan_run"]["Environment"]["Variables"]
    client.update_function_configuration(FunctionName=name, Environment={"Variables": {**before, "PAGE_BUDGET": "2"}})
    yield 2
    client.update_function_configuration(FunctionName=name, Environment={"Variables": before})


def lanes_of(application: Application, day: Day) -> list[str]:
    """The lanes' executions of an hour, by name and status, in the order of their pages."""
    arn = application.outputs["LaneStateMachineArn"]
    pages = application.client("stepfunctions").get_paginator("list_executions").paginate(stateMachineArn=arn)
    hour = day.window(8)[:13].replace("-", "")
    found = [(each["name"], each["status"]) for page in pages for each in page["executions"]]
    return sorted(f"{name[: name.rindex('-', 0, name.rindex('-'))]} {status}" for name, status in found if hour in name)


@pytest.mark.usefixtures("pages_an_execution")
def test_a_run_of_more_pages_than_an_execution_may_do_is_handed_over_and_does_every_page_once(
    application: Application, day: Day
) -> None:
    records = day.book_members(6)

    with application.wire.recording() as calls:
        output = day.run(8, **PAGES_OF_ONE).output

    assert starts(application, calls) == [None, *records]
    assert output.items() >= {"Outcome": "Dispatched", "Pages": 7, "Dispatched": 6}.items()
    hour = day.window(8)[:13].replace("-", "")
    assert lanes_of(application, day) == [f"{hour}-dispatch-0-page-{page} SUCCEEDED" for page in (3, 5, 7)]
    assert_done(day, output, records)


@pytest.mark.usefixtures("pages_an_execution")
def test_a_run_that_failed_behind_a_hand_over_is_resumed_and_no_page_before_is_read_again(
    application: Application, day: Day
) -> None:
    records = day.book_members(6)
    with application.wire.reacting(forbid_uploads_of("4")):
        failed = day.run(8, **PAGES_OF_ONE)
    assert (failed.status, failed.error) == ("FAILED", "ConfigurationError")
    assert failed.report["Totals"].items() >= {"Pages": 3, "Dispatched": 3, "Tasks": 3}.items()
    at = {"Step": "dispatch", "Lane": 0, "Page": 4, "Token": failed.report["Token"]}
    assert failed.report.items() >= at.items()
    assert failed.report["Token"]["RecordId"] == {"S": f"R3@{day.date}"}

    with application.wire.recording() as calls:
        output = day.run(8, Resume=True).output

    assert starts(application, calls) == records[2:]
    assert output["RunId"] == failed.report["RunId"]
    assert output.items() >= {"Outcome": "Dispatched", "Pages": 7, "Dispatched": 6, "AlreadyDispatched": 0}.items()
    assert_done(day, output, records)


def test_a_grouped_run_that_failed_while_it_merged_is_resumed_and_no_page_is_read_again(
    application: Application, day: Day
) -> None:
    records = day.book_members(5)
    with application.wire.reacting(forbid_uploads_of("3")):
        failed = day.run(8, Grouping="window", PageSize=2)
    assert (failed.status, failed.error) == ("FAILED", "ConfigurationError")
    at = {"Step": "merge", "Lane": FIRST_MERGE, "Page": 1, "Token": ALL_GROUPS}
    assert failed.report.items() >= at.items()
    assert failed.report["Totals"].items() >= {"Pages": 3, "Evaluated": 5, "Waiting": 0, "Tasks": 0}.items()
    assert day.effects(8).on_queues == []

    with application.wire.recording() as calls:
        output = day.run(8, Resume=True).output

    assert starts(application, calls) == []
    assert output["RunId"] == failed.report["RunId"]
    assert output.items() >= {"Outcome": "Dispatched", "Path": "grouped", "Dispatched": 5}.items()
    assert_done(day, output, records)


@pytest.mark.parametrize(
    ("member", "at", "read_afterwards"),
    [
        ("3", {"Page": 3, "Pages": 2, "Evaluated": 4}, ["R4"]),
        ("5", {"Page": 1, "Token": ALL_GROUPS, "Pages": 3, "Evaluated": 5}, []),
    ],
    ids=["while it stages", "before it merges"],
)
def test_the_kill_switch_stops_a_grouped_run_with_nothing_sent_and_resume_goes_on(
    application: Application, day: Day, member: str, at: dict[str, Any], read_afterwards: list[str]
) -> None:
    records = day.book_members(5)

    def switch_while_it_is_staged(call: Call) -> Fault | None:
        if call.function == "stage_page" and call.operation == "PutObject" and f"member-{member}" in str(call.request):
            application.set_parameter("StopParameter", "true")
        return None

    with application.parameter("StopParameter", "false"):
        with application.wire.recording() as calls, application.wire.reacting(switch_while_it_is_staged):
            stopped = day.run(8, Grouping="window", PageSize=2)
        still_off = day.run(8, Resume=True).output
    assert stopped.status == "SUCCEEDED"
    for output in (stopped.output, still_off):
        assert output.items() >= {"Outcome": "Stopped", "Path": "grouped", "Dispatched": 0, "Tasks": 0, **at}.items()
    assert starts(application, calls) == [None, "R2", "R4"][: stopped.output["Pages"]]
    assert day.effects(8).on_queues == []

    with application.wire.recording() as calls:
        output = day.run(8, Resume=True).output

    assert starts(application, calls) == read_afterwards
    assert output.items() >= {"RunId": stopped.output["RunId"], "Path": "grouped", "Pages": 3, "Dispatched": 5}.items()
    assert_done(day, output, records)


def test_of_two_executions_at_once_of_a_window_that_is_grouped_one_merges_and_the_other_names_it(
    application: Application, day: Day
) -> None:
    records = day.book_members(5)
    merging: list[Call] = []
    second_has_ended: list[Execution] = []

    def hold_the_first(call: Call) -> Fault | None:
        if call.function == "merge_bucket" and call.operation == "PutObject":
            merging.append(call)
            wait_until(lambda: second_has_ended)
        return None

    with application.wire.recording() as calls, application.wire.reacting(hold_the_first):
        first = day.start(8, Grouping="window", PageSize=2)
        assert wait_until(lambda: merging)
        second_has_ended.append(day.run(8, Grouping="window"))
        output = application.end(first).output

    refused = second_has_ended[0].output
    assert refused.items() >= {"Outcome": "AlreadyRunning", "RunId": output["RunId"], "Tasks": 0}.items()
    assert starts(application, calls) == [None, "R2", "R4"]
    assert output.items() >= {"Path": "grouped", "Dispatched": 5, "AlreadyDispatched": 0, "Tasks": 5}.items()
    assert_done(day, output, records)
    assert len(day.tasks(8)) == 5


def test_slices_without_pagination_are_refused_by_name(application: Application, day: Day) -> None:
    with application.wire.recording() as calls:
        refused = day.run(8, PaginationEnabled=False, Slices=2)

    assert (refused.status, refused.error) == ("FAILED", "InvalidInput")
    assert refused.report["Message"].startswith("Slices: ")
    assert not [call for call in calls if application.is_query_of_bookings(call)]
