import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest

from functions.domain.booking import Route
from functions.domain.budget import CALL_SECONDS, PAGE_LEASE_SECONDS, WINDOW_LEASE_SECONDS
from functions.domain.cursor import Token
from functions.domain.errors import (
    DispatchFailed,
    InvalidToken,
    LeaseLost,
    TokenNotAdvancing,
    TooManyBadRecords,
    TransientError,
)
from functions.domain.page import QueryPage
from functions.domain.run import Others, Path, Progress
from tests.unit.fakes import (
    BUCKET,
    DAY,
    WAYS,
    Died,
    FakeIndex,
    ScriptedIndex,
    World,
    a_run,
    booking,
    dead,
    failed,
    throttled,
    walk,
    window,
    worked_example,
)


def token(time: str) -> Token:
    return {"RecordId": {"S": "R"}, "BookingDateUTC": {"S": DAY}, "BookingTimeUTC": {"S": time}}


def five_groups() -> list[Any]:
    return [booking(f"R{n}", f"15:0{n}:00Z", MemberId=n) for n in range(1, 6)]


def counts(summary: dict[str, Any]) -> dict[str, int]:
    names = ("Pages", "Evaluated", "Waiting", "Dispatched", "AlreadyDispatched", "SetAside", "Groups", "Tasks")
    return {name: summary[name] for name in names}


def test_the_worked_example_comes_out_exactly() -> None:
    world = World(*worked_example())

    summary = walk(world, a_run())

    assert summary == {
        "Outcome": "Dispatched",
        "RunId": "run-1",
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Path": "paged",
        "PageSize": 1000,
        "Pages": 1,
        "Evaluated": 5,
        "Waiting": 4,
        "Dispatched": 4,
        "AlreadyDispatched": 0,
        "SetAside": 0,
        "Groups": 3,
        "Tasks": 3,
        "DurationSeconds": summary["DurationSeconds"],
    }
    assert world.record_ids() == [["R2", "R1"], ["R5"], ["R3"]]
    assert [message.route for message in world.queues.messages] == [Route.POINT, Route.POINT, Route.COUPON]
    assert len(world.task_data.bodies) == 3
    (of_a, _, of_b) = world.queues.messages
    assert of_a.task["JobName"] == "RewardPoint"
    assert of_b.task["JobName"] == "RewardCoupon"
    assert of_a.data == {
        "ShopId": 1001,
        "MemberId": 2001,
        "PromotionEngineId": 3001,
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Bucket": BUCKET,
        "Key": of_a.data["Key"],
        "OrderCount": 2,
    }


# --- paging


def test_an_empty_page_with_a_token_is_not_the_end(world: World) -> None:
    records = [booking("R1"), booking("R2", MemberId=2), booking("R3", MemberId=3)]
    index = ScriptedIndex(
        iter(
            [
                QueryPage(records[:2], token("15:10:00Z"), 2),
                QueryPage((), token("15:20:00Z"), 7),
                QueryPage(records[2:], None, 1),
            ]
        )
    )
    world.dispatch = replace(world.dispatch, bookings=index)

    summary = walk(world, a_run())

    assert index.tokens == [None, token("15:10:00Z"), token("15:20:00Z")]
    assert counts(summary) == {
        "Pages": 3,
        "Evaluated": 10,
        "Waiting": 3,
        "Dispatched": 3,
        "AlreadyDispatched": 0,
        "SetAside": 0,
        "Groups": 3,
        "Tasks": 3,
    }


def test_an_exactly_full_last_page_leaves_one_more_that_is_empty() -> None:
    world = World(*(booking(f"R{n}", f"15:0{n}:00Z") for n in range(7)))

    summary = walk(world, a_run(page_size=7))

    assert (summary["Pages"], summary["Evaluated"], summary["Dispatched"], summary["Tasks"]) == (2, 7, 7, 1)


def test_a_window_without_bookings_is_one_empty_page(world: World) -> None:
    summary = walk(world, a_run())

    assert (summary["Outcome"], summary["Pages"], summary["Evaluated"], summary["Tasks"]) == ("Dispatched", 1, 0, 0)
    assert world.queues.messages == []


def test_a_page_of_which_nothing_waits_goes_on() -> None:
    world = World(*(booking(f"R{n}", f"15:0{n}:00Z", RewardStatus="Rewarded") for n in range(4)), booking("R9"))

    summary = walk(world, a_run(page_size=2))

    assert (summary["Pages"], summary["Evaluated"], summary["Waiting"]) == (3, 5, 1)
    assert world.record_ids() == [["R9"]]


