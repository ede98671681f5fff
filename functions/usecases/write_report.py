"""The end of a reconcile: its report in the bucket, and the machine's output."""

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from functions.domain.reconcile import Difference, Finding, Reconcile, Step
from functions.domain.report import (
    SAMPLES,
    differences_of,
    missing_key,
    outcome_of,
    report_key,
    report_of,
)
from functions.domain.staging import ALL_BUCKETS
from functions.usecases.pieces import Recorder
from functions.usecases.ports import Reports


def write_report(
    reconcile: Reconcile, stack: str, key_attributes: Sequence[str], recorder: Recorder, reports: Reports
) -> dict[str, Any]:
    """Write the report, before it the list of all that is missing in the ledger, and return the output.

    Both follow from what was recorded: a repeated call writes the same bytes.  The differences pass once, and nothing
    of them is held but the samples.
    """
    counts: Counter[str] = Counter()
    for step in Step:
        for piece in recorder.pieces.of(reconcile.execution_id, step):
            counts.update(piece.counts)
    objects = recorder.staged(reconcile, Step.COMPARED)
    sieve = _Sieve()
    listed = sieve.missing(recorder.staging.read(objects, ALL_BUCKETS))
    missing = None
    if counts[Difference.MISSING_IN_LEDGER]:
        reports.write(missing_key(reconcile), listed)
        missing = {
            "Key": missing_key(reconcile),
            "Sha256": sieve.digest.hexdigest(),
            "Count": counts[Difference.MISSING_IN_LEDGER],
        }
    deque(listed, maxlen=0)  # where nothing is missing the other differences have not passed yet
    report = report_of(
        reconcile, stack=stack, key_attributes=key_attributes, counts=counts, samples=sieve.samples, missing=missing
    )
    reports.write(report_key(reconcile), [json.dumps(report, indent=1).encode("ascii"), b"\n"])
    return {
        "Outcome": outcome_of(counts),
        "WindowStart": reconcile.window.start_text,
        "WindowEnd": reconcile.window.end_text,
        "Bookings": counts["Bookings"],
        "DispatchedRecords": counts["DispatchedRecords"],
        "Counts": differences_of(counts),
        "Report": {"Bucket": reports.bucket, "Key": report_key(reconcile)},
    }


@dataclass
class _Sieve:
    """Keeps the first differences of each class, and lets those pass as lines that the redo is to mend."""

    samples: dict[Difference, list[Finding]] = field(default_factory=dict)
    digest: Any = field(default_factory=hashlib.sha256)
    """Of the lines that have passed."""

    def missing(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The versions that are missing in the ledger, one a line."""
        for line in lines:
            finding = Finding.of_line(line)
            kept = self.samples.setdefault(finding.kind, [])
            if len(kept) < SAMPLES:
                kept.append(finding)
            if finding.kind is Difference.MISSING_IN_LEDGER:
                text = f"{finding.text}\n".encode("ascii")
                self.digest.update(text)
                yield text
