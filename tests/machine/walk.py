"""The real state machines on moto's interpreter, with the real handlers in this process and moto's stores beneath.

Nothing waits: pauses move the functions' clock instead of being slept, and an execution has ended when `run` returns.
A walk that would not end is ended by the machines' own time-outs, shortened, or by a ceiling on invocations.  Uploads,
sends and lanes go one after the other, so that the same walk makes the same calls in the same order.
"""

import contextlib
import copy
import functools
import gc
import hashlib
import importlib
import io
import itertools
import json
import re
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeAlias

import boto3
import botocore.session
import pytest
from aws_lambda_powertools import Metrics
from moto.sns import sns_backends
from moto.sqs import sqs_backends
from moto.stepfunctions.parser.asl.component.common.flow.start_at import StartAt
from moto.stepfunctions.parser.asl.component.program.program import Program
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.eval.environment import Environment
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.asl.utils import json_path
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker, SyncExecutionWorker

from functions.adapters import pool
from functions.domain.budget import PAGE_FUNCTION_SECONDS, SMALL_FUNCTION_SECONDS, WINDOW_FUNCTION_SECONDS
from functions.domain.pack import Layout
from functions.handlers import observed, piece_task, wiring, write_report
from tests.machine import nested
from tests.machine.faults import Call, Calls, ProcessDied, When

DEFINITIONS: Final = Path(__file__).parents[2] / "statemachine"
DEFINITION: Final = DEFINITIONS / "dispatch.asl.json"
LANE_DEFINITION: Final = DEFINITIONS / "lane.asl.json"
RECONCILE_DEFINITION: Final = DEFINITIONS / "reconcile.asl.json"
COMPARE_DEFINITION: Final = DEFINITIONS / "compare.asl.json"
REDO_DEFINITION: Final = DEFINITIONS / "redo.asl.json"
PLACEHOLDER: Final = re.compile(r"\$\{(\w+?)FunctionArn\}")
LANE_MACHINE: Final = "${LaneStateMachineArn}"
STATES: Final = {
    name
    for path in (DEFINITION, RECONCILE_DEFINITION, COMPARE_DEFINITION, REDO_DEFINITION)
    for name in json.loads(path.read_text(encoding="utf-8"))["States"]
}

SECONDS_OF: Final = {
    **dict.fromkeys(("DispatchPage", "LayOutLanes", "StagePage", "FoldPages", "MergeBucket"), PAGE_FUNCTION_SECONDS),
    **dict.fromkeys(
        ("ReadBookings", "AuditTable", "ReadObjects", "ReadPlans", "CompareRecords", "WriteReport"),
        PAGE_FUNCTION_SECONDS,
    ),
    **dict.fromkeys(("DispatchWindow", "ComparePaths"), WINDOW_FUNCTION_SECONDS),
    **dict.fromkeys(("PlanRedo", "CountMissing", "RedoPage"), PAGE_FUNCTION_SECONDS),
}
MAX_STATE_BYTES: Final = 8192
MAX_LAYOUT_BYTES: Final = 262_144
"""Of a state that holds the lanes which are to be done: what Step Functions takes."""
MAX_INVOCATIONS: Final = 300
MAX_DELIVERIES: Final = 3
WALK_SECONDS: Final = 60

ACCOUNT: Final = "123456789012"
REGION: Final = "us-east-1"
BOOKINGS: Final = "bookings"
INDEX: Final = "BookingDateUTC-BookingTimeUTC-index"
LEDGER: Final = "ledger"
BUCKET: Final = "task-data"
QUEUES: Final = {"Point": "points.fifo", "ECoupon": "coupons.fifo"}

