"""What each failure of an AWS call means, and how long the clients try."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore import exceptions as failures
from botocore.exceptions import BotoCoreError, ClientError

from functions.adapters.clients import translated
from functions.adapters.pool import THREADS
from functions.domain.budget import BATCH_SECONDS, PAGE_FUNCTION_SECONDS, SMALL_FUNCTION_SECONDS
from functions.domain.errors import ConfigurationError, DispatcherError, DispatchFailed, LeaseLost, TransientError

MEANINGS = {
    TransientError: [
        ("ConditionalRequestConflict", 409),
        ("InternalError", 500),
        ("InternalServerError", 500),
        ("LimitExceededException", 400),
        ("OperationAborted", 409),
        ("OverLimit", 403),
        ("ProvisionedThroughputExceededException", 400),
        ("RequestLimitExceeded", 400),
        ("RequestThrottled", 403),
        ("RequestTimeout", 400),
        ("RequestTimeTooSkewed", 403),
        ("ServiceUnavailable", 503),
        ("SlowDown", 503),
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
        ("AWS.SimpleQueueService.NonExistentQueue", 400),
        ("ExpiredToken", 400),
        ("InvalidAccessKeyId", 403),
        ("NoSuchBucket", 404),
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
        (failures.NoCredentialsError(), DispatchFailed),
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


@pytest.mark.parametrize("service", ["dynamodb", "s3", "sqs", "ssm"])
def test_a_client_is_made_once_with_a_connection_for_each_thread_and_bounded_tries(
    aws: Callable[[str], Any], service: str
) -> None:
    config = aws(service).meta.config
    assert aws(service) is aws(service)
    assert config.max_pool_connections >= THREADS
    tries = config.retries["total_max_attempts"]
    assert config.retries["mode"] == "standard"
    pauses = sum(2**retry for retry in range(tries - 1))
    assert tries * (config.connect_timeout + config.read_timeout) + pauses <= BATCH_SECONDS
    assert BATCH_SECONDS < SMALL_FUNCTION_SECONDS < PAGE_FUNCTION_SECONDS
