"""The functions' own roles: the instance enforces them in all tests of this folder.  Here none proves too wide."""

import json
import random
import string
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pytest

from tests.deployed.application import Application, Day, everywhere
from tests.deployed.wire import wait_until

FULL: Final = {"PaginationEnabled": False}
DENIED: Final = "AccessDenied|AuthorizationError"
"""What AWS says, in the words of its services; SNS has its own."""


class Right(NamedTuple):
    """One action on one resource, granted to one function."""

    function: str
    action: str
    place: str


class StepError(Exception):
    """A function ended with an error."""


class Steps:
    """A run whose functions are invoked one by one, with the state that the machine would hand them."""

    def __init__(self, day: Day, **fields: Any) -> None:
        name = uuid.uuid4().hex
        self._day = day
        self._execution = {
            "Id": f"arn:aws:states:us-east-1:000000000000:execution:by-hand:{name}",
            "Name": name,
            "StartTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}.000Z",
            "Input": day.input(8, **fields),
        }
        self._state: dict[str, Any] = {}

    def do(self, *functions: str) -> "Steps":
        """Invoke functions in this order.

        Raises:
            StepError: one could not do all that it should; the message says what.
        """
        for function in functions:
            getattr(self, f"_{function}")()
        return self

    def _plan_run(self) -> None:
        self._state = self._invoke("plan_run", {"Execution": self._execution})

    def _take_leases(self) -> None:
        self._state = self._invoke("take_leases", self._state)
        self._after = self._state["Progress"]

    def _dispatch_page(self) -> None:
        self._dispatch("dispatch_page")

    def _dispatch_window(self) -> None:
        self._dispatch("dispatch_window")

    def _dispatch(self, function: str) -> None:
        payload = {**self._state, "Others": self._state["Leases"]["Others"]}
        self._after = self._invoke(function, payload)

    def _summarize_run(self) -> None:
        self._invoke("summarize_run", {"Run": self._state["Run"], "Progress": self._after})

    def _report_failure(self) -> None:
        error = {"Error": "ConfigurationError", "Cause": json.dumps({"errorMessage": "staged"})}
        try:
            self._invoke("report_failure", {"State": {**self._state, "Error": error}, "Execution": self._execution})
        except StepError as raised:
            report = json.loads(str(raised))
            if report["NotDone"] or report["Totals"] != self._after["Totals"]:
                raise StepError(f"AccessDenied, as it seems: {report}") from None

    def _record_end(self) -> None:
        started = datetime.fromisoformat(str(self._execution["StartTime"]))
        detail = {
            "executionArn": self._execution["Id"],
            "name": self._execution["Name"],
            "status": "ABORTED",
            "startDate": int(started.timestamp() * 1000),
        }
        self._invoke("record_end", {"detail": detail})

    def _invoke(self, module: str, payload: dict[str, Any]) -> dict[str, Any]:
        application = self._day.application
        answer = application.client("lambda").invoke(
            FunctionName=application.function_names[module], Payload=json.dumps(payload)
        )
        said: Any = json.load(answer["Payload"])
        if "FunctionError" in answer:
            raise StepError(said["errorMessage"])
        return dict(said or {})


def book_a_few(day: Day) -> None:
    """One booking for each queue, and a bad one."""
    day.book("point", "08:10:00Z", "1")
    day.book("coupon", "08:20:00Z", "2", RewardType="ECoupon")
    day.book("bad", "08:30:00Z", "3", OrderTime="yesterday")


def book_a_lot(day: Day) -> None:
    """So many bookings with such long keys that the plan of their page is too large for the table."""
    letters = random.Random(1)  # noqa: S311 - they only must not be compressible
    for _ in range(260):
        name = "".join(letters.choices(string.ascii_letters + string.digits + "-_", k=1900))
        day.book(name, "08:10:00Z", OrderId="order")


def done(steps: Steps, function: str) -> Steps:
    """A run that came to its end."""
    return steps.do("plan_run", "take_leases", function, "summarize_run")


def of(function: str) -> dict[str, Any]:
    return FULL if function == "dispatch_window" else {}


def first_run(day: Day, function: str) -> Steps:
    book_a_few(day)
    return Steps(day, **of(function)).do("plan_run", "take_leases")


def second_run(day: Day, function: str) -> Steps:
    book_a_few(day)
    done(Steps(day, **of(function)), function)
    return Steps(day, **of(function)).do("plan_run", "take_leases")


