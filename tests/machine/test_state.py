"""What a run leaves in the machine's state, in its history and in the logs."""

import json
import re
from decimal import Decimal
from typing import Any, Final

import pytest

from tests.machine.faults import ALWAYS, Fault, When, every, nth
from tests.machine.walk import MAX_STATE_BYTES, Account, Execution, State, Walk, booking, group_of, reads_bookings

TIME: Final = "2026-09-17T16:01:10Z"
PAGED: Final = {"ExecuteTime": TIME, "PaginationEnabled": True}
FULL: Final = {"ExecuteTime": TIME}
GROUPS: Final = 3000


def test_a_page_of_three_thousand_groups_with_long_characters_in_their_ids_returns_little(walk: Walk) -> None:
    items = [booking(f"紀錄{n}", ShopId="商店", MemberId=f"會員{n}", PromotionEngineId="活動") for n in range(GROUPS)]
    # moto takes minutes for so much, and the state does not depend on it.
    walk.calls.answer(reads_bookings, {"Items": items, "ScannedCount": GROUPS})
    walk.calls.answer(every("PutObject"), {}, ALWAYS)
    walk.calls.answer(every("SendMessageBatch"), {"Successful": [{"Id": str(place)} for place in range(10)]}, ALWAYS)

    execution = walk.run({**PAGED, "PageSize": 10_000})

    assert execution.output == execution.output | {"Pages": 1, "Groups": GROUPS, "Tasks": GROUPS}
    [page] = [invocation for invocation in walk.invocations if invocation.function == "DispatchPage"]
    assert len(json.dumps(page.result).encode()) < MAX_STATE_BYTES
    assert max(len(text.encode()) for text in execution.states) < MAX_STATE_BYTES


@pytest.mark.parametrize("given", [PAGED, FULL], ids=["paged", "full"])
def test_a_failure_with_a_long_token_and_cause_keeps_the_state_small(
    walk: Walk, account: Account, given: State
) -> None:
    key = "鍵" * 680  # a key may have 2,048 bytes
    account.book(*(booking(f"{key}{n}", MemberId=f"member-{n}") for n in range(3)))
    walk.calls.stage(Fault.FORBIDDEN, nth("PutObject", 2))

    execution = walk.run({**given, "PageSize": 1})

    assert execution.status == "FAILED"
    assert max(len(text.encode()) for text in execution.states) < MAX_STATE_BYTES
    assert execution.report["RunId"]


@pytest.mark.parametrize("value", [float("nan"), Decimal(1), (1, 2), {1: 2}, b"x"], ids=repr)
def test_a_walk_tells_when_a_function_returns_something_else_than_plain_json(walk: Walk, value: object) -> None:
    walk.stand_in("PlanRun", lambda own: {**own(), "More": value})

    with pytest.raises(AssertionError, match="PlanRun: "):
        walk.run({})


def history_of(walk: Walk, account: Account, bookings: int) -> tuple[int, int]:
    """Pages and history events of a run over so many bookings, one a page."""
    account.book(*(booking(f"R{n}", BookingTimeUTC=f"15:{n:02}:00Z") for n in range(bookings)))
    execution = walk.run({**PAGED, "PageSize": 1})
    return execution.output["Pages"], len(execution.history)


def test_a_page_takes_seven_events_of_the_history(walk: Walk, account: Account) -> None:
    few, events_of_few = history_of(walk, account, 2)
    many, events_of_many = history_of(walk, account, 9)

    assert many > few
    assert events_of_many - events_of_few == 7 * (many - few)


# A log line may hold run ids, windows, pages, counts; of a booking nothing, but for the keys in a failure's token.

MEMBER: Final = re.compile(r"member-of-secret|shop-of-secret|engine-of-secret")
ATTRIBUTE: Final = re.compile(r"98765\.43|O-of-secret|14:50:00Z|WaitToReward|Rewarded|ECoupon|Voucher")
RECORD: Final = "record-of-secret"


