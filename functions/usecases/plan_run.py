"""What a run will do, decided once from its input, the deployed parameters and the time it started."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from functions.domain.errors import InvalidInput
from functions.domain.execution import run_id_of
from functions.domain.flags import (
    DEFAULT_PAGE_SIZE,
    GROUPING,
    MAX_PAGE_SIZE,
    PAGE_SIZE,
    PAGINATION_ENABLED,
    SET_ASIDE_LIMIT,
    groups_by_window,
    is_clear_true,
    page_size_of,
    set_aside_limit_of,
)
from functions.domain.lane import MAX_RANGES, MAX_SLICES
from functions.domain.run import Deployment, Path, Run, field_of
from functions.usecases.ports import Parameters
from functions.usecases.window_input import WindowInput, validated


class RunInput(WindowInput):
    """The input of the dispatch state machine."""

    PaginationEnabled: bool = False
    PageSize: int = Field(default=DEFAULT_PAGE_SIZE, ge=1, le=MAX_PAGE_SIZE)
    Grouping: Literal["page", "window"] = "page"
    Slices: int = Field(default=1, ge=1, le=MAX_SLICES)
    DryRun: bool = False
    Resume: bool = False


def plan_run(execution: Mapping[str, Any], parameters: Parameters, deployment: Deployment) -> Run:
    """Read the execution's input, then the parameters, and fix what holds for the whole run.

    `execution` is the state machine's `$$.Execution`: `Input`, `Name` and `StartTime` are used.

    Raises:
        InvalidInput: the input breaks the contract; the message names the field, and nothing was read.
    """
    given = validated(RunInput, execution.get("Input"))
    if given.DryRun and given.Resume:
        raise InvalidInput("Resume: given together with DryRun; a dry run goes on with nothing")
    started_at = field_of(execution, "StartTime", str)
    window = given.window(started_at)
    deployed = parameters.read()
    paged = is_clear_true(deployed.get(PAGINATION_ENABLED, ""))
    if "PaginationEnabled" in given.model_fields_set:
        paged = given.PaginationEnabled
    by_window = groups_by_window(deployed.get(GROUPING, ""))
    if "Grouping" in given.model_fields_set:
        by_window = given.Grouping == "window"
    path = (Path.GROUPED if by_window else Path.PAGED) if paged else Path.FULL
    if given.Slices > 1 and path is Path.FULL:
        raise InvalidInput("Slices: given without pagination; the full path reads its window at once")
    if given.Slices * max(deployment.shards, 1) > MAX_RANGES:
        raise InvalidInput(f"Slices: at most {MAX_RANGES // deployment.shards} with {deployment.shards} shards")
    page_size = page_size_of(deployed.get(PAGE_SIZE, ""))
    if "PageSize" in given.model_fields_set:
        page_size = given.PageSize
    execution_id = run_id_of(field_of(execution, "Name", str), started_at)
    return Run(
        run_id=execution_id,
        execution_id=execution_id,
        started_at=started_at,
        window=window,
        path=path,
        page_size=page_size,
        dry_run=given.DryRun,
        set_aside_limit=set_aside_limit_of(deployed.get(SET_ASIDE_LIMIT, "")),
        lease_seconds=path.lease_seconds,
        resume=given.Resume,
        given=tuple(sorted(given.model_fields_set)),
        redrives=int(execution.get("RedriveCount") or 0),
        slices=given.Slices,
        shards=deployment.shards,
        concurrency=deployment.concurrency,
        page_budget=deployment.page_budget,
    )
