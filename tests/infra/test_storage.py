"""The bookings, the ledger and the bucket, as CloudFormation is asked for them."""

from typing import Any

import pytest

from functions.adapters.ledger_table import RETENTION_SECONDS
from tests.infra.template import StackTemplate

TABLE = "AWS::DynamoDB::GlobalTable"
BUCKET = "AWS::S3::Bucket"
DAY = 24 * 3600
REDRIVE_DAYS = 14


def lifecycle(template: StackTemplate) -> dict[str, dict[str, Any]]:
    [bucket] = template.properties(BUCKET).values()
    rules = bucket["LifecycleConfiguration"]["Rules"]
    assert all(rule["Status"] == "Enabled" for rule in rules)
    return {rule.get("Prefix", ""): rule for rule in rules}


def test_bookings_are_indexed_by_date_and_time_with_all_their_attributes(sandbox: StackTemplate) -> None:
    bookings = sandbox.properties(TABLE)["StorageBookings"]
    assert bookings["KeySchema"] == [{"AttributeName": "RecordId", "KeyType": "HASH"}]
    assert bookings["GlobalSecondaryIndexes"] == [
        {
            "IndexName": "BookingDateUTC-BookingTimeUTC-index",
            "KeySchema": [
                {"AttributeName": "BookingDateUTC", "KeyType": "HASH"},
                {"AttributeName": "BookingTimeUTC", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
    ]
    assert {one["AttributeName"]: one["AttributeType"] for one in bookings["AttributeDefinitions"]} == {
        "RecordId": "S",
        "BookingDateUTC": "S",
        "BookingTimeUTC": "S",
    }


def test_the_date_may_stand_in_another_attribute_that_holds_its_shard_too(templates: dict[str, StackTemplate]) -> None:
    bookings = templates["Wide"].properties(TABLE)["StorageBookings"]
    [index] = bookings["GlobalSecondaryIndexes"]
    assert index["KeySchema"][0] == {"AttributeName": "BookingDateShard", "KeyType": "HASH"}
    assert {"AttributeName": "BookingDateShard", "AttributeType": "S"} in bookings["AttributeDefinitions"]
    for name in ("DispatchPage", "DispatchWindow", "StagePage"):
        function = templates["Wide"].properties("AWS::Lambda::Function")[f"Functions{name}Function"]
        assert function["Environment"]["Variables"]["BOOKING_DATE_ATTRIBUTE"] == "BookingDateShard"


@pytest.mark.parametrize(("stage", "keys"), [("OneKey", '["BookingId"]'), ("Production", '["TenantId", "BookingId"]')])
def test_an_existing_table_is_read_and_neither_created_nor_changed(
    templates: dict[str, StackTemplate], stage: str, keys: str
) -> None:
    template = templates[stage]
    assert set(template.properties(TABLE)) == {"StorageLedger"}
    environment = template.properties("AWS::Lambda::Function")["FunctionsDispatchPageFunction"]["Environment"]
    assert environment["Variables"]["BOOKING_TABLE_NAME"] == "PlatformBookings"
    assert environment["Variables"]["BOOKING_INDEX_NAME"] == "by-booking-time"
    assert environment["Variables"]["BOOKING_KEY_ATTRIBUTES"] == keys
    assert template.outputs()["BookingTableName"] == "PlatformBookings"
    assert template.outputs()["BookingIndexName"] == "by-booking-time"


def test_ledger_rows_are_addressed_by_pk_and_sk_and_expire(sandbox: StackTemplate) -> None:
    ledger = sandbox.properties(TABLE)["StorageLedger"]
    assert ledger["KeySchema"] == [
        {"AttributeName": "Pk", "KeyType": "HASH"},
        {"AttributeName": "Sk", "KeyType": "RANGE"},
    ]
    assert ledger["AttributeDefinitions"] == [
        {"AttributeName": "Pk", "AttributeType": "S"},
        {"AttributeName": "Sk", "AttributeType": "S"},
    ]
    assert ledger["TimeToLiveSpecification"] == {"AttributeName": "ExpiresAt", "Enabled": True}
    assert ledger["BillingMode"] == "PAY_PER_REQUEST"


@pytest.mark.parametrize("stage", ["Local", "Sandbox", "Production"])
def test_the_ledger_can_be_restored_to_any_moment(templates: dict[str, StackTemplate], stage: str) -> None:
    [replica] = templates[stage].properties(TABLE)["StorageLedger"]["Replicas"]
    assert replica["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert replica["DeletionProtectionEnabled"] is (stage == "Production")


def test_the_bucket_is_private_and_encrypted(sandbox: StackTemplate) -> None:
    [bucket] = sandbox.properties(BUCKET).values()
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    assert bucket["BucketEncryption"] == {
        "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
    }


def test_the_bucket_refuses_plain_http(production: StackTemplate) -> None:
    [policy] = production.properties("AWS::S3::BucketPolicy").values()
    assert policy["PolicyDocument"]["Statement"] == [
        {
            "Effect": "Deny",
            "Principal": {"AWS": "*"},
            "Action": "s3:*",
            "Resource": ["<StorageTaskData.Arn>", "<StorageTaskData.Arn>/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    ]


def test_staged_objects_outlive_the_time_in_which_an_execution_can_be_redriven(sandbox: StackTemplate) -> None:
    assert lifecycle(sandbox)["staging/"]["ExpirationInDays"] > REDRIVE_DAYS


def test_plan_bodies_outlive_the_rows_that_point_at_them(sandbox: StackTemplate) -> None:
    assert lifecycle(sandbox)["plans/"]["ExpirationInDays"] * DAY >= RETENTION_SECONDS + 90 * DAY


def test_reports_are_kept_longer_than_a_year(sandbox: StackTemplate) -> None:
    assert lifecycle(sandbox)["reports/"]["ExpirationInDays"] == 400


def test_uploads_that_were_never_completed_are_dropped(sandbox: StackTemplate) -> None:
    [everywhere] = [rule for prefix, rule in lifecycle(sandbox).items() if not prefix]
    assert everywhere["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert "ExpirationInDays" not in everywhere


def test_task_objects_are_kept_unless_an_age_is_set(templates: dict[str, StackTemplate]) -> None:
    assert lifecycle(templates["Sandbox"]).keys() == {"staging/", "plans/", "reports/", ""}
    assert lifecycle(templates["Expiring"]).keys() == {"staging/", "plans/", "reports/", "", "tasks/"}
    assert lifecycle(templates["Expiring"])["tasks/"]["ExpirationInDays"] == 30


@pytest.mark.parametrize(("stage", "policy"), [("Local", "Delete"), ("Sandbox", "Delete"), ("Production", "Retain")])
def test_what_holds_data_outlives_a_production_stack_and_goes_with_any_other(
    templates: dict[str, StackTemplate], stage: str, policy: str
) -> None:
    kinds = (TABLE, BUCKET, "AWS::SQS::Queue", "AWS::Logs::LogGroup", "AWS::StepFunctions::StateMachine")
    for kind in kinds:
        for resource in templates[stage].resources(kind).values():
            assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == (policy, policy)


def test_only_a_sandbox_empties_its_bucket(templates: dict[str, StackTemplate]) -> None:
    emptying = {name for name, one in templates.items() if "Custom::S3AutoDeleteObjects" in one.kinds()}
    assert emptying == {"Sandbox", "OneKey", "Expiring", "Traced", "Linked", "Wide"}
