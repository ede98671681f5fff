"""What the doctor finds, by name: on answers of AWS that are given, one of them changed at a time."""

import ast
import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from rich.console import Console

from tools.dispatchctl.doctor import screen, to_json
from tools.doctor import account
from tools.doctor.account import BOOTSTRAP_PARAMETER
from tools.doctor.examination import BookingsTable, Examination, Finding, Status, When
from tools.doctor.examine import CHECKS, examine, table_of
from tools.doctor.site import READS, DeployedStack, Greeting, Resource, Site, UnresolvedError
from tools.doctor.table import READ
from tools.workspace import ROOT

SOURCES = sorted((ROOT / "tools/doctor").glob("*.py"))
NOW = datetime(2026, 9, 17, 16, 1, tzinfo=UTC)
ACCOUNT = "111122223333"
Answer = Any
Answers = dict[str, Answer]
"""What AWS says, by operation: an answer, an error, or a function of the parameters."""


def refusal(code: str, operation: str = "AnOperation") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": f"{code} it is"}}, operation)


class Aws:
    """A client of any service, with the answers that are given."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**parameters: Any) -> Any:
            self.asked.append((operation, parameters))
            answer = self.answers[operation]
            if isinstance(answer, Exception):
                raise answer
            return answer(**parameters) if callable(answer) else answer

        return call

    def get_paginator(self, operation: str) -> "Pages":
        return Pages(getattr(self, operation))


class Pages:
    """All answers on one page."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def paginate(self, **parameters: Any) -> list[Any]:
        return [self._call(**parameters)]


def caller(arn: str = f"arn:aws:iam::{ACCOUNT}:root", at: datetime = NOW) -> Answer:
    headers = {"date": f"{at:%a, %d %b %Y %H:%M:%S} GMT"}
    return {"Arn": arn, "Account": ACCOUNT, "ResponseMetadata": {"HTTPHeaders": headers}}


def table(**changes: Any) -> Answer:
    types = {"RecordId": "S", "BookingDateUTC": "S", "BookingTimeUTC": "S", **changes.pop("types", {})}
    index = {
        "IndexName": "by-time",
        "IndexStatus": "ACTIVE",
        "KeySchema": key("BookingDateUTC", "BookingTimeUTC"),
        "Projection": {"ProjectionType": "ALL"},
        "ProvisionedThroughput": {"ReadCapacityUnits": 0},
        **changes.pop("index", {}),
    }
    return {
        "Table": {
            "TableStatus": "ACTIVE",
            "KeySchema": key("RecordId"),
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()],
            "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
            "GlobalSecondaryIndexes": [index],
            **changes,
        }
    }


def key(*names: str) -> list[dict[str, str]]:
    kinds = dict(zip(names, ("HASH", "RANGE"), strict=False))
    # Nothing says that AWS names the partition key first.
    return [{"AttributeName": name, "KeyType": kind} for name, kind in reversed(kinds.items())]


def records(**changes: Any) -> Answer:
    sound = {"BookingDateUTC": "2026-09-17", "BookingTimeUTC": "15:03:00.5Z", "RewardStatus": "WaitToReward"}
    other = {**sound, "RewardStatus": "Rewarded"}
    odd = {name: {"S": value} if isinstance(value, str) else value for name, value in {**sound, **changes}.items()}
    return {"Items": [{name: {"S": value} for name, value in other.items()}, odd]}


def parameters(**changes: str | None) -> Answer:
    values = {"PaginationEnabled": "true", "PageSize": "1000", "Grouping": "page", "SetAsideLimit": "100"}
    values |= {"Stop": "false", **changes}  # type: ignore[dict-item]  # None leaves one out
    ours = [{"Name": f"/app/{name}", "Value": value} for name, value in values.items() if value is not None]
    bootstrap = {"Name": BOOTSTRAP_PARAMETER, "Value": "33"}
    return lambda Names: {"Parameters": [one for one in (bootstrap, *ours) if one["Name"] in Names]}  # noqa: N803


def grant(action: str | list[str] = "dynamodb:Query", **changes: Any) -> dict[str, Any]:
    ledger = f"arn:aws:dynamodb:eu-west-1:{ACCOUNT}:table/ledger"
    return {"Effect": "Allow", "Action": action, "Resource": ledger, **changes}


def policy(*statements: dict[str, Any]) -> Answer:
    return {"PolicyDocument": {"Statement": list(statements)}}


