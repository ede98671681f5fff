import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.domain.budget import PAGE_LEASE_SECONDS
from functions.domain.errors import ConfigurationError, InvalidToken, TokenNotAdvancing
from functions.domain.pack import Layout, pack_key
from functions.domain.page import QueryPage
from functions.domain.reconcile import Difference, Loop, Reconcile, Step, object_line, share_from
from functions.domain.report import CHECKSUM, SAMPLES, checksum_of
from functions.domain.run import Path
from functions.domain.staging import BUCKETS, StagedObject
from functions.domain.task import tasks_prefix
from functions.usecases import compare_records as comparing
from functions.usecases import pieces
from functions.usecases import read_bookings as reading_bookings
from functions.usecases.attempt import Attempt
from tests.unit.fakes import (
    DAY,
    WAYS,
    Died,
    Execution,
    World,
    a_run,
    booking,
    dead,
    failed,
    walk,
    window,
    worked_example,
)
from tests.unit.reconciling import CLEAN, STACK, Reconciler, a_reconcile, after_the_hour, reconciled
from tests.unit.test_every_path import cases

pytestmark = pytest.mark.usefixtures("either_layout")

KINDS = sorted(CLEAN)


@pytest.fixture
def world() -> World:
    """The worked example, its hour dispatched and reconcilable at half past."""
    world = after_the_hour(*worked_example())
    walk(world, a_run())
    return world


def counts(**found: int) -> dict[str, int]:
    return {**CLEAN, **found}


def keys(reconciler: Reconciler, output: dict[str, Any], kind: str) -> list[str]:
    return sorted(sample["Key"]["RecordId"] for sample in reconciler.written(output)["Samples"][kind])


# --- a clean window


def test_a_clean_window_gives_a_clean_report(world: World) -> None:
    output = reconciled(world)

    assert output == {
        "Outcome": "Clean",
        "WindowStart": f"{DAY}T15:00:00Z",
        "WindowEnd": f"{DAY}T16:00:00Z",
        "Bookings": 5,
        "DispatchedRecords": 4,
        "Counts": CLEAN,
        "Report": {"Bucket": "task-data", "Key": "reports/2026-09-17/15/reconcile-1.json"},
    }


def test_a_window_of_nothing_whose_run_is_recorded_is_clean() -> None:
    world = after_the_hour()
    walk(world, a_run())

    assert reconciled(world)["Outcome"] == "Clean"


def test_a_record_on_the_edge_is_clean_in_both_hours_whichever_dispatched_it() -> None:
    world = after_the_hour(booking("E", "16:00:00Z"))
    walk(world, a_run())
    walk(world, a_run(run_id="run-2", window=window(16)))

    first, second = reconciled(world, window(15)), reconciled(world, window(16))

    assert [first["Outcome"], second["Outcome"]] == ["Clean", "Clean"]
    assert [first["DispatchedRecords"], second["DispatchedRecords"]] == [1, 0]


def test_records_that_were_rewarded_since_are_clean(world: World) -> None:
    for record in worked_example():
        world.index.put({**record, "RewardStatus": {"S": "Rewarded"}})

    assert reconciled(world)["Counts"] == CLEAN


def test_bad_records_that_were_set_aside_are_no_difference() -> None:
    world = after_the_hour(booking("R1"), booking("R2", RewardType="voucher"))
    walk(world, a_run())
    reconciler = Reconciler(world)

    output = reconciler.run(a_reconcile())

    assert output["Counts"] == CLEAN
    assert reconciler.written(output)["Sources"]["Bookings"] == {"Bookings": 2, "Waiting": 2, "SetAside": 1}


# --- each class by itself


def late(world: World) -> None:
    world.index.put(booking("LATE", "15:30:00Z"))


def moved(world: World) -> None:
    world.index.put(booking("R1", "17:00:00Z"))


def deleted(world: World) -> None:
    world.index.delete("R1")


