"""Packs: the bodies of all new tasks of a plan in one object, a line each, where the deployment is set to it.

Source: docs/contract.md, "Task".
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from functions.domain.task import Extent, NewTask, Task, object_pieces, tasks_prefix
from functions.domain.window import Window

HELD_BYTES: Final = 4 * 1024 * 1024
"""A page's pack is smaller as a rule; one of the full path may hold a group of any size."""

_DIGEST_CHARACTERS: Final = 64
_SUFFIX: Final = ".jsonl"
_LINE_FEED: Final = b"\n"


class Layout(StrEnum):
    """How the bodies of new tasks are laid out.  A task that was planned stays where its plan says that it lies."""

    OBJECT = "object"
    """An object for each task."""
    PACKED = "packed"
    """One for all new tasks of a plan, but for a task whose documents are too many to be held."""


@dataclass(frozen=True, slots=True)
class Pack:
    """One object that holds the bodies of several tasks."""

    key: str
    tasks: tuple[Task, ...]
    """In their order, each with its extent."""
    _content: Sequence[NewTask]
    _bucket: str
    _held: Sequence[bytes]
    """All its pieces, or none where they are too many."""

    @classmethod
    def of(cls, content: Sequence[NewTask], bucket: str) -> "Pack":
        """The pack of these tasks, one at least, of one window, whose documents can be read again.

        Its bytes are made here for their digests; of a large pack they are made again in `pieces`, so that no second
        copy of what is large is held.
        """
        whole, size = hashlib.sha256(), 0
        held: list[bytes] = []
        places: list[tuple[int, int, str]] = []
        for new in content:
            start, one = size, hashlib.sha256()
            for piece in object_pieces(new, bucket):
                one.update(piece)
                whole.update(piece)
                size += len(piece)
                if size <= HELD_BYTES:
                    held.append(piece)
            places.append((start, size - start, one.hexdigest()))
            whole.update(_LINE_FEED)
            size += len(_LINE_FEED)
            held.append(_LINE_FEED)
        if size > HELD_BYTES:
            held.clear()
        key = pack_key(content[0].task.window, whole.hexdigest())
        placed = (replace(new.task, extent=Extent(key, *place)) for new, place in zip(content, places, strict=True))
        return cls(key, tuple(placed), content, bucket, held)

    def pieces(self) -> Iterable[bytes]:
        """The object's bytes, piece by piece."""
        return self._held or self._remade()

    def _remade(self) -> Iterator[bytes]:
        for new in self._content:
            yield from object_pieces(new, self._bucket)
            yield _LINE_FEED


def pack_key(window: Window, digest: str) -> str:
    """Where the pack of these bytes lies (`digest` is their SHA-256): nobody can write other bytes there by mistake."""
    return f"{tasks_prefix(window)}{digest[:2]}/{digest}{_SUFFIX}"


def pack_digest(window: Window, key: str) -> str | None:
    """The digest that `pack_key` made this key of; None where it made it of none."""
    digest = key.removesuffix(_SUFFIX)[-_DIGEST_CHARACTERS:]
    return digest if key == pack_key(window, digest) else None
