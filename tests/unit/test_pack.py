"""Packs: one object for all new tasks of a plan, and nothing else is different."""

import hashlib
import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.adapters import plan_codec
from functions.domain import pack as pack_module
from functions.domain.budget import PAGE_LEASE_SECONDS
from functions.domain.errors import ConfigurationError
from functions.domain.pack import Layout, Pack, pack_digest, pack_key
from functions.domain.run import Path
from functions.domain.task import FEW, NewTask, message_body, object_body
from functions.domain.versions import BLOCK, PackedVersions
from functions.usecases import merge_bucket
from functions.worker.ports import Message
from tests.unit.fakes import BUCKET, DAY, Died, FakeSandbox, World, a_run, booking, dead, walk, window, worked_example
from tests.unit.test_every_path import Case, cases, world_of
from tests.unit.test_task import composed
from tests.unit.test_worker import altered, dispatched, must_be_refused

WAYS: Final = [(Path.PAGED, 2), (Path.PAGED, 1000), (Path.FULL, 3), (Path.GROUPED, 2)]


@pytest.fixture(autouse=True)
def packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "layout", Layout.PACKED)


def several() -> list[NewTask]:
    """Three groups, one of them with points and coupons, and one with what is no ASCII."""
    return composed(
        *worked_example(), booking("C", MemberId="\u00e9\u4e8c", RewardType="ECoupon"), booking("P", Note="\n\u2028")
    )


# --- the pack itself


def test_a_pack_s_lines_are_the_bodies_and_each_task_knows_its_own() -> None:
    new = several()
    pack = Pack.of(new, BUCKET)
    content = b"".join(pack.pieces())

    assert content.splitlines(keepends=True) == [object_body(one, BUCKET) + b"\n" for one in new]
    assert content.isascii()
    for task, one in zip(pack.tasks, new, strict=True):
        extent = task.extent
        assert extent is not None
        body = content[extent.start : extent.start + extent.length]
        first, last = map(int, extent.byte_range.removeprefix("bytes=").split("-"))
        assert body == content[first : last + 1] == object_body(one, BUCKET)
        assert (extent.key, extent.sha256) == (pack.key, hashlib.sha256(body).hexdigest())
        assert replace(task, extent=None) == one.task


def test_a_pack_s_key_is_made_of_its_bytes_its_window_and_nothing_else() -> None:
    new = several()
    digest = hashlib.sha256(b"".join(Pack.of(new, BUCKET).pieces())).hexdigest()

    assert Pack.of(new, BUCKET).key == Pack.of(several(), BUCKET).key == f"tasks/{DAY}/15/{digest[:2]}/{digest}.jsonl"
    others = (new[::-1], new[1:], composed(booking("R1", Note="a")), composed(booking("R1", Note="b")))
    assert len({Pack.of(other, BUCKET).key for other in (new, *others)}) == 5


def test_a_large_pack_is_made_twice_and_held_never(monkeypatch: pytest.MonkeyPatch) -> None:
    """No document is asked for before it is needed, but where there are few."""
    monkeypatch.setattr(pack_module, "HELD_BYTES", 100)
    many = range(FEW + 1)
    asked: list[int] = []

    class Documents(tuple[str, ...]):
        __slots__ = ()

        def __len__(self) -> int:
            return len(many)

        def __iter__(self) -> Any:
            for place in many:
                asked.append(place)
                yield "{}"

    (new,) = composed(booking("R1"))
    pack = Pack.of([replace(new, documents=Documents())], BUCKET)
    assert asked == [*many]
    pieces = iter(pack.pieces())
    next(pieces)
    next(pieces)
    assert asked == [*many, 0]


@pytest.mark.parametrize("held", [0, 700, 1_000_000], ids=["nothing", "the first", "all"])
def test_its_bytes_are_the_same_whether_they_are_held_or_made_again(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(pack_module, "HELD_BYTES", held)
    pack = Pack.of(several(), BUCKET)

    content = b"".join(pack.pieces())
    assert content == b"".join(object_body(one, BUCKET) + b"\n" for one in several())
    assert pack_digest(window(), pack.key) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    "key",
    [
        f"tasks/{DAY}/15/ab/{'ab' * 32}.json",
        f"tasks/{DAY}/15/cd/{'ab' * 32}.jsonl",
        f"tasks/{DAY}/14/ab/{'ab' * 32}.jsonl",
        f"tasks/{DAY}/15/ab/{'ab' * 32}.jsonl.bak",
        f"tasks/{DAY}/15/ab/{'ab' * 31}.jsonl",
        "",
    ],
)
def test_another_key_is_no_pack_s(key: str) -> None:
    assert pack_digest(window(), pack_key(window(), "ab" * 32)) == "ab" * 32
    assert pack_digest(window(), key) is None


# --- message and plan


