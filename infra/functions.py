"""The six functions: what each is given to read, and what each may do."""

import json
from collections.abc import Mapping
from typing import Final

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
RELEASE_LEASES: Final = ("dynamodb:DeleteItem",)
KEEP_PLANS: Final = (
    *TAKE_LEASES,
    "dynamodb:BatchGetItem",
    "dynamodb:ConditionCheckItem",
    "dynamodb:GetItem",
)

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
    ) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        self._code = BundleCode(bundle)
        self.arns: dict[str, str] = {}
        """Each function's ARN by the function's name."""

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
        for name, module, actions, description in (
            ("TakeLeases", "take_leases", TAKE_LEASES, "Takes both edges of the window for the run."),
            ("SummarizeRun", "summarize_run", RELEASE_LEASES, "Sums up a run and gives its edges back."),
            ("ReportFailure", "report_failure", RELEASE_LEASES, "Records a failure, gives the edges back."),
        ):
            function = self._function(name, module, SMALL, ledger, description)
            function.allow(actions, [storage.ledger.table_arn])

        dispatch = ledger | {
            "BOOKING_TABLE_NAME": storage.bookings.table.table_name,
            "BOOKING_INDEX_NAME": storage.bookings.index_name,
            "BOOKING_KEY_ATTRIBUTES": json.dumps(storage.bookings.key_attributes),
            "TASK_DATA_BUCKET_NAME": storage.task_data.bucket_name,
            "POINT_TASK_QUEUE_URL": queues.point.queue.queue_url,
            "COUPON_TASK_QUEUE_URL": queues.coupon.queue.queue_url,
        }
        for name, module, size, description in (
            ("DispatchPage", "dispatch_page", PAGE, "Reads one page of bookings and dispatches it."),
            ("DispatchWindow", "dispatch_window", WINDOW, "Reads a whole window and dispatches it."),
        ):
            function = self._function(name, module, size, dispatch, description)
            function.allow(["dynamodb:Query"], [storage.bookings.index_arn])
            function.allow(KEEP_PLANS, [storage.ledger.table_arn])
            function.allow_objects("s3:PutObject", storage.task_data, WRITTEN_PREFIXES)
            function.allow_objects("s3:GetObject", storage.task_data, READ_PREFIXES)
            function.allow(["sqs:SendMessage"], queues.arns)

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
        self.arns[name] = function.function.function_arn
        return function
