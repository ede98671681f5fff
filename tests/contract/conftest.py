"""The engines, the product's own clients on them, and fresh tables, buckets and queues for each test."""

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest

from functions.adapters import multipart
from functions.adapters.bookings import DynamoBookingIndex, DynamoBookingTable
from functions.adapters.clients import client
from functions.adapters.journal import DynamoJournal
from functions.adapters.ledger import DynamoLedger
from functions.adapters.ledger_table import LedgerTable
from functions.adapters.task_data import S3TaskData
from functions.adapters.task_queues import SqsTaskQueues
from functions.domain.booking import Route
from functions.domain.cursor import DATE_ATTRIBUTE, TIME_ATTRIBUTE
from tests import engines
from tests.contract.staged import INDEX, Clock, MakeIndex, MakeTable, fresh
from tools.emulator import access


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with engines.ministack(tmp_path_factory.mktemp("ministack")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def dynalite() -> Iterator[str]:
    with engines.dynalite() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    return access.session()


@pytest.fixture
def connect(session: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Point the product's clients, made anew, at an endpoint; nothing of the caller's AWS settings is seen."""

    def point_at(endpoint: str) -> None:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", session)
        client.cache_clear()

    yield point_at
    client.cache_clear()


@pytest.fixture
def aws(ministack: str, connect: Callable[[str], None]) -> Callable[[str], Any]:
    """The product's client of a service, on ministack."""
    connect(ministack)
    return client


@pytest.fixture(params=["ministack", "dynalite"])
def engine(request: pytest.FixtureRequest) -> str:
    """The engines of DynamoDB, one after the other."""
    name: str = request.param
    return name


@pytest.fixture
def dynamodb(engine: str, request: pytest.FixtureRequest, connect: Callable[[str], None]) -> Any:
    """The product's client of DynamoDB, on each of the engines."""
    connect(request.getfixturevalue(engine))
    return client("dynamodb")


@pytest.fixture
def make_index() -> MakeIndex:
    """Create an empty bookings table with the given primary key, `{name: type}`, and its index."""

    def make(dynamodb: Any, date_attribute: str = DATE_ATTRIBUTE, **key: str) -> DynamoBookingIndex:
        key = key or {"RecordId": "S"}
        index_key = (date_attribute, TIME_ATTRIBUTE)
        name = fresh("bookings")
        _create_table(
            dynamodb,
            name,
            {**key, **dict.fromkeys(index_key, "S")},
            tuple(key),
            GlobalSecondaryIndexes=[
                {"IndexName": INDEX, "KeySchema": _schema(index_key), "Projection": {"ProjectionType": "ALL"}}
            ],
        )
        return DynamoBookingIndex(dynamodb, name, INDEX, tuple(key), date_attribute)

    return make


@pytest.fixture
def make_table() -> MakeTable:
    """Create an empty bookings table with the given primary key, `{name: type}`, and without an index."""

    def make(dynamodb: Any, **key: str) -> DynamoBookingTable:
        key = key or {"RecordId": "S"}
        name = fresh("bookings")
        _create_table(dynamodb, name, key, tuple(key))
        return DynamoBookingTable(dynamodb, name, tuple(key))

    return make


@pytest.fixture
def bucket(aws: Callable[[str], Any]) -> str:
    name = fresh("task-data")
    aws("s3").create_bucket(Bucket=name)
    return name


@pytest.fixture
def task_data(aws: Callable[[str], Any], bucket: str) -> S3TaskData:
    return S3TaskData(aws("s3"), bucket)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> int:
    """The size of a part, far below S3's own minimum, which the engine does not hold to."""
    monkeypatch.setattr(multipart, "PART_BYTES", 10_000)
    return 10_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(aws: Callable[[str], Any], task_data: S3TaskData, clock: Clock) -> DynamoLedger:
    """The ledger on a fresh table, by a staged clock."""
    name = fresh("ledger")
    _create_table(aws("dynamodb"), name, {"Pk": "S", "Sk": "S"}, ("Pk", "Sk"))
    return DynamoLedger(LedgerTable(aws("dynamodb"), name, clock), task_data)


@pytest.fixture
def journal(ledger: DynamoLedger) -> DynamoJournal:
    """The journal in the ledger's table."""
    return DynamoJournal(ledger.table)


@pytest.fixture
def queues(aws: Callable[[str], Any], bucket: str) -> SqsTaskQueues:
    """Two empty FIFO queues in high-throughput mode, which still have SQS's old limit of 256 KiB."""
    attributes = {
        "FifoQueue": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
        "MaximumMessageSize": "262144",
    }
    urls = {
        route: aws("sqs").create_queue(QueueName=f"{fresh(route.name)}.fifo", Attributes=attributes)["QueueUrl"]
        for route in Route
    }
    return SqsTaskQueues(aws("sqs"), urls, bucket)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every pause before another attempt, noted instead of waited for."""
    noted: list[float] = []
    monkeypatch.setattr(time, "sleep", noted.append)
    return noted


def _create_table(dynamodb: Any, name: str, types: dict[str, str], key: tuple[str, ...], **indexes: Any) -> None:
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": kind} for each, kind in types.items()],
        KeySchema=_schema(key),
        **indexes,
    )
    for _ in range(250):
        if dynamodb.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE":
            return
        time.sleep(0.02)
    pytest.fail(f"{name} is not there in time")


def _schema(key: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(key, ("HASH", "RANGE"), strict=False)]
