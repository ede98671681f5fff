"""A comparison by the deployed application: what paging would change, and that nothing is dispatched for it."""

import json

import pytest

from functions.domain.report import checksum_of
from functions.usecases.report_contract import CompareReport
from tests.deployed.application import COMPARING, NOWHERE, Application, Day

GROUPS = 10
HOUR = {"Groups": GROUPS, "Records": 4 * GROUPS, "LargestGroup": 4}
NONE = dict.fromkeys(("OnlyInFull", "OnlyInOther", "Split", "OrderDiffers", "BodyDiffers"), 0)


@pytest.fixture
def day(application: Application) -> Day:
    """Forty bookings, of each group every tenth: what is booked later was ordered earlier."""
    day = application.past_day()
    for number in range(4 * GROUPS):
        day.book(
            f"R{number}",
            f"08:{number:02}:00Z",
            str(number % GROUPS),
            RewardType="ECoupon" if number % 5 == 0 else "Point",
            OrderTime=f"2020-12-24T08:{59 - number}:00Z",
        )
    return day


def test_pages_split_every_group_the_grouped_path_equals_the_full_one_and_nothing_is_dispatched(day: Day) -> None:
    application = day.application
    ledger = application.ledger_partitions()

    with application.wire.recording() as calls:
        execution = application.run(day.input(8, PageSize=15), "Compare")

    assert execution.status == "SUCCEEDED", execution
    place = execution.output["Report"]
    paths = {
        "Full": {**HOUR, "Tasks": 10, "MostParts": 1},
        "Paged": {**HOUR, "Tasks": 30, "MostParts": 3, "Differences": {**NONE, "Split": 10, "OrderDiffers": 10}},
        "Grouped": {**HOUR, "Tasks": 10, "MostParts": 1, "Differences": NONE},
    }
    assert execution.output == {
        "Outcome": "Differences",
        "WindowStart": day.window(8),
        "WindowEnd": day.window(9),
        **paths,
        "Gate": "Passed",
        "Report": {"Bucket": application.outputs["TaskDataBucketName"], "Key": place["Key"]},
    }
    report = json.loads(application.content(place["Key"]))
    CompareReport.model_validate(report)
    assert report["Sha256"] == checksum_of(report)
    assert report.items() >= paths.items()
    assert report["Coverage"] == {"Pages": 3, "Evaluated": 40, "Waiting": 40, "SetAside": 0}

    assert {call.function for call in calls} == {*COMPARING}
    assert {call.operation for call in calls} == {"GetParameters", "Query", "PutObject"}
    assert [call.request["Key"] for call in calls if call.operation == "PutObject"] == [place["Key"]]
    assert application.keys(f"reports/{day.date}/08/") == [place["Key"]]
    assert day.effects(8) == NOWHERE
    assert application.ledger_partitions() == ledger


def test_an_hour_on_one_page_is_equal_on_all_paths_also_once_it_was_dispatched(day: Day) -> None:
    assert day.run(8).output["Tasks"] == GROUPS
    effects = day.effects(8)

    execution = day.application.run(day.input(8), "Compare")

    assert (execution.output["Outcome"], execution.output["Gate"]) == ("Equal", "Passed")
    assert day.effects(8) == effects
