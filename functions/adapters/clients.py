"""The AWS clients: made once for each process, shared by its threads, with explicit time limits."""

import functools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as ConnectionFailed

from functions.adapters.pool import THREADS
from functions.adapters.tuning import tune
from functions.domain.budget import CALL_ATTEMPTS, CONNECT_SECONDS, READ_SECONDS
from functions.domain.errors import ConfigurationError, DispatcherError, DispatchFailed, TransientError

_CONFIG: Final = Config(
    connect_timeout=CONNECT_SECONDS,
    read_timeout=READ_SECONDS,
    retries={"mode": "standard", "total_max_attempts": CALL_ATTEMPTS},
    max_pool_connections=THREADS,
    parameter_validation=False,  # a tenth of a call; AWS validates what our own code gives
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
    tcp_keepalive=True,
)

_TRANSIENT_CODES: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "ConditionalRequestConflict",
        "InternalError",
        "InternalServerError",
        "LimitExceededException",
        "OperationAborted",
        "OverLimit",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "RequestTimeoutException",
        "RequestTimeTooSkewed",
        "ServiceUnavailable",
        "SlowDown",
        "Throttled",
        "ThrottledException",
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
        "AuthorizationError",
        "AWS.SimpleQueueService.NonExistentQueue",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "NoSuchBucket",
        "NoSuchKey",
        "NotFound",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
        "UnrecognizedClientException",
    }
)
_CONFLICT: Final = 409
_SERVER_ERROR: Final = 500


class Retries:
    """How often calls were made again: by the clients themselves, and by the adapters for what a batch left over."""

    def __init__(self) -> None:
        self._count = 0
        self._counting = threading.Lock()

    def add(self) -> None:
        """Count one; from any thread."""
        with self._counting:
            self._count += 1

    def take(self) -> int:
        """What was counted since this was last asked."""
        with self._counting:
            count, self._count = self._count, 0
        return count


retries: Final = Retries()
"""Of this process."""


@functools.cache
def client(service: str) -> Any:
    """The process's client of a service; the endpoint comes from `AWS_ENDPOINT_URL` where that is set."""
    create: Callable[..., Any] = boto3.client
    made = create(service, config=_CONFIG)
    made.meta.events.register("needs-retry", _pause_before_next)
    tune(made)
    return made


def _pause_before_next(attempts: int, response: tuple[Any, Any] | None, **_: Any) -> float | None:
    """Asked after every attempt: count it, and let a conflict be tried again, which botocore itself never does.

    What is due after any other answer, botocore's own handler says.
    """
    if attempts > 1:
        retries.add()
    if attempts < CALL_ATTEMPTS and response is not None and response[0].status_code == _CONFLICT:
        return random.uniform(0, 2 ** (attempts - 1))  # noqa: S311 -- jitter is no secret
    return None


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
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise ConfigurationError(f"{operation}: {type(error).__name__}") from None
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
