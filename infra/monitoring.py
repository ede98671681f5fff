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

from infra.metrics import MAXIMUM, PERIOD, SUM, counted
from infra.queues import RECEIVES, VISIBILITY, TaskQueues
from infra.stage import Stage
from infra.workflow import Workflow

COUNTED: Final = {
    "SetAside": "Bad bookings lie in the bucket under set-aside/.",
    "MissingInLedger": "Bookings of an hour that has ended wait and were not dispatched: see its report.",
    "Duplicate": "A booking stands in two tasks: see its hour's report.",
    "InDoubt": "A task may have been sent and may not: its run died, and none has gone on with its hour.",
    "MissingHour": "An hour has ended, and no run of it was recorded.",
    "RedoFailed": "What was missing was not redone: the redo failed after it was planned.",
}
"""What the functions count and a person must see.

A booking that is gone after its dispatch is none of it: a worker that runs out of coupons moves it to a later hour.
"""

LONG_RUN: Final = Duration.minutes(50)
"""An hour that takes longer is hardly done before the next one begins, which waits for it."""
OLDEST_TASK: Final = Duration.minutes(RECEIVES * int(VISIBILITY.to_minutes()) + 30)
"""A task that cannot be worked is a dead letter before that: what is older was not even tried."""
NO_RUN: Final = Duration.hours(2)


class Monitoring(Construct):
    """Alarms on what needs a person, all to one topic, each with the place in the runbook that says what to do.

    A comparison has none: it changes nothing, and whoever started it waits for its answer.
    """

    def __init__(  # noqa: PLR0913 -- a construct's properties are keywords
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        topic: sns.Topic,
        workflow: Workflow,
        queues: TaskQueues,
        dead_letters: Mapping[str, sqs.Queue],
    ) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        self._topic = topic
        self.alarms: list[cloudwatch.IAlarm] = []
        """In the order in which one looks at them."""
        for prefix, machine, what in (
            ("", workflow.state_machine, "dispatched"),
            ("Reconcile", workflow.reconcile_machine, "reconciled"),
        ):
            self._watch(prefix, machine, what)
        for name, meaning in COUNTED.items():
            self._alarm(name, counted(name), meaning)
        self._alarm(
            "RedoExecutionsTimedOut",
            workflow.redo_machine.metric_timed_out(period=PERIOD, statistic=SUM),
            "What was missing was not redone: the redo's time ran out.",
        )
        self._alarm(
            "LongRun",
            counted("RunSeconds", MAXIMUM),
            f"A run has been at work for more than {LONG_RUN.to_minutes():g} minutes.",
            threshold=LONG_RUN.to_seconds(),
        )
        for name, route in (("PointTasks", queues.point), ("CouponTasks", queues.coupon)):
            self._alarm(
                f"{name}Oldest",
                route.queue.metric_approximate_age_of_oldest_message(period=PERIOD, statistic=MAXIMUM),
                f"{name}: a task has waited for more than {OLDEST_TASK.to_minutes():g} minutes.",
                threshold=OLDEST_TASK.to_seconds(),
            )
        for name, queue in dead_letters.items():
            waiting = queue.metric_approximate_number_of_messages_visible(period=PERIOD, statistic=MAXIMUM)
            self._alarm(f"{name}DeadLetters", waiting, f"{name}: messages wait in the dead-letter queue.")

    def _watch(self, prefix: str, machine: sfn.StateMachine, what: str) -> None:
        """Watch over a machine that has an execution every hour."""
        for name, metric, how in (
            ("Failed", machine.metric_failed, "its execution failed"),
            ("TimedOut", machine.metric_timed_out, "its time ran out"),
            ("Aborted", machine.metric_aborted, "its execution was stopped before its end"),
        ):
            ends = metric(period=PERIOD, statistic=SUM)
            self._alarm(f"{prefix}Executions{name}", ends, f"An hour was not {what}: {how}.")
        if self._stage.runs_hourly:
            # An alarm looks further back than its period for data points, and would find the last run for hours.
            started = cloudwatch.MathExpression(
                expression="FILL(started, 0)",
                using_metrics={"started": machine.metric_started(statistic=SUM)},
                period=NO_RUN,
            )
            self._alarm(
                f"{prefix}NotStarted",
                started,
                f"For {NO_RUN.to_hours():g} hours no hour was {what}: nothing was started.",
                comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
                missing=cloudwatch.TreatMissingData.BREACHING,
            )

    def _alarm(  # noqa: PLR0913 -- what an alarm is made of, by name
        self,
        name: str,
        metric: cloudwatch.IMetric,
        meaning: str,
        *,
        threshold: float = 1,
        comparison: cloudwatch.ComparisonOperator = (cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD),
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            metric=metric,
            alarm_description=f"{meaning} {self._stage.runbook_url}#{name.lower()}",
            threshold=threshold,
            evaluation_periods=1,
            comparison_operator=comparison,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self._topic))
        self.alarms.append(alarm)
