"""The worker's composition root: its settings, and its collaborators, made once for each process."""

import functools
import os
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Json

from functions.worker.aws import DynamoBookings, S3TaskObjects, SandboxGrants, client
from functions.worker.ports import Desk
from functions.worker.task import Schema


class WorkerSettings(BaseModel):
    """What the worker reads of its environment, each field from the variable of its name."""

    model_config = ConfigDict(frozen=True)

    BOOKING_TABLE_NAME: Annotated[str, Field(min_length=1)]
    BOOKING_KEY_ATTRIBUTES: Json[Annotated[tuple[str, ...], Field(min_length=1, max_length=2)]]
    BOOKING_DATE_ATTRIBUTE: Annotated[str, Field(min_length=1)]
    TASK_DATA_BUCKET_NAME: Annotated[str, Field(min_length=1)]
    GRANT_TABLE_NAME: Annotated[str, Field(min_length=1)]
    POSTPONE_MINUTES: Annotated[int, Field(ge=1)]
    """A reward that is out of stock is tried again so much later."""


@functools.cache
def desk() -> Desk:
    """What the worker works with.

    Raises:
        pydantic.ValidationError: a variable is missing or wrong; the message names it.
    """
    settings = WorkerSettings.model_validate(dict(os.environ))
    schema = Schema(settings.BOOKING_KEY_ATTRIBUTES, settings.BOOKING_DATE_ATTRIBUTE)
    dynamodb = client("dynamodb")
    bookings = DynamoBookings(dynamodb, settings.BOOKING_TABLE_NAME, schema)
    grants = SandboxGrants(dynamodb, settings.GRANT_TABLE_NAME, bookings, now)
    return Desk(
        objects=S3TaskObjects(client("s3"), settings.TASK_DATA_BUCKET_NAME),
        bookings=bookings,
        grants=grants,
        log=grants,
        schema=schema,
        bucket=settings.TASK_DATA_BUCKET_NAME,
        postponed_by=timedelta(minutes=settings.POSTPONE_MINUTES),
        clock=now,
    )


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)