def test_the_evaluated_count_is_what_the_query_scanned_and_never_the_items_kept(world: World) -> None:
    world.dispatch = replace(world.dispatch, bookings=ScriptedIndex(iter([QueryPage([booking("R1")], None, 500)])))

    assert walk(world, a_run())["Evaluated"] == 500


def test_a_token_that_never_advances_stops_the_run_on_the_second_query(world: World) -> None:
    index = ScriptedIndex(repeat(QueryPage([booking("R1")], token("15:10:00Z"), 1)))
    world.dispatch = replace(world.dispatch, bookings=index)

    with pytest.raises(TokenNotAdvancing) as error:
        walk(world, a_run())

    assert index.tokens == [None, token("15:10:00Z")]
    assert world.record_ids() == [["R1"]]
    report = json.loads(str(error.value))
    assert (report["Page"], report["Token"]) == (2, token("15:10:00Z"))
    assert report["Totals"]["Dispatched"] == 1


def test_records_of_one_time_are_neither_lost_nor_repeated_at_a_page_s_edge(world: World) -> None:
    index = FakeIndex(world.faults, key_attributes=("Id", "Rev"))
    index.put(*(booking("R", "15:10:00Z", Id=f"i{n}", Rev=n) for n in range(5)))
    index.put(*(booking("R", "15:05:00Z", Id=f"j{n}", Rev=n) for n in range(2)))
    world.dispatch = replace(world.dispatch, bookings=index)

    summary = walk(world, a_run(page_size=2))

    tokens = [plan.next_token for _, plan in world.ledger.stored.values() if plan.next_token]
    assert {frozenset(token) for token in tokens} == {frozenset({"Id", "Rev", "BookingDateUTC", "BookingTimeUTC"})}
    assert (summary["Pages"], summary["Dispatched"]) == (4, 7)
    ids = {order["Id"] for message in world.queues.messages for order in world.orders(message)}
    assert ids == {"i0", "i1", "i2", "i3", "i4", "j0", "j1"}


def test_the_record_that_the_token_points_at_may_be_gone(world: World) -> None:
    world.index.put(*five_groups())
    run = world.begun(a_run(page_size=2))
    progress = world.attempt(run)

    world.index.delete("R2")
    while progress.has_more:
        progress = world.attempt(run, progress)

    assert world.record_ids() == [["R1"], ["R2"], ["R3"], ["R4"], ["R5"]]


def test_a_full_megabyte_ends_a_page_before_its_limit(world: World) -> None:
    world.index.megabyte = 2
    world.index.put(*five_groups())

    summary = walk(world, a_run(page_size=100))

    assert (summary["Pages"], summary["Evaluated"], summary["Dispatched"]) == (3, 5, 5)


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(token("16:00:01Z"), id="another window's"),
        pytest.param({**token("15:10:00Z"), "BookingDateUTC": {"S": "2026-09-16"}}, id="another date's"),
        pytest.param({"RecordId": {"S": "R"}}, id="only a part"),
    ],
)
def test_a_token_that_is_not_this_run_s_is_refused_before_any_call(world: World, foreign: Token) -> None:
    with pytest.raises(InvalidToken, match="Token"):
        world.attempt(a_run(), Progress(page=2, token=foreign))

    assert not world.faults.counted


# --- what one page does, and in which order


def test_objects_come_before_the_plan_the_plan_before_the_sends_and_the_next_page_after_all_of_them() -> None:
    world = World(booking("R1"), booking("R2", MemberId=2, RewardType="ECoupon"), booking("R3", "15:20:00Z"))

    walk(world, a_run(page_size=2))

    assert world.faults.log == [
        *("take run-1", "others"),
        *("stop", "renew run-1", "read plan 1", "query", "upload", "upload"),
        *("create plan 1", "send 1 Point", "send 1 ECoupon", "finish plan 1"),
        *("stop", "renew run-1", "read plan 2", "query", "upload", "create plan 2", "send 1 Point", "finish plan 2"),
        *("conclude Dispatched", "release run-1"),
    ]


