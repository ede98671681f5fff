"""The ledger's one DynamoDB table: its keys, its transactions and its queries.

Items (`Pk`, `Sk`):

- `edge#<hour>`, `lease`: which execution holds an hour's edge (`Holder`, `RunId`, `WindowStart`, until `HeldUntil`),
  and the `Grant` under which its attempts work;
- `fence#<run>`, `lane#<lane>`: the lane's current attempt (`Attempt`);
- `window#<hour>`, `run#<run>`: a run of this window, and how it ended (`Outcome`, `Detail`) once that is known;
- `execution#<id>`, `run`: the run and window that an execution worked on;
- `plan#<hour>#<run>`, `row#<lane>#<page>`: a plan's state, counts and next token, the spans of its booking times and
  buckets, and the index of a staged page's object;
- `plan#<hour>#<run>`, `body#<lane>#<page>`: its tasks, written in the same transaction; or the row names an object;
- `reconcile#<execution>`, `<step>#<piece>`: a piece of a reconcile: where the next one starts (`Cursor`), what it
  counted, and the index of the object that holds its lines;
- `approval#<execution's ARN>`, `token`: by which `Token` a redo is answered;
- `redo#<hour>`, `<run>#<execution>`: what a redo did (`Repair`), who asked and who approved; it does not expire.

`ExpiresAt` is housekeeping, long after any redo: no condition relies on it.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from functions.adapters.clients import describe, retries, translated
from functions.domain.errors import TransientError
from functions.domain.plan import Plan
from functions.domain.run import Counts, Run
from functions.domain.staging import unpack
from functions.domain.task import Task
from functions.domain.window import Window

RETENTION_SECONDS: Final = 200 * 24 * 3600
_ROWS_A_QUERY: Final = 250
"""An answer of 1 MB, which DynamoDB would give, takes 15 MB as Python's objects."""
_BATCH_ATTEMPTS: Final = 10
_WRITE_ATTEMPTS: Final = 6
_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 2

_TRANSIENT_REASONS: Final = frozenset({"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"})
"""Of a cancelled transaction; these codes are spelled otherwise than those of single writes."""

Row: TypeAlias = dict[str, Any]
Write: TypeAlias = Mapping[str, Any]


class Filter(NamedTuple):
    """What rows are returned of those that are read; all, without a condition."""

    condition: str = ""
    names: Mapping[str, str] = {}
    values: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """The table with its client; `clock` gives epoch seconds."""

    client: Any
    name: str
    clock: Callable[[], float]

    def write(self, operation: str, *writes: Write) -> list[Row] | None:
        """Write all or nothing; None when written, else DynamoDB's reason for each write, where a condition failed.

        Lanes share their run's edges, so their writes may meet: those are tried again after a pause.

        Raises:
            TransientError: the reason is contention or throttling, and still was after some pauses.
        """
        for _ in _attempts(_WRITE_ATTEMPTS):
            with translated(operation):
                try:
                    self.client.transact_write_items(TransactItems=list(writes))
                except self.client.exceptions.TransactionCanceledException as error:
                    reasons: list[Row] = error.response.get("CancellationReasons", [])
                    codes = {reason.get("Code") for reason in reasons}
                    if "ConditionalCheckFailed" in codes:
                        return reasons
                    if not codes & _TRANSIENT_REASONS:
                        raise
                    refused = describe(error)
                else:
                    return None
        raise TransientError(f"{operation}: {refused}")

    def delete(self, operation: str, place: Row, attribute: str, value: Row) -> None:
        """Delete the item if its attribute has this value, and tried again where a transaction is at work on it.

        Raises:
            TransientError: one still was after some pauses.
        """
        for _ in _attempts(_WRITE_ATTEMPTS):
            with translated(operation):
                try:
                    self.client.delete_item(
                        TableName=self.name,
                        Key=place,
                        ConditionExpression="#attribute = :value",
                        ExpressionAttributeNames={"#attribute": attribute},
                        ExpressionAttributeValues={":value": value},
                    )
                except self.client.exceptions.ConditionalCheckFailedException:
                    return
                except self.client.exceptions.TransactionConflictException as error:
                    refused = describe(error)
                else:
                    return
        raise TransientError(f"{operation}: {refused}")

    def query(
        self,
        partition: str,
        prefix: str,
        where: "Filter | None" = None,
        after: Row | None = None,
    ) -> Iterator[Row]:
        """Every row of a partition whose sort key has the prefix, in its order, read consistently.

        Only those that pass the filter, and only those behind the key `after`, where these are given.
        """
        condition, names, values = where or Filter()
        request: dict[str, Any] = {"FilterExpression": condition} if condition else {}
        if after:
            request["ExclusiveStartKey"] = after
        pages = self.client.get_paginator("query").paginate(
            TableName=self.name,
            KeyConditionExpression="#pk = :pk AND begins_with(#sk, :prefix)",
            ExpressionAttributeNames={"#pk": "Pk", "#sk": "Sk", **names},
            ExpressionAttributeValues={":pk": text(partition), ":prefix": text(prefix), **values},
            ConsistentRead=True,
            PaginationConfig={"PageSize": _ROWS_A_QUERY},
            **request,
        )
        reading = iter(pages)
        while True:
            with translated("query ledger"):
                page = next(reading, None)
            if page is None:
                return
            yield from page["Items"]

    def get(self, operation: str, keys: Sequence[Row]) -> Iterator[Row]:
        """The items of at most 100 keys, read consistently; asked for again while DynamoDB leaves some unprocessed.

        Raises:
            TransientError: it still does after some pauses.
        """
        request: dict[str, Any] = {self.name: {"Keys": list(keys), "ConsistentRead": True}}
        for _ in _attempts(_BATCH_ATTEMPTS):
            with translated(operation):
                response = self.client.batch_get_item(RequestItems=request)
            yield from response["Responses"].get(self.name, ())
            request = response.get("UnprocessedKeys") or {}
            if not request:
                return
        raise TransientError(f"{operation}: keys left unprocessed")

    def now(self) -> int:
        """Epoch seconds, whole."""
        return int(self.clock())

    def expiry(self, later: int = 0) -> Row:
        """The `ExpiresAt` of a row written now, or of one that must outlive it by so many seconds."""
        return number(self.now() + RETENTION_SECONDS + later)


