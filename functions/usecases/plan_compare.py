"""What a comparison will read, decided once: it is planned as the paged dry run of the same input."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from functions.domain.flags import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE
from functions.domain.lane import MAX_SLICES
from functions.domain.run import Deployment, Run, field_of
from functions.usecases.plan_run import plan_run
from functions.usecases.ports import Parameters
from functions.usecases.window_input import WindowInput, validated


class CompareInput(WindowInput):
    """The input of the compare state machine."""

    PageSize: int = Field(default=DEFAULT_PAGE_SIZE, ge=1, le=MAX_PAGE_SIZE)
    Slices: int = Field(default=1, ge=1, le=MAX_SLICES)


def plan_compare(execution: Mapping[str, Any], parameters: Parameters, deployment: Deployment) -> Run:
    """Read the execution's input, then the parameters, and fix what holds for the whole comparison.

    `execution` is the state machine's `$$.Execution`: `Input`, `Name` and `StartTime` are used.

    Raises:
        InvalidInput: the input breaks the contract, or names an hour that has not ended; the message names the field.
    """
    given = validated(CompareInput, execution.get("Input"))
    given.closed_window(field_of(execution, "StartTime", str))
    paged = {"PaginationEnabled": True, "Grouping": "page", "DryRun": True}
    return plan_run({**execution, "Input": given.model_dump(exclude_unset=True) | paged}, parameters, deployment)
