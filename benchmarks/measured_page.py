"""A page, done again and again in this process over the network against the stub: what it takes.

    echo '{"Kind": "handler", "Client": "product", ...}' | python -m benchmarks.measured_page

It reads the environment of a dispatching function, which leads it to the stub, and its task as a JSON object, see
`Task`.  The last line that it prints is a JSON object, see `Told`.

The kinds:

- `handler`: the page function's handler, page after page as the state machine calls it;
- `full`: the handler of the full read, a whole hour of a few pages at a time;
- `bare`: the very calls that the handler made for the same pages, recorded before, made again with no logic in between:
  uploads side by side, then sends side by side, all others one after the other;
- `naive`: what one writes first: a resource's query, an upload and a send for each group, one after the other;
- `query`: reading a page alone.

The clients: `product`'s own, or `default`, boto3's as they come, but with as many connections as there are threads.
"""

import functools
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import cycle, groupby, islice
from typing import Any, Final, NamedTuple, Self, TypeAlias

import boto3
from boto3.dynamodb.conditions import Key
from botocore import xform_name
from botocore.config import Config

from benchmarks.dispatched_hour import SERVICES, WINDOW, context_of, run_on
from benchmarks.stub_aws import Stub
from functions.adapters import pool
from functions.adapters.clients import client
from functions.domain.budget import PAGE_FUNCTION_SECONDS
from functions.domain.lane import ranges_of
from functions.domain.run import Others, Path, Progress
from functions.handlers import dispatch_page, dispatch_window, wiring

SIDE_BY_SIDE: Final = ("PutObject", "SendMessageBatch")
"""The calls of a page that are made by several threads."""

Work: TypeAlias = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is measured, and how often."""

    kind: str
    client: str = "product"
    threads: int
    page_size: int
    latency: float = 0
    """Of each request, in seconds."""
    warm: int
    """So many pages are done before, and not measured."""
    pages: int
    """So many are measured."""
    processor: int | None = None
    """The only one that the process may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What it took; a page of the full read is as many bookings of its hour."""

    first: float
    """Seconds of the very first page, connections and all."""
    cpu: list[float]
    """Seconds of this process's processor time, of each page."""
    wall: list[float]
    requests: Mapping[str, float]
    """For each page, by operation, as the stub counted them."""
    stub_cpu: float
    """Of the stub's process, for each page."""
    most_at_once: int
    connections: int
    """Made anew while the pages were measured."""
    phases: list[tuple[str, int]]
    """The recorded pages' calls in their order, those that may be made side by side as one; bare only."""
    recorded: int
    """So many pages."""


class Call(NamedTuple):
    """A call of AWS as it was given to a client."""

    service: str
    operation: str
    arguments: dict[str, Any]


class Recorder:
    """Notes the calls of the product's clients while it is used as a context."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._noting = threading.Lock()

    def __enter__(self) -> Self:
        for service in SERVICES:
            client(service).meta.events.register_first("provide-client-params", self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for service in SERVICES:
            client(service).meta.events.unregister("provide-client-params", self._note)

    def _note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        with self._noting:
            self.calls.append(Call(model.service_model.service_name, model.name, dict(params)))


def measure(task: Task, stub: Stub) -> Told:
    """Do the task."""
    if task.processor is not None:
        os.sched_setaffinity(0, {task.processor})
    vars(pool)["THREADS"] = task.threads  # before its first use
    hour = task.page_size * (1 if task.kind == "naive" else 4)
    stub.set(0, hour)
    pages, phases, recorded = _KINDS[task.kind](task)
    stub.set(task.latency, hour)
    each = hour // task.page_size if task.kind == "full" else 1
    work = cycle(pages)
    first, _ = timed(next(work))
    for one in islice(work, task.warm - 1):
        one()
    stub.take()
    samples = [timed(one) for one in islice(work, task.pages)]
    counts = stub.take()
    return Told(
        first=first / each,
        cpu=[cpu / each for _, cpu in samples],
        wall=[wall / each for wall, _ in samples],
        requests={name: count / task.pages / each for name, count in counts.requests.items()},
        stub_cpu=counts.cpu / task.pages / each,
        most_at_once=counts.most_at_once,
        connections=counts.connections,
        phases=phases,
        recorded=recorded,
    )


def timed(work: Work) -> tuple[float, float]:
    """Seconds that it took, and seconds of processor time."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def default_client(threads: int, service: str) -> Any:
    """boto3's client as it comes, but for the width of its pool, which would be ten."""
    create: Callable[..., Any] = boto3.client
    return create(service, config=Config(max_pool_connections=threads))


_Kind: TypeAlias = tuple[list[Work], list[tuple[str, int]], int]
"""The pages' work, their phases, and how many pages were recorded for these."""


def _handler(task: Task) -> _Kind:
    _wire(task)
    return _pages(task), [], 0


