"""Fold pages: `{"Run", "Others", "Progress"}` to the final `Progress`."""

from typing import Any

from functions.handlers.observed import logger
from functions.handlers.page_task import do_page
from functions.usecases.fold_pages import fold_pages


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Fold the staged pages of one lane into one object; raises by the stable error names."""
    return do_page(
        event, context, lambda run, progress, _, dispatch, deadline: fold_pages(run, progress, dispatch, deadline)
    )
