"""One generated hour, dispatched in this process by the real handlers: what it did, and how much memory that took.

    python -m benchmarks.dispatched_hour paged 300000

It reads the environment of a dispatching function.  The last line that it prints is a JSON object: `BaseBytes` and
`PeakBytes` (most resident memory before the first page, and in all), `Peaks` (the most behind each page), `Totals` (of
the last answer), `Objects` and `Messages` (how many were written and sent).

Real are the handlers, use cases and adapters, and botocore's validating, serialising, signing and parsing.  AWS is not:
each request is answered at botocore's `before-send` event, in the place of the network.  So what a connection takes
(urllib3, TLS, sockets) is not in the figures.  It is the hour's first run, and no run of a neighbouring hour has been:
other runs' plans are not read.
"""

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from io import BytesIO
from pathlib import Path as FilePath
from types import SimpleNamespace
from typing import Any, Final

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from functions.adapters.clients import client
from functions.domain.budget import WINDOW_FUNCTION_SECONDS
from functions.domain.run import Others, Path, Progress, Run
from functions.domain.window import Window
from functions.handlers import dispatch_page, dispatch_window, wiring

WINDOW: Final = Window.starting("2026-09-17T15:00:00Z")
PAGE_SIZE: Final = 1000
SERVICES: Final = ("dynamodb", "s3", "sqs", "ssm")

_ONLY_ONE: Final = 0.35
"""The share of bookings whose member has no other."""

_ANSWER_SECONDS: Final = 0.002
"""Each request takes this long, so that all threads of the pool are at work at once, each holding its request."""


def context_of(function_seconds: int) -> Any:
    """What Lambda tells a call whose function has so much time."""
    return SimpleNamespace(
        function_name="dispatch",
        function_version="1",
        memory_limit_in_mb=1536,
        invoked_function_arn="arn:aws:lambda:eu-central-1:111122223333:function:dispatch",
        aws_request_id="benchmark",
        get_remaining_time_in_millis=lambda: function_seconds * 1000,
    )


def run_on(path: Path, slices: int = 1) -> Run:
    """A run of the hour."""
    return Run(
        run_id="20260917T160110Z-benchmark",
        execution_id="20260917T160110Z-benchmark",
        started_at="2026-09-17T16:01:10Z",
        window=WINDOW,
        path=path,
        page_size=PAGE_SIZE,
        dry_run=False,
        set_aside_limit=0,
        lease_seconds=path.lease_seconds,
        slices=slices,
        concurrency=slices,
    )


def dispatch_hour(path: Path, bookings: int) -> dict[str, Any]:
    """Dispatch an hour as the state machine does: one warm process, one call after the other until no token is left."""
    aws = GeneratedAws(bookings)
    for service in SERVICES:
        client(service).meta.events.register("before-send", aws.answer)
    wiring.dispatch()
    handler = dispatch_page.handler if path is Path.PAGED else dispatch_window.handler
    run, context = run_on(path), context_of(WINDOW_FUNCTION_SECONDS)
    progress = Progress().to_state()
    base = peak_rss()
    peaks = []
    while progress["HasMore"]:
        event = {"Run": run.to_state(), "Others": Others().to_state(), "Progress": progress}
        progress = json.loads(json.dumps(handler(event, context)))
        peaks.append(peak_rss())
    return {
        "BaseBytes": base,
        "PeakBytes": peaks[-1],
        "Peaks": peaks,
        "Totals": progress["Totals"],
        "Objects": aws.objects,
        "Messages": aws.messages,
    }


