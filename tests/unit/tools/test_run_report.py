"""The report of a run: what it counts, what it says of each end, and what it must not say."""

import json
import re
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from functions.domain.plan import Plan
from functions.domain.reconcile import Difference
from functions.domain.run import Counts
from tests.staged_reports import (
    BEGAN,
    MADE,
    MEMBER,
    RECORD,
    REPORTS,
    counts_of,
    fault,
    page_record,
    places,
    plan_of,
    reconciled,
    report_of,
    run_record,
    three_pages,
    three_thousand_pages,
)
from tools.dispatchctl.report import file_name
from tools.report.charts import compact, nice_ceiling
from tools.report.figures import (
    FILES_NAMED,
    MAX_BARS,
    Memory,
    RunReport,
    cost_of,
    counted,
    memory_of,
    memory_used,
    pages_over_time,
    size_classes,
    tasks_of,
    to_json,
)
from tools.report.page import DIFFERENCES, page, verdict
from tools.workspace import ROOT

each_report = pytest.mark.parametrize("make", list(REPORTS.values()), ids=list(REPORTS))


def text_of(report: RunReport) -> str:
    """What the page says, without its markup and its style."""
    body = page(report).partition("<body>")[2]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)).replace(" ,", ",").replace(" .", ".")


@each_report
def test_no_id_of_a_member_or_record_is_told(make: Callable[[], RunReport]) -> None:
    report = make()

    for told in (page(report), json.dumps(to_json(report))):
        assert RECORD not in told
        assert MEMBER not in told


@each_report
def test_the_page_needs_nothing_beside_itself(make: Callable[[], RunReport]) -> None:
    html = page(make())

    assert html.startswith("<!doctype html>")
    assert not re.search(r"<(script|link|img|iframe|object|base)\b|@import|\bsrc=", html)
    assert set(re.findall(r"url\(([^)]*)\)", html)) == {'"#hatched"', '"#crossed"'}
    assert all(address.startswith("https://eu-west-1.console.aws.") for address in re.findall(r'href="([^"]*)"', html))


def test_what_is_told_cannot_become_markup() -> None:
    html = page(REPORTS["refused"]())

    assert "ExecuteTime: expected &lt;YYYY-MM-DDThh:mm:ss&gt; &amp; an offset" in html


def test_each_page_of_a_few_has_its_own_bar() -> None:
    bars = three_pages().pages.bars

    assert [(bar.name, bar.counts.evaluated, bar.calls, bar.retries) for bar in bars] == [
        ("1", 1000, 1, 0),
        ("2", 1000, 1, 0),
        ("3", 412, 2, 1),
    ]


def test_many_pages_share_bars_and_none_is_lost() -> None:
    pages = three_thousand_pages().pages

    assert (len(pages.bars), pages.pages_a_bar, pages.number) == (MAX_BARS, 25, 3000)
    assert [bar.first for bar in pages.bars] == list(range(1, 3001, 25))
    assert sum(bar.counts.evaluated for bar in pages.bars) == 3_000_000
    assert (pages.calls, pages.retries) == (3030, 30)
    assert pages.median_seconds == 1.3
    assert {bar.slowest for bar in pages.bars[3::4]} == {5.2}


@pytest.mark.parametrize("number", [1, 119, 120, 121, 240, 241, 20_000])
def test_there_are_never_more_bars_than_a_phone_can_show(number: int) -> None:
    bars = pages_over_time(page_record(page, Counts(1)) for page in range(1, number + 1)).bars

    assert len(bars) <= MAX_BARS
    assert sum(bar.counts.pages for bar in bars) == number
    assert (bars[0].first, bars[-1].last) == (1, number)


UNTOLD: Final[dict[str, Any]] = {"started": None, "seconds": None, "attempts": 0}


