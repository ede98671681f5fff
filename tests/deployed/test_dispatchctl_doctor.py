"""`dispatchctl doctor` on real resources: one fault is planted at a time, and found by its name alone.

On an instance of its own: what the other tests leave would be found too.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.deployed.conftest import stopped_at_the_end
from tools.application import Application
from tools.bundle import build, local_target
from tools.dispatchctl import doctor as _doctor  # noqa: F401 -- its import adds the command
from tools.dispatchctl.shell import ExitCode, app
from tools.doctor.account import BOOTSTRAP_PARAMETER
from tools.emulator.access import session
from tools.local import up
from tools.samples import worked_example
from tools.seed import put
from tools.workspace import Workspace

INDEX = "by-time"
Plant = Callable[[Application], AbstractContextManager[None]]
"""Makes a fault for the length of a block."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """A deployed application without a fault, with a few bookings, which the command speaks to."""
    build(local_target())
    workspace = Workspace(tmp_path_factory.mktemp("doctor"))
    with pytest.MonkeyPatch.context() as patch, stopped_at_the_end(workspace):
        patch.setenv("DISPATCHER_STATE_DIR", str(workspace.directory))
        patch.setattr("tools.application.session", cache(session))  # half of a command's time, if made for each client
        application = Application(up(workspace))
        put(application.dynamodb, application.deployment.outputs["BookingTableName"], worked_example().bookings)
        yield application


def diagnose(*arguments: str, stage: str = "Local") -> tuple[int, dict[str, Any]]:
    """The exit code of the command, and what it found."""
    done = CliRunner().invoke(app, ["--stage", stage, "doctor", "--json", *arguments], catch_exceptions=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return done.exit_code, found


def faults(found: dict[str, Any]) -> list[str]:
    return [one["Name"] for one in found["Findings"] if one["Status"] == "fault"]


def seen(found: dict[str, Any], name: str) -> str:
    (text,) = [one["Seen"] for one in found["Findings"] if one["Name"] == name]
    return str(text)


def test_a_sound_stack_has_no_fault(place: Application) -> None:
    code, found = diagnose()

    assert (code, faults(found), found["Faults"]) == (ExitCode.DONE, [], 0)
    assert found["Stack"] == "BookingtimeDispatcherLocal"
    assert found["Table"] == place.deployment.outputs["BookingTableName"]
    assert [one["Name"] for one in found["Findings"] if one["Status"] == "warning"] == ["alarm-topic"]
    assert seen(found, "sample-dates") == "7 sampled records"


def test_the_screen_ends_with_what_to_do(place: Application) -> None:
    with parameter("Stop", "true")(place):
        done = CliRunner().invoke(app, ["doctor"], catch_exceptions=False)

    assert done.exit_code == ExitCode.FINDINGS
    head, _, end = done.stdout.partition("1 FAULT")
    assert "✗ FAULT        kill-switch" in head
    assert "Set the Stop parameter to false" in end


def parameter(name: str, value: str | None) -> Plant:
    @contextmanager
    def plant(place: Application) -> Iterator[None]:
        with changed_parameter(place, place.deployment.outputs[f"{name}Parameter"], value):
            yield

    return plant


@contextmanager
def changed_parameter(place: Application, name: str, value: str | None) -> Iterator[None]:
    ssm = place.client("ssm")
    before = ssm.get_parameter(Name=name)["Parameter"]["Value"]
    if value is None:
        ssm.delete_parameter(Name=name)
    else:
        ssm.put_parameter(Name=name, Value=value, Type="String", Overwrite=True)
    yield
    ssm.put_parameter(Name=name, Value=before, Type="String", Overwrite=True)


def no_bootstrap(place: Application) -> AbstractContextManager[None]:
    return changed_parameter(place, BOOTSTRAP_PARAMETER, None)


def booking(**attributes: str) -> Plant:
    @contextmanager
    def plant(place: Application) -> Iterator[None]:
        table = place.deployment.outputs["BookingTableName"]
        texts = {"RecordId": "odd", "BookingDateUTC": "2026-09-17", "BookingTimeUTC": "15:00:00Z"}
        texts |= {"RewardStatus": "WaitToReward", **attributes}
        place.dynamodb.put_item(TableName=table, Item={name: {"S": text} for name, text in texts.items()})
        yield
        place.dynamodb.delete_item(TableName=table, Key={"RecordId": {"S": "odd"}})

    return plant


@contextmanager
def no_right_to_query(place: Application) -> Iterator[None]:
    iam, pages = place.client("iam"), place.client("lambda").get_paginator("list_functions").paginate()
    functions = [one for page in pages for one in page["Functions"]]
    (arn,) = [one["Role"] for one in functions if one["Handler"] == "functions.handlers.dispatch_page.handler"]
    role = arn.rpartition("/")[2]
    (name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]

    def write(statements: list[Any]) -> None:
        text = json.dumps({**document, "Statement": statements})
        iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=text)

    write([one for one in document["Statement"] if one["Action"] != "dynamodb:Query"])
    yield
    write(document["Statement"])


def attributes(queue: str, **changes: str) -> Plant:
    @contextmanager
    def plant(place: Application) -> Iterator[None]:
        sqs, url = place.client("sqs"), place.deployment.outputs[queue]
        before = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[*changes])["Attributes"]
        sqs.set_queue_attributes(QueueUrl=url, Attributes=changes)
        yield
        sqs.set_queue_attributes(QueueUrl=url, Attributes=before)

    return plant


@contextmanager
def dead_letter(place: Application) -> Iterator[None]:
    sqs, url = place.client("sqs"), place.deployment.outputs["CouponTaskDeadLetterQueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="{}", MessageGroupId="a", MessageDeduplicationId="a")
    yield
    sqs.purge_queue(QueueUrl=url)


@contextmanager
def no_schedule(place: Application) -> Iterator[None]:
    scheduler, name = place.client("scheduler"), place.deployment.outputs["ScheduleName"]
    before = scheduler.get_schedule(Name=name)
    scheduler.delete_schedule(Name=name)
    yield
    kept = ("Name", "Description", "FlexibleTimeWindow", "ScheduleExpression", "State", "Target")
    scheduler.create_schedule(**{field: before[field] for field in kept})


@contextmanager
def rule_disabled(place: Application) -> Iterator[None]:
    events = place.client("events")
    (name,) = [one["Name"] for one in events.list_rules()["Rules"] if "WatchBadEnd" in one["Name"]]
    events.disable_rule(Name=name)
    yield
    events.enable_rule(Name=name)


@contextmanager
def open_bucket(place: Application) -> Iterator[None]:
    bucket = place.deployment.outputs["TaskDataBucketName"]
    before = place.s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    place.s3.delete_public_access_block(Bucket=bucket)
    yield
    place.s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=before)


@contextmanager
def bucket_without_policy(place: Application) -> Iterator[None]:
    bucket = place.deployment.outputs["TaskDataBucketName"]
    before = place.s3.get_bucket_policy(Bucket=bucket)["Policy"]
    place.s3.delete_bucket_policy(Bucket=bucket)
    yield
    place.s3.put_bucket_policy(Bucket=bucket, Policy=before)


@contextmanager
def endless_log(place: Application) -> Iterator[None]:
    logs, group = place.client("logs"), "/aws/vendedlogs/states/BookingtimeDispatcherLocal-Dispatch"
    logs.delete_retention_policy(logGroupName=group)
    yield
    logs.put_retention_policy(logGroupName=group, retentionInDays=90)


@contextmanager
def function_switched_off(place: Application) -> Iterator[None]:
    functions, name = place.client("lambda"), place.deployment.outputs["WorkerFunctionName"]
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    yield
    functions.delete_function_concurrency(FunctionName=name)


@contextmanager
def mute_alarm(place: Application) -> Iterator[None]:
    cloudwatch = place.client("cloudwatch")
    alarms = cloudwatch.describe_alarms()["MetricAlarms"]
    (name,) = [one["AlarmName"] for one in alarms if "MonitoringExecutionsFailed" in one["AlarmName"]]
    cloudwatch.disable_alarm_actions(AlarmNames=[name])
    yield
    cloudwatch.enable_alarm_actions(AlarmNames=[name])


@pytest.mark.parametrize(
    ("plant", "fault", "told"),
    [
        pytest.param(no_bootstrap, "bootstrap", BOOTSTRAP_PARAMETER, id="missing bootstrap"),
        pytest.param(
            parameter("PaginationEnabled", "yes"), "parameter-pagination-enabled", '"yes" is taken for false', id="flag"
        ),
        pytest.param(parameter("PageSize", "10O0"), "parameter-page-size", '"10O0" is taken for 1000', id="page size"),
        pytest.param(parameter("Grouping", "hour"), "parameter-grouping", '"hour" is taken for page', id="grouping"),
        pytest.param(
            parameter("SetAsideLimit", None), "parameter-set-aside-limit", "missing, which means 100", id="no limit"
        ),
        pytest.param(parameter("Stop", "true"), "kill-switch", "every run stops", id="stop left on"),
        pytest.param(
            booking(BookingDateUTC="17.09.2026"),
            "sample-dates",
            '1 of 8 sampled records: "17.09.2026"',
            id="date of another form",
        ),
        pytest.param(
            booking(BookingTimeUTC="3 pm"), "sample-times", '1 of 8 sampled records: "3 pm"', id="time of another form"
        ),
        pytest.param(
            booking(RewardStatus="WaittoReward"),
            "sample-status",
            '1 of 8 sampled records: "WaittoReward"',
            id="status spelt otherwise",
        ),
        pytest.param(
            no_right_to_query, "rights", "Functions/DispatchPage: lacks dynamodb:Query on", id="missing right"
        ),
        pytest.param(
            attributes("PointTaskQueueUrl", RedrivePolicy=""),
            "queue-redrive",
            "Queues/Point/Queue: no redrive policy",
            id="no redrive",
        ),
        pytest.param(
            attributes("PointTaskQueueUrl", FifoThroughputLimit="perQueue", DeduplicationScope="queue"),
            "queue-throughput",
            "FifoThroughputLimit is perQueue",
            id="slow queue",
        ),
        pytest.param(
            attributes("CouponTaskQueueUrl", VisibilityTimeout="30"),
            "queue-settings",
            "Queues/Coupon/Queue: VisibilityTimeout is 30",
            id="too little time for a task",
        ),
        pytest.param(dead_letter, "dead-letters", "Queues/Coupon/DeadLetters: 1 waiting", id="dead letter"),
        pytest.param(no_schedule, "schedules", "Schedule/Hourly: gone", id="no schedule"),
        pytest.param(rule_disabled, "watch-rule", "Watch/BadEnd: disabled", id="rule disabled"),
        pytest.param(open_bucket, "bucket-public-access", "off: BlockPublicAcls", id="open bucket"),
        pytest.param(bucket_without_policy, "bucket-tls", "no such statement", id="bucket without TLS"),
        pytest.param(endless_log, "log-retention", "Workflow: no days, 90 were deployed", id="endless log"),
        pytest.param(function_switched_off, "function-concurrency", "Worker/GrantTasks: switched off", id="no worker"),
        pytest.param(mute_alarm, "alarms", "Monitoring/ExecutionsFailed: its actions are disabled", id="mute alarm"),
    ],
)
def test_a_planted_fault_is_found_by_its_name_alone(place: Application, plant: Plant, fault: str, told: str) -> None:
    with plant(place):
        code, found = diagnose()

    assert (code, faults(found)) == (ExitCode.FINDINGS, [fault])
    assert told in seen(found, fault)


def create(place: Application, name: str, **changes: Any) -> None:
    """A bookings table as the dispatcher wants it, but for the changes."""
    own, index_keys = changes.get("own", "RecordId"), changes.get("index_keys", ("BookingDateUTC", "BookingTimeUTC"))
    index = {
        "IndexName": INDEX,
        "KeySchema": key(*index_keys),
        "Projection": {"ProjectionType": changes.get("projection", "ALL")},
    }
    indexes = changes.get("indexes", [index])
    used = {own, *index_keys} if indexes else {own}
    place.dynamodb.create_table(
        TableName=name,
        KeySchema=key(own),
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": changes.get("types", {}).get(attribute, "S")}
            for attribute in sorted(used)
        ],
        BillingMode="PAY_PER_REQUEST",
        **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
    )


def key(*names: str) -> list[Any]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)]


def look_at(name: str, *arguments: str, stage: str = "Local") -> tuple[int, dict[str, Any]]:
    return diagnose("--table", name, "--index", INDEX, "--key", "RecordId", *arguments, stage=stage)


@pytest.mark.parametrize(
    ("changes", "fault", "told"),
    [
        pytest.param(
            {"own": "Id"},
            "table-keys",
            "the table has Id (S); RecordId",
            id="other key",
        ),
        pytest.param(
            {"types": {"BookingDateUTC": "N"}},
            "index-keys",
            "BookingDateUTC (N), BookingTimeUTC (S); expected BookingDateUTC (S)",
            id="wrong key type",
        ),
        pytest.param(
            {"index_keys": ("BookingDateUTC", "OrderTime")},
            "index-keys",
            "OrderTime (S); expected",
            id="index by another time",
        ),
        pytest.param({"projection": "KEYS_ONLY"}, "index-projection", "KEYS_ONLY, without MemberId", id="keys only"),
        pytest.param(
            {"indexes": []},
            "index-exists",
            "no index by-time; the table has none",
            id="none",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_it_is_deployed_on(
    place: Application, request: pytest.FixtureRequest, changes: dict[str, Any], fault: str, told: str
) -> None:
    name = "".join(letter for letter in request.node.name if letter.isalnum())[-40:]
    create(place, name, **changes)

    code, found = look_at(name)

    assert (code, faults(found)) == (ExitCode.FINDINGS, [fault])
    assert told in seen(found, fault)
    assert found["Stack"] is None


def test_a_table_that_fits_has_no_fault_with_and_without_shards(place: Application) -> None:
    create(place, "Fits")
    item = {"RecordId": "R1", "BookingDateUTC": "2026-09-17#3", "BookingTimeUTC": "15:03:00Z"}
    place.dynamodb.put_item(TableName="Fits", Item={name: {"S": text} for name, text in item.items()})

    assert faults(look_at("Fits", "--shards", "4")[1]) == []
    code, found = look_at("Fits")
    assert (code, faults(found)) == (ExitCode.FINDINGS, ["sample-dates"])


def test_a_table_that_is_not_there_is_one_fault(place: Application) -> None:
    assert place.deployment.outputs
    code, found = look_at("Nowhere")

    assert (code, faults(found)) == (ExitCode.FINDINGS, ["table-exists"])


def test_in_an_account_a_caller_who_may_not_deploy_is_told_so(
    place: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(place, "Platform")
    iam = place.client("iam")
    iam.create_user(UserName="ann")
    access = iam.create_access_key(UserName="ann")["AccessKey"]
    for name, value in {
        "AWS_ENDPOINT_URL": place.deployment.endpoint,
        "AWS_ACCESS_KEY_ID": access["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": access["SecretAccessKey"],
        "AWS_REGION": place.deployment.region,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)

    code, found = look_at("Platform", stage="Production")

    assert (code, faults(found)) == (ExitCode.FINDINGS, ["deploy-rights"])
    assert "sts:AssumeRole on arn:aws:iam::000000000000:role/cdk-hnb659fds-deploy-role" in seen(found, "deploy-rights")
    assert "user/ann" in seen(found, "credentials")

    done = CliRunner().invoke(app, ["--stage", "Production", "doctor"])
    assert getattr(done.exception, "code", None) == ExitCode.NOT_FOUND
    assert "no stack BookingtimeDispatcherProduction stands in us-east-1; before a deployment" in str(done.exception)

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    code, found = diagnose(stage="Production")

    assert (code, faults(found)) == (ExitCode.FINDINGS, ["credentials"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--index", INDEX],
        ["--key", "RecordId"],
        ["--shards", "4"],
        ["--table", "Bookings", "--index", INDEX],
        ["--table", "Bookings"],
    ],
)
def test_a_table_is_named_with_its_index_and_its_key(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["doctor", *arguments])

    assert getattr(done.exception, "code", None) == ExitCode.USAGE
