"""What the stack's dashboard shows: one question a row, the most urgent one first."""

from collections.abc import Mapping, Sequence
from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from functions.domain.budget import PAGE_FUNCTION_SECONDS, WINDOW_FUNCTION_SECONDS
from functions.domain.reconcile import Difference
from infra.functions import DISPATCHING
from infra.metrics import MAXIMUM, PERIOD, SUM, counted
from infra.monitoring import LONG_RUN, OLDEST_TASK
from infra.queues import TaskQueues
from infra.stage import Stage
from infra.storage import Storage
from infra.workflow import Workflow

WIDTH: Final = 24
"""Columns that CloudWatch divides a dashboard into."""
HEIGHT: Final = 6
HOUR: Final = Duration.hours(1)
MINUTE: Final = Duration.minutes(1)


class Dashboard(Construct):
    """One CloudWatch dashboard, named as the stack.

    Each of its metrics is one of the stack's own: nothing is searched for, and no dimension holds a shop, a member or
    an hour.
    """

    def __init__(  # noqa: PLR0913 -- a construct's properties are keywords
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        alarms: Sequence[cloudwatch.IAlarm],
        workflow: Workflow,
        functions: Mapping[str, lambda_.Function],
        storage: Storage,
        queues: TaskQueues,
        dead_letters: Mapping[str, sqs.Queue],
    ) -> None:
        super().__init__(scope, construct_id)
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=Stack.of(self).stack_name,
            default_interval=Duration.days(1),
            # A sum "per hour" stays one, whatever range of time is looked at.
            period_override=cloudwatch.PeriodOverride.INHERIT,
        )
        status = cloudwatch.AlarmStatusWidget(
            title="Alarms",
            alarms=list(alarms),
            width=WIDTH,
            height=HEIGHT,
            sort_by=cloudwatch.AlarmStatusWidgetSortBy.STATE_UPDATED_TIMESTAMP,
        )
        self._row(
            "Does anything need a person?",
            status,
            note=f"What to do about each: [{stage.runbook_url}]({stage.runbook_url})",
        )
        self._row("Is it running?", *_running(workflow))
        self._row("Is it late?", *_late(workflow, queues))
        self._row("Is anything set aside, missing, or in a dead-letter queue?", *_missing(dead_letters))
        self._row("How long does an hour take, against the hour it has?", *_duration(workflow))
        self._row("How much goes through?", *_throughput())
        self._row("Does AWS push back?", *_push_back(functions, storage))
        self._row("Do the functions have room?", *_functions(functions))
        self._row("Do the workers keep up?", *_queues(queues))

    def _row(self, question: str, *widgets: cloudwatch.IWidget, note: str = "") -> None:
        text = f"## {question}" + (f"\n{note}" if note else "")
        heading = cloudwatch.TextWidget(
            markdown=text, width=WIDTH, height=2 if note else 1, background=cloudwatch.TextWidgetBackground.TRANSPARENT
        )
        self.dashboard.add_widgets(heading)
        self.dashboard.add_widgets(*widgets)


def _running(workflow: Workflow) -> list[cloudwatch.IWidget]:
    machines = (
        ("Dispatch, executions an hour", workflow.state_machine),
        ("Reconcile, executions an hour", workflow.reconcile_machine),
        ("Lanes, executions an hour", workflow.lane_machine),
    )
    return [
        _graph(
            title,
            [
                metric(label=label, period=HOUR, statistic=SUM)
                for label, metric in (
                    ("started", machine.metric_started),
                    ("succeeded", machine.metric_succeeded),
                    ("failed", machine.metric_failed),
                    ("timed out", machine.metric_timed_out),
                    ("stopped", machine.metric_aborted),
                )
            ],
            of=len(machines),
        )
        for title, machine in machines
    ]


def _late(workflow: Workflow, queues: TaskQueues) -> list[cloudwatch.IWidget]:
    started = [
        machine.metric_started(label=label, period=HOUR, statistic=SUM)
        for label, machine in (("dispatch", workflow.state_machine), ("reconcile", workflow.reconcile_machine))
    ]
    return [
        _graph("Starts an hour: below 1 an hour has no run", started, of=3, lines={"one an hour": 1}),
        _graph(
            "Hours that ended without a run, by their reconcile",
            [counted("MissingHour", period=HOUR)],
            of=3,
        ),
        _graph(
            "Oldest task, seconds",
            [
                route.queue.metric_approximate_age_of_oldest_message(label=label, period=PERIOD, statistic=MAXIMUM)
                for label, route in (("points", queues.point), ("coupons", queues.coupon))
            ],
            of=3,
            lines={"alarm": OLDEST_TASK.to_seconds()},
        ),
    ]


def _missing(dead_letters: Mapping[str, sqs.Queue]) -> list[cloudwatch.IWidget]:
    return [
        _graph("Bookings set aside an hour", [counted("SetAside", period=HOUR)], of=3),
        _graph(
            "Differences an hour, by class",
            [counted(kind.value, period=HOUR) for kind in Difference],
            of=3,
        ),
        _graph(
            "Messages in dead-letter queues",
            [
                queue.metric_approximate_number_of_messages_visible(label=name, period=PERIOD, statistic=MAXIMUM)
                for name, queue in dead_letters.items()
            ],
            of=3,
        ),
    ]


