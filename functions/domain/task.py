"""Grouping, order, ids, object keys and bodies of reward tasks.

Everything here derives from content: the same records give the same ids, keys and bytes, whoever composes them.
Source: docs/contract.md, "Group and order" and "Task".
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from functions.domain.booking import Booking, Group, Member, RecordVersion, Route
from functions.domain.values import quote
from functions.domain.versions import BLOCK, SortedTexts, VersionPacker, blocks_of, version_text
from functions.domain.window import Window

FEW: Final = 4
"""So many documents are held as text and as bytes at once; the largest is a record of 400 KB."""
JOB_NAMES: Final = {Route.POINT: "RewardPoint", Route.COUPON: "RewardCoupon"}


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes of a task's body within a pack, and their SHA-256."""

    key: str
    """The pack's, which derives from all of its bytes: what is read there later is what was written there first."""
    start: int
    length: int
    sha256: str

    @property
    def byte_range(self) -> str:
        """The bytes as an HTTP `Range` names them: by the first and the last."""
        return f"bytes={self.start}-{self.start + self.length - 1}"


@dataclass(frozen=True, slots=True)
class Task:
    """One reward task: the records of one group on one route, in the order they were composed."""

    task_id: str
    route: Route
    group: Group
    window: Window
    """The window whose run composed it; a neighbour's run may be the one that sends it."""
    versions: Collection[RecordVersion]
    extent: Extent | None = None
    """Where its body lies in a pack; None where it has an object of its own."""

    @property
    def members(self) -> Iterable[Member]:
        """Its records, as the ledger knows them."""
        return ((self.group, version) for version in self.versions)

    @property
    def object_key(self) -> str:
        """Where an object of its own lies: safe characters only, spread by the id's first byte."""
        return f"{tasks_prefix(self.window)}{self.task_id[:2]}/{self.task_id}.json"

    @property
    def key(self) -> str:
        """The key of the object that holds its body."""
        return self.extent.key if self.extent else self.object_key

    @property
    def message_group(self) -> str:
        """See `message_group`."""
        return message_group(self.group)


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task just composed, with the documents that its object will hold."""

    task: Task
    documents: Iterable[str]
    """In the order of the versions; no sequence where they are too many to be held, and are read as they are needed."""


@lru_cache(maxsize=8)  # a page asks for its hour's a thousand times
def tasks_prefix(window: Window) -> str:
    """Where the bodies of the window's tasks lie, in objects of their own and in packs."""
    return f"tasks/{window.start:%Y-%m-%d/%H}/"


def message_group(group: Group) -> str:
    """The FIFO message group: one for each member group, so its tasks are worked on in the order of sending."""
    return hashlib.sha256(group.text.encode("ascii")).hexdigest()


def task_id(route: Route, group: Group, versions: Iterable[RecordVersion]) -> str:
    """SHA-256 of the route, the group and the set of record versions, and of nothing else."""
    texts = sorted(map(version_text, versions))
    return _id_of(route, group, [texts] if len(texts) <= BLOCK else blocks_of(texts))


def _id_of(route: Route, group: Group, sorted_texts: Iterable[Sequence[str]]) -> str:
    """The same of the versions' texts, sorted; each block of them is held once more, as bytes."""
    digest = hashlib.sha256(f"[{quote(route)},{group.text},[".encode("ascii"))
    separator = ""
    for some in sorted_texts:
        digest.update((separator + ",".join(some)).encode("ascii"))
        separator = ","
    digest.update(b"]]")
    return digest.hexdigest()


def compose(bookings: Iterable[Booking], window: Window) -> list[NewTask]:
    """One task for each (group, route), its records by OrderTime (by instant), then by record key.

    The tasks come in the order in which their first record was read.
    """
    gathered: dict[tuple[Group, Route], list[Booking]] = {}
    for booking in bookings:
        gathered.setdefault((booking.group, booking.route), []).append(booking)
    return [_compose_one(group, route, members, window) for (group, route), members in gathered.items()]