def _wire(task: Task) -> None:
    """Let the handler use the task's kind of client."""
    if task.client == "default":
        vars(wiring)["client"] = functools.cache(functools.partial(default_client, task.threads))


def _pages(task: Task) -> list[Work]:
    """The first two pages of the hour, to be done in this order."""
    run = replace(run_on(Path.PAGED), page_size=task.page_size).to_state()
    context = context_of(PAGE_FUNCTION_SECONDS)
    begun = [Progress().to_state()]

    def page(place: int) -> None:
        event = {"Run": run, "Others": Others().to_state(), "Progress": begun[place]}
        begun[place + 1 :] = [json.loads(json.dumps(dispatch_page.handler(event, context)))]

    return [functools.partial(page, 0), functools.partial(page, 1)]


def _full(task: Task) -> _Kind:
    _wire(task)
    run = replace(run_on(Path.FULL), page_size=task.page_size).to_state()
    event = {"Run": run, "Others": Others().to_state(), "Progress": Progress().to_state()}
    return [lambda: dispatch_window.handler(event, context_of(PAGE_FUNCTION_SECONDS))], [], 0


def _bare(task: Task) -> _Kind:
    made = functools.cache(client if task.client == "product" else functools.partial(default_client, task.threads))
    threads = ThreadPoolExecutor(task.threads)
    recorded = [_recorded(work) for work in _pages(task)]
    phases = [(operation, len(calls)) for page in recorded for operation, calls in page]
    return [functools.partial(_make, page, made, threads) for page in recorded], phases, len(recorded)


def _recorded(work: Work) -> list[tuple[str, list[Call]]]:
    """The calls that the work makes, those of one operation behind each other together."""
    with Recorder() as recorder:
        work()
    return [(operation, list(calls)) for operation, calls in groupby(recorder.calls, lambda call: call.operation)]


def _make(phases: list[tuple[str, list[Call]]], made: Callable[[str], Any], threads: ThreadPoolExecutor) -> None:
    def make(call: Call) -> None:
        getattr(made(call.service), xform_name(call.operation))(**call.arguments)

    for operation, calls in phases:
        if operation in SIDE_BY_SIDE:
            for future in [threads.submit(make, call) for call in calls]:
                future.result()
        else:
            for call in calls:
                make(call)


def _naive(task: Task) -> _Kind:
    """No ledger, no id, no bad record, no retry: the least that looks as if it worked."""
    resource: Any = boto3.resource("dynamodb")
    table = resource.Table(os.environ["BOOKING_TABLE_NAME"])
    s3: Any = boto3.client("s3")
    sqs: Any = boto3.client("sqs")

    def page() -> None:
        condition = Key("BookingDateUTC").eq(WINDOW.date) & Key("BookingTimeUTC").between(WINDOW.low, WINDOW.high)
        index = os.environ["BOOKING_INDEX_NAME"]
        found = table.query(IndexName=index, KeyConditionExpression=condition, Limit=task.page_size)["Items"]
        groups = defaultdict(list)
        for item in found:
            if item["RewardStatus"] == "WaitToReward":
                groups[item["ShopId"], item["MemberId"], item["PromotionEngineId"], item["RewardType"]].append(item)
        for place, ((shop, member, engine, kind), orders) in enumerate(groups.items()):
            key = f"tasks/{WINDOW.start:%Y-%m-%d/%H}/{place:06}.json"
            data = {"ShopId": shop, "MemberId": member, "PromotionEngineId": engine, "Key": key}
            s3.put_object(
                Bucket=os.environ["TASK_DATA_BUCKET_NAME"],
                Key=key,
                Body=json.dumps({**data, "Orders": orders}, default=str).encode(),
            )
            url = os.environ["POINT_TASK_QUEUE_URL" if kind == "Point" else "COUPON_TASK_QUEUE_URL"]
            sqs.send_message(
                QueueUrl=url,
                MessageBody=json.dumps(data, default=str),
                MessageGroupId=str(member),
                MessageDeduplicationId=key,
            )

    return [page], [], 0


def _query(task: Task) -> _Kind:
    keys = ranges_of(WINDOW)[0]
    read = functools.partial(wiring.bookings().query_page, keys, None, task.page_size)
    if task.client == "product":
        return [read], [], 0
    ((_, (call,)),) = _recorded(read)
    return [functools.partial(default_client(task.threads, "dynamodb").query, **call.arguments)], [], 0


_KINDS: Final[Mapping[str, Callable[[Task], _Kind]]] = {
    "handler": _handler,
    "full": _full,
    "bare": _bare,
    "naive": _naive,
    "query": _query,
}


if __name__ == "__main__":
    print(json.dumps(asdict(measure(Task(**json.load(sys.stdin)), Stub.of(os.environ)))))
