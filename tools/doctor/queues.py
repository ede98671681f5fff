"""The task queues and the dead-letter queues."""

import json
from collections.abc import Sequence
from typing import Final

from tools.doctor.examination import REVERT, Examination, Group, Seen, check, of_each
from tools.doctor.site import Resource

SETTINGS: Final = ("FifoQueue", "ContentBasedDeduplication", "VisibilityTimeout", "MessageRetentionPeriod")
THROUGHPUT: Final = ("DeduplicationScope", "FifoThroughputLimit")


@check(
    Group.QUEUES,
    "queue-settings",
    "Set the attributes back to what was deployed: order, repeats and the worker's time for a task depend on them. "
    f"Or {REVERT}.",
    "docs/contract.md#task",
)
def queue_settings(it: Examination) -> Seen:
    """Every queue is there, FIFO where it was deployed so, and keeps its messages as long as deployed."""
    return _queues(it, SETTINGS, "queues as deployed")


@check(
    Group.QUEUES,
    "queue-throughput",
    "Set DeduplicationScope to messageGroup and FifoThroughputLimit to perMessageGroupId: without them a FIFO queue "
    "takes 300 requests a second.",
    "docs/limits.md#bounds-of-each-part",
)
def queue_throughput(it: Examination) -> Seen:
    """The task queues are in high-throughput mode."""
    return _queues(it, THROUGHPUT, "queues in the mode that was deployed", gone_matters=False)


@check(
    Group.QUEUES,
    "queue-redrive",
    "Set the queue's redrive policy back: a task that cannot be worked would come again and hold up its group.",
    "docs/worker.md#how-the-reference-worker-does-it",
)
def queue_redrive(it: Examination) -> Seen:
    """Every task queue hands what cannot be worked to its dead-letter queue."""
    live = {one.logical_id: found for one, found in it.queues}
    arns = {found["QueueArn"] for found in live.values() if found}

    def problem(queue: Resource) -> str | None:
        found = live[queue.logical_id]
        if found is None:
            return None  # said by another check
        policy = json.loads(found.get("RedrivePolicy", "{}"))
        deployed = queue.properties["RedrivePolicy"]
        if not policy:
            return "no redrive policy"
        if policy["deadLetterTargetArn"] not in arns:
            return "its dead-letter queue is none of the stack's"
        receives = int(policy["maxReceiveCount"])
        expected = deployed["maxReceiveCount"]
        return None if receives == expected else f"{receives} receives, {expected} were deployed"

    return of_each([one for one, _ in it.queues if _has_redrive(one)], problem, "task queues have a dead-letter queue")


@check(
    Group.QUEUES,
    "dead-letters",
    "Find out why they could not be worked, mend that, and start a redrive of the queue; see also `why`.",
    "docs/worker.md#what-a-consumer-must-do-and-why",
)
def dead_letters(it: Examination) -> Seen:
    """No message waits in a dead-letter queue."""
    names = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
    live = {one.logical_id: found for one, found in it.queues}

    def problem(queue: Resource) -> str | None:
        waiting = sum(int((live[queue.logical_id] or {}).get(name, 0)) for name in names)
        return f"{waiting:,} waiting" if waiting else None

    return of_each([one for one, _ in it.queues if not _has_redrive(one)], problem, "dead-letter queues empty")


def _has_redrive(queue: Resource) -> bool:
    return "RedrivePolicy" in queue.properties


def _queues(it: Examination, attributes: Sequence[str], sound: str, *, gone_matters: bool = True) -> Seen:
    live = {one.logical_id: found for one, found in it.queues}

    def problem(queue: Resource) -> str | None:
        found = live[queue.logical_id]
        if found is None:
            return "gone" if gone_matters else None
        deployed = {name: str(queue.properties[name]) for name in attributes if name in queue.properties}
        wrong = {name: value for name, value in deployed.items() if found.get(name, "").lower() != value.lower()}
        said = (f"{name} is {found.get(name) or 'not set'}, {value} was deployed" for name, value in wrong.items())
        return " and ".join(said) or None

    return of_each([one for one, _ in it.queues], problem, sound)
