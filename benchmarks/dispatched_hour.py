"""One generated hour, dispatched in this process by the real handlers: what it did, and how much memory that took.

    python -m benchmarks.dispatched_hour paged 300000

It reads the environment of a dispatching function.  The last line that it prints is a JSON object: `BaseBytes` and
`PeakBytes` (most resident memory before the first page, and in all), `Totals` (of the last answer), `Objects` and
`Messages` (how many were written and sent).

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
from collections.abc import Iterator
from http import HTTPStatus
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

_WINDOW: Final = Window.starting("2026-09-17T15:00:00Z")
_PAGE_SIZE: Final = 1000

_ONLY_ONE: Final = 0.35
"""The share of bookings whose member has no other."""

_ANSWER_SECONDS: Final = 0.002
"""Each request takes this long, so that all threads of the pool are at work at once, each holding its request."""

_CONTEXT: Final = SimpleNamespace(
    function_name="dispatch",
    function_version="1",
    memory_limit_in_mb=1024,
    invoked_function_arn="arn:aws:lambda:eu-central-1:111122223333:function:dispatch",
    aws_request_id="benchmark",
    get_remaining_time_in_millis=lambda: WINDOW_FUNCTION_SECONDS * 1000,
)


def dispatch_hour(path: Path, bookings: int) -> dict[str, Any]:
    """Dispatch an hour as the state machine does: one warm process, one call after the other until no token is left."""
    aws = GeneratedAws(bookings)
    for service in ("dynamodb", "s3", "sqs", "ssm"):
        client(service).meta.events.register("before-send", aws.answer)
    wiring.dispatch()
    handler = dispatch_page.handler if path is Path.PAGED else dispatch_window.handler
    run = Run(
        run_id="20260917T160110Z-benchmark",
        execution_id="20260917T160110Z-benchmark",
        started_at="2026-09-17T16:01:10Z",
        window=_WINDOW,
        path=path,
        page_size=_PAGE_SIZE,
        dry_run=False,
        set_aside_limit=0,
        lease_seconds=path.lease_seconds,
    )
    progress = Progress().to_state()
    base = peak_rss()
    while progress["HasMore"]:
        event = {"Run": run.to_state(), "Others": Others().to_state(), "Progress": progress}
        progress = json.loads(json.dumps(handler(event, _CONTEXT)))
    return {
        "BaseBytes": base,
        "PeakBytes": peak_rss(),
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
        self._counting = threading.Lock()

    def answer(self, request: Any, event_name: str, **_: Any) -> AWSResponse:
        """Answer in AWS's place: a listener of `before-send`.

        Raises:
            NotImplementedError: neither path makes such a request; none ever goes to the network.
        """
        time.sleep(_ANSWER_SECONDS)
        content = b""
        match event_name.rpartition(".")[2]:
            case "Query":
                content = self._query(json.loads(request.body))
            case "PutObject":
                self._count(objects=1)
            case "SendMessageBatch":
                content = self._send_message_batch(json.loads(request.body))
            case "TransactWriteItems":
                content = self._transact_write_items(json.loads(request.body))
            case "GetItem":
                content = self._get_item(json.loads(request.body))
            case "GetParameters":
                content = b'{"Parameters":[],"InvalidParameters":[]}'
            case operation:
                raise NotImplementedError(operation)
        return AWSResponse(request.url, HTTPStatus.OK, HTTPHeaders(), _Raw(content))

    def _query(self, request: dict[str, Any]) -> bytes:
        """A page of the bookings, or the rows of the ledger, which has none yet."""
        if "IndexName" not in request:
            return b'{"Items":[],"Count":0,"ScannedCount":0}'
        start_key = request.get("ExclusiveStartKey")
        start = int(start_key["RecordId"]["S"]) + 1 if start_key else 0
        return query_answer(start, request["Limit"], self._bookings)

    def _transact_write_items(self, request: dict[str, Any]) -> bytes:
        """Every condition holds; which attempt set the fence is kept."""
        for write in request["TransactItems"]:
            self._attempt = write.get("Put", {}).get("Item", {}).get("Attempt", self._attempt)
        return b"{}"

    def _get_item(self, request: dict[str, Any]) -> bytes:
        """The fence, or no plan yet."""
        item = {"Item": {"Attempt": self._attempt}} if request["Key"]["Pk"]["S"].startswith("fence#") else {}
        return json.dumps(item).encode()

    def _send_message_batch(self, request: dict[str, Any]) -> bytes:
        accepted = [{"Id": entry["Id"], "MessageId": entry["Id"]} for entry in request["Entries"]]
        self._count(messages=len(accepted))
        return json.dumps({"Successful": accepted, "Failed": []}).encode()

    def _count(self, objects: int = 0, messages: int = 0) -> None:
        with self._counting:
            self.objects += objects
            self.messages += messages


class _Raw:
    """What botocore reads of a response."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Iterator[bytes]:
        yield self._content


def query_answer(start: int, limit: int, bookings: int) -> bytes:
    """The bookings from number `start` on; as with DynamoDB a full page has a next one, which may be empty."""
    end = min(start + limit, bookings)
    draw = random.Random(start)  # noqa: S311 -- test data: the same page must be the same each time
    items = ",".join(_item(number, bookings, draw) for number in range(start, end))
    token = f',"LastEvaluatedKey":{{{_key(end - 1, bookings)}}}' if end - start == limit else ""
    return f'{{"Items":[{items}],"Count":{end - start},"ScannedCount":{end - start}{token}}}'.encode()


def _key(number: int, bookings: int) -> str:
    minute, second = divmod(number * 3600 // bookings, 60)
    return (
        f'"RecordId":{{"S":"{number:012}"}},"BookingDateUTC":{{"S":"{_WINDOW.date}"}},'
        f'"BookingTimeUTC":{{"S":"15:{minute:02}:{second:02}Z"}}'
    )


def _item(number: int, bookings: int, draw: random.Random) -> str:
    """A waiting booking of 450 bytes as DynamoDB counts them.

    Where it is not its member's only one, it belongs to one of 320 members, of whom some book seven times as often as
    others.  That makes 0.60 groups for each booking of a page, and 0.35 for each of a whole hour.
    """
    member = 10_000_000 + number if draw.random() < _ONLY_ONE else int(50 * 7.4 ** draw.random())
    kind = "Point" if member % 5 else "ECoupon"
    return (
        f'{{{_key(number, bookings)},"ShopId":{{"N":"{member % 40}"}},"MemberId":{{"N":"{member}"}},'
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
