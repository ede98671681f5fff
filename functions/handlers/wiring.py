"""The composition root: the collaborators of each function, made once for each process."""

import functools
import gc
import time

from functions.adapters.bookings import DynamoBookingIndex, DynamoBookingTable
from functions.adapters.clients import client
from functions.adapters.journal import DynamoJournal
from functions.adapters.leases import DynamoLeases
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import LedgerTable
from functions.adapters.notifier import SnsNotifier
from functions.adapters.parameters import SsmParameters
from functions.adapters.pieces import DynamoPieces
from functions.adapters.repairs import DynamoRepairs
from functions.adapters.reports import S3Reports, S3TaskObjects
from functions.adapters.staging import S3Staging
from functions.adapters.task_data import S3TaskData
from functions.adapters.task_queues import SqsTaskQueues
from functions.domain.booking import Route
from functions.domain.flags import GROUPING, PAGE_SIZE, PAGINATION_ENABLED, SET_ASIDE_LIMIT, STOP, is_clear_true
from functions.domain.run import Deployment
from functions.settings import (
    ApprovalSettings,
    BookingSettings,
    DispatchSettings,
    LedgerSettings,
    NotifierSettings,
    ParameterSettings,
    ReconcileSettings,
    RedoSettings,
    ReportSettings,
    StagingSettings,
    TableSettings,
    load,
)
from functions.usecases.pieces import Recorder
from functions.usecases.ports import Dispatch


@functools.cache
def parameters() -> SsmParameters:
    """Of the functions that plan a run or a comparison."""
    settings = load(ParameterSettings)
    names = {
        PAGINATION_ENABLED: settings.pagination_enabled_parameter,
        PAGE_SIZE: settings.page_size_parameter,
        GROUPING: settings.grouping_parameter,
        SET_ASIDE_LIMIT: settings.set_aside_limit_parameter,
    }
    return SsmParameters(client("ssm"), names)


@functools.cache
def deployment() -> Deployment:
    """What the deployment fixes for all its runs."""
    settings = load(ParameterSettings)
    return Deployment(settings.booking_shards, settings.lane_concurrency, settings.page_budget)


@functools.cache
def ledger_table() -> LedgerTable:
    """Of every function but the first."""
    return LedgerTable(client("dynamodb"), load(LedgerSettings).ledger_table_name, time.time)


def leases() -> DynamoLeases:
    """Of the functions that take and give back leases."""
    return DynamoLeases(ledger_table())


def journal() -> DynamoJournal:
    """Of the functions that begin and end runs."""
    return DynamoJournal(ledger_table())


@functools.cache
def notifier() -> SnsNotifier:
    """Of the functions that tell of a failure."""
    return SnsNotifier(client("sns"), load(NotifierSettings).alarm_topic_arn)


@functools.cache
def staging() -> S3Staging:
    """Of the functions that stage records, merge them or delete them."""
    return S3Staging(client("s3"), load(StagingSettings).task_data_bucket_name)


def bookings() -> DynamoBookingIndex:
    """Of the functions that read bookings."""
    settings = load(BookingSettings)
    return DynamoBookingIndex(
        client("dynamodb"),
        settings.booking_table_name,
        settings.booking_index_name,
        settings.booking_key_attributes,
        settings.booking_date_attribute,
        settings.booking_shards,
    )


def booking_table() -> DynamoBookingTable:
    """Of the function that looks through the bookings table."""
    settings = load(TableSettings)
    return DynamoBookingTable(
        client("dynamodb"),
        settings.booking_table_name,
        settings.booking_key_attributes,
        settings.booking_date_attribute,
    )


def ledger() -> DynamoLedger:
    """Of the functions that read or write plans."""
    return DynamoLedger(ledger_table(), S3TaskData(client("s3"), load(StagingSettings).task_data_bucket_name))


def recorder() -> Recorder:
    """Of the functions that do a reconcile's pieces."""
    return Recorder(DynamoPieces(ledger_table()), staging())


def task_objects() -> S3TaskObjects:
    """Of the function that lists the window's task data."""
    return S3TaskObjects(client("s3"), load(StagingSettings).task_data_bucket_name)


def reports() -> S3Reports:
    """Of the functions that write reports, or read them."""
    return S3Reports(client("s3"), load(StagingSettings).task_data_bucket_name)


@functools.cache
def reconcile_settings() -> ReconcileSettings:
    """Of the function that plans a reconcile."""
    return load(ReconcileSettings)


@functools.cache
def report_settings() -> ReportSettings:
    """Of the functions that write reports."""
    return load(ReportSettings)


def repairs() -> DynamoRepairs:
    """Of the functions that ask for an approval, or keep what a redo did."""
    return DynamoRepairs(ledger_table())


@functools.cache
def redo_settings() -> RedoSettings:
    """Of the function that plans a redo."""
    return load(RedoSettings)


@functools.cache
def approval_settings() -> ApprovalSettings:
    """Of the function that counts what a redo would dispatch."""
    return load(ApprovalSettings)


@functools.cache
def dispatch() -> Dispatch:
    """Of the functions that read bookings or dispatch them.

    What there is by then stays as long as the process does, most of it botocore's, so the collector need not go
    through it again: that would stop every few pages for as long as it takes to read ten of them.
    """
    settings = load(DispatchSettings)
    bucket = settings.task_data_bucket_name
    task_data = S3TaskData(client("s3"), bucket, settings.task_data_layout)
    switch = SsmParameters(client("ssm"), {STOP: settings.stop_parameter})
    urls = {Route.POINT: settings.point_task_queue_url, Route.COUPON: settings.coupon_task_queue_url}
    made = Dispatch(
        bookings=bookings(),
        ledger=ledger(),
        task_data=task_data,
        task_queues=SqsTaskQueues(client("sqs"), urls, bucket),
        staging=staging(),
        stop=lambda: is_clear_true(switch.read().get(STOP, "")),
        clock=time.time,
    )
    gc.freeze()
    return made
