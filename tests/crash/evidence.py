"""What the calls that had their effect tell: which tasks were sent, by which page, and what that page had decided.

A FIFO queue hides most repeats, so this counts what the queues were given, not what they keep.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from functions.adapters import plan_codec
from functions.domain.task import Task
from tests.machine.faults import Answer, Call
from tests.machine.walk import State


class Version(NamedTuple):
    """A record at one booking time."""

    record: str
    date: str
    time: str

    @classmethod
    def of(cls, order: Mapping[str, Any]) -> "Version":
        """The version that a task's order names."""
        return cls(order["RecordId"], order["BookingDateUTC"], order["BookingTimeUTC"])


class Page(NamedTuple):
    """A page of a run's lane, by the plan under which it was sent."""

    run_id: str
    plan: str


class Send(NamedTuple):
    """A task that a queue took; `at` counts the effects."""

    at: int
    page: Page
    message: State


@dataclass(slots=True)
class _Planned:
    at: int
    tasks: tuple[Task, ...]
    finished_at: float = float("inf")


class Evidence:
    """The effects of all calls, in their order."""

    def __init__(self, done: Iterable[tuple[Call, Answer]]) -> None:
        self.sends: dict[str, list[Send]] = defaultdict(list)
        """The sends of each task."""
        self._plans: dict[tuple[str, str], _Planned] = {}
        self._objects: dict[str, tuple[int, bytes]] = {}
        for at, (call, answer) in enumerate(done):
            if call.operation == "PutObject" and call.request["Key"].startswith("tasks/"):
                self._objects.setdefault(call.request["Key"], (at, bytes(call.request["Body"])))
            elif call.operation == "TransactWriteItems":
                self._take_in(at, call.request["TransactItems"])
            elif call.operation == "SendMessageBatch":
                taken = {entry["Id"] for entry in answer.get("Successful", ())}
                run_id, lane = call.payload["Run"]["RunId"], call.payload["Progress"]["Lane"]
                for entry in call.request["Entries"]:
                    if entry["Id"] in taken:
                        task_id = entry["MessageDeduplicationId"]
                        page = self._page_of(task_id, run_id, lane)
                        self.sends[task_id].append(Send(at, page, json.loads(entry["MessageBody"])))

    def _take_in(self, at: int, writes: Iterable[Mapping[str, Any]]) -> None:
        rows = [write["Put"]["Item"] for write in writes if "Put" in write]
        for row in rows:
            place = row["Pk"]["S"], row["Sk"]["S"].removeprefix("row#")
            if row["Sk"]["S"].startswith("row#"):
                [body] = [other["Tasks"]["B"] for other in rows if "Tasks" in other]
                self._plans[place] = _Planned(at, plan_codec.decode(body))
        for write in writes:
            update = write.get("Update", {})
            if ":true" in update.get("ExpressionAttributeValues", {}):
                place = update["Key"]["Pk"]["S"], update["Key"]["Sk"]["S"].removeprefix("row#")
                self._plans[place].finished_at = at

    @property
    def tasks_of(self) -> dict[Version, set[str]]:
        """The tasks in which each version was sent, by what their objects hold."""
        found: dict[Version, set[str]] = defaultdict(set)
        for task_id, (first, *_) in self.sends.items():
            for order in self._orders(first):
                found[Version.of(order)].add(task_id)
        return found

    @property
    def twice(self) -> dict[Version, set[str]]:
        """The versions that were sent in more than one task."""
        return {version: task_ids for version, task_ids in self.tasks_of.items() if len(task_ids) > 1}

    @property
    def repeats(self) -> int:
        """How many sends were not the first of their task."""
        return sum(len(sends) - 1 for sends in self.sends.values())

    def undecided(self) -> Iterator[str]:
        """Sends of a task that no plan held, or whose object was not there or held other orders than the plan says."""
        for task_id, (first, *_) in self.sends.items():
            plans = [plan for plan in self._holding(task_id) if plan.at < first.at]
            if not plans:
                yield f"task {task_id[:8]} was sent before a plan held it"
                continue
            [task] = [task for task in plans[0].tasks if task.task_id == task_id]
            data = json.loads(first.message["Data"])
            at, content = self._body(data, first.at)
            if at >= first.at:
                yield f"task {task_id[:8]} was sent before its object was there"
            planned = [(json.loads(version.key)["RecordId"], version.date, version.time) for version in task.versions]
            held = [tuple(Version.of(order)) for order in content.get("Orders", ())]
            if "Range" in data:  # the body of a pack is the object that the task would have alone
                data = {name: value for name, value in data.items() if name not in {"Range", "Sha256"}}
                data["Key"] = task.object_key
            if held != planned or len(held) != data["OrderCount"] or {**content, "Orders": 0} != {**data, "Orders": 0}:
                yield f"task {task_id[:8]}: its object holds {held}, its plan {planned}, its message {data}"

    def improper_repeats(self) -> Iterator[str]:
        """Repeats by another page than the one that had begun to send the task, or after that one was finished."""
        for task_id, (first, *others) in self.sends.items():
            for again in others:
                if again.page != first.page:
                    yield f"task {task_id[:8]} of {first.page} was sent again by {again.page}"
                if any(plan.finished_at < again.at for plan in self._holding(task_id)):
                    yield f"task {task_id[:8]} was sent again when its page was finished"

    def orders(self) -> Iterator[Mapping[str, Any]]:
        """All that the tasks' objects hold."""
        for first, *_ in self.sends.values():
            yield from self._orders(first)

    def _orders(self, send: Send) -> list[Mapping[str, Any]]:
        _, content = self._body(json.loads(send.message["Data"]))
        orders: list[Mapping[str, Any]] = content.get("Orders", [])
        return orders

    def _body(self, data: State, missing_at: int = 0) -> tuple[int, State]:
        """What a message points at, and since when it is there; nothing if it is not, or not with the digest said."""
        at, content = self._objects.get(data["Key"], (missing_at, b""))
        if "Range" in data:
            content = content[data["Range"]["Start"] :][: data["Range"]["Length"]]
            if hashlib.sha256(content).hexdigest() != data["Sha256"]:
                content = b""
        return at, json.loads(content or b"{}")

    def _page_of(self, task_id: str, run_id: str, lane: int) -> Page:
        """The latest page of the lane that has the task in its plan."""
        of_lane = [
            name
            for (partition, name), plan in self._plans.items()
            if partition.endswith(f"#{run_id}")
            and name.startswith(f"{lane:04}#")
            and any(task.task_id == task_id for task in plan.tasks)
        ]
        return Page(run_id, max(of_lane, default=""))

    def _holding(self, task_id: str) -> list[_Planned]:
        return [plan for plan in self._plans.values() if any(task.task_id == task_id for task in plan.tasks)]
