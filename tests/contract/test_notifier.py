"""A failure reaches a person: the topic on a real engine, read through a queue that is subscribed to it."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from functions.adapters.notifier import SnsNotifier
from functions.domain.errors import ConfigurationError, DispatcherError, TransientError
from functions.domain.failure import subject_of
from tests.contract.staged import Step, fresh, refusal, stage


@pytest.fixture
def notifier(aws: Callable[[str], Any]) -> SnsNotifier:
    return SnsNotifier(aws("sns"), aws("sns").create_topic(Name=fresh("alarms"))["TopicArn"])


@pytest.fixture
def inbox(aws: Callable[[str], Any], notifier: SnsNotifier) -> Callable[[], list[dict[str, Any]]]:
    """What has arrived at a queue that is subscribed to the topic."""
    url = aws("sqs").create_queue(QueueName=fresh("inbox"))["QueueUrl"]
    attributes = aws("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    notifier.client.subscribe(TopicArn=notifier.topic_arn, Protocol="sqs", Endpoint=attributes["QueueArn"])

    def read() -> list[dict[str, Any]]:
        messages = aws("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)
        return [json.loads(message["Body"]) for message in messages.get("Messages", ())]

    return read


def test_subject_and_text_arrive_as_they_are(notifier: SnsNotifier, inbox: Callable[[], list[dict[str, Any]]]) -> None:
    subject = subject_of("2026-09-17T15:00:00Z", "TooManyBadRecords")
    text = 'Page 3\nStart {"ExecuteTime": "2026-09-17T16:00:00Z", "Resume": true}.'
    notifier.notify(subject, text)
    (message,) = inbox()
    assert (message["Subject"], message["Message"]) == (subject, text)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(refusal("Throttling"), TransientError, id="throttled"),
        pytest.param(refusal("InternalError", 500), TransientError, id="unavailable"),
        pytest.param(refusal("AuthorizationError", 403), ConfigurationError, id="no right to publish"),
        pytest.param(refusal("NotFound", 404), ConfigurationError, id="no such topic"),
    ],
)
@pytest.mark.usefixtures("pauses")
def test_a_failed_message_says_who_acts(notifier: SnsNotifier, step: Step, kind: type[DispatcherError]) -> None:
    stage(notifier.client, "Publish", itertools.repeat(step))
    with pytest.raises(DispatcherError, match=r"^Publish: ") as raised:
        notifier.notify("subject", "text")
    assert type(raised.value) is kind
