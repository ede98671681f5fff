"""Lay out lanes: `{"Run", "Others", "Round"}` to `{"Progress", "Lanes", "Concurrency", "Round"}`."""

from typing import Any

from functions.domain.run import Others, Run, field_of
from functions.handlers import wiring
from functions.handlers.observed import deadline_of, logger
from functions.usecases.lay_out_lanes import lay_out_lanes


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Find the lanes that are left to do; raises by the stable error names."""
    run, others = Run.from_state(event["Run"]), Others.from_state(event["Others"])
    rounds = field_of(event, "Round", int) + 1
    layout = lay_out_lanes(run, others, wiring.dispatch(), wiring.journal(), deadline_of(context))
    logger.info(
        "lanes laid out",
        extra={
            "RunId": run.run_id,
            "WindowStart": run.window.start_text,
            "Round": rounds,
            "Lanes": len(layout.lanes),
            **layout.progress.totals.to_state(),
        },
    )
    return layout.to_state(run, rounds)
