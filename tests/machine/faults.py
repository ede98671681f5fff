"""The AWS calls of the functions, recorded as they are made, and gone wrong where a test stages it.

A fault stands around one whole call as the function sees it: the client's own attempts are used up by then.
"""

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import boto3
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError
from botocore.model import OperationModel

ALWAYS: Final = 1_000_000_000
"""So many times that a fault never ends."""

REQUEST_ID: Final = "4442587FB7D0A2F9"
"""Of every refused call."""

_THROTTLING: Final = {
    "dynamodb": "ProvisionedThroughputExceededException",
    "s3": "SlowDown",
    "sns": "Throttled",
    "sqs": "RequestThrottled",
    "ssm": "ThrottlingException",
}


class ProcessDied(BaseException):
    """The function's process ends here: no code of it runs any more, so nothing may catch this."""


class Fault(Enum):
    """What can happen to a call."""

    THROTTLED = auto()
    """Refused for the time being; without effect."""
    FORBIDDEN = auto()
    """Refused for good; without effect."""
    UNREACHED = auto()
    """No connection; without effect."""
    ANSWER_LOST = auto()
    """Done, and then silence until the client gives up."""
    DIED_BEFORE = auto()
    """The process ends just before the call."""
    DIED_AFTER = auto()
    """The process ends when the call is done."""
    HALF_DONE = auto()
    """Only the first half of a batch is done, and the answer gives the rest back.  Of batches only."""
    HALF_ANSWERED = auto()
    """The answer says nothing of the second half, though all of the batch is done.  Of `SendMessageBatch` only."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the `number`th of all, the `place`th of its operation, both from 1."""

    number: int
    function: str
    service: str
    operation: str
    place: int
    request: Mapping[str, Any]
    payload: Mapping[str, Any]
    """What the function at work was given."""


When: TypeAlias = Callable[[Call], bool]
Answer: TypeAlias = dict[str, Any]
"""A call's parsed answer."""
Request: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class _Staged:
    when: When
    left: int
    before: Callable[[Call], Answer | None] = lambda _: None
    after: Callable[[Call, Answer], None] = lambda _call, _answer: None
    cut: Callable[[Call], Request | None] = lambda _: None


_NOTHING: Final = _Staged(lambda _: True, ALWAYS)


_at_work: Final[ContextVar[tuple[str, Mapping[str, Any]]]] = ContextVar("_at_work", default=("", {}))


class Calls:
    """What the clients of one session do.  A call meets the first thing staged for it that is not used up."""

    def __init__(self) -> None:
        self.made: list[Call] = []
        """Every call, also those that were made to fail."""
        self.done: list[tuple[Call, Answer]] = []
        """Every call that had its effect, with the true answer, in the order of the effects."""
        self._places: Counter[str] = Counter()
        self._staged: list[_Staged] = []
        self._lock = threading.Lock()

    def listen(self, session: boto3.Session) -> None:
        """Stand around every call of every client that the session makes from now on."""
        events: Any = session.events
        events.register("provide-client-params", self._begin)  # before bodies become files
        events.register("before-call", self._before)
        events.register("after-call", self._after)

    @contextmanager
    def made_by(self, function: str, payload: Mapping[str, Any]) -> Iterator[None]:
        """Take the calls of this thread as those of a function."""
        token = _at_work.set((function, payload))
        try:
            yield
        finally:
            _at_work.reset(token)

    def stage(self, fault: Fault, when: When, times: int = 1) -> None:
        """Let the fault happen to the next `times` calls that `when` says yes to."""
        before, after = functools.partial(_fail_before, fault), functools.partial(_fail_after, fault)
        self._staged.append(_Staged(when, times, before, after, functools.partial(_cut, fault)))

    def precede(self, when: When, act: Callable[[], None], times: int = 1) -> None:
        """Let `act` happen just before the call, which is then made."""
        self._staged.append(_Staged(when, times, before=lambda _: act()))

    def follow(self, when: When, act: Callable[[Answer], None], times: int = 1) -> None:
        """Let `act` happen after the call, to its answer or to the world."""
        self._staged.append(_Staged(when, times, after=lambda _, answer: act(answer)))

    def answer(self, when: When, answer: Answer, times: int = 1) -> None:
        """Give this answer instead of making the call: it has no effect."""
        self._staged.append(_Staged(when, times, before=lambda _: answer))

    def unstage(self) -> None:
        """Let nothing more happen to any call."""
        self._staged.clear()

    def of(self, operation: str) -> list[Call]:
        """The calls of one operation so far."""
        return [call for call in self.made if call.operation == operation]

    def _begin(
        self, params: Mapping[str, Any], model: OperationModel, context: dict[str, Any], **_: Any
    ) -> Request | None:
        function, payload = _at_work.get()
        with self._lock:
            self._places[model.name] += 1
            call = Call(
                len(self.made) + 1,
                function,
                model.service_model.service_name,
                model.name,
                self._places[model.name],
                dict(params),
                payload,
            )
            self.made.append(call)
            staged = next((one for one in self._staged if one.left and one.when(call)), _NOTHING)
            staged.left -= 1
        context["staged"] = call, staged
        return staged.cut(call)

    def _before(self, context: dict[str, Any], **_: Any) -> tuple[SimpleNamespace, Answer] | None:
        call, staged = context["staged"]
        answer = staged.before(call)
        context["effect"] = answer is None
        return None if answer is None else (SimpleNamespace(status_code=200), dict(answer))

    def _after(self, parsed: Answer, context: Mapping[str, Any], **_: Any) -> None:
        call, staged = context["staged"]
        if context["effect"] and "Error" not in parsed:
            self.done.append((call, dict(parsed)))
        staged.after(call, parsed)


