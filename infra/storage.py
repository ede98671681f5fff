"""What holds data: the bookings (created or imported), the ledger, and the bucket of the tasks' objects."""

from dataclasses import dataclass
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from functions.domain.cursor import TIME_ATTRIBUTE
from infra.acknowledge import acknowledge
from infra.stage import ExistingBookings, Stage

SANDBOX_INDEX_NAME: Final = "BookingDateUTC-BookingTimeUTC-index"
SANDBOX_KEY_ATTRIBUTE: Final = "RecordId"

STAGING_DAYS: Final = 15
"""A failed execution can be redriven for 14 days, and then reads what it staged."""
PLAN_BODY_DAYS: Final = 400
"""Far longer than the ledger's rows live: a row must never point at a body that is gone."""
REPORT_DAYS: Final = 400
MULTIPART_DAYS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Bookings:
    """The bookings table and the index that is read, whoever owns them."""

    table: dynamodb.ITableV2
    index_name: str
    key_attributes: tuple[str, ...]
    date_attribute: str
    """The index's partition key."""
    shards: int
    """So many partitions hold each date of the index; 0 where it is not sharded."""

    @property
    def index_arn(self) -> str:
        """All that a dispatch may read: the index, not the table."""
        return f"{self.table.table_arn}/index/{self.index_name}"


class Storage(Construct):
    """The bookings, the ledger and the task-data bucket.

    The bucket is not versioned: a second write of a key is a retry's and holds the same bytes, and what may be deleted
    is what was staged.  Task objects are kept unless the stage gives them an age: the workers read them, and only
    their owner knows when they are done.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)

        if stage.existing_bookings:
            self.bookings = self._import_bookings(stage, stage.existing_bookings)
        else:
            self.bookings = self._create_bookings(stage)

        self.ledger = dynamodb.TableV2(
            self,
            "Ledger",
            partition_key=dynamodb.Attribute(name="Pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="Sk", type=dynamodb.AttributeType.STRING),
            billing=dynamodb.Billing.on_demand(),
            time_to_live_attribute="ExpiresAt",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=stage.keeps_data,
            removal_policy=stage.removal_policy,
        )

        self.task_data = s3.Bucket(
            self,
            "TaskData",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            lifecycle_rules=_lifecycle(stage),
            removal_policy=stage.removal_policy,
            auto_delete_objects=stage.empties_bucket,
        )
        acknowledge(
            self.task_data,
            "AwsSolutions-S1",
            "Server access logs would be a second place that holds group keys. An account that must know who"
            " read a task turns on CloudTrail data events, which also name the role.",
        )

    def _create_bookings(self, stage: Stage) -> Bookings:
        """Create the table of the contract; the index holds every attribute, as a task's object does."""
        text = dynamodb.AttributeType.STRING
        table = dynamodb.TableV2(
            self,
            "Bookings",
            partition_key=dynamodb.Attribute(name=SANDBOX_KEY_ATTRIBUTE, type=text),
            global_secondary_indexes=[
                dynamodb.GlobalSecondaryIndexPropsV2(
                    index_name=SANDBOX_INDEX_NAME,
                    partition_key=dynamodb.Attribute(name=stage.booking_date_attribute, type=text),
                    sort_key=dynamodb.Attribute(name=TIME_ATTRIBUTE, type=text),
                    projection_type=dynamodb.ProjectionType.ALL,
                )
            ],
            billing=dynamodb.Billing.on_demand(),
            removal_policy=stage.removal_policy,
        )
        return Bookings(
            table=table,
            index_name=SANDBOX_INDEX_NAME,
            key_attributes=(SANDBOX_KEY_ATTRIBUTE,),
            date_attribute=stage.booking_date_attribute,
            shards=stage.booking_shards,
        )

    def _import_bookings(self, stage: Stage, existing: ExistingBookings) -> Bookings:
        return Bookings(
            table=dynamodb.TableV2.from_table_name(self, "Bookings", existing.table_name),
            index_name=existing.index_name,
            key_attributes=existing.key_attributes,
            date_attribute=stage.booking_date_attribute,
            shards=stage.booking_shards,
        )


def _lifecycle(stage: Stage) -> list[s3.LifecycleRule]:
    rules = [
        s3.LifecycleRule(id="Staging", prefix="staging/", expiration=Duration.days(STAGING_DAYS)),
        s3.LifecycleRule(id="PlanBodies", prefix="plans/", expiration=Duration.days(PLAN_BODY_DAYS)),
        s3.LifecycleRule(id="Reports", prefix="reports/", expiration=Duration.days(REPORT_DAYS)),
        s3.LifecycleRule(id="Uploads", abort_incomplete_multipart_upload_after=Duration.days(MULTIPART_DAYS)),
    ]
    if stage.task_expiry_days:
        age = Duration.days(stage.task_expiry_days)
        rules.append(s3.LifecycleRule(id="Tasks", prefix="tasks/", expiration=age))
    return rules