State: TypeAlias = dict[str, Any]
StandIn: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Stands in for an invocation: it is given the function itself, and returns or raises what the machine gets to see."""


class FunctionError(Exception):
    """A function's end as Lambda reports it: a name and a text."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class InvokeError(Exception):
    """What the call of a function ends with when Lambda itself refuses it, or the task gives up on it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Sent(NamedTuple):
    """A task on a queue, with the records of its object in the object's order."""

    route: str
    task_id: str
    group: tuple[Any, Any, Any]
    records: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of a function: what it was given, and what it returned or the name of its error."""

    function: str
    payload: State
    result: Any
    error: str | None


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution that has ended; once redriven, `history` is what came since."""

    name: str
    context: State
    """What the machine saw as `$$.Execution`."""
    status: str
    started_at: str
    output: State
    error: str | None
    cause: str
    history: list[State]

    @property
    def report(self) -> State:
        """What a failed execution says of itself: the JSON under `errorMessage` of its cause."""
        report: State = json.loads(json.loads(self.cause)["errorMessage"])
        return report

    @property
    def visited(self) -> list[str]:
        """The states, in the order in which they were entered."""
        return [name for event in self.history if (name := event.get("stateEnteredEventDetails", {}).get("name"))]

    @property
    def last_entered(self) -> tuple[str, Any]:
        """The state that it ended in, and that state's input; a Map, not what it was doing for an item."""
        entered = [event["stateEnteredEventDetails"] for event in self.history if "stateEnteredEventDetails" in event]
        last = [state for state in entered if state["name"] in STATES][-1]
        return last["name"], json.loads(last["input"])

    @property
    def states(self) -> list[str]:
        """The state as text, wherever a state of the machine was entered or left; only moto escapes its characters."""
        sides = (("stateEnteredEventDetails", "input"), ("stateExitedEventDetails", "output"))
        texts = (event[side][text] for event in self.history for side, text in sides if text in event.get(side, {}))
        return [json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) for text in texts]


