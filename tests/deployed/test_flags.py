"""The flags in the parameter store, as a run reads them."""

import pytest

from tests.deployed.application import Application, Day, everywhere
from tests.deployed.wire import Call, Fault

DRY = {"ExecuteTime": "2030-01-01T16:01:10Z", "DryRun": True}


@pytest.mark.parametrize(
    ("value", "path"),
    [("true", "paged"), (" TRUE ", "paged"), ("false", "full"), ("1", "full"), ("yes", "full"), (None, "full")],
)
def test_only_a_clear_true_takes_the_paged_path(application: Application, value: str | None, path: str) -> None:
    with application.parameter("PaginationEnabledParameter", value):
        assert application.run(DRY).output["Path"] == path


@pytest.mark.parametrize(
    ("value", "size"), [("2", 2), ("0", 1000), ("many", 1000), ("999999", 10_000), (None, 1000)], ids=str
)
def test_the_page_size_is_the_parameters_or_its_default(application: Application, value: str | None, size: int) -> None:
    with application.parameter("PageSizeParameter", value):
        assert application.run(DRY).output["PageSize"] == size


def test_the_switch_at_false_dispatches_by_the_full_path_and_the_input_overrides_it(
    application: Application, day: Day
) -> None:
    day.book("R1", "08:10:00Z")
    day.book("R2", "10:10:00Z")
    with application.parameter("PaginationEnabledParameter", "false"):
        full, paged = day.run(8).output, day.run(10, PaginationEnabled=True).output

    assert (full["Path"], paged["Path"]) == ("full", "paged")
    assert day.effects(8) == everywhere("R1")
    assert day.effects(10) == everywhere("R2")


def test_flags_that_change_during_a_run_do_not_change_the_run(application: Application, day: Day) -> None:
    for name in ("R1", "R2", "R3"):
        day.book(name, "08:10:00Z")

    def change_the_flags(call: Call) -> Fault | None:
        if application.is_query_of_bookings(call):
            application.set_parameter("PaginationEnabledParameter", "false")
            application.set_parameter("PageSizeParameter", "3")
        return None

    with (
        application.parameter("PageSizeParameter", "1"),
        application.parameter("PaginationEnabledParameter", "true"),
        application.wire.recording() as calls,
        application.wire.reacting(change_the_flags),
    ):
        output = day.run(8).output

    limits = [call.request["Limit"] for call in calls if application.is_query_of_bookings(call)]
    assert limits == [1, 1, 1, 1]
    assert output.items() >= {"Path": "paged", "PageSize": 1, "Pages": 4, "Tasks": 3}.items()