QUEUE = {"FifoQueue": True, "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
REDRIVE = {"deadLetterTargetArn": "arn:dead", "maxReceiveCount": 5}


def queues(live: Mapping[str, str | None] | None = None, dead: Mapping[str, str] | None = None) -> Answer:
    def attributes(QueueUrl: str, AttributeNames: list[str]) -> Answer:  # noqa: N803 -- AWS's names
        assert AttributeNames == ["All"]
        shared = {name: str(value).lower() if value is True else str(value) for name, value in QUEUE.items()}
        name = QueueUrl.rpartition("/")[2]
        own = {"RedrivePolicy": json.dumps(REDRIVE)} if name == "tasks" else {"ApproximateNumberOfMessages": "0"}
        changed = {**shared, "QueueArn": f"arn:{name}", **own, **((live if name == "tasks" else dead) or {})}
        return {"Attributes": {name: value for name, value in changed.items() if value is not None}}

    return attributes


LIFECYCLE = {"ID": "Staging", "Status": "Enabled", "Expiration": {"Days": 15}, "Filter": {"Prefix": "staging/"}}
PUBLIC = dict.fromkeys(("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True)
TLS = {"Effect": "Deny", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}
ALARM = {"AlarmName": "late", "ActionsEnabled": True, "AlarmActions": ["arn:topic"], "StateValue": "OK"}
SOUND: Answers = {
    "get_caller_identity": caller(),
    "describe_table": table(),
    "query": {"Count": 0},
    "scan": records(),
    "get_parameters": parameters(),
    "describe_state_machine": {"status": "ACTIVE"},
    "get_schedule": {"State": "ENABLED"},
    "describe_rule": {"State": "ENABLED"},
    "describe_time_to_live": {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "ExpiresAt"}},
    "describe_continuous_backups": {
        "ContinuousBackupsDescription": {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"}}
    },
    "get_public_access_block": {"PublicAccessBlockConfiguration": PUBLIC},
    "get_bucket_policy": {"Policy": json.dumps({"Statement": [TLS]})},
    "get_bucket_lifecycle_configuration": {"Rules": [LIFECYCLE]},
    "get_bucket_versioning": {},
    "describe_log_groups": {"logGroups": [{"logGroupName": "/aws/App-log", "retentionInDays": 90}]},
    "get_function_configuration": {"State": "Active", "LastUpdateStatus": "Successful"},
    "get_function_concurrency": {},
    "get_event_source_mapping": {"State": "Enabled"},
    "list_role_policies": {"PolicyNames": ["given"]},
    "get_role_policy": policy(grant()),
    "get_queue_attributes": queues(),
    "list_subscriptions_by_topic": {"Subscriptions": [{"SubscriptionArn": "arn:subscription"}]},
    "describe_alarms": {"MetricAlarms": [ALARM]},
    "get_account_settings": {"AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}},
    "get_service_setting": {"ServiceSetting": {"SettingValue": "false"}},
    "list_service_quotas": {"Quotas": [{"QuotaName": "StartExecution throttle bucket", "Value": 800.0}]},
}
"""An account and a stack without a fault."""

BOOKINGS = BookingsTable(name="bookings", index="by-time", keys=("RecordId",))


def resource(name: str, kind: str, physical: str, **properties: Any) -> Resource:
    return Resource(name, kind, properties, name, physical)


def deployed(**outputs: str) -> DeployedStack:
    """A stack with one resource of each kind that is looked at."""
    variables = {"BOOKING_KEY_ATTRIBUTES": '["RecordId"]', "BOOKING_SHARDS": "0", "LANE_CONCURRENCY": "8"}
    statement = {"Effect": "Allow", "Action": "dynamodb:Query", "Resource": {"Fn::GetAtt": ["Ledger", "Arn"]}}
    lifecycle = {"Rules": [{"Id": "Staging", "ExpirationInDays": 15, "Prefix": "staging/", "Status": "Enabled"}]}
    resources = (
        resource(
            "Ledger", "AWS::DynamoDB::GlobalTable", "ledger", TimeToLiveSpecification={"AttributeName": "ExpiresAt"}
        ),
        resource("Machine", "AWS::StepFunctions::StateMachine", "arn:machine"),
        resource("Hourly", "AWS::Scheduler::Schedule", "hourly", State="ENABLED"),
        resource("Watch", "AWS::Events::Rule", "watch", State="ENABLED"),
        resource("Bucket", "AWS::S3::Bucket", "bucket", LifecycleConfiguration=lifecycle),
        resource("Log", "AWS::Logs::LogGroup", "/aws/App-log", RetentionInDays=90),
        resource("Page", "AWS::Lambda::Function", "page", Environment={"Variables": variables}),
        resource("Role", "AWS::IAM::Role", "role"),
        resource(
            "Policy",
            "AWS::IAM::Policy",
            "policy",
            PolicyDocument={"Statement": [statement]},
            Roles=[{"Ref": "Role"}],
        ),
        resource("Source", "AWS::Lambda::EventSourceMapping", "id", ScalingConfig={"MaximumConcurrency": 10}),
        resource("Tasks", "AWS::SQS::Queue", "https://sqs/tasks", **QUEUE, RedrivePolicy={"maxReceiveCount": 5}),
        resource("Dead", "AWS::SQS::Queue", "https://sqs/dead", **QUEUE),
        resource("Late", "AWS::CloudWatch::Alarm", "late", AlarmActions=[{"Ref": "Topic"}]),
        resource("Topic", "AWS::SNS::Topic", "arn:topic"),
    )
    names = ("PaginationEnabled", "PageSize", "Grouping", "SetAsideLimit", "Stop")
    return DeployedStack(
        "App",
        "CREATE_COMPLETE",
        {
            "DispatchStateMachineArn": f"arn:aws:states:eu-west-1:{ACCOUNT}:stateMachine:dispatch",
            "BookingTableName": "bookings",
            "BookingIndexName": "by-time",
            "BookingDateAttribute": "BookingDateUTC",
            "BookingShards": "0",
            "LedgerTableName": "ledger",
            "TaskDataBucketName": "bucket",
            "AlarmTopicArn": "arn:topic",
            **{f"{name}Parameter": f"/app/{name}" for name in names},
            **outputs,
        },
        {one.logical_id: one for one in resources},
        {"AWS::Partition": "aws", "AWS::Region": "eu-west-1", "AWS::AccountId": ACCOUNT},
    )


def site(*, embedded: bool = False, **answers: Answer) -> Site:
    aws = Aws({**SOUND, **answers})
    return Site(lambda _: aws, "eu-west-1", embedded, lambda: NOW)


def before(bookings: BookingsTable = BOOKINGS, **answers: Answer) -> list[Finding]:
    """What is found where nothing is deployed."""
    return examine(Examination(site(**answers), bookings, None))


def after(stack: DeployedStack | None = None, *, embedded: bool = False, **answers: Answer) -> list[Finding]:
    """What is found of a deployed stack."""
    return examine(Examination(site(embedded=embedded, **answers), BOOKINGS, stack or deployed()))


def named(findings: list[Finding], *statuses: Status) -> list[str]:
    return [one.name for one in findings if one.status in statuses]


def not_sound(findings: list[Finding]) -> dict[str, Status]:
    return {one.name: one.status for one in findings if one.status is not Status.OK}


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "node_version", lambda: "v22.1.0")


def test_a_sound_account_and_table_have_no_finding() -> None:
    assert not_sound(before()) == {}


def test_a_sound_stack_has_no_finding_and_every_check_was_made() -> None:
    findings = after()

    assert not_sound(findings) == {}
    assert {one.name for one in findings} == {one.name for one in CHECKS if one.when is not When.BEFORE}


def test_names_are_stable_words_and_each_is_one_checks() -> None:
    names = [one.name for one in CHECKS]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


def test_every_finding_leads_to_a_chapter_that_is_there() -> None:
    for one in CHECKS:
        page, _, anchor = one.link.partition("#")
        titles = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
        assert anchor in {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}, one.link


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        pytest.param({"describe_table": refusal("ResourceNotFoundException")}, "table-exists", id="no table"),
        pytest.param({"describe_table": table(TableStatus="CREATING")}, "table-exists", id="table being made"),
        pytest.param({"describe_table": table(KeySchema=key("Id"), types={"Id": "S"})}, "table-keys", id="other key"),
        pytest.param({"describe_table": table(KeySchema=key("RecordId", "BookingDateUTC"))}, "table-keys", id="longer"),
        pytest.param({"describe_table": table(GlobalSecondaryIndexes=[])}, "index-exists", id="no index"),
        pytest.param({"describe_table": table(index={"IndexName": "other"})}, "index-exists", id="other index"),
        pytest.param({"describe_table": table(index={"IndexStatus": "CREATING"})}, "index-active", id="being made"),
        pytest.param(
            {"describe_table": table(index={"IndexStatus": "CREATING", "Backfilling": True})},
            "index-active",
            id="backfilling",
        ),
        pytest.param({"describe_table": table(types={"BookingDateUTC": "N"})}, "index-keys", id="date of type N"),
        pytest.param({"describe_table": table(types={"BookingTimeUTC": "N"})}, "index-keys", id="time of type N"),
        pytest.param({"describe_table": table(index={"KeySchema": key("BookingDateUTC")})}, "index-keys", id="no time"),
        pytest.param(
            {"describe_table": table(index={"KeySchema": key("BookingTimeUTC", "BookingDateUTC")})},
            "index-keys",
            id="keys the other way round",
        ),
        pytest.param(
            {"describe_table": table(index={"Projection": {"ProjectionType": "KEYS_ONLY"}})},
            "index-projection",
            id="keys only",
        ),
        pytest.param({"query": refusal("AccessDeniedException")}, "index-read", id="no right to read the index"),
        pytest.param({"scan": records(BookingDateUTC="2026/09/17")}, "sample-dates", id="date with slashes"),
        pytest.param({"scan": records(BookingDateUTC="2026-02-30")}, "sample-dates", id="no such day"),
        pytest.param(
            {"scan": records(BookingDateUTC="2026-09-17#0")}, "sample-dates", id="shard in an unsharded index"
        ),
        pytest.param({"scan": records(BookingTimeUTC="3:00:00Z")}, "sample-times", id="time of one digit"),
        pytest.param({"scan": records(RewardStatus="waitToReward")}, "sample-status", id="status in other letters"),
        pytest.param({"scan": records(RewardStatus="WAIT_TO_REWARD")}, "sample-status", id="status in capitals"),
        pytest.param({"get_parameters": {"Parameters": []}}, "bootstrap", id="not bootstrapped"),
        pytest.param(
            {"get_parameters": {"Parameters": [{"Name": BOOTSTRAP_PARAMETER, "Value": "5"}]}},
            "bootstrap",
            id="bootstrapped long ago",
        ),
        pytest.param({"get_caller_identity": NoCredentialsError()}, "credentials", id="no credentials"),
        pytest.param({"get_caller_identity": refusal("ExpiredToken")}, "credentials", id="expired"),
        pytest.param({"get_caller_identity": caller(at=NOW + timedelta(minutes=6))}, "clock", id="clock too slow"),
        pytest.param({"get_caller_identity": caller(at=NOW - timedelta(minutes=6))}, "clock", id="clock too fast"),
    ],
)
def test_a_fault_of_an_account_or_a_table_is_found_by_its_name_alone(answers: Answers, fault: str) -> None:
    assert named(before(**answers), Status.FAULT) == [fault]


def test_an_index_that_is_backfilling_is_told_apart_from_one_that_is_only_being_made() -> None:
    made, filled = (
        [one.seen for one in before(describe_table=table(index=index)) if one.name == "index-active"]
        for index in ({"IndexStatus": "CREATING"}, {"IndexStatus": "CREATING", "Backfilling": True})
    )

    assert (made, filled) == (["CREATING"], ["CREATING, backfilling"])


def test_what_hangs_on_a_missing_table_is_not_checked() -> None:
    findings = before(describe_table=refusal("ResourceNotFoundException"))

    assert {one.seen for one in findings if one.group == "index"} == {"there is no such table"}
    assert not {"table-keys", "index-keys", "index-read", "sample-dates"} & {*named(findings, Status.OK)}


@pytest.mark.parametrize(("date", "faults"), [("2026-09-17#3", []), ("2026-09-17#4", ["sample-dates"])])
def test_in_a_sharded_index_a_date_has_one_of_its_shards(date: str, faults: list[str]) -> None:
    items = [{"BookingDateUTC": {"S": date}, "BookingTimeUTC": {"S": "15:03:00Z"}}]

    assert named(before(replace(BOOKINGS, shards=4), scan={"Items": items}), Status.FAULT) == faults


def test_a_sharded_index_is_asked_for_a_shard() -> None:
    examined = site()

    examine(Examination(examined, replace(BOOKINGS, shards=4), None))

    (asked,) = [given for operation, given in examined.client("dynamodb").asked if operation == "query"]
    assert asked["ExpressionAttributeValues"] == {":date": {"S": "2026-09-17#0"}}
    assert asked["Limit"] == 1


def test_an_index_without_records_says_nothing_of_their_form() -> None:
    findings = before(scan={"Items": []})

    assert named(findings, Status.NOT_CHECKED) == ["sample-dates", "sample-times", "sample-status"]


@pytest.mark.parametrize(
    ("described", "warning"),
    [
        (
            table(BillingModeSummary={}, index={"ProvisionedThroughput": {"ReadCapacityUnits": 5}}),
            "5 read units provisioned for the index; a page of 1 MB takes 128",
        ),
        (
            table(index={"OnDemandThroughput": {"MaxReadRequestUnits": 100}}),
            "on demand, at most 100 read units a second",
        ),
    ],
    ids=["provisioned", "on demand with a maximum"],
)
def test_too_few_units_for_a_page_are_a_warning(described: Answer, warning: str) -> None:
    (found,) = [one for one in before(describe_table=described) if one.status is not Status.OK]

    assert (found.name, found.status, found.seen) == ("table-throughput", Status.WARNING, warning)


def test_an_index_of_all_that_is_read_but_not_of_all_attributes_is_a_warning() -> None:
    projection = {"ProjectionType": "INCLUDE", "NonKeyAttributes": [*READ]}

    findings = before(describe_table=table(index={"Projection": projection}))

    assert not_sound(findings) == {"index-projection": Status.WARNING}


@pytest.mark.parametrize(("minutes", "status"), [(0.5, Status.OK), (1.5, Status.WARNING), (5, Status.FAULT)])
def test_a_clock_is_judged_by_how_far_it_is_off(minutes: float, status: Status) -> None:
    findings = before(get_caller_identity=caller(at=NOW + timedelta(minutes=minutes)))

    assert [one.status for one in findings if one.name == "clock"] == [status]


def test_credentials_that_a_wrong_clock_makes_unacceptable_are_not_called_wrong() -> None:
    error = refusal("SignatureDoesNotMatch")
    error.response["ResponseMetadata"] = caller(at=NOW + timedelta(hours=1))["ResponseMetadata"]

    findings = before(get_caller_identity=error)

    assert not_sound(findings) == {"credentials": Status.NOT_CHECKED, "clock": Status.FAULT}


def test_without_credentials_nothing_else_is_asked() -> None:
    examined = site(get_caller_identity=NoCredentialsError())

    examine(Examination(examined, BOOKINGS, deployed()))

    assert [operation for operation, _ in examined.client("sts").asked] == ["get_caller_identity"]


@pytest.mark.parametrize("version", [None, "v18.20.0"])
def test_a_machine_without_a_new_enough_node_cannot_deploy(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "node_version", lambda: version)

    assert named(before(), Status.FAULT) == ["local-tools"]


def test_this_machines_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 9))

    assert [one.seen for one in before() if one.name == "local-tools"] == ["Python 3.10.9, Node.js v22.1.0"]
    assert named(before(), Status.FAULT) == ["local-tools"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"PaginationEnabled": "1"}, "parameter-pagination-enabled"),
        ({"PaginationEnabled": None}, "parameter-pagination-enabled"),
        ({"PageSize": "0"}, "parameter-page-size"),
        ({"PageSize": "10001"}, "parameter-page-size"),
        ({"PageSize": "a thousand"}, "parameter-page-size"),
        ({"Grouping": "hour"}, "parameter-grouping"),
        ({"SetAsideLimit": "-1"}, "parameter-set-aside-limit"),
        ({"Stop": "yes"}, "parameter-stop"),
        ({"Stop": None}, "parameter-stop"),
        ({"Stop": "True"}, "kill-switch"),
    ],
)
def test_a_parameter_that_does_not_mean_what_it_says_is_a_fault(change: dict[str, str | None], fault: str) -> None:
    assert named(after(get_parameters=parameters(**change)), Status.FAULT) == [fault]