def test_pages_of_lanes_stand_in_the_order_in_which_they_began() -> None:
    pages = pages_over_time(
        [
            page_record(1, Counts(1, 11), lane=0, started=BEGAN + timedelta(seconds=3)),
            page_record(1, Counts(1, 22), lane=1, started=BEGAN),
        ]
    )

    assert [bar.counts.evaluated for bar in pages.bars] == [22, 11]
    assert pages.lanes == 2


def test_pages_of_an_execution_before_come_first() -> None:
    pages = pages_over_time([page_record(1, Counts(1, 11), **UNTOLD), page_record(2, Counts(1, 22))])

    assert [(bar.counts.evaluated, bar.calls) for bar in pages.bars] == [(11, 0), (22, 1)]
    assert "An execution before this one did 1 of them" in text_of(replace(three_pages(), pages=pages))


def test_pages_that_one_call_did_stay_together() -> None:
    pages = pages_over_time(
        [
            page_record(1, Counts(0, 11), lane=2000, started=BEGAN + timedelta(seconds=9)),
            page_record(2, Counts(0, 22), lane=2000, **UNTOLD),
            page_record(1, Counts(0, 33), lane=2001, started=BEGAN),
        ]
    )

    assert [bar.counts.evaluated for bar in pages.bars] == [33, 11, 22]
    text = text_of(replace(three_pages(), pages=pages))
    assert "1 of them were done by the call that did the one before" in text
    assert "An execution before" not in text


def test_tasks_are_counted_by_route_and_by_orders() -> None:
    tasks = tasks_of([plan_of(1, (1, 2, 40, 1)), plan_of(2, (1, 7, 3), finished=False)])

    assert [(each.route.value, each.tasks, each.orders, each.largest) for each in tasks.routes] == [
        ("Point", 5, 12, 7),
        ("ECoupon", 2, 43, 40),
    ]
    assert [(each.name, each.tasks, each.orders) for each in tasks.sizes if each.tasks] == [
        ("1", 3, 3),
        ("2", 1, 2),
        ("3", 1, 3),
        ("6\N{EN DASH}10", 1, 7),
        ("21\N{EN DASH}50", 1, 40),
    ]
    assert (tasks.number, tasks.orders, tasks.largest, tasks.unsent) == (7, 55, 40, 3)


def test_size_classes_have_no_gap_and_hold_every_task() -> None:
    sizes = {1: 5, 6: 1, 99: 2, 1_000_000: 1}

    classes = size_classes(sizes)

    assert [each.least for each in classes[1:]] == [each.most + 1 for each in classes[:-1]]
    assert sum(each.tasks for each in classes) == 9
    assert sum(each.orders for each in classes) == 5 + 6 + 198 + 1_000_000
    assert len(classes) < 30


def test_the_tasks_of_an_hour_are_never_held() -> None:
    def plans() -> Iterator[Plan]:
        return (plan_of(number, (number % 7 + 1,) * 200) for number in range(50))

    tracemalloc.start()
    assert tasks_of(plans()).number == 10_000
    _, streamed = tracemalloc.get_traced_memory()
    held = [*plans()]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(held) == 50
    assert streamed < taken / 10


def test_faults_are_counted_by_step_and_error() -> None:
    faults = [fault("Dispatch page", "TransientError", minute) for minute in (5, 2, 9)]

    counts = counted([fault("Take leases", "WindowBusy", 0), *faults])

    assert [(each.step, each.error, each.times) for each in counts] == [
        ("Dispatch page", "TransientError", 3),
        ("Take leases", "WindowBusy", 1),
    ]
    assert (counts[0].first, counts[0].last) == (BEGAN + timedelta(minutes=2), BEGAN + timedelta(minutes=9))


def test_memory_is_the_peak_of_all_report_lines() -> None:
    lines = [
        "START RequestId: 1 Version: $LATEST",
        "REPORT RequestId: 1\tDuration: 12.3 ms\tBilled Duration: 13 ms\tMemory Size: 512 MB\tMax Memory Used: 88 MB\t",
        "REPORT RequestId: 2\tDuration: 2.3 ms\tBilled Duration: 3 ms\tMemory Size: 512 MB\tMax Memory Used: 143 MB\t",
    ]

    assert memory_of("Dispatch page", lines) == Memory(step="Dispatch page", invocations=2, peak_mb=143, limit_mb=512)
    assert memory_of("Dispatch page", lines[:1]) is None


