"""A step of a reconcile, at work in this process on an hour that lies in files, so that the next step goes on with it.

    echo '{"Step": "bookings", "Bookings": 100000, "Directory": "/tmp/hour"}' | python -m benchmarks.reconciled_hour

The step `hour` is none: it writes the plans of an hour whose every booking was dispatched, as the ledger keeps them,
and the keys of its tasks' objects.  Every other step is done from its first piece to its last.  The last line that is
printed is a JSON object, see `work`.  What is real is said in `benchmarks.stored_hour`.
"""

import json
import os
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from benchmarks.dispatched_hour import PAGE_SIZE, SERVICES, WINDOW, context_of, evenly, page_answer, peak_rss, run_on
from benchmarks.stored_hour import Hour, StoredAws
from functions.adapters.clients import client
from functions.domain.budget import PAGE_FUNCTION_SECONDS
from functions.domain.page import sort_out
from functions.domain.plan import Plan
from functions.domain.reconcile import Loop, Reconcile, Step
from functions.domain.run import Counts, Path
from functions.domain.task import compose, tasks_prefix
from functions.handlers import compare_records, read_bookings, read_objects, read_plans, wiring, write_report
from functions.usecases.ports import Lease

HOUR: Final = "hour"
REPORT: Final = "report"
GROUP_SIZE: Final = 5
HANDLERS: Final = {
    Step.BOOKINGS: read_bookings.handler,
    Step.OBJECTS: read_objects.handler,
    Step.PLANS: read_plans.handler,
    Step.COMPARED: compare_records.handler,
}
RECONCILE: Final = Reconcile("20260917T163000Z-benchmark", "2026-09-17T16:30:00Z", WINDOW, 0, 24)
_KEY_BYTES: Final = len(tasks_prefix(WINDOW)) + len("aa/") + 64 + len(".json\n")
_KEYS_AN_ANSWER: Final = 1000


def work(task: Mapping[str, Any]) -> dict[str, Any]:
    """Do the task's step to its end; say what that took.

    `Answer` is the last handler's; the others are as in `benchmarks.stored_hour.work`.
    """
    aws = ReconciledAws(int(task["Bookings"]), FilePath(task["Directory"]))
    for service in SERVICES:
        client(service).meta.events.register("before-send", aws.answer)
    wiring.recorder()
    base, begun = peak_rss(), time.process_time()
    event: dict[str, Any] = {"Reconcile": RECONCILE.to_state(), "Loop": Loop().to_state()}
    context, answer, invocations = context_of(PAGE_FUNCTION_SECONDS), {}, 0
    if task["Step"] == HOUR:
        aws.dispatch()
    elif task["Step"] == REPORT:
        answer, invocations = write_report.handler(event, context), 1
    else:
        while event["Loop"]["HasMore"]:
            event["Loop"] = json.loads(json.dumps(HANDLERS[Step(task["Step"])](event, context)))
            invocations += 1
    return {
        "Answer": answer,
        "BaseBytes": base,
        "PeakBytes": peak_rss(),
        "Cpu": time.process_time() - begun - aws.cpu,
        "Invocations": invocations,
        "Calls": aws.calls,
        "WriteUnits": aws.write_units,
        "ReadUnits": aws.read_units,
    }


