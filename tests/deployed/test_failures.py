"""How a run fails, what it leaves, and how the next run of its hour goes on from there."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.deployed.application import NOWHERE, Application, Day, Execution, everywhere, forbid_uploads_of, starts
from tests.deployed.wire import Call, Fault, wait_until

PAGES_OF_TWO = {"PageSize": 2}


def sent(calls: list[Call]) -> Counter[str]:
    """How often each task was sent."""
    batches = [call.request["Entries"] for call in calls if call.operation == "SendMessageBatch"]
    return Counter(entry["MessageDeduplicationId"] for batch in batches for entry in batch)


def assert_failed_at_the_second_page(day: Day, execution: Execution, message: str) -> None:
    report = dict(execution.report)
    assert (execution.status, execution.error) == ("FAILED", "ConfigurationError")
    assert report.pop("Message").startswith(message)
    assert report.pop("RunId")
    totals = {"AlreadyDispatched": 0, "SetAside": 0, "Groups": 2, "Tasks": 2}
    assert report == {
        "Error": "ConfigurationError",
        "WindowStart": day.window(8),
        "WindowEnd": day.window(9),
        "Path": "paged",
        "Page": 2,
        "Token": {
            "RecordId": {"S": f"R2@{day.date}"},
            "BookingDateUTC": {"S": str(day.date)},
            "BookingTimeUTC": {"S": "08:02:00Z"},
        },
        "Totals": {"Pages": 1, "Evaluated": 2, "Waiting": 2, "Dispatched": 2, **totals},
        "Execution": execution.arn,
        "NotDone": [],
    }


@pytest.mark.parametrize("member", ["3", "4"], ids=["first of its page", "last of its page"])
def test_a_failing_upload_stops_the_run_before_anything_of_its_page_is_sent(
    application: Application, day: Day, member: str
) -> None:
    day.book_members(5)
    with application.wire.recording() as calls, application.wire.reacting(forbid_uploads_of(member)):
        failed = day.run(8, **PAGES_OF_TWO)

    assert_failed_at_the_second_page(day, failed, "PutObject: AccessDenied")
    assert starts(application, calls) == [None, "R2"]
    effects = day.effects(8)
    assert (effects.on_queues, effects.in_ledger) == (["R1", "R2"], ["R1", "R2"])
    assert len(application.plans(day.window(8))) == 1

    with application.wire.recording() as calls_again:
        again = day.run(8, **PAGES_OF_TWO).output

    assert again.items() >= {"Waiting": 5, "Dispatched": 3, "AlreadyDispatched": 2, "Tasks": 3}.items()
    assert day.effects(8) == everywhere("R1", "R2", "R3", "R4", "R5")
    assert set(sent(calls + calls_again).values()) == {1}


@pytest.mark.parametrize(
    "again",
    [PAGES_OF_TWO, {"PageSize": 3}, {"PaginationEnabled": False}],
    ids=["by the same pages", "by other pages", "by the full path"],
)
def test_a_send_that_fails_half_way_leaves_what_was_sent_and_the_next_run_sends_the_rest(
    application: Application, day: Day, again: dict[str, Any]
) -> None:
    day.book_members(5)

    def coupons_behind_points(call: Call) -> Fault | None:
        if not application.is_send(call, "ECoupon"):
            return None
        wait_until(lambda: [other for other in calls if sends_r3(other) and other.answered.is_set()])
        return Fault.FORBIDDEN

    def sends_r3(call: Call) -> bool:
        return application.is_send(call, "Point") and "member-3" in json.dumps(call.request)

    with application.wire.recording() as calls, application.wire.reacting(coupons_behind_points):
        failed = day.run(8, **PAGES_OF_TWO)

    assert_failed_at_the_second_page(day, failed, "SendMessageBatch: AccessDenied")
    assert starts(application, calls) == [None, "R2"]
    on_queues, in_bucket, in_ledger = day.effects(8)
    assert (on_queues, in_bucket, in_ledger) == (["R1", "R2", "R3"], ["R1", "R2", "R3", "R4"], ["R1", "R2", "R3"])
    unfinished = [plan for plan in application.plans(day.window(8)) if not plan.finished]
    unsent = {task.task_id for plan in unfinished for task in plan.unsent}
    assert len(unsent) == 1

    with application.wire.recording() as calls_again:
        output = day.run(8, **again).output

    assert output.items() >= {"Waiting": 5, "Dispatched": 2, "AlreadyDispatched": 3, "Tasks": 2}.items()
    assert day.effects(8) == everywhere("R1", "R2", "R3", "R4", "R5")
    assert set(sent(calls)) & set(sent(calls_again)) == unsent
    assert len(day.tasks(8)) == 5


def test_a_send_whose_answer_is_lost_makes_no_second_task(application: Application, day: Day) -> None:
    day.book("R1", "08:10:00Z")
    lost: list[Call] = []

    def first_send(call: Call) -> Fault | None:
        if call.operation != "SendMessageBatch" or lost:
            return None
        lost.append(call)
        return Fault.ANSWER_LOST

    with application.wire.recording() as calls, application.wire.reacting(first_send):
        execution = day.run(8)

    assert execution.output.items() >= {"Outcome": "Dispatched", "Tasks": 1}.items()
    assert list(sent(calls).values()) == [2]
    assert day.effects(8) == everywhere("R1")


def test_a_page_is_tried_again_from_its_token_when_aws_is_unavailable_for_a_while(
    application: Application, day: Day
) -> None:
    day.book_members(5)
    refused: list[Call] = []

    def second_page(call: Call) -> Fault | None:
        # Three times: that is all that the client tries by itself.
        if "ExclusiveStartKey" not in call.request or len(refused) == 3:
            return None
        refused.append(call)
        return Fault.UNAVAILABLE

    with application.wire.recording() as calls, application.wire.reacting(second_page):
        execution = day.run(8, **PAGES_OF_TWO)

    assert execution.output.items() >= {"Outcome": "Dispatched", "Pages": 3, "Dispatched": 5}.items()
    assert starts(application, calls) == [None, "R2", "R2", "R2", "R2", "R4"]
    assert day.effects(8) == everywhere("R1", "R2", "R3", "R4", "R5")


def test_more_bad_records_than_the_limit_fail_the_run_with_nothing_of_their_page_sent(
    application: Application, day: Day
) -> None:
    day.book("good", "08:10:00Z")
    day.book("bad", "08:10:00Z", OrderTime="yesterday")
    with application.parameter("SetAsideLimitParameter", "0"):
        failed = day.run(8)

    assert (failed.status, failed.error) == ("FAILED", "TooManyBadRecords")
    assert failed.report["Message"] == "1 records set aside, limit 0"
    assert day.effects(8) == NOWHERE
    (key,) = application.keys(f"set-aside/{day.date}/08/")
    assert b'"Reason": "OrderTime: ' in application.content(key)
    assert day.run(8).output.items() >= {"Waiting": 2, "Dispatched": 1, "SetAside": 1}.items()
    assert day.effects(8) == everywhere("good")


def test_of_two_executions_of_one_window_at_once_one_does_the_work_and_the_other_names_it(
    application: Application, day: Day
) -> None:
    day.book_members(5)
    reading: list[Call] = []
    second_has_ended: list[Execution] = []

    def hold_the_first(call: Call) -> Fault | None:
        if application.is_query_of_bookings(call):
            reading.append(call)
            wait_until(lambda: second_has_ended)
        return None

    with application.wire.reacting(hold_the_first):
        first = day.start(8)
        assert wait_until(lambda: reading)
        second_has_ended.append(day.run(8))
        done = application.end(first).output

    refused = second_has_ended[0].output
    assert refused.items() >= {"Outcome": "AlreadyRunning", "WindowStart": day.window(8), "Tasks": 0}.items()
    assert refused["RunId"] == done["RunId"]
    assert refused["HeldUntil"] > f"{second_has_ended[0].started:%Y-%m-%dT%H:%M:%SZ}"
    assert done.items() >= {"Outcome": "Dispatched", "Dispatched": 5, "Tasks": 5}.items()
    assert day.effects(8) == everywhere("R1", "R2", "R3", "R4", "R5")
    assert len(day.tasks(8)) == 5
