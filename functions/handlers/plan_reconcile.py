"""Plan reconcile: `{"Execution": $$.Execution}` to the state's `{"Reconcile", "Loop", "Audit"}`."""

from typing import Any

from functions.domain.reconcile import Loop
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.plan_reconcile import plan_reconcile


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Decide what is compared; raises `InvalidInput` by name."""
    settings = wiring.reconcile_settings()
    reconcile = plan_reconcile(event["Execution"], settings.booking_shards, settings.still_waiting_hours)
    logger.info("reconcile planned", extra=reconcile.to_state())
    return {
        "Reconcile": reconcile.to_state(),
        "Loop": Loop().to_state(),
        "Audit": Loop(has_more=reconcile.audit_table).to_state(),
    }
