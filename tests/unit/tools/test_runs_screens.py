"""What the commands about runs say: sentences, next commands, tables and JSON."""

import io
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from functions.domain.booking import BadRecord, Booking, is_waiting, read_booking
from functions.domain.errors import ERRORS_BY_NAME, InvalidInput
from functions.domain.run import Counts, Path
from functions.domain.window import Window
from tests.unit.tools.staged_runs import EXECUTIONS, ONE_PAGE, OUTPUTS, START, WINDOW, token, totals
from tools.application import Application
from tools.command_line import command_line
from tools.deployment import Deployment
from tools.dispatchctl.outcome import (
    ADVICE,
    balance,
    failure_view,
    next_commands,
    record_json,
    run_view,
    sentence,
    where,
)
from tools.dispatchctl.run import LINE, Way, check_ran, chosen_hours, line, went_on, work
from tools.dispatchctl.seed import check_own_table, examples
from tools.dispatchctl.shell import CommandError, ExitCode, Target, app
from tools.dispatchctl.show import ENDS, SLOWEST, Digest, faults_view, json_texts, pages_view, token_text
from tools.dispatchctl.status import WIDE, facts, overview_json, overview_view, queue_text, short_names
from tools.dispatchctl.units import seconds_text
from tools.runs.history import Fault
from tools.runs.overview import QUEUES, Flags, Overview, QueueState, overview, still_open
from tools.runs.records import PageRecord, RunRecord
from tools.samples import any_hour

NOW = START + timedelta(minutes=5)
RUN_ID = "20260917T160110Z-9f1e7431-19d6-4c0e-b0eb-5018e343e0d8"
NARROW = 100
APPLICATION = Application(Deployment("", "eu-west-1", OUTPUTS))
DONE = RunRecord(
    execution=f"{EXECUTIONS}:9f1e7431-19d6-4c0e-b0eb-5018e343e0d8",
    status="SUCCEEDED",
    started=START,
    ended=START + timedelta(seconds=21),
    run_id=RUN_ID,
    window=WINDOW,
    path="paged",
    page_size=1000,
    outcome="Dispatched",
    totals=Counts(11, 10_000, 8_746, 8_000, 726, 20, 5_044, 5_841),
    detail={},
    redrives=0,
)
FAILED = replace(
    DONE,
    status="FAILED",
    outcome="ConfigurationError",
    totals=totals(1),
    detail={"Error": "ConfigurationError", "Message": "PutObject: AccessDenied", "Page": 2, "Totals": {}},
)
RUNNING = replace(DONE, status="RUNNING", outcome=None, ended=None)
HELD = replace(
    DONE, outcome="AlreadyRunning", run_id=None, totals=Counts(), detail={"RunId": "20260917T160000Z-holder"}
)
REFUSED = replace(
    FAILED,
    outcome="InvalidInput",
    window=None,
    totals=None,
    detail={"Error": "InvalidInput", "Message": "Foo: unknown"},
)
HUGE = replace(FAILED, totals=Counts(12_345, 9_999_999, 9_999_999, 9_999_999, 9_999_999, 99_999, 9_999_999, 9_999_999))


