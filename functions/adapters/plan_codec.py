"""A plan's tasks as the compressed body that the ledger stores beside the plan's row.

A task of many versions stands in the rows with the sizes of its blocks, which follow the rows in their own compression:
they are neither unpacked for writing nor for reading.
"""

import json
import zlib
from collections.abc import Collection, Sequence
from typing import Any

from functions.domain.booking import Group, RecordVersion, Route
from functions.domain.task import Task
from functions.domain.versions import BLOCK, PackedVersions
from functions.domain.window import Window


def encode(tasks: Sequence[Task]) -> bytes:
    """Equal tasks give equal bytes."""
    packed = [_packed(task.versions) if len(task.versions) > BLOCK else None for task in tasks]
    rows = [_row(task, versions) for task, versions in zip(tasks, packed, strict=True)]
    head = zlib.compress(json.dumps(rows, separators=(",", ":")).encode("ascii"))
    return b"".join((head, *(block for versions in packed if versions for block in versions.blocks)))


def decode(body: bytes) -> tuple[Task, ...]:
    """The inverse of `encode`; many versions come packed."""
    reader = zlib.decompressobj()
    rows = json.loads(reader.decompress(body))
    blocks = _Blocks(reader.unused_data)
    return tuple(
        Task(
            task_id,
            Route(route),
            Group(shop, member, engine),
            Window.starting(window),
            blocks.take(*versions)
            if isinstance(versions[0], int)
            else tuple(RecordVersion(*version) for version in versions),
        )
        for task_id, route, window, shop, member, engine, *versions in rows
    )


def _packed(versions: Collection[RecordVersion]) -> PackedVersions:
    return versions if isinstance(versions, PackedVersions) else PackedVersions.of(versions)


def _row(task: Task, packed: PackedVersions | None) -> list[Any]:
    """The versions themselves, or, of packed ones, how many they are and how long each block is."""
    stored = map(list, task.versions) if packed is None else (len(packed), *map(len, packed.blocks))
    return [task.task_id, task.route.value, task.window.start_text, *task.group, *stored]


class _Blocks:
    """The blocks behind the rows, taken one task after the other."""

    def __init__(self, content: bytes) -> None:
        self._content = memoryview(content)
        self._taken = 0

    def take(self, count: int, *sizes: int) -> PackedVersions:
        return PackedVersions(list(map(self._next, sizes)), count)

    def _next(self, size: int) -> bytes:
        self._taken += size
        return bytes(self._content[self._taken - size : self._taken])
