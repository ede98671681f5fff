"""What leases and plans cost: runs of generated hours in this process, each call of the ledger counted and weighed.

    echo '{"Hour": "quiet", "Bookings": 10000, ...}' | python -m benchmarks.priced_ledger

It reads the environment of a dispatching function, and its task as a JSON object: `Hour`, `Bookings`, `PageSize`, and
an empty `Directory`.  The last line that it prints is a JSON object: for each run that is measured, see `Usage`.  The
hours:

- `quiet`: a first run, whose neighbours had none, and `again`: another run of the same hour, which has nothing left;
- `busy`: half of the bookings lie at the sharp hour that this window begins with, and half at the one that it ends
  with; the window before had a run, which dispatched the first half.

As in `benchmarks.stored_hour`, all is real but what lies below botocore; the ledger is a file of SQLite.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path as FilePath
from typing import Any, Final

from benchmarks.dispatched_hour import SERVICES, WINDOW, context_of, evenly, member_of_page, page_answer, run_on
from benchmarks.stored_hour import READ_UNIT, Hour, StoredAws, item_size
from functions.adapters.clients import client
from functions.domain.budget import PAGE_FUNCTION_SECONDS
from functions.domain.run import Others, Path, Progress
from functions.domain.window import Window
from functions.handlers import dispatch_page, wiring

OF_LEDGER: Final = frozenset({"BatchGetItem", "DeleteItem", "GetItem", "PutItem", "TransactWriteItems", "UpdateItem"})
"""The operations that only leases and plans use; of queries it is those without an index."""
QUIET: Final = "quiet"
AGAIN: Final = "again"
BUSY: Final = "busy"


@dataclass(slots=True)
class Usage:
    """What one run used."""

    pages: int = 0
    evaluated: int = 0
    tasks: int = 0
    ledger_calls: Counter[str] = field(default_factory=Counter)
    ledger_bytes: int = 0
    """Of requests and answers, as they go over the network."""
    write_units: int = 0
    ledger_read_units: float = 0
    read_units: float = 0
    """The ledger's and the index's."""
    calls: Counter[str] = field(default_factory=Counter)
    """All, by operation."""

    def to_json(self) -> dict[str, Any]:
        """By the fields' names."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


class PricedAws(StoredAws):
    """AWS's answers, with the ledger's part of the calls apart; a task's content is let go."""

    def __init__(self, bookings: int, directory: FilePath, *, at_edges: bool) -> None:
        super().__init__(Hour(bookings, 1, spread=False), directory)
        self.usage = Usage()
        self._half = bookings // 2
        self._time_of = self._edge_of if at_edges else evenly(bookings)

    def respond(self, operation: str, request: Any) -> tuple[bytes, Mapping[str, str]]:
        """See `GeneratedAws.respond`."""
        content, headers = super().respond(operation, request)
        self.usage.calls[operation] += 1
        if operation in OF_LEDGER or (operation == "Query" and b'"IndexName"' not in request.body):
            self.usage.ledger_calls[operation] += 1
            self.usage.ledger_bytes += len(request.body) + len(content)
        return content, headers

    def take(self) -> Usage:
        """What was used since this was last asked."""
        usage, self.usage = self.usage, Usage()
        usage.write_units, self.write_units = self.write_units, 0
        usage.read_units, self.read_units = self.read_units, 0
        return usage

    def _count_read(self, size: int) -> None:
        self.usage.ledger_read_units += max(1, -(-size // READ_UNIT))
        super()._count_read(size)

    def _query(self, request: dict[str, Any]) -> bytes:
        if "IndexName" not in request:
            return super()._query(request)
        before = request["ExpressionAttributeValues"][":low"]["S"] == WINDOW.previous.low
        start_key = request.get("ExclusiveStartKey")
        start = int(start_key["RecordId"]["S"]) + 1 if start_key else 0
        left = range(start, self._half if before else self._hour.bookings)
        draw = random.Random(start)  # noqa: S311 -- test data: the same page must be the same each time
        answer = page_answer(left, request["Limit"], self._time_of, draw, _member_of)
        with self._lock:
            self.read_units += max(1, -(-len(left[: request["Limit"]]) * 450 // READ_UNIT)) / 2
        return answer

    def _edge_of(self, number: int) -> str:
        """The first half stands at this window's start, which the window before reads too; the rest at its end."""
        return "15:00:00Z" if number < self._half else "16:00:00Z"

    def lease(self, request: dict[str, Any]) -> bytes:
        """Of edges and fence what `GeneratedAws.lease` says; of plans their tasks."""
        ((table, wanted),) = request["RequestItems"].items()
        if not wanted["Keys"][0]["Pk"]["S"].startswith("plan#"):
            return super().lease(request)
        found = [json.loads(content) for key in wanted["Keys"] if (content := self._ledger.item(key))]
        for item in found:
            self._count_read(item_size(item))
        return json.dumps({"Responses": {table: found}}).encode()

    def _put_object(self, _: Any) -> tuple[bytes, Mapping[str, str]]:
        return b"", {}


def _member_of(number: int) -> int:
    """Whose booking it is, on whatever page it is read."""
    return member_of_page(number, random.Random(number))  # noqa: S311 -- test data


def dispatch(aws: PricedAws, run_id: str, page_size: int, window: Window, others: Others) -> Usage:
    """Dispatch an hour page after page, and say what that used.

    Raises:
        RuntimeError: not every booking was dispatched, by this run or by one before.
    """
    run = replace(run_on(Path.PAGED), run_id=run_id, execution_id=run_id, window=window, page_size=page_size)
    progress = Progress().to_state()
    aws.take()
    while progress["HasMore"]:
        event = {"Run": run.to_state(), "Others": others.to_state(), "Progress": progress}
        progress = json.loads(json.dumps(dispatch_page.handler(event, context_of(PAGE_FUNCTION_SECONDS))))
    totals = progress["Totals"]
    if totals["Evaluated"] != totals["Dispatched"] + totals["AlreadyDispatched"]:
        raise RuntimeError(f"{run_id}: {totals}")
    usage = aws.take()
    usage.pages, usage.evaluated, usage.tasks = (totals[name] for name in ("Pages", "Evaluated", "Tasks"))
    return usage


def runs(task: Mapping[str, Any]) -> dict[str, Usage]:
    """What each run that the task's hour is for used."""
    aws = PricedAws(task["Bookings"], FilePath(task["Directory"]), at_edges=task["Hour"] == BUSY)
    for service in SERVICES:
        client(service).meta.events.register("before-send", aws.answer)
    wiring.dispatch()
    size = task["PageSize"]
    if task["Hour"] == BUSY:
        dispatch(aws, "before", size, WINDOW.previous, Others())
        return {BUSY: dispatch(aws, "first", size, WINDOW, Others(before=("before",)))}
    return {
        QUIET: dispatch(aws, "first", size, WINDOW, Others()),
        AGAIN: dispatch(aws, "second", size, WINDOW, Others(own=("first",))),
    }


if __name__ == "__main__":
    print(json.dumps({name: usage.to_json() for name, usage in runs(json.load(sys.stdin)).items()}))