def test_where_no_other_run_and_no_edge_is_involved_nothing_is_looked_up() -> None:
    world = World(*five_groups())
    walk(world, a_run(run_id="before", window=window(14)))
    walk(world, a_run(run_id="after", window=window(16)))

    walk(world, a_run())

    assert world.faults.counted["plans"] == 0


def test_a_group_spread_over_pages_gets_several_tasks_in_one_message_group_in_page_order() -> None:
    world = World(booking("R1", "15:01:00Z"), booking("R2", "15:02:00Z", MemberId=2), booking("R3", "15:03:00Z"))

    summary = walk(world, a_run(page_size=1))

    first, other, second = world.queues.messages
    assert world.record_ids() == [["R1"], ["R2"], ["R3"]]
    assert first.group == second.group != other.group
    assert first.data["Key"] != second.data["Key"]
    assert (summary["Groups"], summary["Tasks"], len(world.task_data.bodies)) == (3, 3, 3)


def test_a_page_s_answer_is_small_however_many_groups_it_has() -> None:
    world = World(*(booking(f"R{n}", MemberId=f"\u6703\u54e1{n}" * 20) for n in range(3000)))

    answer = world.attempt(world.begun(a_run(page_size=10_000))).to_state()

    assert answer["Totals"]["Groups"] == 3000
    assert len(json.dumps(answer, ensure_ascii=False).encode()) < 8192


# --- dry run


def test_a_dry_run_changes_nothing_and_counts_what_would_be_done() -> None:
    world = World(*worked_example(), booking("R7", MemberId=None), booking("R8", "16:00:00Z"))
    before = world.snapshot()

    dry = walk(world, a_run(run_id="dry", page_size=2, dry_run=True))

    assert world.snapshot() == before
    assert set(world.faults.counted) == {"others", "stop", "query"}
    assert dry["Outcome"] == "DryRun"
    assert counts(dry) == counts(walk(world, a_run(page_size=2)))


def test_a_dry_run_after_the_run_counts_everything_as_already_dispatched() -> None:
    world = World(*worked_example())
    walk(world, a_run())
    before = world.snapshot()

    dry = walk(world, a_run(run_id="dry", dry_run=True))

    assert world.snapshot() == before
    assert (dry["Dispatched"], dry["AlreadyDispatched"], dry["Tasks"]) == (0, 4, 0)


def test_a_dry_run_may_look_while_another_run_holds_the_window() -> None:
    world = World(*worked_example())
    world.begun(a_run())

    assert walk(world, a_run(run_id="dry", dry_run=True))["Dispatched"] == 4


# --- again: other runs, neighbours, re-booked records


@pytest.mark.parametrize("again", [Path.PAGED, Path.FULL])
@pytest.mark.parametrize("first", [Path.PAGED, Path.FULL])
def test_a_second_run_of_the_same_hour_creates_no_task(first: Path, again: Path) -> None:
    world = World(*worked_example())
    walk(world, a_run(path=first, page_size=2))
    sent = list(world.queues.sent)

    summary = walk(world, a_run(run_id="run-2", path=again, page_size=3))

    assert world.queues.sent == sent
    assert (summary["Dispatched"], summary["AlreadyDispatched"], summary["Groups"], summary["Tasks"]) == (0, 4, 0, 0)


@pytest.mark.parametrize("hours", [(15, 16), (16, 15)], ids=["the earlier window first", "the later window first"])
@pytest.mark.parametrize("path", WAYS)
@pytest.mark.parametrize("edge", ["16:00:00Z", "16:00:00.5Z"])
def test_a_booking_on_the_edge_is_dispatched_by_the_window_that_runs_first(
    hours: tuple[int, int], path: Path, edge: str
) -> None:
    world = World(booking("inner", "15:59:59Z"), booking("edge", edge), booking("next", "16:00:01Z"))

    first, second = (walk(world, a_run(run_id=f"run-{hour}", window=window(hour), path=path)) for hour in hours)

    assert (first["Dispatched"], first["AlreadyDispatched"]) == (2, 0)
    assert (second["Dispatched"], second["AlreadyDispatched"]) == (1, 1)
    dispatched = [record_id for record_ids in world.record_ids() for record_id in record_ids]
    assert sorted(dispatched) == ["edge", "inner", "next"]