def regrouped(world: World) -> None:
    world.index.put({**worked_example()[1], "MemberId": {"N": "9"}})


def rerouted(world: World) -> None:
    world.index.put({**worked_example()[1], "RewardType": {"S": "ECoupon"}})


def rewarded_as_another_member(world: World) -> None:
    world.index.put({**worked_example()[1], "MemberId": {"N": "9"}, "RewardStatus": {"S": "Rewarded"}})


def gone_bad(world: World) -> None:
    world.index.put({**worked_example()[1], "OrderTime": {"S": "noon"}})


def duplicated(world: World) -> None:
    """R1 a second time, in another task, by somebody who did not ask the ledger."""
    run = world.begun(a_run(run_id="run-2"))
    [place] = [place for place in world.ledger.stored if place[1] == "run-1"]
    plan = world.ledger.stored[place][1]
    [task] = [task for task in plan.tasks if len(task.versions) == 2]
    again = replace(task, task_id="d" * 64, versions=tuple(task.versions)[:1], extent=None)
    attempt = Attempt(world.dispatch, run, world.clock() + 300)
    world.task_data.objects[again.object_key] = b"{}"
    plan = replace(plan, tasks=(again,), finished=False)
    attempt.decide(plan, ())
    attempt.carry_out(plan)


def orphaned(world: World) -> None:
    world.task_data.objects[f"tasks/{DAY}/15/aa/{'a' * 64}.json"] = b"{}"


def orphaned_pack(world: World) -> None:
    """What an attempt leaves that dies before its plan is written; a booking changed before the next one read it."""
    world.task_data.objects[pack_key(window(), "c" * 64)] = b"{}\n{}\n"


def strange_object(world: World) -> None:
    world.task_data.objects[f"tasks/{DAY}/15/notes.txt"] = b"{}"


def misshapen(world: World) -> None:
    world.index.put(booking("ODD", "15:3:00Z"))


def below_the_day(world: World) -> None:
    world.index.put(booking("ODD", "\t"))


def beyond_the_day(world: World) -> None:
    world.index.put(booking("ODD", "24:30:00Z"))


def of_no_time_at_all(world: World) -> None:
    world.index.put(booking("ODD", "\u5348\u5f8c"))


def left_by_an_attempt_that_died(world: World) -> None:
    """Its upload was done and its plan was not, and then the booking changed: the next attempt composed another body.

    Where each task has an object of its own, the next attempt writes over it.
    """
    world.index.put(booking("LEFT", "15:30:00Z", MemberId=7))
    world.faults.before("create plan", dead)
    with pytest.raises(Died):
        walk(world, a_run(run_id="run-2"))
    world.clock.advance(PAGE_LEASE_SECONDS + 1)
    world.index.put(booking("LEFT", "15:30:00Z", MemberId=7, Note="changed"))
    walk(world, a_run(run_id="run-3"))


def in_doubt(world: World) -> None:
    world.index.put(booking("LATE", "15:30:00Z"))
    world.faults.before("send", dead)
    execution = Execution(world, a_run(run_id="run-2"))
    with pytest.raises(Died):
        execution.start()


SCENARIOS: list[tuple[Callable[[World], None], dict[str, int]]] = [
    (late, {"MissingInLedger": 1}),
    (moved, {"MissingInBookings": 1}),
    (deleted, {"MissingInBookings": 1}),
    (regrouped, {"ValueMismatch": 1}),
    (rerouted, {"ValueMismatch": 1}),
    (rewarded_as_another_member, {"ValueMismatch": 1}),
    (gone_bad, {"ValueMismatch": 1}),
    (duplicated, {"Duplicate": 1}),
    (orphaned, {"OrphanObject": 1}),
    (strange_object, {"OrphanObject": 1}),
    (misshapen, {"Unreachable": 1}),
    (below_the_day, {"Unreachable": 1}),
    (beyond_the_day, {"Unreachable": 1}),
    (of_no_time_at_all, {"Unreachable": 1}),
    (in_doubt, {"InDoubt": 1}),
    (orphaned_pack, {"OrphanObject": 1}),
]