def rendered(view: RenderableType, width: int = NARROW) -> str:
    """A screen as text."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(view)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def page(number: int, *, lane: int = 0, seconds: float | None = 0.5, finished: bool = True) -> PageRecord:
    return PageRecord(
        lane=lane,
        page=number,
        token=token(f"R{number}") if number > 1 else None,
        counts=ONE_PAGE,
        finished=finished,
        started=START,
        seconds=seconds,
        attempts=1,
    )


def overview_of(*runs: RunRecord, **other: Any) -> Overview:
    queue = QueueState(name="Points", waiting=4_380, in_flight=2, dead_letters=False)
    found: dict[str, Any] = {
        "taken_at": NOW,
        "flags": Flags(stopped=False, path=Path.PAGED, page_size=1000),
        "scheduled": True,
        "queues": [queue],
        "last": runs[0] if runs else None,
        "last_start": START,
        "runs": runs,
        "open": [],
        "redos": [],
    }
    return Overview(**(found | other))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            DONE,
            "read 10,000 bookings and dispatched 8,000 in 5,841 tasks; 726 dispatched before; 20 set aside as bad data",
        ),
        (DONE, "It took 21 s and ended 4 min 39 s ago."),
        (replace(DONE, outcome="DryRun"), "changed nothing; a run would dispatch 8,000 in 5,841 tasks"),
        (RUNNING, "has been at work for 5 min 00 s: 10,000 bookings read, 8,000 dispatched in 5,841 tasks so far"),
        (
            FAILED,
            "failed 4 min 39 s ago at page 2: ConfigurationError: PutObject: AccessDenied. Before that 10 bookings",
        ),
        (
            REFUSED,
            "an unknown hour failed 4 min 39 s ago at its start: InvalidInput: Foo: unknown. Before that nothing was",
        ),
        (HELD, "Nothing was done for 2026-09-17 15:00 to 16:00 UTC: run 20260917T160000Z-holder works on it."),
        (replace(DONE, outcome="Stopped"), "was stopped by the kill switch 4 min 39 s ago, behind 11 pages"),
    ],
    ids=["done", "when", "dry run", "running", "failed", "refused", "another one", "stopped"],
)
def test_what_a_run_did_is_one_sentence(record: RunRecord, said: str) -> None:
    assert said in sentence(record, NOW)


@pytest.mark.parametrize(
    ("detail", "place"),
    [
        ({"Page": 3}, "at page 3"),
        ({"Page": 3, "Path": "full"}, "at chunk 3"),
        ({"Page": 3, "Lane": 2001, "Step": "merge"}, "at page 3 of lane 2001 (merge)"),
        ({"Page": None, "Totals": {}}, "between its lanes"),
        ({}, "at its start"),
    ],
)
def test_a_failure_is_told_with_its_place(detail: Mapping[str, Any], place: str) -> None:
    assert f" {place}: ConfigurationError" in sentence(replace(FAILED, detail=detail), NOW)


@pytest.mark.parametrize(
    ("record", "commands"),
    [
        (DONE, []),
        (FAILED, ["dispatchctl resume 2026-09-17T15"]),
        (
            replace(FAILED, outcome="TooManyBadRecords"),
            ["dispatchctl run --hour 2026-09-17T15", "dispatchctl resume 2026-09-17T15"],
        ),
        (replace(FAILED, gone_on_by="second"), ["dispatchctl show second"]),
        (replace(FAILED, dry_run=True), ["dispatchctl run --hour 2026-09-17T15 --dry-run"]),
        (replace(FAILED, outcome="LeaseLost"), ["dispatchctl status --hour 2026-09-17T15"]),
        (REFUSED, ["dispatchctl run --help"]),
        (HELD, ["dispatchctl show 20260917T160000Z-holder --follow"]),
        (replace(DONE, outcome="Stopped"), ["dispatchctl stop --clear", "dispatchctl resume 2026-09-17T15"]),
        (
            RUNNING,
            [
                "dispatchctl show 9f1e7431-19d6-4c0e-b0eb-5018e343e0d8 --follow",
                "dispatchctl stop --execution 9f1e7431-19d6-4c0e-b0eb-5018e343e0d8",
            ],
        ),
    ],
    ids=["done", "failed", "bad records", "gone on", "dry run", "lost", "refused", "another one", "stopped", "running"],
)
def test_the_next_command_is_told_exactly(record: RunRecord, commands: list[str]) -> None:
    assert [step.command for step in next_commands(record)] == commands


def test_a_kill_switch_that_is_off_is_not_to_be_cleared() -> None:
    stopped = replace(DONE, outcome="Stopped")
    off = overview_of(stopped)
    on = overview_of(stopped, flags=Flags(stopped=True, path=Path.PAGED, page_size=1000))

    assert [step.command for step in next_commands(stopped, is_stopped=False)] == ["dispatchctl resume 2026-09-17T15"]
    assert "stop --clear" not in rendered(overview_view(off, wide=False))
    assert "stop --clear" not in rendered(run_view(APPLICATION, stopped, NOW, is_stopped=False))
    assert [value.split("  #")[0] for name, value in facts(on) if name == "Next"] == [
        "dispatchctl stop --clear",
        "dispatchctl resume 2026-09-17T15",
    ]


@pytest.mark.parametrize(("values", "told"), [({}, False), ({"/stop": "true"}, True)])
def test_show_looks_whether_the_kill_switch_is_still_on(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], *, told: bool
) -> None:
    monkeypatch.setattr(Target, "application", lambda _: Account(values).application)
    monkeypatch.setattr("tools.dispatchctl.show.find_run", lambda *_: replace(DONE, outcome="Stopped"))
    monkeypatch.setattr("tools.dispatchctl.show.pages_of", lambda *_: iter(()))
    monkeypatch.setattr("tools.dispatchctl.show.faults_of", lambda *_: iter(()))

    said = CliRunner().invoke(app, ["show"]).output

    assert "dispatchctl resume 2026-09-17T15" in said
    assert ("stop --clear" in said) is told


def test_the_times_of_an_execution_that_went_on_are_said_to_be_its_own() -> None:
    went_on_with = replace(DONE, run_id="20260917T150000Z-earlier")

    assert "It took 21 s in this execution and ended" in sentence(went_on_with, NOW)
    assert "16:01:31 UTC, 21 s in this execution" in rendered(run_view(APPLICATION, went_on_with, NOW))
    assert "in this execution" in sentence(replace(went_on_with, status="RUNNING", outcome=None, ended=None), NOW)
    assert "in this execution" not in rendered(run_view(APPLICATION, DONE, NOW))


@pytest.mark.parametrize(
    ("typed", "environment", "prefix"),
    [
        ([], {}, "dispatchctl"),
        (["--stage", "Sandbox", "--profile", "on call"], {}, "dispatchctl --stage Sandbox --profile 'on call'"),
        (["--region", "eu-west-1"], {"DISPATCHER_STAGE": "Sandbox"}, "dispatchctl --region eu-west-1"),
    ],
    ids=["nothing typed", "typed", "of the environment"],
)
def test_the_command_to_be_typed_next_is_for_the_same_application(
    monkeypatch: pytest.MonkeyPatch, typed: list[str], environment: dict[str, str], prefix: str
) -> None:
    monkeypatch.setattr("tools.command_line._typed", {})
    CliRunner().invoke(app, [*typed, "run", "--help"], env=environment)

    assert command_line("status") == f"{prefix} status"
    assert next_commands(FAILED)[0].command == f"{prefix} resume 2026-09-17T15"


def test_each_error_has_its_advice() -> None:
    assert set(ERRORS_BY_NAME) <= set(ADVICE)


def test_a_failure_names_the_files_of_bad_records_and_their_limit() -> None:
    text = failure_view(APPLICATION, replace(FAILED, outcome="TooManyBadRecords"))

    assert f"s3://bucket/set-aside/2026-09-17/15/{RUN_ID}/" in text
    assert "ssm put-parameter --overwrite --name /limit --value NUMBER" in text
    assert "next   dispatchctl run --hour 2026-09-17T15 " in text
    assert "next   dispatchctl resume 2026-09-17T15 " in text
    assert "s3://" not in failure_view(APPLICATION, FAILED)


@pytest.mark.parametrize(
    ("partition", "url"),
    [
        ("aws", "https://eu-west-1.console.aws.amazon.com/states/home?region=eu-west-1#/v2/executions/details/"),
        ("aws-cn", "https://console.amazonaws.cn/states/home?region=eu-west-1#/v2/executions/details/"),
    ],
)
def test_the_console_of_an_account_is_linked_and_the_embedded_aws_has_none(partition: str, url: str) -> None:
    execution = DONE.execution.replace("arn:aws:", f"arn:{partition}:")
    account = replace(APPLICATION, account=boto3.Session(region_name="eu-west-1"))

    assert where(account, execution) == f"{url}{execution}"
    assert where(APPLICATION, execution) == execution


def test_the_counts_add_up_or_it_is_said() -> None:
    assert balance(ONE_PAGE) == "8 waiting = 5 dispatched + 2 before + 1 set aside  (adds up)"
    assert balance(replace(ONE_PAGE, dispatched=4)).endswith(
        "≠ 4 dispatched + 2 before + 1 set aside  (DOES NOT ADD UP)"
    )


@pytest.mark.parametrize("record", [DONE, FAILED, RUNNING, HELD, REFUSED, HUGE])
def test_a_runs_facts_fit_into_a_hundred_columns(record: RunRecord) -> None:
    text = rendered(run_view(APPLICATION, replace(record, detail={**record.detail, "Message": "[bold]x[/]"}), NOW))

    assert "…" not in text
    assert text.count("[bold]x[/]") == (0 if record.ended_well or record.is_running else 2)


@pytest.mark.parametrize("count", [3, 3_000])
def test_of_many_pages_the_first_the_last_and_the_slowest_are_shown(count: int) -> None:
    pages = (page(number, seconds=9.0 if number == 1_500 else 0.5) for number in range(1, count + 1))
    digest = Digest.of(pages)
    text = rendered(pages_view(DONE, digest))

    assert "…" not in text
    assert digest.lanes[0].counts == totals(count)
    assert len(digest.first) + len(digest.last) == min(count, 2 * ENDS)
    assert digest.left_out == max(0, count - 2 * ENDS)
    assert ("2,960 pages between them are left out; `--all` shows them." in text) is (count > 3)
    assert max(map(len, text.splitlines())) <= NARROW
    assert digest.slowest[0].page == (1_500 if count > 3 else 1)
    assert len(digest.slowest) == min(count, SLOWEST)
    assert len(text.splitlines()) < 60


def test_pages_and_lanes_of_the_largest_counts_fit_into_a_hundred_columns() -> None:
    much = Counts(9_999, 9_999_999, 9_999_999, 9_999_999, 9_999_999, 9_999, 9_999_999, 9_999_999)
    lanes = Digest.of(replace(page(number, lane=2000 + number), counts=much) for number in (1, 2))
    full = Counts(1, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000)
    many = [replace(page(9_999, lane=239, seconds=312.0), counts=full, token=token("R" * 99)) for _ in range(99)]

    lanes.first = []
    for digest in (lanes, Digest.of(many)):
        text = rendered(pages_view(DONE, digest))
        assert "…" not in text
        assert len({len(line.rstrip()) for line in text.splitlines() if "9,999" in line or "RRR" in line}) == 1


def test_a_page_that_is_not_finished_is_told_as_open() -> None:
    text = rendered(pages_view(DONE, Digest.of([page(1), page(2, finished=False)])))

    assert [line.split()[8] for line in text.splitlines()[-2:]] == ["0.5", "open"]


def test_all_pages_are_shown_when_all_are_asked_for() -> None:
    digest = Digest.of(map(page, range(1, 101)), every=True)

    assert digest.left_out == 0
    assert all(f" {number} " in rendered(pages_view(DONE, digest)) for number in range(1, 101))


def test_lanes_are_shown_with_their_steps_and_whether_they_are_done() -> None:
    pages = [page(1), page(1, lane=1, finished=False), page(1, lane=1000), page(1, lane=2000)]
    lines = rendered(pages_view(replace(DONE, path="grouped"), Digest.of(pages))).splitlines()
    ends = [line.split()[-2:] for line in lines[3:7]]

    assert ends == [["stage", "done"], ["stage", "open"], ["fold", "done"], ["merge", "done"]]


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (None, "the start"),
        (token("R2"), "15:20:00Z R2"),
        (token("R2") | {"BookingDateUTC": {"S": "2026-09-17#3"}}, "15:20:00Z R2 #3"),
        (token("R" * 40), "15:20:00Z RRRRRRR..."),
        ({"From": {"N": "10"}, "To": {"N": "20"}}, "buckets 10 to 20"),
        ({"From": {"N": "10"}, "To": {"N": "20"}, "After": {"S": "e5" * 32}}, "group e5e5e5e5e5e..."),
    ],
)
def test_a_token_is_shortened_to_where_it_is(start: dict[str, dict[str, str]] | None, text: str) -> None:
    assert token_text(start) == text


def test_why_there_are_no_pages_is_said() -> None:
    assert "no page was planned" in rendered(pages_view(FAILED, Digest.of([])))
    assert "a dry run in one call tells no pages" in rendered(pages_view(replace(DONE, dry_run=True), Digest.of([])))


def test_failed_attempts_are_told_whole_and_only_the_last_of_many() -> None:
    fault = Fault(at=START, step="Dispatch page", lane=3, page=2, attempt=1, error="E", message="[x] " + "long " * 40)
    text = rendered(faults_view([replace(fault, attempt=number) for number in range(1, 31)]))

    assert "Attempts that failed (30, the last of them)" in text
    assert "2 of lane 3" in text
    assert text.count("long") == 20 * 40
    assert text.count("[x]") == 20


def test_a_runs_json_is_streamed_and_whole() -> None:
    fault = Fault(at=START, step="Plan run", lane=None, page=None, attempt=1, error="E", message="m")
    texts = json_texts(FAILED, map(page, range(1, 4)), iter([fault]), NOW)
    run = json.loads("\n".join(texts))

    assert {name: run[name] for name in record_json(FAILED, NOW)} == record_json(FAILED, NOW)
    assert [each["Page"] for each in run["Pages"]] == [1, 2, 3]
    assert run["Pages"][1] == {
        "Lane": 0,
        "Step": "dispatch",
        "Page": 2,
        "Token": token("R2"),
        "Counts": ONE_PAGE.to_state(),
        "Finished": True,
        "StartedAt": "2026-09-17T16:01:10Z",
        "Seconds": 0.5,
        "Attempts": 1,
    }
    assert [each["Step"] for each in run["Faults"]] == ["Plan run"]
    assert json.loads("\n".join(json_texts(DONE, (), (), NOW)))["Pages"] == []


@pytest.mark.parametrize("width", [80, NARROW, WIDE])
def test_the_status_fits_its_screen(width: int) -> None:
    text = rendered(overview_view(overview_of(RUNNING, HUGE, DONE, FAILED, HELD, REFUSED), wide=width >= WIDE), width)

    assert "…" not in text
    assert {"2026-09-17T15", RUNNING.name[:8], "ConfigurationError", "AlreadyRunning"} <= {*text.split()}
    assert max(map(len, text.splitlines())) <= width
    assert "9,999,999" in text
    assert "Points: 4,380 + 2 at work" in text


def test_what_is_too_long_for_the_status_is_folded_and_not_cut() -> None:
    names = [f"dispatch-of-the-night-and-the-hour-{n}" for n in (1, 2)]
    place = f"s3://bucket/{'0123456789' * 9}"
    yesterday = replace(HUGE, started=START - timedelta(days=1), detail={"Message": place})
    runs = [replace(yesterday, execution=f"{EXECUTIONS}:{name}") for name in names]

    text = rendered(overview_view(overview_of(*runs), wide=False), 80)

    assert "…" not in text
    assert place in "".join(line.strip() for line in text.splitlines())
    head, *rows = text[text.index("Hour ") :].splitlines()
    cells = "".join(row[: head.index("Outcome")].strip() for row in rows)
    assert all(name in cells for name in names)


@pytest.mark.parametrize(
    ("other", "first"),
    [
        ({"flags": Flags(stopped=True, path=Path.FULL, page_size=1000)}, "STOPPED"),
        ({"last_start": NOW - timedelta(hours=2, seconds=1)}, "LATE"),
        ({"queues": [QueueState(name="Dead", waiting=0, in_flight=1, dead_letters=True)]}, "DEAD"),
        ({"runs": [RUNNING]}, "Running"),
        ({}, "Last run"),
        ({"scheduled": None, "last_start": NOW - timedelta(days=9)}, "Last run"),
        ({"scheduled": False, "last_start": NOW - timedelta(days=9)}, "Last run"),
        ({"last_start": NOW - timedelta(hours=2)}, "Last run"),
    ],
    ids=[
        "stop is on",
        "late",
        "dead letters",
        "running",
        "all well",
        "schedule unknown",
        "no schedule",
        "not yet late",
    ],
)
def test_the_first_line_of_the_status_is_what_matters_most(other: dict[str, Any], first: str) -> None:
    assert next(facts(overview_of(DONE, **other)))[0] == first


@pytest.mark.parametrize(("waiting", "told"), [(0, "no dead letters"), (2, "Points, dead letters: 2")])
def test_a_dead_letter_queue_is_named_if_anything_lies_on_it(waiting: int, told: str) -> None:
    queues = [
        QueueState(name="Coupons", waiting=0, in_flight=0, dead_letters=False),
        QueueState(name="Points, dead letters", waiting=waiting, in_flight=0, dead_letters=True),
    ]

    assert dict(facts(overview_of(DONE, queues=queues)))["Queues"] == f"Coupons: 0   {told}"


def test_a_stack_from_before_a_queue_had_its_output_has_a_status_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OUTPUTS, "WatchDeadLetterQueueUrl")

    assert len(overview(Account({}).application, NOW, 20).queues) == len(QUEUES) - 1


def test_the_status_before_the_first_run_says_so() -> None:
    found = overview_of(scheduled=True, last_start=None)

    assert "No run is known." in rendered(overview_view(found, wide=False))
    assert next(facts(found)) == ("LATE", "The schedule starts a run every hour, and no run was ever started.")


def test_the_status_for_machines_says_the_same() -> None:
    found = overview_json(overview_of(FAILED))

    assert json.loads(json.dumps(found)) == found
    assert (found["Late"], found["Stopped"], found["NextPath"], found["SecondsSinceLastRun"]) == (
        False,
        False,
        "paged",
        300,
    )
    assert found["LastRun"]["Says"] == sentence(FAILED, NOW)
    assert found["Queues"] == [
        {"Name": "Points", "Messages": 4_380, "InFlight": 2, "DeadLetters": False, "Gone": False}
    ]


def test_names_are_cut_to_what_tells_them_apart() -> None:
    assert short_names(["4d1dd2ca-11", "4d1dd2ca-12", "b85c6376-0"]) == {
        "4d1dd2ca-11": "4d1dd2ca-11",
        "4d1dd2ca-12": "4d1dd2ca-12",
        "b85c6376-0": "b85c6376-0",
    }
    assert list(short_names(["4d1dd2ca-11", "b85c6376-0"]).values()) == ["4d1dd2ca", "b85c6376"]


@pytest.mark.parametrize(
    ("options", "hours"),
    [
        ((None, None, None), ["2026-09-17T15"]),
        (("2026-09-01T00", None, None), ["2026-09-01T00"]),
        ((None, "2026-09-16T23", "2026-09-17T01"), ["2026-09-16T23", "2026-09-17T00", "2026-09-17T01"]),
        ((None, "2026-09-17T14", None), ["2026-09-17T14", "2026-09-17T15"]),
    ],
)
def test_the_hours_of_a_run_are_one_or_a_range_or_the_last_closed_one(
    options: tuple[str | None, str | None, str | None], hours: list[str]
) -> None:
    assert [f"{each.start:%Y-%m-%dT%H}" for each in chosen_hours(*options, NOW)] == hours


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("2026-09-01T00", "2026-09-01T00", None), "--hour: given together"),
        ((None, None, "2026-09-01T00"), "--to: given without"),
        ((None, "2026-09-01T02", "2026-09-01T01"), "--from: 2026-09-01T02 lies behind"),
    ],
)
def test_hours_that_contradict_each_other_are_refused(
    options: tuple[str | None, str | None, str | None], why: str
) -> None:
    with pytest.raises(CommandError, match=f"^{why}"):
        chosen_hours(*options, NOW)
    with pytest.raises(InvalidInput):
        chosen_hours("yesterday", None, None, NOW)


@pytest.mark.parametrize(
    ("before", "ended", "said"),
    [
        (RUN_ID, None, f"Went on with run {RUN_ID}"),
        ("other", "Dispatched", f"Began a new run, {RUN_ID}: the last one, other, had come to its end."),
        ("other", "Failed", f"Began a new run, {RUN_ID}: the last one, other, could not be gone on with."),
        (None, None, f"Began a new run, {RUN_ID}: none of this hour was known."),
    ],
)
def test_a_resume_says_whether_it_went_on(before: str | None, ended: str | None, said: str) -> None:
    assert went_on(DONE, before, ended).startswith(said)


def test_a_resume_that_found_another_at_work_went_on_with_nothing() -> None:
    assert went_on(HELD, RUN_ID, None) == "Nothing was gone on with."


def test_a_line_of_a_range_is_as_wide_as_its_head() -> None:
    head = LINE.format("Hour", "Outcome", "Pages", "Read", "Dispatched", "Before", "Aside", "Tasks", "Took")

    assert len(head) <= NARROW
    assert {len(line(record)) for record in (DONE, FAILED, HUGE)} == {len(head)}


@pytest.mark.parametrize(
    ("way", "fields"),
    [
        (Way.FULL, {"PaginationEnabled": False}),
        (Way.PAGED, {"PaginationEnabled": True, "Grouping": "page"}),
        (Way.GROUPED, {"PaginationEnabled": True, "Grouping": "window"}),
    ],
)
def test_a_path_is_asked_for_by_the_fields_of_the_input(way: Way, fields: dict[str, Any]) -> None:
    assert way.fields == fields


def test_a_grouped_run_is_half_done_when_all_is_read() -> None:
    read, merged = Counts(evaluated=100), Counts(evaluated=100, waiting=90)

    assert work("grouped", read) == 100
    assert work("grouped", merged) == 190
    assert work("paged", merged) == 100


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 00 min"),
        (100_000, "1 d 03 h"),
    ],
)
def test_a_duration_is_written_with_its_units(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


class Account:
    """An account whose services answer what is asked of them here."""

    def __init__(
        self, values: Mapping[str, str], *, schedule: str = "ENABLED", made: str = "bookings", gone: str = ""
    ) -> None:
        self._values, self._schedule, self._made, self._gone = values, schedule, made, gone

    def get_parameters(self, Names: list[str]) -> dict[str, Any]:  # noqa: N803 - AWS's name
        return {"Parameters": [{"Name": name, "Value": self._values[name]} for name in Names if name in self._values]}

    def get_schedule(self, Name: str) -> dict[str, str]:  # noqa: N803 - AWS's name
        return {"Name": Name, "State": self._schedule}

    def get_queue_attributes(self, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:  # noqa: N803 - AWS's names
        if QueueUrl == self._gone:
            code = "AWS.SimpleQueueService.NonExistentQueue"
            raise ClientError({"Error": {"Code": code, "Message": ""}}, "GetQueueAttributes")
        counts = dict.fromkeys(AttributeNames, "0")
        return {"Attributes": counts | {"ApproximateNumberOfMessages": "2" if "dead" in QueueUrl else "0"}}

    def list_executions(self, **_: Any) -> dict[str, Any]:
        return {"executions": []}

    def get_paginator(self, operation: str) -> "Account":
        assert operation in {"list_executions", "list_stack_resources"}
        return self

    def paginate(self, **_: str) -> list[dict[str, Any]]:
        resources = [{"LogicalResourceId": "NotMadeYet"}, {"PhysicalResourceId": self._made}]
        return [{"executions": [], "StackResourceSummaries": resources}]

    @property
    def application(self) -> Application:
        application = Application(Deployment("", "eu-west-1", OUTPUTS))
        application.__dict__.update(client=lambda _: self, stepfunctions=self, dynamodb=self)
        return application


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ({}, Flags(stopped=False, path=Path.FULL, page_size=1000)),
        (
            {"/stop": "true", "/paging": "True", "/grouping": "window", "/page-size": "50"},
            Flags(stopped=True, path=Path.GROUPED, page_size=50),
        ),
        ({"/paging": "yes", "/grouping": "window"}, Flags(stopped=False, path=Path.FULL, page_size=1000)),
    ],
    ids=["nothing is set", "all is set", "no clear true"],
)
def test_the_overview_reads_the_parameters_as_a_run_does(values: dict[str, str], flags: Flags) -> None:
    found = overview(Account(values).application, NOW, 20)

    assert found.flags == flags
    assert (found.scheduled, found.is_late, found.last) == (True, True, None)
    assert found.dead_letters == 10


def test_the_last_run_is_none_that_only_looked_or_found_another_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    dry = replace(DONE, dry_run=True, outcome="DryRun")
    ended, begun = replace(DONE, run_id="ended"), replace(RUNNING, run_id="begun", started=START + timedelta(minutes=1))
    monkeypatch.setattr("tools.runs.overview.recent", lambda *_: [dry, HELD, begun, ended, DONE])
    monkeypatch.setattr("tools.runs.overview.running", lambda _: [begun])

    found = overview(Account({}).application, NOW, 3)

    assert found.last == ended
    assert found.idle_seconds == 240


def test_the_runs_of_the_overview_begin_with_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    old = replace(RUNNING, execution=f"{EXECUTIONS}:redriven")
    monkeypatch.setattr("tools.runs.overview.recent", lambda *_: [DONE])
    monkeypatch.setattr("tools.runs.overview.running", lambda _: [old])

    assert overview(Account({}).application, NOW, 20).runs == [old, DONE]


def test_a_queue_that_is_gone_is_told_as_gone_and_the_others_are_counted() -> None:
    found = overview(Account({}, gone="https://points").application, NOW, 20)

    assert [queue.gone for queue in found.queues] == [True, *[False] * 6]
    assert queue_text(found.queues[0]) == "Points: gone"
    assert overview_json(found)["Queues"][0]["Gone"] is True
    assert found.dead_letters == 10


LATER = replace(DONE, window=WINDOW.next, started=START + timedelta(hours=1))


@pytest.mark.parametrize(
    ("records", "left"),
    [
        ([LATER, FAILED], [FAILED]),
        ([LATER, replace(DONE, outcome="Stopped")], [replace(DONE, outcome="Stopped")]),
        ([replace(DONE, dry_run=True, outcome="DryRun"), HELD, FAILED], [FAILED]),
        ([replace(FAILED, outcome="InvalidInput"), FAILED], [FAILED]),
        ([LATER, FAILED, replace(LATER, status="FAILED", outcome="ABORTED")], [FAILED]),
        ([DONE, FAILED], []),
        ([RUNNING, FAILED], []),
        ([replace(FAILED, gone_on_by="second")], []),
        ([replace(FAILED, dry_run=True), REFUSED], []),
    ],
    ids=[
        "another hour is done",
        "stopped",
        "looked at since",
        "refused since",
        "mended since",
        "run again",
        "at work",
        "gone on with",
        "no run",
    ],
)
def test_an_hour_is_open_until_a_run_of_it_has_come_to_its_end(records: list[RunRecord], left: list[RunRecord]) -> None:
    assert still_open(records) == left


def test_the_status_tells_each_hour_that_is_open_and_what_closes_it() -> None:
    bad = replace(FAILED, window=WINDOW.previous, outcome="TooManyBadRecords", detail={"Page": 1})
    stopped = replace(DONE, window=WINDOW.previous.previous, outcome="Stopped")
    found = overview_of(LATER, open=[FAILED, bad, stopped])

    assert [value for name, value in facts(found) if name == "Open"] == [
        (
            "dispatchctl resume 2026-09-17T15  # 2026-09-17 15:00 to 16:00 UTC failed at page 2:"
            " ConfigurationError: PutObject: AccessDenied"
        ),
        "dispatchctl run --hour 2026-09-17T14  # 2026-09-17 14:00 to 15:00 UTC failed at page 1: TooManyBadRecords",
        "dispatchctl resume 2026-09-17T13  # 2026-09-17 13:00 to 14:00 UTC was stopped",
    ]
    assert len(overview_json(found)["Open"]) == 3
    assert "Open" not in dict(facts(overview_of(FAILED, open=[FAILED])))


def test_dry_runs_hide_no_hour_that_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    dry = [replace(DONE, dry_run=True, outcome="DryRun")] * 50
    monkeypatch.setattr("tools.runs.overview.recent", lambda _, limit: [*dry, FAILED][:limit])
    monkeypatch.setattr("tools.runs.overview.running", lambda _: [])

    found = overview(Account({}).application, NOW, 3)

    assert (found.last, found.open) == (FAILED, [FAILED])
    assert found.runs == dry[:3]


def test_an_hour_that_never_ran_is_not_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [replace(DONE, dry_run=True, outcome="DryRun"), HELD]
    monkeypatch.setattr(Target, "application", lambda _: Account({}).application)
    monkeypatch.setattr("tools.dispatchctl.run.DynamoJournal.last_run", lambda *_: None)
    monkeypatch.setattr("tools.dispatchctl.run.of_hour", lambda *_: known)

    result = CliRunner().invoke(app, ["resume", "2026-09-17T15"])

    assert isinstance(result.exception, CommandError)
    assert result.exception.code is ExitCode.NOT_FOUND
    assert "`dispatchctl run --hour 2026-09-17T15` starts one" in str(result.exception)
    known.append(FAILED)
    check_ran(APPLICATION, WINDOW)


@pytest.mark.parametrize(("hour", "noted"), [("9000-01-01T00", True), ("2026-09-17T15", False)])
def test_a_run_of_an_hour_that_has_not_ended_says_what_it_leaves(
    monkeypatch: pytest.MonkeyPatch, hour: str, *, noted: bool
) -> None:
    monkeypatch.setattr(Target, "application", lambda _: APPLICATION)
    monkeypatch.setattr("tools.dispatchctl.run._followed", lambda *_: DONE)

    result = CliRunner().invoke(app, ["run", "--hour", hour])

    assert result.exit_code == 0
    assert ("this hour has not ended: what is booked for it later is dispatched by a later run" in result.stderr) is (
        noted
    )


def test_more_hours_than_anybody_means_are_run_only_if_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Window] = []

    def followed(_: Application, window: Window, __: Mapping[str, Any]) -> RunRecord:
        done.append(window)
        return DONE

    monkeypatch.setattr(Target, "application", lambda _: APPLICATION)
    monkeypatch.setattr("tools.dispatchctl.run._followed", followed)
    line = ["run", "--from", "2026-09-01T00", "--to", "2026-09-09T08"]

    result = CliRunner().invoke(app, line)

    assert isinstance(result.exception, CommandError)
    assert (result.exception.code, done) == (ExitCode.USAGE, [])
    assert CliRunner().invoke(app, [*line, "--yes"]).exit_code == 0
    assert len(done) == 201
    assert CliRunner().invoke(app, [*line[:-1], "2026-09-09T07"]).exit_code == 0


def test_a_seeded_hour_names_records_to_look_at() -> None:
    made = any_hour(WINDOW, 100, bad=3)
    found = examples(made, 3)
    by_id = {booking["RecordId"]["S"]: booking for booking in made}

    assert is_waiting(by_id[found["one that waits"]])
    assert not is_waiting(by_id[found["one that does not wait"]])
    assert isinstance(read_booking(by_id[found["one that is bad data"]], ["RecordId"]), BadRecord)
    assert isinstance(read_booking(by_id[found["one that waits"]], ["RecordId"]), Booking)
    assert set(examples(made, 0)) == {"one that waits", "one that does not wait"}


def test_a_seeding_prints_how_its_records_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "application", lambda _: Account({}).application)
    monkeypatch.setattr("tools.dispatchctl.seed.check_own_table", lambda *_: None)
    monkeypatch.setattr("tools.dispatchctl.seed.put_new", lambda *given: len(given[2]))

    said = CliRunner().invoke(app, ["seed", "--hour", "2026-09-17T15", "--bookings", "100", "--bad", "1"]).stdout

    assert re.search(r"dispatchctl why S0-20260917T15-\d{7}  # one that waits\n", said)
    assert said.count("dispatchctl why S0-20260917T15-") == 3


def test_an_imported_table_is_not_seeded() -> None:
    check_own_table(Account({}).application, "stack")

    with pytest.raises(CommandError, match="bookings was not made by stack: it is imported"):
        check_own_table(Account({}, made="another").application, "stack")