@pytest.mark.parametrize(
    "change",
    [
        {"PaginationEnabled": " False"},
        {"PageSize": "10000"},
        {"PageSize": "1"},
        {"Grouping": "Window"},
        {"SetAsideLimit": "0"},
    ],
)
def test_a_parameter_that_the_product_takes_as_it_is_meant_is_sound(change: dict[str, str | None]) -> None:
    assert not_sound(after(get_parameters=parameters(**change))) == {}


GONE = refusal("ResourceNotFoundException")


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        pytest.param(
            {"describe_state_machine": refusal("StateMachineDoesNotExist")}, "state-machines", id="no machine"
        ),
        pytest.param({"describe_state_machine": {"status": "DELETING"}}, "state-machines", id="machine being deleted"),
        pytest.param({"get_schedule": {"State": "DISABLED"}}, "schedules", id="schedule disabled"),
        pytest.param({"get_schedule": GONE}, "schedules", id="no schedule"),
        pytest.param({"describe_rule": {"State": "DISABLED"}}, "watch-rule", id="rule disabled"),
        pytest.param(
            {"describe_time_to_live": {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}},
            "ledger-expiry",
            id="rows kept for ever",
        ),
        pytest.param(
            {"describe_time_to_live": {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "X"}}},
            "ledger-expiry",
            id="another attribute's age",
        ),
        pytest.param(
            {"describe_continuous_backups": {"ContinuousBackupsDescription": {}}}, "ledger-recovery", id="PITR"
        ),
        pytest.param(
            {"get_public_access_block": {"PublicAccessBlockConfiguration": {**PUBLIC, "BlockPublicAcls": False}}},
            "bucket-public-access",
            id="public lists",
        ),
        pytest.param(
            {"get_public_access_block": refusal("NoSuchPublicAccessBlockConfiguration")},
            "bucket-public-access",
            id="nothing blocked",
        ),
        pytest.param({"get_bucket_policy": refusal("NoSuchBucketPolicy")}, "bucket-tls", id="no bucket policy"),
        pytest.param(
            {"get_bucket_lifecycle_configuration": refusal("NoSuchLifecycleConfiguration")},
            "bucket-lifecycle",
            id="no lifecycle",
        ),
        pytest.param(
            {"get_bucket_lifecycle_configuration": {"Rules": [{**LIFECYCLE, "Expiration": {"Days": 1}}]}},
            "bucket-lifecycle",
            id="another age",
        ),
        pytest.param(
            {"get_bucket_lifecycle_configuration": {"Rules": [{**LIFECYCLE, "Status": "Disabled"}]}},
            "bucket-lifecycle",
            id="rule disabled in the bucket",
        ),
        pytest.param(
            {"describe_log_groups": {"logGroups": [{"logGroupName": "/aws/App-log"}]}}, "log-retention", id="kept"
        ),
        pytest.param({"describe_log_groups": {"logGroups": []}}, "log-retention", id="no log"),
        pytest.param({"get_function_configuration": GONE}, "functions", id="no function"),
        pytest.param({"get_function_configuration": {"State": "Failed"}}, "functions", id="failed function"),
        pytest.param(
            {"get_function_concurrency": {"ReservedConcurrentExecutions": 0}}, "function-concurrency", id="switched off"
        ),
        pytest.param({"get_role_policy": policy()}, "rights", id="no right"),
        pytest.param({"get_role_policy": policy(grant("dynamodb:GetItem"))}, "rights", id="another right"),
        pytest.param({"get_role_policy": policy(grant(Resource="arn:aws:s3:::x"))}, "rights", id="of another resource"),
        pytest.param({"get_role_policy": policy(grant(Condition={"Bool": {}}))}, "rights", id="on a condition"),
        pytest.param({"get_role_policy": policy(grant(), grant("*", Effect="Deny"))}, "rights", id="denied"),
        pytest.param({"list_role_policies": refusal("NoSuchEntity")}, "rights", id="no role"),
        pytest.param({"get_event_source_mapping": {"State": "Disabled"}}, "worker-sources", id="worker switched off"),
        pytest.param({"get_queue_attributes": queues(live={"FifoQueue": None})}, "queue-settings", id="no FIFO queue"),
        pytest.param(
            {"get_queue_attributes": queues(live={"FifoThroughputLimit": "perQueue"})}, "queue-throughput", id="slow"
        ),
        pytest.param({"get_queue_attributes": queues(live={"RedrivePolicy": None})}, "queue-redrive", id="no redrive"),
        pytest.param(
            {"get_queue_attributes": queues(live={"RedrivePolicy": json.dumps({**REDRIVE, "maxReceiveCount": 1})})},
            "queue-redrive",
            id="redrive at once",
        ),
        pytest.param(
            {
                "get_queue_attributes": queues(
                    live={"RedrivePolicy": json.dumps({**REDRIVE, "deadLetterTargetArn": "x"})}
                )
            },
            "queue-redrive",
            id="redrive elsewhere",
        ),
        pytest.param(
            {"get_queue_attributes": queues(dead={"ApproximateNumberOfMessages": "2"})}, "dead-letters", id="waiting"
        ),
        pytest.param(
            {"get_queue_attributes": queues(dead={"ApproximateNumberOfMessagesNotVisible": "1"})},
            "dead-letters",
            id="being looked at",
        ),
        pytest.param({"describe_alarms": {"MetricAlarms": []}}, "alarms", id="no alarm"),
        pytest.param({"describe_alarms": {"MetricAlarms": [{**ALARM, "ActionsEnabled": False}]}}, "alarms", id="muted"),
        pytest.param({"describe_alarms": {"MetricAlarms": [{**ALARM, "AlarmActions": []}]}}, "alarms", id="tells none"),
    ],
)
def test_a_fault_of_a_stack_is_found_by_its_name_alone(answers: Answers, fault: str) -> None:
    assert named(after(**answers), Status.FAULT) == [fault]