@pytest.mark.parametrize(("happens", "found"), SCENARIOS, ids=[scenario.__name__ for scenario, _ in SCENARIOS])
def test_the_report_finds_exactly_what_happened(
    world: World, happens: Callable[[World], None], found: dict[str, int]
) -> None:
    happens(world)
    reconciler = Reconciler(world)

    output = reconciler.run(a_reconcile())

    assert (output["Outcome"], output["Counts"]) == ("Differences", counts(**found))
    [kind] = found
    assert len(reconciler.written(output)["Samples"][kind]) == 1


def test_what_an_attempt_left_that_died_before_its_plan_is_an_orphan_unless_it_was_written_over(world: World) -> None:
    left_by_an_attempt_that_died(world)

    assert reconciled(world)["Counts"] == counts(OrphanObject=0 if world.layout is Layout.OBJECT else 1)


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@pytest.mark.parametrize("name", ["AB" * 32, "-1" * 32, "zz" * 32, "\u00e9" * 64, "a\tb\n" * 16], ids=ascii)
def test_what_only_looks_like_task_data_is_an_orphan_and_nothing_else_changes(
    world: World, name: str, suffix: str
) -> None:
    """A name of as many characters as a digest has, which is none: no line can begin with it."""
    world.task_data.objects[f"tasks/{DAY}/15/{name[:2]}/{name}{suffix}"] = b""

    assert reconciled(world)["Counts"] == counts(OrphanObject=1)


def test_a_pack_of_which_a_plan_names_one_task_is_no_orphan(world: World) -> None:
    for place, (attempt, plan) in world.ledger.stored.items():
        world.ledger.stored[place] = attempt, replace(plan, tasks=plan.tasks[:1])
    orphans = len(world.task_data.objects) - 1

    assert reconciled(world)["Counts"]["OrphanObject"] == orphans == (2 if world.layout is Layout.OBJECT else 0)


def test_an_hour_of_which_each_run_had_another_layout_is_clean(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.task_data, "layout", next(other for other in Layout if other is not world.layout))
    world.index.put(booking("R7", "15:30:00Z", MemberId=7), booking("R8", "15:30:00Z", MemberId=8))
    walk(world, a_run(run_id="run-2"))

    assert sorted(key.rpartition(".")[2] for key in world.task_data.objects) in (
        ["json", "json", "json", "jsonl"],
        ["json", "json", "jsonl"],
    )
    assert reconciled(world)["Counts"] == CLEAN


def test_every_class_has_a_scenario() -> None:
    assert {kind for _, found in SCENARIOS for kind in found} == set(KINDS) - {"MissingHour"}


def test_an_hour_without_a_run_is_missing_and_so_is_what_waits_in_it() -> None:
    world = after_the_hour(*worked_example())

    assert reconciled(world)["Counts"] == counts(MissingHour=1, MissingInLedger=4)
    assert reconciled(after_the_hour())["Counts"] == counts(MissingHour=1)


@pytest.mark.parametrize(("hours", "found"), [(24, 0), (25, 2)])
def test_a_record_that_still_waits_a_day_after_its_dispatch_is_a_mismatch(hours: int, found: int) -> None:
    world = after_the_hour(booking("R1"), booking("R2", MemberId=2), booking("R3", MemberId=3, RewardStatus="Rewarded"))
    walk(world, a_run())
    later = {24: "2026-09-18T16:01:10Z", 25: "2026-09-18T17:01:10Z"}[hours]

    assert reconciled(world, taken_at=later)["Counts"] == counts(ValueMismatch=found)


