"""The functions' own roles: the instance enforces them in all tests of this folder.  Here none proves too wide."""

import json
import random
import string
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pytest

from functions.domain.lane import FIRST_FOLD
from functions.usecases.attempt import CONFIRMED_SECONDS
from tests.deployed.application import COMPARING, RECONCILING, REDOING, Application, Day, everywhere
from tests.deployed.wire import Call, Fault, wait_until
from tools.worker import Worker

FULL: Final = {"PaginationEnabled": False}
GROUPED: Final = {"Grouping": "window"}
ONE_PAGE: Final = {"From": {"N": "0"}, "To": {"N": "1"}}
"""What a fold's token says of the one page that is staged here; the machine folds only many."""
DENIED: Final = "AccessDenied|AuthorizationError|may not be read"
"""What AWS says, in the words of its services; SNS has its own.  The last is what a redo makes of it at its report."""
NOTHING: Final = {"Effect": "Deny", "Action": "*", "Resource": "*"}
"""What a policy says that is to grant nothing: it must say something."""


class Right(NamedTuple):
    """One action on one resource, granted to one function."""

    function: str
    action: str
    place: str


class StepError(Exception):
    """A function ended with an error."""


class Steps:
    """A run and what follows it: each function is invoked with what it would be handed."""

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
        self._lane: dict[str, Any] = {}
        self._reconcile: dict[str, Any] = {}
        self._compare: dict[str, Any] = {}
        self._redo: dict[str, Any] = {}
        self._slow: tuple[str, ...] = ()

    def slow_at(self, *operations: str) -> "Steps":
        """Hold back these calls, but for the ledger's, longer than an attempt works without a look at its lease."""
        self._slow = operations
        return self

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
        self._dispatch("dispatch_page", self._state["Progress"])

    def _dispatch_window(self) -> None:
        self._dispatch("dispatch_window", self._state["Progress"])

    def _lay_out_lanes(self) -> None:
        payload = {"Run": self._state["Run"], "Others": self._state["Leases"]["Others"], "Round": 0}
        layout = self._invoke("lay_out_lanes", payload)
        self._after = layout["Progress"]
        self._lane = layout["Lanes"][0]["Progress"]

    def _stage_page(self) -> None:
        self._dispatch("stage_page", self._lane)

    def _merge_bucket(self) -> None:
        self._dispatch("merge_bucket", self._lane)

    def _fold_pages(self) -> None:
        self._dispatch("fold_pages", {**self._lane, "Lane": FIRST_FOLD, "Token": ONE_PAGE})

    def _dispatch(self, function: str, progress: dict[str, Any]) -> None:
        payload = {"Run": self._state["Run"], "Others": self._state["Leases"]["Others"], "Progress": progress}
        self._after = self._invoke(function, payload)

    def _summarize_run(self) -> None:
        run = self._state["Run"]
        self._invoke("summarize_run", {"Run": run, "Progress": self._after})
        left = self._day.application.keys(f"staging/{self._day.date}/08/{run['RunId']}/")
        if left:
            raise StepError(f"AccessDenied, as it seems: {left}")

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

    def _plan_reconcile(self) -> None:
        self._reconcile = self._invoke("plan_reconcile", {"Execution": self._when_it_is_over})

    def _read_bookings(self) -> None:
        self._invoke("read_bookings", self._reconcile)

    def _audit_table(self) -> None:
        self._invoke("audit_table", self._reconcile)

    def _read_objects(self) -> None:
        self._invoke("read_objects", self._reconcile)

    def _read_plans(self) -> None:
        self._invoke("read_plans", self._reconcile)

    def _compare_records(self) -> None:
        self._invoke("compare_records", self._reconcile)

    def _write_report(self) -> None:
        self._report = self._invoke("write_report", {"Reconcile": self._reconcile["Reconcile"]})["Report"]

    def _plan_compare(self) -> None:
        self._compare = self._invoke("plan_compare", {"Execution": self._when_it_is_over})

    def _compare_paths(self) -> None:
        self._invoke("compare_paths", self._compare)

    def _plan_redo(self) -> None:
        redo_input = {"Report": self._report, "RequestedBy": "Ann", "Reason": "They arrived late."}
        planned = self._invoke("plan_redo", {"Execution": {**self._when_it_is_over, "Input": redo_input}})
        self._state = {"Run": planned["Run"], "Progress": planned["Progress"]}
        self._redo = {"Run": planned["Run"], "Redo": planned["Redo"], "Count": planned["Count"]}

    def _count_missing(self) -> None:
        self._redo["Count"] = self._invoke("count_missing", self._redo)

    def _ask_for_approval(self) -> None:
        self._invoke("ask_for_approval", {**self._redo, "Execution": self._execution["Id"], "Token": "made up"})

    def _check_approval(self) -> None:
        answer = {"Approved": True, "By": "Bob"}
        self._redo["Approval"] = self._invoke("check_approval", {"Redo": self._redo["Redo"], "Answer": answer})

    def _redo_page(self) -> None:
        run, others = self._state["Run"], self._state["Leases"]["Others"]
        payload = {"Run": run, "Redo": self._redo["Redo"], "Others": others, "Progress": self._state["Progress"]}
        self._after = self._invoke("redo_page", payload)

    def _record_repair(self) -> None:
        self._invoke("record_repair", {**self._redo, "Progress": self._after})

    def _grant_tasks(self) -> None:
        application, batch = self._day.application, uuid.uuid4().hex
        records = [task.delivered(f"{batch}-{place}") for place, task in enumerate(self._day.tasks(8))]
        assert records
        if self._invoke("grant_tasks", {"Records": records})["batchItemFailures"]:
            logged = application.logged("grant_tasks", batch)
            raise StepError("; ".join(line["Reason"] for line in logged if "Reason" in line))

    @property
    def _when_it_is_over(self) -> dict[str, Any]:
        """The execution, started behind its window's end."""
        return {**self._execution, "StartTime": f"{self._day.next.date}T00:00:00.000Z"}

    def _invoke(self, module: str, payload: dict[str, Any]) -> dict[str, Any]:
        application = self._day.application
        with application.wire.reacting(self._hold):
            answer = application.client("lambda").invoke(
                FunctionName=application.function_names[module], Payload=json.dumps(payload)
            )
        said: Any = json.load(answer["Payload"])
        if "FunctionError" in answer:
            raise StepError(said["errorMessage"])
        return dict(said or {})

    def _hold(self, call: Call) -> Fault | None:
        is_of_ledger = call.request.get("TableName") == self._day.application.outputs["LedgerTableName"]
        if call.operation in self._slow and not is_of_ledger:
            time.sleep(CONFIRMED_SECONDS + 0.1)
        return None


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


