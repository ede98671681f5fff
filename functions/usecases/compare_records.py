"""All sources of a reconcile, merged in one stream and compared, a share of the buckets a call."""

from itertools import chain
from typing import Final

from functions.domain.reconcile import Comparison, Loop, Piece, Reconcile, Step, share_from
from functions.domain.report import findings_key
from functions.domain.run import field_of
from functions.domain.staging import BUCKETS
from functions.usecases.pieces import Recorder

SHARE_LINES: Final = 1_000_000
"""So many are compared in a call: some seconds' work, which no attempt can leave half done."""


def compare_records(reconcile: Reconcile, loop: Loop, recorder: Recorder) -> Loop:
    """Compare the share of the buckets that begins where `loop` stands; the differences are staged as they are found.

    A share follows from what is staged alone, and so do its differences: a repeated call writes the same object.
    """
    return recorder.piece(reconcile, Step.COMPARED, loop, lambda: _compared(reconcile, loop, recorder)).following


def _compared(reconcile: Reconcile, loop: Loop, recorder: Recorder) -> Piece:
    first = 0 if loop.cursor is None else field_of(loop.cursor, "Bucket", int)
    objects = recorder.staged(reconcile, Step.BOOKINGS, Step.TABLE, Step.OBJECTS, Step.PLANS)
    share = share_from(first, objects, SHARE_LINES)
    comparison = Comparison(reconcile.overdue)
    findings = comparison.findings(recorder.staging.read(objects, share))
    some = next(findings, None)
    staged = recorder.staging.write(findings_key(reconcile, share), chain((some,), findings)) if some else None
    cursor = {"Bucket": share.stop} if share.stop < BUCKETS else None
    return Piece(loop.piece, cursor, comparison.counts, staged)
