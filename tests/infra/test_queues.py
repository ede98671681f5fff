"""The task queues and their dead-letter queues."""

from typing import Any

import pytest

from functions.adapters.task_queues import MAX_BYTES
from tests.infra.template import StackTemplate

TASK_QUEUES = {"QueuesPointQueue", "QueuesCouponQueue"}
DEAD_LETTERS = {"QueuesPointDeadLetters", "QueuesCouponDeadLetters"}
FOURTEEN_DAYS = 14 * 24 * 3600


@pytest.fixture(scope="module")
def queues(sandbox: StackTemplate) -> dict[str, Any]:
    return sandbox.properties("AWS::SQS::Queue")


def test_each_route_has_a_queue_and_a_dead_letter_queue(queues: dict[str, Any]) -> None:
    assert queues.keys() == TASK_QUEUES | DEAD_LETTERS | {
        "ScheduleDeadLetters",
        "ReconcileScheduleDeadLetters",
        "WatchDeadLetters",
    }
    for route in ("Point", "Coupon"):
        assert queues[f"Queues{route}Queue"]["RedrivePolicy"] == {
            "deadLetterTargetArn": f"<Queues{route}DeadLetters.Arn>",
            "maxReceiveCount": 5,
        }


@pytest.mark.parametrize("name", sorted(TASK_QUEUES | DEAD_LETTERS))
def test_order_and_repeats_count_within_a_member_group_only(queues: dict[str, Any], name: str) -> None:
    assert queues[name]["FifoQueue"] is True
    assert queues[name]["DeduplicationScope"] == "messageGroup"
    assert queues[name]["FifoThroughputLimit"] == "perMessageGroupId"


@pytest.mark.parametrize("name", sorted(TASK_QUEUES | DEAD_LETTERS))
def test_a_task_is_known_by_its_id_and_never_by_a_hash_of_its_body(queues: dict[str, Any], name: str) -> None:
    assert queues[name]["ContentBasedDeduplication"] is False


@pytest.mark.parametrize("name", sorted(TASK_QUEUES | DEAD_LETTERS))
def test_a_queue_takes_every_batch_that_the_sender_makes(queues: dict[str, Any], name: str) -> None:
    assert queues[name]["MaximumMessageSize"] == 262_144
    assert queues[name]["MaximumMessageSize"] >= MAX_BYTES


def test_messages_are_kept_for_as_long_as_the_service_allows_and_encrypted(queues: dict[str, Any]) -> None:
    for queue in queues.values():
        assert queue["MessageRetentionPeriod"] == FOURTEEN_DAYS
        assert queue["SqsManagedSseEnabled"] is True


def test_every_queue_refuses_plain_http(sandbox: StackTemplate, queues: dict[str, Any]) -> None:
    refusing = set()
    for policy in sandbox.properties("AWS::SQS::QueuePolicy").values():
        [queue] = policy["Queues"]
        refusal = {
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "sqs:*",
            "Resource": f"{queue[:-1]}.Arn>",
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
        assert [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Deny"] == [refusal]
        refusing.add(queue.strip("<>"))
    assert refusing == queues.keys()


def test_only_the_watchs_queue_lets_a_service_in_by_its_policy(sandbox: StackTemplate) -> None:
    """Whoever else sends has a role that allows it."""
    letting_in = {
        queue
        for policy in sandbox.properties("AWS::SQS::QueuePolicy").values()
        for queue in policy["Queues"]
        if any(each["Effect"] == "Allow" for each in policy["PolicyDocument"]["Statement"])
    }
    assert letting_in == {"<WatchDeadLetters>"}
