"""One piece of a reconcile's step: done once, and recorded with the object that holds its lines."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from functions.domain.reconcile import Loop, Piece, Reconcile, Step
from functions.domain.report import staging_prefix
from functions.domain.run import State
from functions.domain.staging import StagedObject, content_of
from functions.domain.versions import SortedTexts
from functions.usecases.ports import Pieces, Staging

PIECE_LINES: Final = 20_000
"""A call closes its piece at so many lines: a few megabytes, and an hour of a million bookings has fifty."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a call has read: its lines, in any order."""

    lines: "Lines"
    counts: Mapping[str, int]
    cursor: State | None
    """Where the next call goes on; None at the end."""


class Lines:
    """Lines as they are gathered; a giant task's are compressed, for its plan comes whole."""

    def __init__(self) -> None:
        """Begin with none."""
        self.count = 0
        self._texts = SortedTexts()

    @property
    def are_enough(self) -> bool:
        """Whether the piece is to be closed."""
        return self.count >= PIECE_LINES

    def add(self, lines: Iterable[str]) -> None:
        """Take some more."""
        for line in lines:
            self._texts.add(line)
            self.count += 1

    def sorted(self) -> Iterable[bytes]:
        """All of them, each with its line feed."""
        return (f"{line}\n".encode("ascii") for line in self._texts)


@dataclass(frozen=True, slots=True)
class Recorder:
    """Where the pieces of a reconcile are kept."""

    pieces: Pieces
    staging: Staging

    def once(self, reconcile: Reconcile, step: Step, loop: Loop, read: Callable[[], Read]) -> Loop:
        """Do the piece that `loop` names, and return how far the step is behind it.

        A piece that is recorded is not read again.  Its object is named for its content, and recorded when it is
        there: one that a superseded attempt wrote beside it is never read.
        """
        return self.piece(reconcile, step, loop, lambda: self._staged(reconcile, step, loop, read())).following

    def piece(self, reconcile: Reconcile, step: Step, loop: Loop, do: Callable[[], Piece]) -> Piece:
        """The piece as it is recorded, or as it is done now."""
        recorded = self.pieces.find(reconcile.execution_id, step, loop.piece)
        return recorded or self.pieces.record(reconcile.execution_id, step, do())

    def staged(self, reconcile: Reconcile, *steps: Step) -> list[StagedObject]:
        """The objects of all pieces of these steps."""
        pieces = (piece for step in steps for piece in self.pieces.of(reconcile.execution_id, step))
        return [piece.staged for piece in pieces if piece.staged]

    def _staged(self, reconcile: Reconcile, step: Step, loop: Loop, read: Read) -> Piece:
        staged = None
        if read.lines.count:
            key = f"{staging_prefix(reconcile)}/{step}-{loop.piece:06}-{content_of(read.lines.sorted())}"
            staged = self.staging.write(key, read.lines.sorted())
        return Piece(loop.piece, read.cursor, read.counts, staged)
