"""Runs as Step Functions and the ledger would show them: staged, without either."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from botocore.exceptions import ClientError

from functions.adapters.ledger_table import execution_key, plan_name, plans_partition, run_key
from functions.domain.cursor import Token
from functions.domain.execution import run_id_of
from functions.domain.run import Counts
from functions.domain.window import Window, utc_text
from tools.application import Application
from tools.deployment import Deployment

MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:dispatch"
LANES = "arn:aws:states:eu-west-1:123456789012:stateMachine:lane"
EXECUTIONS = MACHINE.replace("stateMachine", "execution")
OUTPUTS = {
    "DispatchStateMachineArn": MACHINE,
    "LaneStateMachineArn": LANES,
    "RedoStateMachineArn": MACHINE.replace("dispatch", "redo"),
    "LedgerTableName": "ledger",
    "TaskDataBucketName": "bucket",
    "BookingTableName": "bookings",
    "SetAsideLimitParameter": "/limit",
    "StopParameter": "/stop",
    "PaginationEnabledParameter": "/paging",
    "GroupingParameter": "/grouping",
    "PageSizeParameter": "/page-size",
    "ScheduleName": "hourly",
    "PointTaskQueueUrl": "https://points",
    "CouponTaskQueueUrl": "https://coupons",
    "PointTaskDeadLetterQueueUrl": "https://points-dead",
    "CouponTaskDeadLetterQueueUrl": "https://coupons-dead",
    "ScheduleDeadLetterQueueUrl": "https://schedule-dead",
    "ReconcileScheduleDeadLetterQueueUrl": "https://reconcile-dead",
    "WatchDeadLetterQueueUrl": "https://watch-dead",
}
WINDOW = Window.starting("2026-09-17T15:00:00Z")
START = datetime(2026, 9, 17, 16, 1, 10, 250_000, tzinfo=UTC)
ONE_PAGE = Counts(pages=1, evaluated=10, waiting=8, dispatched=5, already_dispatched=2, set_aside=1, groups=4, tasks=5)


def token(place: str) -> Token:
    """A token of the window."""
    return {"RecordId": {"S": place}, "BookingDateUTC": {"S": WINDOW.date}, "BookingTimeUTC": {"S": "15:20:00Z"}}


def totals(pages: int) -> Counts:
    """What so many pages did."""
    return sum((ONE_PAGE for _ in range(pages)), Counts())


def progress(page: int, lane: int = 0, *, more: bool = True) -> dict[str, Any]:
    """The state's `Progress` before a page."""
    start = token(f"R{page}") if page > 1 and more else None
    return {"Lane": lane, "Page": page, "Token": start, "HasMore": more, "Totals": totals(page - 1).to_state()}


@dataclass
class Staged:
    """Step Functions and the ledger, each as far as runs are looked at; it counts the rows that are read."""

    executions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By their ARN, oldest first."""
    histories: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    rows_read: int = 0

    @property
    def application(self) -> Application:
        """The application that shows it."""
        application = Application(Deployment("", "eu-west-1", OUTPUTS))
        application.__dict__.update(stepfunctions=self, dynamodb=self)
        return application

    def execution(  # noqa: PLR0913 -- what Step Functions tells of one
        self,
        name: str,
        *,
        status: str = "SUCCEEDED",
        output: Mapping[str, Any] | None = None,
        error: str | None = None,
        detail: Mapping[str, Any] | None = None,
        given: Any = None,
        minutes: int = 0,
    ) -> str:
        """Add an execution that was started `minutes` after the first one; its ARN."""
        arn, start = f"{EXECUTIONS}:{name}", START + timedelta(minutes=minutes)
        described = {"executionArn": arn, "name": name, "status": status, "startDate": start}
        described["input"] = json.dumps({"ExecuteTime": WINDOW.end_text} if given is None else given)
        if status != "RUNNING":
            described["stopDate"] = start + timedelta(seconds=20)
        if output is not None:
            described["output"] = json.dumps(output)
        if error is not None:
            described |= {"error": error, "cause": json.dumps({"errorMessage": json.dumps(detail)})}
        self.executions[arn] = described
        self.histories.setdefault(arn, [])
        return arn

    def journal(
        self, run: str, *executions: str, outcome: str | None = None, detail: Mapping[str, Any] | None = None
    ) -> str:
        """Note that these executions worked on the run that the one named `run` began; the run's id."""
        run_id = self.id_of(run)
        for name in executions or (run,):
            execution = execution_key(self.id_of(name))
            self.rows.append(execution | {"RunId": {"S": run_id}, "WindowStart": {"S": WINDOW.start_text}})
        row: dict[str, Any] = run_key(WINDOW, run_id)
        row |= {"ExecutionId": {"S": self.id_of((executions or (run,))[-1])}, "Path": {"S": "paged"}}
        row |= {
            "StartedAt": {"S": utc_text(START)},
            "PageSize": {"N": "10"},
            "Slices": {"N": "1"},
            "Shards": {"N": "0"},
        }
        if outcome is not None:
            row |= {"Outcome": {"S": outcome}, "Detail": {"S": json.dumps(detail)}}
        self.rows.append(row)
        return run_id

    def plan(  # noqa: PLR0913 -- what a plan's row holds
        self,
        run_id: str,
        page: int,
        *,
        lane: int = 0,
        last: bool = False,
        finished: bool = True,
        counts: Counts = ONE_PAGE,
    ) -> None:
        """Note the plan of a page; one that was noted before is replaced."""
        place = {"Pk": {"S": plans_partition(WINDOW, run_id)}, "Sk": {"S": f"row#{plan_name(lane, page)}"}}
        self.rows = [row for row in self.rows if not place.items() <= row.items()]
        following = None if last else token(f"R{page + 1}")
        row = {"Counts": {"S": json.dumps(counts.to_state())}, "NextToken": {"S": json.dumps(following)}}
        self.rows.append(place | row | {"Finished": {"BOOL": finished}})

    def id_of(self, name: str) -> str:
        """An execution's id in the journal."""
        return run_id_of(name, utc_text(self.executions[f"{EXECUTIONS}:{name}"]["startDate"]))

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:  # noqa: N803 - AWS's name
        if executionArn not in self.executions:
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist"}}, "DescribeExecution")
        return self.executions[executionArn]

    def get_execution_history(self, *, executionArn: str, **_: Any) -> dict[str, Any]:  # noqa: N803 - AWS's name
        return {"events": self.histories[executionArn][:-11:-1]}

    def get_paginator(self, operation: str) -> "Pages":
        return Pages(self, operation)

    def batch_get_item(self, *, RequestItems: dict[str, Any]) -> dict[str, Any]:  # noqa: N803 - AWS's name
        ((table, wanted),) = RequestItems.items()
        keys = wanted["Keys"]
        assert 0 < len(keys) <= 100
        assert len({json.dumps(key) for key in keys}) == len(keys), "DynamoDB refuses a key that is asked for twice"
        return {"Responses": {table: [row for row in self.rows if any(key.items() <= row.items() for key in keys)]}}