def test_a_stack_whose_deployment_failed_is_a_fault() -> None:
    assert named(after(replace(deployed(), status="UPDATE_ROLLBACK_COMPLETE")), Status.FAULT) == ["stack-complete"]


@pytest.mark.parametrize(
    ("live", "fault", "said"),
    [
        (
            {"DeduplicationScope": "queue", "FifoThroughputLimit": None},
            "queue-throughput",
            (
                "DeduplicationScope is queue, messageGroup was deployed and"
                " FifoThroughputLimit is not set, perMessageGroupId was deployed"
            ),
        ),
        (
            {"RedrivePolicy": json.dumps({**REDRIVE, "maxReceiveCount": 1})},
            "queue-redrive",
            "1 receives, 5 were deployed",
        ),
    ],
    ids=["attributes", "redrive"],
)
def test_a_queue_that_was_changed_is_told_with_what_was_deployed(live: dict[str, Any], fault: str, said: str) -> None:
    (found,) = (one for one in after(get_queue_attributes=queues(live=live)) if one.status is Status.FAULT)

    assert found.name == fault
    assert found.seen.endswith(f": {said}")


def test_a_queue_that_is_gone_is_one_fault() -> None:
    findings = after(get_queue_attributes=refusal("AWS.SimpleQueueService.NonExistentQueue"))

    assert named(findings, Status.FAULT) == ["queue-settings"]


