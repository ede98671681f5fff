"""Faults that pass: throttles, lost answers, slow calls, functions that run out of time.  A run outlives them."""

import threading
from collections import Counter

import pytest

from tests.deployed.application import Application, Day, assert_done
from tests.deployed.wire import Call, Fault, first, wait_until

THROTTLED = {
    "the bookings": ("Query", Fault.TABLE_THROTTLED),
    "the ledger": ("TransactWriteItems", Fault.TABLE_THROTTLED),
    "the bucket": ("PutObject", Fault.BUCKET_THROTTLED),
    "an object that is written at once elsewhere": ("PutObject", Fault.CONFLICT),
    "the queues": ("SendMessageBatch", Fault.QUEUE_THROTTLED),
}


def text(call: Call) -> str:
    """Equal for a call and the same call made again."""
    return f"{call.function} {call.operation} {call.request}"


def decides_a_page(call: Call) -> bool:
    """Whether a call writes a plan."""
    return call.operation == "TransactWriteItems" and "row#" in str(call.request["TransactItems"][0].get("Put"))


@pytest.mark.parametrize(("operation", "fault"), THROTTLED.values(), ids=THROTTLED)
def test_a_throttled_call_is_backed_off_and_counted(
    application: Application, day: Day, operation: str, fault: Fault
) -> None:
    records = day.book_members(3)

    def concerns(call: Call) -> bool:
        return call.function == "dispatch_page" and call.operation == operation

    with application.wire.recording() as calls, application.wire.reacting(first(2, fault, concerns)):
        output = day.run(8).output

    assert_done(day, output, records)
    made = Counter(text(call) for call in calls if concerns(call))
    assert sum(made.values()) == len(made) + 2
    counted = [line["Retries"] for line in application.logged("dispatch_page", output["RunId"]) if "Retries" in line]
    assert counted == [2]


def test_a_plan_whose_answer_is_lost_is_written_again_as_the_same_plan(application: Application, day: Day) -> None:
    records = day.book_members(3)
    losing = first(1, Fault.ANSWER_LOST, decides_a_page)
    with application.wire.recording() as calls, application.wire.reacting(losing):
        output = day.run(8).output

    assert_done(day, output, records)
    assert len([call for call in calls if decides_a_page(call)]) == 2
    assert len(application.plans(day.window(8))) == 1


def test_the_first_answer_to_every_call_may_be_lost(application: Application, day: Day) -> None:
    records = day.book_members(3)
    seen: set[str] = set()
    seeing = threading.Lock()

    def lose_the_first(call: Call) -> Fault | None:
        with seeing:
            is_new = text(call) not in seen
            seen.add(text(call))
        return Fault.ANSWER_LOST if is_new else None

    with application.wire.recording() as calls, application.wire.reacting(lose_the_first):
        output = day.run(8, PageSize=2).output

    assert_done(day, output, records)
    assert min(Counter(map(text, calls)).values()) == 2
    assert {call.function for call in calls} == {"plan_run", "take_leases", "dispatch_page", "summarize_run"}


def test_a_slow_upload_is_made_again_and_then_the_attempt_looks_whether_it_was_superseded(
    application: Application, day: Day
) -> None:
    records = day.book_members(2)
    slow: list[Call] = []

    def hold_the_first(call: Call) -> Fault | None:
        if call.operation == "PutObject" and not slow:
            slow.append(call)
            wait_until(lambda: len([again for again in calls if text(again) == text(call)]) == 2)
        return None

    with application.wire.recording() as calls, application.wire.reacting(hold_the_first):
        output = day.run(8).output

    assert_done(day, output, records)
    before_the_plan = calls[: next(place for place, call in enumerate(calls) if decides_a_page(call))]
    assert [call.operation for call in before_the_plan if "fence#" in str(call.request.get("RequestItems"))] == [
        "BatchGetItem"
    ]


def test_a_function_past_its_timeout_is_tried_again_once(application: Application, day: Day) -> None:
    records = day.book_members(3)
    other = application.new_day()
    other.book_members(3)
    timed_out: dict[str, list[str]] = {}

    def hold(call: Call) -> Fault | None:
        """Until the function has timed out."""
        if application.is_query_of_bookings(call) and timed_out:
            ((execution, before),) = timed_out.items()
            wait_until(lambda: application.errors(execution) != before)
        return None

    application.set_timeout("dispatch_page", 1)
    try:
        with application.wire.reacting(hold):
            twice = other.start(8)
            timed_out[twice] = []
            assert wait_until(lambda: application.errors(twice))
            timed_out[twice] = ["Sandbox.Timedout"]
            failed = application.end(twice)
            timed_out.clear()
            once = day.start(8)
            timed_out[once] = []
            assert wait_until(lambda: application.errors(once))
            timed_out.clear()
            application.set_timeout("dispatch_page", 300)
            output = application.end(once).output
    finally:
        application.set_timeout("dispatch_page", 300)

    assert application.errors(once) == ["Sandbox.Timedout"]
    assert_done(day, output, records)
    assert application.errors(twice)[:2] == ["Sandbox.Timedout", "Sandbox.Timedout"]
    assert (failed.status, failed.error, failed.report["Error"]) == ("FAILED", "TransientError", "Sandbox.Timedout")
    assert_done(other, other.run(8, Resume=True).output, records)