@dataclass
class Pages:
    """The pages of one operation."""

    staged: Staged
    operation: str

    def paginate(self, **request: Any) -> Iterator[dict[str, Any]]:
        match self.operation:
            case "list_executions":
                newest = sorted(self.staged.executions.values(), key=lambda each: each["startDate"], reverse=True)
                status = request.get("statusFilter")
                yield {"executions": [each for each in newest if status in (None, each["status"])]}
            case "get_execution_history":
                if request["executionArn"] not in self.staged.histories:
                    raise ClientError({"Error": {"Code": "ExecutionDoesNotExist"}}, "GetExecutionHistory")
                yield {"events": self.staged.histories[request["executionArn"]]}
            case "query":
                values = {name: value["S"] for name, value in request["ExpressionAttributeValues"].items()}
                start = request.get("ExclusiveStartKey", {}).get("Sk", {}).get("S", "")
                assert not start or start.startswith(values[":prefix"]), "DynamoDB refuses a start outside of the range"
                found = [row for row in self.staged.rows if row["Pk"]["S"] == values[":pk"]]
                found = [
                    row for row in found if row["Sk"]["S"].startswith(values[":prefix"]) and row["Sk"]["S"] > start
                ]
                self.staged.rows_read += len(found)
                yield {"Items": sorted(found, key=lambda row: str(row["Sk"]["S"]))}


class Tape:
    """An execution's history, event by event, one second after the other."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._seconds = count()

    def task(
        self,
        state: str,
        before: Mapping[str, Any] | None = None,
        after: Mapping[str, Any] | None = None,
        *,
        errors: Sequence[tuple[str, str]] = (),
        output: Mapping[str, Any] | None = None,
    ) -> "Tape":
        """A stay in a task's state: attempts with these errors, then one that succeeds unless `after` is None."""
        self._add("TaskStateEntered", "stateEntered", name=state, input=json.dumps({"Progress": before}))
        resource = {"resourceType": "lambda", "resource": "arn:aws:states:::lambda:invoke"}
        for error, message in errors:
            self._add("TaskScheduled", "taskScheduled", **resource)
            self._add("TaskFailed", "taskFailed", **resource, error=error, cause=json.dumps({"errorMessage": message}))
        if after is not None:
            self._add("TaskScheduled", "taskScheduled", **resource)
            self._add("TaskSucceeded", "taskSucceeded", **resource, output="{}")
        if after is not None or errors:
            state_after = {"Progress": before if after is None else after, **(output or {})}
            self._add("TaskStateExited", "stateExited", name=state, output=json.dumps(state_after))
        return self

    def lane(self) -> "Tape":
        """An execution of a lane that is waited for, and its failure."""
        resource = {"resourceType": "states", "resource": "arn:aws:states:::states:startExecution.sync:2"}
        self._add("TaskStateEntered", "stateEntered", name="Dispatch lane", input="{}")
        self._add("TaskScheduled", "taskScheduled", **resource)
        self._add("TaskFailed", "taskFailed", **resource, error="States.TaskFailed", cause="{}")
        self._add("TaskStateExited", "stateExited", name="Dispatch lane", output="{}")
        return self

    def _add(self, kind: str, details: str, **content: str) -> None:
        moment = START + timedelta(seconds=next(self._seconds))
        self.events.append({"type": kind, "timestamp": moment, f"{details}EventDetails": content})


def summary(outcome: str, run_id: str, counts: Counts) -> dict[str, Any]:
    """The output of an execution."""
    hour = {"WindowStart": WINDOW.start_text, "WindowEnd": WINDOW.end_text}
    return {"Outcome": outcome, "RunId": run_id, **hour, "Path": "paged", "PageSize": 10, **counts.to_state()}
