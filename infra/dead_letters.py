"""The last stop of what could not be delivered."""

from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.queues import RETENTION
from infra.stage import Stage


def dead_letter_queue(scope: Construct, *, stage: Stage) -> sqs.Queue:
    """A standard queue named `DeadLetters` in its scope; an alarm watches over each."""
    queue = sqs.Queue(
        scope,
        "DeadLetters",
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=RETENTION,
        removal_policy=stage.removal_policy,
    )
    acknowledge(queue, "AwsSolutions-SQS3", "It is itself a dead-letter queue.")
    return queue
