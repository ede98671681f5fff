"""A plan's tasks as the compressed body that the ledger stores beside the plan's row.

An id is most of what a small task would take, and follows from the rest: it is stored only where it does not, or where
that is too much to compute.  A task of many versions stands in the rows with the sizes of its blocks, which follow the
rows in their own compression: they are neither unpacked for writing nor for reading.  Before them come the digests of
those tasks that lie in packs, for what is random cannot be compressed.
"""

import json
import zlib
from collections.abc import Collection, Sequence
from typing import Any, Final

from functions.domain.booking import Group, RecordVersion, Route
from functions.domain.errors import ConfigurationError
from functions.domain.task import Extent, Task, task_id
from functions.domain.versions import BLOCK, PackedVersions
from functions.domain.window import Window

_CUT_OFF: Final = "read plans: the body of a plan's tasks is cut off"
_DIGEST_BYTES: Final = 32
_FIELDS: Final = 6
"""What stands in a row before its extent: id, route, window and group."""


def encode(tasks: Sequence[Task]) -> bytes:
    """Equal tasks give equal bytes."""
    packed = [_packed(task.versions) if len(task.versions) > BLOCK else None for task in tasks]
    extents = [task.extent for task in tasks if task.extent]
    packs = {key: place for place, key in enumerate(dict.fromkeys(extent.key for extent in extents))}
    behind: dict[str, int] = {}
    rows = [_row(task, versions, packs, behind) for task, versions in zip(tasks, packed, strict=True)]
    head = zlib.compress(json.dumps({"Packs": [*packs], "Rows": rows}, separators=(",", ":")).encode("ascii"))
    digests = (bytes.fromhex(extent.sha256) for extent in extents)
    return b"".join((head, *digests, *(block for versions in packed if versions for block in versions.blocks)))


def decode(body: bytes) -> tuple[Task, ...]:
    """The inverse of `encode`; many versions come packed.  A body that was written before there were packs is read too.

    That one is the rows alone, each with its id and without an extent.

    Raises:
        ConfigurationError: it is cut off, which only another's hand can do.
    """
    reader = zlib.decompressobj()
    rows_text = reader.decompress(body)
    if not reader.eof:
        raise ConfigurationError(_CUT_OFF)
    stored = json.loads(rows_text)
    packs, rows = (
        ([], [[*row[:_FIELDS], None, *row[_FIELDS:]] for row in stored])
        if isinstance(stored, list)
        else (stored["Packs"], stored["Rows"])
    )
    raw = _Raw(reader.unused_data)
    extents = _extents(packs, [row[_FIELDS] for row in rows], raw)
    return tuple(_task(row, extent, raw) for row, extent in zip(rows, extents, strict=True))


def _packed(versions: Collection[RecordVersion]) -> PackedVersions:
    return versions if isinstance(versions, PackedVersions) else PackedVersions.of(versions)


def _row(task: Task, packed: PackedVersions | None, packs: dict[str, int], behind: dict[str, int]) -> list[Any]:
    """The versions themselves, or, of packed ones, how many they are and how long each block is.

    `behind` says where in each pack the task before ended, which is where this one begins as a rule.
    """
    follows = packed is None and task.task_id == task_id(task.route, task.group, task.versions)
    place = None
    if task.extent:
        key, start, length = task.extent.key, task.extent.start, task.extent.length
        place = [packs[key], start - behind.get(key, 0), length]
        behind[key] = start + length
    stored = map(list, task.versions) if packed is None else (len(packed), *map(len, packed.blocks))
    known = None if follows else task.task_id
    return [known, task.route.value, task.window.start_text, *task.group, place, *stored]


def _extents(packs: Sequence[str], places: Sequence[Any], raw: "_Raw") -> list[Extent | None]:
    behind = [0] * len(packs)
    extents: list[Extent | None] = []
    for place in places:
        if place is None:
            extents.append(None)
            continue
        pack, gap, length = place
        start = behind[pack] + gap
        behind[pack] = start + length
        extents.append(Extent(packs[pack], start, length, raw.take(_DIGEST_BYTES).hex()))
    return extents


def _task(row: Sequence[Any], extent: Extent | None, raw: "_Raw") -> Task:
    known, route, window, shop, member, engine, _, *stored = row
    versions: Collection[RecordVersion]
    if isinstance(stored[0], int):
        count, *sizes = stored
        versions = PackedVersions([raw.take(size) for size in sizes], count)
    else:
        versions = tuple(RecordVersion(*version) for version in stored)
    name, group = Route(route), Group(shop, member, engine)
    return Task(known or task_id(name, group, versions), name, group, Window.starting(window), versions, extent)


class _Raw:
    """What stands behind the rows, taken from its beginning."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)
        self._taken = 0

    def take(self, size: int) -> bytes:
        taken = bytes(self._content[self._taken : self._taken + size])
        if len(taken) < size:
            raise ConfigurationError(_CUT_OFF)
        self._taken += size
        return taken
