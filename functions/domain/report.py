"""A reconcile's report: what was compared, what differs, and a checksum by which an altered one is known.

Source: docs/contract.md, "Reconcile".
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from functions.domain.reconcile import Difference, Finding, Reconcile

SAMPLES: Final = 100
"""Of each class; a report stays readable, and no list of a whole hour."""
CHECKSUM: Final = "Sha256"
CLEAN: Final = "Clean"
DIFFERENCES: Final = "Differences"

_COVERED: Final = (
    "Every record that the query of the window returns, in every shard.",
    "The keys of the window's date that no window's query returns.",
    "Every task in a plan of a run of this window, and of the hours around it where its records reach into this one.",
    "Every object under the window's prefix.",
)
_AUDITED: Final = "Every item of the table: whether it waits without the index's key attributes, whatever its hour."
_NOT_AUDITED: Final = "Records without the index's key attributes: no query returns them, and no audit was asked for."
_NOT_COVERED: Final = (
    "Records in a partition of another name: no query comes there.",
    "Attributes other than the group and the reward type: a task holds them as they were.",
    "What consumers did with a task.",
)


def report_key(reconcile: Reconcile) -> str:
    """Where the report lies."""
    return f"{_beginning(reconcile)}.json"


def missing_key(reconcile: Reconcile) -> str:
    """Where every version that is missing in the ledger is listed, one JSON array `[key, date, time]` a line."""
    return f"{_beginning(reconcile)}-missing.jsonl"


def findings_key(reconcile: Reconcile, share: range) -> str:
    """Where the differences of a share of the buckets are staged: the same lines, whoever compares them."""
    return f"{staging_prefix(reconcile)}/compared-{share.start:03}-{share.stop:03}"


def staging_prefix(reconcile: Reconcile) -> str:
    """Where a reconcile keeps its lines until it has compared them."""
    return f"staging/{reconcile.window.start:%Y-%m-%d/%H}/reconcile/{reconcile.execution_id}"


def _beginning(reconcile: Reconcile) -> str:
    return f"reports/{reconcile.window.start:%Y-%m-%d/%H}/{reconcile.execution_id}"


def sealed(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report with its checksum."""
    return {**report, CHECKSUM: checksum_of(report)}


def checksum_of(report: Mapping[str, Any]) -> str:
    """SHA-256 of the report as JSON, but for its checksum: ASCII, names sorted, without blanks."""
    content = {name: value for name, value in report.items() if name != CHECKSUM}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


def sample_of(finding: Finding) -> dict[str, Any]:
    """A difference as a person reads it: the record's key, date and time, or the object's key; nothing else of it."""
    if finding.text.startswith("["):
        return record_of(finding.text)
    return {"Object": json.loads(finding.text)}


def record_of(version: str) -> dict[str, Any]:
    """A record version, which is `[key, date, time]` in JSON, as a person reads it; a record without one is `[key]`.

    A key with a fraction is written as text, so that no digit is lost in reading.
    """
    parts = json.loads(version, parse_float=str)
    return dict(zip(("Key", "BookingDateUTC", "BookingTimeUTC"), parts, strict=False))


def report_of(  # noqa: PLR0913 -- the parts of a report, by name
    reconcile: Reconcile,
    *,
    stack: str,
    key_attributes: Sequence[str],
    counts: Mapping[str, int],
    samples: Mapping[Difference, Sequence[Finding]],
    missing: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The whole report, sealed.  `counts` are those of all pieces together, `missing` the list of missing versions."""
    differences = differences_of(counts)
    covered, not_covered = list(_COVERED), list(_NOT_COVERED)
    if reconcile.audit_table:
        covered.append(_AUDITED)
    else:
        not_covered.append(_NOT_AUDITED)
    if counts.get("OpenRuns"):
        not_covered.append(f"What {counts['OpenRuns']} run(s) of this window did since, which have not ended.")
    return sealed(
        {
            "Stack": stack,
            "ExecutionId": reconcile.execution_id,
            "TakenAt": reconcile.taken_at,
            "WindowStart": reconcile.window.start_text,
            "WindowEnd": reconcile.window.end_text,
            "RecordVersion": [*key_attributes, "BookingDateUTC", "BookingTimeUTC"],
            "Sources": {
                "Bookings": {name: counts.get(name, 0) for name in ("Bookings", "Waiting", "SetAside")},
                "Table": {"Audited": reconcile.audit_table, "Scanned": counts.get("Scanned", 0)},
                "Ledger": {
                    name: counts.get(name, 0) for name in ("Runs", "OpenRuns", "Plans", "Tasks", "DispatchedRecords")
                },
                "TaskData": {"Objects": counts.get("Objects", 0)},
            },
            "Outcome": outcome_of(counts),
            "Counts": differences,
            "Samples": {kind.value: [sample_of(finding) for finding in samples.get(kind, ())] for kind in Difference},
            "Missing": missing,
            "Covered": covered,
            "NotCovered": not_covered,
            "Settings": {
                "Shards": reconcile.shards,
                "StillWaitingHours": reconcile.still_waiting_hours,
                "SamplesOfEachClass": SAMPLES,
            },
        }
    )


def differences_of(counts: Mapping[str, int]) -> dict[str, int]:
    """The count of each class, by its name."""
    found = {kind.value: counts.get(kind, 0) for kind in Difference}
    return {**found, Difference.MISSING_HOUR.value: 0 if counts.get("Runs") else 1}


def outcome_of(counts: Mapping[str, int]) -> str:
    """Whether anything differs."""
    return DIFFERENCES if any(differences_of(counts).values()) else CLEAN
