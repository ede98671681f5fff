"""Hold the window's two edges before anything is read."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from functions.domain.run import Others, Run
from functions.domain.window import utc_text
from functions.usecases.ports import Holder, Leases


@dataclass(frozen=True, slots=True)
class Held:
    """Whether the run may work on its window: `holder` is the other run that does, or None."""

    holder: Holder | None
    others: Others


def take_leases(run: Run, leases: Leases) -> Held:
    """Take the edges, and learn which other runs' plans must be looked at; a dry run takes nothing.

    While the edges are held no other run can plan in this window or on its edges: the answer holds for the whole run.

    Raises:
        WindowBusy: a neighbouring window's run holds an edge.
    """
    if not run.dry_run:
        holder = leases.take(run)
        if holder is not None:
            return Held(holder, Others())
    return Held(None, leases.others(run))


def to_state(held: Held) -> dict[str, Any]:
    """`{"Held": true, "Holder": null, "Others": {...}}`, or false with `{"RunId", "HeldUntil"}` of the holder."""
    holder = held.holder
    return {
        "Held": holder is None,
        "Holder": holder
        and {"RunId": holder.run_id, "HeldUntil": utc_text(datetime.fromtimestamp(holder.held_until, UTC))},
        "Others": held.others.to_state(),
    }