@pytest.mark.parametrize(
    ("answers", "warning"),
    [
        ({"list_subscriptions_by_topic": {"Subscriptions": []}}, "alarm-topic"),
        (
            {"list_subscriptions_by_topic": {"Subscriptions": [{"SubscriptionArn": "PendingConfirmation"}]}},
            "alarm-topic",
        ),
        ({"describe_alarms": {"MetricAlarms": [{**ALARM, "StateValue": "ALARM"}]}}, "alarms-quiet"),
        ({"get_bucket_versioning": {"Status": "Enabled"}}, "bucket-versioning"),
        (
            {"get_bucket_lifecycle_configuration": {"Rules": [LIFECYCLE, {**LIFECYCLE, "ID": "Mine"}]}},
            "bucket-lifecycle",
        ),
        (
            {
                "get_account_settings": {
                    "AccountLimit": {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}
                }
            },
            "lambda-concurrency",
        ),
        (
            {"list_service_quotas": {"Quotas": [{"QuotaName": "StartExecution bucket", "Value": 7.0}]}},
            "execution-starts",
        ),
    ],
    ids=["nobody told", "nobody confirmed", "alarm", "versions", "own rule", "new account", "few starts"],
)
def test_what_may_be_meant_is_a_warning(answers: Answers, warning: str) -> None:
    assert not_sound(after(**answers)) == {warning: Status.WARNING}


