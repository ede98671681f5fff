"""The ledger's one DynamoDB table: its keys, its transactions and its queries.

Items (`Pk`, `Sk`):

- `edge#<hour>`, `lease`: who holds an hour's edge (`RunId`, `WindowStart`) and until when (`HeldUntil`);
- `fence#<run>`, `lane#0`: the run's current attempt (`Attempt`);
- `window#<hour>`, `run#<run>`: a run of this window was started;
- `plan#<hour>#<run>`, `row#<page>`: a plan's state, counts, next token and span of booking times;
- `plan#<hour>#<run>`, `body#<page>`: its tasks, written in the same transaction; or the row names an object.

`ExpiresAt` is housekeeping, long after any redo: no condition relies on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from functions.adapters.clients import describe, translated
from functions.domain.errors import TransientError
from functions.domain.run import Run
from functions.domain.window import Window

RETENTION_SECONDS: Final = 200 * 24 * 3600

_TRANSIENT_REASONS: Final = frozenset({"TransactionConflict", "ProvisionedThroughputExceeded", "ThrottlingError"})
"""Of a cancelled transaction; these codes are spelled otherwise than those of single writes."""

Row: TypeAlias = dict[str, Any]
Write: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """The table with its client; `clock` gives epoch seconds."""

    client: Any
    name: str
    clock: Callable[[], float]

    def write(self, operation: str, *writes: Write) -> list[Row] | None:
        """Write all or nothing; None when written, else DynamoDB's reason for each write, where a condition failed.

        Raises:
            TransientError: the reason is contention or throttling.
        """
        with translated(operation):
            try:
                self.client.transact_write_items(TransactItems=list(writes))
            except self.client.exceptions.TransactionCanceledException as error:
                reasons: list[Row] = error.response.get("CancellationReasons", [])
                codes = {reason.get("Code") for reason in reasons}
                if "ConditionalCheckFailed" in codes:
                    return reasons
                if codes & _TRANSIENT_REASONS:
                    raise TransientError(f"{operation}: {describe(error)}") from None
                raise
        return None

    def query(
        self,
        partition: str,
        prefix: str,
        condition: str | None = None,
        names: Mapping[str, str] | None = None,
        values: Mapping[str, Any] | None = None,
    ) -> list[Row]:
        """Every row of a partition whose sort key has the prefix, in its order, read consistently."""
        request: dict[str, Any] = {"FilterExpression": condition} if condition else {}
        with translated("query ledger"):
            pages = self.client.get_paginator("query").paginate(
                TableName=self.name,
                KeyConditionExpression="#pk = :pk AND begins_with(#sk, :prefix)",
                ExpressionAttributeNames={"#pk": "Pk", "#sk": "Sk", **(names or {})},
                ExpressionAttributeValues={":pk": text(partition), ":prefix": text(prefix), **(values or {})},
                ConsistentRead=True,
                **request,
            )
            return [row for page in pages for row in page["Items"]]

    def now(self) -> int:
        """Epoch seconds, whole."""
        return int(self.clock())

    def expiry(self) -> Row:
        """The `ExpiresAt` of a row written now."""
        return number(self.now() + RETENTION_SECONDS)


def key(pk: str, sk: str) -> Row:
    """An item's key."""
    return {"Pk": text(pk), "Sk": text(sk)}


def edge_key(hour: str) -> Row:
    """The lease of an hour's edge, e.g. `2026-09-17T16:00:00Z`."""
    return key(f"edge#{hour}", "lease")


def fence_key(run: Run) -> Row:
    """The run's fence: one lane, since its pages are done one after the other."""
    return key(f"fence#{run.run_id}", "lane#0")


def runs_partition(window: Window) -> str:
    """Where a window's runs are listed."""
    return f"window#{window.start_text}"


def plans_partition(window: Window, run_id: str) -> str:
    """Where the plans of one run are listed."""
    return f"plan#{window.start_text}#{run_id}"


def text(value: str) -> Row:
    """A typed string."""
    return {"S": value}


def number(value: int) -> Row:
    """A typed number."""
    return {"N": str(value)}
