"""The functions: what each is given to read, and what each may do."""

import json
from collections.abc import Mapping
from typing import Final

from aws_cdk import aws_lambda as lambda_
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
PAGE: Final = Size(PAGE_FUNCTION_SECONDS, 1024)
WINDOW: Final = Size(WINDOW_FUNCTION_SECONDS, 3008)
"""The full read holds the whole hour.  More memory a new account does not grant to one function."""

TAKE_LEASES: Final = ("dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem")
END_RUN: Final = ("dynamodb:DeleteItem", "dynamodb:UpdateItem")
SEE_PLANS: Final = ("dynamodb:Query",)
FIND_RUN: Final = ("dynamodb:GetItem",)
KEEP_PLANS: Final = (*TAKE_LEASES, "dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem")
ASK_FOR_PLAN: Final = ("dynamodb:GetItem",)
"""A page's; the chunks of a whole window are listed."""

WRITTEN_PREFIXES: Final = ("tasks/", "set-aside/", "plans/")
READ_PREFIXES: Final = ("plans/",)


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
        names = {variable: parameter.parameter_name for variable, parameter in flags.items()}
        plan = self._function("PlanRun", "plan_run", SMALL, names, "Fixes window, flags and path of a run, once.")
        plan.allow(["ssm:GetParameters"], [parameter.parameter_arn for parameter in flags.values()])

        ledger = {"LEDGER_TABLE_NAME": storage.ledger.table_name}
        telling = ledger | {"ALARM_TOPIC_ARN": alarms.topic_arn}
        for name, module, actions, environment, description in (
            ("TakeLeases", "take_leases", TAKE_LEASES, ledger, "Takes both edges of the window for the run."),
            ("SummarizeRun", "summarize_run", END_RUN, ledger, "Sums up a run and gives its edges back."),
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
            function = self._function(name, module, SMALL, environment, description)
            function.allow(actions, [storage.ledger.table_arn])
            if environment is telling:
                function.allow(["sns:Publish"], [alarms.topic_arn])

        dispatch = ledger | {
            "BOOKING_TABLE_NAME": storage.bookings.table.table_name,
            "BOOKING_INDEX_NAME": storage.bookings.index_name,
            "BOOKING_KEY_ATTRIBUTES": json.dumps(storage.bookings.key_attributes),
            "TASK_DATA_BUCKET_NAME": storage.task_data.bucket_name,
            "POINT_TASK_QUEUE_URL": queues.point.queue.queue_url,
            "COUPON_TASK_QUEUE_URL": queues.coupon.queue.queue_url,
            "STOP_PARAMETER": parameters.stop.parameter_name,
        }
        for name, module, size, plan_actions, description in (
            (
                "DispatchPage",
                "dispatch_page",
                PAGE,
                ASK_FOR_PLAN + KEEP_PLANS,
                "Reads one page of bookings and dispatches it.",
            ),
            ("DispatchWindow", "dispatch_window", WINDOW, KEEP_PLANS, "Reads a whole window and dispatches it."),
        ):
            function = self._function(name, module, size, dispatch, description)
            function.allow(["dynamodb:Query"], [storage.bookings.index_arn])
            function.allow(plan_actions, [storage.ledger.table_arn])
            function.allow_objects("s3:PutObject", storage.task_data, WRITTEN_PREFIXES)
            function.allow_objects("s3:GetObject", storage.task_data, READ_PREFIXES)
            function.allow(["sqs:SendMessage"], queues.arns)
            function.allow(["ssm:GetParameters"], [parameters.stop.parameter_arn])

    def _function(
        self, name: str, module: str, size: Size, environment: Mapping[str, str], description: str
    ) -> LambdaFunction:
        function = LambdaFunction(
            self,
            name,
            stage=self._stage,
            code=self._code,
            module=module,
            description=description,
            size=size,
            environment=environment,
        )
        self.by_name[name] = function.function
        return function
