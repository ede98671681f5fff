"""What the tests stage: records, runs and plans; and, at the clients, the calls seen and the faults of AWS."""

import io
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Barrier, get_ident
from typing import Any, Final, NamedTuple, TypeAlias
from xml.sax.saxutils import escape

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError
from botocore.httpsession import URLLib3Session
from urllib3.response import HTTPResponse

from functions.adapters.bookings import DynamoBookingIndex, DynamoBookingTable
from functions.adapters.ledger_table import Row, key
from functions.domain.cursor import DATE_ATTRIBUTE, Token
from functions.domain.page import sort_out
from functions.domain.plan import Plan
from functions.domain.run import Counts, Path, Run
from functions.domain.staging import StagedIndex, StagedObject, staged_line
from functions.domain.task import NewTask, Task, compose
from functions.domain.values import AttributeValue, Item
from functions.domain.window import Window
from functions.usecases.ports import TaskData

INDEX: Final = "BookingDateUTC-BookingTimeUTC-index"
WINDOW: Final = Window(datetime(2026, 9, 17, 15, tzinfo=UTC))
NOW: Final = 1_789_632_070
"""The staged clock's start, epoch seconds."""
LEASE_SECONDS: Final = 390


MakeIndex: TypeAlias = Callable[..., DynamoBookingIndex]
"""Creates an empty bookings table by a client, with the given primary key: `make(client, Id="S", Rev="N")`.

Its index is partitioned by `date_attribute`, where that is given.
"""

MakeTable: TypeAlias = Callable[..., DynamoBookingTable]
"""Creates such a table without an index."""


def fresh(kind: str) -> str:
    """A name that no other test uses."""
    return f"{kind.lower()}-{uuid.uuid4().hex[:12]}"


@dataclass
class Clock:
    """A clock that stands until a test moves it."""

    now: int = NOW

    def __call__(self) -> float:
        return self.now + 0.75


def record(record_id: str, time: str = "15:30:00Z", date: str = "2026-09-17", **attributes: AttributeValue) -> Item:
    """A waiting booking of one and the same group, for points; `attributes` are put over its own."""
    return {
        "RecordId": {"S": record_id},
        "BookingDateUTC": {"S": date},
        "BookingTimeUTC": {"S": time},
        "ShopId": {"N": "1001"},
        "MemberId": {"N": "2001"},
        "PromotionEngineId": {"N": "3001"},
        "RewardStatus": {"S": "WaitToReward"},
        "RewardType": {"S": "Point"},
        "OrderTime": {"S": "2026-09-17T14:30:00Z"},
        **attributes,
    }


def composed(*items: Item) -> list[NewTask]:
    """The tasks of these records, all of which are good."""
    bookings, bad = sort_out(items, ("RecordId",), DATE_ATTRIBUTE)
    assert not bad, [each.reason for each in bad]
    return compose(bookings, WINDOW)


def members(count: int) -> list[NewTask]:
    """The tasks of so many members with a booking each."""
    return composed(*(record(f"R{n}", MemberId={"S": f"member-{n}"}) for n in range(count)))


def at_any_time() -> None:
    """An attempt that always has time left."""


def uploaded(
    task_data: TaskData, tasks: Sequence[NewTask], before_each: Callable[[], None] = at_any_time
) -> Sequence[Task]:
    """The tasks where they lie, once all their bodies exist."""
    with task_data.uploading(tasks, before_each) as placed:
        pass
    return placed


def a_run(
    run_id: str = "run-1",
    window: Window = WINDOW,
    lease_seconds: int = LEASE_SECONDS,
    execution_id: str | None = None,
) -> Run:
    """A run, worked on by the execution that began it, or by another one."""
    return Run(
        run_id=run_id,
        execution_id=execution_id or run_id,
        started_at="2026-09-17T16:01:10Z",
        window=window,
        path=Path.PAGED,
        page_size=1000,
        dry_run=False,
        set_aside_limit=100,
        lease_seconds=lease_seconds,
    )


def a_plan(page: int, new: Iterable[NewTask] = (), next_token: Token | None = None, lane: int = 0) -> Plan:
    tasks = tuple(each.task for each in new)
    return Plan(page, tasks, next_token, Counts(pages=1, tasks=len(tasks)), lane=lane)


def a_staged_object(key: str = "staging/object", *members: str) -> StagedObject:
    """The index of an object of one line for each of these members."""
    index = StagedIndex()
    items = (record(member, MemberId={"S": member}) for member in members)
    bookings, _ = sort_out(items, ("RecordId",), DATE_ATTRIBUTE)
    for _ in index.noting(map(staged_line, bookings)):
        pass
    return index.of(key)


def taken_again(run: Run) -> Run:
    """The run as its execution, redriven, takes its leases a second time."""
    return replace(run, redrives=run.redrives + 1)


def cancelled(*codes: str) -> "Step":
    """A transaction that is cancelled for these reasons, one for each of its writes."""
    reasons = [{"Code": code, "Message": "secret"} for code in codes]
    return refusal("TransactionCanceledException", message="secret", CancellationReasons=reasons)


class Call(NamedTuple):
    """One call of the API, however often its client had to send it."""

    operation: str
    params: dict[str, Any]


