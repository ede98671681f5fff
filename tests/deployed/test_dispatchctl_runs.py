"""`dispatchctl` as an operator calls it: the commands that start, end and show runs, against what is deployed."""

import json
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from functions.domain.run import Counts
from tests.deployed.application import Application
from tests.deployed.conftest import COMMAND, Ctl, environment
from tests.deployed.wire import HOLD_SECONDS, Call, Fault, wait_until
from tools.workspace import ROOT, Workspace


@pytest.fixture
def hour(application: Application) -> str:
    """An hour that is this test's own, as commands take it."""
    return f"{application.past_day().date}T10"


@contextmanager
def held_back(application: Application, hour: str) -> Iterator[None]:
    """For the length of a block no page of an hour's date is read: whoever reads one waits."""
    goes_on = threading.Event()

    def react(call: Call) -> Fault | None:
        if application.is_query_of_bookings(call) and hour[:10] in json.dumps(call.request):
            goes_on.wait(HOLD_SECONDS)
        return None

    with application.wire.reacting(react):
        try:
            yield
        finally:
            goes_on.set()


def records(application: Application, hour: str) -> list[str]:
    """The records that were dispatched in an hour, by the ledger; one that was dispatched twice stands there twice."""
    return application.effects(f"{hour}:00:00Z").in_ledger


def test_a_fresh_hour_is_seeded_run_and_shown(application: Application, ctl: Ctl, hour: str) -> None:
    assert ctl(f"seed --hour {hour} --bookings 120 --members 30").out.startswith("120 bookings put into ")

    printed = ctl(f"run --hour {hour} --path paged --page-size 50 --json").json

    (run,) = printed["Runs"]
    totals = run["Totals"]
    assert (run["Outcome"], run["Path"], run["PageSize"], totals["Evaluated"]) == ("Dispatched", "paged", 50, 120)
    assert totals["Waiting"] == totals["Dispatched"] + totals["AlreadyDispatched"] + totals["SetAside"] > 80
    assert len(records(application, hour)) == totals["Dispatched"]
    shown = ctl(f"show {hour} --json").json
    assert {**run, "Pages": 0, "Faults": []} == {**shown, "Pages": 0}
    assert [page["Page"] for page in shown["Pages"]] == [1, 2, 3]
    assert sum((Counts.from_state(page["Counts"]) for page in shown["Pages"]), Counts()).to_state() == totals
    assert all(page["Seconds"] > 0 and page["Attempts"] == 1 for page in shown["Pages"])
    screen = ctl(f"show {run['RunId']}").out
    assert (
        f"{totals['Waiting']} waiting = {totals['Dispatched']} dispatched + 0 before + 0 set aside  (adds up)" in screen
    )
    assert "Pages (3)" in screen
    assert ctl(f"show {run['Execution'].rpartition(':')[2][:8]} --json").json["RunId"] == run["RunId"]


def test_seeding_again_overwrites_nothing(application: Application, ctl: Ctl, hour: str) -> None:
    ctl(f"seed --hour {hour} --bookings 20")
    ctl(f"run --hour {hour}")
    dispatched = records(application, hour)

    printed = ctl(f"seed --hour {hour} --bookings 30 --members 7").out

    assert printed.startswith("10 bookings put into ")
    assert "; 20 of the same names were there, and stay as they are." in printed
    ctl(f"run --hour {hour}")
    assert len(set(records(application, hour))) == len(records(application, hour)) > len(dispatched)


def test_a_failed_run_exits_with_1_and_the_command_that_it_names_goes_on_with_it(
    application: Application, ctl: Ctl, hour: str
) -> None:
    ctl(f"seed --hour {hour} --bookings 100 --bad 20")
    with application.parameter("SetAsideLimitParameter", "3"):
        failed = ctl(f"run --hour {hour} --path paged --page-size 20", expect=1)

    assert "TooManyBadRecords" in failed.err
    (files,) = re.findall(r"files +s3://[^/]+/(\S+)", failed.err)
    assert application.keys(files)
    anew, command = re.findall(r"next +dispatchctl (.*?) +#", failed.err)
    assert anew == f"run --hour {hour}"
    before = ctl(f"show {hour} --json").json
    assert (before["Status"], before["Outcome"]) == ("FAILED", "TooManyBadRecords")
    assert [fault["Error"] for fault in before["Faults"]] == ["TooManyBadRecords"]
    assert ctl("status").out.startswith("Last run")
    assert f"dispatchctl resume {hour}" in ctl("status").out
    ctl(f"run --hour {hour[:10]}T01 --path full")
    assert re.search(rf"^Open +dispatchctl run --hour {hour} ", ctl("status").out, re.MULTILINE)

    resumed = ctl(command)

    assert f"Went on with run {before['RunId']}" in resumed.out
    after = ctl(f"show {hour} --json").json
    assert (after["Outcome"], after["RunId"], after["Resume"]) == ("Dispatched", before["RunId"], True)
    assert (after["Totals"]["Evaluated"], after["Totals"]["SetAside"]) == (100, 20)
    assert len(set(records(application, hour))) == len(records(application, hour)) == after["Totals"]["Dispatched"]
    earlier = ctl(f"show {before['Execution']}").out
    assert f"dispatchctl show {after['Execution'].rpartition(':')[2]}" in earlier

    again = ctl(f"resume {before['RunId']}")

    assert "had come to its end" in again.out
    assert len(records(application, hour)) == after["Totals"]["Dispatched"]


