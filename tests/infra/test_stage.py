"""The settings of a deployment, as they come from the CDK context."""

from typing import Any

import pytest

from functions.domain.pack import Layout
from infra.stage import STAGES, ExistingBookings, SettingError, Stage

TABLE = {"bookingTableName": "T", "bookingIndexName": "I", "bookingKeyAttributes": ["A"]}


def stage(**context: Any) -> Stage:
    return Stage.from_context(context.get)


def test_without_any_setting_it_is_the_sandbox() -> None:
    assert stage() == STAGES["Sandbox"]


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^stage: 'Prod' is none of Local, Sandbox, Production\.$"):
        stage(stage="Prod")


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        (["A"], ("A",)),
        (["A", "B"], ("A", "B")),
        ('["A"]', ("A",)),
        ('["A", "B"]', ("A", "B")),
    ],
)
def test_a_table_has_one_or_two_key_attributes_as_a_list_or_as_its_text(
    given: Any, attributes: tuple[str, ...]
) -> None:
    assert stage(**TABLE | {"bookingKeyAttributes": given}).existing_bookings == ExistingBookings(
        table_name="T", index_name="I", key_attributes=attributes
    )


@pytest.mark.parametrize(
    "given", [[], ["A", "B", "C"], ["A", "A"], ["A", ""], ["A", 1], {"A": "S"}, 7, "A", "[", '"A"', "[1]", "{}"]
)
def test_any_other_list_of_key_attributes_is_refused_by_name(given: Any) -> None:
    with pytest.raises(SettingError, match=r"^bookingKeyAttributes: "):
        stage(**TABLE | {"bookingKeyAttributes": given})


@pytest.mark.parametrize("missing", TABLE)
def test_a_table_is_imported_by_all_its_settings_or_not_at_all(missing: str) -> None:
    with pytest.raises(SettingError, match=rf"^{missing}: needed to import a table"):
        stage(**{name: value for name, value in TABLE.items() if name != missing})


@pytest.mark.parametrize("name", ["bookingTableName", "bookingIndexName"])
def test_a_name_is_text(name: str) -> None:
    with pytest.raises(SettingError, match=rf"^{name}: 5 is no text\.$"):
        stage(**TABLE | {name: 5})


def test_production_never_runs_on_a_table_of_its_own_making() -> None:
    with pytest.raises(SettingError, match=r"^bookingTableName: stage Production "):
        stage(stage="Production")
    assert stage(stage="Production", **TABLE).existing_bookings is not None


@pytest.mark.parametrize(("given", "days"), [(None, None), (214, 214), ("400", 400)])
def test_task_objects_may_be_given_an_age(given: Any, days: int | None) -> None:
    assert stage(taskExpiryDays=given).task_expiry_days == days


@pytest.mark.parametrize("given", [213, 0, -1, "213", "", "soon", 214.5, True, [214]])
def test_an_age_below_what_a_plan_and_a_queue_can_wait_is_refused(given: Any) -> None:
    with pytest.raises(SettingError, match=r"^taskExpiryDays: .* from 214 on\.$"):
        stage(taskExpiryDays=given)


@pytest.mark.parametrize(
    ("given", "traced"), [(None, False), (False, False), ("false", False), (True, True), ("true", True)]
)
def test_tracing_is_off_unless_set(given: Any, traced: bool) -> None:  # noqa: FBT001 -- a parameter of the case
    assert stage(tracing=given).traced is traced


@pytest.mark.parametrize("given", ["yes", "", 1, "True"])
def test_tracing_is_true_or_false(given: Any) -> None:
    with pytest.raises(SettingError, match=r"^tracing: .* is neither true nor false\.$"):
        stage(tracing=given)


NUMBERS = {
    "bookingShards": ("booking_shards", 0, 0, 64),
    "laneConcurrency": ("lane_concurrency", 8, 1, 40),
    "pageBudget": ("page_budget", 2000, 1, 3000),
    "redoWithoutApproval": ("redo_without_approval", 0, 0, 10),
    "stillWaitingHours": ("still_waiting_hours", 24, 1, 2400),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_has_its_default_and_may_come_as_text(name: str) -> None:
    field, default, least, most = NUMBERS[name]
    assert getattr(stage(), field) == default
    for number in (least, most):
        assert getattr(stage(**{name: number}), field) == getattr(stage(**{name: str(number)}), field) == number


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("given", ["", "many", "1.5", "-1", "\u0663", 1.5, True, [1]])
def test_what_is_no_whole_number_is_refused_by_name(name: str, given: Any) -> None:
    with pytest.raises(SettingError, match=rf"^{name}: .* is no whole number from \d+ to \d+\.$"):
        stage(**{name: given})


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_out_of_its_range_is_refused(name: str) -> None:
    _, _, least, most = NUMBERS[name]
    for number in (least - 1, most + 1, str(most + 1)):
        with pytest.raises(SettingError, match=rf"^{name}: .* from {least} to {most}\.$"):
            stage(**{name: number})


@pytest.mark.parametrize(
    ("given", "layout"), [(None, Layout.OBJECT), ("object", Layout.OBJECT), ("packed", Layout.PACKED)]
)
def test_each_task_has_an_object_of_its_own_unless_they_are_packed(given: Any, layout: Layout) -> None:
    assert stage(taskDataLayout=given).task_data_layout is layout


@pytest.mark.parametrize("given", ["", "Packed", "pack", 1, True, ["packed"]])
def test_a_layout_that_is_none_is_refused(given: Any) -> None:
    with pytest.raises(SettingError, match=r"^taskDataLayout: .* is none of object, packed\.$"):
        stage(taskDataLayout=given)


def test_the_index_is_partitioned_by_the_contract_s_date_unless_another_attribute_is_named() -> None:
    assert stage().booking_date_attribute == "BookingDateUTC"
    assert stage(bookingDateAttribute="DateAndShard").booking_date_attribute == "DateAndShard"


@pytest.mark.parametrize("given", ["", 7, ["BookingDateUTC"]])
def test_an_attribute_without_a_name_is_refused(given: Any) -> None:
    with pytest.raises(SettingError, match=r"^bookingDateAttribute: .* is no name\.$"):
        stage(bookingDateAttribute=given)


def test_alarms_link_to_the_runbook_of_the_repository_unless_its_address_is_given() -> None:
    assert stage().runbook_url == "docs/operate.md"
    assert stage(runbookUrl="https://example.org/operate.md").runbook_url == "https://example.org/operate.md"


@pytest.mark.parametrize("given", ["", 7, ["docs/operate.md"]])
def test_an_empty_address_is_refused(given: Any) -> None:
    with pytest.raises(SettingError, match=r"^runbookUrl: .* is no name\.$"):
        stage(runbookUrl=given)
