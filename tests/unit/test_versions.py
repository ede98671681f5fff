import hashlib
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.adapters.plan_codec import decode, encode
from functions.domain import versions
from functions.domain.booking import Booking, Group, RecordVersion, Route
from functions.domain.task import (
    NewTask,
    Task,
    compose,
    compose_streamed,
    message_body,
    object_body,
    object_pieces,
    task_id,
)
from functions.domain.versions import BLOCK, PackedVersions, SortedTexts, VersionPacker, first_and_last
from functions.domain.window import Instant
from tests.unit.fakes import window

GROUP = Group("1001", "2001", "3001")
SIZES = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 5]


def some_versions(count: int) -> tuple[RecordVersion, ...]:
    return tuple(
        RecordVersion(f'{{"RecordId":"R{n * 7919 % 10_007}"}}', "2026-09-17", "15:10:00Z") for n in range(count)
    )


def task_of(members: Iterable[RecordVersion], route: Route = Route.POINT) -> Task:
    found = tuple(members)
    return Task(task_id(route, GROUP, found), route, GROUP, window(), found)


def packed(task: Task) -> Task:
    return Task(task.task_id, task.route, task.group, task.window, PackedVersions.of(task.versions))


@pytest.mark.parametrize("count", SIZES)
def test_packed_versions_are_the_versions_in_their_order_as_often_as_they_are_read(count: int) -> None:
    members = some_versions(count)

    together = PackedVersions.of(iter(members))

    assert len(together) == count
    assert tuple(together) == members
    assert tuple(together) == members, "they can be read once only"


@pytest.mark.parametrize("count", SIZES)
def test_packed_versions_equal_those_that_are_not_and_only_in_their_order(count: int) -> None:
    members = some_versions(count)
    together = PackedVersions.of(members)

    assert together == members
    assert members == together
    assert hash(together) == hash(members)
    assert together == PackedVersions.of(members)
    assert together != PackedVersions.of((*members, *some_versions(1)))
    assert together != members[1:] or not members
    assert (together == members[::-1]) is (count < 2)
    assert together != "no versions"
    assert all(version in together for version in members[:3])
    assert RecordVersion("{}", "", "") not in together


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)], ids=str)
def test_the_first_and_the_last_moment_are_found_wherever_they_stand(order: tuple[int, ...]) -> None:
    members = [RecordVersion("{}", f"2026-09-1{place}", f"0{9 - place}:00:00Z") for place in order]

    assert first_and_last(iter(members)) == ("2026-09-10T09:00:00Z", "2026-09-12T07:00:00Z")
    assert first_and_last(members[:1]) == (members[0].moment, members[0].moment)


def test_a_packer_can_be_read_in_between() -> None:
    packer = VersionPacker()
    members = some_versions(BLOCK + 2)
    for version in members[:-1]:
        packer.add(version)
    before = packer.packed()
    packer.add(members[-1])

    assert before == members[:-1]
    assert packer.packed() == members


@given(st.lists(st.text("ab\t\\é", max_size=4), max_size=60), st.integers(1, 9))
def test_texts_are_read_sorted_however_they_were_given(texts: list[str], at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "RUN_TEXTS", at_once)
        gathered = SortedTexts()
        for text in texts:
            gathered.add(text)

        assert list(gathered) == sorted(texts)
        assert list(gathered) == sorted(texts), "they can be read once only"


@pytest.mark.parametrize("count", [1, 2, BLOCK + 1, 2 * BLOCK])
def test_a_task_id_is_the_hash_of_its_sorted_versions_however_many_they_are(count: int) -> None:
    members = some_versions(count)
    texts = sorted(f'[{version.key},"{version.date}","{version.time}"]' for version in members)
    text = f'["Point",[1001,2001,3001],[{",".join(texts)}]]'

    assert task_of(members).task_id == hashlib.sha256(text.encode()).hexdigest()


def a_booking(place: int, route: Route) -> Booking:
    key = f"R{place:05}"
    version = RecordVersion(f'{{"RecordId":"{key}"}}', "2026-09-17", f"15:{59 - place % 60:02}:00Z")
    return Booking(GROUP, route, Instant(place // 3, 0), (key,), version, f'{{"RecordId":"{key}"}}')


@given(st.lists(st.sampled_from(Route), max_size=40), st.integers(1, 50))
def test_a_group_that_is_streamed_gives_the_tasks_of_one_that_is_held(routes: list[Route], at_once: int) -> None:
    bookings = [a_booking(place, route) for place, route in enumerate(routes)]

    def documents(of: Route) -> Iterable[str]:
        return (booking.document for booking in bookings if booking.route is of)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "RUN_TEXTS", at_once)
        streamed = compose_streamed(iter(bookings), window(), documents)

    held = compose(bookings, window())
    assert [new.task for new in streamed] == [new.task for new in held]
    assert [object_body(new, "bucket") for new in streamed] == [object_body(new, "bucket") for new in held]
    assert [message_body(new.task, "bucket") for new in streamed] == [message_body(new.task, "bucket") for new in held]


def test_an_objects_pieces_are_made_one_by_one() -> None:
    taken: list[int] = []

    def documents() -> Iterable[str]:
        for place in range(3):
            taken.append(place)
            yield f'{{"RecordId":"R{place}"}}'

    pieces = object_pieces(NewTask(task_of(some_versions(3)), documents()), "bucket")

    assert b'"OrderCount":3,"Orders":[' in next(pieces)
    assert taken == []
    assert next(pieces) == b'{"RecordId":"R0"}'
    assert taken == [0]
    assert b"".join(pieces) == b',{"RecordId":"R1"},{"RecordId":"R2"}]}'


@pytest.mark.parametrize(
    "sizes",
    [[], [1], [2, 1, BLOCK], [BLOCK + 1], [1, 3 * BLOCK, 2, BLOCK + 1], [BLOCK + 1, 2 * BLOCK, 1]],
    ids=str,
)
def test_a_plans_tasks_are_stored_and_read_back_however_large_they_are(sizes: list[int]) -> None:
    tasks = [task_of(some_versions(size), route) for size, route in zip(sizes, [*Route] * 3, strict=False)]

    body = encode(tasks)

    assert decode(body) == tuple(tasks)
    assert encode(decode(body)) == body
    assert encode([packed(task) for task in tasks]) == body, "equal tasks give other bytes"
    kinds = [type(task.versions) for task in decode(body)]
    assert kinds == [PackedVersions if size > BLOCK else tuple for size in sizes]


def test_a_giant_task_is_stored_and_read_without_its_versions_as_objects() -> None:
    task = packed(task_of(some_versions(60 * BLOCK)))
    encode([task])

    tracemalloc.start()
    (read,) = decode(encode([task]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert read == task
    assert peak < 2_500_000, "the versions alone, as objects, take seven times as much"