def test_a_range_of_hours_is_run_oldest_first_with_a_line_each(ctl: Ctl, hour: str) -> None:
    day = hour[:10]
    for each in (10, 12):
        ctl(f"seed --hour {day}T{each} --bookings 10")

    printed = ctl(f"run --from {day}T10 --to {day}T12 --path full").out.splitlines()

    assert printed[0] == "3 hours, one after the other, oldest first"
    rows = [line.split() for line in printed[2:5]]
    assert [(row[0], row[1]) for row in rows] == [(f"{day}T{each}", "Dispatched") for each in (10, 11, 12)]
    assert len(ctl(f"run --from {day}T10 --to {day}T11 --dry-run --json").json["Runs"]) == 2


def test_a_range_ends_at_the_first_hour_that_fails_and_names_what_is_left(
    application: Application, ctl: Ctl, hour: str
) -> None:
    day = hour[:10]
    ctl(f"seed --hour {day}T11 --bookings 200 --bad 40")
    # Some of them stand on the sharp hour, and are the hour's before as well.
    with application.parameter("SetAsideLimitParameter", "30"):
        failed = ctl(f"run --from {day}T10 --to {day}T13", expect=1)

    assert [line.split()[:2] for line in failed.out.splitlines()[2:]] == [
        [f"{day}T10", "Dispatched"],
        [f"{day}T11", "TooManyBadRecords"],
    ]
    assert f"next   dispatchctl resume {day}T11 " in failed.err
    assert f"then   dispatchctl run --from {day}T12 --to {day}T13" in failed.err


def test_a_dry_run_says_what_a_run_would_do_and_dispatches_nothing(
    application: Application, ctl: Ctl, hour: str
) -> None:
    ctl(f"seed --hour {hour} --bookings 40")

    (run,) = ctl(f"run --hour {hour} --dry-run --path paged --page-size 15 --json").json["Runs"]

    assert (run["Outcome"], run["DryRun"], run["Totals"]["Evaluated"]) == ("DryRun", True, 40)
    assert records(application, hour) == []
    assert [page["Counts"]["Evaluated"] for page in ctl(f"show {hour} --json").json["Pages"]] == [15, 15, 10]


def test_the_lanes_of_a_run_are_shown_with_their_times(ctl: Ctl, hour: str) -> None:
    ctl(f"seed --hour {hour} --bookings 60")

    ctl(f"run --hour {hour} --path grouped --slices 2 --page-size 20")

    pages = ctl(f"show {hour} --json").json["Pages"]
    assert {(page["Lane"], page["Step"]) for page in pages} == {(0, "stage"), (1, "stage"), (2000, "merge")}
    assert all(page["Seconds"] is not None for page in pages)
    assert re.search(r"^ *2000 .* merge +done", ctl(f"show {hour}").out, re.MULTILINE)


def test_while_a_run_works_it_is_shown_and_another_one_of_its_hour_does_nothing(
    application: Application, ctl: Ctl, workspace: Workspace, hour: str
) -> None:
    ctl(f"seed --hour {hour} --bookings 20")
    with held_back(application, hour):
        with subprocess.Popen(  # noqa: S603 -- our own command
            [*COMMAND, "run", "--hour", hour],
            cwd=ROOT,
            env=environment(workspace.directory),
            stderr=subprocess.PIPE,
            text=True,
        ) as command:
            try:
                assert wait_until(lambda: _runs(application, hour))
                command.send_signal(signal.SIGINT)
                _, interrupted = command.communicate(timeout=HOLD_SECONDS)
            finally:
                command.kill()
        assert command.returncode == 130
        (watch,) = re.findall(r"watch it +dispatchctl show (\S+) --follow", interrupted)

        other = ctl(f"run --hour {hour}", expect=4)

        running = ctl("status --json").json["Runs"][0]
        assert (running["Status"], running["WindowStart"]) == ("RUNNING", f"{hour}:00:00Z")
        assert running["Execution"].endswith(watch)
        assert f"run {running['RunId']} works on it" in other.out
        assert ctl("status").out.startswith("Running")
    done = ctl(f"show {watch} --follow")
    assert "Dispatched" in done.out


