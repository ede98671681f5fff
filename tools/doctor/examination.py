"""What is examined, what a check is, and how it tells what it saw."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from functions.domain.cursor import DATE_ATTRIBUTE, TIME_ATTRIBUTE
from tools.doctor.site import DeployedStack, Resource, Site, UnresolvedError, code_of, each

SAMPLES: Final = 25
LANES: Final = 8
"""A run does so many lanes side by side unless its deployment says otherwise."""
DENIED: Final = ("AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation")
REVERT: Final = "deploy with --revert-drift: a plain deployment leaves it so, and this one may set the flags back too"
"""How what was changed or deleted by hand comes back as the stack has it.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/drift-aware-change-sets.html
"""
EMBEDDED: Final = "the embedded AWS does not keep this setting"


class Group(StrEnum):
    """What a check is about, in the order of the screen."""

    ACCOUNT = "account"
    TABLE = "table"
    INDEX = "index"
    PARAMETERS = "parameters"
    STACK = "stack"
    FUNCTIONS = "functions"
    QUEUES = "queues"
    ALARMS = "alarms"
    QUOTAS = "quotas"


class When(StrEnum):
    """For whom a check is."""

    ALWAYS = "always"
    BEFORE = "before"
    """For who is going to deploy: no stack stands yet."""
    AFTER = "after"
    """For who operates a stack."""


class Status(StrEnum):
    """What a check came to."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check came to, and what to do where it is no `ok`."""

    group: Group
    name: str
    status: Status
    seen: str
    advice: str
    link: str
    """Where the documents say why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingsTable:
    """A table as a deployment would be told of it."""

    name: str
    index: str
    keys: tuple[str, ...]
    date_attribute: str = DATE_ATTRIBUTE
    shards: int = 0


class NotChecked(Exception):
    """A check cannot be made; the message is the reason."""


Seen = tuple[Status, str]
"""A check's outcome, and what was seen."""


