"""The pieces of a reconcile in the ledger's table: each a row that is written once."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from functions.adapters.clients import translated
from functions.adapters.ledger_table import LedgerTable, Row, key, text
from functions.domain.errors import TransientError
from functions.domain.reconcile import Piece, Step
from functions.domain.staging import pack, unpack


@dataclass(frozen=True, slots=True)
class DynamoPieces:
    """`Pieces` on DynamoDB."""

    table: LedgerTable

    def find(self, execution_id: str, step: Step, number: int) -> Piece | None:
        """See `Pieces.find`."""
        with translated("read piece"):
            response = self.table.client.get_item(
                TableName=self.table.name, Key=_key(execution_id, step, number), ConsistentRead=True
            )
        row = response.get("Item")
        return _piece(row) if row else None

    def record(self, execution_id: str, step: Step, piece: Piece) -> Piece:
        """See `Pieces.record`: the row is never replaced."""
        client = self.table.client
        row: Row = {
            **_key(execution_id, step, piece.number),
            "Cursor": text(json.dumps(piece.cursor)),
            "Counts": text(json.dumps(dict(piece.counts))),
            "ExpiresAt": self.table.expiry(),
        }
        if piece.staged:
            row |= {"StagedKey": text(piece.staged.key), "StagedIndex": {"B": pack(piece.staged)}}
        with translated("record piece"):
            try:
                client.put_item(
                    TableName=self.table.name,
                    Item=row,
                    ConditionExpression="attribute_not_exists(#pk)",
                    ExpressionAttributeNames={"#pk": "Pk"},
                )
            except client.exceptions.ConditionalCheckFailedException:
                recorded = self.find(execution_id, step, piece.number)
                if recorded is None:
                    raise TransientError("record piece: the piece is gone that was there") from None
                return recorded
        return piece

    def of(self, execution_id: str, step: Step) -> Iterator[Piece]:
        """See `Pieces.of`."""
        return map(_piece, self.table.query(_partition(execution_id), f"{step}#"))


def _partition(execution_id: str) -> str:
    return f"reconcile#{execution_id}"


def _key(execution_id: str, step: Step, number: int) -> Row:
    return key(_partition(execution_id), f"{step}#{number:06}")


def _piece(row: Row) -> Piece:
    staged = unpack(row["StagedKey"]["S"], row["StagedIndex"]["B"]) if "StagedKey" in row else None
    number = int(row["Sk"]["S"].rpartition("#")[2])
    return Piece(number, json.loads(row["Cursor"]["S"]), json.loads(row["Counts"]["S"]), staged)