class Logs:
    """An account's functions and logs: each function reports one invocation."""

    def __init__(self, error: str = "") -> None:
        self.error: Final = error
        self.asked: list[dict[str, Any]] = []

    def get_function_configuration(self, **request: str) -> dict[str, Any]:
        if self.error:
            raise ClientError({"Error": {"Code": self.error}}, "GetFunctionConfiguration")
        return {"LoggingConfig": {"LogGroup": f"log of {request['FunctionName']}"}}

    def get_paginator(self, operation: str) -> "Logs":
        assert operation == "filter_log_events"
        return self

    def paginate(self, **request: Any) -> list[dict[str, Any]]:
        self.asked.append(request)
        line = f"REPORT RequestId: 1\tMemory Size: 512 MB\tMax Memory Used: {100 + len(self.asked)} MB"
        return [{"events": [{"message": line}]}, {"events": []}]

    def describe_state_machine(self, **request: str) -> dict[str, str]:
        definition = (ROOT / "statemachine" / f"{request['stateMachineArn']}.asl.json").read_text()
        return {"definition": definition.replace("${LaneStateMachineArn}", "lane")}


def asked_in(account: object, logs: Logs) -> Any:
    deployment = SimpleNamespace(outputs={"DispatchStateMachineArn": "dispatch"})
    return SimpleNamespace(account=account, deployment=deployment, stepfunctions=logs, client=lambda _: logs)


@pytest.mark.parametrize(
    ("path", "functions"),
    [
        ("paged", {"Dispatch page": "${DispatchPageFunctionArn}"}),
        ("full", {"Dispatch whole window": "${DispatchWindowFunctionArn}"}),
        (
            "grouped",
            {
                "Stage page": "${StagePageFunctionArn}",
                "Fold pages": "${FoldPagesFunctionArn}",
                "Merge bucket": "${MergeBucketFunctionArn}",
            },
        ),
    ],
    ids=["paged", "full", "grouped"],
)
def test_memory_is_that_of_the_functions_that_hold_bookings_while_the_run_worked(
    path: str, functions: dict[str, str]
) -> None:
    logs = Logs()

    used = memory_used(asked_in("account", logs), run_record(path=path), MADE)

    assert [(each.step, each.peak_mb) for each in used] == [(step, 101 + place) for place, step in enumerate(functions)]
    assert [request["logGroupName"] for request in logs.asked] == [f"log of {each}" for each in functions.values()]
    assert {request["startTime"] for request in logs.asked} == {int(BEGAN.timestamp()) * 1000}
    assert {request["endTime"] for request in logs.asked} == {int(BEGAN.timestamp() + 60) * 1000}


def test_memory_that_cannot_be_asked_for_is_none() -> None:
    assert memory_used(asked_in("account", Logs("AccessDeniedException")), run_record(), MADE) == []
    assert memory_used(asked_in(None, Logs()), run_record(), MADE) == []
    assert memory_used(asked_in("account", Logs()), run_record(path=None), MADE) == []


