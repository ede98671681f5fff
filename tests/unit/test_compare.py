"""The comparison of the paths: each class where it shows, the gate, and what must hold of every hour."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.booking import Group, RecordVersion, Route
from functions.domain.compare import Difference, Parts, Sketch, compared, parts_of
from functions.domain.compare_report import Verdict, report_of
from functions.domain.errors import InvalidInput
from functions.domain.report import SAMPLES, checksum_of
from functions.domain.run import Counts, Deployment, Path, Run
from functions.domain.values import Item
from functions.domain.window import Instant
from functions.usecases.compare_paths import compare_paths
from functions.usecases.plan_compare import plan_compare
from tests.unit.fakes import DAY, FakeParameters, World, a_run, booking, window, worked_example
from tests.unit.reconciling import STACK, FakeReports

GROUP = Group("1", "2", "3")
NONE = dict.fromkeys((kind.value for kind in Difference), 0)
EXECUTION = {"Name": "compare", "StartTime": "2026-09-17T18:30:05.123Z"}


def version(record_id: str) -> RecordVersion:
    return RecordVersion(f'{{"RecordId":"{record_id}"}}', DAY, "15:10:00Z")


def sketch(*records: tuple[str, int], body: bytes = b"", group: Group = GROUP, route: Route = Route.POINT) -> Sketch:
    """A task of records with their OrderTimes."""
    names = ",".join(sorted(name for name, _ in records))
    times = tuple(Instant(second, 0) for _, second in records)
    return Sketch(f"{group.text}{route}{names}", group, route, tuple(version(name) for name, _ in records), times, body)


def differences(*other: Sketch, full: tuple[Sketch, ...]) -> dict[str, int]:
    found = compared(parts_of(full), parts_of(other))
    return {kind: count for kind, count in found.counts.items() if count}


@pytest.mark.parametrize(
    ("full", "other", "found"),
    [
        pytest.param([sketch(("A", 1), ("B", 2))], [sketch(("A", 1), ("B", 2))], {}, id="equal"),
        pytest.param([sketch(("A", 1), ("B", 2))], [sketch(("A", 1))], {"OnlyInFull": 1}, id="a record is lost"),
        pytest.param([sketch(("A", 1))], [], {"OnlyInFull": 1}, id="a group is lost"),
        pytest.param([sketch(("A", 1))], [sketch(("A", 1), ("B", 2))], {"OnlyInOther": 1}, id="a record is new"),
        pytest.param(
            [sketch(("A", 1))],
            [sketch(("A", 1)), sketch(("A", 1))],
            {"OnlyInOther": 1, "Split": 1},
            id="a record is dispatched twice",
        ),
        pytest.param(
            [sketch(("A", 1))],
            [sketch(("A", 1), route=Route.COUPON)],
            {"OnlyInFull": 1, "OnlyInOther": 1},
            id="on another route",
        ),
        pytest.param(
            [sketch(("A", 1), ("B", 2))], [sketch(("A", 1)), sketch(("B", 2))], {"Split": 1}, id="split, in order"
        ),
        pytest.param(
            [sketch(("A", 1), ("B", 2))],
            [sketch(("B", 2)), sketch(("A", 1))],
            {"Split": 1, "OrderDiffers": 1},
            id="split, out of order",
        ),
        pytest.param(
            [sketch(("A", 1), ("B", 1))], [sketch(("B", 1)), sketch(("A", 1))], {"Split": 1}, id="split at one time"
        ),
        pytest.param(
            [sketch(("A", 1), ("B", 2))],
            [sketch(("B", 2), ("A", 1), body=b"other")],
            {"OrderDiffers": 1, "BodyDiffers": 1},
            id="out of order within a task",
        ),
        pytest.param([sketch(("A", 1))], [sketch(("A", 1), body=b"other")], {"BodyDiffers": 1}, id="another body"),
    ],
)
def test_a_difference_is_counted_in_its_class(full: list[Sketch], other: list[Sketch], found: dict[str, int]) -> None:
    assert differences(*other, full=tuple(full)) == found


def test_groups_and_routes_are_ordered_each_for_itself() -> None:
    other = Group("1", "9", "3")
    tasks = sketch(("A", 5)), sketch(("B", 1), route=Route.COUPON), sketch(("C", 2), group=other)

    assert differences(*tasks, full=tasks) == {}


def test_a_sample_is_the_record_where_the_difference_shows_and_there_are_at_most_a_hundred() -> None:
    whole = sketch(("A", 1), ("B", 3), ("C", 2))
    found = compared(parts_of([whole]), parts_of([sketch(("A", 1), ("B", 3)), sketch(("C", 2))]))
    assert found.samples[Difference.SPLIT] == [version("C")]
    assert found.samples[Difference.ORDER_DIFFERS] == [version("C")]

    many = compared(parts_of([sketch(*((f"R{number}", number) for number in range(SAMPLES + 1)))]), {})
    assert many.counts == {**NONE, "OnlyInFull": SAMPLES + 1}
    assert len(many.samples[Difference.ONLY_IN_FULL]) == SAMPLES


# The gate


def gate_of(
    paged: Sketch, grouped: Sketch | None = None, full: Sketch | None = None, set_aside: int = 0, limit: int = 0
) -> dict[str, Any]:
    whole = full or sketch(("A", 1), ("B", 2))
    paths: list[Parts] = [parts_of([each]) for each in (whole, paged, grouped or whole)]
    run = a_run(set_aside_limit=limit)
    report = report_of(Verdict.of(run, Counts(set_aside=set_aside), *paths), STACK, ("RecordId",))
    gate: dict[str, Any] = report["Gate"]
    return gate


def failed(gate: dict[str, Any]) -> list[str]:
    assert gate["Outcome"] == ("Passed" if all(check["Passed"] for check in gate["Checks"]) else "Failed")
    return [check["Name"] for check in gate["Checks"] if not check["Passed"]]


WHOLE = sketch(("A", 1), ("B", 2))


@pytest.mark.parametrize(
    ("gate", "names"),
    [
        (gate_of(WHOLE), []),
        (gate_of(sketch(("A", 1))), ["RecordsOnlyInOnePath"]),
        (gate_of(WHOLE._replace(body=b"other")), ["BodyDiffers"]),
        (gate_of(WHOLE, sketch(("B", 2), ("A", 1))), ["GroupedDifferences"]),
        (gate_of(WHOLE, set_aside=2, limit=2), []),
        (gate_of(WHOLE, set_aside=3, limit=2), ["SetAside"]),
        (gate_of(sketch(), full=sketch()), ["Records"]),
    ],
    ids=["equal", "a record is lost", "a body differs", "grouped differs", "limit kept", "limit passed", "no evidence"],
)
def test_the_gate_fails_by_the_check_s_name(gate: dict[str, Any], names: list[str]) -> None:
    assert failed(gate) == names


def test_the_gate_says_each_figure_and_threshold_when_to_stop_the_way_back_and_leaves_the_owner_open() -> None:
    gate = gate_of(WHOLE, set_aside=1, limit=5)

    assert gate["Checks"] == [
        {"Name": "Records", "Figure": 2, "Threshold": "at least 1", "Passed": True},
        {"Name": "RecordsOnlyInOnePath", "Figure": 0, "Threshold": "at most 0", "Passed": True},
        {"Name": "BodyDiffers", "Figure": 0, "Threshold": "at most 0", "Passed": True},
        {"Name": "GroupedDifferences", "Figure": 0, "Threshold": "at most 0", "Passed": True},
        {"Name": "SetAside", "Figure": 1, "Threshold": "at most 5", "Passed": True},
        {"Name": "SplitShare", "Figure": 0.0, "Threshold": "none: for information", "Passed": True},
    ]
    assert "PaginationEnabled to false" in gate["WayBack"]
    assert gate["StopConditions"]
    assert gate["Owner"] == ""


# A window


def compared_hour(world: World, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The output, and the report."""
    reports = FakeReports(world.faults)
    run = a_run(dry_run=True, **changes)
    output = compare_paths(run, STACK, world.index, reports)
    [(key, body)] = reports.objects.items()
    assert output["Report"] == {"Bucket": "task-data", "Key": key}
    return output, json.loads(body)