def _compose_one(group: Group, route: Route, members: list[Booking], window: Window) -> NewTask:
    members.sort(key=lambda booking: (booking.order_time, booking.key_order))
    versions = tuple(booking.version for booking in members)
    task = Task(task_id(route, group, versions), route, group, window, versions)
    return NewTask(task, tuple(booking.document for booking in members))


def compose_streamed(
    bookings: Iterable[Booking], window: Window, documents: Callable[[Route], Iterable[str]]
) -> list[NewTask]:
    """As `compose`, of the bookings of one group that come in order and are too many to be held.

    `documents` gives those of a route in the same order, each time they are asked for.
    """
    packers: dict[Route, tuple[VersionPacker, SortedTexts]] = {}
    group = None
    for booking in bookings:
        group = booking.group
        if booking.route not in packers:
            packers[booking.route] = VersionPacker(), SortedTexts()
        versions, texts = packers[booking.route]
        versions.add(booking.version)
        texts.add(version_text(booking.version))
    if group is None:
        return []
    return [
        NewTask(Task(_id_of(route, group, blocks_of(texts)), route, group, window, versions.packed()), documents(route))
        for route, (versions, texts) in packers.items()
    ]


def object_body(new: NewTask, bucket: str) -> bytes:
    """The task's body: its header fields and `Orders`, ASCII-only JSON.

    It is the same in an object of its own and in a pack, so its `Key` is in both the one of its own.
    """
    return b"".join(object_pieces(new, bucket))


def object_pieces(new: NewTask, bucket: str) -> Iterator[bytes]:
    """The body in one piece where its documents are few, else piece by piece, so that few are held at once."""
    head, documents = f'{{{_header(new.task, bucket, _own_place(new.task))},"Orders":[', new.documents
    if isinstance(documents, Sequence) and len(documents) <= FEW:
        yield f"{head}{','.join(documents)}]}}".encode("ascii")
        return
    yield head.encode("ascii")
    separator = ""
    for some in documents:
        yield f"{separator}{some}".encode("ascii")
        separator = ","
    yield b"]}"


def message_body(task: Task, bucket: str) -> str:
    """The queue message: `JobName`, `TaskId`, and `Data` as a JSON string inside JSON; ASCII only."""
    data = quote(f"{{{_header(task, bucket, _place(task))}}}")
    return f'{{"JobName":{quote(JOB_NAMES[task.route])},"TaskId":{quote(task.task_id)},"Data":{data}}}'


def _own_place(task: Task) -> str:
    return f'"Key":{quote(task.object_key)}'


def _place(task: Task) -> str:
    extent = task.extent
    if extent is None:
        return _own_place(task)
    return (
        f'"Key":{quote(extent.key)},"Range":{{"Start":{extent.start},"Length":{extent.length}}},'
        f'"Sha256":{quote(extent.sha256)}'
    )


def _header(task: Task, bucket: str, place: str) -> str:
    return (
        f'"ShopId":{task.group.shop},"MemberId":{task.group.member},"PromotionEngineId":{task.group.engine},'
        f'{_hour(task.window)},"Bucket":{quote(bucket)},{place},"OrderCount":{len(task.versions)}'
    )


@lru_cache(maxsize=8)
def _hour(window: Window) -> str:
    return f'"WindowStart":{quote(window.start_text)},"WindowEnd":{quote(window.end_text)}'


def distinct_groups(tasks: Sequence[Task]) -> int:
    """How many groups the tasks belong to; a group with points and coupons is one group and two tasks."""
    return len({task.group for task in tasks})


def rounds(tasks: Iterable[Task]) -> list[list[Task]]:
    """Split the tasks so that no round holds two of one group and route, and each such two keep their order.

    Tasks of one round may be sent side by side; the rounds go one after the other.  Usually there is one.
    """
    seen: Counter[tuple[Route, Group]] = Counter()
    split: list[list[Task]] = []
    for task in tasks:
        place = seen[task.route, task.group]
        seen[task.route, task.group] += 1
        if place == len(split):
            split.append([])
        split[place].append(task)
    return split