def _duration(workflow: Workflow) -> list[cloudwatch.IWidget]:
    hour = {"the hour is over": HOUR.to_minutes()}
    return [
        _graph(
            "Runs at work, minutes since their start",
            [_minutes("longest", counted("RunSeconds", MAXIMUM), of=60)],
            of=2,
            lines={"alarm": LONG_RUN.to_minutes(), **hour},
        ),
        _graph(
            "Executions that ended, minutes they took",
            [
                _minutes(label, machine.metric_time(period=HOUR, statistic=MAXIMUM), of=60_000)
                for label, machine in (("dispatch", workflow.state_machine), ("reconcile", workflow.reconcile_machine))
            ],
            of=2,
            lines=hour,
        ),
    ]


def _minutes(label: str, metric: cloudwatch.Metric, *, of: int) -> cloudwatch.MathExpression:
    """A metric of a time, of which so many are a minute, in minutes."""
    return cloudwatch.MathExpression(
        expression=f"{label} / {of}", using_metrics={label: metric}, label=label, period=metric.period
    )


def _throughput() -> list[cloudwatch.IWidget]:
    return [
        _graph("Pages a minute", [counted("Pages", period=MINUTE)], of=3),
        _graph(
            "Bookings a minute",
            [counted(name, period=MINUTE) for name in ("Evaluated", "Waiting", "Dispatched", "AlreadyDispatched")],
            of=3,
        ),
        _graph("Groups and tasks a minute", [counted(name, period=MINUTE) for name in ("Groups", "Tasks")], of=3),
    ]


def _push_back(functions: Mapping[str, lambda_.Function], storage: Storage) -> list[cloudwatch.IWidget]:
    ledger = {"TableName": storage.ledger.table_name}
    bookings = storage.bookings
    index = {"TableName": bookings.table.table_name, "GlobalSecondaryIndexName": bookings.index_name}
    return [
        _graph("Retries of calls", [counted("Retries")], of=3),
        _graph(
            "Throttles and conflicts in DynamoDB",
            [
                cloudwatch.Metric(
                    namespace="AWS/DynamoDB",
                    metric_name=name,
                    dimensions_map=dimensions,
                    label=label,
                    period=PERIOD,
                    statistic=SUM,
                )
                for label, name, dimensions in (
                    ("index, reads", "ReadThrottleEvents", index),
                    ("ledger, reads", "ReadThrottleEvents", ledger),
                    ("ledger, writes", "WriteThrottleEvents", ledger),
                    ("ledger, transactions that met", "TransactionConflict", ledger),
                )
            ],
            of=3,
        ),
        _graph(
            "Calls of functions that were refused",
            [functions[one.name].metric_throttles(label=one.name, period=PERIOD, statistic=SUM) for one in DISPATCHING],
            of=3,
        ),
    ]


def _functions(functions: Mapping[str, lambda_.Function]) -> list[cloudwatch.IWidget]:
    """Show the functions that read or dispatch; the others do one small step each."""
    dispatching = [functions[one.name] for one in DISPATCHING]
    return [
        _graph(
            "Longest call, milliseconds",
            [
                functions[one.name].metric_duration(label=one.name, period=PERIOD, statistic=MAXIMUM)
                for one in DISPATCHING
            ],
            of=3,
            lines={
                "a page's time is up": 1000 * PAGE_FUNCTION_SECONDS,
                "a whole window's time is up": 1000 * WINDOW_FUNCTION_SECONDS,
            },
        ),
        # Lambda has no metric of memory: each call's last line of log tells it.
        cloudwatch.LogQueryWidget(
            title="Most memory used, percent of what the function has",
            log_group_names=[function.log_group.log_group_name for function in dispatching],
            query_lines=[
                'filter @type = "REPORT"',
                "stats max(100 * @maxMemoryUsed / @memorySize) as Percent by bin(5m)",
            ],
            view=cloudwatch.LogQueryVisualizationType.LINE,
            width=WIDTH // 3,
            height=HEIGHT,
        ),
        _graph(
            "Calls that failed",
            [functions[one.name].metric_errors(label=one.name, period=PERIOD, statistic=SUM) for one in DISPATCHING],
            of=3,
        ),
    ]


def _queues(queues: TaskQueues) -> list[cloudwatch.IWidget]:
    return [
        _graph(
            title,
            [
                route.queue.metric(name, label=label, period=PERIOD, statistic=statistic)
                for label, route in (("points", queues.point), ("coupons", queues.coupon))
            ],
            of=3,
        )
        for title, name, statistic in (
            ("Tasks that wait", "ApproximateNumberOfMessagesVisible", MAXIMUM),
            ("Tasks at work", "ApproximateNumberOfMessagesNotVisible", MAXIMUM),
            ("Tasks done", "NumberOfMessagesDeleted", SUM),
        )
    ]


def _graph(
    title: str, metrics: Sequence[cloudwatch.IMetric], *, of: int, lines: Mapping[str, float] | None = None
) -> cloudwatch.GraphWidget:
    """One of so many graphs in a row, from zero on."""
    return cloudwatch.GraphWidget(
        title=title,
        left=list(metrics),
        left_y_axis=cloudwatch.YAxisProps(min=0, show_units=False),
        left_annotations=[
            cloudwatch.HorizontalAnnotation(label=label, value=value) for label, value in (lines or {}).items()
        ],
        width=WIDTH // of,
        height=HEIGHT,
    )
