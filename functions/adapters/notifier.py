"""Messages to the people who watch over the product."""

from dataclasses import dataclass
from typing import Any

from functions.adapters.clients import translated


@dataclass(frozen=True, slots=True)
class SnsNotifier:
    """`Notifier` on an SNS topic."""

    client: Any
    topic_arn: str

    def notify(self, subject: str, text: str) -> None:
        """See `Notifier.notify`."""
        with translated("Publish"):
            self.client.publish(TopicArn=self.topic_arn, Subject=subject, Message=text)
