"""Grant tasks: a batch of a queue's messages to those that must be delivered again."""

from datetime import timedelta
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

from functions.worker import wiring
from functions.worker.ports import Message
from functions.worker.work import Worked, work_batch

logger = Logger()
metrics = Metrics()


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: Any) -> dict[str, list[dict[str, str]]]:
    """Work the messages; Lambda takes those that are not named in the answer off the queue."""
    ends_at = wiring.now() + timedelta(milliseconds=context.get_remaining_time_in_millis())
    worked = list(map(_told, work_batch(map(_message, event["Records"]), wiring.desk(), ends_at)))
    metrics.flush_metrics()
    return {"batchItemFailures": [{"itemIdentifier": one.message.message_id} for one in worked if one.failure]}


def _message(record: dict[str, Any]) -> Message:
    attributes = record["attributes"]
    receives = int(attributes["ApproximateReceiveCount"])
    return Message(record["messageId"], attributes["MessageGroupId"], record["body"], receives)


def _told(worked: Worked) -> Worked:
    """Log and count what came of a message, nothing of a booking."""
    facts = {"MessageId": worked.message.message_id, "Receives": worked.message.receives}
    if worked.failure:
        logger.warning("failed", extra={**facts, "Reason": worked.failure, "Unworkable": worked.is_unworkable})
    else:
        logger.info("worked", extra={**facts, **worked.counts})
    for name, count in {"FailedMessages": int(bool(worked.failure)), **worked.counts}.items():
        metrics.add_metric(name, MetricUnit.Count, count)
    return worked
