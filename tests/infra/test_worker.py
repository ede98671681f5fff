"""The reference worker, as CloudFormation is asked for it."""

import json
from typing import Any

import pytest

from functions.domain.budget import WORKER_FUNCTION_SECONDS
from functions.worker.wiring import WorkerSettings
from infra.bundle import LambdaBundle
from tests.infra.template import StackTemplate

MAPPING = "AWS::Lambda::EventSourceMapping"
QUEUES = ("<QueuesPointQueue.Arn>", "<QueuesCouponQueue.Arn>")
TASK_QUEUES = ("QueuesPointQueue", "QueuesCouponQueue")
BOOKINGS = "<StorageBookings.Arn>"
GRANTS = "<WorkerGrants.Arn>"
LOG = "<WorkerGrantTasksLog.Arn>"
CONSUME = ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
ADVISED_FACTOR = 6
"""How many times a function's time AWS advises its queue's visibility time to be."""


@pytest.fixture(scope="module")
def function(sandbox: StackTemplate) -> dict[str, Any]:
    described: dict[str, Any] = sandbox.properties("AWS::Lambda::Function")["WorkerGrantTasksFunction"]
    return described


def test_it_stands_only_beside_a_bookings_table_of_the_stacks_own(templates: dict[str, StackTemplate]) -> None:
    having = {name for name, template in templates.items() if "WorkerFunctionName" in template.outputs()}
    assert having == {"Local", "Sandbox", "Expiring", "Traced", "Linked", "Wide"}
    for name in templates.keys() - having:
        assert MAPPING not in templates[name].kinds()
        assert "GrantTableName" not in templates[name].outputs()


def test_both_queues_are_its_sources_and_a_failed_message_comes_again_alone(sandbox: StackTemplate) -> None:
    mappings = sandbox.properties(MAPPING).values()
    assert sorted(mapping["EventSourceArn"] for mapping in mappings) == sorted(QUEUES)
    for mapping in mappings:
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert mapping["BatchSize"] == 1, "what stands behind a poisoned message must not become a dead letter with it"
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": 10}
        assert "MaximumBatchingWindowInSeconds" not in mapping, "a FIFO queue refuses it"


@pytest.mark.parametrize(("stage", "enabled"), [("Sandbox", True), ("Local", False)])
def test_it_takes_tasks_unasked_in_an_account_and_on_request_in_the_embedded_aws(
    templates: dict[str, StackTemplate], stage: str, *, enabled: bool
) -> None:
    assert {mapping["Enabled"] for mapping in templates[stage].properties(MAPPING).values()} == {enabled}


def test_a_batch_does_not_come_again_while_it_is_worked(sandbox: StackTemplate, function: dict[str, Any]) -> None:
    assert function["Timeout"] == WORKER_FUNCTION_SECONDS
    for name in TASK_QUEUES:
        queue = sandbox.properties("AWS::SQS::Queue")[name]
        assert queue["VisibilityTimeout"] >= ADVISED_FACTOR * function["Timeout"]
        assert queue["RedrivePolicy"]["maxReceiveCount"] == 5


def test_it_may_do_exactly_what_it_does(sandbox: StackTemplate) -> None:
    assert sandbox.rights("WorkerGrantTasksRole") == {
        ("dynamodb:GetItem", BOOKINGS),
        ("dynamodb:UpdateItem", BOOKINGS),
        ("dynamodb:GetItem", GRANTS),
        ("dynamodb:PutItem", GRANTS),
        ("dynamodb:UpdateItem", GRANTS),
        ("s3:GetObject", "<StorageTaskData.Arn>/tasks/*"),
        *(
            (f"sqs:{name}", queue)
            for name in ("DeleteMessage", "GetQueueAttributes", "ReceiveMessage")
            for queue in QUEUES
        ),
        ("logs:CreateLogStream", LOG),
        ("logs:PutLogEvents", LOG),
    }


def test_its_environment_is_what_its_settings_read(function: dict[str, Any]) -> None:
    environment = function["Environment"]["Variables"]
    settings = WorkerSettings.model_validate(environment)
    assert settings.BOOKING_KEY_ATTRIBUTES == tuple(json.loads(environment["BOOKING_KEY_ATTRIBUTES"])) == ("RecordId",)
    assert settings.POSTPONE_MINUTES == 60
    assert environment["POWERTOOLS_SERVICE_NAME"] == "worker"
    assert environment.keys() - WorkerSettings.model_fields.keys() == {
        "POWERTOOLS_SERVICE_NAME",
        "POWERTOOLS_METRICS_NAMESPACE",
        "LOG_LEVEL",
        "GLIBC_TUNABLES",
    }


def test_its_handler_is_in_the_bundle(function: dict[str, Any], aws_bundle: LambdaBundle) -> None:
    assert function["Handler"] == "functions.worker.grant_tasks.handler"
    source = aws_bundle.directory / "functions" / "worker" / "grant_tasks.py"
    assert "def handler(" in source.read_text(encoding="utf-8")


def test_grants_are_known_by_one_key_and_only_notes_expire(sandbox: StackTemplate) -> None:
    grants = sandbox.properties("AWS::DynamoDB::GlobalTable")["WorkerGrants"]
    assert grants["KeySchema"] == [{"AttributeName": "Pk", "KeyType": "HASH"}]
    assert grants["TimeToLiveSpecification"] == {"AttributeName": "ExpiresAt", "Enabled": True}
    assert grants["BillingMode"] == "PAY_PER_REQUEST"
