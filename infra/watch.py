"""What sees an execution die outside its own failure branch: timed out, stopped, or failed by the service."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.dead_letters import dead_letter_queue
from infra.stage import Stage

TRIED_FOR: Final = Duration.hours(2)
DELIVERIES: Final = 20
INVOCATION_RETRIES: Final = 2
"""The service's maximum."""


class ExecutionWatch(Construct):
    """Calls the recorder for every execution that ended badly; it tells apart what is noted already.

    An end that could not be recorded lies in `dead_letters`, with the event to repeat it by hand: put there by the rule
    where the recorder could not be called, and by the recorder's own configuration where its calls failed.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        state_machines: Sequence[sfn.StateMachine],
        recorder: lambda_.Function,
    ) -> None:
        super().__init__(scope, construct_id)
        self.dead_letters = dead_letter_queue(self, stage=stage)
        self.rule = events.Rule(
            self,
            "BadEnd",
            description="An execution that holds a window failed, timed out or was stopped.",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={
                    "stateMachineArn": [machine.state_machine_arn for machine in state_machines],
                    "status": ["FAILED", "TIMED_OUT", "ABORTED"],
                },
            ),
            targets=[
                targets.LambdaFunction(
                    recorder,
                    dead_letter_queue=self.dead_letters,
                    max_event_age=TRIED_FOR,
                    retry_attempts=DELIVERIES,
                )
            ],
        )
        # For the rule a call is delivered once it is accepted: a failure after that is the function's to keep.
        lambda_.EventInvokeConfig(
            self,
            "Recording",
            function=recorder,
            max_event_age=TRIED_FOR,
            retry_attempts=INVOCATION_RETRIES,
            on_failure=destinations.SqsDestination(self.dead_letters),
        )
