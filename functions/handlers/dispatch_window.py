"""Dispatch whole window: `{"Run", "Others", "Progress"}` to the final `Progress`."""

from typing import Any

from functions.handlers.observed import logger
from functions.handlers.page_task import do_page
from functions.usecases.dispatch_window import dispatch_window


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Read the whole window at once and dispatch it, the old way; raises by the stable error names."""
    return do_page(event, context, dispatch_window)