def test_many_lanes_ask_the_parameter_store_too_often_unless_it_is_prepared() -> None:
    stack = deployed()
    many = replace(stack.resources["Page"], properties={"Environment": {"Variables": {"LANE_CONCURRENCY": "40"}}})
    stack = replace(stack, resources={**stack.resources, "Page": many})
    prepared = {"ServiceSetting": {"SettingValue": "true"}}

    assert not_sound(after(stack)) == {"parameter-throughput": Status.WARNING}
    assert not_sound(after(stack, get_service_setting=prepared)) == {}


def test_a_schedule_that_was_deployed_disabled_may_stand_so() -> None:
    stack = deployed()
    disabled = replace(stack.resources["Hourly"], properties={"State": "DISABLED"})
    stack = replace(stack, resources={**stack.resources, "Hourly": disabled})

    findings = after(stack, get_schedule={"State": "DISABLED"})

    assert not_sound(findings) == {}
    assert [one.seen for one in findings if one.name == "schedules"] == ["Hourly disabled"]


def test_what_the_embedded_aws_does_not_keep_is_not_checked_there() -> None:
    findings = after(
        embedded=True,
        describe_time_to_live={"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}},
        describe_continuous_backups={"ContinuousBackupsDescription": {}},
        get_bucket_lifecycle_configuration=refusal("NoSuchLifecycleConfiguration"),
    )

    assert named(findings, Status.NOT_CHECKED) == [
        "table-throughput",
        "ledger-expiry",
        "ledger-recovery",
        "bucket-lifecycle",
        "worker-sources",
        "execution-starts",
    ]
    assert named(findings, Status.FAULT) == []


@pytest.mark.parametrize("error", [refusal("AccessDenied", "It"), refusal("ThrottlingException", "It")], ids=str)
def test_what_aws_does_not_tell_is_never_ok(error: ClientError) -> None:
    refused = {**dict.fromkeys(SOUND, error), "get_caller_identity": caller(f"arn:aws:iam::{ACCOUNT}:user/ann")}
    refused["simulate_principal_policy"] = error

    findings = after(**refused)

    told = {"credentials", "clock", "stack-complete"}
    assert {*named(findings, Status.OK)} == told
    assert {one.status for one in findings if one.name not in told} == {Status.NOT_CHECKED}
    assert all("It" in one.seen for one in findings if one.status is Status.NOT_CHECKED)


def simulated(*denied: str) -> Answer:
    def simulate(PolicySourceArn: str, ActionNames: list[str], ResourceArns: list[str]) -> Answer:  # noqa: N803
        assert PolicySourceArn.split(":")[5].startswith(("user/", "role/"))
        assert len(ResourceArns) == 1
        decisions = {action: "implicitDeny" if action in denied else "allowed" for action in ActionNames}
        return {"EvaluationResults": [{"EvalActionName": one, "EvalDecision": it} for one, it in decisions.items()]}

    return simulate


USER = caller(f"arn:aws:iam::{ACCOUNT}:user/ann")
SESSION = caller(f"arn:aws:sts::{ACCOUNT}:assumed-role/operator/ann")
ROLE = {"Role": {"Arn": f"arn:aws:iam::{ACCOUNT}:role/a/path/operator"}}


@pytest.mark.parametrize("who", [USER, SESSION], ids=["user", "role"])
def test_a_caller_is_told_which_of_the_rights_to_operate_are_missing(who: Answer) -> None:
    findings = after(
        get_caller_identity=who, get_role=ROLE, simulate_principal_policy=simulated("states:RedriveExecution")
    )

    (fault,) = [one for one in findings if one.status is Status.FAULT]
    assert (fault.name, fault.seen) == (
        "operate-rights",
        f"not allowed: states:RedriveExecution on arn:aws:states:eu-west-1:{ACCOUNT}:execution:dispatch:*",
    )


def test_a_caller_that_may_do_all_of_it_is_sound() -> None:
    assert not_sound(after(get_caller_identity=USER, simulate_principal_policy=simulated())) == {}


def test_a_caller_that_may_not_assume_the_roles_of_the_cdk_cannot_deploy() -> None:
    findings = before(get_caller_identity=USER, simulate_principal_policy=simulated("sts:AssumeRole"))

    assert named(findings, Status.FAULT) == ["deploy-rights"]


def test_a_caller_that_the_simulator_does_not_know_is_not_checked() -> None:
    findings = after(get_caller_identity=caller(f"arn:aws:sts::{ACCOUNT}:federated-user/ann"))

    assert not_sound(findings) == {"operate-rights": Status.NOT_CHECKED}


@pytest.mark.parametrize(
    "statement", [grant("dynamodb:*"), grant(["dynamodb:query"]), grant(Resource=["x", "arn:aws:dynamodb:*:table/l*"])]
)
def test_a_right_may_be_given_more_widely(statement: dict[str, Any]) -> None:
    assert not_sound(after(get_role_policy=policy(statement))) == {}


def test_a_template_that_is_not_understood_is_not_checked() -> None:
    stack = deployed()
    odd = replace(
        stack.resources["Policy"],
        properties={"Roles": ["role"], "PolicyDocument": {"Statement": [grant(Resource={"Fn::Select": [0, []]})]}},
    )

    findings = after(replace(stack, resources={**stack.resources, "Policy": odd}))

    assert not_sound(findings) == {"rights": Status.NOT_CHECKED}


def test_references_and_arns_of_a_template_are_filled_in() -> None:
    stack = deployed()
    arn = {"Fn::Join": ["", [{"Fn::GetAtt": ["Bucket", "Arn"]}, "/plans/*"]]}

    assert stack.resolve([arn, {"Fn::GetAtt": ["Tasks", "Arn"]}, {"Ref": "AWS::Region"}, {"Ref": "Topic"}]) == [
        "arn:aws:s3:::bucket/plans/*",
        f"arn:aws:sqs:eu-west-1:{ACCOUNT}:tasks",
        "eu-west-1",
        "arn:topic",
    ]
    with pytest.raises(UnresolvedError, match="Nobody"):
        stack.resolve({"Ref": "Nobody"})


def test_a_stack_is_read_as_it_was_deployed() -> None:
    template = {
        "Resources": {"Q1": {"Type": "AWS::SQS::Queue", "Metadata": {"aws:cdk:path": "App/Queues/Point/Resource"}}}
    }
    read = DeployedStack.read(
        site(
            describe_stacks={
                "Stacks": [
                    {
                        "StackId": f"arn:aws-cn:cloudformation:cn-north-1:{ACCOUNT}:stack/App/1",
                        "StackStatus": "UPDATE_COMPLETE",
                        "Outputs": [{"OutputKey": "Name", "OutputValue": "value"}],
                    }
                ]
            },
            get_template={"TemplateBody": template},
            list_stack_resources={
                "StackResourceSummaries": [{"LogicalResourceId": "Q1", "PhysicalResourceId": "https://sqs/q1"}]
            },
        ),
        "App",
    )

    assert read == DeployedStack(
        "App",
        "UPDATE_COMPLETE",
        {"Name": "value"},
        {"Q1": Resource("Q1", "AWS::SQS::Queue", {}, "Queues/Point", "https://sqs/q1")},
        {"AWS::Partition": "aws-cn", "AWS::Region": "cn-north-1", "AWS::AccountId": ACCOUNT},
    )


def test_the_table_of_a_stack_is_the_one_that_its_functions_read() -> None:
    assert table_of(deployed()) == BOOKINGS
    with pytest.raises(UnresolvedError):
        table_of(replace(deployed(), resources={}))


@pytest.mark.parametrize("service", READS)
def test_only_reading_calls_are_asked_for(service: str) -> None:
    make: Any = boto3.client
    client = make(service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")

    for operation in READS[service]:
        assert operation.split("_")[0] in {"describe", "get", "list", "query", "scan", "simulate"}
        assert hasattr(client, operation)


def test_nothing_else_can_be_asked() -> None:
    aws = Aws({})

    with pytest.raises(ValueError, match=r"ssm\.put_parameter is none of the reading calls"):
        Site(lambda _: aws, "eu-west-1").ask("ssm", "put_parameter", Name="/app/Stop", Value="true")

    assert aws.asked == []


def test_the_checks_have_no_other_way_to_ask() -> None:
    tree = ast.parse("".join(path.read_text() for path in SOURCES if path.name != "site.py"))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}

    assert not attributes & {"client", "resource", "Session", "application"}


def test_every_call_of_the_checks_is_one_of_the_list() -> None:
    tree = ast.parse("".join(path.read_text() for path in SOURCES))
    called = {
        (str(node.args[0].value), str(node.args[1].value))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"ask", "every", "found"}
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[1], ast.Constant)
    }

    assert called == {(service, operation) for service, operations in READS.items() for operation in operations}


