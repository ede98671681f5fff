"""The hourly start."""

from typing import Final

from aws_cdk import Duration, TimeZone
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.dead_letters import dead_letter_queue
from infra.stage import Stage

MINUTE: Final = 1
"""After the hour: bookings of its last seconds have had time to reach the index."""
RETRIED_FOR: Final = Duration.hours(1)
"""Then somebody is told.  A late start is no wrong start, since the input holds the scheduled time."""
ATTEMPTS: Final = 185
"""The service's maximum: the time above decides."""


class HourlySchedule(Construct):
    """Starts the machine every hour of UTC: a zone with summer time would skip one and repeat another.

    A start that could not be made lies in `dead_letters` with the input to repeat it by hand.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage, state_machine: sfn.StateMachine) -> None:
        super().__init__(scope, construct_id)
        self.dead_letters = dead_letter_queue(self, stage=stage)
        self.schedule = scheduler.Schedule(
            self,
            "Hourly",
            description="Dispatches the bookings of the hour before.",
            schedule=scheduler.ScheduleExpression.cron(minute=str(MINUTE), time_zone=TimeZone.of("UTC")),
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