class Account:
    """The stores, seen and filled from outside."""

    def __init__(self) -> None:
        _create_table(BOOKINGS, ["RecordId"], ["BookingDateUTC", "BookingTimeUTC"])
        _create_table(LEDGER, ["Pk", "Sk"], [])
        _own("s3").create_bucket(Bucket=BUCKET)
        self.urls: dict[str, str] = {
            route: _own("sqs").create_queue(QueueName=name, Attributes={"FifoQueue": "true"})["QueueUrl"]
            for route, name in QUEUES.items()
        }
        self.topic: str = _own("sns").create_topic(Name="alarms")["TopicArn"]

    def book(self, *bookings: State) -> None:
        """Put bookings into the table."""
        for start in range(0, len(bookings), 25):
            requests = [{"PutRequest": {"Item": booking}} for booking in bookings[start : start + 25]]
            assert not _own("dynamodb").batch_write_item(RequestItems={BOOKINGS: requests})["UnprocessedItems"]

    def strip(self, record: str, *attributes: str) -> None:
        """Take attributes off a booking."""
        names = {f"#{place}": name for place, name in enumerate(attributes)}
        _own("dynamodb").update_item(
            TableName=BOOKINGS,
            Key={"RecordId": {"S": record}},
            UpdateExpression=f"REMOVE {', '.join(names)}",
            ExpressionAttributeNames=names,
        )

    def cancel(self, record: str) -> None:
        """Take a booking out of the table."""
        _own("dynamodb").delete_item(TableName=BOOKINGS, Key={"RecordId": {"S": record}})

    def flag(self, name: str, value: str) -> None:
        """Set a parameter: `PaginationEnabled`, `PageSize`, `Grouping` or `SetAsideLimit`."""
        _own("ssm").put_parameter(Name=f"/flags/{name}", Value=value, Type="String", Overwrite=True)

    @property
    def messages(self) -> list[tuple[str, State]]:
        """Route and content of every message on the queues, points first, oldest first; this receives none of them."""
        queues = sqs_backends[ACCOUNT][REGION].queues
        return [(route, json.loads(one.body)) for route, name in QUEUES.items() for one in queues[name].messages]

    @property
    def told(self) -> list[tuple[str, str]]:
        """Subject and text of every message to the topic, oldest first."""
        sent = sns_backends[ACCOUNT][REGION].topics[self.topic].sent_notifications
        return [(str(subject), text) for _, text, subject, *_ in sent]

    @property
    def tasks(self) -> list[Sent]:
        """The tasks on the queues, in the order of `messages`; an error if the body of one is not there."""
        return [_sent(route, content, self.task_body) for route, content in self.messages]

    @property
    def records(self) -> list[str]:
        """The records of all tasks, sorted: one that stands in two tasks is there twice."""
        return sorted(record for task in self.tasks for record in task.records)

    @property
    def objects(self) -> list[str]:
        """The keys in the bucket."""
        pages = _own("s3").get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def read(self, key: str) -> Any:
        """An object's content."""
        return json.loads(_own("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def task_body(self, data: State) -> Any:
        """What a message's `Data` points at."""
        content: bytes = _own("s3").get_object(Bucket=BUCKET, Key=data["Key"])["Body"].read()
        if "Range" in data:
            content = content[data["Range"]["Start"] :][: data["Range"]["Length"]]
            assert hashlib.sha256(content).hexdigest() == data["Sha256"]
        return json.loads(content)

    def put(self, key: str, body: bytes = b"{}") -> None:
        """Put an object into the bucket."""
        _own("s3").put_object(Bucket=BUCKET, Key=key, Body=body)

    @property
    def ledger(self) -> list[State]:
        """The rows of the ledger."""
        pages = _own("dynamodb").get_paginator("scan").paginate(TableName=LEDGER)
        return [row for page in pages for row in page["Items"]]

    @property
    def leases(self) -> list[State]:
        """The edges that are held."""
        return [row for row in self.ledger if row["Pk"]["S"].startswith("edge#")]

    @property
    def everything(self) -> tuple[object, ...]:
        """What a run can change."""
        return self.ledger, self.objects, self.messages


class Walk:
    """The machine and its functions on an account; `patch` undoes what this puts into the process."""

    def __init__(self, account: Account, patch: pytest.MonkeyPatch) -> None:
        self.calls = Calls()
        self.invocations: list[Invocation] = []
        self.pauses: list[float] = []
        """The seconds that machine and functions would have waited."""
        self.log = io.StringIO()
        """All that the functions wrote."""
        self.watched = False
        """Whether the recorder is told of every execution that ends badly, as the rule on status changes does it."""
        self.max_invocations = MAX_INVOCATIONS
        self.lanes: list[Execution] = []
        """The executions of the lane machine that have ended, in the order of their ends."""
        self.refused_starts: list[str] = []
        """The codes with which the next starts of lanes are refused."""
        self._stand_ins: list[tuple[str, StandIn]] = []
        self._followed = ""
        self._broken: list[str] = []
        self._names = (f"run-{number:03}" for number in itertools.count(1))  # in their order also as texts
        self._now = time.time()
        self._arns: dict[str, str] = {}
        self._environments: dict[str, Environment] = {}
        self._redriven: Execution | None = None
        self._environment = patch
        self._account = account
        self._patch(patch, account)
        lane_machine = _create_machine("lane", LANE_DEFINITION)
        self._machine = _create_machine("dispatch", DEFINITION, lane_machine)
        self._reconcile_machine = _create_machine("reconcile", RECONCILE_DEFINITION)
        self._compare_machine = _create_machine("compare", COMPARE_DEFINITION)
        self._redo_machine = _create_machine("redo", REDO_DEFINITION)

    def stand_in(self, function: str, stand_in: StandIn, times: int = 1) -> None:
        """Let `stand_in` take the next `times` invocations of a function."""
        self._stand_ins += [(function, stand_in)] * times

    def run(self, given: object, name: str = "") -> Execution:
        """Start an execution with this input and follow it to its end."""
        name = name or next(self._names)
        return self._follow(self._machine, name, name, given)

    def reconcile(self, given: object) -> Execution:
        """Start a reconcile with this input and follow it to its end."""
        name = next(self._names)
        return self._follow(self._reconcile_machine, name, name, given)

    def compare(self, given: object) -> Execution:
        """Start a comparison with this input and follow it to its end."""
        name = next(self._names)
        return self._follow(self._compare_machine, name, name, given)

    def redo(self, given: object) -> Execution:
        """Start a redo with this input and follow it to its end."""
        name = next(self._names)
        return self._follow(self._redo_machine, name, name, given)

    def answer(self, approved: bool, by: str, times: int = 1) -> None:  # noqa: FBT001 -- what a person says
        """Let this person answer the next times that a redo asks, with its token that stands in the ledger.

        A redo that died while it asked may have left another one, which nobody waits for.
        """

        def asked(own: Callable[[], Any]) -> Any:
            result = own()
            questions = {row["Pk"]["S"]: row["Token"]["S"] for row in self._account.ledger if "Token" in row}
            [token] = (token for question, token in questions.items() if question.endswith(f":redo:{self._followed}"))
            output = json.dumps({"Approved": approved, "By": by})
            _own("stepfunctions").send_task_success(taskToken=token, output=output)
            return result

        self.stand_in("AskForApproval", asked, times)

    def redrive(self, execution: Execution) -> Execution:
        """Redrive an execution that ended badly, and follow it to its end.

        As on AWS, the state that it ended in runs again with the same input; name, id and start time stay, the redrive
        is counted, and the retriers begin anew.
        """
        assert execution.status != "SUCCEEDED"
        self._redriven = execution
        _, given = execution.last_entered
        machine = execution.context["Id"].rpartition(":")[0].replace(":execution:", ":stateMachine:")
        return self._follow(machine, execution.name, f"{execution.name}-redrive-{_redrives(execution) + 1}", given)

    def _follow(self, machine: str, name: str, own_name: str, given: object) -> Execution:
        """`own_name` is the name that the execution has in moto, where a redrive is another execution."""
        client = _own("stepfunctions")
        self._followed = name
        self._arns[name] = f"{machine.replace(':stateMachine:', ':execution:')}:{own_name}"
        client.start_execution(stateMachineArn=machine, name=own_name, input=json.dumps(given))
        execution = _ended(self._arns[name], self._environments[self._arns[name]])
        assert not self._broken, self._broken
        for text in (text for one in (execution, *self.lanes) for text in one.states):
            assert len(text.encode()) < (MAX_LAYOUT_BYTES if _holds_lanes(text) else MAX_STATE_BYTES), text
        if self.watched and execution.status != "SUCCEEDED":
            self.record_end(execution)
        return execution

    def record_end(self, execution: Execution) -> None:
        """Tell the recorder that the execution ended, again where it fails, but not for ever."""
        change = {
            "executionArn": execution.context["Id"],
            "name": execution.name,
            "startDate": int(datetime.fromisoformat(execution.started_at).timestamp() * 1000),
            "status": execution.status,
        }
        for _ in range(MAX_DELIVERIES):
            try:
                return self.invoke("RecordEnd", {"detail": change})  # type: ignore[no-any-return]  # a handler's result
            except (ProcessDied, Exception) as error:  # noqa: BLE001 -- whatever ends it, it is delivered again
                self.log.write(f"[ERROR] {json.dumps(_reported(error))}\n")
        return None

    @property
    def starts(self) -> list[str | None]:
        """Where each read of the index began: the record of its ExclusiveStartKey."""
        keys = [call.request.get("ExclusiveStartKey") for call in self.calls.made if reads_bookings(call)]
        return [key and key["RecordId"]["S"] for key in keys]

    def let_pass(self, seconds: float) -> None:
        """Move the functions' clock, which stands still otherwise."""
        self._now += seconds

    def stop(self, name: str) -> None:
        """Stop the execution of this name, and with it the lanes that it waits for."""
        client = _own("stepfunctions")
        lanes = [arn for arn, environment in self._environments.items() if _starter_of(environment) == name]
        for arn in (*lanes, self._arns[name]):
            if client.describe_execution(executionArn=arn)["status"] == "RUNNING":
                client.stop_execution(executionArn=arn)

    def set(self, variable: str, value: str) -> None:
        """Give the functions another value of an environment variable, as a deployment with another setting does."""
        self._environment.setenv(variable, value)
        forget_clients()

    def invoke(self, function: str, payload: State) -> Any:
        """Call a function's handler; raises what it raises."""
        handler = importlib.import_module(f"functions.handlers.{_module_of(function)}").handler
        context = SimpleNamespace(
            function_name=function,
            memory_limit_in_mb=512,
            invoked_function_arn=_arn_of(function),
            aws_request_id=f"request-{len(self.invocations)}",
            get_remaining_time_in_millis=lambda: 1000 * SECONDS_OF.get(function, SMALL_FUNCTION_SECONDS),
        )
        with self.calls.made_by(function, payload), contextlib.redirect_stdout(self.log):
            return handler(payload, context)

    def _patch(self, patch: pytest.MonkeyPatch, account: Account) -> None:
        for name, value in _environment(account).items():
            patch.setenv(name, value)
        session = _session()
        self.calls.listen(session)
        patch.setattr(boto3, "DEFAULT_SESSION", session)
        forget_clients()
        for counting in (observed, write_report):
            patch.setattr(counting, "metrics", Metrics())
        patch.setattr(observed.logger.registered_handler, "stream", self.log)
        patch.setattr(pool, "_executor", _InTurn)
        for module in (wiring, observed, piece_task):
            patch.setattr(module, "time", SimpleNamespace(time=lambda: self._now))
        patch.setattr(time, "sleep", self._pause)
        patch.setattr(ExecutionWorker, "start", _with(self._walk_through))
        nested.run_in_turn(patch, _own("stepfunctions"), self.refused_starts)
        patch.setattr(ExecutionWorker, "_get_evaluation_entrypoint", _with(self._started))
        patch.setattr(ExecutionWorker, "_get_evaluation_environment", _with(self._entered))
        patch.setattr(AmazonStateLanguageParser, "parse", _parse_once)
        patch.setattr(json_path, "parse", _parse_path_once)
        patch.setattr(lambda_eval_utils, "_invoke_lambda_function", self._invoke_as_lambda)

    def _walk_through(self, worker: ExecutionWorker) -> None:
        """Follow an execution to its end, before its starter goes on."""
        SyncExecutionWorker.start(worker)
        assert worker.env
        if _starter_of(worker.env):
            self.lanes.append(_ended(_context_of(worker.env)["Id"], worker.env))

    def _started(self, worker: ExecutionWorker) -> Program:
        """The machine, from its start or from where the execution is redriven."""
        program = _program_of(worker)
        if self._redriven:
            program = copy.copy(program)
            program.start_at = StartAt(self._redriven.last_entered[0])
        return program

    def _entered(self, worker: ExecutionWorker) -> Environment:
        """What the machine works in; a redriven execution goes under its own name."""
        environment = _environment_of(worker)
        context = _context_of(environment)
        self._environments[context["Id"]] = environment
        if self._redriven:
            count, at = _redrives(self._redriven) + 1, self._redriven.started_at
            context |= {**self._redriven.context, "RedriveCount": count, "RedriveTime": at}
            self._redriven = None
        return environment

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.let_pass(seconds)

    def _invoke_as_lambda(self, parameters: State, region: str, state_credentials: object) -> State:
        """Lambda's Invoke, as the interpreter calls it."""
        del region, state_credentials
        if len(self.invocations) == self.max_invocations:
            raise RuntimeError(f"more than {self.max_invocations} invocations")
        function = parameters["FunctionName"].rsplit(":", 1)[1]
        payload = self._plain(function, json.loads(parameters["Payload"]))
        own = functools.partial(self.invoke, function, payload)
        result: Any = None
        failure: State | None = None
        outside: Exception | None = None
        try:
            result = self._plain(function, self._stand_in_for(function)(own))
        except InvokeError as error:
            outside = error.error
        except (ProcessDied, Exception) as error:  # noqa: BLE001 -- as Lambda, which reports whatever ends a function
            failure = _reported(error)
            self.log.write(f"[ERROR] {json.dumps(failure)}\n")
        name = type(outside).__name__ if outside else failure["errorType"] if failure else None
        self.invocations.append(Invocation(function, payload, result, name))
        if outside:
            raise outside
        if failure:
            return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": failure}
        return {"StatusCode": 200, "ExecutedVersion": "$LATEST", "Payload": result}

    def _stand_in_for(self, function: str) -> StandIn:
        for place, (name, stand_in) in enumerate(self._stand_ins):
            if name == function:
                del self._stand_ins[place]
                return stand_in
        return lambda own: own()

    def _plain(self, function: str, value: Any) -> Any:
        """What is left of a value on its way through JSON: all of it, or the walk fails."""
        try:
            plain = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            plain = f"no JSON: {error}"
        if plain != value:
            self._broken.append(f"{function}: {plain}")
        return plain


def forget_clients() -> None:
    """Let the functions make their clients anew, as a new process would, and the collector take the old ones."""
    for made_once in vars(wiring).values():
        if hasattr(made_once, "cache_clear"):
            made_once.cache_clear()
    gc.unfreeze()


class _InTurn(Executor):
    """Does each piece of work when it is handed in."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 -- as every executor, which keeps whatever ended a piece
            done.set_exception(error)
        return done


def booking(record: str, **attributes: str | State) -> State:
    """A booking of the contract's example, group A at 15:03:00 for points, but for the attributes given.

    A text is a string attribute; anything else stands as it is, typed.
    """
    typical = {
        "RecordId": {"S": record},
        "BookingDateUTC": {"S": "2026-09-17"},
        "BookingTimeUTC": {"S": "15:03:00Z"},
        "RewardStatus": {"S": "WaitToReward"},
        "RewardType": {"S": "Point"},
        "ShopId": {"N": "1001"},
        "MemberId": {"N": "2001"},
        "PromotionEngineId": {"N": "3001"},
        "OrderTime": {"S": "2026-09-17T14:50:00Z"},
    }
    return typical | {name: {"S": value} if isinstance(value, str) else value for name, value in attributes.items()}


def reads_bookings(call: Call) -> bool:
    """Whether a call is a query of the bookings index."""
    return call.request.get("IndexName") == INDEX


def five_members() -> list[State]:
    """R1 to R5, of members 1 to 5, at 15:01 to 15:05."""
    return [booking(f"R{n}", BookingTimeUTC=f"15:0{n}:00Z", **group_of(1, n, 1)) for n in range(1, 6)]


def uploads_of(member: int) -> When:
    """The uploads of a member's tasks."""
    return lambda call: call.operation == "PutObject" and f'"MemberId":{member},'.encode() in call.request["Body"]


def worked_example() -> list[State]:
    """The contract's seven bookings; R1 to R5 lie in the window from 15:00 to 16:00."""
    a, b, c = ((1001, 2001, 3001), (1001, 2002, 3002), (1002, 2003, 3003))
    records = (
        ("R0", "14:59:59Z", "WaitToReward", a, "Point", "14:10"),
        ("R1", "15:03:00Z", "WaitToReward", a, "Point", "14:50"),
        ("R2", "15:20:00Z", "WaitToReward", a, "Point", "14:30"),
        ("R3", "15:45:00Z", "WaitToReward", b, "ECoupon", "15:10"),
        ("R4", "15:48:00Z", "Rewarded", c, "Point", "15:15"),
        ("R5", "15:59:00Z", "WaitToReward", c, "Point", "15:30"),
        ("R6", "16:00:01Z", "WaitToReward", c, "Point", "15:40"),
    )
    return [
        booking(
            record,
            BookingTimeUTC=time,
            RewardStatus=status,
            RewardType=reward,
            OrderTime=f"2026-09-17T{ordered}:00Z",
            **group_of(*group),
        )
        for record, time, status, group, reward, ordered in records
    ]


def group_of(shop: int, member: int, engine: int) -> State:
    """The attributes of a group."""
    return {"ShopId": {"N": str(shop)}, "MemberId": {"N": str(member)}, "PromotionEngineId": {"N": str(engine)}}


_parse_once: Final = functools.cache(AmazonStateLanguageParser.parse)
"""Reading the definition takes moto longer than to walk it, and it does so for every execution."""
_parse_path_once: Final = functools.cache(json_path.parse)
_program_of: Final = ExecutionWorker._get_evaluation_entrypoint  # noqa: SLF001 -- where moto finds StartAt
_environment_of: Final = ExecutionWorker._get_evaluation_environment  # noqa: SLF001 -- where moto makes $$


def _with(method: Callable[[ExecutionWorker], Any]) -> Callable[[ExecutionWorker], Any]:
    """A plain function, for a class hands its instance to such a one only, and not to a method of ours."""

    def of_worker(worker: ExecutionWorker) -> Any:
        return method(worker)

    return of_worker


def _context_of(environment: Environment) -> State:
    context: State = environment.states.context_object.context_object_data["Execution"]
    return context


def _starter_of(environment: Environment) -> str | None:
    """The name of the execution that started this one; none did where it is a run's own."""
    given = _context_of(environment)["Input"]
    starter = given.get("AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID") if isinstance(given, dict) else None
    return starter and str(starter).rpartition(":")[2]


def _ended(arn: str, environment: Environment) -> Execution:
    """An execution that has ended, as it says of itself."""
    described = _own("stepfunctions").describe_execution(executionArn=arn)
    assert described["status"] in {"SUCCEEDED", "FAILED", "ABORTED"}, described["status"]
    context = _context_of(environment)
    return Execution(
        name=context["Name"],
        context=context,
        status=described["status"],
        started_at=context["StartTime"].isoformat(),
        output=json.loads(described.get("output", "{}")),
        error=described.get("error"),
        cause=described.get("cause", ""),
        history=environment.event_manager.get_event_history(),
    )


def _holds_lanes(text: str) -> bool:
    """Whether a state holds lanes that are to be done."""
    state = json.loads(text)
    return isinstance(state, dict) and bool(state.get("Layout", {}).get("Lanes"))


def _redrives(execution: Execution) -> int:
    return int(execution.context.get("RedriveCount", 0))


def _create_machine(name: str, path: Path, lane_machine: str = "") -> str:
    text = PLACEHOLDER.sub(lambda found: _arn_of(found[1]), path.read_text(encoding="utf-8"))
    definition = json.loads(text.replace(LANE_MACHINE, lane_machine))
    definition["TimeoutSeconds"] = WALK_SECONDS
    created = _own("stepfunctions").create_state_machine(
        name=name,
        definition=json.dumps(definition),
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/machine",
    )
    return str(created["stateMachineArn"])


def _create_table(name: str, key: list[str], index: list[str]) -> None:
    def schema(names: list[str]) -> list[State]:
        return [{"AttributeName": each, "KeyType": "RANGE" if place else "HASH"} for place, each in enumerate(names)]

    indexes = [{"IndexName": INDEX, "KeySchema": schema(index), "Projection": {"ProjectionType": "ALL"}}]
    _own("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": attribute, "AttributeType": "S"} for attribute in key + index],
        KeySchema=schema(key),
        **({"GlobalSecondaryIndexes": indexes} if index else {}),
    )