def calls_of(*clients: Any) -> list[Call]:
    """The calls that these clients are asked for from now on."""
    seen: list[Call] = []

    def note(params: dict[str, Any], model: Any, **_: Any) -> None:
        seen.append(Call(model.name, params))

    for client in clients:
        client.meta.events.register("provide-client-params", note)
    return seen


Step: TypeAlias = Callable[[AWSPreparedRequest], AWSResponse | None]
"""What becomes of a request instead of being sent: an answer, an exception, or (None) what the engine makes of it."""


def stage(client: Any, operation: str, steps: Iterable[Step]) -> list[AWSPreparedRequest]:
    """Meet the requests of one operation with these steps in turn, and let those after them pass; all requests seen."""
    seen: list[AWSPreparedRequest] = []
    remaining = iter(steps)

    def meet(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        seen.append(request)
        step = next(remaining, None)
        return step(request) if step else None

    client.meta.events.register(f"before-send.{client.meta.service_model.service_id.hyphenize()}.{operation}", meet)
    return seen


def answer(status: int, **body: Any) -> Step:
    """An answer of a service that speaks JSON."""
    return lambda request: _response(request, status, json.dumps(body))


def refusal(code: str, status: int = 400, message: str = "", **members: Any) -> Step:
    """An error, in the form of the service that is asked."""

    def refuse(request: AWSPreparedRequest) -> AWSResponse:
        if "X-Amz-Target" in request.headers:
            return _response(request, status, json.dumps({"__type": code, "message": message, **members}))
        error = f"<Error><Code>{code}</Code><Message>{escape(message)}</Message></Error>"
        is_form = "form-urlencoded" in str(request.headers.get("Content-Type"))
        return _response(request, status, f"<ErrorResponse>{error}</ErrorResponse>" if is_form else error)

    return refuse


def read_timeout(request: AWSPreparedRequest) -> AWSResponse | None:
    """No answer comes in time, and nothing was done."""
    raise ReadTimeoutError(endpoint_url=request.url)


def lost_answer(request: AWSPreparedRequest) -> AWSResponse | None:
    """The engine does what it is asked, and its answer is lost."""
    URLLib3Session().send(request)
    raise ConnectionClosedError(endpoint_url=request.url)


def side_by_side(*steps: Step) -> list[Step]:
    """These steps for requests that are all under way before the first is met."""
    together = Barrier(len(steps), timeout=20)

    def after_all(step: Step) -> Step:
        def meet(request: AWSPreparedRequest) -> AWSResponse | None:
            together.wait()
            return step(request)

        return meet

    return [after_all(step) for step in steps]


def sent(_: AWSPreparedRequest) -> AWSResponse | None:
    """The engine gets the request as it is."""
    return None


def alter_answers(client: Any, operation: str, steps: Iterable[Callable[[dict[str, Any]], None]]) -> None:
    """Change the parsed answers of one operation by these steps in turn, and leave those after them."""
    remaining = iter(steps)

    def alter(parsed: dict[str, Any], **_: Any) -> None:
        step = next(remaining, None)
        if step:
            step(parsed)

    client.meta.events.register(f"after-call.{client.meta.service_model.service_id.hyphenize()}.{operation}", alter)


def key_of(item: Row) -> Row:
    """The key of an item of the ledger."""
    return key(item["Pk"]["S"], item["Sk"]["S"])


def limit_pages(dynamodb: Any, rows: int, operation: str = "Query") -> None:
    """Let every query, or every scan, end a page after so many rows."""
    dynamodb.meta.events.register(
        f"provide-client-params.dynamodb.{operation}", lambda params, **_: {**params, "Limit": rows}
    )


def refuse_entries(sqs: Any, *batches: Mapping[str, bool | None]) -> None:
    """Keep these entries of the following batches from the queue, by their `Id`.

    The answer lists each under `Failed` with that `SenderFault`, or, for None, does not list it at all.
    """
    remaining = iter(batches)
    calls: dict[int, tuple[Mapping[str, bool | None], bool]] = {}  # by thread, in which a call begins and ends

    def keep_back(params: dict[str, Any], **_: Any) -> dict[str, Any]:
        refused = next(remaining, {})
        left = [entry for entry in params["Entries"] if entry["Id"] not in refused]
        calls[get_ident()] = refused, not left
        return {**params, "Entries": left}

    def send_nothing(**_: Any) -> tuple[AWSResponse, dict[str, Any]] | None:
        nothing_left = calls[get_ident()][1]
        return (AWSResponse("", 200, HTTPHeaders(), None), {}) if nothing_left else None

    def report(parsed: dict[str, Any], **_: Any) -> None:
        refused = calls[get_ident()][0]
        parsed["Failed"] = [
            {"Id": name, "SenderFault": at_fault, "Code": "InvalidMessageContents" if at_fault else "InternalError"}
            for name, at_fault in refused.items()
            if at_fault is not None
        ]

    sqs.meta.events.register("provide-client-params.sqs.SendMessageBatch", keep_back)
    sqs.meta.events.register("before-call.sqs.SendMessageBatch", send_nothing)
    sqs.meta.events.register("after-call.sqs.SendMessageBatch", report)


def _response(request: AWSPreparedRequest, status: int, body: str) -> AWSResponse:
    raw = HTTPResponse(io.BytesIO(body.encode()), status=status, preload_content=False)
    return AWSResponse(request.url, status, HTTPHeaders(), raw)