GROUPED_BEFORE: Final[dict[str, tuple[str, ...]]] = {
    "lay_out_lanes": ("lay_out_lanes", "stage_page"),
    "stage_page": ("lay_out_lanes",),
    "fold_pages": ("lay_out_lanes", "stage_page", "lay_out_lanes"),
    "merge_bucket": ("lay_out_lanes", "stage_page", "lay_out_lanes"),
}
"""What a grouped run does before these; lanes are laid out again when all is staged, and then it is decided."""


def run_to(day: Day, function: str) -> Steps:
    """A run that comes to this function next."""
    fields = GROUPED if function in GROUPED_BEFORE else FULL if function == "dispatch_window" else {}
    return Steps(day, **fields).do("plan_run", "take_leases", *GROUPED_BEFORE.get(function, ()))


def first_run(day: Day, function: str) -> Steps:
    book_a_few(day)
    return run_to(day, function)


def first_slow_run(day: Day, function: str) -> Steps:
    return first_run(day, function).slow_at("Query", "GetObject")


def second_run(day: Day, function: str) -> Steps:
    first_run(day, function).do(function, "summarize_run")
    return run_to(day, function)


def first_large_run(day: Day, function: str) -> Steps:
    book_a_lot(day)
    return run_to(day, function)


def second_large_run(day: Day, function: str) -> Steps:
    first_large_run(day, function).do(function, "summarize_run")
    return run_to(day, function)


def unplanned(day: Day, _: str) -> Steps:
    return Steps(day)


def planned(day: Day, _: str) -> Steps:
    return Steps(day).do("plan_run")


def begun(day: Day, _: str) -> Steps:
    return Steps(day).do("plan_run", "take_leases")


def read(day: Day, _: str) -> Steps:
    return Steps(day).do("plan_run", "take_leases", "dispatch_page")


def merged(day: Day, _: str) -> Steps:
    return first_run(day, "merge_bucket").do("merge_bucket")


def cut_off(day: Day, _: str) -> Steps:
    book_a_few(day)
    return Steps(day, **FULL).do("plan_run", "take_leases", "dispatch_window")


def reconcile_to(steps: Steps, function: str) -> Steps:
    """A reconcile that comes to this function next."""
    return steps.do(*RECONCILING[: RECONCILING.index(function)])


def missing(day: Day, function: str) -> Steps:
    book_a_few(day)
    return reconcile_to(Steps(day), function)


