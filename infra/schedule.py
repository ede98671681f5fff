"""The hourly starts."""

from typing import Final

from aws_cdk import Duration, TimeZone
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.dead_letters import dead_letter_queue
from infra.stage import Stage

DISPATCH_MINUTE: Final = 1
"""After the hour: bookings of its last seconds have had time to reach the index."""
RECONCILE_MINUTE: Final = 30
"""When an hour's run has usually ended, and long before the next one begins."""
RETRIED_FOR: Final = Duration.hours(1)
"""Then somebody is told.  A late start is no wrong start, since the input holds the scheduled time."""
ATTEMPTS: Final = 185
"""The service's maximum: the time above decides."""


class HourlySchedule(Construct):
    """Starts a machine every hour for the hour before.

    In UTC: a zone with summer time would skip an hour and repeat another.  A start that could not be made lies in
    `dead_letters` with the input to repeat it by hand.
    """

    def __init__(  # noqa: PLR0913 -- a construct's properties are keywords
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        state_machine: sfn.StateMachine,
        minute: int,
        description: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self.dead_letters = dead_letter_queue(self, stage=stage)
        self.schedule = scheduler.Schedule(
            self,
            "Hourly",
            description=description,
            schedule=scheduler.ScheduleExpression.cron(minute=str(minute), time_zone=TimeZone.of("UTC")),
            time_window=scheduler.TimeWindow.off(),
            target=targets.StepFunctionsStartExecution(
                state_machine,
                input=scheduler.ScheduleTargetInput.from_object(
                    {"ExecuteTime": scheduler.ContextAttribute.scheduled_time}
                ),
                dead_letter_queue=self.dead_letters,
                max_event_age=RETRIED_FOR,
                retry_attempts=ATTEMPTS,
            ),
            enabled=stage.runs_hourly,
        )