def figures(tasks: int, most_parts: int = 1) -> dict[str, int]:
    return {"Tasks": tasks, "Groups": 3, "Records": 4, "LargestGroup": 2, "MostParts": most_parts}


def test_a_page_that_holds_the_hour_equals_it() -> None:
    output, report = compared_hour(World(*worked_example()))

    assert output == {
        "Outcome": "Equal",
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        "Full": figures(3),
        "Paged": {**figures(3), "Differences": NONE},
        "Grouped": {**figures(3), "Differences": NONE},
        "Gate": "Passed",
        "Report": {"Bucket": "task-data", "Key": "reports/2026-09-17/15/run-1-compare.json"},
    }
    assert report["Coverage"] == {"Pages": 1, "Evaluated": 5, "Waiting": 4, "SetAside": 0}
    assert report["Sha256"] == checksum_of(report)
    assert report["TakenAt"] == "2026-09-17T16:01:10.123Z"


def test_a_page_that_ends_within_a_group_splits_it_and_the_grouped_path_does_not() -> None:
    output, report = compared_hour(World(*worked_example()), page_size=1)

    assert output["Outcome"] == "Differences"
    assert output["Full"] == figures(3)
    assert output["Paged"] == {**figures(4, 2), "Differences": {**NONE, "Split": 1, "OrderDiffers": 1}}
    assert output["Grouped"] == {**figures(3), "Differences": NONE}
    assert output["Gate"] == "Passed", "splitting is what paging is known to do"
    r2 = {"Key": {"RecordId": "R2"}, "BookingDateUTC": DAY, "BookingTimeUTC": "15:20:00Z"}
    assert report["Samples"]["Paged"]["Split"] == [r2]
    assert report["Samples"]["Paged"]["OrderDiffers"] == [r2]
    assert report["Gate"]["Checks"][-1]["Figure"] == 0.3333


