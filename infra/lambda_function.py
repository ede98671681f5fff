"""The defaults of a Lambda function, in one place."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from aws_cdk import CfnElement, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.acknowledge import acknowledge
from infra.bundle import LambdaBundle
from infra.stage import Stage

LOG_RETENTION: Final = logs.RetentionDays.THREE_MONTHS
"""As long as Step Functions keeps an execution's own history."""

SERVICE: Final = "dispatcher"
METRICS_NAMESPACE: Final = "BookingtimeDispatcher"
ENVIRONMENT: Final = {
    "POWERTOOLS_SERVICE_NAME": SERVICE,
    "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
    "LOG_LEVEL": "INFO",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1",
}
"""What every function has.  The last lets no thread keep freed memory for itself, which grew over an hour's pages."""


class Size(NamedTuple):
    """What an invocation may use."""

    seconds: int
    memory_mb: int


class BundleCode:
    """A bundle as CDK takes it: one asset that all functions share."""

    def __init__(self, bundle: LambdaBundle) -> None:
        arm = bundle.architecture == "arm64"
        self.code = lambda_.Code.from_asset(str(bundle.directory))
        self.runtime = lambda_.Runtime(f"python{bundle.python}", lambda_.RuntimeFamily.PYTHON)
        self.architecture = lambda_.Architecture.ARM_64 if arm else lambda_.Architecture.X86_64


class LambdaFunction(Construct):
    """A function of the bundle with its own role and its own log, which is all that it may write at first.

    `module` is the handler's, below `functions`.
    """

    def __init__(  # noqa: PLR0913 -- a construct's properties are keywords
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        code: BundleCode,
        module: str,
        description: str,
        size: Size,
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(scope, construct_id)
        log_group = logs.LogGroup(self, "Log", retention=LOG_RETENTION, removal_policy=stage.removal_policy)
        self._role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log_group.grant_write(self._role)
        self.function = lambda_.Function(
            self,
            "Function",
            code=code.code,
            runtime=code.runtime,
            architecture=code.architecture,
            handler=f"functions.{module}.handler",
            description=description,
            timeout=Duration.seconds(size.seconds),
            memory_size=size.memory_mb,
            environment={**ENVIRONMENT, **environment},
            role=self._role,
            log_group=log_group,
        )
        acknowledge(
            self.function,
            "AwsSolutions-L1",
            "The runtime is the version that compiled the bundle's modules and chose its wheels.",
        )

    def allow(self, actions: Sequence[str], resources: Sequence[str]) -> None:
        """Grant exactly these actions on exactly these resources."""
        self._role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=list(resources)))

    def allow_objects(self, action: str, bucket: s3.Bucket, prefixes: Sequence[str]) -> None:
        """Grant one action on the objects whose keys begin so."""
        self.allow([action], [bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes])
        bucket_id = Stack.of(bucket).get_logical_id(cast("CfnElement", bucket.node.default_child))
        for prefix in prefixes:
            acknowledge(
                self._role,
                f"AwsSolutions-IAM5[Resource::<{bucket_id}.Arn>/{prefix}*]",
                "Only the beginning of a key is known before its content is.",
            )
