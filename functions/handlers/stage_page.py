"""Stage page: `{"Run", "Others", "Progress"}` to the next `Progress`."""

from typing import Any

from functions.handlers.observed import logger
from functions.handlers.page_task import do_page
from functions.usecases.stage_page import stage_page


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Stage one page and return where the next one starts; raises by the stable error names."""
    return do_page(
        event, context, lambda run, progress, _, dispatch, deadline: stage_page(run, progress, dispatch, deadline)
    )
