"""The two queues that tasks go to, one for each route."""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.domain.budget import QUEUE_VISIBILITY_SECONDS
from infra.stage import Stage

MESSAGE_BYTES: Final = 262_144
"""A task is a pointer of a few kilobytes.  Set here since SQS's own default has changed once."""
RETENTION: Final = Duration.days(14)
VISIBILITY: Final = Duration.seconds(QUEUE_VISIBILITY_SECONDS)
RECEIVES: Final = 5
"""After so many, a task counts as one that cannot be granted."""


class TaskQueue(Construct):
    """A FIFO queue in high-throughput mode, with a dead-letter queue of the same kind.

    Order and repeats count within a message group, which is a member's group of bookings.  The sender names
    each task's deduplication id: the task's id, never a hash of the body.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        self.dead_letters = self._fifo("DeadLetters")
        redrive = sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=RECEIVES)
        self.queue = self._fifo("Queue", redrive)

    def _fifo(self, construct_id: str, dead_letter_queue: sqs.DeadLetterQueue | None = None) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            fifo=True,
            content_based_deduplication=False,
            deduplication_scope=sqs.DeduplicationScope.MESSAGE_GROUP,
            fifo_throughput_limit=sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            max_message_size_bytes=MESSAGE_BYTES,
            retention_period=RETENTION,
            visibility_timeout=VISIBILITY,
            dead_letter_queue=dead_letter_queue,
            removal_policy=self._stage.removal_policy,
        )


class TaskQueues(Construct):
    """The points route and the coupon route."""

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        self.point = TaskQueue(self, "Point", stage=stage)
        self.coupon = TaskQueue(self, "Coupon", stage=stage)

    @property
    def arns(self) -> list[str]:
        """Both queues that tasks are sent to."""
        return [self.point.queue.queue_arn, self.coupon.queue.queue_arn]
