"""Where everything that needs a person is told."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct


class AlarmTopic(Construct):
    """The topic of alarms and of failed runs; subscribe whoever is on call."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(self, "Topic", enforce_ssl=True)
        # A policy of its own replaces the default one, by which the account's alarms were let in.
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AllowAlarms",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )
