"""What a run will do, decided once from its input, the deployed parameters and the time it started."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
from functions.domain.window import Window, parse_instant
from functions.usecases.ports import Parameters

_SAID: Final = {
    "extra_forbidden": "unknown field",
    "missing": "missing",
    "model_type": "expected an object",
}
_Model = TypeVar("_Model", bound=BaseModel)


class RunInput(BaseModel):
    """The input of the dispatch state machine; unknown fields and nulls are refused.

    Which fields were given is asked of `model_fields_set`: the defaults here stand for "not given".
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    ExecuteTime: str = ""
    Data: str = ""
    PaginationEnabled: bool = False
    PageSize: int = Field(default=DEFAULT_PAGE_SIZE, ge=1, le=MAX_PAGE_SIZE)
    Grouping: Literal["page", "window"] = "page"
    Slices: int = Field(default=1, ge=1, le=MAX_SLICES)
    DryRun: bool = False
    Resume: bool = False


class SenderData(BaseModel):
    """What is read of the JSON inside `Data`; its other fields are its sender's and ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    ExecuteTime: str


def plan_run(execution: Mapping[str, Any], parameters: Parameters, deployment: Deployment) -> Run:
    """Read the execution's input, then the parameters, and fix what holds for the whole run.

    `execution` is the state machine's `$$.Execution`: `Input`, `Name` and `StartTime` are used.

    Raises:
        InvalidInput: the input breaks the contract; the message names the field, and nothing was read.
    """
    given = _validated(RunInput, execution.get("Input"), "")
    if given.DryRun and given.Resume:
        raise InvalidInput("Resume: given together with DryRun; a dry run goes on with nothing")
    started_at = field_of(execution, "StartTime", str)
    window = _window_of(given, started_at)
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


def _window_of(given: RunInput, started_at: str) -> Window:
    """The window of the one time that was given, or of the execution's start."""
    if {"ExecuteTime", "Data"} <= given.model_fields_set:
        raise InvalidInput("ExecuteTime: given together with Data; expected one of them")
    name, text = "StartTime", started_at
    if "ExecuteTime" in given.model_fields_set:
        name, text = "ExecuteTime", given.ExecuteTime
    elif "Data" in given.model_fields_set:
        name, text = "Data.ExecuteTime", _validated(SenderData, _json_of(given.Data), "Data").ExecuteTime
    try:
        return Window.before(parse_instant(text))
    except ValueError as error:
        raise InvalidInput(f"{name}: {error}") from None


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("Data: expected a JSON object as text") from None


def _validated(model: type[_Model], value: Any, prefix: str) -> _Model:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        field = ".".join([prefix] * bool(prefix) + [str(part)[:80] for part in first["loc"]])
        raise InvalidInput(f"{field or 'input'}: {_SAID.get(first['type'], first['msg'])}") from None