def test_the_message_adds_range_and_digest_and_names_the_pack() -> None:
    new = several()
    for task, one in zip(Pack.of(new, BUCKET).tasks, new, strict=True):
        alone, message = json.loads(message_body(one.task, BUCKET)), json.loads(message_body(task, BUCKET))
        extent = task.extent
        assert extent is not None
        data = json.loads(message.pop("Data"))
        place = {
            "Key": extent.key,
            "Range": {"Start": extent.start, "Length": extent.length},
            "Sha256": extent.sha256,
        }
        assert data == json.loads(alone.pop("Data")) | place
        assert message == alone
        assert message_body(task, BUCKET).isascii()


def test_a_plan_keeps_where_its_tasks_lie_in_packs_and_alone() -> None:
    first, second = Pack.of(several(), BUCKET), Pack.of(composed(booking("X", MemberId=5)), BUCKET)
    tasks = (*first.tasks, *(new.task for new in composed(booking("Y", MemberId=6))), *second.tasks)

    assert plan_codec.decode(plan_codec.encode(tasks)) == tasks
    assert plan_codec.encode(tasks) == plan_codec.encode(plan_codec.decode(plan_codec.encode(tasks)))
    assert [message_body(task, BUCKET) for task in plan_codec.decode(plan_codec.encode(tasks))] == [
        message_body(task, BUCKET) for task in tasks
    ]


@pytest.mark.parametrize("left", [0, 1, 10, -65, -33, -32, -1])
def test_a_plan_s_body_that_is_cut_off_is_refused_and_never_read_as_other_tasks(left: int) -> None:
    body = plan_codec.encode(Pack.of(several(), BUCKET).tasks)
    with pytest.raises(ConfigurationError, match="cut off"):
        plan_codec.decode(body[:left])


def test_a_plan_that_was_written_before_there_were_packs_is_read() -> None:
    """Its rows alone, each with its id: of a task of few versions, and of one whose versions are packed behind them."""
    small, large = (new.task for new in composed(booking("R1"), *many(BLOCK + 1)))
    packed = PackedVersions.of(large.versions)
    head = [[one.task_id, "Point", f"{DAY}T15:00:00Z", "1001", one.group.member, "3001"] for one in (small, large)]
    rows = [[*head[0], *map(list, small.versions)], [*head[1], len(packed), *map(len, packed.blocks)]]

    first, second = plan_codec.decode(zlib.compress(json.dumps(rows).encode()) + b"".join(packed.blocks))

    assert first == small
    assert (second.task_id, [*second.versions], second.extent) == (large.task_id, [*large.versions], None)


def many(count: int) -> list[Any]:
    return [booking(f"M{n}", f"15:{n // 60 % 60:02}:{n % 60:02}Z", MemberId=77) for n in range(count)]


def test_an_id_that_does_not_follow_from_the_task_is_kept() -> None:
    (new,) = composed(booking("R1"))
    odd = replace(new.task, task_id="d" * 64)

    assert plan_codec.decode(plan_codec.encode([odd, new.task])) == (odd, new.task)


def test_a_plan_takes_a_digest_for_each_task_of_a_pack_and_no_id() -> None:
    new = composed(*(booking(f"R{n}", MemberId=n) for n in range(500)))
    alone, in_pack = plan_codec.encode([one.task for one in new]), plan_codec.encode(Pack.of(new, BUCKET).tasks)

    assert len(alone) < 500 * 20
    assert len(in_pack) < len(alone) + 500 * (32 + 4)


# --- the same tasks, whatever the layout


@settings(max_examples=40)
@given(cases(), st.sampled_from(WAYS), st.sampled_from([0, merge_bucket.GIANT_BYTES]))
def test_the_layout_changes_where_bodies_lie_and_nothing_else(
    made: list[Case], how: tuple[Path, int], giant: int
) -> None:
    path, page_size = how
    worlds: dict[Layout, World] = {}
    summaries = []
    for layout in Layout:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(World, "layout", layout)
            patch.setattr(merge_bucket, "GIANT_BYTES", giant)
            worlds[layout] = world_of(made)
            summaries.append(walk(worlds[layout], worlds[layout].begun(a_run(path=path, page_size=page_size))))
    alone, in_packs = worlds[Layout.OBJECT], worlds[Layout.PACKED]

    assert summaries[0] == summaries[1]
    assert alone.queues.sent == in_packs.queues.sent
    assert alone.delivered == in_packs.delivered
    assert alone.task_data.bodies == in_packs.task_data.bodies
    assert all(json.loads(body)["Key"] == key for key, body in alone.task_data.objects.items())
    streamed = path is Path.GROUPED and not giant
    with_new = [plan for _, plan in in_packs.ledger.stored.values() if plan.tasks]
    assert all((task.extent is None) is streamed for plan in with_new for task in plan.tasks)
    assert len(in_packs.task_data.objects) == len(alone.task_data.objects if streamed else with_new)