class GeneratedAws:
    """AWS's answers for one hour.  It keeps counts only; a page is made when it is asked for."""

    def __init__(self, bookings: int) -> None:
        self.objects = 0
        self.messages = 0
        self._bookings = bookings
        self._attempt: Any = None
        self._grant: Any = None
        self._counting = threading.Lock()

    def answer(self, request: Any, event_name: str, **_: Any) -> AWSResponse:
        """Answer in AWS's place: a listener of `before-send`."""
        time.sleep(_ANSWER_SECONDS)
        content, fields = self.respond(event_name.rpartition(".")[2], request)
        headers = HTTPHeaders()
        for name, value in fields.items():
            headers[name] = value
        return AWSResponse(request.url, HTTPStatus.OK, headers, _Raw(content))

    def respond(self, operation: str, request: Any) -> tuple[bytes, Mapping[str, str]]:
        """The body and the headers of an answer.

        Raises:
            NotImplementedError: neither path makes such a request; none ever goes to the network.
        """
        content = b""
        match operation:
            case "Query":
                content = self._query(json.loads(request.body))
            case "PutObject":
                self.count(objects=1)
            case "SendMessageBatch":
                content = self._send_message_batch(json.loads(request.body))
            case "TransactWriteItems":
                content = self._transact_write_items(json.loads(request.body))
            case "GetItem":
                content = b"{}"
            case "BatchGetItem":
                content = self.lease(json.loads(request.body))
            case "GetParameters":
                content = b'{"Parameters":[],"InvalidParameters":[]}'
            case _:
                raise NotImplementedError(operation)
        return content, {}

    def _query(self, request: dict[str, Any]) -> bytes:
        """A page of the bookings, or the rows of the ledger, which has none yet."""
        if "IndexName" not in request:
            return b'{"Items":[],"Count":0,"ScannedCount":0}'
        start_key = request.get("ExclusiveStartKey")
        start = int(start_key["RecordId"]["S"]) + 1 if start_key else 0
        return query_answer(start, request["Limit"], self._bookings)

    def _transact_write_items(self, request: dict[str, Any]) -> bytes:
        """Every condition holds; what the leases are held under is kept."""
        self.keep_lease(request)
        return b"{}"

    def keep_lease(self, request: dict[str, Any]) -> None:
        """Keep the grant of the edges and the attempt of the fence, for `lease`."""
        for write in request["TransactItems"]:
            self._attempt = write.get("Put", {}).get("Item", {}).get("Attempt", self._attempt)
            self._grant = write.get("Update", {}).get("ExpressionAttributeValues", {}).get(":grant", self._grant)

    def lease(self, request: dict[str, Any]) -> bytes:
        """The edges and the fence as they were written; nothing else is read in a batch."""
        ((table, wanted),) = request["RequestItems"].items()
        found = [
            {"Attempt": self._attempt} if key["Pk"]["S"].startswith("fence#") else {"Grant": self._grant}
            for key in wanted["Keys"]
        ]
        return json.dumps({"Responses": {table: found}}).encode()

    def _send_message_batch(self, request: dict[str, Any]) -> bytes:
        accepted = [{"Id": entry["Id"], "MessageId": entry["Id"]} for entry in request["Entries"]]
        self.count(messages=len(accepted))
        return json.dumps({"Successful": accepted, "Failed": []}).encode()

    def count(self, objects: int = 0, messages: int = 0) -> None:
        """Count what was written or sent; from any thread."""
        with self._counting:
            self.objects += objects
            self.messages += messages


class _Raw(BytesIO):
    """What botocore reads of a response."""

    def stream(self) -> Iterator[bytes]:
        yield self.getvalue()


def query_answer(start: int, limit: int, bookings: int) -> bytes:
    """The bookings from number `start` on."""
    draw = random.Random(start)  # noqa: S311 -- test data: the same page must be the same each time
    return page_answer(
        range(start, bookings), limit, evenly(bookings), draw, lambda number: member_of_page(number, draw)
    )


def evenly(bookings: int) -> Callable[[int], str]:
    """The booking times of so many bookings, the same number in each second of the window."""

    def time_of(number: int) -> str:
        minute, second = divmod(number * 3600 // bookings, 60)
        return f"15:{minute:02}:{second:02}Z"

    return time_of


def page_answer(
    left: range, limit: int, time_of: Callable[[int], str], draw: random.Random, member: Callable[[int], int]
) -> bytes:
    """The first page of what is left; as with DynamoDB a full page has a next one, which may be empty."""
    page = left[:limit]
    items = ",".join(_item(number, time_of(number), member(number), draw) for number in page)
    token = f',"LastEvaluatedKey":{{{_key(page[-1], time_of(page[-1]))}}}' if len(page) == limit else ""
    return f'{{"Items":[{items}],"Count":{len(page)},"ScannedCount":{len(page)}{token}}}'.encode()


def member_of_page(number: int, draw: random.Random) -> int:
    """Whose booking it is: its own member's, or that of one of 320 members.

    Some of them book seven times as often as others.  That makes 0.60 groups for each booking of a page, and 0.35 for
    each of a whole hour.
    """
    return 10_000_000 + number if draw.random() < _ONLY_ONE else int(50 * 7.4 ** draw.random())


def _key(number: int, time_text: str) -> str:
    return (
        f'"RecordId":{{"S":"{number:012}"}},"BookingDateUTC":{{"S":"{WINDOW.date}"}},'
        f'"BookingTimeUTC":{{"S":"{time_text}"}}'
    )


def _item(number: int, time_text: str, member: int, draw: random.Random) -> str:
    """A waiting booking of 450 bytes as DynamoDB counts them."""
    kind = "Point" if member % 5 else "ECoupon"
    return (
        f'{{{_key(number, time_text)},"ShopId":{{"N":"{member % 40}"}},"MemberId":{{"N":"{member}"}},'
        f'"PromotionEngineId":{{"N":"7001"}},"RewardStatus":{{"S":"WaitToReward"}},"RewardType":{{"S":"{kind}"}},'
        f'"OrderTime":{{"S":"2026-09-10T{draw.randrange(24):02}:{number % 60:02}:00.0000000+08:00"}},'
        f'"OrderId":{{"S":"TG{number:014}"}},"Amount":{{"N":"{draw.randrange(1, 9999)}.50"}},'
        f'"Remark":{{"S":"{draw.randbytes(110).hex()}"}}}}'
    )


def peak_rss() -> int:
    """The most memory that this process ever had resident, in bytes.

    It is Linux's `VmHWM`, which begins anew when a program is started; `ru_maxrss` would begin at the parent's.
    """
    for line in FilePath("/proc/self/status").read_text("ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.removesuffix("kB")) * 1024
    raise NotImplementedError("/proc/self/status holds no VmHWM")


if __name__ == "__main__":
    print(json.dumps(dispatch_hour(Path(sys.argv[1]), int(sys.argv[2]))))
