"""Record versions of tasks too large to hold them as objects, and the order in which a task's id takes them."""

import heapq
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

from functions.domain.booking import RecordVersion
from functions.domain.values import quote

BLOCK: Final = 1000
"""So many versions are compressed together."""
RUN_TEXTS: Final = 25 * BLOCK
"""So many texts are sorted at once; their sorted runs are merged."""
_FASTEST: Final = 1

_Element = TypeVar("_Element")


def version_text(version: RecordVersion) -> str:
    """A version as a task's id takes it: one line of JSON."""
    return f"[{version.key},{quote(version.date)},{quote(version.time)}]"


def first_and_last(versions: Iterable[RecordVersion]) -> tuple[str, str]:
    """The lowest and the highest moment of some versions, at least one; they are read once."""
    moments = (version.moment for version in versions)
    low = high = next(moments)
    for moment in moments:
        if moment < low:
            low = moment
        elif moment > high:
            high = moment
    return low, high


class PackedVersions(Collection[RecordVersion]):
    """Versions in their order, compressed block by block; equal to every collection of the same versions in order."""

    __slots__ = ("_count", "blocks")

    def __init__(self, blocks: Sequence[bytes], count: int) -> None:
        """Take blocks over that were packed before; all but the last are full."""
        self.blocks = tuple(blocks)
        self._count = count

    @classmethod
    def of(cls, versions: Iterable[RecordVersion]) -> "PackedVersions":
        """Pack these versions."""
        packer = VersionPacker()
        for version in versions:
            packer.add(version)
        return packer.packed()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[RecordVersion]:
        for block in self.blocks:
            yield from (RecordVersion(*version) for version in json.loads(zlib.decompress(block)))

    def __contains__(self, version: object) -> bool:
        return any(own == version for own in self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedVersions):
            return self.blocks == other.blocks
        if isinstance(other, Sequence):
            return len(self) == len(other) and all(own == theirs for own, theirs in zip(self, other, strict=True))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))


class VersionPacker:
    """Packs versions as they come, one block after the other."""

    def __init__(self) -> None:
        """Begin with no version."""
        self._blocks: list[bytes] = []
        self._open: list[RecordVersion] = []
        self._full = 0

    def add(self, version: RecordVersion) -> None:
        """Take the next one."""
        self._open.append(version)
        if len(self._open) == BLOCK:
            self._blocks.append(_packed(self._open))
            self._open = []
            self._full += BLOCK

    def packed(self) -> PackedVersions:
        """All that were added."""
        rest = [_packed(self._open)] if self._open else []
        return PackedVersions(self._blocks + rest, self._full + len(self._open))


def _packed(versions: list[RecordVersion]) -> bytes:
    return zlib.compress(json.dumps(versions, separators=(",", ":")).encode("ascii"))


class SortedTexts(Iterable[str]):
    """Texts without line breaks, given in any order and read sorted; compressed, but for those given last."""

    def __init__(self) -> None:
        """Begin with no text."""
        self._runs: list[list[bytes]] = []
        self._open: list[str] = []

    def add(self, text: str) -> None:
        """Take one more."""
        self._open.append(text)
        if len(self._open) == RUN_TEXTS:
            self._open.sort()
            self._runs.append([zlib.compress("\n".join(some).encode(), _FASTEST) for some in blocks_of(self._open)])
            self._open = []

    def __iter__(self) -> Iterator[str]:
        return heapq.merge(sorted(self._open), *map(_unpacked, self._runs))


def _unpacked(run: list[bytes]) -> Iterator[str]:
    for block in run:
        yield from zlib.decompress(block).decode().split("\n")


def blocks_of(elements: Iterable[_Element]) -> Iterator[list[_Element]]:
    """The elements in lists of BLOCK, the last of what is left."""
    remaining = iter(elements)
    while block := list(islice(remaining, BLOCK)):
        yield block
