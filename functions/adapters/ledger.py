"""Plans: a small row for listing, and the tasks beside it, written and finished only under the run's leases."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from functions.adapters import plan_codec
from functions.adapters.clients import translated
from functions.adapters.journal import run_ids
from functions.adapters.leases import DynamoLeases
from functions.adapters.ledger_table import (
    PLAN_ROW,
    Row,
    Write,
    edge_key,
    fence_key,
    key,
    number,
    outline,
    plans_partition,
    text,
)
from functions.adapters.task_data import S3TaskData
from functions.domain.errors import ConfigurationError, LeaseLost
from functions.domain.plan import Plan
from functions.domain.run import Run
from functions.domain.window import Window
from functions.usecases.ports import Lease, PlansOf, Span

MAX_BODY_BYTES: Final = 350_000
"""DynamoDB takes items of 400 KB; the tasks of a larger plan become an object."""

_BODY: Final = "body#"
_KEYS_A_BATCH: Final = 100
_BODY_OUTLIVES_ROW_SECONDS: Final = 30 * 24 * 3600
"""DynamoDB deletes expired items one by one, over days; a row must never stand without its body."""


@dataclass(frozen=True, slots=True)
class DynamoLedger(DynamoLeases):
    """`Ledger` on DynamoDB; `bodies` holds the tasks of plans that are too large for an item."""

    bodies: S3TaskData

    def read_plan(self, run: Run, page: int) -> Plan | None:
        """See `Ledger.read_plan`: one read where there is no plan, or a finished one, which comes without its tasks."""
        with translated("read plan"):
            response = self.table.client.get_item(
                TableName=self.table.name, Key=_row_key(run.window, run.run_id, page), ConsistentRead=True
            )
        row = response.get("Item")
        if row is None:
            return None
        return outline(row) if row["Finished"]["BOOL"] else next(self._with_tasks([row]))

    def plans(self, *wanted: PlansOf) -> Iterator[Plan]:
        """See `Ledger.plans`: a query for each run, then all their tasks in batches."""
        rows = [
            row
            for some in wanted
            for run_id in (run_ids(self.table, some.window) if some.run_ids is None else some.run_ids)
            for row in self._rows(plans_partition(some.window, run_id), some.span)
        ]
        for start in range(0, len(rows), _KEYS_A_BATCH):
            yield from self._with_tasks(rows[start : start + _KEYS_A_BATCH])

    def create_plan(self, lease: Lease, plan: Plan) -> None:
        """See `Ledger.create_plan`: one transaction over row, tasks, edges and fence.

        A write whose answer was lost and which is made again finds this attempt's own row, and that is success.
        """
        row, beside = self._stored(lease, plan)
        put = {
            "TableName": self.table.name,
            "Item": row,
            "ConditionExpression": "attribute_not_exists(#pk)",
            "ExpressionAttributeNames": {"#pk": "Pk"},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        refused = self.table.write("create plan", {"Put": put}, *beside, *self._still_held(lease))
        if refused is not None and refused[0].get("Item", {}).get("Attempt") != text(lease.attempt):
            raise LeaseLost(f"page {plan.page} is no longer this attempt's to plan")

    def note_sent(self, lease: Lease, plan: Plan) -> None:
        """See `Ledger.note_sent`."""
        sent = {"B": b"".join(map(bytes.fromhex, sorted(plan.sent)))}
        update = {
            "UpdateExpression": "SET #sent = :sent",
            "ExpressionAttributeNames": {"#pk": "Pk", "#sent": "Sent"},
            "ExpressionAttributeValues": {":sent": sent},
        }
        if not self._change("note sent tasks", lease, plan.page, update):
            raise LeaseLost(f"page {plan.page} is no longer this attempt's")

    def finish_plan(self, lease: Lease, plan: Plan) -> Plan:
        """See `Ledger.finish_plan`."""
        update = {
            "UpdateExpression": "SET #finished = :true, #counts = :counts REMOVE #sent",
            "ExpressionAttributeNames": {"#pk": "Pk", "#finished": "Finished", "#counts": "Counts", "#sent": "Sent"},
            "ExpressionAttributeValues": {":true": {"BOOL": True}, ":counts": _json(plan.counts.to_state())},
        }
        if not self._change("finish plan", lease, plan.page, update):
            raise LeaseLost(f"page {plan.page} is no longer this attempt's to finish")
        return replace(plan, finished=True)

    def _change(self, operation: str, lease: Lease, page: int, update: Mapping[str, Any]) -> bool:
        """Update the plan's row, in one transaction over row, edges and fence; whether the conditions held."""
        change = {
            "TableName": self.table.name,
            "Key": _row_key(lease.run.window, lease.run.run_id, page),
            "ConditionExpression": "attribute_exists(#pk)",
            **update,
        }
        return self.table.write(operation, {"Update": change}, *self._still_held(lease)) is None

    def _still_held(self, lease: Lease) -> Iterator[Write]:
        """Both edges are the execution's and not expired; the fence is this attempt's."""
        for edge in lease.run.window.edges:
            yield {
                "ConditionCheck": {
                    "TableName": self.table.name,
                    "Key": edge_key(edge),
                    "ConditionExpression": "#holder = :holder AND #until > :now",
                    "ExpressionAttributeNames": {"#holder": "Holder", "#until": "HeldUntil"},
                    "ExpressionAttributeValues": {
                        ":holder": text(lease.run.execution_id),
                        ":now": number(self.table.now()),
                    },
                }
            }
        yield {
            "ConditionCheck": {
                "TableName": self.table.name,
                "Key": fence_key(lease.run),
                "ConditionExpression": "#attempt = :attempt",
                "ExpressionAttributeNames": {"#attempt": "Attempt"},
                "ExpressionAttributeValues": {":attempt": text(lease.attempt)},
            }
        }

    def _stored(self, lease: Lease, plan: Plan) -> tuple[Row, list[Write]]:
        """The plan's row, and the write of its tasks beside it, or none where they became an object first."""
        partition = plans_partition(lease.run.window, lease.run.run_id)
        row: Row = {
            **key(partition, f"{PLAN_ROW}{plan.page:06}"),
            "Attempt": text(lease.attempt),
            "Finished": {"BOOL": plan.finished},
            "NextToken": _json(plan.next_token),
            "Counts": _json(plan.counts.to_state()),
            "ExpiresAt": self.table.expiry(),
        }
        moments = [version.moment for _, version in plan.members]
        if moments:
            row |= {"Low": text(min(moments)), "High": text(max(moments))}
        body = plan_codec.encode(plan.tasks)
        if len(body) > MAX_BODY_BYTES:
            row["BodyKey"] = text(f"plans/{hashlib.sha256(body).hexdigest()}")
            self.bodies.put_plan_body(row["BodyKey"]["S"], body)
            return row, []
        item = {
            **key(partition, f"{_BODY}{plan.page:06}"),
            "Tasks": {"B": body},
            "ExpiresAt": self.table.expiry(_BODY_OUTLIVES_ROW_SECONDS),
        }
        return row, [{"Put": {"TableName": self.table.name, "Item": item}}]

    def _rows(self, partition: str, span: Span | None) -> list[Row]:
        if span is None:
            return self.table.query(partition, PLAN_ROW)
        return self.table.query(
            partition,
            PLAN_ROW,
            "#high >= :low AND #low <= :high",
            {"#low": "Low", "#high": "High"},
            {":low": text(span.low), ":high": text(span.high)},
        )

    def _with_tasks(self, rows: Sequence[Row]) -> Iterator[Plan]:
        """The plans of at most 100 rows, in their order, each decoded when it is asked for."""
        keys = [_body_key(row) for row in rows if "BodyKey" not in row]
        stored = (
            {(item["Pk"]["S"], item["Sk"]["S"]): item["Tasks"]["B"] for item in self.table.get("read plans", keys)}
            if keys
            else {}
        )
        for row in rows:
            if "BodyKey" in row:
                body = self.bodies.get_plan_body(row["BodyKey"]["S"])
            else:
                body = _taken(stored, _body_key(row))
            yield outline(row, plan_codec.decode(body))


def _row_key(window: Window, run_id: str, page: int) -> Row:
    return key(plans_partition(window, run_id), f"{PLAN_ROW}{page:06}")


def _body_key(row: Row) -> Row:
    return key(row["Pk"]["S"], row["Sk"]["S"].replace(PLAN_ROW, _BODY))


def _taken(stored: dict[tuple[str, str], bytes], place: Row) -> bytes:
    """The body at this place; row and body are written in one transaction, so only another's hand can part them."""
    partition, name = place["Pk"]["S"], place["Sk"]["S"]
    try:
        return stored.pop((partition, name))
    except KeyError:
        raise ConfigurationError(f"read plans: {partition} has a row and no {name}") from None


def _json(value: Any) -> Row:
    return text(json.dumps(value, separators=(",", ":")))