def test_what_is_neither_waiting_nor_in_the_day_is_left_alone(world: World) -> None:
    world.index.put(
        booking("A", "15:3:00Z", RewardStatus="Rewarded"),
        booking("B", "25:00:00Z", RewardStatus=None),
        booking("C", "00:00:00"),
        booking("D", "24:00:00Z"),
    )

    assert reconciled(world)["Counts"] == CLEAN


# --- the audit of the table


def unkeyed(world: World) -> None:
    """Four records that wait and lack a key of the index, or have it of another type, and two that matter to nobody."""
    world.index.put(
        booking("no-date", BookingDateUTC=None),
        booking("no-time", BookingTimeUTC=None),
        booking("number", BookingTimeUTC=15),
        booking("nothing", BookingDateUTC=None, BookingTimeUTC=None),
        booking("settled", BookingDateUTC=None, RewardStatus="Rewarded"),
        booking("of-no-status", BookingTimeUTC=None, RewardStatus=None),
    )


UNKEYED = ["no-date", "no-time", "nothing", "number"]


def test_records_without_the_index_s_keys_are_found_where_that_is_asked_for_and_only_there(world: World) -> None:
    unkeyed(world)
    reconciler = Reconciler(world)

    assert reconciler.run(a_reconcile())["Counts"] == CLEAN
    assert world.faults.counted["scan"] == 0
    output = reconciler.run(a_reconcile(execution_id="audit", audit_table=True))

    assert (output["Outcome"], output["Counts"]) == ("Differences", counts(Unreachable=4))
    assert keys(reconciler, output, "Unreachable") == UNKEYED
    samples = reconciler.written(output)["Samples"]["Unreachable"]
    assert {tuple(sample) for sample in samples} == {("Key",)}


@pytest.mark.parametrize("hour", [14, 15])
def test_they_belong_to_no_hour_and_are_found_whichever_is_reconciled(world: World, hour: int) -> None:
    unkeyed(world)

    assert reconciled(world, window(hour), audit_table=True)["Counts"]["Unreachable"] == 4


def test_a_record_that_the_index_holds_is_not_counted_again(world: World) -> None:
    late(world)
    misshapen(world)

    without, audited = (reconciled(world, execution_id=str(audit), audit_table=audit) for audit in (False, True))

    assert without["Counts"] == audited["Counts"] == counts(MissingInLedger=1, Unreachable=1)


def test_in_a_sharded_index_its_own_key_attribute_is_what_counts(world: World) -> None:
    world.index.date_attribute = "BookingDateShard"
    world.index.records.clear()
    world.index.put(booking("sharded", BookingDateUTC=None, BookingDateShard=f"{DAY}#0"), booking("dated"))
    reconciler = Reconciler(world)

    output = reconciler.run(replace(a_reconcile(audit_table=True), shards=1))

    assert keys(reconciler, output, "Unreachable") == ["dated"]


@pytest.mark.parametrize("audited", [False, True])
def test_the_report_says_whether_the_table_was_looked_through(world: World, audited: bool) -> None:  # noqa: FBT001 -- a case
    reconciler = Reconciler(world)
    report = reconciler.written(reconciler.run(a_reconcile(audit_table=audited)))

    assert report["Sources"]["Table"] == {"Audited": audited, "Scanned": 7 * audited}
    assert any("Every item of the table" in text for text in report["Covered"]) is audited
    assert any("no audit was asked for" in text for text in report["NotCovered"]) is not audited


def test_an_audit_goes_on_where_its_last_call_ended(world: World) -> None:
    unkeyed(world)
    reconciler = Reconciler(world, has_time=lambda: False)

    output = reconciler.run(a_reconcile(audit_table=True))

    assert output["Counts"]["Unreachable"] == 4
    assert reconciler.written(output)["Sources"]["Table"]["Scanned"] == 13
    assert len(list(reconciler.pieces.of("reconcile-1", Step.TABLE))) == 7


