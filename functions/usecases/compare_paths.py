"""The tasks that the full, the paged and the grouped path would create of one reading of the window, compared.

No ledger is asked, no plan is made, no task is written or sent: the report is all that is left of it.
It holds the hour, as the full path does.
"""

import json
from collections.abc import Iterator
from itertools import chain, groupby
from typing import Any

from functions.domain.booking import Booking
from functions.domain.compare import Sketch, parts_of, sketched
from functions.domain.compare_report import Verdict, compare_key, report_of
from functions.domain.page import sort_out
from functions.domain.run import Counts, Run
from functions.domain.staging import group_of, read_line, staged_line
from functions.usecases.ports import BookingIndex, Reports
from functions.usecases.reading import pages_of


def compare_paths(run: Run, stack: str, index: BookingIndex, reports: Reports) -> dict[str, Any]:
    """Read the window once, page by page, write the report of the comparison and return the output.

    Raises:
        TokenNotAdvancing, InvalidToken, ConfigurationError, TransientError: as named.
    """
    read = Counts()
    pages: list[list[Booking]] = []
    for bookings, counts in _read(run, index):
        read += counts
        pages.append(bookings)
    window, bucket = run.window, reports.bucket
    full = parts_of(sketched(chain.from_iterable(pages), window, bucket))
    paged = parts_of(sketch for page in pages for sketch in sketched(page, window, bucket))
    grouped = parts_of(_grouped(run, pages, bucket))
    verdict = Verdict.of(run, read, full, paged, grouped)
    report = report_of(verdict, stack, index.key_attributes)
    reports.write(compare_key(run), [json.dumps(report, indent=1).encode("ascii"), b"\n"])
    return {
        "Outcome": verdict.outcome,
        "WindowStart": window.start_text,
        "WindowEnd": window.end_text,
        **verdict.paths,
        "Gate": verdict.gate,
        "Report": {"Bucket": bucket, "Key": compare_key(run)},
    }


def _read(run: Run, index: BookingIndex) -> Iterator[tuple[list[Booking], Counts]]:
    """Every page of every lane: what of it can be dispatched, and what it counts."""
    for page in pages_of(run, index):
        bookings, bad = sort_out(page.items, index.key_attributes, index.date_attribute)
        yield (
            bookings,
            Counts(pages=1, evaluated=page.evaluated_count, waiting=len(bookings) + len(bad), set_aside=len(bad)),
        )


def _grouped(run: Run, pages: list[list[Booking]], bucket: str) -> Iterator[Sketch]:
    """What a grouped run does of its staged pages; a page is let go once it is in lines, so that none is held twice."""
    lines: list[bytes] = []
    while pages:
        lines += map(staged_line, pages.pop())
    lines.sort()
    for _, group in groupby(lines, group_of):
        yield from sketched(map(read_line, group), run.window, bucket)
