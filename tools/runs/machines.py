"""The machines that look after the dispatch machine: an execution of one, started and followed to its end."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from tools.application import Application, RunFailedError, detail_of
from tools.runs.records import RUNNING, SUCCEEDED

LONGEST_SECONDS: Final = 108_000.0
"""A redo waits for a day to be approved, and no machine lets an execution run for longer."""


class Machine(StrEnum):
    """Each by the beginning of its output's name."""

    RECONCILE = "Reconcile"
    COMPARE = "Compare"
    REDO = "Redo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An execution that has ended."""

    execution: str
    started: datetime
    ended: datetime
    error: str | None
    """The error's name, or how it was ended from outside; None where it ended well."""
    detail: Mapping[str, Any]
    """Its output, or what the cause of its failure says."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended - self.started).total_seconds()

    @property
    def message(self) -> str:
        """What its failure says, on one line."""
        return " ".join(str(self.detail.get("Message") or "").split())


def start(application: Application, machine: Machine, machine_input: Mapping[str, Any]) -> str:
    """Start an execution; its ARN."""
    started = application.stepfunctions.start_execution(
        stateMachineArn=_arn(application, machine), input=json.dumps(machine_input)
    )
    return started["executionArn"]


def execution_arn(application: Application, machine: Machine, name: str) -> str:
    """The ARN of an execution of a machine that is named by itself or by its ARN."""
    if name.startswith("arn:"):
        return name
    return f"{_arn(application, machine).replace(':stateMachine:', ':execution:')}:{name}"


def follow(application: Application, execution: str, meanwhile: Callable[[], None] = lambda: None) -> Ended:
    """What an execution came to, when it has ended, however it did; `meanwhile` is called whenever it was asked for.

    Raises:
        RunFailedError: it has not ended when its machine would have ended it.
    """
    try:
        application.output(execution, meanwhile, seconds=LONGEST_SECONDS)
    except RunFailedError:
        if application.stepfunctions.describe_execution(executionArn=execution)["status"] == RUNNING:
            raise
    described = application.stepfunctions.describe_execution(executionArn=execution)
    ended_well = described["status"] == SUCCEEDED
    return Ended(
        execution=execution,
        started=described["startDate"].astimezone(UTC),
        ended=described["stopDate"].astimezone(UTC),
        error=None if ended_well else described.get("error") or described["status"],
        detail=json.loads(described["output"]) if ended_well else detail_of(described),
    )


def _arn(application: Application, machine: Machine) -> str:
    return application.deployment.outputs[f"{machine}StateMachineArn"]