def unkeyed(day: Day, function: str) -> Steps:
    record = {"RecordId": {"S": f"unkeyed@{day.date}"}, "RewardStatus": {"S": "WaitToReward"}}
    day.application.client("dynamodb").put_item(TableName=day.application.outputs["BookingTableName"], Item=record)
    return reconcile_to(Steps(day), function)


def reconciled(day: Day, function: str) -> Steps:
    return reconcile_to(tasked(day, function), function)


def reconciled_large(day: Day, function: str) -> Steps:
    return reconcile_to(first_large_run(day, "dispatch_page").do("dispatch_page"), function)


def compared(day: Day, function: str) -> Steps:
    book_a_few(day)
    return Steps(day).do(*COMPARING[: COMPARING.index(function)])


def redo_to(steps: Steps, function: str) -> Steps:
    """A redo of what has come to be missing, that comes to this function next."""
    return steps.do(*RECONCILING, *REDOING[: REDOING.index(function)])


def late(day: Day, function: str) -> Steps:
    """Among the times that were dispatched already, so that their plan is looked at."""
    steps = tasked(day, function).do("summarize_run")
    day.book("late point", "08:15:00Z", "1")
    day.book("late coupon", "08:16:00Z", "2", RewardType="ECoupon")
    return redo_to(steps, function)


def late_and_spoilt(day: Day, function: str) -> Steps:
    steps = late(day, function)
    day.book("late point", "08:15:00Z", "1", OrderTime="yesterday")
    return steps


def late_behind_large(day: Day, function: str) -> Steps:
    steps = first_large_run(day, "dispatch_page").do("dispatch_page", "summarize_run")
    day.book("late", "08:10:00Z")
    return redo_to(steps, function)


def missing_large(day: Day, function: str) -> Steps:
    book_a_lot(day)
    return redo_to(Steps(day), function)


def tasked(day: Day, _: str) -> Steps:
    return first_run(day, "dispatch_page").do("dispatch_page")


def tasked_with_a_stock(day: Day, _: str) -> Steps:
    engine = f"engine-{day.date}"
    stock = {"Pk": {"S": f'stock#"{engine}"'}, "Left": {"N": "1"}}
    day.application.client("dynamodb").put_item(TableName=day.application.outputs["GrantTableName"], Item=stock)
    day.book("coupon", "08:10:00Z", RewardType="ECoupon", PromotionEngineId=engine)
    return run_to(day, "dispatch_page").do("dispatch_page")


Scenario = Callable[[Day, str], Steps]
"""What goes before the step that needs a right."""

