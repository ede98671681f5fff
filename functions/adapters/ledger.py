"""Plans: a small row for listing, and the tasks beside it, written and finished only under the run's leases."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from functions.adapters import plan_codec
from functions.adapters.clients import translated
from functions.adapters.journal import run_ids, runs_of
from functions.adapters.leases import DynamoLeases
from functions.adapters.ledger_table import (
    PLAN_ROW,
    Filter,
    Row,
    Write,
    edge_key,
    fence_key,
    key,
    number,
    outline,
    plan_name,
    plans_partition,
    text,
)
from functions.adapters.task_data import S3TaskData
from functions.domain.errors import ConfigurationError, LeaseLost
from functions.domain.lane import FIRST_FOLD
from functions.domain.plan import Plan
from functions.domain.reconcile import DatedPlan
from functions.domain.run import Run
from functions.domain.staging import StagedObject, bucket_of, pack
from functions.domain.versions import first_and_last
from functions.domain.window import Window
from functions.usecases.ports import JournalEntry, Lease, PlansOf, Span

MAX_BODY_BYTES: Final = 350_000
"""DynamoDB takes items of 400 KB; the tasks of a larger plan become an object."""

_BODY: Final = "body#"
_FOLDS: Final = f"{PLAN_ROW}{plan_name(FIRST_FOLD, 0)[0]}"
_PAGES: Final = f"{PLAN_ROW}{plan_name(0, 0)[0]}"
"""Lanes have four digits, and the first one tells these from the others."""
_KEYS_A_BATCH: Final = 100
_BODY_OUTLIVES_ROW_SECONDS: Final = 30 * 24 * 3600
"""DynamoDB deletes expired items one by one, over days; a row must never stand without its body."""


@dataclass(frozen=True, slots=True)
class DynamoLedger(DynamoLeases):
    """`Ledger` on DynamoDB; `bodies` holds the tasks of plans that are too large for an item."""

    bodies: S3TaskData

    def read_plan(self, run: Run, page: int, lane: int = 0) -> Plan | None:
        """See `Ledger.read_plan`: one read where there is no plan, or a finished one, which comes without its tasks."""
        with translated("read plan"):
            response = self.table.client.get_item(
                TableName=self.table.name, Key=_row_key(run, lane, page), ConsistentRead=True
            )
        row = response.get("Item")
        if row is None:
            return None
        return outline(row) if row["Finished"]["BOOL"] else next(self._with_tasks([row]))

    def plans(self, *wanted: PlansOf) -> Iterator[Plan]:
        """See `Ledger.plans`: a query for each run, and for each batch of its rows one read of their tasks."""
        rows = (
            row
            for some in wanted
            for run_id in (run_ids(self.table, some.window) if some.run_ids is None else some.run_ids)
            for row in self._rows(plans_partition(some.window, run_id), some)
        )
        while batch := list(islice(rows, _KEYS_A_BATCH)):
            yield from self._with_tasks(batch)

    def runs_of(self, window: Window) -> list[JournalEntry]:
        """See `Plans.runs_of`."""
        return runs_of(self.table, window)

    def dated(self, window: Window, run_id: str, span: Span, after: tuple[int, int] | None) -> Iterator[DatedPlan]:
        """See `Plans.dated`: a query, and for each batch of its rows one read of their tasks."""
        partition = plans_partition(window, run_id)
        start = key(partition, f"{PLAN_ROW}{plan_name(*after)}") if after else None
        rows = self._rows(partition, PlansOf(window, (run_id,), span), start)
        while batch := list(islice(rows, _KEYS_A_BATCH)):
            for row, plan in zip(batch, self._with_tasks(batch), strict=True):
                yield DatedPlan(plan, int(row["FinishedAt"]["N"]) if "FinishedAt" in row else None)

    def staged(self, run: Run, *, folded: bool = True) -> Iterator[StagedObject]:
        """See `Ledger.staged`: one query, or two; an object's index stands in its plan's row."""
        partition = plans_partition(run.window, run.run_id)
        for lanes in (_FOLDS, _PAGES) if folded else (_PAGES,):
            found = False
            for staged in (plan.staged for plan in map(outline, self.table.query(partition, lanes)) if plan.staged):
                found = True
                yield staged
            if found:
                return

    def draft_plan(self, lease: Lease, plan: Plan) -> Callable[[], None]:
        """See `Ledger.draft_plan`: one transaction over row, tasks, edges and fence.

        The tasks stand beside the row, or become an object first.  A write whose answer was lost and which is made
        again finds this attempt's own row, and that is success.
        """
        row, body = self._row(lease, plan), plan_codec.encode(plan.tasks)
        large = len(body) > MAX_BODY_BYTES
        if large:
            row["BodyKey"] = text(f"plans/{hashlib.sha256(body).hexdigest()}")

        def create() -> None:
            put = {
                "TableName": self.table.name,
                "Item": row,
                "ConditionExpression": "attribute_not_exists(#pk)",
                "ExpressionAttributeNames": {"#pk": "Pk"},
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
            if large:
                self.bodies.put_plan_body(row["BodyKey"]["S"], body)
            beside = [] if large else [self._put_body(_body_key(row), body)]
            refused = self.table.write("create plan", {"Put": put}, *beside, *self._still_held(lease))
            if refused is not None and refused[0].get("Item", {}).get("Attempt") != text(lease.attempt):
                raise LeaseLost(f"page {plan.page} is no longer this attempt's to plan")

        return create

    def note_sent(self, lease: Lease, plan: Plan) -> None:
        """See `Ledger.note_sent`."""
        sent = {"B": b"".join(map(bytes.fromhex, sorted(plan.sent)))}
        update = {
            "UpdateExpression": "SET #sent = :sent",
            "ExpressionAttributeNames": {"#pk": "Pk", "#sent": "Sent"},
            "ExpressionAttributeValues": {":sent": sent},
        }
        if not self._change("note sent tasks", lease, plan, update):
            raise LeaseLost(f"page {plan.page} is no longer this attempt's")

    def finish_plan(self, lease: Lease, plan: Plan) -> Plan:
        """See `Ledger.finish_plan`."""
        update = {
            "UpdateExpression": "SET #finished = :true, #at = :now, #counts = :counts REMOVE #sent",
            "ExpressionAttributeNames": {
                "#pk": "Pk",
                "#finished": "Finished",
                "#at": "FinishedAt",
                "#counts": "Counts",
                "#sent": "Sent",
            },
            "ExpressionAttributeValues": {
                ":true": {"BOOL": True},
                ":now": number(self.table.now()),
                ":counts": _json(plan.counts.to_state()),
            },
        }
        if not self._change("finish plan", lease, plan, update):
            raise LeaseLost(f"page {plan.page} is no longer this attempt's to finish")
        return replace(plan, finished=True)

    def _change(self, operation: str, lease: Lease, plan: Plan, update: Mapping[str, Any]) -> bool:
        """Update the plan's row, in one transaction over row, edges and fence; whether the conditions held."""
        change = {
            "TableName": self.table.name,
            "Key": _row_key(lease.run, plan.lane, plan.page),
            "ConditionExpression": "attribute_exists(#pk)",
            **update,
        }
        return self.table.write(operation, {"Update": change}, *self._still_held(lease)) is None

    def _still_held(self, lease: Lease) -> Iterator[Write]:
        """Both edges are held under the run's grant and not expired; the lane's fence is this attempt's."""
        for edge in lease.run.window.edges:
            yield {
                "ConditionCheck": {
                    "TableName": self.table.name,
                    "Key": edge_key(edge),
                    "ConditionExpression": "#grant = :grant AND #until > :now",
                    "ExpressionAttributeNames": {"#grant": "Grant", "#until": "HeldUntil"},
                    "ExpressionAttributeValues": {
                        ":grant": text(lease.run.grant),
                        ":now": number(self.table.now()),
                    },
                }
            }
        yield {
            "ConditionCheck": {
                "TableName": self.table.name,
                "Key": fence_key(lease.run, lease.lane),
                "ConditionExpression": "#attempt = :attempt",
                "ExpressionAttributeNames": {"#attempt": "Attempt"},
                "ExpressionAttributeValues": {":attempt": text(lease.attempt)},
            }
        }

    def _put_body(self, place: Row, body: bytes) -> Write:
        item = {**place, "Tasks": {"B": body}, "ExpiresAt": self.table.expiry(_BODY_OUTLIVES_ROW_SECONDS)}
        return {"Put": {"TableName": self.table.name, "Item": item}}

    def _row(self, lease: Lease, plan: Plan) -> Row:
        partition = plans_partition(lease.run.window, lease.run.run_id)
        row: Row = {
            **key(partition, f"{PLAN_ROW}{plan_name(plan.lane, plan.page)}"),
            "Attempt": text(lease.attempt),
            "Finished": {"BOOL": plan.finished},
            "NextToken": _json(plan.next_token),
            "Counts": _json(plan.counts.to_state()),
            "ExpiresAt": self.table.expiry(),
        }
        if plan.tasks:
            low, high = first_and_last(version for _, version in plan.members)
            buckets = [bucket_of(task.group) for task in plan.tasks]
            row |= {"Low": text(low), "High": text(high)}
            row |= {"LowBucket": number(min(buckets)), "HighBucket": number(max(buckets))}
        if plan.staged:
            row |= {"StagedKey": text(plan.staged.key), "StagedIndex": {"B": pack(plan.staged)}}
        return row

    def _rows(self, partition: str, wanted: PlansOf, after: Row | None = None) -> Iterator[Row]:
        conditions: list[str] = []
        names: dict[str, str] = {}
        values: dict[str, Row] = {}
        if wanted.span is not None:
            conditions.append("#high >= :low AND #low <= :high")
            names |= {"#low": "Low", "#high": "High"}
            values |= {":low": text(wanted.span.low), ":high": text(wanted.span.high)}
        if wanted.buckets is not None:
            conditions.append("#highBucket >= :first AND #lowBucket < :end")
            names |= {"#lowBucket": "LowBucket", "#highBucket": "HighBucket"}
            values |= {":first": number(wanted.buckets.start), ":end": number(wanted.buckets.stop)}
        return self.table.query(partition, PLAN_ROW, Filter(" AND ".join(conditions), names, values), after)

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


def _row_key(run: Run, lane: int, page: int) -> Row:
    return key(plans_partition(run.window, run.run_id), f"{PLAN_ROW}{plan_name(lane, page)}")


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
