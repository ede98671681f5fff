"""`dispatchctl` as an operator calls it: what a booking came to, what is missing, and how that is mended."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest

from tests.deployed.application import NOWHERE, Application, Day, everywhere
from tests.deployed.conftest import Ctl
from tests.deployed.test_worker import short_visibility
from tests.deployed.wire import wait_until
from tools.worker import Worker

REASON = "It arrived late."


@pytest.fixture
def day(application: Application) -> Day:
    """A day that is over: two bookings at eight were dispatched before a third one of the first's group arrived."""
    day = application.past_day()
    day.miss_one()
    return day


def hour_of(day: Day, hour: int = 8) -> str:
    return f"{day.date}T{hour:02}"


def test_a_late_booking_is_found_redone_by_two_people_and_then_stands_in_a_task(day: Day, ctl: Ctl) -> None:
    hour, record = hour_of(day), f"LATE@{day.date}"

    before = ctl(f"why {record} --json").json
    assert (before["State"], before["Untouched"][0]["Cause"]) == ("NotDispatched", "NotRead")
    assert before["Next"] == [
        f"dispatchctl run --hour {hour}",
        f"dispatchctl reconcile {hour}",
        f"dispatchctl why {record} --hour OLDHOUR",
    ]

    found = ctl(f"reconcile {hour}", expect=4).out
    assert f"dispatchctl redo {hour} --by NAME --reason TEXT" in found
    assert record in found

    asked = ctl(f"redo {hour} --by Ann --reason '{REASON}' --no-wait --json").json
    question = asked["Question"]
    assert (question["Missing"], question["Dispatched"], question["Tasks"], asked["Output"]) == (1, 1, 1, None)
    assert day.effects(8) == everywhere("R1", "R2")

    name = asked["Execution"].rpartition(":")[2]
    assert name in [each["Execution"].rpartition(":")[2] for each in ctl("status --json").json["RedosWaiting"]]
    refused = ctl(f"approve {name} --by ' ann '", expect=2)
    assert refused.err == "dispatchctl: --by: ann has asked for this redo; somebody else must answer it\n"
    approved = ctl(f"approve {name} --by Bob").out
    assert "would dispatch 1 record in 1 task of 1 group" in approved
    assert REASON in approved
    assert approved.endswith("Approved by Bob. The redo goes on.\n")
    assert day.application.end(asked["Execution"]).output["Dispatched"] == 1
    assert (
        "waits for no answer any more: it was approved by Bob at" in ctl(f"approve {name[:8]} --by Eve", expect=1).err
    )

    after = ctl(f"why {record} --json").json
    [task] = after["Tasks"]
    assert (after["State"], task["OnQueue"], task["Sent"], after["Untouched"]) == ("Sent", True, True, [])
    assert task["RunId"].startswith("redo-")
    assert ctl(f"reconcile {hour} --json").json["Reconciles"][0]["Outcome"] == "Clean"


@pytest.mark.parametrize(
    ("answer", "code", "said", "records"),
    [
        ("", 0, "dispatched 1 of 1 missing record in 1 task.", ("R1", "R2", "LATE")),
        ("--reject", 1, 'failed: NotApproved: rejected by "Bob"', ("R1", "R2")),
    ],
    ids=["approved", "rejected"],
)
def test_a_redo_that_is_followed_ends_as_it_was_answered(  # noqa: PLR0913, PLR0917 -- a table's columns
    answer: str, code: int, said: str, records: tuple[str, ...], day: Day, ctl: Ctl
) -> None:
    hour = hour_of(day)
    ctl(f"reconcile {hour}", expect=4)
    with ThreadPoolExecutor() as pool:
        follows = pool.submit(ctl, f"redo {hour} --by Ann --reason '{REASON}'", expect=code)
        assert wait_until(lambda: day.application.waiting_redos() or follows.done())
        [asked] = day.application.waiting_redos()
        ctl(f"approve {asked} --by Bob {answer}")
        printed = follows.result()

    assert f"dispatchctl approve {asked.rpartition(':')[2]} --by ANOTHER" in printed.out
    assert said in printed.out + printed.err
    assert day.effects(8) == everywhere(*records)