def test_a_group_too_large_to_be_held_keeps_an_object_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_bucket, "GIANT_BYTES", 2000)
    large = [booking(f"G{n}", f"15:{n:02}:00Z", MemberId=9) for n in range(20)]
    world = World(*large, booking("A", MemberId=1), booking("B", MemberId=2))

    walk(world, world.begun(a_run(path=Path.GROUPED)))

    alone = [key for key in world.task_data.objects if key.endswith(".json")]
    assert len(alone) == 1
    assert [message.data["OrderCount"] for message in world.queues.messages if "Range" not in message.data] == [20]
    assert [message.data["OrderCount"] for message in world.queues.messages if "Range" in message.data] == [1, 1]
    assert json.loads(world.task_data.objects[alone[0]])["OrderCount"] == 20


def test_a_task_carried_along_goes_out_with_the_very_message_that_its_first_run_would_have_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a run after the setting was changed back, which lays out its own new tasks otherwise."""
    world = World(booking("R1"), booking("R2", MemberId=2002))
    world.faults.before("send", dead)
    with pytest.raises(Died):
        walk(world, world.begun(a_run()))
    ((_, plan),) = world.ledger.stored.values()
    monkeypatch.setattr(world.task_data, "layout", Layout.OBJECT)
    world.index.put(booking("R3", MemberId=2003))
    world.clock.advance(PAGE_LEASE_SECONDS + 1)

    walk(world, a_run(run_id="run-2"))

    bodies = [message.body for message in world.queues.messages]
    assert bodies[:2] == [message_body(task, BUCKET) for task in plan.tasks]
    assert all("Range" in json.loads(json.loads(body)["Data"]) for body in bodies[:2])
    assert ["Range" in json.loads(json.loads(body)["Data"]) for body in bodies[2:]] == [False]
    world.must_be_dispatched_once()


def test_an_upload_that_comes_late_changes_nothing_that_a_plan_points_at() -> None:
    """A superseded attempt read a booking as it was before, and writes what it composed when all is decided."""
    world = World(booking("R1", Note="before"))
    late = composed(booking("R1", Note="before"))
    world.index.put(booking("R1", Note="after"))
    walk(world, world.begun(a_run()))
    (message,) = world.queues.messages
    read = world.body(message)

    with world.task_data.uploading(late, lambda: None):
        pass

    assert b"after" in read
    assert world.body(message) == read
    assert hashlib.sha256(world.body(message)).hexdigest() == message.data["Sha256"]


# --- what the worker makes of it


def another_tasks(sandbox: FakeSandbox, message: Message) -> Message:
    other = next(one.data for one in sandbox.world.queues.messages if one.body != message.body)
    return altered(message, Range=other["Range"], Sha256=other["Sha256"])


def of_another_hour(sandbox: FakeSandbox, message: Message) -> Message:
    data = json.loads(json.loads(message.body)["Data"])
    key = data["Key"].replace(f"{DAY}/15", f"{DAY}/14")
    sandbox.world.task_data.objects[key] = sandbox.world.task_data.objects[data["Key"]]
    return altered(message, Key=key)


def without(message: Message, *names: str) -> Message:
    body = json.loads(message.body)
    data = {field: value for field, value in json.loads(body["Data"]).items() if field not in names}
    return message._replace(body=json.dumps({**body, "Data": json.dumps(data)}))


OTHER_BYTES: Final = "Data.Sha256: not that of the object's bytes"
WRONG_PLACES: Final[dict[str, tuple[Callable[[FakeSandbox, Message], Message], str]]] = {
    "a byte later": (lambda _, one: altered(one, Range={"Start": 1, "Length": 300}), OTHER_BYTES),
    "another digest": (lambda _, one: altered(one, Sha256="0" * 64), OTHER_BYTES),
    "beyond the end": (
        lambda _, one: altered(one, Range={"Start": 0, "Length": 1_000_000}),
        "Data.Range: the object ends before it does",
    ),
    "no bytes": (
        lambda _, one: altered(one, Range={"Start": 0, "Length": 0}),
        "Data.Range.Length: greater_than_equal",
    ),
    "a range without a digest": (lambda _, one: without(one, "Sha256"), "Data.Sha256: missing"),
    "a digest without a range": (lambda _, one: without(one, "Range"), "Data.Range: missing"),
    "neither": (lambda _, one: without(one, "Range", "Sha256"), "object: no JSON"),
    "another task's bytes": (another_tasks, "object.MemberId: not that of the message"),
    "a pack of another hour": (of_another_hour, "Data.Key: no pack of the window"),
}


@pytest.mark.parametrize(("change", "reason"), WRONG_PLACES.values(), ids=WRONG_PLACES)
def test_a_task_of_a_pack_that_names_other_bytes_grants_nothing(
    world: World, change: Callable[[FakeSandbox, Message], Message], reason: str
) -> None:
    sandbox = FakeSandbox(world)
    message, _ = dispatched(sandbox, booking("R1"), booking("R2", MemberId=2002))

    must_be_refused(sandbox, change(sandbox, message), reason)
