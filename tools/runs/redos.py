"""Redos that wait for a second person: what they ask, and how they are answered."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from botocore.exceptions import ClientError

from functions.adapters.ledger_table import approval_key
from functions.domain.redo import Redo
from functions.domain.run import Counts
from functions.domain.window import Window
from tools.application import Application

ASKING_STATE: Final = "Ask for approval"
NOT_WAITING: Final = ("InvalidToken", "TaskDoesNotExist", "TaskTimedOut")


class NotWaitingError(RuntimeError):
    """The execution waits for no answer; the message says which one."""


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


def question_of(application: Application, execution: str) -> Question | None:
    """What an execution has asked last; None where it has not asked."""
    if _row(application.dynamodb, application.deployment.outputs["LedgerTableName"], execution) is None:
        return None
    pages = application.stepfunctions.get_paginator("get_execution_history").paginate(
        executionArn=execution, reverseOrder=True
    )
    for event in (event for page in pages for event in page["events"]):
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
            )
    return None


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