FAULTY = {"describe_table": table(types={"BookingDateUTC": "N"}), "get_bucket_versioning": {"Status": "Enabled"}}


def printed(findings: list[Finding], width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(screen(Examination(site(), BOOKINGS, deployed()), findings))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_screen_tells_every_check_with_a_sign_and_a_word() -> None:
    lines = printed(after(**FAULTY)).splitlines()

    assert lines[0] == f"App, account {ACCOUNT}, eu-west-1"
    assert [line.strip() for line in lines if line.isupper() and line.strip().isalpha()] == [
        "ACCOUNT",
        "TABLE",
        "INDEX",
        "PARAMETERS",
        "STACK",
        "FUNCTIONS",
        "QUEUES",
        "ALARMS",
        "QUOTAS",
    ]
    assert any(re.match(r"  ✗ FAULT +index-keys +BookingDateUTC \(N\)", line) for line in lines)
    assert any(re.match(r"  ! warning +bucket-versioning +versioning is enabled", line) for line in lines)
    assert any(re.match(r"  · not checked +sample-dates +the index is not as it must be", line) for line in lines)
    assert any(re.match(r"  ✓ ok +clock ", line) for line in lines)


def test_what_is_wrong_is_told_again_at_the_end_with_what_to_do() -> None:
    text = printed(after(**FAULTY))
    _, counts, end = text.partition("46 checks: 41 ok, 1 warning, 1 FAULT, 3 not checked")

    assert counts
    assert [line.split()[-1] for line in end.splitlines() if line.startswith(("✗", "!"))] == [
        "index-keys",
        "bucket-versioning",
    ]
    assert "An index's keys cannot be changed" in end
    assert "docs/contract.md#booking" in end


def test_nothing_is_cut_where_the_screen_is_narrow() -> None:
    findings = after(describe_table=refusal("ResourceNotFoundException"), get_role_policy=policy())
    words = [word for one in findings for word in re.findall(r"\w+", f"{one.name} {one.seen}")]

    text = printed(findings, 100)

    assert "…" not in text
    assert {*re.findall(r"\w+", text)} >= {word for word in words if len(word) < 40}
    assert max(map(len, text.splitlines())) <= 100


def test_what_was_seen_is_printed_as_it_is() -> None:
    text = printed(after(scan=records(BookingTimeUTC="[red]9[/red]")))

    assert text.count('1 of 2 sampled records: "[red]9[/red]"') == 2


def test_programs_get_the_same_in_json() -> None:
    it = Examination(site(**FAULTY), BOOKINGS, deployed())
    told = to_json(it, examine(it))

    assert {name: value for name, value in told.items() if name != "Findings"} == {
        "Account": ACCOUNT,
        "Region": "eu-west-1",
        "Table": "bookings",
        "Stack": "App",
        "Faults": 1,
        "Warnings": 1,
        "NotChecked": 3,
    }
    (fault,) = [one for one in told["Findings"] if one["Status"] == "fault"]
    assert fault.keys() == {"Group", "Name", "Status", "Seen", "Advice", "Link"}
    assert (fault["Group"], fault["Name"]) == ("index", "index-keys")
    assert all((one["Advice"] is None) == (one["Status"] == "ok") for one in told["Findings"])
    json.dumps(told)


def test_no_record_is_named() -> None:
    examined = site()

    examine(Examination(examined, BOOKINGS, None))

    (asked,) = [given for operation, given in examined.client("dynamodb").asked if operation == "scan"]
    assert sorted(asked["ExpressionAttributeNames"].values()) == ["BookingDateUTC", "BookingTimeUTC", "RewardStatus"]


def test_a_greeting_without_a_date_says_nothing_of_the_clock() -> None:
    findings = before(get_caller_identity={**caller(), "ResponseMetadata": {"HTTPHeaders": {}}})

    assert site().greeting == Greeting(f"arn:aws:iam::{ACCOUNT}:root", ACCOUNT, "", 0.0)
    assert not_sound(findings) == {"clock": Status.NOT_CHECKED}
