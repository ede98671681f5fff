"""Plans: a small row for listing, and the tasks beside it, written and finished only under the run's leases."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from functions.adapters import plan_codec
from functions.adapters.clients import translated
from functions.adapters.leases import DynamoLeases
from functions.adapters.ledger_table import Row, Write, edge_key, fence_key, key, number, plans_partition, text
from functions.adapters.task_data import S3TaskData
from functions.domain.errors import LeaseLost, TransientError
from functions.domain.plan import Plan
from functions.domain.run import Counts, Run
from functions.domain.task import Task
from functions.domain.window import Window
from functions.usecases.ports import Lease, Span

MAX_BODY_BYTES: Final = 350_000
"""DynamoDB takes items of 400 KB; the tasks of a larger plan become an object."""

_ROW: Final = "row#"
_BODY: Final = "body#"
_KEYS_A_BATCH: Final = 100
_BATCH_ATTEMPTS: Final = 10


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
        return _plan(row, () if row["Finished"]["BOOL"] else self._tasks([row])[0])

    def plans(self, window: Window, span: Span | None = None, run_id: str | None = None) -> list[Plan]:
        """See `Ledger.plans`: a query for each run, then its plans' tasks in batches."""
        run_ids = self.run_ids(window) if run_id is None else [run_id]
        rows = [row for each_id in run_ids for row in self._rows(plans_partition(window, each_id), span)]
        return [_plan(row, tasks) for row, tasks in zip(rows, self._tasks(rows), strict=True)]

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

    def finish_plan(self, lease: Lease, plan: Plan) -> Plan:
        """See `Ledger.finish_plan`: one transaction over row, edges and fence."""
        update = {
            "TableName": self.table.name,
            "Key": _row_key(lease.run.window, lease.run.run_id, plan.page),
            "UpdateExpression": "SET #finished = :true, #counts = :counts",
            "ConditionExpression": "attribute_exists(#pk)",
            "ExpressionAttributeNames": {"#pk": "Pk", "#finished": "Finished", "#counts": "Counts"},
            "ExpressionAttributeValues": {":true": {"BOOL": True}, ":counts": _json(plan.counts.to_state())},
        }
        refused = self.table.write("finish plan", {"Update": update}, *self._still_held(lease))
        if refused is not None:
            raise LeaseLost(f"page {plan.page} is no longer this attempt's to finish")
        return replace(plan, finished=True)

    def _still_held(self, lease: Lease) -> Iterator[Write]:
        """Both edges are the run's and not expired; the fence is this attempt's."""
        for edge in lease.run.window.edges:
            yield {
                "ConditionCheck": {
                    "TableName": self.table.name,
                    "Key": edge_key(edge),
                    "ConditionExpression": "#run = :run AND #until > :now",
                    "ExpressionAttributeNames": {"#run": "RunId", "#until": "HeldUntil"},
                    "ExpressionAttributeValues": {":run": text(lease.run.run_id), ":now": number(self.table.now())},
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
            **key(partition, f"{_ROW}{plan.page:06}"),
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
            "ExpiresAt": self.table.expiry(),
        }
        return row, [{"Put": {"TableName": self.table.name, "Item": item}}]

    def _rows(self, partition: str, span: Span | None) -> list[Row]:
        if span is None:
            return self.table.query(partition, _ROW)
        return self.table.query(
            partition,
            _ROW,
            "#high >= :low AND #low <= :high",
            {"#low": "Low", "#high": "High"},
            {":low": text(span.low), ":high": text(span.high)},
        )

    def _tasks(self, rows: Sequence[Row]) -> list[tuple[Task, ...]]:
        """The tasks of each row's plan, in the rows' order."""
        keys = [_body_key(row) for row in rows if "BodyKey" not in row]
        stored: dict[tuple[str, str], bytes] = {}
        for start in range(0, len(keys), _KEYS_A_BATCH):
            for item in self._get(keys[start : start + _KEYS_A_BATCH]):
                stored[item["Pk"]["S"], item["Sk"]["S"]] = item["Tasks"]["B"]
        return [plan_codec.decode(self._body(row, stored)) for row in rows]

    def _body(self, row: Row, stored: dict[tuple[str, str], bytes]) -> bytes:
        if "BodyKey" in row:
            return self.bodies.get_plan_body(row["BodyKey"]["S"])
        place = _body_key(row)
        return stored[place["Pk"]["S"], place["Sk"]["S"]]

    def _get(self, keys: list[Row]) -> Iterator[Row]:
        """The items of at most 100 keys, asked for again as long as DynamoDB leaves some unprocessed."""
        request: dict[str, Any] = {self.table.name: {"Keys": keys, "ConsistentRead": True}}
        for _ in range(_BATCH_ATTEMPTS):
            with translated("read plans"):
                response = self.table.client.batch_get_item(RequestItems=request)
            yield from response["Responses"].get(self.table.name, ())
            request = response.get("UnprocessedKeys") or {}
            if not request:
                return
        raise TransientError("read plans: keys left unprocessed")


def _row_key(window: Window, run_id: str, page: int) -> Row:
    return key(plans_partition(window, run_id), f"{_ROW}{page:06}")


def _body_key(row: Row) -> Row:
    return key(row["Pk"]["S"], row["Sk"]["S"].replace(_ROW, _BODY))


def _plan(row: Row, tasks: tuple[Task, ...]) -> Plan:
    return Plan(
        page=int(row["Sk"]["S"].removeprefix(_ROW)),
        tasks=tasks,
        next_token=json.loads(row["NextToken"]["S"]),
        counts=Counts.from_state(json.loads(row["Counts"]["S"])),
        finished=row["Finished"]["BOOL"],
    )


def _json(value: Any) -> Row:
    return text(json.dumps(value, separators=(",", ":")))
