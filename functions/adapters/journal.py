"""The journal: a row for each run of a window, and one for each execution, to find a run by."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from functions.adapters.clients import translated
from functions.adapters.ledger_table import (
    PLAN_ROW,
    Filter,
    LedgerTable,
    Row,
    Write,
    execution_key,
    number,
    outline,
    plans_partition,
    run_key,
    runs_partition,
    text,
)
from functions.domain.plan import Plan
from functions.domain.run import LeaseOwner, Others, Path, Run, RunIds
from functions.domain.window import Window
from functions.usecases.ports import JournalEntry

RUN: Final = "run#"
MAX_CARRIED: Final = 12
"""Ids have up to 97 characters; the state stays under 8 KB."""


@dataclass(frozen=True, slots=True)
class DynamoJournal:
    """`Journal` on DynamoDB."""

    table: LedgerTable

    def others(self, run: Run) -> Others:
        """See `Journal.others`: one query for each of the three windows."""
        return Others(
            *(
                _carried([run_id for run_id in run_ids(self.table, window) if run_id != run.run_id])
                for window in (run.window.previous, run.window, run.window.next)
            )
        )

    def last_run(self, window: Window) -> JournalEntry | None:
        """See `Journal.last_run`; run ids begin with the time of their start, so the last row is the latest run."""
        runs = [entry for entry in runs_of(self.table, window) if entry.path != Path.REDO]
        return runs[-1] if runs else None

    def outlines(self, owner: LeaseOwner) -> Iterator[Plan]:
        """See `Journal.outlines`."""
        return map(outline, self.table.query(plans_partition(owner.window, owner.run_id), PLAN_ROW))

    def in_doubt(self, run: Run, others: Others) -> bool:
        """See `Journal.in_doubt`: a query for each other run, up to the first plan found."""
        window = run.window
        return any(
            True
            for of_window, carried in (
                (window.previous, others.before),
                (window, others.own),
                (window.next, others.after),
            )
            for run_id in (run_ids(self.table, of_window) if carried is None else carried)
            if run_id != run.run_id
            for _ in self.table.query(
                plans_partition(of_window, run_id),
                PLAN_ROW,
                Filter("#finished = :false", {"#finished": "Finished"}, {":false": {"BOOL": False}}),
            )
        )

    def owner_of(self, execution_id: str, ended_at: float = math.inf) -> LeaseOwner | None:
        """See `Journal.owner_of`."""
        with translated("read journal"):
            response = self.table.client.get_item(
                TableName=self.table.name, Key=execution_key(execution_id), ConsistentRead=True
            )
        item = response.get("Item")
        if item is None or int(item["TakenAt"]["N"]) > ended_at:
            return None
        return LeaseOwner(item["RunId"]["S"], execution_id, Window.starting(item["WindowStart"]["S"]))

    def is_open(self, owner: LeaseOwner) -> bool:
        """See `Journal.is_open`."""
        with translated("read journal"):
            response = self.table.client.get_item(
                TableName=self.table.name, Key=run_key(owner.window, owner.run_id), ConsistentRead=True
            )
        row = response.get("Item", {})
        return row.get("ExecutionId") == text(owner.execution_id) and "Outcome" not in row

    def conclude(self, owner: LeaseOwner, outcome: str, detail: Mapping[str, Any]) -> bool:
        """See `Journal.conclude`."""
        client = self.table.client
        with translated("conclude run"):
            try:
                client.update_item(
                    TableName=self.table.name,
                    Key=run_key(owner.window, owner.run_id),
                    UpdateExpression="SET #outcome = :outcome, #detail = :detail",
                    ConditionExpression="#execution = :execution AND attribute_not_exists(#outcome)",
                    ExpressionAttributeNames={
                        "#outcome": "Outcome",
                        "#detail": "Detail",
                        "#execution": "ExecutionId",
                    },
                    ExpressionAttributeValues={
                        ":outcome": text(outcome),
                        ":detail": text(json.dumps(detail)),
                        ":execution": text(owner.execution_id),
                    },
                )
            except client.exceptions.ConditionalCheckFailedException:
                return False
        return True


def _carried(found: list[str]) -> RunIds:
    """At most so many that three windows' ids fit into the state."""
    return tuple(found) if len(found) <= MAX_CARRIED else None


def run_ids(table: LedgerTable, window: Window) -> list[str]:
    """The runs of a window that ever held it, by start time."""
    return [row["Sk"]["S"].removeprefix(RUN) for row in table.query(runs_partition(window), RUN)]


def runs_of(table: LedgerTable, window: Window) -> list[JournalEntry]:
    """The same, with what is known of each."""
    return [_entry(row) for row in table.query(runs_partition(window), RUN)]


def started(table: LedgerTable, run: Run) -> Iterator[Write]:
    """The writes by which a run stands in the journal: begun for the first time, or gone on with."""
    names = {"StartedAt", "Path", "PageSize", "Slices", "Shards", "ExecutionId", "ExpiresAt"}
    yield {
        "Update": {
            "TableName": table.name,
            "Key": run_key(run.window, run.run_id),
            "UpdateExpression": (
                "SET #StartedAt = if_not_exists(#StartedAt, :StartedAt), #Path = :Path, #PageSize = :PageSize, "
                "#Slices = :Slices, #Shards = :Shards, #ExecutionId = :ExecutionId, #ExpiresAt = :ExpiresAt "
                "REMOVE #Outcome, #Detail"
            ),
            "ExpressionAttributeNames": {f"#{name}": name for name in (*names, "Outcome", "Detail")},
            "ExpressionAttributeValues": {
                ":StartedAt": text(run.started_at),
                ":Path": text(run.path.value),
                ":PageSize": number(run.page_size),
                ":Slices": number(run.slices),
                ":Shards": number(run.shards),
                ":ExecutionId": text(run.execution_id),
                ":ExpiresAt": table.expiry(),
            },
        }
    }
    execution: Row = {
        **execution_key(run.execution_id),
        "RunId": text(run.run_id),
        "WindowStart": text(run.window.start_text),
        "TakenAt": number(table.now()),
        "ExpiresAt": table.expiry(),
    }
    yield {"Put": {"TableName": table.name, "Item": execution}}


def _entry(row: Row) -> JournalEntry:
    return JournalEntry(
        run_id=row["Sk"]["S"].removeprefix(RUN),
        started_at=row["StartedAt"]["S"],
        path=row["Path"]["S"],
        page_size=int(row["PageSize"]["N"]),
        slices=int(row["Slices"]["N"]),
        shards=int(row["Shards"]["N"]),
        outcome=row["Outcome"]["S"] if "Outcome" in row else None,
    )