STOP: Final = ("ssm:GetParameters", "BookingDispatcherStop")
PLANNING: Final[dict[tuple[str, str], Scenario]] = {
    STOP: first_run,
    ("dynamodb:PutItem", "ledger"): first_run,
    ("dynamodb:UpdateItem", "ledger"): first_run,
    ("dynamodb:ConditionCheckItem", "ledger"): first_run,
}
READING: Final[dict[tuple[str, str], Scenario]] = {
    ("dynamodb:Query", "bookings index"): first_run,
    ("s3:PutObject", "set-aside/"): first_run,
}
SENDING: Final[dict[tuple[str, str], Scenario]] = {
    **PLANNING,
    ("dynamodb:Query", "ledger"): second_run,
    ("dynamodb:BatchGetItem", "ledger"): second_run,
    ("s3:PutObject", "tasks/"): first_run,
    ("s3:PutObject", "plans/"): first_large_run,
    ("s3:GetObject", "plans/"): second_large_run,
    ("sqs:SendMessage", "points"): first_run,
    ("sqs:SendMessage", "coupons"): first_run,
}
STAGING: Final[dict[tuple[str, str], Scenario]] = {
    **PLANNING,
    ("dynamodb:GetItem", "ledger"): first_run,
    ("dynamodb:BatchGetItem", "ledger"): first_slow_run,
    ("s3:PutObject", "staging/"): first_run,
}
REDONE: Final[dict[tuple[str, str], Scenario]] = {
    **dict.fromkeys((*SENDING, ("dynamodb:GetItem", "ledger"), ("s3:GetObject", "reports/")), late),
    ("dynamodb:Query", "bookings index"): late,
    ("s3:PutObject", "set-aside/"): late_and_spoilt,
    ("s3:PutObject", "plans/"): missing_large,
    ("s3:GetObject", "plans/"): late_behind_large,
}
RECORDING: Final = (("dynamodb:GetItem", "ledger"), ("dynamodb:PutItem", "ledger"), ("s3:PutObject", "staging/"))

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
    Right("summarize_run", "dynamodb:Query", "ledger"): merged,
    Right("summarize_run", "s3:DeleteObject", "staging/"): merged,
    **{Right(name, "dynamodb:GetItem", "ledger"): first_run for name in ("dispatch_page", "merge_bucket")},
    **{
        Right(name, *right): scenario
        for name in ("dispatch_page", "dispatch_window")
        for right, scenario in {**SENDING, **READING}.items()
    },
    **{Right("lay_out_lanes", *right): scenario for right, scenario in PLANNING.items()},
    Right("lay_out_lanes", "dynamodb:Query", "ledger"): first_run,
    **{Right("stage_page", *right): scenario for right, scenario in {**STAGING, **READING}.items()},
    **{Right("fold_pages", *right): scenario for right, scenario in STAGING.items()},
    Right("fold_pages", "dynamodb:Query", "ledger"): first_run,
    **{Right("merge_bucket", *right): scenario for right, scenario in SENDING.items()},
    **{Right(name, "s3:GetObject", "staging/"): first_run for name in ("fold_pages", "merge_bucket")},
    **{Right(name, *right): missing for name in ("read_bookings", "compare_records") for right in RECORDING},
    Right("read_bookings", "dynamodb:Query", "bookings index"): missing,
    **{Right("audit_table", *right): unkeyed for right in (*RECORDING, ("dynamodb:Scan", "bookings"))},
    **{Right(name, *right): reconciled for name in ("read_objects", "read_plans") for right in RECORDING},
    Right("read_objects", "s3:ListBucket", "keys"): reconciled,
    **{Right("read_plans", f"dynamodb:{name}", "ledger"): reconciled for name in ("Query", "BatchGetItem")},
    Right("read_plans", "s3:GetObject", "plans/"): reconciled_large,
    **{
        Right(name, *right): missing
        for name in ("compare_records", "write_report")
        for right in (("dynamodb:Query", "ledger"), ("s3:GetObject", "staging/"))
    },
    Right("write_report", "s3:PutObject", "reports/"): missing,
    Right("plan_compare", "ssm:GetParameters", "BookingDispatcherPaginationEnabled"): compared,
    Right("compare_paths", "dynamodb:Query", "bookings index"): compared,
    Right("compare_paths", "s3:PutObject", "reports/"): compared,
    Right("plan_redo", "s3:GetObject", "reports/"): late,
    **{Right("count_missing", f"dynamodb:{name}", "ledger"): late for name in ("Query", "BatchGetItem")},
    Right("count_missing", "dynamodb:Query", "bookings index"): late,
    Right("count_missing", "s3:GetObject", "reports/"): late,
    Right("count_missing", "s3:GetObject", "plans/"): late_behind_large,
    Right("ask_for_approval", "dynamodb:PutItem", "ledger"): late,
    Right("ask_for_approval", "sns:Publish", "alarms"): late,
    **{Right("redo_page", *right): scenario for right, scenario in REDONE.items()},
    Right("record_repair", "dynamodb:PutItem", "ledger"): late,
    **{Right("grant_tasks", f"dynamodb:{name}", "bookings"): tasked for name in ("GetItem", "UpdateItem")},
    **{Right("grant_tasks", f"dynamodb:{name}", "grants"): tasked for name in ("GetItem", "PutItem")},
    Right("grant_tasks", "dynamodb:UpdateItem", "grants"): tasked_with_a_stock,
    Right("grant_tasks", "s3:GetObject", "tasks/"): tasked,
}
"""The rights that the emulator asks for, and the smallest run that needs each."""

FUNCTIONS: Final = (
    "plan_run",
    "take_leases",
    "dispatch_page",
    "dispatch_window",
    "lay_out_lanes",
    "stage_page",
    "fold_pages",
    "merge_bucket",
    "summarize_run",
    "report_failure",
    "record_end",
    *RECONCILING,
    *COMPARING,
    "plan_redo",
    "count_missing",
    "ask_for_approval",
    "check_approval",
    "redo_page",
    "record_repair",
    "grant_tasks",
)
ONLY_ON_AWS: Final = {
    # The emulator writes the logs itself.
    *(Right(function, f"logs:{name}", "log") for function in FUNCTIONS for name in ("CreateLogStream", "PutLogEvents")),
    # It looks at the first parameter of a call only.
    *(
        Right(function, "ssm:GetParameters", f"BookingDispatcher{name}")
        for function in ("plan_run", "plan_compare")
        for name in ("PageSize", "Grouping", "SetAsideLimit")
    ),
    # It moves a failed event to its last stop itself.
    *(
        Right("record_end", f"sqs:{name}", "dead letters")
        for name in ("SendMessage", "GetQueueAttributes", "GetQueueUrl")
    ),
    # It takes the messages off the worker's queues itself.
    *(
        Right("grant_tasks", f"sqs:{name}", queue)
        for name in ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
        for queue in ("points", "coupons")
    ),
}
"""The rights that the emulator does not ask for."""

