"""The flags are read fresh, in one call, and only a parameter that is not there counts as missing."""

from collections.abc import Callable
from typing import Any

import pytest

from functions.adapters.parameters import SsmParameters
from functions.domain.errors import ConfigurationError, DispatcherError, TransientError
from tests.contract.staged import Step, calls_of, fresh, read_timeout, refusal, stage


@pytest.fixture
def parameters(aws: Callable[[str], Any]) -> SsmParameters:
    """Two flags; only the page size has a parameter."""
    names = {"PageSize": fresh("/page-size"), "Grouping": fresh("/grouping")}
    aws("ssm").put_parameter(Name=names["PageSize"], Value=" 250 ", Type="String")
    return SsmParameters(aws("ssm"), names)


def test_the_values_come_as_they_are_and_a_missing_parameter_is_absent(parameters: SsmParameters) -> None:
    calls = calls_of(parameters.client)
    assert parameters.read() == {"PageSize": " 250 "}
    assert [call.operation for call in calls] == ["GetParameters"]


def test_a_changed_parameter_is_seen_by_the_next_run(parameters: SsmParameters) -> None:
    parameters.read()
    for value, flag in (("7", "PageSize"), ("window", "Grouping")):
        parameters.client.put_parameter(Name=parameters.names[flag], Value=value, Type="String", Overwrite=True)
    assert parameters.read() == {"PageSize": "7", "Grouping": "window"}


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(refusal("ThrottlingException"), TransientError, id="throttled"),
        pytest.param(refusal("InternalServerError", 500), TransientError, id="unavailable"),
        pytest.param(read_timeout, TransientError, id="no answer in time"),
        pytest.param(refusal("AccessDeniedException"), ConfigurationError, id="no right to read"),
    ],
)
@pytest.mark.usefixtures("pauses")
def test_a_failed_call_is_never_taken_for_missing_parameters(
    parameters: SsmParameters, step: Step, kind: type[DispatcherError]
) -> None:
    stage(parameters.client, "GetParameters", [step] * 3)
    with pytest.raises(DispatcherError, match=r"^GetParameters: ") as raised:
        parameters.read()
    assert type(raised.value) is kind
