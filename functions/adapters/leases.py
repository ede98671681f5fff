"""Leases: an item for each hour edge, taken two at a time; and for each lane a fence that names its current attempt."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functions.adapters.journal import started
from functions.adapters.ledger_table import (
    LedgerTable,
    Row,
    Write,
    edge_key,
    fence_key,
    number,
    text,
)
from functions.domain.errors import LeaseLost, TransientError, WindowBusy
from functions.domain.run import LeaseOwner, Run
from functions.usecases.ports import Holder, Lease


@dataclass(frozen=True, slots=True)
class DynamoLeases:
    """`Leases` on DynamoDB."""

    table: LedgerTable

    def take(self, run: Run) -> Holder | None:
        """See `Leases.take`: one transaction over both edges and the journal's rows."""
        free = "attribute_not_exists(#holder) OR #holder = :holder OR #until < :now"
        refused = self.table.write(
            "take leases",
            *(self._hold(edge, run, free, {":now": number(self.table.now())}) for edge in run.window.edges),
            *started(self.table, run),
        )
        if refused is None:
            return None
        return _holder(refused, run)

    def renew(self, run: Run, lane: int = 0) -> Lease:
        """See `Leases.renew`: one transaction over both edges and the lane's fence."""
        attempt = uuid.uuid4().hex  # fresh, for the successor of a time-out is of the same run
        held_until = self.table.now() + run.lease_seconds
        refused = self.table.write(
            "renew leases",
            *(self._hold(edge, run, "#grant = :grant") for edge in run.window.edges),
            self._fence(run, lane, attempt),
        )
        if refused is not None:
            raise LeaseLost("the run no longer holds the edges of its window")
        return Lease(run, attempt, held_until, lane)

    def confirm(self, lease: Lease) -> None:
        """See `Leases.confirm`: one read of both edges and the fence."""
        keys = [*map(edge_key, lease.run.window.edges), fence_key(lease.run, lease.lane)]
        found = list(self.table.get("confirm lease", keys))
        holders = [item for item in found if item.get("Grant") == text(lease.run.grant)]
        if len(holders) < len(lease.run.window.edges):
            raise LeaseLost("the run no longer holds the edges of its window")
        if not any(item.get("Attempt") == text(lease.attempt) for item in found):
            raise LeaseLost("a later attempt has begun")

    def release(self, owner: LeaseOwner) -> None:
        """See `Leases.release`: an edge that another execution holds by now stays that one's."""
        for edge in owner.window.edges:
            self.table.delete("release leases", edge_key(edge), "Holder", text(owner.execution_id))

    def _fence(self, run: Run, lane: int, attempt: str) -> Write:
        fence = {**fence_key(run, lane), "Attempt": text(attempt), "ExpiresAt": self.table.expiry()}
        return {"Put": {"TableName": self.table.name, "Item": fence}}

    def _hold(self, edge: str, run: Run, condition: str, values: Mapping[str, Any] | None = None) -> Write:
        names = {
            "#holder": "Holder",
            "#grant": "Grant",
            "#run": "RunId",
            "#window": "WindowStart",
            "#until": "HeldUntil",
            "#expires": "ExpiresAt",
        }
        changes = (
            "#holder = :holder, #grant = :grant, #run = :run, #window = :window, #until = :until, #expires = :expires"
        )
        return {
            "Update": {
                "TableName": self.table.name,
                "Key": edge_key(edge),
                "UpdateExpression": f"SET {changes}",
                "ConditionExpression": condition,
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": {
                    ":holder": text(run.execution_id),
                    ":grant": text(run.grant),
                    ":run": text(run.run_id),
                    ":window": text(run.window.start_text),
                    ":until": number(self.table.now() + run.lease_seconds),
                    ":expires": self.table.expiry(),
                    **(values or {}),
                },
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        }


def _holder(refused: list[Row], run: Run) -> Holder:
    """Who holds this run's own window; a neighbour that holds one of its edges is waited for instead."""
    held = [reason["Item"] for reason in refused if reason.get("Item")]
    for item in held:
        if item["WindowStart"] == text(run.window.start_text):
            return Holder(item["RunId"]["S"], int(item["HeldUntil"]["N"]))
    if not held:
        raise TransientError("take leases: the holder gave the edge back meanwhile")
    raise WindowBusy(f"the run of window {held[0]['WindowStart']['S']} holds an edge of this one")