def test_a_booking_at_midnight_is_read_by_the_next_day_s_window_only() -> None:
    world = World(booking("R1", "00:00:00Z", BookingDateUTC="2026-09-18"), booking("R2", "23:59:59Z"))

    before = walk(world, a_run(window=window(23)))
    after = walk(world, a_run(run_id="run-2", window=window(23).next))

    assert world.record_ids() == [["R2"], ["R1"]]
    assert (before["Evaluated"], after["Evaluated"], after["AlreadyDispatched"]) == (1, 1, 0)


def test_a_re_booked_record_is_dispatched_again() -> None:
    world = World(booking("R1", "15:10:00Z"))
    walk(world, a_run())

    world.index.put(booking("R1", "15:40:00Z"))
    summary = walk(world, a_run(run_id="run-2"))

    assert world.record_ids() == [["R1"], ["R1"]]
    assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (1, 0)
    assert len(set(world.queues.sent)) == 2


def test_late_records_of_a_dispatched_group_get_a_task_of_their_own() -> None:
    world = World(booking("R1", "15:10:00Z"))
    walk(world, a_run())
    first = dict(world.task_data.objects)

    world.index.put(booking("late", "15:05:00Z"))
    summary = walk(world, a_run(run_id="run-2"))

    assert world.record_ids() == [["R1"], ["late"]]
    assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (1, 1)
    assert first.items() <= world.task_data.objects.items()


def test_the_ledger_decides_and_not_the_queue_s_five_minutes() -> None:
    world = World(*worked_example())
    walk(world, a_run())
    sent = list(world.queues.sent)

    world.clock.advance(24 * 3600)
    walk(world, a_run(run_id="run-2"))

    assert world.queues.sent == sent


# --- bad records


def test_bad_records_are_set_aside_with_their_reasons_and_the_rest_is_dispatched() -> None:
    bad = [booking("B1", OrderTime=None), booking("B2", RewardType="voucher"), booking("B3", MemberId="")]
    world = World(booking("R1"), *bad, booking("R2"))

    summary = walk(world, a_run())

    assert world.record_ids() == [["R1", "R2"]]
    assert (summary["Waiting"], summary["Dispatched"], summary["SetAside"], summary["Tasks"]) == (5, 2, 3, 1)
    (records,) = world.task_data.bad_records.values()
    assert sorted((record.item["RecordId"]["S"], record.reason) for record in records) == [
        ("B1", "OrderTime: missing"),
        ("B2", "RewardType: expected Point or ECoupon"),
        ("B3", "MemberId: empty"),
    ]


def test_a_page_without_bad_records_sets_nothing_aside() -> None:
    world = World(*worked_example())

    walk(world, a_run())

    assert world.task_data.bad_records == {}


def _bad(number: int) -> list[Any]:
    return [booking(f"B{n}", f"15:{n:02}:00Z", RewardType=None) for n in range(number)]


@pytest.mark.parametrize("path", WAYS)
@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_as_many_bad_records_as_the_limit_allows_do_not_stop_a_run(page_size: int, path: Path) -> None:
    world = World(*_bad(3), booking("R1", "15:50:00Z"))

    summary = walk(world, a_run(set_aside_limit=3, page_size=page_size, path=path))

    assert (summary["SetAside"], summary["Dispatched"]) == (3, 1)


@pytest.mark.parametrize("path", WAYS)
@pytest.mark.parametrize(("page_size", "page"), [(1, 4), (2, 2), (1000, 1)])
def test_one_bad_record_above_the_limit_stops_the_run_before_its_page_is_sent(
    page_size: int, page: int, path: Path
) -> None:
    world = World(*_bad(4), booking("R1", "15:03:30Z"), booking("R2", "15:50:00Z"))

    with pytest.raises(TooManyBadRecords) as error:
        walk(world, a_run(set_aside_limit=3, page_size=page_size, path=path))

    report = json.loads(str(error.value))
    assert report["Message"] == "4 records set aside, limit 3"
    assert report["Page"] == (1 if path is Path.FULL else page)
    assert sum(map(len, world.task_data.bad_records.values())) == 4, "their reasons are kept as evidence"
    assert world.queues.sent == []


def test_a_limit_of_none_stops_at_the_first_bad_record() -> None:
    world = World(*_bad(1))

    with pytest.raises(TooManyBadRecords, match="1 records set aside, limit 0"):
        walk(world, a_run(set_aside_limit=0))


def test_a_limit_of_none_lets_good_records_pass() -> None:
    assert walk(World(booking("R1")), a_run(set_aside_limit=0))["Dispatched"] == 1


