from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.booking import Route
from functions.domain.run import Path
from tests.unit.fakes import DAY, Record, World, a_run, booking, walk, window

pytestmark = pytest.mark.usefixtures("either_layout")

TIMES: Final = {
    "14:30:00Z": {14},
    "14:59:59.9999999Z": {14},
    "15:00:00.5Z": {14, 15},
    "15:00:00Z": {14, 15},
    "15:10:00Z": {15},
    "15:10:00.25Z": {15},
    "15:59:59Z": {15},
    "16:00:00Z": {15, 16},
    "16:00:00.0000001Z": {15, 16},
    "16:00:01Z": {16},
}
"""Booking times, and the windows whose query reads them."""

ORDER_TIMES: Final = {
    f"{DAY}T23:00:00+09:00": 0,
    f"{DAY}T14:00:00Z": 0,
    f"{DAY}T14:00:00.000000001Z": 1,
    f"{DAY}T14:00:00.09Z": 2,
    f"{DAY}T14:00:00.1z": 3,
    f"{DAY}T09:00:01-05:00": 4,
}
"""Order times, and their place among each other."""

NOT_WAITING: Final[list[dict[str, Any]]] = [
    {"RewardStatus": "Rewarded"},
    {"RewardStatus": None},
    {"RewardStatus": {"N": "1"}},
]
BAD: Final[list[dict[str, Any]]] = [
    {"ShopId": None},
    {"MemberId": ""},
    {"RewardType": "voucher"},
    {"OrderTime": "noon"},
    {"OrderTime": None},
]
PATHS: Final = [(Path.PAGED, 1), (Path.PAGED, 2), (Path.PAGED, 3), (Path.PAGED, 7), (Path.PAGED, 1000), (Path.FULL, 3)]


FATES: Final[st.SearchStrategy[tuple[dict[str, Any], str]]] = st.one_of(
    st.just(({}, "good")),
    st.just(({}, "good")),
    st.sampled_from(NOT_WAITING).map(lambda flaw: (flaw, "not waiting")),
    st.sampled_from(BAD).map(lambda flaw: (flaw, "bad")),
)


class Case(NamedTuple):
    """A booking, and what must become of it."""

    record: Record
    hours: set[int]
    fate: str


@st.composite
def cases(draw: st.DrawFn) -> list[Case]:
    """Bookings in which equal times, equal groups and edges are frequent."""
    made: list[Case] = []
    for number in range(draw(st.integers(0, 12))):
        time = draw(st.sampled_from(list(TIMES)))
        flaw, fate = draw(FATES)
        attributes: dict[str, Any] = {
            "ShopId": draw(st.sampled_from([1, "1"])),
            "MemberId": draw(st.sampled_from([1, 2, "1", "\u00e9", "e\u0301"])),
            "RewardType": draw(st.sampled_from(["Point", "ECoupon"])),
            "OrderTime": draw(st.sampled_from(list(ORDER_TIMES))),
            **flaw,
        }
        made.append(Case(booking(f"R{number:02}", time, **attributes), TIMES[time], fate))
    return made


def world_of(made: list[Case]) -> World:
    return World(*(case.record for case in made))


def ids(made: list[Case], fate: str, *hours: int) -> list[str]:
    return sorted(case.record["RecordId"]["S"] for case in made if case.fate == fate and case.hours & set(hours))


def dispatched(world: World) -> list[str]:
    return sorted(record_id for record_ids in world.record_ids() for record_id in record_ids)


