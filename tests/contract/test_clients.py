"""What each failure of an AWS call means, and how long the clients try."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
from aws_lambda_powertools import Metrics
from botocore import exceptions as failures
from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.clients import retries, translated
from functions.adapters.pool import THREADS, each
from functions.domain.budget import CALL_ATTEMPTS, CALL_SECONDS, PAGE_FUNCTION_SECONDS, SMALL_FUNCTION_SECONDS
from functions.domain.errors import ConfigurationError, DispatcherError, DispatchFailed, LeaseLost, TransientError
from functions.domain.run import Counts, Progress
from functions.handlers import observed
from tests.contract.staged import Step, a_run, fresh, read_timeout, refusal, stage

MEANINGS = {
    TransientError: [
        ("BandwidthLimitExceeded", 400),
        ("ConditionalRequestConflict", 409),
        ("InternalError", 500),
        ("InternalServerError", 500),
        ("LimitExceededException", 400),
        ("OperationAborted", 409),
        ("OverLimit", 403),
        ("PriorRequestNotComplete", 400),
        ("ProvisionedThroughputExceededException", 400),
        ("RequestLimitExceeded", 400),
        ("RequestThrottled", 403),
        ("RequestThrottledException", 400),
        ("RequestTimeout", 400),
        ("RequestTimeoutException", 400),
        ("RequestTimeTooSkewed", 403),
        ("ServiceUnavailable", 503),
        ("SlowDown", 503),
        ("Throttled", 429),
        ("ThrottledException", 400),
        ("Throttling", 400),
        ("ThrottlingException", 400),
        ("TooManyRequestsException", 429),
        ("TransactionConflictException", 400),
        ("TransactionInProgressException", 400),
        ("a code that nobody knows", 500),
        ("a code that nobody knows", 503),
    ],
    ConfigurationError: [
        ("AccessDenied", 403),
        ("AccessDeniedException", 400),
        ("AuthorizationError", 403),
        ("AWS.SimpleQueueService.NonExistentQueue", 400),
        ("ExpiredToken", 400),
        ("ExpiredTokenException", 400),
        ("InvalidAccessKeyId", 403),
        ("NoSuchBucket", 404),
        ("NoSuchKey", 404),
        ("NotFound", 404),
        ("QueueDoesNotExist", 400),
        ("ResourceNotFoundException", 400),
        ("UnrecognizedClientException", 400),
    ],
    DispatchFailed: [
        ("ConditionalCheckFailedException", 400),
        ("PreconditionFailed", 412),
        ("ValidationException", 400),
        ("a code that nobody knows", 400),
        ("", 0),
    ],
}


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        pytest.param(code, status, kind, id=f"{code or 'no code'} {status}")
        for kind, answers in MEANINGS.items()
        for code, status in answers
    ],
)
def test_an_error_code_says_who_acts(code: str, status: int, kind: type[DispatcherError]) -> None:
    answer = {
        "Error": {"Code": code, "Message": "secret"},
        "ResponseMetadata": {"HTTPStatusCode": status, "RequestId": "R-1"},
    }
    with pytest.raises(DispatcherError) as raised, translated("Query bookings"):
        raise ClientError(answer, "Query")  # type: ignore[arg-type]  # its stub wants every field of the metadata
    assert type(raised.value) is kind
    assert str(raised.value) == f"Query bookings: {code} (request R-1)"


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (failures.ReadTimeoutError(endpoint_url="secret"), TransientError),
        (failures.ConnectTimeoutError(endpoint_url="secret"), TransientError),
        (failures.ConnectionClosedError(endpoint_url="secret"), TransientError),
        (failures.EndpointConnectionError(endpoint_url="secret"), TransientError),
        (failures.ResponseStreamingError(error="secret"), TransientError),
        (failures.IncompleteReadError(actual_bytes=1, expected_bytes=2), TransientError),
        (failures.ParamValidationError(report="secret"), DispatchFailed),
        (failures.NoCredentialsError(), ConfigurationError),
        (failures.PartialCredentialsError(provider="secret", cred_var="secret"), ConfigurationError),
        (failures.NoRegionError(), DispatchFailed),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_a_call_without_an_answer_says_who_acts(failure: BotoCoreError, kind: type[DispatcherError]) -> None:
    with pytest.raises(DispatcherError) as raised, translated("PutObject"):
        raise failure
    assert type(raised.value) is kind
    assert str(raised.value) == f"PutObject: {type(failure).__name__}"
    assert (raised.value.__cause__, raised.value.__suppress_context__) == (None, True)


def test_our_own_errors_pass_as_they_are() -> None:
    own = LeaseLost("superseded")
    with pytest.raises(LeaseLost) as raised, translated("PutObject"):
        raise own
    assert raised.value is own


@pytest.mark.parametrize("service", ["dynamodb", "s3", "sns", "sqs", "ssm"])
def test_a_client_is_made_once_with_a_connection_for_each_thread_and_bounded_tries(
    aws: Callable[[str], Any], service: str
) -> None:
    config = aws(service).meta.config
    assert aws(service) is aws(service)
    assert config.max_pool_connections >= THREADS
    tries = config.retries["total_max_attempts"]
    assert config.retries["mode"] == "standard"
    pauses = sum(2**retry for retry in range(tries - 1))
    assert tries * (config.connect_timeout + config.read_timeout) + pauses <= CALL_SECONDS
    assert CALL_SECONDS < SMALL_FUNCTION_SECONDS < PAGE_FUNCTION_SECONDS


conflict, aborted = refusal("ConditionalRequestConflict", 409), refusal("OperationAborted", 409)
THROTTLED: Final = {
    ("dynamodb", "Query"): [
        refusal("ProvisionedThroughputExceededException"),
        refusal("ThrottlingException"),
        refusal("RequestLimitExceeded"),
    ],
    ("dynamodb", "TransactWriteItems"): [refusal("ThrottlingException"), refusal("TransactionInProgressException")],
    ("s3", "PutObject"): [refusal("SlowDown", 503), refusal("ServiceUnavailable", 503), conflict, aborted],
    ("sqs", "SendMessageBatch"): [refusal("ThrottlingException"), refusal("RequestThrottled", 403)],
    ("ssm", "GetParameters"): [refusal("ThrottlingException")],
}
CALLS: Final[Mapping[str, Callable[[Any], object]]] = {
    "Query": lambda dynamodb: dynamodb.query(TableName="t", KeyConditionExpression="a = b"),
    "TransactWriteItems": lambda dynamodb: dynamodb.transact_write_items(
        TransactItems=[{"Delete": {"TableName": "t", "Key": {"Pk": {"S": "a"}}}}]
    ),
    "PutObject": lambda s3: s3.put_object(Bucket="bucket", Key="key", Body=b""),
    "SendMessageBatch": lambda sqs: sqs.send_message_batch(QueueUrl="http://127.0.0.1/queue", Entries=[]),
    "GetParameters": lambda ssm: ssm.get_parameters(Names=["name"]),
}


def tried(client: Any, operation: str, step: Step) -> None:
    """Make a call that always meets this step."""
    requests = stage(client, operation, itertools.repeat(step))
    with pytest.raises(TransientError, match=f"^{operation}: "), translated(operation):
        CALLS[operation](client)
    assert len(requests) == CALL_ATTEMPTS


@pytest.mark.parametrize(
    ("service", "operation", "step"),
    [(*place, step) for place, steps in THROTTLED.items() for step in [*steps, read_timeout]],
)
def test_throttling_and_silence_are_backed_off_counted_and_then_transient(
    aws: Callable[[str], Any], pauses: list[float], service: str, operation: str, step: Step
) -> None:
    retries.take()
    tried(aws(service), operation, step)
    assert [0 <= pause <= limit for pause, limit in zip(pauses, (1, 2), strict=True)] == [True, True]
    assert retries.take() == CALL_ATTEMPTS - 1


def test_calls_that_go_well_or_are_refused_for_good_count_no_retry(aws: Callable[[str], Any]) -> None:
    retries.take()
    s3 = aws("s3")
    s3.list_buckets()
    with pytest.raises(ConfigurationError), translated("PutObject"):
        s3.put_object(Bucket=fresh("missing"), Key="key", Body=b"")
    assert retries.take() == 0


@pytest.mark.usefixtures("pauses")
def test_retries_of_all_clients_and_threads_are_counted_together_and_once(aws: Callable[[str], Any]) -> None:
    retries.take()
    for service, operation in (("s3", "PutObject"), ("ssm", "GetParameters")):
        tried(aws(service), operation, read_timeout)
    each(lambda _: retries.add(), range(100))
    assert retries.take() == 2 * (CALL_ATTEMPTS - 1) + 100
    assert retries.take() == 0


@pytest.mark.usefixtures("pauses")
def test_a_functions_retries_are_a_metric_of_its_call(
    aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(observed, "metrics", Metrics(namespace="BookingtimeDispatcher", service="dispatcher"))
    retries.take()
    tried(aws("s3"), "PutObject", refusal("SlowDown", 503))
    counted = []
    for _ in range(2):
        observed.report_progress(a_run(), Progress(), Progress().after(Counts(pages=1), None))
        (metrics,) = (json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line)
        counted.append(metrics["Retries"])
    assert counted == [[2.0], [0.0]]


def test_a_failure_of_making_a_piece_of_work_is_raised_when_those_begun_have_ended() -> None:
    begun, ended = threading.Event(), threading.Event()

    def work(_: int) -> None:
        begun.set()
        time.sleep(0.05)
        ended.set()

    def pieces() -> Iterator[int]:
        yield 1
        assert begun.wait(20)
        raise LookupError

    with pytest.raises(LookupError):
        each(work, pieces())
    assert ended.is_set()
