"""What `make run` checks, how it shows pages and summaries, and what it does where another run works on the hour."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tools import demo
from tools.application import OnPage, Progress, QueuedTask, RunFailedError, Summary
from tools.demo import WrongCountError, check_counts, dispatch, page_line, table
from tools.samples import worked_example
from tools.seed import Partitions

SAMPLE = worked_example()
FIRST: Summary = {
    "Outcome": "Dispatched",
    "RunId": "run",
    "WindowStart": "2026-09-17T15:00:00Z",
    "WindowEnd": "2026-09-17T16:00:00Z",
    "Path": "paged",
    "PageSize": 1000,
    "Pages": 1,
    "Evaluated": 5,
    "Waiting": 4,
    "Dispatched": 4,
    "AlreadyDispatched": 0,
    "SetAside": 0,
    "Groups": 3,
    "Tasks": 3,
    "DurationSeconds": 2,
}
SECOND: Summary = FIRST | {"Dispatched": 0, "AlreadyDispatched": 4, "Groups": 0, "Tasks": 0}
TASKS = {
    name: QueuedTask("RewardPoint", name, {"OrderCount": orders}) for name, orders in (("A", 2), ("B", 1), ("C", 1))
}


def test_a_first_run_whose_counts_agree_is_accepted() -> None:
    check_counts(SAMPLE, FIRST, {}, TASKS)


def test_a_second_run_that_makes_no_task_is_accepted() -> None:
    check_counts(SAMPLE, SECOND, TASKS, TASKS)


def test_a_second_run_is_accepted_when_the_queues_were_emptied_in_between() -> None:
    check_counts(SAMPLE, SECOND, {}, {})


def test_a_run_that_completes_one_that_was_cut_off_is_accepted() -> None:
    # The cut-off run sent A; this one sends it again, and the queue drops the repeat.
    check_counts(SAMPLE, FIRST, {"A": TASKS["A"]}, TASKS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Evaluated": 4}, "Evaluated is 4 and must be 5"),
        ({"Waiting": 5, "Dispatched": 5}, "Waiting is 5 and must be 4"),
        ({"SetAside": 1, "Dispatched": 3}, "SetAside is 1 and must be 0"),
        ({"AlreadyDispatched": 1}, r"Dispatched \+ AlreadyDispatched \+ SetAside is 5 and must be 4"),
        ({"Tasks": 2}, "Tasks is 2 and must be 3"),
        ({"Dispatched": 3, "AlreadyDispatched": 1}, "Dispatched is 3 and must be 4"),
        ({"Dispatched": 0, "AlreadyDispatched": 4}, "Tasks is 3 and must be 0"),
    ],
)
def test_a_count_that_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongCountError, match=message):
        check_counts(SAMPLE, FIRST | change, {}, TASKS)


def test_a_task_that_is_missing_on_the_queues_is_noticed() -> None:
    with pytest.raises(WrongCountError, match="Tasks is 3 and must be 2"):
        check_counts(SAMPLE, FIRST, {}, {name: TASKS[name] for name in ("A", "B")})


def test_more_tasks_than_the_example_has_are_noticed() -> None:
    with pytest.raises(WrongCountError, match="Tasks is 3 and must be 2"):
        check_counts(replace(SAMPLE, tasks=2), FIRST, {}, TASKS)


def test_summaries_are_shown_side_by_side() -> None:
    shown = table(["One", "Two"], [FIRST, SECOND | {"Evaluated": 10_000}]).splitlines()

    assert shown[0] == f"{'':25}  {'One':>20}  {'Two':>20}"
    assert shown[1] == f"{'Outcome':25}  {'Dispatched':>20}  {'Dispatched':>20}"
    assert shown[6] == f"{'Pages':25}  {'1':>20}  {'1':>20}"
    assert shown[7] == f"{'Bookings evaluated':25}  {'5':>20}  {'10,000':>20}"


def test_the_full_path_reads_by_queries() -> None:
    shown = table(["One"], [FIRST | {"Path": "full"}]).splitlines()

    assert shown[6].split() == ["Queries", "1"]


@pytest.mark.parametrize(("path", "label"), [("paged", "Groups, summed over pages"), ("grouped", "Groups")])
def test_groups_of_the_window_are_no_sum_over_pages(path: str, label: str) -> None:
    shown = table(["One"], [FIRST | {"Path": path}]).splitlines()

    assert f"{label} 3" in [" ".join(line.split()) for line in shown]


def _progress(pages: int, *, has_more: bool, evaluated: int = 2_000) -> Progress:
    counts = {"Waiting": 1_747, "Dispatched": 1_742, "AlreadyDispatched": 0, "SetAside": 5, "Tasks": 1_315}
    return {"HasMore": has_more, "Totals": {"Pages": pages, "Evaluated": evaluated, **counts}}


def test_a_page_is_shown_with_counts_that_add_up() -> None:
    shown = " ".join(page_line(_progress(2, has_more=True), 1_000, 10.12).split())

    assert shown == (
        "2 pages, 2,000 bookings read, 1,747 waiting ="
        " 1,742 dispatched in 1,315 tasks + 0 dispatched before + 5 set aside 10.1 s"
    )


@pytest.mark.parametrize(
    ("progress", "records", "begin", "end"),
    [
        (_progress(1, has_more=False), 5, "1 page, ", "s"),
        (_progress(3, has_more=True), 0, "3 pages, ", "s"),
        (
            _progress(3, has_more=False),
            0,
            "3 pages, ",
            "(the last page is empty: only that says that there is no more)",
        ),
    ],
)
def test_only_a_last_page_without_records_is_said_to_be_empty(
    progress: Progress, records: int, begin: str, end: str
) -> None:
    shown = page_line(progress, records, 1.0).strip()

    assert shown.startswith(begin)
    assert shown.endswith(end)


class BusyHour:
    """An application whose hour is worked on by another run: its starts give the summaries in turn."""

    def __init__(self, *summaries: Summary) -> None:
        self.deployment = SimpleNamespace(outputs={"BookingTableName": "bookings"})
        self.partitions = Partitions()
        self.dynamodb: Any = SimpleNamespace(batch_write_item=lambda **_: {"UnprocessedItems": {}})
        self.summaries: Iterator[Summary] = iter(summaries)
        self.others = ["other"]
        self.followed: list[str] = []
        self.sent: dict[str, QueuedTask] = {}

    def start(self, run_input: dict[str, str]) -> str:
        assert run_input == SAMPLE.input
        return "own"

    def follow(self, execution: str, on_page: OnPage) -> Summary:
        self.followed.append(execution)
        if execution == "own":
            return next(self.summaries)
        on_page(_progress(1, has_more=True), 5)
        self.sent = TASKS
        self.others = []
        raise RunFailedError("stopped by hand")

    def running(self) -> list[str]:
        return self.others

    def tasks(self, _: str) -> dict[str, QueuedTask]:
        return self.sent


BUSY: Summary = SECOND | {"Outcome": "AlreadyRunning", "RunId": "left-behind", "HeldUntil": "2026-09-17T16:10:00Z"}


def test_a_run_that_works_on_the_hour_is_followed_to_its_end_and_then_the_hour_is_dispatched(
    capsys: pytest.CaptureFixture[str],
) -> None:
    application: Any = BusyHour(BUSY, SECOND)

    assert dispatch(application, SAMPLE) == SECOND

    assert application.followed == ["own", "other", "own"]
    shown = capsys.readouterr().out
    assert "run left-behind works on this hour, until 2026-09-17T16:10:00Z at the latest: waiting for its end" in shown
    assert "1 page," in shown


def test_a_run_that_never_gives_the_hour_back_is_given_up_when_its_lease_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("tools.demo.time.sleep", slept.append)
    monkeypatch.setattr("tools.demo.time.time", lambda: 1_789_661_430.0 + sum(slept))  # 16:10:30
    application: Any = BusyHour(BUSY, BUSY, BUSY, SECOND)
    application.others = []

    with pytest.raises(RunFailedError, match="run left-behind still holds this hour"):
        dispatch(application, SAMPLE)

    assert application.followed == ["own", "own"]
    assert slept == [demo.BUSY_POLL_SECONDS]