def test_a_redo_of_what_was_dispatched_since_asks_nobody(day: Day, ctl: Ctl) -> None:
    report = ctl(f"reconcile {hour_of(day)} --json", expect=4).json["Reconciles"][0]["Report"]
    assert day.run(8).output["Dispatched"] == 1

    printed = ctl(f"redo s3://{report['Bucket']}/{report['Key']} --by Ann --reason '{REASON}'").out

    assert "dispatched 0 of 1 missing record" in printed
    assert "0 dispatched now, 1 before" in printed


def test_a_range_is_reconciled_oldest_hour_first_and_added_up(day: Day, ctl: Ctl) -> None:
    first, last = hour_of(day, 7), hour_of(day, 8)

    told = ctl(f"reconcile --from {first} --to {last}", expect=4).out.splitlines()
    parsed = ctl(f"reconcile --from {first} --to {last} --json", expect=4).json

    assert [line.split()[:2] for line in told[2:5]] == [
        [first, "Differences"],
        [last, "Differences"],
        ["Together", "2"],
    ]
    assert [each["WindowStart"] for each in parsed["Reconciles"]] == [day.window(7), day.window(8)]
    assert {name: count for name, count in parsed["Counts"].items() if count} == {
        "MissingHour": 1,
        "MissingInLedger": 1,
    }


def test_a_granted_booking_says_when_and_a_dead_letter_says_why(worker: Worker, day: Day, ctl: Ctl) -> None:
    assert day.run(8).output["Dispatched"] == 1
    [broken] = [task for task in day.tasks(8) if task.records == ["R2"]]
    bucket = day.application.outputs["TaskDataBucketName"]
    day.application.client("s3").put_object(Bucket=bucket, Key=broken.data["Key"], Body=b"{}")

    with short_visibility(day.application), worker.working():
        worker.drain()

    granted = ctl(f"why R1@{day.date} --json").json
    assert (granted["State"], granted["Tasks"][0]["Grant"]["Outcomes"]) == ("Granted", {"Granted": 1})
    dead = ctl(f"why R2@{day.date} --json").json
    assert dead["State"] == "DeadLetter"
    assert dead["Tasks"][0]["DeadLetter"]["Reason"].startswith("UnworkableTask: object")


def test_what_paging_would_change_for_a_past_hour_is_shown_and_nothing_is_dispatched(
    application: Application, ctl: Ctl
) -> None:
    day = application.past_day()
    for number in range(6):
        day.book(f"R{number}", f"08:{number:02}:00Z", str(number % 2))

    screen = ctl(f"compare {hour_of(day)} --page-size 3").out
    parsed = ctl(f"compare {hour_of(day)} --page-size 3 --json").json

    assert screen.startswith(f"The gate passed: with pages, 2 groups of {day.date} 08:00 to 09:00 UTC would be split")
    assert (parsed["Full"]["Tasks"], parsed["Paged"]["Tasks"], parsed["Settings"]["PageSize"]) == (2, 4, 3)
    assert day.effects(8) == NOWHERE


def test_a_gate_that_is_not_passed_is_a_finding(application: Application, ctl: Ctl) -> None:
    checks = ctl(f"compare {hour_of(application.past_day())} --json", expect=4).json["Checks"]

    assert [check["Name"] for check in checks if not check["Passed"]] == ["Records"]


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("why NOBODY", 3, "NOBODY"),
        ("why NOBODY more", 2, "SORT_VALUE: this table has no sort key, only RecordId"),
        ("reconcile yesterday", 2, "HOUR: 'yesterday': expected an hour in UTC"),
        ("reconcile {tomorrow}", 2, "HOUR: the window ends at"),
        ("reconcile {past} --from {past}", 2, "HOUR: given together with --from"),
        ("redo {past} --by Ann --reason Late", 3, "it was not reconciled yet"),
        ("redo reports/1/2/3.json --by Ann --reason Late", 3, "no report lies at s3://"),
        ("redo {past} --by Ann", 2, "--reason"),
        ("approve nothing --by Bob", 3, "no redo nothing is known"),
        ("approve nothing --by ' '", 2, "By: "),
        ("compare {tomorrow}", 2, "HOUR: the window ends at"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(
    line: str, code: int, said: str, application: Application, ctl: Ctl
) -> None:
    names = {"past": f"{application.past_day().date}T03", "tomorrow": f"{date.max.year - 1}-01-01T00"}

    assert said in ctl(line.format(**names), expect=code).err


def test_json_is_all_that_is_printed(day: Day, ctl: Ctl) -> None:
    for line in (f"why R1@{day.date} --json", f"compare {hour_of(day)} --json"):
        assert json.loads(ctl(line).out)