def _attempts(limit: int) -> Iterator[None]:
    """So many attempts, with a pause before each further one, which is counted."""
    yield
    for attempt in range(1, limit):
        retries.add()
        longest = min(_PAUSE_SECONDS * 2**attempt, _LONGEST_PAUSE_SECONDS)
        time.sleep(random.uniform(0, longest))  # noqa: S311 -- jitter is no secret
        yield


def key(pk: str, sk: str) -> Row:
    """An item's key."""
    return {"Pk": text(pk), "Sk": text(sk)}


def edge_key(hour: str) -> Row:
    """The lease of an hour's edge, e.g. `2026-09-17T16:00:00Z`."""
    return key(f"edge#{hour}", "lease")


def fence_key(run: Run, lane: int) -> Row:
    """The fence of a lane, whose pages are done one after the other."""
    return key(f"fence#{run.run_id}", f"lane#{lane}")


def execution_key(execution_id: str) -> Row:
    """What an execution worked on."""
    return key(f"execution#{execution_id}", "run")


def run_key(window: Window, run_id: str) -> Row:
    """A run of a window."""
    return key(runs_partition(window), f"run#{run_id}")


def approval_key(execution: str) -> Row:
    """The question whether a redo may go on; `execution` is its ARN."""
    return key(f"approval#{execution}", "token")


def runs_partition(window: Window) -> str:
    """Where a window's runs are listed."""
    return f"window#{window.start_text}"


def plans_partition(window: Window, run_id: str) -> str:
    """Where the plans of one run are listed."""
    return f"plan#{window.start_text}#{run_id}"


PLAN_ROW: Final = "row#"


def plan_name(lane: int, page: int) -> str:
    """Where a plan stands among its run's, in the order of lanes and pages."""
    return f"{lane:04}#{page:06}"


def outline(row: Row, tasks: tuple[Task, ...] = ()) -> Plan:
    """The plan of a row, with the tasks that stand beside it."""
    lane, page = row["Sk"]["S"].removeprefix(PLAN_ROW).split("#")
    return Plan(
        page=int(page),
        tasks=tasks,
        next_token=json.loads(row["NextToken"]["S"]),
        counts=Counts.from_state(json.loads(row["Counts"]["S"])),
        finished=row["Finished"]["BOOL"],
        sent=frozenset(_ids(row["Sent"]["B"])) if "Sent" in row else frozenset(),
        lane=int(lane),
        staged=unpack(row["StagedKey"]["S"], row["StagedIndex"]["B"]) if "StagedKey" in row else None,
    )


def _ids(joined: bytes) -> Iterator[str]:
    """Task ids, each SHA-256 in hexadecimal, of their joined digests."""
    return (joined[start : start + 32].hex() for start in range(0, len(joined), 32))


def text(value: str) -> Row:
    """A typed string."""
    return {"S": value}


def number(value: int) -> Row:
    """A typed number."""
    return {"N": str(value)}