NO_STEP_FAILS: Final = {
    # It ends an upload in parts that has failed, and the step then fails with that failure, whether it ended or not.
    *(
        Right(name, "s3:AbortMultipartUpload", "tasks/")
        for name in ("dispatch_page", "dispatch_window", "merge_bucket", "redo_page")
    ),
    *(
        Right(name, "s3:AbortMultipartUpload", "staging/")
        for name in (
            *("stage_page", "fold_pages", "compare_records"),
            *("read_bookings", "audit_table", "read_objects", "read_plans"),
        )
    ),
    Right("write_report", "s3:AbortMultipartUpload", "reports/"),
    # It looks whether its lease was superseded, if it was held up between two calls that follow at once.
    Right("lay_out_lanes", "dynamodb:BatchGetItem", "ledger"),
}
"""The rights that a step uses only when something else goes wrong as well."""


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
        application.outputs["BookingTableName"]: "bookings",
        application.outputs["GrantTableName"]: "grants",
        application.outputs["PointTaskQueueUrl"].rpartition("/")[2]: "points",
        application.outputs["CouponTaskQueueUrl"].rpartition("/")[2]: "coupons",
        application.outputs["AlarmTopicArn"].rpartition(":")[2]: "alarms",
    }
    service, last = arn.split(":")[2], arn.rpartition(":")[2].removesuffix("*")
    if service == "logs":
        return "log"
    if service == "s3":
        return last.partition("/")[2] or "keys"
    return names.get(last.rpartition("/")[2], "dead letters" if service == "sqs" else last.rpartition("/")[2])


@contextmanager
def without(application: Application, *rights: Right) -> Iterator[None]:
    """A function's role without some of its rights, for the length of a block."""
    ((function, *_), *_) = rights
    role, policy, document = of_the_role(application, function)
    every = granted(application, function)
    assert set(rights) <= set(every)

    def write(statements: list[Any]) -> None:
        text = json.dumps({**document, "Statement": statements})
        application.client("iam").put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=text)

    write([statement for right, statement in every.items() if right not in rights] or [NOTHING])
    try:
        yield
    finally:
        write(document["Statement"])


def test_these_are_all_the_rights_that_the_deployed_functions_have(application: Application) -> None:
    deployed = {right for function in application.functions() for right in granted(application, function)}

    assert deployed == {*NEEDED, *ONLY_ON_AWS, *NO_STEP_FAILS}


@pytest.mark.parametrize(("right", "before"), NEEDED.items(), ids=map(" ".join, NEEDED))
def test_without_one_of_its_rights_a_function_fails_and_with_it_again_it_succeeds(
    day: Day, right: Right, before: Scenario
) -> None:
    steps = before(day, right.function)

    with without(day.application, right), pytest.raises(StepError, match=DENIED):
        steps.do(right.function)

    steps.do(right.function)


def test_the_rights_that_only_aws_asks_for_are_still_not_asked_for_here(
    application: Application, day: Day, worker: Worker
) -> None:
    day.book("R1", "08:10:00Z")
    day.book("R2", "08:20:00Z", RewardType="ECoupon")
    with ExitStack() as dropped:
        for function in FUNCTIONS:
            rights = [right for right in ONLY_ON_AWS if right.function == function]
            dropped.enter_context(without(application, *rights))
        outputs = [day.run(8).output, day.run(8, **GROUPED).output]
        day.book("R3", "08:15:00Z")
        Steps(day).do(*COMPARING, *RECONCILING, *REDOING)
        with worker.working():
            worker.drain()
        application.client("lambda").invoke(
            FunctionName=application.function_names["record_end"], InvocationType="Event", Payload="{}"
        )
        assert wait_until(lambda: application.dead_letters("WatchDeadLetters"))

    assert [(output["Outcome"], output["Tasks"]) for output in outputs] == [("Dispatched", 2), ("Dispatched", 0)]
    granted_records = [json.loads(row["RecordKey"]["S"])["RecordId"] for row in worker.grants()]
    assert {f"R1@{day.date}", f"R2@{day.date}", f"R3@{day.date}"} <= {*granted_records}


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