# --- failures


@pytest.mark.parametrize("group", [1, 2, 3])
def test_a_failing_upload_sends_nothing_of_its_page_and_the_next_run_completes_without_a_repeat(group: int) -> None:
    world = World(*(booking(f"R{n}", f"15:0{n}:00Z", MemberId=n) for n in range(1, 10)))
    world.faults.before("upload", failed, nth=3 + group)

    with pytest.raises(DispatchFailed, match="refused"):
        walk(world, a_run(page_size=3))

    assert world.record_ids() == [["R1"], ["R2"], ["R3"]], "the earlier page's tasks stay"
    assert world.faults.counted["query"] == 2, "no later page is read"
    assert len(world.ledger.stored) == 1, "a plan implies its objects"
    again = walk(world, a_run(run_id="run-2", page_size=3))
    assert world.record_ids() == [[f"R{n}"] for n in range(1, 10)]
    assert len(world.queues.sent) == len(set(world.queues.sent)) == 9, "no task was made twice"
    assert (again["Dispatched"], again["AlreadyDispatched"]) == (6, 3)


def test_a_failed_run_says_where_it_stopped_and_gives_the_window_back() -> None:
    world = World(*five_groups())
    world.faults.before("upload", failed, nth=3)

    with pytest.raises(DispatchFailed) as error:
        walk(world, a_run(page_size=2))

    report = json.loads(str(error.value))
    assert (report["RunId"], report["WindowStart"], report["Page"]) == ("run-1", "2026-09-17T15:00:00Z", 2)
    assert report["Token"] == {**token("15:02:00Z"), "RecordId": {"S": "R2"}}
    assert (report["Totals"]["Pages"], report["Totals"]["Dispatched"]) == (1, 2)
    assert report["NotDone"] == []
    assert world.ledger.edges == {}


def test_a_failing_send_half_way_notes_what_was_sent_and_the_retry_sends_the_rest_only() -> None:
    world = World(*five_groups())
    world.queues.batch_size = 2
    world.faults.before("send", throttled, nth=2)

    summary = walk(world, a_run(), retries=1)

    assert world.faults.counted["query"] == 1, "the page was decided"
    assert len(world.queues.sent) == 5
    assert world.record_ids() == [["R1"], ["R2"], ["R3"], ["R4"], ["R5"]]
    assert (summary["Dispatched"], summary["AlreadyDispatched"], summary["Tasks"]) == (5, 0, 5)


def test_a_failing_send_half_way_is_carried_on_by_the_next_run_with_the_same_ids() -> None:
    world = World(*five_groups())
    world.queues.batch_size = 2
    world.faults.before("send", failed, nth=2)
    with pytest.raises(DispatchFailed):
        walk(world, a_run())
    (_, plan) = next(iter(world.ledger.stored.values()))

    summary = walk(world, a_run(run_id="run-2", page_size=3))

    assert set(world.queues.sent) == {task.task_id for task in plan.tasks}
    assert world.record_ids() == [["R1"], ["R2"], ["R3"], ["R4"], ["R5"]]
    assert len(world.queues.sent) == 5, "what had been noted as sent was not sent again"
    assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (3, 2)


FAULTS: dict[str, tuple[str, Callable[[], object]]] = {
    "throttled": ("before", throttled),
    "died before the call": ("before", dead),
    "the answer was lost": ("after", throttled),
    "died after the call": ("after", dead),
}
OPERATIONS = ["renew", "read plan", "query", "set aside", "upload", "create plan", "send", "finish plan"]