def test_a_place_in_another_table_is_refused(world: World) -> None:
    token = {"RecordId": {"S": "R1"}, "BookingDateUTC": {"S": DAY}}

    with pytest.raises(InvalidToken, match="RecordId"):
        Reconciler(world).calls(a_reconcile())[Step.TABLE](Loop(2, token))


def test_a_scan_that_does_not_get_on_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = {"RecordId": {"S": "R1"}}
    reconciler = Reconciler(world, has_time=lambda: False)
    monkeypatch.setattr(reconciler.table, "unkeyed_page", lambda _: QueryPage((), token, 1))

    with pytest.raises(TokenNotAdvancing):
        reconciler.calls(a_reconcile())[Step.TABLE](Loop(2, token))


# --- plans of several runs


def test_a_task_that_another_run_took_along_is_in_doubt_no_more(world: World) -> None:
    in_doubt(world)
    world.clock.advance(1000)
    walk(world, a_run(run_id="run-3"))

    assert reconciled(world)["Counts"] == CLEAN


@pytest.mark.parametrize("hour", [14, 15, 16])
def test_a_neighbour_that_took_along_a_task_over_the_edge_settles_it_for_every_hour(hour: int) -> None:
    world = after_the_hour(booking("B", "15:30:00Z"), booking("E", "16:00:00Z"))
    world.faults.before("send", dead)
    with pytest.raises(Died):
        Execution(world, a_run()).start()
    world.clock.advance(1000)
    walk(world, a_run(run_id="run-2", window=window(16)))
    walk(world, a_run(run_id="run-0", window=window(14)))

    output = reconciled(world, window(hour))

    assert output["Counts"] == CLEAN
    assert output["DispatchedRecords"] == {14: 0, 15: 0, 16: 2}[hour]


@pytest.mark.parametrize(("taken_by", "hour"), [(13, 15), (15, 13)])
def test_a_task_that_was_taken_along_two_hours_away_settles_its_record_on_the_edge(taken_by: int, hour: int) -> None:
    """The hour 14's task reaches both its edges; one neighbour sends it, and the other one's record is in it."""
    world = after_the_hour(booking("A", "14:00:00Z"), booking("E", "15:00:00Z"))
    world.faults.before("send", dead)
    with pytest.raises(Died):
        Execution(world, a_run(window=window(14))).start()
    world.clock.advance(1000)
    for run_hour in (taken_by, hour):
        walk(world, a_run(run_id=f"run-{run_hour}", window=window(run_hour)))

    assert reconciled(world, window(hour))["Counts"] == CLEAN


def test_what_a_failed_attempt_has_noted_as_sent_is_still_in_doubt(world: World) -> None:
    world.index.put(booking("LATE", "15:30:00Z"))
    world.faults.before("finish plan", failed)
    with pytest.raises(Exception, match="refused"):
        Execution(world, a_run(run_id="run-2")).start()

    output = reconciled(world)

    assert output["Counts"] == counts(InDoubt=1)
    assert output["DispatchedRecords"] == 4


def test_a_run_that_has_not_ended_is_named_as_not_covered(world: World) -> None:
    world.begun(a_run(run_id="run-2"))
    reconciler = Reconciler(world)

    report = reconciler.written(reconciler.run(a_reconcile()))

    assert report["Sources"]["Ledger"]["OpenRuns"] == 1
    assert any("have not ended" in text for text in report["NotCovered"])


# --- the report


