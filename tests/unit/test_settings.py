from dataclasses import fields

import pytest

from functions.domain.errors import ConfigurationError
from functions.domain.pack import Layout
from functions.settings import (
    BookingSettings,
    DispatchSettings,
    LedgerSettings,
    NotifierSettings,
    ParameterSettings,
    ReconcileSettings,
    ReportSettings,
    StagingSettings,
    load,
)

ENVIRONMENT = {
    "BOOKING_TABLE_NAME": "bookings",
    "BOOKING_INDEX_NAME": "index",
    "BOOKING_KEY_ATTRIBUTES": '["Id", "Rev"]',
    "BOOKING_DATE_ATTRIBUTE": "Date",
    "LEDGER_TABLE_NAME": "ledger",
    "TASK_DATA_BUCKET_NAME": "bucket",
    "POINT_TASK_QUEUE_URL": "https://points",
    "COUPON_TASK_QUEUE_URL": "https://coupons",
    "PAGINATION_ENABLED_PARAMETER": "/enabled",
    "PAGE_SIZE_PARAMETER": "/size",
    "GROUPING_PARAMETER": "/grouping",
    "SET_ASIDE_LIMIT_PARAMETER": "/limit",
    "BOOKING_SHARDS": "0",
    "LANE_CONCURRENCY": "8",
    "PAGE_BUDGET": "2000",
    "STOP_PARAMETER": "/stop",
    "ALARM_TOPIC_ARN": "arn:topic",
    "STILL_WAITING_HOURS": "24",
    "STACK_NAME": "stack",
    "TASK_DATA_LAYOUT": "packed",
}
KINDS = [
    ParameterSettings,
    LedgerSettings,
    NotifierSettings,
    StagingSettings,
    BookingSettings,
    DispatchSettings,
    ReconcileSettings,
    ReportSettings,
]
VARIABLES = [
    pytest.param(kind, field.name.upper(), id=f"{kind.__name__}.{field.name.upper()}")
    for kind in KINDS
    for field in fields(kind)
]


def test_settings_are_read_of_the_variables_of_their_names() -> None:
    settings = load(DispatchSettings, ENVIRONMENT)

    assert settings.booking_key_attributes == ("Id", "Rev")
    assert settings.coupon_task_queue_url == "https://coupons"
    assert settings.task_data_layout is Layout.PACKED
    assert load(LedgerSettings, ENVIRONMENT) == LedgerSettings("ledger")
    assert load(NotifierSettings, ENVIRONMENT) == NotifierSettings("arn:topic")
    assert load(ParameterSettings, ENVIRONMENT).set_aside_limit_parameter == "/limit"
    assert load(ParameterSettings, ENVIRONMENT).page_budget == 2000


@pytest.mark.parametrize(("kind", "variable"), VARIABLES)
@pytest.mark.parametrize("value", [None, ""], ids=["missing", "empty"])
def test_a_missing_variable_is_named(kind: type[object], variable: str, value: str | None) -> None:
    environment = {name: text for name, text in ENVIRONMENT.items() if name != variable}
    if value is not None:
        environment[variable] = value

    with pytest.raises(ConfigurationError, match=f"^environment variable {variable} is missing$"):
        load(kind, environment)


@pytest.mark.parametrize("text", ["RecordId", '"RecordId"', "[]", "[1]", '[""]', '["Id", null]', "{}", "null"])
def test_key_attributes_that_are_no_list_of_names_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="BOOKING_KEY_ATTRIBUTES is no JSON list of names"):
        load(DispatchSettings, {**ENVIRONMENT, "BOOKING_KEY_ATTRIBUTES": text})


@pytest.mark.parametrize("text", ["many", "-1", "1.5", "\u0661", " 8"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="environment variable PAGE_BUDGET is no whole number"):
        load(ParameterSettings, {**ENVIRONMENT, "PAGE_BUDGET": text})


@pytest.mark.parametrize("text", ["pack", "Packed", "OBJECT", " object"])
def test_a_layout_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^environment variable TASK_DATA_LAYOUT is none of object, packed$"):
        load(DispatchSettings, {**ENVIRONMENT, "TASK_DATA_LAYOUT": text})


def test_a_function_reads_nothing_else_of_its_environment() -> None:
    assert load(LedgerSettings, {"LEDGER_TABLE_NAME": "ledger"}) == LedgerSettings("ledger")
