"""The AWS clients: made once for each process, shared by its threads, with explicit time limits."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as ConnectionFailed

from functions.adapters.pool import THREADS
from functions.domain.budget import CALL_ATTEMPTS, CONNECT_SECONDS, READ_SECONDS
from functions.domain.errors import ConfigurationError, DispatcherError, DispatchFailed, TransientError

_CONFIG: Final = Config(
    connect_timeout=CONNECT_SECONDS,
    read_timeout=READ_SECONDS,
    retries={"mode": "standard", "total_max_attempts": CALL_ATTEMPTS},
    max_pool_connections=THREADS,
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
    tcp_keepalive=True,
)

_TRANSIENT_CODES: Final = frozenset(
    {
        "ConditionalRequestConflict",
        "InternalError",
        "InternalServerError",
        "LimitExceededException",
        "OperationAborted",
        "OverLimit",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "RequestTimeTooSkewed",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_CONFIGURATION_CODES: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AWS.SimpleQueueService.NonExistentQueue",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "NoSuchBucket",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
        "UnrecognizedClientException",
    }
)
_SERVER_ERROR: Final = 500


@functools.cache
def client(service: str) -> Any:
    """The process's client of a service; the endpoint comes from `AWS_ENDPOINT_URL` where that is set."""
    create: Callable[..., Any] = boto3.client
    return create(service, config=_CONFIG)


@contextmanager
def translated(operation: str) -> Iterator[None]:
    """Turn whatever an AWS call raises into one of our error names; our own errors pass.

    The message holds the operation, AWS's code and the request id only: botocore's own texts may quote values.
    """
    try:
        yield
    except DispatcherError:
        raise
    except ClientError as error:
        raise kind_of(error)(f"{operation}: {describe(error)}") from None
    except (ConnectionFailed, HTTPClientError, IncompleteReadError) as error:
        raise TransientError(f"{operation}: {type(error).__name__}") from None
    except BotoCoreError as error:
        raise DispatchFailed(f"{operation}: {type(error).__name__}") from None


def kind_of(error: ClientError) -> type[DispatcherError]:
    """Who acts on this answer of AWS."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = code_of(error)
    if code in _TRANSIENT_CODES or status >= _SERVER_ERROR:
        return TransientError
    if code in _CONFIGURATION_CODES:
        return ConfigurationError
    return DispatchFailed


def code_of(error: ClientError) -> str:
    """AWS's error code."""
    return str(error.response.get("Error", {}).get("Code", ""))


def describe(error: ClientError) -> str:
    """AWS's code and request id, to find the call by."""
    request_id = error.response.get("ResponseMetadata", {}).get("RequestId", "unknown")
    return f"{code_of(error)} (request {request_id})"