ENDS: list[tuple[dict[str, Any], Counts, str, str]] = [
    ({}, Counts(), "good", "Dispatched: No booking of this hour waited for a reward: there was nothing to dispatch."),
    (
        {},
        Counts(1, 5),
        "good",
        "Dispatched: None of the 5 bookings read of this hour waited for a reward: there was nothing to dispatch.",
    ),
    (
        {},
        Counts(1, 5, 1, 1, 0, 0, 1, 1),
        "good",
        "Dispatched: The one booking that waited is accounted for: 1 dispatched in 1 task.",
    ),
    (
        {},
        Counts(1, 5, 4, 0, 4),
        "good",
        "Dispatched: All 4 bookings that waited are accounted for: 4 dispatched before.",
    ),
    (
        {},
        Counts(2, 9000, 6000, 5000, 900, 100, 10, 1200),
        "good",
        (
            "Dispatched: All 6,000 bookings that waited are accounted for: 5,000 dispatched in 1,200 tasks,"
            " 900 dispatched before, 100 set aside as bad data."
        ),
    ),
    (
        {},
        Counts(1, 5, 4, 3),
        "bad",
        "Counts differ: It ended well, but not every booking that waited is accounted for.",
    ),
    (
        {"outcome": "DryRun", "dry_run": True},
        Counts(1, 5, 4, 3, 0, 1, 2, 2),
        "good",
        "Dry run: Nothing was changed: a run would dispatch 3 bookings in 2 tasks and set 1 aside.",
    ),
    (
        {"outcome": "AlreadyRunning", "detail": {"RunId": "another"}},
        Counts(),
        "warn",
        "Already running: It did nothing, since another worked on this hour.",
    ),
    (
        {"outcome": "Stopped"},
        Counts(1, 5, 4, 4, 0, 0, 2, 2),
        "warn",
        (
            "Stopped: The kill switch stopped it: 4 bookings dispatched in 2 tasks until then."
            " A resume goes on from there."
        ),
    ),
    (
        {"status": "RUNNING", "outcome": None, "ended": None},
        Counts(1, 5, 4, 4, 0, 0, 2, 2),
        "warn",
        "Running: It has not ended: so far 5 bookings read, 4 bookings dispatched in 2 tasks.",
    ),
    (
        {"status": "FAILED", "outcome": "LeaseLost", "detail": {"Page": 3, "Lane": 2}},
        Counts(1, 5, 4, 4, 0, 0, 2, 2),
        "bad",
        (
            "Failed: It ended with LeaseLost on page 3 of lane 2: 4 bookings dispatched in 2 tasks before that,"
            " the rest was not."
        ),
    ),
    (
        {"status": "ABORTED", "outcome": None},
        Counts(),
        "bad",
        "Failed: It ended with ABORTED: 0 bookings dispatched in 0 tasks before that, the rest was not.",
    ),
]


@pytest.mark.parametrize(("facts", "counts", "level", "told"), ENDS, ids=[end[3].partition(":")[0] for end in ENDS])
def test_every_end_is_told_in_one_sentence(facts: dict[str, Any], counts: Counts, level: str, told: str) -> None:
    report = report_of(run_record(totals=counts, **facts))

    found = verdict(report)

    assert (found.level, f"{found.word}: {found.sentence}") == (level, told)
    assert f'<span class="badge {level}">{found.word}</span>' in page(report)


def test_the_equality_is_told_as_it_is() -> None:
    right = report_of(run_record(totals=Counts(1, 9, 7, 4, 2, 1, 3, 3)))
    wrong = replace(right, counts=Counts(1, 9, 8, 4, 2, 1, 3, 3))

    assert "7 waiting = 4 dispatched + 2 dispatched before + 1 set aside" in text_of(right)
    assert "8 waiting \N{NOT EQUAL TO} 4 dispatched + 2 dispatched before + 1 set aside" in text_of(wrong)
    assert "Waiting, not accounted for 1" in text_of(wrong)


def test_what_nobody_recorded_is_said_to_be_not_recorded() -> None:
    dry_run, embedded = (
        text_of(REPORTS["dry-run"]()),
        text_of(replace(three_pages(), memory=(), places=places(embedded=True))),
    )

    assert "how many orders each task would hold is not recorded" in dry_run
    assert "Not recorded. The embedded AWS does not measure it; make bench-memory does." in embedded
    assert "It does not tell when each part was done" in text_of(REPORTS["full-path"]())


def test_the_last_chunk_of_the_full_path_does_not_seem_to_have_read_the_hour() -> None:
    assert "read only" not in text_of(REPORTS["full-path"]())
    assert "read only" in text_of(three_pages())


