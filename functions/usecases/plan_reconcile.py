"""What a reconcile will compare, decided once from its input and the time it started."""

from collections.abc import Mapping
from typing import Any

from functions.domain.errors import InvalidInput
from functions.domain.execution import run_id_of
from functions.domain.reconcile import Reconcile
from functions.domain.run import field_of
from functions.usecases.window_input import WindowInput, validated


class ReconcileInput(WindowInput):
    """The input of the reconcile state machine."""

    AuditTable: bool = False


def plan_reconcile(execution: Mapping[str, Any], shards: int, still_waiting_hours: int) -> Reconcile:
    """Read the execution's input and fix what holds for the whole reconcile; nothing else is read.

    `execution` is the state machine's `$$.Execution`: `Input`, `Name` and `StartTime` are used.

    Raises:
        InvalidInput: the input breaks the contract, or names an hour that has not ended; the message names the field.
    """
    given = validated(ReconcileInput, execution.get("Input"))
    started_at = field_of(execution, "StartTime", str)
    window = given.closed_window(started_at)
    reconcile = Reconcile(
        execution_id=run_id_of(field_of(execution, "Name", str), started_at),
        taken_at=started_at,
        window=window,
        shards=shards,
        still_waiting_hours=still_waiting_hours,
        audit_table=given.AuditTable,
    )
    try:
        _ = reconcile.windows
    except OverflowError:
        message = "the hours around the window lie outside the years 1 to 9999"
        raise InvalidInput(f"{given.time_field}: {message}") from None
    return reconcile