def first_large_run(day: Day, function: str) -> Steps:
    book_a_lot(day)
    return Steps(day, **of(function)).do("plan_run", "take_leases")


def second_large_run(day: Day, function: str) -> Steps:
    book_a_lot(day)
    done(Steps(day, **of(function)), function)
    return Steps(day, **of(function)).do("plan_run", "take_leases")


def unplanned(day: Day, _: str) -> Steps:
    return Steps(day)


def planned(day: Day, _: str) -> Steps:
    return Steps(day).do("plan_run")


def begun(day: Day, _: str) -> Steps:
    return Steps(day).do("plan_run", "take_leases")


def read(day: Day, _: str) -> Steps:
    return Steps(day).do("plan_run", "take_leases", "dispatch_page")


def cut_off(day: Day, _: str) -> Steps:
    book_a_few(day)
    return Steps(day, **FULL).do("plan_run", "take_leases", "dispatch_window")


Scenario = Callable[[Day, str], Steps]
"""What goes before the step that needs a right."""

DISPATCHING: Final[dict[tuple[str, str], Scenario]] = {
    ("ssm:GetParameters", "BookingDispatcherStop"): first_run,
    ("dynamodb:Query", "bookings index"): first_run,
    ("dynamodb:PutItem", "ledger"): first_run,
    ("dynamodb:UpdateItem", "ledger"): first_run,
    ("dynamodb:ConditionCheckItem", "ledger"): first_run,
    ("dynamodb:Query", "ledger"): second_run,
    ("dynamodb:BatchGetItem", "ledger"): second_run,
    ("s3:PutObject", "tasks/"): first_run,
    ("s3:PutObject", "set-aside/"): first_run,
    ("s3:PutObject", "plans/"): first_large_run,
    ("s3:GetObject", "plans/"): second_large_run,
    ("sqs:SendMessage", "points"): first_run,
    ("sqs:SendMessage", "coupons"): first_run,
}

NEEDED: Final[dict[Right, Scenario]] = {
    Right("plan_run", "ssm:GetParameters", "BookingDispatcherPaginationEnabled"): unplanned,
    **{Right("take_leases", f"dynamodb:{name}", "ledger"): planned for name in ("PutItem", "Query", "UpdateItem")},
    **{Right("summarize_run", f"dynamodb:{name}", "ledger"): read for name in ("DeleteItem", "UpdateItem")},
    **{Right("report_failure", f"dynamodb:{name}", "ledger"): begun for name in ("DeleteItem", "UpdateItem")},
    Right("report_failure", "dynamodb:Query", "ledger"): cut_off,
    Right("report_failure", "sns:Publish", "alarms"): begun,
    **{
        Right("record_end", f"dynamodb:{name}", "ledger"): begun
        for name in ("DeleteItem", "GetItem", "Query", "UpdateItem")
    },
    Right("record_end", "sns:Publish", "alarms"): begun,
    Right("dispatch_page", "dynamodb:GetItem", "ledger"): first_run,
    **{Right("dispatch_page", *right): scenario for right, scenario in DISPATCHING.items()},
    **{Right("dispatch_window", *right): scenario for right, scenario in DISPATCHING.items()},
}
"""The rights that the emulator asks for, and the smallest run that needs each."""

FUNCTIONS: Final = (
    "plan_run",
    "take_leases",
    "dispatch_page",
    "dispatch_window",
    "summarize_run",
    "report_failure",
    "record_end",
)
ONLY_ON_AWS: Final = {
    # The emulator writes the logs itself.
    *(Right(function, f"logs:{name}", "log") for function in FUNCTIONS for name in ("CreateLogStream", "PutLogEvents")),
    # It looks at the first parameter of a call only.
    *(
        Right("plan_run", "ssm:GetParameters", f"BookingDispatcher{name}")
        for name in ("PageSize", "Grouping", "SetAsideLimit")
    ),
    # It moves a failed event to its last stop itself.
    *(
        Right("record_end", f"sqs:{name}", "dead letters")
        for name in ("SendMessage", "GetQueueAttributes", "GetQueueUrl")
    ),
}
"""The rights that the emulator does not ask for."""


def of_the_role(application: Application, function: str) -> tuple[str, str, dict[str, Any]]:
    """The role of a function, the name of its one policy, and that."""
    iam = application.client("iam")
    role = application.functions()[function]["Role"].rpartition("/")[2]
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    return role, policy, iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]