def test_a_reconcile_that_is_older_than_the_runs_end_says_so() -> None:
    before, after = REPORTS["extreme"](), three_pages()

    assert "It was taken before this run had ended." in text_of(before)
    assert "It was taken before" not in text_of(after)
    assert "No reconcile has compared this hour yet." in text_of(replace(after, reconciled=None))


def test_every_class_of_difference_is_explained() -> None:
    assert set(DIFFERENCES) == set(Difference)
    assert set(reconciled().counts) == {each.value for each in Difference}


def test_set_aside_files_are_named_up_to_a_number() -> None:
    text = text_of(REPORTS["three-thousand-pages"]())

    assert len(re.findall(r"0000-[0-9]{6}\.json", text)) == FILES_NAMED
    assert "and 40 more" in text


def test_the_command_to_go_on_with_is_told() -> None:
    assert "dispatchctl resume 2026-09-17T15" in text_of(REPORTS["failed"]())
    assert "dispatchctl resume" not in text_of(three_pages())


@pytest.mark.parametrize("still", [False, True])
def test_the_kill_switch_is_to_be_cleared_where_it_is_still_on(monkeypatch: pytest.MonkeyPatch, *, still: bool) -> None:
    monkeypatch.setattr("tools.command_line._typed", {"stage": "Sandbox"})

    text = text_of(report_of(run_record(outcome="Stopped"), still_stopped=still))

    assert ("dispatchctl --stage Sandbox stop --clear" in text) is still
    assert "dispatchctl --stage Sandbox resume 2026-09-17T15" in text
    assert "dispatchctl --stage Sandbox reconcile 2026-09-17T15" in text


def test_the_cost_is_the_runs_own() -> None:
    counts = counts_of(1_000_000, 900_000)

    cost = cost_of(run_record(), counts, "us-east-1")

    assert cost is not None
    assert cost.month == pytest.approx(sum(each.month for each in cost.services))
    assert cost.month == pytest.approx(cost.hour * 730)
    assert cost_of(run_record(), Counts(1), "us-east-1") is None
    assert cost_of(run_record(path=None), counts, "us-east-1") is None


def test_the_json_has_the_names_of_the_contract() -> None:
    told = to_json(REPORTS["failed"]())

    assert list(told) == [
        "Run",
        "MadeAt",
        "Counts",
        "Pages",
        "WholeWindow",
        "Tasks",
        "Faults",
        "Memory",
        "Reconciled",
        "Cost",
        "StillStopped",
        "Places",
    ]
    assert told["Counts"] == REPORTS["failed"]().counts.to_state()
    assert told["Run"]["WindowStart"] == "2026-09-17T15:00:00Z"
    assert json.loads(json.dumps(told)) == told


def test_no_rate_is_told_of_an_execution_that_went_on_with_the_counts_of_another() -> None:
    own = report_of(run_record(totals=Counts(1, 500)))
    went_on = replace(own, run=replace(own.run, run_id="20260917T150000Z-earlier"))

    assert "read a second" in text_of(own)
    assert "read a second" not in text_of(went_on)


def test_a_files_name_is_the_runs() -> None:
    other = run_record(execution="arn:aws:states:eu-west-1:1:execution:Dispatch:1a2b3c4d-5e6f")

    assert file_name(other) == "run-report-2026-09-17T15-1a2b3c4d.html"
    assert file_name(run_record(window=None)) == "run-report-no-hour-hourly.html"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (7, "7"), (950, "950"), (1500, "1.5k"), (25_000, "25k"), (3_000_000, "3M"), (2e9, "2G")],
)
def test_a_scale_has_short_numbers(value: float, text: str) -> None:
    assert compact(value) == text


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (0.3, 0.3), (1, 1), (1.2, 2), (412, 500), (1000, 1000), (1001, 2000)]
)
def test_a_scale_ends_at_a_round_number(value: float, top: float) -> None:
    assert nice_ceiling(value) == pytest.approx(top)
