"""What a run is started with: its input, and the flags that hold from its start to its end."""

from typing import Any, Final

import pytest

from functions.domain.window import Window, parse_instant
from tests.machine.walk import Account, State, Walk, reads_bookings, worked_example

TIME: Final = "2026-09-17T16:01:10Z"
TASK_DATA: Final = {"Data": '{"ExecuteTime":"2026-09-17T16:01:10.6854808+08:00"}'}


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ({"ExecuteTime": TIME}, "2026-09-17T15:00:00Z"),
        (TASK_DATA, "2026-09-17T07:00:00Z"),
        ({"Data": '{"ExecuteTime":"2026-09-17T16:01:10Z","JobName":"Dispatch"}'}, "2026-09-17T15:00:00Z"),
        ({"ExecuteTime": "2026-09-17T08:01:00Z"}, "2026-09-17T07:00:00Z"),
        ({"ExecuteTime": "2026-09-17T00:20:00+08:00"}, "2026-09-16T15:00:00Z"),
        ({"ExecuteTime": "2027-01-01T00:01:10z"}, "2026-12-31T23:00:00Z"),
    ],
    ids=["time", "task data", "task data with more in it", "scheduled time", "yesterday in UTC", "midnight"],
)
@pytest.mark.parametrize("more", [{}, {"PaginationEnabled": True, "PageSize": 2}], ids=["alone", "with overrides"])
def test_an_input_names_its_window(walk: Walk, given: State, start: str, more: State) -> None:
    execution = walk.run(given | more)

    assert execution.status == "SUCCEEDED"
    assert execution.output["WindowStart"] == start
    assert execution.output["Path"] == ("paged" if more else "full")


def test_without_a_time_the_execution_s_own_start_counts(walk: Walk) -> None:
    execution = walk.run({})

    assert execution.status == "SUCCEEDED"
    assert execution.output["WindowStart"] == Window.before(parse_instant(execution.started_at)).start_text


REFUSED: Final[dict[str, tuple[Any, str]]] = {
    "a list": ([], "input"),
    "null": (None, "input"),
    "a text": (TIME, "input"),
    "a number": (1789632070, "input"),
    "an unknown field": ({"ExecuteTime": TIME, "Window": 15}, "Window"),
    "the wrong case": ({"executeTime": TIME}, "executeTime"),
    "no offset": ({"ExecuteTime": "2026-09-17T16:01:10.6854808"}, "ExecuteTime"),
    "an epoch number": ({"ExecuteTime": 1789632070}, "ExecuteTime"),
    "an epoch text": ({"ExecuteTime": "1789632070"}, "ExecuteTime"),
    "a .NET date": ({"ExecuteTime": "/Date(1789632070685)/"}, "ExecuteTime"),
    "a date alone": ({"ExecuteTime": "2026-09-17"}, "ExecuteTime"),
    "hour 24": ({"ExecuteTime": "2026-09-17T24:00:00Z"}, "ExecuteTime"),
    "second 60": ({"ExecuteTime": "2026-09-17T23:59:60Z"}, "ExecuteTime"),
    "ten digits": ({"ExecuteTime": "2026-09-17T16:01:10.1234567890Z"}, "ExecuteTime"),
    "a time of null": ({"ExecuteTime": None}, "ExecuteTime"),
    "an empty time": ({"ExecuteTime": ""}, "ExecuteTime"),
    "a placeholder left in": ({"ExecuteTime": "<aws.scheduler.scheduled-time>"}, "ExecuteTime"),
    "both": ({"ExecuteTime": TIME, **TASK_DATA}, "ExecuteTime"),
    "empty data": ({"Data": ""}, "Data"),
    "data without a time": ({"Data": "{}"}, "Data.ExecuteTime"),
    "data parsed already": ({"Data": {"ExecuteTime": TIME}}, "Data"),
    "data of a list": ({"Data": "[]"}, "Data"),
    "data with a bad time": ({"Data": '{"ExecuteTime":"2026-09-17"}'}, "Data.ExecuteTime"),
    "page size 0": ({"PageSize": 0}, "PageSize"),
    "a negative page size": ({"PageSize": -1}, "PageSize"),
    "half a page": ({"PageSize": 1.5}, "PageSize"),
    "a page size in text": ({"PageSize": "100"}, "PageSize"),
    "a page size beyond the maximum": ({"PageSize": 10_001}, "PageSize"),
    "a page size of true": ({"PageSize": True}, "PageSize"),
    "a switch in text": ({"PaginationEnabled": "true"}, "PaginationEnabled"),
    "a dry run of 1": ({"DryRun": 1}, "DryRun"),
    "a grouping unheard of": ({"Grouping": "hour"}, "Grouping"),
    "a resume of 1": ({"Resume": 1}, "Resume"),
    "a dry run that resumes": ({"ExecuteTime": TIME, "DryRun": True, "Resume": True}, "Resume"),
}


@pytest.mark.parametrize(("given", "field"), REFUSED.values(), ids=REFUSED)
def test_a_refused_input_fails_by_name_and_field_before_any_call(walk: Walk, given: object, field: str) -> None:
    execution = walk.run(given)

    assert (execution.status, execution.error) == ("FAILED", "InvalidInput")
    assert execution.report["Message"].startswith(f"{field}:")
    assert [call.operation for call in walk.calls.made] == ["Publish"]  # a person is told; nothing was read


@pytest.mark.parametrize(
    ("value", "path"),
    [
        *((value, "paged") for value in ("true", "TRUE", " true ")),
        *((value, "full") for value in ("1", "yes", "false", "garbage", None)),
    ],
    ids=str,
)
def test_only_a_clear_true_takes_the_paged_path(walk: Walk, account: Account, value: str | None, path: str) -> None:
    if value is not None:
        account.flag("PaginationEnabled", value)

    assert walk.run({}).output["Path"] == path


def test_a_flag_that_changes_meanwhile_is_for_the_next_run(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    account.flag("PaginationEnabled", "true")
    account.flag("PageSize", "2")

    def change() -> None:
        account.flag("PaginationEnabled", "false")
        account.flag("PageSize", "1000")

    walk.calls.follow(reads_bookings, lambda _: change())

    summary = walk.run({"ExecuteTime": TIME}).output

    assert (summary["Path"], summary["PageSize"], summary["Tasks"]) == ("paged", 2, 3)
    assert [call.request["Limit"] for call in walk.calls.made if reads_bookings(call)] == [2, 2, 2]
    asked = [call.request["Names"] for call in walk.calls.of("GetParameters")]
    assert [names for names in asked if names != ["/flags/Stop"]] == asked[:1]  # the kill switch alone is read again
    following = walk.run({"ExecuteTime": TIME}).output
    assert (following["Path"], following["PageSize"]) == ("full", 1000)


def test_an_override_of_the_input_beats_the_flags(walk: Walk, account: Account) -> None:
    account.flag("PaginationEnabled", "true")
    account.flag("PageSize", "7")

    assert walk.run({"PageSize": 3}).output["PageSize"] == 3
    assert walk.run({"PaginationEnabled": False}).output["Path"] == "full"