def test_what_cannot_be_dispatched_is_counted_as_set_aside_and_on_no_path() -> None:
    world = World(*worked_example(), booking("BAD", OrderTime="yesterday"))

    output, report = compared_hour(world, set_aside_limit=0)

    assert output["Full"]["Records"] == 4
    assert report["Coverage"] == {"Pages": 1, "Evaluated": 6, "Waiting": 5, "SetAside": 1}
    assert output["Gate"] == "Failed"


def test_an_empty_hour_is_equal_and_no_evidence() -> None:
    output, _ = compared_hour(World())

    assert (output["Outcome"], output["Gate"]) == ("Equal", "Failed")


def test_slices_are_read_lane_by_lane_and_what_that_leaves_open_is_said() -> None:
    alone, one = compared_hour(World(*worked_example()))
    sliced, several = compared_hour(World(*worked_example()), slices=4)

    assert sliced["Full"] == alone["Full"]
    assert sliced["Grouped"] == alone["Grouped"]
    assert several["Coverage"]["Pages"] == 4
    [more] = set(several["KnownGaps"]) - set(one["KnownGaps"])
    assert more.startswith("Lanes work side by side")


def test_nothing_is_asked_but_the_index_and_nothing_left_but_the_report() -> None:
    world = World(*worked_example())
    before = world.snapshot()

    compared_hour(world, page_size=2)

    assert world.snapshot() == before
    assert world.faults.counted.keys() == {"query", "write report"}


def test_the_report_names_records_by_their_keys_only() -> None:
    _, report = compared_hour(World(*worked_example()), page_size=1)

    assert not {"2001", "2002", "2003"} & set(json.dumps(report).replace('"', " ").split())
    assert {name for samples in report["Samples"]["Paged"].values() for sample in samples for name in sample} == {
        *("Key", "BookingDateUTC", "BookingTimeUTC")
    }


