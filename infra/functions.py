"""The functions: what each is given to read, and what each may do."""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct

from functions.domain.budget import PAGE_FUNCTION_SECONDS, SMALL_FUNCTION_SECONDS, WINDOW_FUNCTION_SECONDS
from infra.bundle import LambdaBundle
from infra.lambda_function import BundleCode, LambdaFunction, Size
from infra.parameters import RunParameters
from infra.queues import TaskQueues
from infra.stage import Stage
from infra.storage import Storage

SMALL: Final = Size(SMALL_FUNCTION_SECONDS, 512)
COUNTING: Final = Size(SMALL_FUNCTION_SECONDS, 1024)
"""Of functions that read all plans of a run: with more memory comes more CPU."""
PAGE: Final = Size(PAGE_FUNCTION_SECONDS, 1536)
"""The least with which a page of 1,000 is near the time that its calls alone take: `docs/cost.md` has the table."""
WINDOW: Final = Size(WINDOW_FUNCTION_SECONDS, 3008)
"""The full read holds the whole hour, and so does the comparison with it.  More memory a new account does not grant
to one function."""

TAKE_LEASES: Final = ("dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem")
END_RUN: Final = ("dynamodb:DeleteItem", "dynamodb:UpdateItem")
SEE_PLANS: Final = ("dynamodb:Query",)
FIND_RUN: Final = ("dynamodb:GetItem",)
ADD_PLAN: Final = ("dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
"""Under the run's leases, which the attempt renews and confirms."""
KEEP_PLANS: Final = (*ADD_PLAN, *SEE_PLANS)
ASK_FOR_PLAN: Final = ("dynamodb:GetItem",)
"""A page's; the chunks of a whole window are listed."""
READ_TASKS: Final = ("dynamodb:BatchGetItem",)
NOTE: Final = ("dynamodb:PutItem",)
RECORD_PIECE: Final = ("dynamodb:GetItem", "dynamodb:PutItem")


class Objects(NamedTuple):
    """What a function may do in the bucket, by the beginnings of keys."""

    written: tuple[str, ...] = ()
    streamed: tuple[str, ...] = ()
    """Written, and in parts where they are large: an upload in parts that failed is aborted."""
    read: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    listed: bool = False
    """By all their keys: none says more than a date, an hour and a hash."""


class Dispatching(NamedTuple):
    """A function that reads bookings or dispatches them."""

    name: str
    module: str
    size: Size
    ledger: tuple[str, ...]
    objects: Objects
    reads_bookings: bool
    sends: bool
    description: str


PLANNED: Final = Objects(written=("plans/",), streamed=("tasks/",), read=("plans/",))
PAGE_DISPATCHED: Final = PLANNED._replace(written=("plans/", "set-aside/"))

DISPATCHING: Final = (
    Dispatching(
        "DispatchPage",
        "dispatch_page",
        PAGE,
        ASK_FOR_PLAN + KEEP_PLANS,
        PAGE_DISPATCHED,
        reads_bookings=True,
        sends=True,
        description="Reads one page of bookings and dispatches it.",
    ),
    Dispatching(
        "DispatchWindow",
        "dispatch_window",
        WINDOW,
        KEEP_PLANS,
        PAGE_DISPATCHED,
        reads_bookings=True,
        sends=True,
        description="Reads a whole window and dispatches it.",
    ),
    Dispatching(
        "LayOutLanes",
        "lay_out_lanes",
        PAGE,
        KEEP_PLANS,
        Objects(),
        reads_bookings=False,
        sends=False,
        description="Finds the lanes that are left to do.",
    ),
    Dispatching(
        "StagePage",
        "stage_page",
        PAGE,
        ASK_FOR_PLAN + ADD_PLAN,
        Objects(written=("set-aside/",), streamed=("staging/",)),
        reads_bookings=True,
        sends=False,
        description="Reads one page of bookings and stages it.",
    ),
    Dispatching(
        "FoldPages",
        "fold_pages",
        PAGE,
        ASK_FOR_PLAN + KEEP_PLANS,
        Objects(streamed=("staging/",), read=("staging/",)),
        reads_bookings=False,
        sends=False,
        description="Folds many staged pages into one object.",
    ),
    Dispatching(
        "MergeBucket",
        "merge_bucket",
        PAGE,
        ASK_FOR_PLAN + KEEP_PLANS,
        PLANNED._replace(read=("plans/", "staging/")),
        reads_bookings=False,
        sends=True,
        description="Merges staged groups and dispatches them.",
    ),
)


class Reconciling(NamedTuple):
    """A function that does a reconcile's pieces."""

    name: str
    module: str
    ledger: tuple[str, ...]
    objects: Objects
    reads_bookings: bool
    description: str


STAGED: Final = Objects(streamed=("staging/",))

RECONCILING: Final = (
    Reconciling(
        "ReadBookings",
        "read_bookings",
        RECORD_PIECE,
        STAGED,
        reads_bookings=True,
        description="Reads pages of bookings for a reconcile.",
    ),
    Reconciling(
        "ReadObjects",
        "read_objects",
        RECORD_PIECE,
        STAGED._replace(listed=True),
        reads_bookings=False,
        description="Lists a window's task data for a reconcile.",
    ),
    Reconciling(
        "ReadPlans",
        "read_plans",
        RECORD_PIECE + SEE_PLANS + READ_TASKS,
        STAGED._replace(read=("plans/",)),
        reads_bookings=False,
        description="Reads a window's plans for a reconcile.",
    ),
    Reconciling(
        "CompareRecords",
        "compare_records",
        RECORD_PIECE + SEE_PLANS,
        STAGED._replace(read=("staging/",)),
        reads_bookings=False,
        description="Compares bookings, plans and task data.",
    ),
)


class Functions(Construct):
    """Every function, each with the variables it reads and the rights it uses, and no other."""

    def __init__(  # noqa: PLR0913 -- a construct's properties are keywords
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        bundle: LambdaBundle,
        parameters: RunParameters,
        storage: Storage,
        queues: TaskQueues,
        alarms: sns.Topic,
    ) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        self._code = BundleCode(bundle)
        self.by_name: dict[str, lambda_.Function] = {}

        flags = {
            "PAGINATION_ENABLED_PARAMETER": parameters.pagination_enabled,
            "PAGE_SIZE_PARAMETER": parameters.page_size,
            "GROUPING_PARAMETER": parameters.grouping,
            "SET_ASIDE_LIMIT_PARAMETER": parameters.set_aside_limit,
        }
        planning = {variable: parameter.parameter_name for variable, parameter in flags.items()} | {
            "BOOKING_SHARDS": str(storage.bookings.shards),
            "LANE_CONCURRENCY": str(stage.lane_concurrency),
            "PAGE_BUDGET": str(stage.page_budget),
        }
        for name, module, description in (
            ("PlanRun", "plan_run", "Fixes window, flags and path of a run, once."),
            ("PlanCompare", "plan_compare", "Fixes what a comparison of the paths reads."),
        ):
            plan = self._function(name, module, SMALL, planning, description)
            plan.allow(["ssm:GetParameters"], [parameter.parameter_arn for parameter in flags.values()])

        ledger = {"LEDGER_TABLE_NAME": storage.ledger.table_name}
        telling = ledger | {"ALARM_TOPIC_ARN": alarms.topic_arn}
        tidying = ledger | {"TASK_DATA_BUCKET_NAME": storage.task_data.bucket_name}
        for name, module, actions, environment, description in (
            ("TakeLeases", "take_leases", TAKE_LEASES, ledger, "Takes both edges of the window for the run."),
            ("SummarizeRun", "summarize_run", SEE_PLANS + END_RUN, tidying, "Sums up a run and gives its edges back."),
            (
                "ReportFailure",
                "report_failure",
                SEE_PLANS + END_RUN,
                telling,
                "Notes a failure, gives the edges back, tells.",
            ),
            (
                "RecordEnd",
                "record_end",
                FIND_RUN + SEE_PLANS + END_RUN,
                telling,
                "Does so for an execution that just died.",
            ),
        ):
            size = COUNTING if "dynamodb:Query" in actions and name != "TakeLeases" else SMALL
            function = self._function(name, module, size, environment, description)
            function.allow(actions, [storage.ledger.table_arn])
            if environment is telling:
                function.allow(["sns:Publish"], [alarms.topic_arn])
            if environment is tidying:
                _allow_objects(function, storage.task_data, Objects(deleted=("staging/",)))

        bookings = {
            "BOOKING_TABLE_NAME": storage.bookings.table.table_name,
            "BOOKING_INDEX_NAME": storage.bookings.index_name,
            "BOOKING_KEY_ATTRIBUTES": json.dumps(storage.bookings.key_attributes),
            "BOOKING_DATE_ATTRIBUTE": storage.bookings.date_attribute,
            "BOOKING_SHARDS": str(storage.bookings.shards),
            "TASK_DATA_BUCKET_NAME": storage.task_data.bucket_name,
        }
        dispatch = (
            bookings
            | tidying
            | {
                "POINT_TASK_QUEUE_URL": queues.point.queue.queue_url,
                "COUPON_TASK_QUEUE_URL": queues.coupon.queue.queue_url,
                "STOP_PARAMETER": parameters.stop.parameter_name,
                "TASK_DATA_LAYOUT": self._stage.task_data_layout.value,
            }
        )
        for one in DISPATCHING:
            function = self._function(one.name, one.module, one.size, dispatch, one.description)
            function.allow(one.ledger, [storage.ledger.table_arn])
            function.allow(["ssm:GetParameters"], [parameters.stop.parameter_arn])
            _allow_objects(function, storage.task_data, one.objects)
            if one.reads_bookings:
                function.allow(["dynamodb:Query"], [storage.bookings.index_arn])
            if one.sends:
                function.allow(["sqs:SendMessage"], queues.arns)

        self._reconcile(storage, bookings, tidying)
        self._compare(storage, bookings)
        self._redo(
            storage=storage, dispatch=dispatch, telling=telling, parameters=parameters, queues=queues, alarms=alarms
        )

    def _reconcile(self, storage: Storage, bookings: Mapping[str, str], tidying: Mapping[str, str]) -> None:
        """Add the functions that compare: they read what the others wrote, and write nothing of theirs."""
        planning = {
            "BOOKING_SHARDS": str(storage.bookings.shards),
            "STILL_WAITING_HOURS": str(self._stage.still_waiting_hours),
        }
        self._function("PlanReconcile", "plan_reconcile", SMALL, planning, "Fixes which window is reconciled.")
        for one in RECONCILING:
            environment = {**tidying, **(bookings if one.reads_bookings else {})}
            function = self._function(one.name, one.module, PAGE, environment, one.description)
            function.allow(one.ledger, [storage.ledger.table_arn])
            _allow_objects(function, storage.task_data, one.objects)
            if one.reads_bookings:
                function.allow(["dynamodb:Query"], [storage.bookings.index_arn])
        table = ("BOOKING_TABLE_NAME", "BOOKING_KEY_ATTRIBUTES", "BOOKING_DATE_ATTRIBUTE")
        auditing = {**tidying, **{name: bookings[name] for name in table}}
        audit = self._function(
            "AuditTable", "audit_table", PAGE, auditing, "Scans the table for bookings that the index does not hold."
        )
        audit.allow(RECORD_PIECE, [storage.ledger.table_arn])
        audit.allow(["dynamodb:Scan"], [storage.bookings.table.table_arn])
        _allow_objects(audit, storage.task_data, STAGED)
        reporting = {
            **tidying,
            "STACK_NAME": Stack.of(self).stack_name,
            "BOOKING_KEY_ATTRIBUTES": bookings["BOOKING_KEY_ATTRIBUTES"],
        }
        report = self._function("WriteReport", "write_report", PAGE, reporting, "Writes a reconcile's report.")
        report.allow(SEE_PLANS, [storage.ledger.table_arn])
        _allow_objects(report, storage.task_data, Objects(streamed=("reports/",), read=("staging/",)))

    def _compare(self, storage: Storage, bookings: Mapping[str, str]) -> None:
        """Add the function that compares the paths: it reads the window, and leaves nothing but its report."""
        environment = {**bookings, "STACK_NAME": Stack.of(self).stack_name}
        description = "Compares what the paths would dispatch of a window."
        function = self._function("ComparePaths", "compare_paths", WINDOW, environment, description)
        function.allow(["dynamodb:Query"], [storage.bookings.index_arn])
        _allow_objects(function, storage.task_data, Objects(written=("reports/",)))

    def _redo(  # noqa: PLR0913 -- what the functions are given, by name
        self,
        *,
        storage: Storage,
        dispatch: Mapping[str, str],
        telling: Mapping[str, str],
        parameters: RunParameters,
        queues: TaskQueues,
        alarms: sns.Topic,
    ) -> None:
        """Add the functions that mend: one of them dispatches, and only that one may."""
        bucket, ledger = storage.task_data, storage.ledger.table_arn
        planning = {
            "TASK_DATA_BUCKET_NAME": bucket.bucket_name,
            "STACK_NAME": Stack.of(self).stack_name,
            "BOOKING_SHARDS": str(storage.bookings.shards),
        }
        plan = self._function("PlanRedo", "plan_redo", PAGE, planning, "Checks a report, and plans its redo.")
        _allow_objects(plan, bucket, Objects(read=("reports/",)))
        counting = {**dispatch, "REDO_WITHOUT_APPROVAL": str(self._stage.redo_without_approval)}
        count = self._function("CountMissing", "count_missing", PAGE, counting, "Counts what a redo would dispatch.")
        count.allow(SEE_PLANS + READ_TASKS, [ledger])
        count.allow(["dynamodb:Query"], [storage.bookings.index_arn])
        _allow_objects(count, bucket, Objects(read=("plans/", "reports/")))
        ask = self._function("AskForApproval", "ask_for_approval", SMALL, telling, "Asks a second person about a redo.")
        ask.allow(NOTE, [ledger])
        ask.allow(["sns:Publish"], [alarms.topic_arn])
        self._function("CheckApproval", "check_approval", SMALL, {}, "Sees who approved a redo.")
        page = self._function("RedoPage", "redo_page", PAGE, dispatch, "Dispatches versions that a report lists.")
        page.allow(ASK_FOR_PLAN + KEEP_PLANS, [ledger])
        page.allow(["ssm:GetParameters"], [parameters.stop.parameter_arn])
        page.allow(["dynamodb:Query"], [storage.bookings.index_arn])
        page.allow(["sqs:SendMessage"], queues.arns)
        _allow_objects(page, bucket, PAGE_DISPATCHED._replace(read=("plans/", "reports/")))
        keeping = {"LEDGER_TABLE_NAME": storage.ledger.table_name}
        record = self._function("RecordRepair", "record_repair", SMALL, keeping, "Keeps what a redo did.")
        record.allow(NOTE, [ledger])

    def _function(
        self, name: str, module: str, size: Size, environment: Mapping[str, str], description: str
    ) -> LambdaFunction:
        function = LambdaFunction(
            self,
            name,
            stage=self._stage,
            code=self._code,
            module=f"handlers.{module}",
            description=description,
            size=size,
            environment=environment,
        )
        self.by_name[name] = function.function
        return function


def _allow_objects(function: LambdaFunction, bucket: s3.Bucket, objects: Objects) -> None:
    if objects.listed:
        function.allow(["s3:ListBucket"], [bucket.bucket_arn])
    for action, prefixes in (
        ("s3:PutObject", objects.written + objects.streamed),
        ("s3:AbortMultipartUpload", objects.streamed),
        ("s3:GetObject", objects.read),
        ("s3:DeleteObject", objects.deleted),
    ):
        if prefixes:
            function.allow_objects(action, bucket, prefixes)
