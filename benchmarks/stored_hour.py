"""A function of a run in lanes, at work in this process on an hour that lies in files, so that others go on with it.

    echo '{"Step": "stage", "Bookings": 100000, ...}' | python -m benchmarks.stored_hour

It reads the environment of a dispatching function, and its task as a JSON object: `Step` (or `layout`), `Bookings`,
`GroupSize`, `Spread`, `Directory`, `Run`, and `Lanes` (the progress of each, done one after the other) or `Round`.
The last line that it prints is a JSON object, see `work`.

As in `benchmarks.dispatched_hour`, all is real but what lies below botocore: each request is answered at its
`before-send` event.  The ledger is a file of SQLite, the staged objects are files.  Of a task's object only is kept
which records it holds.
"""

import json
import random
import re
import sqlite3
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from operator import eq, ge, gt, le, lt
from pathlib import Path as FilePath
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from benchmarks.dispatched_hour import SERVICES, GeneratedAws, context_of, evenly, page_answer, peak_rss
from functions.adapters.clients import client
from functions.domain.budget import PAGE_FUNCTION_SECONDS
from functions.domain.lane import Step
from functions.domain.run import Others
from functions.handlers import dispatch_page, fold_pages, lay_out_lanes, merge_bucket, stage_page, wiring

LAYOUT: Final = "layout"
HANDLERS: Final = {
    Step.DISPATCH: dispatch_page.handler,
    Step.STAGE: stage_page.handler,
    Step.FOLD: fold_pages.handler,
    Step.MERGE: merge_bucket.handler,
    LAYOUT: lay_out_lanes.handler,
}

WRITE_UNIT: Final = 1024
READ_UNIT: Final = 4096
_ANSWER_BYTES: Final = 1024 * 1024
"""A query's answer holds no more."""
_TIME: Final = re.compile(r"15:(\d\d):(\d\d)|16:00:00")
_ORDER: Final = re.compile(rb'"OrderTime":"([^"]*)"[^{}]*?"RecordId":"([0-9]+)"')
_OWN_KEY: Final = re.compile(rb'"Key":"([^"]+)"')
_COMPARISON: Final = re.compile(r"(#\w+) (<=|>=|<|>|=) (:\w+)")
_OPERATORS: Final = {"<": lt, "<=": le, "=": eq, ">=": ge, ">": gt}
_SETTING: Final = re.compile(r"(#\w+) = (:\w+)")


def work(task: Mapping[str, Any]) -> dict[str, Any]:
    """Do the task's lanes, each to its end, or lay them out; say what that took and what came of it.

    `Answer` is the handler's last one; `Calls` counts by operation, and `WriteUnits` and `ReadUnits` are DynamoDB's;
    `Invocations` are calls of the handler, `Cpu` its seconds without those of the stub.  `Seen` names a file that
    holds, for each booking, in how many tasks it is; `Objects` (of packs, the lines) and `Messages` are how many, and
    the sums of their ids.
    """
    aws = StoredAws(Hour(task["Bookings"], task["GroupSize"], spread=task["Spread"]), FilePath(task["Directory"]))
    for service in SERVICES:
        client(service).meta.events.register("before-send", aws.answer)
    wiring.dispatch()
    handler, context = HANDLERS[task["Step"]], context_of(PAGE_FUNCTION_SECONDS)
    event = {"Run": task["Run"], "Others": Others().to_state()}
    base, begun = peak_rss(), time.process_time()
    invocations, answers = 0, []
    if task["Step"] == LAYOUT:
        invocations, answers = 1, [handler({**event, "Round": task["Round"]}, context)]
    for lane in task.get("Lanes", ()):
        progress = {**lane, "HandsOver": False}
        while progress["HasMore"] and not progress["HandsOver"]:
            progress = json.loads(json.dumps(handler({**event, "Progress": progress}, context)))
            invocations += 1
        answers.append(progress)
    return {
        "Answer": answers[-1],
        "BaseBytes": base,
        "PeakBytes": peak_rss(),
        "Cpu": time.process_time() - begun - aws.cpu,
        "Invocations": invocations,
        "Calls": aws.calls,
        "WriteUnits": aws.write_units,
        "ReadUnits": aws.read_units,
        "Seen": aws.write_seen(),
        "Objects": [aws.objects, aws.object_ids],
        "Messages": [aws.messages, aws.message_ids],
    }


