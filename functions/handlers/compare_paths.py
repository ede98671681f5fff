"""Compare paths: `{"Run"}` to the machine's output."""

from typing import Any

from functions.domain.run import Run
from functions.handlers import wiring
from functions.handlers.observed import logger
from functions.usecases.compare_paths import compare_paths


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Compare the paths over one reading of the window; raises by the stable error names."""
    stack = wiring.report_settings().stack_name
    output = compare_paths(Run.from_state(event["Run"]), stack, wiring.bookings(), wiring.reports())
    logger.info("window compared", extra=output)
    return output
