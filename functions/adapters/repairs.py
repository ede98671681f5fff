"""What is asked and kept of redos, in the ledger's table."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from functions.adapters.clients import translated
from functions.adapters.ledger_table import LedgerTable, approval_key, key, text
from functions.domain.run import Run


@dataclass(frozen=True, slots=True)
class DynamoRepairs:
    """`Repairs` on DynamoDB."""

    table: LedgerTable

    def ask(self, execution: str, token: str) -> None:
        """See `Repairs.ask`."""
        row = {**approval_key(execution), "Token": text(token), "ExpiresAt": self.table.expiry()}
        with translated("note approval"):
            self.table.client.put_item(TableName=self.table.name, Item=row)

    def keep(self, run: Run, repair: Mapping[str, Any]) -> None:
        """See `Repairs.keep`: the row has no `ExpiresAt`."""
        row = {
            **key(f"redo#{run.window.start_text}", f"{run.run_id}#{run.execution_id}"),
            "Repair": text(json.dumps(dict(repair))),
        }
        with translated("keep repair"):
            self.table.client.put_item(TableName=self.table.name, Item=row)