def _environment(account: Account) -> dict[str, str]:
    flags = {
        "PAGINATION_ENABLED": "PaginationEnabled",
        "PAGE_SIZE": "PageSize",
        "GROUPING": "Grouping",
        "SET_ASIDE_LIMIT": "SetAsideLimit",
        "STOP": "Stop",
    }
    return {
        "BOOKING_TABLE_NAME": BOOKINGS,
        "BOOKING_INDEX_NAME": INDEX,
        "BOOKING_KEY_ATTRIBUTES": '["RecordId"]',
        "BOOKING_DATE_ATTRIBUTE": "BookingDateUTC",
        "BOOKING_SHARDS": "0",
        "LANE_CONCURRENCY": "8",
        "PAGE_BUDGET": "2000",
        "LEDGER_TABLE_NAME": LEDGER,
        "TASK_DATA_BUCKET_NAME": BUCKET,
        "POINT_TASK_QUEUE_URL": account.urls["Point"],
        "COUPON_TASK_QUEUE_URL": account.urls["ECoupon"],
        "ALARM_TOPIC_ARN": account.topic,
        "STILL_WAITING_HOURS": "24",
        "REDO_WITHOUT_APPROVAL": "0",
        "STACK_NAME": "BookingtimeDispatcherTest",
        "TASK_DATA_LAYOUT": Layout.OBJECT.value,
        "POWERTOOLS_METRICS_NAMESPACE": "BookingtimeDispatcher",
        **{f"{variable}_PARAMETER": f"/flags/{name}" for variable, name in flags.items()},
    }


