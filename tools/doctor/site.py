"""What stands in an account, read and never changed: its services behind one door, and a deployed stack."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from threading import Lock
from typing import Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from tools.application import Application

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

SIDE_BY_SIDE: Final = 8
"""So many questions at once: a stack has about thirty roles and as many functions."""

READS: Final[Mapping[str, frozenset[str]]] = {
    service: frozenset(operations.split())
    for service, operations in {
        "cloudformation": "describe_stacks get_template list_stack_resources",
        "cloudwatch": "describe_alarms",
        "dynamodb": "describe_continuous_backups describe_table describe_time_to_live query scan",
        "events": "describe_rule",
        "iam": "get_role get_role_policy list_role_policies simulate_principal_policy",
        "lambda": "get_account_settings get_event_source_mapping get_function_concurrency get_function_configuration",
        "logs": "describe_log_groups",
        "s3": "get_bucket_lifecycle_configuration get_bucket_policy get_bucket_versioning get_public_access_block",
        "scheduler": "get_schedule",
        "service-quotas": "list_service_quotas",
        "sns": "list_subscriptions_by_topic",
        "sqs": "get_queue_attributes",
        "ssm": "get_parameters get_service_setting",
        "stepfunctions": "describe_state_machine",
        "sts": "get_caller_identity",
    }.items()
}
"""All that is ever asked.  No operation of it changes anything."""

MISSING: Final = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchBucket",
        "NoSuchBucketPolicy",
        "NoSuchEntity",
        "NoSuchLifecycleConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
        "NotFound",
        "NotFoundException",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
        "StateMachineDoesNotExist",
    }
)
"""How the services say that something is not there."""


def code_of(error: ClientError) -> str:
    """The code of a refusal."""
    return str(error.response.get("Error", {}).get("Code", ""))


@dataclass(frozen=True, slots=True)
class Greeting:
    """What AWS answers when it is asked who calls."""

    caller: str
    """An ARN; empty where the credentials were refused."""
    account: str
    error: str
    """Why they were; empty where they were not."""
    skew_seconds: float | None
    """How far AWS's clock is ahead of this machine's; None where its answer has no date."""


@dataclass(frozen=True)
class Site:
    """The services of one account and region, for reading only."""

    client: Callable[[str], Any]
    """Makes the client of a service."""
    region: str
    embedded: bool = False
    """It is the embedded AWS, which does not know all of AWS's settings."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    @classmethod
    def of(cls, application: Application) -> "Site":
        """Where an application stands."""
        return cls(application.client, application.deployment.region, application.account is None)

    def ask(self, service: str, operation: str, **parameters: Any) -> Any:
        """The answer to one reading call.

        Raises:
            ValueError: the operation is none of `READS`.
            ClientError, BotoCoreError: it is refused, or nobody answers.
        """
        return getattr(self._reader(service, operation), operation)(**parameters)

    def every(self, service: str, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
        """The entries under `key` of all pages of a reading call; raises as `ask`."""
        pages = self._reader(service, operation).get_paginator(operation).paginate(**parameters)
        return (entry for page in pages for entry in page[key])

    def found(self, service: str, operation: str, **parameters: Any) -> Any | None:
        """The answer to one reading call, or None where there is no such thing; raises as `ask`."""
        try:
            return self.ask(service, operation, **parameters)
        except ClientError as error:
            if code_of(error) not in MISSING:
                raise
            return None

    @cached_property
    def greeting(self) -> Greeting:
        """Who calls, and by how much the clocks differ."""
        caller = account = problem = ""
        headers: Mapping[str, str] = {}
        try:
            answer = self.ask("sts", "get_caller_identity")
        except ClientError as error:
            # A refusal is dated too, and a wrong clock is a reason for it.
            headers, problem = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}), str(error)
        except BotoCoreError as error:
            problem = str(error)
        else:
            headers, caller, account = answer["ResponseMetadata"]["HTTPHeaders"], answer["Arn"], answer["Account"]
        dated = headers.get("date")
        skew = (parsedate_to_datetime(dated) - self.clock()).total_seconds() if dated else None
        return Greeting(caller, account, problem, skew)

    def _reader(self, service: str, operation: str) -> Any:
        if operation not in READS.get(service, ()):
            raise ValueError(f"{service}.{operation} is none of the reading calls")
        return self._clients(service)

    @cached_property
    def _clients(self) -> Callable[[str], Any]:
        made: dict[str, Any] = {}
        making = Lock()  # clients may be shared by threads, but not made by several at once

        def one(service: str) -> Any:
            with making:
                if service not in made:
                    made[service] = self.client(service)
                return made[service]

        return one


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of a stack: as its template has it, and what it is called in the account."""

    logical_id: str
    kind: str
    properties: Mapping[str, Any]
    name: str
    """Short and for people: where it stands in the application, such as `Functions/DispatchPage`."""
    physical_id: str


class UnresolvedError(Exception):
    """A value of the template cannot be told from here; the message says which one."""


@dataclass(frozen=True)
class DeployedStack:
    """A stack as it was deployed: what stands there now is held against it."""

    name: str
    status: str
    outputs: Mapping[str, str]
    resources: Mapping[str, Resource]
    """By logical id."""
    pseudo: Mapping[str, str]
    """The values of `AWS::Region` and its like."""

    @classmethod
    def read(cls, site: Site, name: str) -> "DeployedStack":
        """The stack of a name.

        Raises:
            ClientError: it is not there, or must not be read.
        """
        (described,) = site.ask("cloudformation", "describe_stacks", StackName=name)["Stacks"]
        template = site.ask("cloudformation", "get_template", StackName=name, TemplateStage="Processed")
        physical = {
            summary["LogicalResourceId"]: summary.get("PhysicalResourceId", "")
            for summary in site.every(
                "cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=name
            )
        }
        _, partition, _, region, account, _ = described["StackId"].split(":", 5)
        return cls(
            name,
            described["StackStatus"],
            {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", ())},
            {
                logical_id: Resource(
                    logical_id,
                    resource["Type"],
                    resource.get("Properties", {}),
                    _short(resource.get("Metadata", {}).get("aws:cdk:path", logical_id)),
                    physical.get(logical_id, ""),
                )
                for logical_id, resource in template["TemplateBody"]["Resources"].items()
            },
            {"AWS::Partition": partition, "AWS::Region": region, "AWS::AccountId": account},
        )

    def of(self, kind: str) -> list[Resource]:
        """Its resources of one kind, such as `AWS::SQS::Queue`."""
        return [resource for resource in self.resources.values() if resource.kind == kind]

    def resolve(self, value: Any) -> Any:
        """A value of the template with what it refers to filled in.

        Raises:
            UnresolvedError: it is made of something else than references, ARNs and joins.
        """
        match value:
            case {"Ref": str(name)} if len(value) == 1:
                return self.pseudo.get(name) or self._one(name).physical_id
            case {"Fn::GetAtt": [str(name), "Arn"]}:
                return self._arn(self._one(name))
            case {"Fn::GetAtt": [str(name), "Name"]}:
                return self._one(name).physical_id.rpartition(":")[2]
            case {"Fn::Join": [str(separator), list(parts)]}:
                return separator.join(self.resolve(part) for part in parts)
            case list():
                return [self.resolve(part) for part in value]
            case str() | int() | float() | bool() | None:
                return value
            case _:
                raise UnresolvedError(f"the template's value {value} is not understood")

    def resolve_document(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """A policy of the template with the actions and resources of its statements filled in; raises as `resolve`."""
        statements = [
            {**statement, "Resource": self.resolve(statement["Resource"])} for statement in document["Statement"]
        ]
        return {**document, "Statement": statements}

    def _one(self, logical_id: str) -> Resource:
        if logical_id not in self.resources:
            raise UnresolvedError(f"the template refers to {logical_id}, which is none of its resources")
        return self.resources[logical_id]

    def _arn(self, resource: Resource) -> str:
        partition, region, account = self.pseudo.values()
        here = f"{region}:{account}"
        # SQS calls its queues by their address.
        name = resource.physical_id.rpartition("/")[2] if resource.kind == "AWS::SQS::Queue" else resource.physical_id
        arns = {
            "AWS::DynamoDB::GlobalTable": f"dynamodb:{here}:table/{name}",
            "AWS::Events::Rule": f"events:{here}:rule/{name}",
            "AWS::IAM::Role": f"iam::{account}:role/{name}",
            "AWS::Lambda::Function": f"lambda:{here}:function:{name}",
            "AWS::Logs::LogGroup": f"logs:{here}:log-group:{name}:*",
            "AWS::S3::Bucket": f"s3:::{name}",
            "AWS::SQS::Queue": f"sqs:{here}:{name}",
        }
        if name.startswith("arn:"):
            return name
        if resource.kind not in arns:
            raise UnresolvedError(f"the ARN of {resource.logical_id} is not known")
        return f"arn:{partition}:{arns[resource.kind]}"


def each(ask: Callable[[_Item], _Answer], items: Iterable[_Item]) -> list[_Answer]:
    """The answers about all items, in their order, some of them asked for at once."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return list(pool.map(ask, items))


def _short(path: str) -> str:
    """A construct's path without its stack and without what every construct of its kind ends in."""
    parts = path.split("/")[1:] or [path]
    while len(parts) > 1 and parts[-1] in {"DefaultPolicy", "Function", "Log", "Resource", "Role"}:
        parts.pop()
    return "/".join(parts)
