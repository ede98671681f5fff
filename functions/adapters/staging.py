"""Staged records in the task-data bucket: written in a stream, read by ranges of bytes, merged line by line."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.adapters.clients import translated
from functions.adapters.multipart import ObjectWriter
from functions.adapters.pool import THREADS, each
from functions.domain.staging import StagedIndex, StagedObject

READ_BYTES: Final = 16 * 1024 * 1024
"""So much is held of all objects that are merged, whatever their size."""
MIN_PIECE_BYTES: Final = 16 * 1024
MAX_PIECE_BYTES: Final = 1024 * 1024
_KEYS_A_BATCH: Final = 1000


@dataclass(frozen=True, slots=True)
class S3Staging:
    """`Staging` on an S3 bucket."""

    client: Any
    bucket: str

    def write(self, key: str, lines: Iterable[bytes]) -> StagedObject:
        """See `Staging.write`."""
        index = StagedIndex()
        ObjectWriter(self.client, self.bucket, key, "text/tab-separated-values").write(index.noting(lines))
        return index.of(key)

    def read(self, objects: Sequence[StagedObject], buckets: range) -> Iterator[bytes]:
        """See `Staging.read`; an object that has nothing in these buckets costs no call.

        Not from a thread of the pool: the pool reads the pieces.
        """
        sources = _Sources(self, [(staged.key, extent) for staged in objects if (extent := staged.extent(buckets))])
        return sources.merged()

    def delete(self, keys: Iterable[str]) -> None:
        """See `Staging.delete`.

        Raises:
            DispatcherError: an object could not be deleted; those of its batch that could are.
        """
        remaining = iter(keys)
        while batch := list(islice(remaining, _KEYS_A_BATCH)):
            wanted = {"Objects": [{"Key": key} for key in batch], "Quiet": True}
            with translated("DeleteObjects"):
                answer = self.client.delete_objects(Bucket=self.bucket, Delete=wanted)
                for error in answer.get("Errors", ()):
                    raise ClientError({"Error": error, "ResponseMetadata": answer["ResponseMetadata"]}, "DeleteObjects")

    def get(self, key: str, extent: range) -> bytes:
        """These bytes of the object."""
        with translated("GetObject"):
            wanted = f"bytes={extent.start}-{extent.stop - 1}"
            content: bytes = self.client.get_object(Bucket=self.bucket, Key=key, Range=wanted)["Body"].read()
        return content


@dataclass(slots=True)
class _Source:
    """The lines of one object that lie in a range of its bytes, and what of them is held."""

    key: str
    left: range
    held: bytes = b""
    at: int = 0
    """What is held was read up to here."""
    fetched: bytes = b""

    @property
    def unread(self) -> int:
        return len(self.held) - self.at

    def take_over(self) -> None:
        """Hold what was fetched behind what is unread."""
        self.held = b"".join((self.held[self.at :], self.fetched))  # a copy, also where nothing is unread
        self.at, self.fetched = 0, b""


class _Sources:
    """The sources of a merge.

    They are read at about the same pace.  So when one has run dry, all that are half read are filled up with it, side
    by side: one after the other, the calls would take longer than the work.
    """

    def __init__(self, staging: S3Staging, extents: Sequence[tuple[str, range]]) -> None:
        self._staging = staging
        self._sources = [_Source(key, extent) for key, extent in extents]
        self._piece = min(max(READ_BYTES // max(1, len(extents)), MIN_PIECE_BYTES), MAX_PIECE_BYTES)

    def merged(self) -> Iterator[bytes]:
        """All lines in order."""
        self._fill(self._sources)
        return heapq.merge(*map(self._lines, self._sources))

    def _lines(self, source: _Source) -> Iterator[bytes]:
        while True:
            end = source.held.find(b"\n", source.at) + 1
            if end:
                start, source.at = source.at, end
                yield source.held[start:end]
            elif source.left:
                half = self._piece // 2
                self._fill([one for one in self._sources if one is source or (one.left and one.unread <= half)])
            else:
                return

    def _fill(self, sources: Sequence[_Source]) -> None:
        """Hold more of these sources.

        What a thread has allocated counts against its own arena of memory, and is never given back.  So a few pieces
        are fetched at a time, and held in copies of the calling thread.
        """
        for start in range(0, len(sources), THREADS):
            batch = sources[start : start + THREADS]
            each(self._fetch, batch)
            for source in batch:
                source.take_over()

    def _fetch(self, source: _Source) -> None:
        """Fill the source up to a piece, or fetch half a piece more where its line is that long."""
        size = max(self._piece - source.unread, self._piece // 2)
        wanted, source.left = source.left[:size], source.left[size:]
        source.fetched = self._staging.get(source.key, wanted)