def _sent(route: str, message: State, content: Callable[[State], Any]) -> Sent:
    data = json.loads(message["Data"])
    orders = content(data)["Orders"]
    group = (data["ShopId"], data["MemberId"], data["PromotionEngineId"])
    return Sent(route, message["TaskId"], group, tuple(order["RecordId"] for order in orders))


def _reported(error: BaseException) -> State:
    """What Lambda makes of a function's end: the class's name, the text and the stack trace."""
    if isinstance(error, ProcessDied):
        return {"errorType": "Runtime.ExitError", "errorMessage": "RequestId: 7 Error: Runtime exited without reason"}
    if isinstance(error, FunctionError):
        return {"errorType": error.name, "errorMessage": str(error)}
    trace = traceback.format_tb(error.__traceback__)
    return {"errorType": type(error).__name__, "errorMessage": str(error), "stackTrace": trace}


def _arn_of(function: str) -> str:
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{function}"


def _module_of(function: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", function).lower()


@functools.cache
def _data_loader() -> Any:
    """The service models, read once: most of what making a client costs."""
    return botocore.session.get_session().get_component("data_loader")


def _session() -> boto3.Session:
    core = botocore.session.get_session()
    core.register_component("data_loader", _data_loader())
    return boto3.Session(botocore_session=core, region_name=REGION)


@functools.cache
def _own(service: str) -> Any:
    """A client of the test's own: its calls are neither noted nor made to fail."""
    create: Callable[..., Any] = _session().client
    return create(service)
