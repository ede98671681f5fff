import pytest

from functions.domain import budget, errors
from functions.domain.errors import ERRORS_BY_NAME, DispatcherError, PermanentError, TransientError

PERMANENT = [
    "InvalidInput",
    "InvalidToken",
    "TokenNotAdvancing",
    "TooManyBadRecords",
    "LeaseLost",
    "WindowBusy",
    "IndexNotReady",
    "NotApproved",
    "ConfigurationError",
    "DispatchFailed",
]


@pytest.mark.parametrize("name", [*PERMANENT, "TransientError"])
def test_every_name_of_the_contract_is_an_error_of_that_class_name(name: str) -> None:
    assert ERRORS_BY_NAME[name].__name__ == name
    assert getattr(errors, name) is ERRORS_BY_NAME[name]


def test_there_is_no_other_name() -> None:
    assert sorted(ERRORS_BY_NAME) == sorted([*PERMANENT, "TransientError"])


def test_only_the_transient_error_is_worth_another_try() -> None:
    assert {name for name, kind in ERRORS_BY_NAME.items() if issubclass(kind, PermanentError)} == set(PERMANENT)
    assert not issubclass(TransientError, PermanentError)
    assert all(issubclass(kind, DispatcherError) for kind in ERRORS_BY_NAME.values())


def test_a_function_ends_before_its_task_and_a_task_before_its_lease() -> None:
    assert budget.PAGE_FUNCTION_SECONDS < budget.PAGE_TASK_SECONDS < budget.PAGE_LEASE_SECONDS
    assert budget.WINDOW_FUNCTION_SECONDS < budget.WINDOW_TASK_SECONDS < budget.WINDOW_LEASE_SECONDS
    assert budget.SMALL_FUNCTION_SECONDS < budget.SMALL_TASK_SECONDS
    assert budget.PAGE_FUNCTION_SECONDS + budget.CALL_SECONDS < budget.PAGE_LEASE_SECONDS


def test_the_longest_call_with_its_client_s_retries_ends_before_any_function_does() -> None:
    tries = budget.CALL_ATTEMPTS * (budget.CONNECT_SECONDS + budget.READ_SECONDS)

    assert tries < budget.CALL_SECONDS < budget.SMALL_FUNCTION_SECONDS < budget.PAGE_FUNCTION_SECONDS