def _record(number: int, member: int, second: int, order: int, coupon: bool) -> Item:  # noqa: FBT001 -- one drawn value
    return booking(
        f"R{number}",
        f"15:00:{second:02}Z",
        MemberId=member,
        OrderTime=f"{DAY}T14:00:{order:02}Z",
        RewardType="ECoupon" if coupon else "Point",
    )


HOURS = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(0, 3), st.booleans()), min_size=1, max_size=12
).map(lambda drawn: [_record(number, *each) for number, each in enumerate(drawn)])


@given(records=HOURS, page_size=st.integers(1, 5), slices=st.integers(1, 3))
def test_of_every_hour_the_grouped_path_equals_the_full_one_and_the_paged_one_loses_nothing(
    records: list[Item], page_size: int, slices: int
) -> None:
    output, _ = compared_hour(World(*records), page_size=page_size, slices=slices)

    assert output["Grouped"] == {**output["Full"], "Differences": NONE}
    assert output["Full"]["Records"] == output["Paged"]["Records"] == len(records)
    assert {output["Paged"]["Differences"][kind] for kind in ("OnlyInFull", "OnlyInOther", "BodyDiffers")} == {0}
    assert output["Paged"]["Tasks"] >= output["Full"]["Tasks"]
    assert output["Gate"] == "Passed"


@given(records=HOURS, page_size=st.integers(1, 5))
def test_the_paged_path_is_compared_as_a_paged_run_dispatches(records: list[Item], page_size: int) -> None:
    world = World(*records)
    output, _ = compared_hour(world, page_size=page_size)
    run = world.begun(a_run(page_size=page_size))
    progress = world.attempt(run)
    while progress.has_more:
        progress = world.attempt(run, progress)

    assert output["Paged"]["Tasks"] == progress.totals.tasks
    parts = Counter((message.route, message.group) for message in world.queues.messages)
    assert output["Paged"]["Differences"]["Split"] == sum(count > 1 for count in parts.values())
    assert output["Paged"]["MostParts"] == max(parts.values())


# The plan


def planned(given: Any, parameters: dict[str, str] | None = None, shards: int = 0) -> Run:
    return plan_compare({**EXECUTION, "Input": given}, FakeParameters(parameters or {}), Deployment(shards))


@pytest.mark.parametrize(
    "given",
    [{"ExecuteTime": "2026-09-17T16:01:10Z"}, {"Data": '{"ExecuteTime":"2026-09-17T16:01:10Z"}'}],
    ids=["a time", "wrapped"],
)
def test_a_comparison_reads_what_a_paged_run_of_its_input_would_read(given: dict[str, str]) -> None:
    run = planned({**given, "PageSize": 7, "Slices": 3}, shards=2)

    assert run.window == window()
    assert (run.path, run.dry_run, run.page_size, run.slices, run.shards) == (Path.PAGED, True, 7, 3, 2)
    assert len(run.ranges) == 6
    assert replace(run, given=()) == replace(Run.from_state(run.to_state()), given=())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ExecuteTime": "2026-09-17T20:00:00Z"}, "ExecuteTime: the window ends at"),
        ({"PaginationEnabled": True}, "PaginationEnabled: unknown field"),
        ({"Grouping": "window"}, "Grouping: unknown field"),
        ({"DryRun": True}, "DryRun: unknown field"),
        ({"PageSize": 0}, "PageSize: "),
        ({"PageSize": None}, "PageSize: "),
        ({"Slices": 121}, "Slices: "),
        ([], "input: expected an object"),
    ],
    ids=str,
)
def test_an_input_that_breaks_the_contract_is_refused_by_name(given: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        planned(given)


def test_more_slices_than_the_shards_allow_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Slices: at most 15 with 16 shards"):
        planned({"Slices": 16}, shards=16)
