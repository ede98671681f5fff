"""The reference worker: it grants what the two queues hold, into a table of its own."""

import json
from typing import Final

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from functions.domain.budget import WORKER_FUNCTION_SECONDS
from infra.bundle import LambdaBundle
from infra.lambda_function import BundleCode, LambdaFunction, Size
from infra.queues import TaskQueues
from infra.stage import Stage
from infra.storage import Storage

SIZE: Final = Size(WORKER_FUNCTION_SECONDS, 1024)
BATCH_SIZE: Final = 1
"""A message that fails takes those behind it in its batch along, and each such delivery counts for them too.

After five they would all be dead letters, because of one that cannot be worked.  Alone, it only makes its group wait.
"""
CONCURRENCY: Final = 10
"""Of each queue: a sandbox must not use up the account's functions."""
POSTPONE_MINUTES: Final = 60
"""A reward that is out of stock is tried again in a later hour."""

CONSUME: Final = ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
"""What Lambda does with a queue, in the function's name."""


class Worker(Construct):
    """The worker's function, its grant table, and the two queues as its sources.

    A failed message is delivered again alone, without those of its batch that were worked.
    """

    def __init__(  # noqa: PLR0913 -- a construct's properties are keywords
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        bundle: LambdaBundle,
        storage: Storage,
        queues: TaskQueues,
    ) -> None:
        super().__init__(scope, construct_id)
        self.grants = dynamodb.TableV2(
            self,
            "Grants",
            partition_key=dynamodb.Attribute(name="Pk", type=dynamodb.AttributeType.STRING),
            billing=dynamodb.Billing.on_demand(),
            time_to_live_attribute="ExpiresAt",
            removal_policy=stage.removal_policy,
        )
        bookings = storage.bookings
        worker = LambdaFunction(
            self,
            "GrantTasks",
            stage=stage,
            code=BundleCode(bundle),
            module="worker.grant_tasks",
            description="Grants the orders of tasks, each record version once.",
            size=SIZE,
            environment={
                "POWERTOOLS_SERVICE_NAME": "worker",
                "BOOKING_TABLE_NAME": bookings.table.table_name,
                "BOOKING_KEY_ATTRIBUTES": json.dumps(bookings.key_attributes),
                "BOOKING_DATE_ATTRIBUTE": bookings.date_attribute,
                "TASK_DATA_BUCKET_NAME": storage.task_data.bucket_name,
                "GRANT_TABLE_NAME": self.grants.table_name,
                "POSTPONE_MINUTES": str(POSTPONE_MINUTES),
            },
        )
        worker.allow(["dynamodb:GetItem", "dynamodb:UpdateItem"], [bookings.table.table_arn])
        worker.allow(["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [self.grants.table_arn])
        worker.allow_objects("s3:GetObject", storage.task_data, ["tasks/"])
        worker.allow(CONSUME, queues.arns)
        self.function = worker.function
        for name, route in (("Points", queues.point), ("Coupons", queues.coupon)):
            lambda_.EventSourceMapping(
                self,
                name,
                target=self.function,
                event_source_arn=route.queue.queue_arn,
                batch_size=BATCH_SIZE,
                report_batch_item_failures=True,
                max_concurrency=CONCURRENCY,
                enabled=stage.works_unasked,
            )