def granted(application: Application, function: str) -> dict[Right, dict[str, Any]]:
    """Each right of a function, with a statement that grants it alone."""
    _, _, document = of_the_role(application, function)
    rights = {}
    for statement in document["Statement"]:
        assert statement.keys() == {"Action", "Effect", "Resource"}
        for action in listed(statement["Action"]):
            for resource in listed(statement["Resource"]):
                alone = {"Effect": statement["Effect"], "Action": action, "Resource": resource}
                rights[Right(function, action, place_of(application, resource))] = alone
    return rights


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def place_of(application: Application, arn: str) -> str:
    """A resource by the name that the tables above give it."""
    names = {
        application.outputs["LedgerTableName"]: "ledger",
        application.outputs["BookingIndexName"]: "bookings index",
        application.outputs["PointTaskQueueUrl"].rpartition("/")[2]: "points",
        application.outputs["CouponTaskQueueUrl"].rpartition("/")[2]: "coupons",
        application.outputs["AlarmTopicArn"].rpartition(":")[2]: "alarms",
    }
    service, last = arn.split(":")[2], arn.rpartition(":")[2].removesuffix("*")
    if service == "logs":
        return "log"
    if service == "s3":
        return last.partition("/")[2]
    return names.get(last.rpartition("/")[2], "dead letters" if service == "sqs" else last.rpartition("/")[2])


@contextmanager
def without(application: Application, *rights: Right) -> Iterator[None]:
    """A function's role without some of its rights, for the length of a block."""
    ((function, *_), *_) = rights
    role, policy, document = of_the_role(application, function)
    every = granted(application, function)
    assert set(rights) < set(every)

    def write(statements: list[Any]) -> None:
        text = json.dumps({**document, "Statement": statements})
        application.client("iam").put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=text)

    write([statement for right, statement in every.items() if right not in rights])
    try:
        yield
    finally:
        write(document["Statement"])


def test_these_are_all_the_rights_that_the_deployed_functions_have(application: Application) -> None:
    deployed = {right for function in application.functions() for right in granted(application, function)}

    assert deployed == {*NEEDED, *ONLY_ON_AWS}


@pytest.mark.parametrize(("right", "before"), NEEDED.items(), ids=map(" ".join, NEEDED))
def test_without_one_of_its_rights_a_function_fails_and_with_it_again_it_succeeds(
    day: Day, right: Right, before: Scenario
) -> None:
    steps = before(day, right.function)

    with without(day.application, right), pytest.raises(StepError, match=DENIED):
        steps.do(right.function)

    steps.do(right.function)


def test_the_rights_that_only_aws_asks_for_are_still_not_asked_for_here(application: Application, day: Day) -> None:
    day.book("R1", "08:10:00Z")
    with ExitStack() as dropped:
        for function in FUNCTIONS:
            rights = [right for right in ONLY_ON_AWS if right.function == function]
            dropped.enter_context(without(application, *rights))
        output = day.run(8).output
        application.client("lambda").invoke(
            FunctionName=application.function_names["record_end"], InvocationType="Event", Payload="{}"
        )
        assert wait_until(lambda: application.dead_letters("WatchDeadLetters"))

    assert output.items() >= {"Outcome": "Dispatched", "Tasks": 1}.items()


@pytest.mark.parametrize(
    ("right", "message"),
    [
        (("dynamodb:Query", "bookings index"), "Query bookings: AccessDenied"),
        (("s3:PutObject", "tasks/"), "PutObject: AccessDenied"),
        (("sqs:SendMessage", "points"), "SendMessageBatch: AccessDenied"),
    ],
    ids=["read bookings", "upload", "send"],
)
def test_a_right_that_is_taken_away_fails_the_run_and_given_back_it_completes(
    application: Application, day: Day, right: tuple[str, str], message: str
) -> None:
    day.book("R1", "08:10:00Z")
    with without(application, Right("dispatch_page", *right)):
        failed = day.run(8)

    assert (failed.status, failed.error) == ("FAILED", "ConfigurationError")
    assert failed.report["Message"].startswith(message)
    assert day.effects(8).on_queues == []
    assert day.run(8, Resume=True).output.items() >= {"Dispatched": 1, "Tasks": 1}.items()
    assert day.effects(8) == everywhere("R1")