class ReconciledAws(StoredAws):
    """AWS's answers for an hour that was dispatched page by page, each member's bookings side by side."""

    def __init__(self, bookings: int, directory: FilePath) -> None:
        hour = Hour(bookings, GROUP_SIZE, spread=False)
        super().__init__(hour, directory)
        self._keys = directory / "keys"
        self._number = bookings

    def dispatch(self) -> None:
        """Write a plan for each page, finished, and the keys of its tasks' objects."""
        run, ledger = run_on(Path.PAGED), wiring.ledger()
        lease = Lease(run, "attempt", 0)
        keys: list[str] = []
        for page, start in enumerate(range(0, self._number, PAGE_SIZE), start=1):
            left = range(start, min(start + PAGE_SIZE, self._number))
            draw = random.Random(start)  # noqa: S311 -- test data: as `StoredAws` answers the page
            answer = json.loads(page_answer(left, PAGE_SIZE, evenly(self._number), draw, self._hour.member))
            bookings, _ = sort_out(answer["Items"], ("RecordId",), "BookingDateUTC")
            tasks = tuple(new.task for new in compose(bookings, WINDOW))
            plan = Plan(page, tasks, None, Counts(pages=1, tasks=len(tasks)))
            ledger.draft_plan(lease, plan)()
            ledger.finish_plan(lease, plan)
            keys += (task.object_key for task in tasks)
        self._keys.write_text("".join(f"{key}\n" for key in sorted(keys)), "ascii")

    def respond(self, operation: str, request: Any) -> tuple[bytes, Mapping[str, str]]:
        """See `GeneratedAws.respond`."""
        if operation not in ("PutItem", "ListObjectsV2"):
            return super().respond(operation, request)
        begun = time.thread_time()
        if operation == "PutItem":
            self._ledger.keep([json.loads(request.body)["Item"]])
            answer = b"{}"
        else:
            answer = self._list(parse_qs(urlsplit(request.url).query))
        self.count_call(operation, time.thread_time() - begun)
        return answer, {}

    def lease(self, request: dict[str, Any]) -> bytes:
        """The items that are asked for: tasks of plans."""
        ((table, wanted),) = request["RequestItems"].items()
        found = filter(None, map(self._ledger.item, wanted["Keys"]))
        return f'{{"Responses":{{"{table}":[{",".join(found)}]}}}}'.encode()

    def _query(self, request: dict[str, Any]) -> bytes:
        values = request["ExpressionAttributeValues"]
        if ":low" in values and "IndexName" in request and values[":low"]["S"] != WINDOW.low:
            return b'{"Items":[],"Count":0,"ScannedCount":0}'
        return super()._query(request)

    def _query_ledger(self, request: dict[str, Any]) -> bytes:
        """The window's one run, or rows of plans: all of them have tasks, and no other window has any."""
        partition = request["ExpressionAttributeValues"][":pk"]["S"]
        if partition.startswith("window#"):
            run = {"StartedAt": "S", "Path": "S", "Outcome": "S", "PageSize": "N", "Slices": "N", "Shards": "N"}
            row = {"Sk": {"S": f"run#{run_on(Path.PAGED).run_id}"}, **{name: {kind: "1"} for name, kind in run.items()}}
            rows = [row] if partition.endswith(WINDOW.start_text) else []
            return json.dumps({"Items": rows, "Count": len(rows), "ScannedCount": len(rows)}).encode()
        return super()._query_ledger({name: value for name, value in request.items() if name != "FilterExpression"})

    def _list(self, query: Mapping[str, list[str]]) -> bytes:
        """A page of the keys; each takes as many bytes in their file."""
        size = self._keys.stat().st_size
        (token,) = query.get("continuation-token", [""])
        start = int(token) if token else self._behind(query.get("start-after", [""])[0], size // _KEY_BYTES)
        with self._keys.open("rb") as file:
            file.seek(start * _KEY_BYTES)
            page = file.read(_KEYS_AN_ANSWER * _KEY_BYTES).split()
        following = start + len(page)
        more = following * _KEY_BYTES < size
        contents = b"".join(b"<Contents><Key>%b</Key></Contents>" % key for key in page)
        following_token = b"<NextContinuationToken>%d</NextContinuationToken>" % following if more else b""
        return b"<R><IsTruncated>%b</IsTruncated>%b%b</R>" % (str(more).lower().encode(), contents, following_token)

    def _behind(self, key: str, count: int) -> int:
        """How many keys do not come after this one."""
        low, high = 0, count
        with self._keys.open("rb") as file:
            while low < high:
                middle = (low + high) // 2
                file.seek(middle * _KEY_BYTES)
                if file.read(_KEY_BYTES).decode("ascii").rstrip("\n") <= key:
                    low = middle + 1
                else:
                    high = middle
        return low


if __name__ == "__main__":
    os.environ["STACK_NAME"] = "Benchmark"
    print(json.dumps(work(json.load(sys.stdin))))
