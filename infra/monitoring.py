"""What tells a person."""

from collections.abc import Mapping
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.lambda_function import METRICS_NAMESPACE, SERVICE

PERIOD: Final = Duration.minutes(5)


class Monitoring(Construct):
    """Alarms on what needs a person, all to one topic.  One occurrence in five minutes is enough."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        topic: sns.Topic,
        state_machine: sfn.StateMachine,
        dead_letters: Mapping[str, sqs.Queue],
    ) -> None:
        super().__init__(scope, construct_id)
        self._topic = topic
        for name, metric, meaning in (
            ("Failed", state_machine.metric_failed, "An hour was not dispatched: its execution failed."),
            ("TimedOut", state_machine.metric_timed_out, "An hour was not dispatched: its time ran out."),
            ("Aborted", state_machine.metric_aborted, "An execution was stopped before its end."),
        ):
            self._alarm(f"Executions{name}", metric(period=PERIOD, statistic=cloudwatch.Stats.SUM), meaning)

        set_aside = cloudwatch.Metric(
            namespace=METRICS_NAMESPACE,
            metric_name="SetAside",
            dimensions_map={"service": SERVICE},
            period=PERIOD,
            statistic=cloudwatch.Stats.SUM,
        )
        self._alarm("SetAside", set_aside, "Bad bookings lie in the bucket under set-aside/.")

        for name, queue in dead_letters.items():
            waiting = queue.metric_approximate_number_of_messages_visible(
                period=PERIOD, statistic=cloudwatch.Stats.MAXIMUM
            )
            self._alarm(f"{name}DeadLetters", waiting, f"{name}: messages wait in the dead-letter queue.")

    def _alarm(self, name: str, metric: cloudwatch.IMetric, meaning: str) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            alarm_description=meaning,
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self._topic))
