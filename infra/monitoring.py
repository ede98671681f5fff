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


COUNTED: Final = {
    "SetAside": "Bad bookings lie in the bucket under set-aside/.",
    "MissingInLedger": "Bookings of an hour that has ended wait and were not dispatched: see its report.",
    "Duplicate": "A booking stands in two tasks: see its hour's report.",
    "InDoubt": "A task may have been sent and may not: its run died, and none has gone on with its hour.",
    "MissingHour": "An hour has ended, and no run of it was recorded.",
}
"""What the functions count and a person must see.

A booking that is gone after its dispatch is none of it: a worker that runs out of coupons moves it to a later hour.
"""


class Monitoring(Construct):
    """Alarms on what needs a person, all to one topic.  One occurrence in five minutes is enough."""

    def __init__(  # noqa: PLR0913 -- a construct's properties are keywords
        self,
        scope: Construct,
        construct_id: str,
        *,
        topic: sns.Topic,
        state_machine: sfn.StateMachine,
        reconcile_machine: sfn.StateMachine,
        dead_letters: Mapping[str, sqs.Queue],
    ) -> None:
        super().__init__(scope, construct_id)
        self._topic = topic
        for prefix, machine, not_done in (
            ("", state_machine, "An hour was not dispatched"),
            ("Reconcile", reconcile_machine, "An hour was not reconciled"),
        ):
            for name, metric, meaning in (
                ("Failed", machine.metric_failed, f"{not_done}: its execution failed."),
                ("TimedOut", machine.metric_timed_out, f"{not_done}: its time ran out."),
                ("Aborted", machine.metric_aborted, f"{not_done}: its execution was stopped before its end."),
            ):
                self._alarm(f"{prefix}Executions{name}", metric(period=PERIOD, statistic=cloudwatch.Stats.SUM), meaning)

        for name, meaning in COUNTED.items():
            counted = cloudwatch.Metric(
                namespace=METRICS_NAMESPACE,
                metric_name=name,
                dimensions_map={"service": SERVICE},
                period=PERIOD,
                statistic=cloudwatch.Stats.SUM,
            )
            self._alarm(name, counted, meaning)

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