def test_the_report_says_what_was_compared_and_how(world: World) -> None:
    reconciler = Reconciler(world)
    report = reconciler.written(reconciler.run(a_reconcile()))

    assert report == report | {
        "Stack": STACK,
        "ExecutionId": "reconcile-1",
        "TakenAt": f"{DAY}T18:30:00Z",
        "WindowStart": f"{DAY}T15:00:00Z",
        "RecordVersion": ["RecordId", "BookingDateUTC", "BookingTimeUTC"],
        "Sources": {
            "Bookings": {"Bookings": 5, "Waiting": 4, "SetAside": 0},
            "Table": {"Audited": False, "Scanned": 0},
            "Ledger": {"Runs": 1, "OpenRuns": 0, "Plans": 1, "Tasks": 3, "DispatchedRecords": 4},
            "TaskData": {"Objects": 3 if world.layout is Layout.OBJECT else 1},
        },
        "Counts": CLEAN,
        "Samples": {kind: [] for kind in KINDS},
        "Missing": None,
        "Settings": {"Shards": 0, "StillWaitingHours": 24, "SamplesOfEachClass": SAMPLES},
    }
    assert report["Covered"]
    assert report["NotCovered"]


def test_a_sample_is_a_record_s_key_date_and_time_and_nothing_else_of_it(world: World) -> None:
    late(world)
    orphaned(world)
    reconciler = Reconciler(world)
    samples = reconciler.written(reconciler.run(a_reconcile()))["Samples"]

    assert samples["MissingInLedger"] == [
        {"Key": {"RecordId": "LATE"}, "BookingDateUTC": DAY, "BookingTimeUTC": "15:30:00Z"}
    ]
    assert samples["OrphanObject"] == [{"Object": f"tasks/{DAY}/15/aa/{'a' * 64}.json"}]


def test_samples_are_few_and_the_list_of_the_missing_is_whole() -> None:
    world = after_the_hour(*(booking(f"R{n}", MemberId=n) for n in range(SAMPLES + 5)))
    reconciler = Reconciler(world)
    output = reconciler.run(a_reconcile())

    assert len(reconciler.written(output)["Samples"]["MissingInLedger"]) == SAMPLES
    assert sorted(key["RecordId"] for key, *_ in reconciler.missing(output)) == sorted(
        f"R{n}" for n in range(SAMPLES + 5)
    )
    assert {(date, time) for _, date, time in reconciler.missing(output)} == {(DAY, "15:10:00Z")}


def test_an_altered_report_is_known_by_its_checksum(world: World) -> None:
    late(world)
    reconciler = Reconciler(world)
    report = reconciler.written(reconciler.run(a_reconcile()))

    assert checksum_of(report) == report[CHECKSUM]
    assert checksum_of({**report, "Stack": "another"}) != report[CHECKSUM]


def test_two_reconciles_of_the_same_state_differ_in_their_execution_and_their_time_only(world: World) -> None:
    late(world)
    deleted(world)
    reconciler = Reconciler(world)
    one = reconciler.run(a_reconcile())
    two = reconciler.run(a_reconcile(execution_id="reconcile-2", taken_at=f"{DAY}T18:45:00Z"))

    varying = {"ExecutionId", "TakenAt", "Missing", CHECKSUM}
    first, second = (
        {name: value for name, value in reconciler.written(output).items() if name not in varying}
        for output in (one, two)
    )
    assert first == second
    assert {**one, "Report": None} == {**two, "Report": None}
    assert reconciler.missing(one) == reconciler.missing(two)


def test_nothing_is_changed_but_what_is_the_reconcile_s_own(world: World) -> None:
    in_doubt(world)
    before, staged = world.snapshot(), dict(world.staging.objects)

    reconciled(world)

    world.staging.objects = staged
    assert world.snapshot() == before


# --- piece by piece


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_LINES", 2)
    monkeypatch.setattr(reading_bookings, "PAGE_RECORDS", 2)
    monkeypatch.setattr(comparing, "SHARE_LINES", 3)


@pytest.mark.usefixtures("small_pieces")
def test_many_pieces_give_what_one_gives(world: World) -> None:
    late(world)
    duplicated(world)
    below_the_day(world)
    orphaned(world)
    deleted(world)
    unkeyed(world)
    reconciler = Reconciler(world)

    output = reconciler.run(a_reconcile(audit_table=True))

    assert output["Counts"] == counts(
        MissingInLedger=1, MissingInBookings=1, Duplicate=1, Unreachable=5, OrphanObject=1
    )
    assert min(len(list(reconciler.pieces.of("reconcile-1", step))) for step in Step) > 1


