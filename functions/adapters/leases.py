"""Leases: one item for each hour edge, taken two at a time, and a fence that names the run's current attempt."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from functions.adapters.clients import translated
from functions.adapters.ledger_table import (
    LedgerTable,
    Row,
    Write,
    edge_key,
    fence_key,
    key,
    number,
    runs_partition,
    text,
)
from functions.domain.errors import LeaseLost, TransientError, WindowBusy
from functions.domain.run import Others, Run
from functions.domain.window import Window
from functions.usecases.ports import Holder, Lease

_RUN: Final = "run#"


@dataclass(frozen=True, slots=True)
class DynamoLeases:
    """`Leases` on DynamoDB."""

    table: LedgerTable

    def take(self, run: Run) -> Holder | None:
        """See `Leases.take`: one transaction over both edges and the run's row."""
        free = "attribute_not_exists(#run) OR #run = :run OR #until < :now"
        started = {
            **key(runs_partition(run.window), f"{_RUN}{run.run_id}"),
            "StartedAt": text(run.started_at),
            "Path": text(run.path.value),
            "PageSize": number(run.page_size),
            "ExpiresAt": self.table.expiry(),
        }
        refused = self.table.write(
            "take leases",
            *(self._hold(edge, run, free, {":now": number(self.table.now())}) for edge in run.window.edges),
            {"Put": {"TableName": self.table.name, "Item": started}},
        )
        if refused is None:
            return None
        return _holder(refused, run)

    def others(self, run: Run) -> Others:
        """See `Leases.others`."""
        return Others(
            before=bool(self.run_ids(run.window.previous)),
            own=any(run_id != run.run_id for run_id in self.run_ids(run.window)),
            after=bool(self.run_ids(run.window.next)),
        )

    def run_ids(self, window: Window) -> list[str]:
        """The runs of a window that ever held it, by start time."""
        return [row["Sk"]["S"].removeprefix(_RUN) for row in self.table.query(runs_partition(window), _RUN)]

    def renew(self, run: Run) -> Lease:
        """See `Leases.renew`: one transaction over both edges and the fence."""
        attempt = uuid.uuid4().hex  # fresh, for the successor of a time-out is of the same run
        held_until = self.table.now() + run.lease_seconds
        fence = {**fence_key(run), "Attempt": text(attempt), "ExpiresAt": self.table.expiry()}
        refused = self.table.write(
            "renew leases",
            *(self._hold(edge, run, "#run = :run") for edge in run.window.edges),
            {"Put": {"TableName": self.table.name, "Item": fence}},
        )
        if refused is not None:
            raise LeaseLost("the run no longer holds the edges of its window")
        return Lease(run, attempt, held_until)

    def release(self, run: Run) -> None:
        """See `Leases.release`: an edge that another run holds by now stays that run's."""
        client = self.table.client
        for edge in run.window.edges:
            with translated("release leases"):
                try:
                    client.delete_item(
                        TableName=self.table.name,
                        Key=edge_key(edge),
                        ConditionExpression="#run = :run",
                        ExpressionAttributeNames={"#run": "RunId"},
                        ExpressionAttributeValues={":run": text(run.run_id)},
                    )
                except client.exceptions.ConditionalCheckFailedException:
                    continue

    def _hold(self, edge: str, run: Run, condition: str, values: Mapping[str, Any] | None = None) -> Write:
        names = {"#run": "RunId", "#window": "WindowStart", "#until": "HeldUntil", "#expires": "ExpiresAt"}
        return {
            "Update": {
                "TableName": self.table.name,
                "Key": edge_key(edge),
                "UpdateExpression": "SET #run = :run, #window = :window, #until = :until, #expires = :expires",
                "ConditionExpression": condition,
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": {
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