def secrets(account: Account) -> None:
    ids: dict[str, Any] = {"ShopId": "shop-of-secret", "PromotionEngineId": "engine-of-secret"}
    more: dict[str, Any] = {"OrderId": "O-of-secret", "Amount": {"N": "98765.43"}, **ids}
    account.book(
        *(booking(f"{RECORD}-{n}", MemberId=f"member-of-secret-{n}", **more) for n in range(4)),
        booking(f"{RECORD}-coupon", MemberId="member-of-secret-5", RewardType="ECoupon", **more),
        booking(f"{RECORD}-done", MemberId="member-of-secret-6", RewardStatus="Rewarded", **more),
        booking(f"{RECORD}-bad", MemberId="member-of-secret-7", **more, RewardType="Voucher"),
    )


def without_tokens(log: str) -> str:
    return re.sub(r'\\*"Token\\*": ?\{.*?\}\}', "", log)


FAULTS: Final[dict[str, tuple[Fault, When]]] = {
    "no right to the parameters": (Fault.FORBIDDEN, every("GetParameters")),
    "no leases": (Fault.THROTTLED, every("TransactWriteItems")),
    "a reading without answer": (Fault.ANSWER_LOST, reads_bookings),
    "an upload without right": (Fault.FORBIDDEN, lambda call: call.operation == "PutObject" and call.place > 2),
    "a process that dies at an upload": (Fault.DIED_AFTER, every("PutObject")),
    "no connection to a queue": (Fault.UNREACHED, every("SendMessageBatch")),
    "a process that dies at a send": (Fault.DIED_AFTER, every("SendMessageBatch")),
    "no right to the end": (Fault.FORBIDDEN, every("DeleteItem")),
}


@pytest.mark.parametrize("given", [{**PAGED, "PageSize": 2}, FULL], ids=["paged", "full"])
@pytest.mark.parametrize("failing", [None, *FAULTS.values()], ids=["no failure", *FAULTS])
def test_no_log_line_and_no_message_to_a_person_holds_anything_of_a_booking(
    walk: Walk, account: Account, given: State, failing: tuple[Fault, When] | None
) -> None:
    secrets(account)
    if failing:
        walk.calls.stage(*failing, ALWAYS)

    execution = walk.run(given)

    assert execution.status == ("FAILED" if failing else "SUCCEEDED")
    log = walk.log.getvalue()
    assert "run failed" in log if failing else "run ended" in log
    assert not MEMBER.search(log)
    assert not ATTRIBUTE.search(log)
    assert RECORD not in without_tokens(log)
    assert not MEMBER.search(execution.cause)
    assert not ATTRIBUTE.search(execution.cause)
    told = "".join(subject + text for subject, text in account.told)
    assert bool(told) is bool(failing)
    assert not MEMBER.search(told)
    assert not ATTRIBUTE.search(told)
    assert RECORD not in told


def test_a_warm_process_logs_nothing_of_the_window_before(walk: Walk, account: Account) -> None:
    account.book(booking("R1"), booking("R2", BookingTimeUTC="17:03:00Z"))
    first: Execution = walk.run(PAGED, "first")
    before = len(walk.log.getvalue())

    second = walk.run({**PAGED, "ExecuteTime": "2026-09-17T18:01:10Z"}, "second")

    log = walk.log.getvalue()[before:]
    assert second.output["RunId"] in log
    assert first.output["RunId"] not in log
    assert "T15:00:00Z" not in log
    assert "T16:00:00Z" not in log


def test_a_log_line_of_a_page_holds_its_number_and_its_counts(walk: Walk, account: Account) -> None:
    account.book(booking("R1"), booking("R2", **group_of(1, 2, 3)))

    walk.run(PAGED)

    lines = [json.loads(line) for line in walk.log.getvalue().splitlines()]
    [page] = [line for line in lines if line.get("message") == "dispatched"]
    assert page == page | {"Page": 1, "Evaluated": 2, "Waiting": 2, "Dispatched": 2, "Groups": 2, "Tasks": 2}
    assert page["WindowStart"] == "2026-09-17T15:00:00Z"