def test_a_call_without_time_does_one_page_or_one_plan_or_one_key(world: World) -> None:
    reconciler = Reconciler(world, has_time=lambda: False)

    assert reconciler.run(a_reconcile())["Outcome"] == "Clean"
    assert len(list(reconciler.pieces.of("reconcile-1", Step.BOOKINGS))) == 3
    objects = len(world.task_data.objects)
    assert objects == (3 if world.layout is Layout.OBJECT else 1)
    assert len(list(reconciler.pieces.of("reconcile-1", Step.OBJECTS))) == objects + 1


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("step", list(Step))
def test_a_piece_whose_answer_was_lost_is_not_read_again(world: World, step: Step) -> None:
    unkeyed(world)
    reconciler = Reconciler(world)
    reconcile = a_reconcile(audit_table=True)
    for before in list(Step)[: list(Step).index(step)]:
        loop = Loop()
        while loop.has_more:
            loop = reconciler.calls(reconcile)[before](loop)
    first = reconciler.calls(reconcile)[step](Loop())
    late(world)
    orphaned(world)
    world.index.delete("no-time")
    done = dict(world.faults.counted)

    assert reconciler.calls(reconcile)[step](Loop()) == first
    assert {name for name in world.faults.counted if world.faults.counted[name] != done.get(name, 0)} == {"find piece"}


def test_what_a_superseded_attempt_has_read_is_never_looked_at(world: World) -> None:
    """It reads the records, is overtaken, and writes its piece after the other has."""
    reconciler = Reconciler(world)
    reconcile = a_reconcile()
    calls = reconciler.calls(reconcile)

    def overtake() -> None:
        late(world)
        calls[Step.BOOKINGS](Loop())

    world.faults.before("record piece", overtake)

    calls[Step.BOOKINGS](Loop())
    staged = [piece.staged for piece in reconciler.pieces.of("reconcile-1", Step.BOOKINGS)]

    assert len(world.staging.objects) == 2
    assert [sum(one.lines) for one in staged if one] == [6]
    assert reconciler.run(reconcile)["Counts"] == counts(MissingInLedger=1)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    "operation", ["query", "scan", "stage", "record piece", "find piece", "read staged", "write report"]
)
def test_a_call_that_died_anywhere_is_made_again_and_the_report_is_the_same(world: World, operation: str) -> None:
    late(world)
    unkeyed(world)
    reconcile = a_reconcile(audit_table=True)
    whole = Reconciler(world).run(reconcile)
    for nth in range(1, 40):
        reconciler = Reconciler(world)
        world.faults.clear()
        world.faults.after(operation, dead, nth)
        try:
            reconciler.run(reconcile)
        except Died:
            assert reconciler.run(reconcile) == whole
        else:
            assert nth > 1
            return
    raise AssertionError("it dies for ever")


def test_a_cursor_of_another_range_is_refused(world: World) -> None:
    token = {"RecordId": {"S": "R1"}, "BookingDateUTC": {"S": DAY}, "BookingTimeUTC": {"S": "12:00:00Z"}}

    with pytest.raises(InvalidToken, match="BookingTimeUTC"):
        Reconciler(world).calls(a_reconcile())[Step.BOOKINGS](Loop(2, {"Range": 0, "Token": token}))


@pytest.mark.parametrize("name", ["Window", "Run", "Lane", "Page"])
def test_a_cursor_that_lacks_a_part_is_refused(world: World, name: str) -> None:
    cursor = {"Window": f"{DAY}T15:00:00Z", "Run": "run-1", "Lane": 0, "Page": 1}
    del cursor[name]

    with pytest.raises(ConfigurationError, match=name):
        Reconciler(world).calls(a_reconcile())[Step.PLANS](Loop(2, cursor))


