"""Objects written to S3 in a stream: one call for a small body, a multipart upload for a large one."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Final

from functions.adapters.clients import translated
from functions.domain.errors import DispatcherError, TransientError

PART_BYTES: Final = 8 * 1024 * 1024
"""So much of a body is held at a time; S3's 10,000 parts of this size are 80 GB."""


def at_once() -> None:
    """Stop nothing: for calls that no attempt watches over."""


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Writes one object from pieces of its body; `before_each` is called before each call and stops it by raising."""

    client: Any
    bucket: str
    key: str
    content_type: str
    before_each: Callable[[], None] = at_once

    def write(self, pieces: Iterable[bytes]) -> None:
        """Write the object; until this returns there is none, or the one that was there before."""
        parts = _parts(pieces)
        first = next(parts)
        if len(first) < PART_BYTES:
            self._put(first)
            return
        upload = {"Bucket": self.bucket, "Key": self.key, "UploadId": self._begun()}
        remaining = chain((first,), parts)
        del first  # a part is let go as soon as it is uploaded
        try:
            etags = list(map(self._uploader(upload), count(1), remaining))
            self._complete(upload, etags)
        except BaseException:
            with suppress(DispatcherError), translated("AbortMultipartUpload"):
                self.client.abort_multipart_upload(**upload)
            raise

    def _put(self, body: bytes) -> None:
        self.before_each()
        with translated("PutObject"):
            self.client.put_object(Bucket=self.bucket, Key=self.key, Body=body, ContentType=self.content_type)

    def _begun(self) -> str:
        self.before_each()
        with translated("CreateMultipartUpload"):
            begun = self.client.create_multipart_upload(Bucket=self.bucket, Key=self.key, ContentType=self.content_type)
        upload_id: str = begun["UploadId"]
        return upload_id

    def _uploader(self, upload: dict[str, str]) -> Callable[[int, bytes], str]:
        def upload_part(number: int, body: bytes) -> str:
            self.before_each()
            with translated("UploadPart"):
                etag: str = self.client.upload_part(**upload, PartNumber=number, Body=body)["ETag"]
            return etag

        return upload_part

    def _complete(self, upload: dict[str, str], etags: list[str]) -> None:
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, start=1)]
        self.before_each()
        with translated("CompleteMultipartUpload"):
            try:
                self.client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
            except self.client.exceptions.NoSuchUpload:  # completed, and the answer was lost; or somebody ended it
                raise TransientError("CompleteMultipartUpload: the upload is gone") from None


def _parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The body in parts of at least PART_BYTES, and then one of what is left, if any; an empty body is one part."""
    gathered: list[bytes] = []
    size = 0
    empty = True
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= PART_BYTES:
            full = b"".join(gathered)
            gathered, size, empty = [], 0, False
            yield full
            del full
    if gathered or empty:
        yield b"".join(gathered)