def nth(operation: str, place: int) -> When:
    """The `place`th call of an operation."""
    return lambda call: (call.operation, call.place) == (operation, place)


def every(operation: str) -> When:
    """Each call of an operation."""
    return lambda call: call.operation == operation


def _fail_before(fault: Fault, call: Call) -> Answer | None:
    if fault is Fault.THROTTLED:
        raise _refusal(call, _THROTTLING[call.service], 503 if call.service == "s3" else 400)
    if fault is Fault.FORBIDDEN:
        raise _refusal(call, "AccessDenied", 403)
    if fault is Fault.UNREACHED:
        raise ConnectTimeoutError(endpoint_url=call.service)
    if fault is Fault.DIED_BEFORE:
        raise ProcessDied
    if fault is Fault.HALF_DONE and not _halves(call)[0]:
        return {"Responses": {}, "Successful": []}
    return None


def _cut(fault: Fault, call: Call) -> Request | None:
    """The first half of a batch, instead of all of it."""
    if fault is not Fault.HALF_DONE:
        return None
    done, _ = _halves(call)
    return {**call.request, **_batch_of(call, done)} if done else None


def _fail_after(fault: Fault, call: Call, answer: Answer) -> None:
    if fault is Fault.ANSWER_LOST:
        raise ReadTimeoutError(endpoint_url=call.service)
    if fault is Fault.DIED_AFTER:
        raise ProcessDied
    if fault is Fault.HALF_DONE:
        _, rest = _halves(call)
        answer["UnprocessedKeys"] = _batch_of(call, rest).get("RequestItems")
        answer["Failed"] = [{"Id": entry["Id"], "SenderFault": False} for entry in rest if "Id" in entry]
    if fault is Fault.HALF_ANSWERED:
        told = {entry["Id"] for entry in _halves(call)[0]}
        answer["Successful"] = [entry for entry in answer["Successful"] if entry["Id"] in told]


def _halves(call: Call) -> tuple[list[Any], list[Any]]:
    """The entries or keys of a batch; the second half is the larger one."""
    [*batch] = call.request.get("Entries", ())
    for wanted in call.request.get("RequestItems", {}).values():
        batch += wanted["Keys"]
    middle = len(batch) // 2
    return batch[:middle], batch[middle:]


def _batch_of(call: Call, part: list[Any]) -> Request:
    """What the call asks for, but for this part of its batch only."""
    if "Entries" in call.request:
        return {"Entries": part}
    [(table, wanted)] = call.request["RequestItems"].items()
    return {"RequestItems": {table: {**wanted, "Keys": part}}}


def _refusal(call: Call, code: str, status: int) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": code},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": REQUEST_ID},
    }
    return ClientError(answer, call.operation)