# --- for any bookings, path and pieces


@settings(max_examples=60)
@given(
    cases(),
    st.sampled_from(WAYS),
    st.sampled_from([1, 2, 3, 1000]),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 2, 20_000]),
)
def test_after_a_run_that_ended_nothing_differs(
    some: Any, path: Path, page_size: int, slices: int, piece_lines: int
) -> None:
    world = after_the_hour(*(case.record for case in some))
    walk(world, a_run(path=path, page_size=page_size, slices=1 if path is Path.FULL else slices))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_LINES", piece_lines)
        patch.setattr(reading_bookings, "PAGE_RECORDS", page_size)
        patch.setattr(comparing, "SHARE_LINES", 10 * piece_lines)
        output = reconciled(world)

    assert output["Counts"] == CLEAN


# --- the shapes


def test_a_reconcile_and_a_loop_pass_through_the_state_unchanged() -> None:
    reconcile, loop = a_reconcile(audit_table=True), Loop(3, {"Bucket": 7}, has_more=True)

    assert Reconcile.from_state(json.loads(json.dumps(reconcile.to_state()))) == reconcile
    assert Loop.from_state(json.loads(json.dumps(loop.to_state()))) == loop


@pytest.mark.parametrize("name", sorted(a_reconcile().to_state().keys() - {"WindowEnd"}))
def test_a_state_that_lacks_a_field_is_refused_by_its_name(name: str) -> None:
    state = {key: value for key, value in a_reconcile().to_state().items() if key != name}

    with pytest.raises(ConfigurationError, match=name):
        Reconcile.from_state(state)


def test_a_state_whose_window_is_no_hour_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="state: Reconcile: expected a full UTC hour"):
        Reconcile.from_state({**a_reconcile().to_state(), "WindowStart": f"{DAY}T15:30:00Z"})


def test_every_shard_is_read_in_the_window_and_beyond_it() -> None:
    ranges = replace(a_reconcile(), shards=2).ranges

    assert [(keys.date_key, keys.low) for keys in ranges] == [
        (f"{DAY}#0", "15:00:00"),
        (f"{DAY}#1", "15:00:00"),
        (f"{DAY}#0", "\x00"),
        (f"{DAY}#0", "24:00:00Z"),
        (f"{DAY}#1", "\x00"),
        (f"{DAY}#1", "24:00:00Z"),
    ]


@pytest.mark.parametrize("suffix", [".json", ".jsonl"], ids=["task", "pack"])
def test_an_object_is_known_by_its_task_or_pack_and_one_that_is_neither_s_by_its_key(suffix: str) -> None:
    prefix = tasks_prefix(window())
    name = "ab" * 32

    assert object_line(window(), f"{prefix}ab/{name}{suffix}").startswith(f"{name}\tO\t")
    for key in (f"{prefix}cd/{name}{suffix}", f"{prefix}x", f"{prefix}ab/{name}{suffix}.bak"):
        assert not object_line(window(), key).startswith(name)
        assert len(object_line(window(), key).split("\t")[0]) == 64


def test_a_share_is_as_many_buckets_as_have_the_lines_together() -> None:
    objects = [StagedObject("a", [2] * BUCKETS, [2] * BUCKETS), StagedObject("b", [1] * BUCKETS, [1] * BUCKETS)]

    assert share_from(0, objects, 7) == range(3)
    assert share_from(250, objects, 100) == range(250, 256)
    assert share_from(5, objects, 1) == range(5, 6)
    assert share_from(0, [], 7) == range(BUCKETS)


def test_the_classes_are_those_of_the_contract() -> None:
    assert list(CLEAN) == [
        "MissingInLedger",
        "MissingInBookings",
        "ValueMismatch",
        "Duplicate",
        "OrphanObject",
        "Unreachable",
        "MissingHour",
        "InDoubt",
    ]
    assert len(Difference) == 8
