"""A Map whose items start executions and wait for them: what moto's interpreter lacks of it.

Nothing runs side by side: an item begins when the one before it has ended.
"""

from datetime import datetime
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError
from moto.stepfunctions.parser.api import ExecutionFailedEventDetails
from moto.stepfunctions.parser.asl.component.common.error_name.error_name import ErrorName
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration import iteration_worker
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.inline_iteration_component import (
    InlineIterationComponent,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.iteration_worker import IterationWorker
from moto.stepfunctions.parser.asl.component.state.exec.state_map.iteration.job import JobPool
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import state_task_service_sfn
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_sfn import (
    StateTaskServiceSfn,
)
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.eval.program_state import ProgramStopped

_set_error: Final = Environment.set_error
ENDED: Final = {"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"}


def run_in_turn(patch: pytest.MonkeyPatch, client: Any, refusals: list[str]) -> None:
    """Let items and the executions that they start run one after the other.

    `client` starts the executions; the next starts are refused with the codes in `refusals`, which it uses up.
    """
    patch.setattr(InlineIterationComponent, "_launch_worker", _work_at_once)
    patch.setattr(iteration_worker, "CustomErrorName", _ErrorOfItem)
    patch.setattr(state_task_service_sfn, "boto_client_for", lambda **_: _Starter(client, refusals))
    patch.setattr(StateTaskServiceSfn, "_eval_integration_pattern", _take_the_result)
    patch.setattr(StateTaskServiceSfn, "_normalise_response", _write_as_aws)
    patch.setattr(Environment, "set_error", _fail_unless_stopped)


class _ErrorOfItem(ErrorName):  # type: ignore[misc]  # moto has no types
    """Of any name: moto refuses to let an item fail with one of the language's own, such as `States.TaskFailed`."""


class _Starter:
    """Starts executions by the names that the language gives to the fields, and never two of one name."""

    def __init__(self, client: Any, refusals: list[str]) -> None:
        self._client = client
        self._refusals = refusals

    # The fields' names are those of a definition.
    def start_execution(self, StateMachineArn: str, Name: str, Input: str) -> dict[str, Any]:  # noqa: N803
        if self._refusals:
            raise _refusal(self._refusals.pop(0))
        if self._has_ended(f"{StateMachineArn.replace(':stateMachine:', ':execution:')}:{Name}"):
            raise _refusal("ExecutionAlreadyExists")  # moto would answer with the one that has ended
        started = self._client.start_execution(stateMachineArn=StateMachineArn, name=Name, input=Input)
        return {"ExecutionArn": started["executionArn"], "StartDate": _milliseconds(started["startDate"])}

    def describe_execution(self, executionArn: str) -> Any:  # noqa: N803 -- as moto's resolver calls it
        return self._client.describe_execution(executionArn=executionArn)

    def _has_ended(self, arn: str) -> bool:
        try:
            return self.describe_execution(arn)["status"] in ENDED
        except self._client.exceptions.ExecutionDoesNotExist:
            return False


def _refusal(code: str) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": code},
        "ResponseMetadata": {"HTTPStatusCode": 400, "RequestId": "1"},
    }
    return ClientError(answer, "StartExecution")


def _work_at_once(
    component: InlineIterationComponent, env: Environment, eval_input: Any, job_pool: JobPool
) -> IterationWorker:
    """Let the first worker of a Map do all of its items, one after the other, before there is another worker."""
    worker = component._create_worker(env=env, eval_input=eval_input, job_pool=job_pool)  # noqa: SLF001 -- moto's own
    worker.eval()
    return worker


def _take_the_result(service: StateTaskServiceSfn, env: Environment, **context: Any) -> None:
    """Take the result of an execution that has ended by now; moto would leave a thread waiting beside it.

    A starter that was stopped meanwhile takes none, as it waits for none.
    """
    resolve = service._build_sync2_resolver(env=env, **context)  # noqa: SLF001 -- moto's own
    assert resolve
    env.stack.append(resolve() if env.is_running() else None)


def _fail_unless_stopped(environment: Environment, error: ExecutionFailedEventDetails) -> None:
    """Let what was stopped stay stopped, though an item that was cut off by that is an error to moto."""
    if not isinstance(environment.program_state(), ProgramStopped):
        _set_error(environment, error)


def _write_as_aws(
    _service: StateTaskServiceSfn, response: dict[str, Any], _boto_service: str | None = None, **_: Any
) -> None:
    """Name the fields of an execution's description as AWS does, in a task's result and in the cause of its failure."""
    for name in [name for name in response if name[0].islower()]:
        value = response.pop(name)
        response[name[0].upper() + name[1:]] = _milliseconds(value) if isinstance(value, datetime) else value


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