def test_one_execution_is_ended_and_its_hour_gone_on_with(application: Application, ctl: Ctl, hour: str) -> None:
    ctl(f"seed --hour {hour} --bookings 20")
    with held_back(application, hour):
        execution = application.start({"ExecuteTime": f"{hour[:11]}11:00:00Z"})
        assert wait_until(lambda: _runs(application, hour))

        refused = ctl(f"stop --execution {hour}", expect=1)
        ended = ctl(f"stop --execution {hour} --yes").out

    assert "Ending one execution cuts it off" in refused.out
    assert f"dispatchctl resume {hour}" in ended
    assert wait_until(lambda: ctl(f"show {execution} --json").json["Detail"].get("Error") == "ABORTED")
    assert "has ended: ABORTED" in ctl(f"stop --execution {execution} --yes", expect=1).err
    ctl(f"resume {hour}")
    assert len(records(application, hour)) == len(set(records(application, hour))) > 10


def test_the_kill_switch_is_the_first_line_of_the_status_until_it_is_cleared(ctl: Ctl, hour: str) -> None:
    ctl(f"seed --hour {hour} --bookings 20")
    try:
        assert ctl("stop").out.startswith("The kill switch is on")
        assert ctl("status").out.startswith("STOPPED")
        assert ctl("status --json").json["Stopped"] is True
        stopped = ctl(f"run --hour {hour}", expect=4)
        assert f"{hour} (Stopped)" in stopped.err
        assert re.findall(r"next +(.*?) +#", stopped.err) == ["dispatchctl stop --clear", f"dispatchctl resume {hour}"]
    finally:
        ctl("stop --clear")
    assert "Went on with run" in ctl(f"resume {hour}").out
    assert not ctl("status").out.startswith("STOPPED")


def test_the_status_tells_the_runs_of_an_hour_and_what_lies_on_the_queues(
    application: Application, ctl: Ctl, hour: str
) -> None:
    ctl(f"seed --hour {hour} --bookings 20")
    for _ in range(2):
        ctl(f"run --hour {hour}")
    ctl("run --hour 2021-01-01T00 --dry-run")

    found = ctl(f"status --hour {hour} --json").json

    assert [(run["Outcome"], run["WindowStart"]) for run in found["Runs"]] == [("Dispatched", f"{hour}:00:00Z")] * 2
    assert [run["Totals"]["AlreadyDispatched"] > 0 for run in found["Runs"]] == [True, False]
    assert found["LastRun"]["WindowStart"] == f"{hour}:00:00Z"
    on_queue = {queue["Name"]: queue["Messages"] for queue in found["Queues"]}
    points = [task for task in application.tasks(f"{hour}:00:00Z") if task.queue == "Point"]
    assert on_queue["Points"] >= len(points) > 0
    assert found["Scheduled"] is False
    assert len(ctl("status --last 2 --json").json["Runs"]) == 2


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("run --hour yesterday", 2, "--hour: 'yesterday': expected an hour in UTC"),
        ("run --from yesterday", 2, "--from: 'yesterday': expected an hour in UTC"),
        ("run --from 2026-09-17T15 --to today", 2, "--to: 'today': expected an hour in UTC"),
        ("run --hour 2026-09-17T15 --from 2026-09-17T15", 2, "--hour: given together"),
        ("run --hour 2026-09-17T15 --page-size 0", 2, "page-size"),
        ("run --hour 2021-06-01T00 --path full --slices 2", 2, "InvalidInput: Slices: given without pagination"),
        ("show 2001-01-01T00", 3, "no run of the hour from 2001-01-01T00:00:00Z"),
        ("resume nothing-like-it", 3, "no run or execution nothing-like-it is known"),
        ("stop --clear --execution last", 2, "--clear: given together"),
        ("--stage Sandbox up", 2, "the embedded AWS holds stage Local only, not Sandbox; `make deploy`"),
        ("--stage Sandbox down", 2, "the embedded AWS holds stage Local only, not Sandbox; `make destroy`"),
    ],
)
def test_a_wrong_command_line_is_told_in_words_and_by_its_code(ctl: Ctl, line: str, code: int, said: str) -> None:
    printed = ctl(line, expect=code)

    assert said in printed.err
    assert "Traceback" not in printed.err


def test_without_an_application_a_command_says_how_to_get_one(ctl: Ctl, tmp_path: Path) -> None:
    assert "nothing is deployed; `make up` deploys" in ctl("status", directory=tmp_path, expect=3).err
    assert "No embedded AWS was running." in ctl("down", directory=tmp_path).out


def test_up_keeps_what_stands(application: Application, ctl: Ctl) -> None:
    printed = ctl("up").out

    assert f"The embedded AWS answers at {application.endpoint}" in printed
    assert "dispatchctl seed" in printed


def _runs(application: Application, hour: str) -> bool:
    """Whether a run holds an hour."""
    return f"edge#{hour}:00:00Z" in application.ledger_partitions()
