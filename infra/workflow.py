"""The state machine, from its definition file."""

from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.lambda_function import LOG_RETENTION
from infra.stage import Stage


class Workflow(Construct):
    """A standard state machine that may invoke exactly the functions it is given.

    Every transition is logged, without input, output or cause: those hold record keys.  They are in the
    execution's own history, for whoever may read that.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        definition: Path,
        functions: Mapping[str, lambda_.Function],
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        arns = {name: function.function_arn for name, function in functions.items()}
        # The file names the common partition, so that it stands alone; an account may live in another.
        text = definition.read_text(encoding="utf-8").replace("arn:aws:", f"arn:{stack.partition}:")
        log_group = logs.LogGroup(
            self,
            "Log",
            # Names of this form spare the log service's resource policy, short and shared by the account.
            log_group_name=f"/aws/vendedlogs/states/{stack.stack_name}-Dispatch",
            retention=LOG_RETENTION,
            removal_policy=stage.removal_policy,
        )
        self.state_machine = sfn.StateMachine(
            self,
            "Dispatch",
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(text),
            definition_substitutions={f"{name}FunctionArn": arn for name, arn in arns.items()},
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=False),
            tracing_enabled=stage.traced,
            removal_policy=stage.removal_policy,
        )
        # A definition from a file grants nothing by itself.
        self.state_machine.add_to_role_policy(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=list(arns.values()))
        )
        acknowledge(
            self.state_machine,
            "AwsSolutions-IAM5[Resource::*]",
            "The actions of log delivery, and of tracing where it is on, know no resources.",
        )
        if not stage.traced:
            acknowledge(
                self.state_machine,
                "AwsSolutions-SF2",
                "Each step is in the execution's history; tracing is the context setting `tracing`.",
            )
