"""Dispatch page: `{"Run", "Others", "Progress"}` to the next `Progress`."""

from typing import Any

from functions.handlers.observed import logger
from functions.handlers.page_task import do_page
from functions.usecases.dispatch_page import dispatch_page


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Do one page and return where the next one starts; raises by the stable error names."""
    return do_page(event, context, dispatch_page)