@dataclass(frozen=True)
class Examination:
    """What is looked at, each thing read once."""

    site: Site
    table: BookingsTable | None
    stack: DeployedStack | None

    @property
    def stands(self) -> DeployedStack:
        """The stack, where there is one."""
        if self.stack is None:
            raise NotChecked("no stack is deployed")
        return self.stack

    @property
    def bookings(self) -> BookingsTable:
        """The table as it was named."""
        if self.table is None:
            raise NotChecked("no table is named")
        return self.table

    @property
    def described(self) -> Mapping[str, Any]:
        """The table as it is."""
        if self._described is None:
            raise NotChecked("there is no such table")
        description: Mapping[str, Any] = self._described["Table"]
        return description

    @cached_property
    def _described(self) -> Any | None:
        return self.site.found("dynamodb", "describe_table", TableName=self.bookings.name)

    @property
    def index(self) -> Mapping[str, Any]:
        """The index as it is."""
        for index in self.described.get("GlobalSecondaryIndexes", ()):
            if index["IndexName"] == self.bookings.index:
                found: Mapping[str, Any] = index
                return found
        raise NotChecked("there is no such index")

    @cached_property
    def samples(self) -> list[Mapping[str, Any]]:
        """A few records of the index: their index keys and status, and nothing that says whose they are."""
        answer = self.site.ask(
            "dynamodb",
            "scan",
            TableName=self.bookings.name,
            IndexName=self.bookings.index,
            Limit=SAMPLES,
            ProjectionExpression="#date, #time, #status",
            ExpressionAttributeNames={
                "#date": self.bookings.date_attribute,
                "#time": TIME_ATTRIBUTE,
                "#status": "RewardStatus",
            },
        )
        items: list[Mapping[str, Any]] = answer["Items"]
        return items

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        """The flags' texts by their names, as far as they exist."""
        outputs = self.stands.outputs
        names = {outputs[key]: key for key in outputs if key.endswith("Parameter")}
        answer = self.site.ask("ssm", "get_parameters", Names=sorted(names))
        return {names[one["Name"]].removesuffix("Parameter"): one["Value"] for one in answer["Parameters"]}

    @cached_property
    def queues(self) -> list[tuple[Resource, Mapping[str, str] | None]]:
        """The stack's queues and their attributes, None where a queue is gone."""

        def attributes(queue: Resource) -> Mapping[str, str] | None:
            answer = self.site.found("sqs", "get_queue_attributes", QueueUrl=queue.physical_id, AttributeNames=["All"])
            return answer and answer["Attributes"]

        queues = self.stands.of("AWS::SQS::Queue")
        return list(zip(queues, each(attributes, queues), strict=True))

    @cached_property
    def functions(self) -> list[tuple[Resource, Mapping[str, Any] | None]]:
        """The stack's functions and their configuration, None where a function is gone."""
        functions = self.stands.of("AWS::Lambda::Function")
        found = each(
            lambda one: self.site.found("lambda", "get_function_configuration", FunctionName=one.physical_id), functions
        )
        return list(zip(functions, found, strict=True))

    @property
    def lanes(self) -> int:
        """The lanes that the stack's runs do side by side."""
        functions = self.stack.of("AWS::Lambda::Function") if self.stack else ()
        variables = [one.properties.get("Environment", {}).get("Variables", {}) for one in functions]
        return max((int(one["LANE_CONCURRENCY"]) for one in variables if "LANE_CONCURRENCY" in one), default=LANES)


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what it is called, and what to do about what it finds."""

    group: Group
    name: str
    look: Callable[[Examination], Seen]
    advice: str
    link: str
    when: When

    def finding(self, it: Examination) -> Finding:
        """What it comes to; what AWS refuses to tell is not checked."""
        try:
            status, seen = self.look(it)
        except (NotChecked, UnresolvedError) as reason:
            status, seen = Status.NOT_CHECKED, str(reason)
        except ClientError as error:
            status, seen = Status.NOT_CHECKED, refusal(error)
        except BotoCoreError as error:
            status, seen = Status.NOT_CHECKED, str(error)
        return Finding(group=self.group, name=self.name, status=status, seen=seen, advice=self.advice, link=self.link)


_Look = Callable[[Examination], Seen]


def check(group: Group, name: str, advice: str, link: str, *, when: When = When.ALWAYS) -> Callable[[_Look], Check]:
    """Make a function the check of this name."""
    return lambda look: Check(group, name, look, advice, link, when)


def of_each(resources: Sequence[Resource], problem: Callable[[Resource], str | None], sound: str) -> Seen:
    """A fault that names each resource with a problem; where there is none, how many there are."""
    wrong = [
        f"{one.name}: {found}"
        for one, found in zip(resources, each(problem, resources), strict=True)
        if found is not None
    ]
    if wrong:
        return Status.FAULT, listed("", wrong)
    return Status.OK, f"{len(resources):,} of {len(resources):,} {sound}"


def listed(before: str, things: Sequence[str], most: int = 5) -> str:
    """The first of the things in words, and how many more there are."""
    more = f" and {len(things) - most:,} more" if len(things) > most else ""
    return f"{before}{'; '.join(things[:most])}{more}"


def unlike(expected: str, found: str | None) -> str | None:
    """What was found, or `gone`, where it is not what is expected."""
    return None if found == expected else (found or "gone").lower()


def not_kept(it: Examination, seen: str) -> Seen:
    """What AWS would have kept as it was deployed is a fault; the embedded AWS leaves some of it out."""
    if it.site.embedded:
        raise NotChecked(EMBEDDED)
    return Status.FAULT, seen


def refusal(error: ClientError) -> str:
    """A call that AWS did not answer, in words."""
    code = code_of(error)
    if code in DENIED:
        return f"these credentials may not call {error.operation_name}"
    return f"{error.operation_name} is not answered: {code}"