@dataclass(frozen=True, slots=True)
class Hour:
    """The bookings of the hour, of which so many are one member's, side by side or spread over all of it."""

    bookings: int
    group_size: int
    spread: bool

    def member(self, number: int) -> int:
        """Whose booking it is."""
        return number % (self.bookings // self.group_size) if self.spread else number // self.group_size

    def within(self, low: str, high: str) -> range:
        """The numbers of the bookings between two times, of which neither is a booking's own."""
        return range(self._first_at(low), self._first_at(high))

    def _first_at(self, text: str) -> int:
        match = _TIME.match(text)
        if match is None:
            raise NotImplementedError(text)
        second = int(match[1]) * 60 + int(match[2]) if match[1] else 3600
        return -(-second * self.bookings // 3600)


class StoredAws(GeneratedAws):
    """AWS's answers for one hour that several processes work on; it measures what they cost."""

    def __init__(self, hour: Hour, directory: FilePath) -> None:
        super().__init__(hour.bookings)
        self.cpu = 0.0
        """Seconds that the answers took."""
        self.calls: Counter[str] = Counter()
        self.write_units = 0
        self.read_units = 0.0
        self.object_ids = 0
        self.message_ids = 0
        self._hour = hour
        self._directory = directory
        self._ledger = Ledger(directory / "ledger.sqlite")
        self._seen = bytearray(hour.bookings)
        self._uploads: dict[str, _Upload] = {}
        self._lock = threading.Lock()

    def respond(self, operation: str, request: Any) -> tuple[bytes, Mapping[str, str]]:
        """See `GeneratedAws.respond`."""
        begun = time.thread_time()
        own = {
            "PutObject": self._put_object,
            "CreateMultipartUpload": self._create_upload,
            "UploadPart": self._upload_part,
            "CompleteMultipartUpload": self._complete_upload,
            "GetObject": self._get_object,
            "GetItem": self._get_item,
        }
        answer = own[operation](request) if operation in own else super().respond(operation, request)
        self.count_call(operation, time.thread_time() - begun)
        return answer

    def count_call(self, operation: str, seconds: float) -> None:
        """Count a call that was answered, and what it took to answer it."""
        with self._lock:
            self.calls[operation] += 1
            self.cpu += seconds

    def write_seen(self) -> str:
        """Keep in how many tasks each booking is; the file's path."""
        path = self._directory / f"seen-{uuid.uuid4().hex}"
        path.write_bytes(self._seen)
        return str(path)

    def _query(self, request: dict[str, Any]) -> bytes:
        if "IndexName" not in request:
            return self._query_ledger(request)
        values, start_key = request["ExpressionAttributeValues"], request.get("ExclusiveStartKey")
        left = self._hour.within(values[":low"]["S"], values[":high"]["S"])
        if start_key:
            left = range(int(start_key["RecordId"]["S"]) + 1, left.stop)
        draw = random.Random(left.start)  # noqa: S311 -- test data: the same page must be the same each time
        answer = page_answer(left, request["Limit"], evenly(self._hour.bookings), draw, self._hour.member)
        items = len(left[: request["Limit"]])
        with self._lock:  # an index is read with eventual consistency, at half the price
            self.read_units += max(1, -(-items * 450 // READ_UNIT)) / 2
        return answer

    def _query_ledger(self, request: dict[str, Any]) -> bytes:
        """Rows of a partition by the beginning of their sort keys; those filtered out are paid for too."""
        values, start_key = request["ExpressionAttributeValues"], request.get("ExclusiveStartKey")
        after = start_key["Sk"]["S"] if start_key else ""
        found, more = self._ledger.beginning(
            values[":pk"]["S"], values[":prefix"]["S"], after, request.get("Limit", sys.maxsize)
        )
        size = sum(map(item_size, found))
        self._count_read(size)
        passed = [item for item in found if passes(item, request)]
        answer: dict[str, Any] = {"Items": passed, "Count": len(passed), "ScannedCount": len(found)}
        if more:
            answer["LastEvaluatedKey"] = {name: found[-1][name] for name in ("Pk", "Sk")}
        return json.dumps(answer).encode()

    def _get_item(self, request: Any) -> tuple[bytes, Mapping[str, str]]:
        content = self._ledger.item(json.loads(request.body)["Key"])
        self._count_read(item_size(json.loads(content)) if content else 0)
        return f'{{"Item":{content}}}'.encode() if content else b"{}", {}

    def lease(self, request: dict[str, Any]) -> bytes:
        """See `GeneratedAws.lease`."""
        for _ in range(3):
            self._count_read(0)
        return super().lease(request)

    def _transact_write_items(self, request: dict[str, Any]) -> bytes:
        """Every condition holds; plans are kept.  A condition is counted as what it would cost as a write."""
        self.keep_lease(request)
        items = []
        units = 0
        for write in request["TransactItems"]:
            ((kind, change),) = write.items()
            item = change.get("Item") or self._changed(change)
            if kind != "ConditionCheck" and item["Pk"]["S"].startswith("plan#"):
                items.append(item)
            units += 2 * -(-item_size(item) // WRITE_UNIT)
        self._ledger.keep(items)
        with self._lock:
            self.write_units += units
        return b"{}"

    def _changed(self, change: dict[str, Any]) -> dict[str, Any]:
        """The item as its update makes it; for a condition alone, as it is."""
        content = self._ledger.item(change["Key"])
        item: dict[str, Any] = json.loads(content) if content else dict(change["Key"])
        names, values = change["ExpressionAttributeNames"], change["ExpressionAttributeValues"]
        for name, value in _SETTING.findall(change.get("UpdateExpression", "")):
            item[names[name]] = values[value]
        return item

    def _send_message_batch(self, request: dict[str, Any]) -> bytes:
        with self._lock:
            self.message_ids += sum(int(entry["MessageDeduplicationId"], 16) for entry in request["Entries"])
        return super()._send_message_batch(request)

    def _count_read(self, size: int) -> None:
        with self._lock:
            self.read_units += max(1, -(-size // READ_UNIT))

    def _put_object(self, request: Any) -> tuple[bytes, Mapping[str, str]]:
        """A pack's lines are kept like the objects that they would be alone."""
        key, body = _key_of(request), _body_of(request)
        if not key.endswith(".jsonl"):
            self._put(key, body)
            return b"", {}
        for line in bytes(body).splitlines():
            match = _OWN_KEY.search(line)
            if match is None:
                raise ValueError(f"{key}: a line that has no key")
            self._put(match[1].decode("ascii"), memoryview(line))
        return b"", {}

    def _put(self, key: str, body: memoryview) -> None:
        upload = self._upload(key)
        upload.add(body)
        self._close(key, upload)

    def _create_upload(self, request: Any) -> tuple[bytes, Mapping[str, str]]:
        name = uuid.uuid4().hex
        self._uploads[name] = self._upload(_key_of(request))
        return f"<R><UploadId>{name}</UploadId></R>".encode(), {}

    def _upload_part(self, request: Any) -> tuple[bytes, Mapping[str, str]]:
        self._uploads[_upload_of(request)].add(_body_of(request))
        return b"", {"ETag": '"part"'}

    def _complete_upload(self, request: Any) -> tuple[bytes, Mapping[str, str]]:
        self._close(_key_of(request), self._uploads.pop(_upload_of(request)))
        return b"<R/>", {}

    def _get_object(self, request: Any) -> tuple[bytes, Mapping[str, str]]:
        wanted = request.headers["Range"]
        first, last = map(int, (wanted.decode() if isinstance(wanted, bytes) else wanted)[6:].split("-"))
        with (self._directory / _key_of(request)).open("rb") as file:
            file.seek(first)
            content = file.read(last + 1 - first)
        return content, {"Content-Length": str(len(content))}

    def _upload(self, key: str) -> "_Upload":
        return _Read(self._seen) if key.startswith("tasks/") else _Stored(self._directory / key)

    def _close(self, key: str, upload: "_Upload") -> None:
        upload.close()
        if key.startswith("tasks/"):
            with self._lock:
                self.object_ids += int(key.rpartition("/")[2].removesuffix(".json"), 16)
            self.count(objects=1)


class _Upload:
    """An object that is being written, part by part."""

    def add(self, part: memoryview) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class _Stored(_Upload):
    """One that is kept in a file, there once it is complete."""

    def __init__(self, path: FilePath) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}")

    def add(self, part: memoryview) -> None:
        with self._partial.open("ab") as file:
            file.write(part)

    def close(self) -> None:
        self._partial.replace(self._path)


class _Read(_Upload):
    """A task's object: its records are counted where they were dispatched, and dropped."""

    def __init__(self, seen: bytearray) -> None:
        self._seen = seen
        self._rest = b""
        self._last = (b"", b"")

    def add(self, part: memoryview) -> None:
        """Take the records of one more part.

        Raises:
            ValueError: they are not in the order of their order times, and then of their keys.
        """
        text = self._rest + part if self._rest else part
        end = 0
        for order in _ORDER.finditer(text):
            place = (order[1], order[2])
            if place <= self._last:
                raise ValueError(f"{place} comes behind {self._last}")
            self._last, end = place, order.end()
            self._seen[int(order[2])] += 1
        self._rest = bytes(text[end:])

    def close(self) -> None:
        if not self._last[1]:
            raise ValueError("a task without records")


class Ledger:
    """The items of plans, by their keys, in a file that several processes share."""

    def __init__(self, path: FilePath) -> None:
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS item (pk TEXT, sk TEXT, content TEXT, PRIMARY KEY (pk, sk)) WITHOUT ROWID"
        )
        self._lock = threading.Lock()

    def keep(self, items: list[dict[str, Any]]) -> None:
        """Write these items, in place of those of the same keys."""
        rows = [(item["Pk"]["S"], item["Sk"]["S"], json.dumps(item)) for item in items]
        with self._lock:
            self._connection.executemany("REPLACE INTO item VALUES (?, ?, ?)", rows)

    def item(self, key: Mapping[str, Any]) -> str | None:
        """The item of this key as JSON."""
        query = "SELECT content FROM item WHERE pk = ? AND sk = ?"
        with self._lock:
            row = self._connection.execute(query, (key["Pk"]["S"], key["Sk"]["S"])).fetchone()
        return str(row[0]) if row else None

    def beginning(self, pk: str, prefix: str, after: str, most: int) -> tuple[list[dict[str, Any]], bool]:
        """The partition's items whose sort keys have the prefix and come after this one, and whether there are more.

        They are as many as an answer holds, and at most so many.
        """
        query = "SELECT content FROM item WHERE pk = ? AND sk > ? AND sk >= ? AND sk < ? ORDER BY sk"
        found: list[dict[str, Any]] = []
        size = 0
        with self._lock:
            for (content,) in self._connection.execute(query, (pk, after, prefix, prefix + "\x7f")):
                if size > _ANSWER_BYTES or len(found) == most:
                    return found, True
                found.append(json.loads(content))
                size += item_size(found[-1])
        return found, False


def passes(item: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    """Whether the item fulfils the request's filter: comparisons of attributes of one type, joined by AND.

    Raises:
        NotImplementedError: the filter is anything else.
    """
    for comparison in filter(None, request.get("FilterExpression", "").split(" AND ")):
        match = _COMPARISON.fullmatch(comparison)
        if match is None:
            raise NotImplementedError(comparison)
        name, operator, value = match.groups()
        wanted = request["ExpressionAttributeValues"][value]
        stored = item.get(request["ExpressionAttributeNames"][name])
        if stored is None or not _OPERATORS[operator](_comparable(stored), _comparable(wanted)):
            return False
    return True


def _comparable(value: Mapping[str, Any]) -> Any:
    return int(value["N"]) if "N" in value else value["S"]


def item_size(item: Mapping[str, Any]) -> int:
    """About as DynamoDB counts an item: the lengths of its names and values, binary ones without their base64."""
    return sum(len(name) + _value_size(*kind) for name, value in item.items() for kind in value.items())


def _value_size(kind: str, content: Any) -> int:
    if kind == "B":
        return len(content) * 3 // 4
    return len(content) if isinstance(content, str) else 1


def _key_of(request: Any) -> str:
    """The object's key; the bucket is the first part of the host's name."""
    path: str = urlsplit(request.url).path
    return unquote(path).lstrip("/")


def _upload_of(request: Any) -> str:
    query: str = urlsplit(request.url).query
    (upload_id,) = parse_qs(query)["uploadId"]
    return upload_id


def _body_of(request: Any) -> memoryview:
    body = request.body
    return body.getbuffer() if isinstance(body, BytesIO) else memoryview(body)


if __name__ == "__main__":
    told = work(json.load(sys.stdin))
    print(json.dumps(told))