@settings(max_examples=60)
@given(cases())
def test_every_path_and_page_size_dispatches_the_same_records_each_exactly_once(made: list[Case]) -> None:
    read = sum(15 in case.hours for case in made)
    good, bad = ids(made, "good", 15), ids(made, "bad", 15)

    for path, page_size in PATHS:
        world = world_of(made)
        summary = walk(world, a_run(path=path, page_size=page_size))

        assert dispatched(world) == good
        assert len(world.queues.sent) == len(set(world.queues.sent)) == summary["Tasks"]
        assert (summary["Pages"], summary["Evaluated"]) == (read // page_size + 1, read)
        assert (summary["Dispatched"], summary["AlreadyDispatched"]) == (len(good), 0)
        assert (summary["SetAside"], summary["Waiting"]) == (len(bad), len(good) + len(bad))
        assert summary["Groups"] <= summary["Tasks"] <= len(good)
        set_aside = [record for records in world.task_data.bad_records.values() for record in records]
        assert sorted(record.item["RecordId"]["S"] for record in set_aside) == bad


@settings(max_examples=60)
@given(cases(), st.sampled_from(PATHS))
def test_every_task_holds_one_group_of_one_route_in_the_order_of_order_times(
    made: list[Case], how: tuple[Path, int]
) -> None:
    world = world_of(made)
    path, page_size = how

    summary = walk(world, a_run(path=path, page_size=page_size))

    members: list[str] = []
    for message in world.queues.messages:
        orders = world.orders(message)
        members.append(repr([message.data[name] for name in ("ShopId", "MemberId", "PromotionEngineId")]))
        assert {order["RewardType"] for order in orders} == {message.route.value}
        assert message.task["JobName"] == {Route.POINT: "RewardPoint", Route.COUPON: "RewardCoupon"}[message.route]
        for name in ("ShopId", "MemberId", "PromotionEngineId"):
            assert {repr(order[name]) for order in orders} == {repr(message.data[name])}
        places = [(ORDER_TIMES[order["OrderTime"]], order["RecordId"]) for order in orders]
        assert places == sorted(places)
        assert message.data["OrderCount"] == len(orders)
    if path is Path.FULL or page_size == 1000:
        assert summary["Groups"] == len(set(members))
        assert len({*zip(members, (message.route for message in world.queues.messages), strict=True)}) == len(members)


@settings(max_examples=40)
@given(cases())
def test_the_full_path_s_tasks_do_not_depend_on_the_page_size(made: list[Case]) -> None:
    worlds = [world_of(made) for _ in range(4)]

    for world, page_size in zip(worlds, (1, 2, 3, 1000), strict=True):
        walk(world, a_run(path=Path.FULL, page_size=page_size))

    assert all(world.queues.messages == worlds[0].queues.messages for world in worlds)
    assert all(world.task_data.objects == worlds[0].task_data.objects for world in worlds)


@settings(max_examples=60)
@given(cases(), st.permutations([14, 15, 16]), st.lists(st.sampled_from(PATHS), min_size=6, max_size=6))
def test_neighbouring_windows_in_any_order_and_twice_dispatch_each_record_once(
    made: list[Case], hours: list[int], how: list[tuple[Path, int]]
) -> None:
    world = world_of(made)
    waiting = {hour: len(ids(made, "good", hour)) for hour in hours}
    summaries = [
        (hour, walk(world, a_run(run_id=f"run-{turn}", window=window(hour), path=path, page_size=page_size)))
        for turn, (hour, (path, page_size)) in enumerate(zip([*hours, *hours], how, strict=True))
    ]

    assert dispatched(world) == ids(made, "good", *hours)
    assert len(world.queues.sent) == len(set(world.queues.sent))
    assert sum(summary["Dispatched"] for _, summary in summaries) == len(dispatched(world))
    for hour, summary in summaries:
        assert summary["Dispatched"] + summary["AlreadyDispatched"] == waiting[hour]
    assert all(summary["Tasks"] == summary["Dispatched"] == 0 for _, summary in summaries[3:])


@settings(max_examples=60)
@given(cases(), st.sampled_from(PATHS))
def test_a_dry_run_counts_what_the_run_then_does(made: list[Case], how: tuple[Path, int]) -> None:
    world = world_of(made)
    path, page_size = how

    dry = walk(world, a_run(run_id="dry", path=path, page_size=page_size, dry_run=True))

    assert dry | {"Outcome": "Dispatched", "RunId": "run-1"} == walk(world, a_run(path=path, page_size=page_size))


@pytest.mark.parametrize(("path", "page_size"), PATHS)
def test_thirty_orders_of_one_group_are_dispatched_whole(path: Path, page_size: int) -> None:
    world = World(*(booking(f"R{n:02}", f"15:{n:02}:00Z") for n in range(30)))

    summary = walk(world, a_run(path=path, page_size=page_size))

    assert dispatched(world) == [f"R{n:02}" for n in range(30)]
    assert summary["Tasks"] == (1 if path is Path.FULL else -(-30 // page_size))
    assert len({message.group for message in world.queues.messages}) == 1
