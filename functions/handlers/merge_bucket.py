"""Merge bucket: `{"Run", "Others", "Progress"}` to the next `Progress`."""

from typing import Any

from functions.handlers.observed import logger
from functions.handlers.page_task import do_page
from functions.usecases.merge_bucket import merge_bucket


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Merge and dispatch as many chunks of a bucket range as time allows; raises by the stable error names."""
    return do_page(event, context, merge_bucket)