@pytest.mark.parametrize("path", WAYS)
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("when", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_whatever_call_goes_wrong_a_retry_dispatches_every_record_once(
    when: str, fault: Callable[[], object], operation: str, nth: int, path: Path
) -> None:
    bad = [booking("B1", "15:01:30Z", ShopId=None), booking("B2", "15:04:30Z", ShopId=None)]
    expected = walk(World(*five_groups(), *bad), a_run(page_size=3, path=path))
    world = World(*five_groups(), *bad)
    world.queues.batch_size = 1
    getattr(world.faults, when)(operation, fault, nth)

    summary = walk(world, a_run(page_size=3, path=path), retries=1)

    assert counts(summary) == counts(expected)
    assert sorted(world.record_ids()) == [["R1"], ["R2"], ["R3"], ["R4"], ["R5"]]
    assert world.queues.needless == []


def test_a_retry_after_a_crash_before_the_plan_composes_anew_and_repeats_nothing() -> None:
    world = World(booking("R1"))
    world.faults.before("create plan", dead)
    world.faults.after("upload", lambda: world.index.put(booking("R2")))

    walk(world, a_run(), retries=1)

    assert world.record_ids() == [["R1", "R2"]]
    assert len(world.queues.sent) == 1


def test_after_a_crash_between_send_and_finish_the_old_task_repeats_as_it_was_and_a_new_booking_gets_its_own() -> None:
    world = World(booking("R1"))
    world.faults.before("finish plan", dead)
    with pytest.raises(Died):
        walk(world, a_run())
    world.index.put(booking("R2"))
    world.clock.advance(PAGE_LEASE_SECONDS + 1)

    summary = walk(world, a_run(run_id="run-2"))

    old, repeated, new = world.queues.sent
    assert old == repeated != new
    assert [order["RecordId"] for order in world.orders(world.queues.messages[-1])] == ["R2"]
    assert (summary["Dispatched"], summary["AlreadyDispatched"], summary["Tasks"]) == (2, 0, 2)


def test_a_task_in_doubt_is_taken_along_whole_when_it_reaches_into_the_next_page() -> None:
    world = World(booking("R1", "15:01:00Z"), booking("R2", "15:02:00Z"))
    world.faults.before("send", dead)
    with pytest.raises(Died):
        walk(world, a_run())
    world.clock.advance(PAGE_LEASE_SECONDS + 1)

    summary = walk(world, a_run(run_id="run-2", page_size=1))

    assert world.record_ids() == [["R1", "R2"]]
    assert len(world.queues.sent) == 1
    assert summary["Waiting"] == 2 == summary["Dispatched"] + summary["AlreadyDispatched"]
    assert summary["Tasks"] == 1


def test_a_task_in_doubt_is_taken_along_although_a_record_of_it_waits_no_more() -> None:
    world = World(booking("R1", "15:01:00Z"), booking("R2", "15:02:00Z"))
    world.faults.before("send", dead)
    with pytest.raises(Died):
        walk(world, a_run())
    world.clock.advance(PAGE_LEASE_SECONDS + 1)
    world.index.put(booking("R2", "15:02:00Z", RewardStatus="Cancelled"))

    summary = walk(world, a_run(run_id="run-2"))

    assert world.record_ids() == [["R1", "R2"]], "it may have been sent: its id must not change"
    assert (summary["Waiting"], summary["Dispatched"]) == (1, 1)


def test_a_task_in_doubt_of_a_neighbour_is_taken_along_over_the_edge_and_never_repeated_by_it() -> None:
    world = World(booking("edge", "16:00:00Z"), booking("inner", "16:10:00Z"))
    world.faults.before("send", dead)
    with pytest.raises(Died):
        walk(world, a_run(run_id="later", window=window(16)))
    world.clock.advance(PAGE_LEASE_SECONDS + 1)

    walk(world, a_run(run_id="earlier"))
    summary = walk(world, a_run(run_id="later-2", window=window(16), page_size=1))

    assert world.record_ids() == [["edge", "inner"]]
    assert len(world.queues.sent) == 1, "the neighbour finished it"
    assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (0, 2)


def test_a_neighbour_s_task_in_doubt_is_sent_once_although_two_pages_meet_its_records_on_the_edge() -> None:
    world = World(booking("E1", "16:00:00.5Z"), booking("E2", "16:00:00Z"))
    world.faults.before("send", dead)
    with pytest.raises(Died):
        walk(world, a_run(run_id="later", window=window(16)))
    world.clock.advance(PAGE_LEASE_SECONDS + 1)

    summary = walk(world, a_run(run_id="earlier", page_size=1))

    assert len(world.queues.sent) == 1
    assert (summary["Dispatched"], summary["AlreadyDispatched"], summary["Tasks"]) == (1, 1, 1)


@pytest.mark.parametrize("path", WAYS)
def test_tasks_that_another_run_finished_are_not_sent_again_by_the_plan_that_held_them_first(path: Path) -> None:
    world = World(*five_groups())
    world.faults.before("send", dead)
    with pytest.raises(Died):
        walk(world, a_run(path=path))
    world.clock.advance(WINDOW_LEASE_SECONDS + 1)
    walk(world, a_run(run_id="run-2"))
    sent = list(world.queues.sent)

    resumed = world.attempt(world.begun(a_run(path=path)), others=Others(own=("run-2",)))

    assert world.queues.sent == sent
    assert (resumed.totals.dispatched, resumed.totals.already_dispatched, resumed.totals.tasks) == (0, 5, 0)


def test_a_finished_page_does_nothing_again_but_name_the_next_token() -> None:
    world = World(*five_groups())
    run = world.begun(a_run(page_size=2))
    first = world.attempt(run)
    before = list(world.queues.sent), world.faults.counted["query"], world.faults.counted["upload"]
    world.index.put(booking("new", "15:00:30Z"))

    again = world.attempt(run)

    assert again == first
    assert (world.queues.sent, world.faults.counted["query"], world.faults.counted["upload"]) == before


def test_the_same_page_writes_the_same_keys_and_bytes_whenever_and_by_whomever_it_is_done() -> None:
    worlds = World(*worked_example()), World(*reversed(worked_example()))
    worlds[1].clock.advance(9999)

    for number, world in enumerate(worlds):
        walk(world, a_run(run_id=f"run-{number}"))

    assert worlds[0].task_data.objects == worlds[1].task_data.objects
    assert worlds[0].queues.messages == worlds[1].queues.messages


# --- leases


def test_an_attempt_paused_between_two_batches_sends_nothing_more_once_another_took_over() -> None:
    world = World(*five_groups())
    world.queues.batch_size = 3
    run = world.begun(a_run())

    def successor() -> None:
        world.clock.advance(PAGE_LEASE_SECONDS)
        world.attempt(run)

    world.faults.after("send", successor)
    with pytest.raises(LeaseLost, match="the lease ends before another call could"):
        world.attempt(run)

    assert len(world.queues.sent) == 3 + 5
    assert world.queues.needless == []


@pytest.mark.parametrize("operation", ["read plan", "query", "upload"])
def test_an_attempt_that_was_superseded_before_its_plan_sends_nothing(operation: str) -> None:
    world = World(*five_groups())
    run = world.begun(a_run())
    progresses: list[Progress] = []
    world.faults.after(operation, lambda: progresses.append(world.attempt(run)), nth=1)

    with pytest.raises(LeaseLost, match="page 1 is no longer this attempt's to plan"):
        world.attempt(run)

    assert len(world.queues.sent) == 5
    assert progresses[0].totals.dispatched == 5


def test_an_attempt_that_was_superseded_after_its_sends_cannot_finish_the_page() -> None:
    world = World(*five_groups())
    run = world.begun(a_run())
    world.faults.after("send", lambda: world.ledger.renew(run))

    with pytest.raises(LeaseLost, match="page 1 is no longer this attempt's"):
        world.attempt(run)


def test_a_run_whose_window_was_taken_over_sends_nothing_more() -> None:
    world = World(*five_groups())
    run = world.begun(a_run())

    def other_run() -> None:
        world.clock.advance(PAGE_LEASE_SECONDS + 1)
        walk(world, a_run(run_id="run-2"))

    world.faults.after("query", other_run)
    with pytest.raises(LeaseLost):
        world.attempt(run)
    with pytest.raises(LeaseLost, match="no longer holds the edges"):
        world.attempt(run)

    assert len(world.queues.sent) == 5


@pytest.mark.parametrize(("left", "sent"), [(CALL_SECONDS, 0), (CALL_SECONDS + 1, 5)])
def test_a_call_is_begun_only_if_the_lease_outlasts_the_longest_call(left: int, sent: int) -> None:
    world = World(*five_groups())
    run = world.begun(a_run())
    world.faults.after("create plan", lambda: world.clock.advance(PAGE_LEASE_SECONDS - left))

    with nullcontext() if sent else pytest.raises(LeaseLost, match="the lease ends before another call could"):
        world.attempt(run, seconds=2 * PAGE_LEASE_SECONDS)

    assert len(world.queues.sent) == sent


def test_a_transient_error_ends_the_page_with_its_name() -> None:
    world = World(*five_groups())
    world.faults.before("query", throttled)

    with pytest.raises(TransientError, match="throttled"):
        walk(world, a_run())

    assert world.faults.counted["query"] == 1, "the machine tries again, not the use case"
    assert world.queues.sent == []
