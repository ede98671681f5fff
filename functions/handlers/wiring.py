"""The composition root: the collaborators of each function, made once for each process."""

import functools
import time

from functions.adapters.bookings import DynamoBookingIndex
from functions.adapters.clients import client
from functions.adapters.leases import DynamoLeases
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import LedgerTable
from functions.adapters.parameters import SsmParameters
from functions.adapters.task_data import S3TaskData
from functions.adapters.task_queues import SqsTaskQueues
from functions.domain.booking import Route
from functions.domain.flags import GROUPING, PAGE_SIZE, PAGINATION_ENABLED, SET_ASIDE_LIMIT
from functions.settings import DispatchSettings, LedgerSettings, ParameterSettings, load
from functions.usecases.ports import Dispatch


@functools.cache
def parameters() -> SsmParameters:
    """Of the function that plans a run."""
    settings = load(ParameterSettings)
    names = {
        PAGINATION_ENABLED: settings.pagination_enabled_parameter,
        PAGE_SIZE: settings.page_size_parameter,
        GROUPING: settings.grouping_parameter,
        SET_ASIDE_LIMIT: settings.set_aside_limit_parameter,
    }
    return SsmParameters(client("ssm"), names)


@functools.cache
def leases() -> DynamoLeases:
    """Of the functions that take and give back leases."""
    settings = load(LedgerSettings)
    return DynamoLeases(LedgerTable(client("dynamodb"), settings.ledger_table_name, time.time))


@functools.cache
def dispatch() -> Dispatch:
    """Of the functions that read bookings and dispatch them."""
    settings = load(DispatchSettings)
    dynamodb, bucket = client("dynamodb"), settings.task_data_bucket_name
    task_data = S3TaskData(client("s3"), bucket)
    urls = {Route.POINT: settings.point_task_queue_url, Route.COUPON: settings.coupon_task_queue_url}
    return Dispatch(
        bookings=DynamoBookingIndex(
            dynamodb, settings.booking_table_name, settings.booking_index_name, settings.booking_key_attributes
        ),
        ledger=DynamoLedger(LedgerTable(dynamodb, settings.ledger_table_name, time.time), task_data),
        task_data=task_data,
        task_queues=SqsTaskQueues(client("sqs"), urls, bucket),
        clock=time.time,
    )
