"""The state machines, each from its definition file: of a run, its lanes, a reconcile, a comparison and a redo."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from aws_cdk import ArnFormat, CfnElement, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.lambda_function import LOG_RETENTION
from infra.stage import Stage

LANE_MACHINE: Final = "LaneStateMachineArn"
"""The placeholder of the machine that another one starts."""
SYNC_RULE: Final = "StepFunctionsGetEventsForStepFunctionsExecutionRule"
"""The rule by which Step Functions learns that an execution has ended which another one waits for; it makes it itself.

Source: https://docs.aws.amazon.com/step-functions/latest/dg/connect-stepfunctions.html
"""


class Workflow(Construct):
    """Standard state machines, each of which may invoke exactly the functions of its definition.

    Every transition is logged, without input, output or cause: those hold record keys.  They are in the
    execution's own history, for whoever may read that.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        definitions: Path,
        functions: Mapping[str, lambda_.Function],
    ) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        self._functions = functions
        self.lane_machine = self._machine("Lane", "LaneLog", definitions / "lane.asl.json")
        self.state_machine = self._machine(
            "Dispatch", "Log", definitions / "dispatch.asl.json", {LANE_MACHINE: self.lane_machine.state_machine_arn}
        )
        self._let_start_lanes()
        self.reconcile_machine = self._machine("Reconcile", "ReconcileLog", definitions / "reconcile.asl.json")
        self.compare_machine = self._machine("Compare", "CompareLog", definitions / "compare.asl.json")
        self.redo_machine = self._machine("Redo", "RedoLog", definitions / "redo.asl.json")

    def _machine(
        self, construct_id: str, log_id: str, definition: Path, others: Mapping[str, str] | None = None
    ) -> sfn.StateMachine:
        stack = Stack.of(self)
        # The file names the common partition, so that it stands alone; an account may live in another.
        text = definition.read_text(encoding="utf-8").replace("arn:aws:", f"arn:{stack.partition}:")
        used = dict.fromkeys(re.findall(r"\$\{(\w+)FunctionArn\}", text))
        arns = {name: self._functions[name].function_arn for name in used}
        log_group = logs.LogGroup(
            self,
            log_id,
            # Names of this form spare the log service's resource policy, short and shared by the account.
            log_group_name=f"/aws/vendedlogs/states/{stack.stack_name}-{construct_id}",
            retention=LOG_RETENTION,
            removal_policy=self._stage.removal_policy,
        )
        machine = sfn.StateMachine(
            self,
            construct_id,
            state_machine_type=sfn.StateMachineType.STANDARD,
            definition_body=sfn.DefinitionBody.from_string(text),
            definition_substitutions={**{f"{name}FunctionArn": arn for name, arn in arns.items()}, **(others or {})},
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=False),
            tracing_enabled=self._stage.traced,
            removal_policy=self._stage.removal_policy,
        )
        # A definition from a file grants nothing by itself.
        machine.add_to_role_policy(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=list(arns.values()))
        )
        acknowledge(
            machine,
            "AwsSolutions-IAM5[Resource::*]",
            "The actions of log delivery, and of tracing where it is on, know no resources.",
        )
        if not self._stage.traced:
            acknowledge(
                machine,
                "AwsSolutions-SF2",
                "Each step is in the execution's history; tracing is the context setting `tracing`.",
            )
        return machine

    def _let_start_lanes(self) -> None:
        """Let a run's execution start those of its lanes, wait for them, and end them with itself."""
        stack, lane = Stack.of(self), self.lane_machine
        executions = stack.format_arn(
            service="states",
            resource="execution",
            resource_name=f"{lane.state_machine_name}:*",
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )
        rule = stack.format_arn(service="events", resource="rule", resource_name=SYNC_RULE)
        for actions, resource in (
            (["states:StartExecution"], lane.state_machine_arn),
            (["states:DescribeExecution", "states:StopExecution"], executions),
            (["events:DescribeRule", "events:PutRule", "events:PutTargets"], rule),
        ):
            self.state_machine.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=[resource]))
        lane_id = stack.get_logical_id(cast("CfnElement", lane.node.default_child))
        all_of_them = f"states:<AWS::Region>:<AWS::AccountId>:execution:<{lane_id}.Name>:*"
        acknowledge(
            self.state_machine,
            f"AwsSolutions-IAM5[Resource::arn:<AWS::Partition>:{all_of_them}]",
            "The name of a lane's execution is made when it is started.",
        )
