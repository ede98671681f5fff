"""Redos that wait for a second person: what they ask, and how they are answered."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.adapters.ledger_table import approval_key
from functions.domain.redo import Redo
from functions.domain.run import Counts
from functions.domain.window import Window
from tools.application import Application
from tools.command_line import command_line
from tools.runs.machines import Machine, execution_arn
from tools.runs.records import NAMES_LOOKED_AT, RUNNING, SHORTEST_NAME, UnknownRunError

ASKING_STATE: Final = "Ask for approval"
NO_EXECUTION: Final = ("ExecutionDoesNotExist", "InvalidArn")
NOT_WAITING: Final = ("InvalidToken", "TaskDoesNotExist", "TaskTimedOut")


class NotWaitingError(RuntimeError):
    """The execution waits for no answer; the message says which one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """How a question was answered, as far as the execution's history tells."""

    at: datetime
    approved: bool | None
    by: str | None
    """Both are None where nobody has answered in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a redo asks a second person: what it would dispatch, by its dry run, and who wants that and why."""

    execution: str
    window: Window
    redo: Redo
    counts: Counts
    already_dispatched: int
    no_longer_waiting: int
    samples: tuple[str, ...]
    """The keys of some of the records."""
    given: Given | None = None
    """The answer; None while it waits for one."""


def question_of(application: Application, execution: str) -> Question | None:
    """What an execution has asked last; None where it has not asked."""
    if _row(application.dynamodb, application.deployment.outputs["LedgerTableName"], execution) is None:
        return None
    pages = application.stepfunctions.get_paginator("get_execution_history").paginate(
        executionArn=execution, reverseOrder=True
    )
    given: Given | None = None
    for event in (event for page in pages for event in page["events"]):
        left: Any = event.get("stateExitedEventDetails", {})
        if left.get("name") == ASKING_STATE:
            said = json.loads(left.get("output") or "{}").get("Answer") or {}
            given = Given(
                at=event["timestamp"].astimezone(UTC), approved=said.get("Approved"), by=said.get("By") or None
            )
        entered: Any = event.get("stateEnteredEventDetails", {})
        if entered.get("name") == ASKING_STATE:
            state = json.loads(entered["input"])
            count = state["Count"]
            return Question(
                execution=execution,
                window=Window.starting(state["Run"]["WindowStart"]),
                redo=Redo.from_state(state["Redo"]),
                counts=Counts.from_state(count["Progress"]["Totals"]),
                already_dispatched=count["AlreadyDispatched"],
                no_longer_waiting=count["NoLongerWaiting"],
                samples=tuple(count["Samples"]),
                given=given,
            )
    return None


def waiting(application: Application) -> Iterator[Question]:
    """What the redos ask that run and wait for an answer, newest first."""
    for execution in _executions(application, statusFilter=RUNNING):
        question = question_of(application, execution)
        if question is not None and question.given is None:
            yield question


def execution_of(application: Application, name: str) -> tuple[str, str]:
    """The ARN of the redo's execution that a name, the beginning of a name, or an ARN names, and its status.

    Raises:
        UnknownRunError: there is none, or several begin so.
    """
    arn = execution_arn(application, Machine.REDO, name)
    with suppress(UnknownRunError):
        return arn, _status(application, arn)
    if len(name) >= SHORTEST_NAME and not name.startswith("arn:"):
        newest = islice(_executions(application), NAMES_LOOKED_AT)
        begun = [each for each in newest if each.rpartition(":")[2].startswith(name)]
        if len(begun) > 1:
            raise UnknownRunError(f"the names of {len(begun)} redos begin with {name}: give more of it")
        if begun:
            return begun[0], _status(application, begun[0])
    listing = command_line("status")
    raise UnknownRunError(f"no redo {name} is known; `{listing}` lists those that wait for an approval")


def _status(application: Application, execution: str) -> str:
    try:
        return application.stepfunctions.describe_execution(executionArn=execution)["status"]
    except ClientError as error:
        if error.response["Error"]["Code"] not in NO_EXECUTION:
            raise
        raise UnknownRunError(execution) from None


def _executions(application: Application, **filters: Any) -> Iterator[str]:
    """The redos' executions, newest first."""
    request: dict[str, Any] = {"stateMachineArn": application.deployment.outputs["RedoStateMachineArn"], **filters}
    pages = application.stepfunctions.get_paginator("list_executions").paginate(**request)
    return (execution["executionArn"] for page in pages for execution in page["executions"])


def answer(  # noqa: PLR0913 -- where it goes, and what a person says
    dynamodb: Any, stepfunctions: Any, ledger: str, execution: str, *, approved: bool, by: str
) -> None:
    """Hand the answer to the execution, by the token that it left in the ledger; it is judged there.

    Raises:
        NotWaitingError: it never asked, has its answer, or has ended.
    """
    row = _row(dynamodb, ledger, execution)
    if row is None:
        raise NotWaitingError(f"{execution} has not asked for an approval.")
    output = json.dumps({"Approved": approved, "By": by})
    try:
        stepfunctions.send_task_success(taskToken=row["Token"]["S"], output=output)
    except ClientError as error:
        if error.response["Error"]["Code"] not in NOT_WAITING:
            raise
        raise NotWaitingError(f"{execution} waits for no answer any more.") from None


def _row(dynamodb: Any, ledger: str, execution: str) -> Mapping[str, Any] | None:
    """The ledger's row of an execution's question."""
    row: Mapping[str, Any] | None = dynamodb.get_item(
        TableName=ledger, Key=approval_key(execution), ConsistentRead=True
    ).get("Item")
    return row
