"""What a person is told of a run that ended badly, and what is noted and given back then."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest

from tests.machine.faults import ALWAYS, Call, Fault, When, every, nth
from tests.machine.walk import (
    Account,
    Execution,
    FunctionError,
    Walk,
    five_members,
    reads_bookings,
    uploads_of,
    worked_example,
)

README: Final = Path(__file__).parents[2] / "README.md"
TIME: Final = "2026-09-17T16:01:10Z"
PAGED: Final = {"ExecuteTime": TIME, "PaginationEnabled": True}
PAGES_OF_TWO: Final = {**PAGED, "PageSize": 2}
RESUME: Final = {"ExecuteTime": TIME, "Resume": True}

ENDS: Final = ("FAILED", "TIMED_OUT", "ABORTED")


def by_report(*operations: str) -> When:
    """The calls of these operations that the failure's report makes."""
    return lambda call: call.function == "ReportFailure" and call.operation in operations


def run_row(account: Account) -> Any:
    [row] = [row for row in account.ledger if row["Pk"]["S"].startswith("window#")]
    return row


def time_out(_own: Callable[[], Any]) -> NoReturn:
    raise FunctionError("Sandbox.Timedout", "RequestId: 7 Error: Task timed out after 60.00 seconds")


def cut_off(walk: Walk, account: Account, status: str) -> Execution:
    """An execution that ended at its second page, and whose failure branch did nothing."""
    account.book(*five_members())
    if status == "FAILED":
        walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
        walk.stand_in("ReportFailure", time_out, 2)
        return walk.run(PAGES_OF_TWO, "cut-off")
    walk.calls.follow(nth("SendMessageBatch", 2), lambda _: walk.stop("cut-off"))
    return replace(walk.run(PAGES_OF_TWO, "cut-off"), status=status)


def test_the_message_of_a_failed_run_reads_as_a_person_needs_it(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))

    execution = walk.run(PAGES_OF_TWO)

    [(subject, text)] = account.told
    assert subject == "Bookings of 2026-09-17T15:00:00Z not dispatched: ConfigurationError"
    assert text.splitlines() == [
        "Window:     2026-09-17T15:00:00Z to 2026-09-17T16:00:00Z",
        f"Run:        {execution.report['RunId']}",
        f"Execution:  {execution.context['Id']}",
        "Failed at:  page 2",
        f"Error:      ConfigurationError: {execution.report['Message']}",
        "",
        "Dispatched before that page: 2 tasks with 2 records.",
        "Read before that page: 2 records on 1 page.",
        "Not dispatched: whatever of this page was not sent yet, and every page after it.",
        "",
        "To go on when the cause is mended, do one of these; neither repeats what was dispatched:",
        "- Redrive the execution (within 14 days, with the definition that it was started with).",
        '- Start a new execution with the input {"ExecuteTime": "2026-09-17T16:00:00Z", "Resume": true}.',
    ]


def test_the_input_that_the_message_names_goes_on_with_the_run(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
    failed = walk.run(PAGES_OF_TWO)
    [(_, text)] = account.told
    found = re.search(r"with the input (\{.*\})\.$", text)
    assert found

    execution = walk.run(json.loads(found[1]))

    assert execution.output == execution.output | {"RunId": failed.report["RunId"], "Dispatched": 5, "Pages": 3}


def test_the_message_of_a_refused_input_names_the_field_and_asks_for_a_mended_one(walk: Walk, account: Account) -> None:
    execution = walk.run({"ExecuteTime": "2026-09-17"})

    [(subject, text)] = account.told
    assert subject == "Bookings of an unknown window not dispatched: InvalidInput"
    assert text.splitlines() == [
        "Window:     unknown to unknown",
        "Run:        none was planned",
        f"Execution:  {execution.context['Id']}",
        "Failed at:  the start, nothing was read",
        f"Error:      InvalidInput: {execution.report['Message']}",
        "",
        "To go on, start a new execution with an input that is mended.",
    ]


@pytest.mark.parametrize("status", ENDS)
def test_the_message_of_an_execution_that_was_cut_off_says_so_once(walk: Walk, account: Account, status: str) -> None:
    execution = cut_off(walk, account, status)
    assert account.told == []

    for _ in range(2):
        walk.record_end(execution)

    [(subject, text)] = account.told
    assert subject == f"Bookings of 2026-09-17T15:00:00Z not dispatched: {status}"
    assert text.splitlines()[2] == f"Execution:  {execution.context['Id']}"
    assert f"Error:      {status}: The execution ended without reaching its failure branch." in text
    assert '{"ExecuteTime": "2026-09-17T16:00:00Z", "Resume": true}' in text
    assert run_row(account)["Outcome"] == {"S": status}
    assert json.loads(run_row(account)["Detail"]["S"])["Execution"] == execution.context["Id"]


def test_of_a_failure_that_the_run_itself_reported_nothing_more_is_told(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.watched = True
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))

    execution = walk.run(PAGES_OF_TWO)

    assert len(account.told) == 1
    assert run_row(account)["Outcome"] == {"S": "Failed"}
    assert json.loads(run_row(account)["Detail"]["S"]) == {
        name: value for name, value in execution.report.items() if name != "NotDone"
    }


def test_a_run_that_ends_well_or_is_stopped_tells_nobody(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.run(PAGED)
    account.flag("Stop", "true")
    walk.run(PAGED)

    assert account.told == []


# What cannot be done of it

UNDONE: Final[dict[str, tuple[When, list[str]]]] = {
    "no right to note": (by_report("UpdateItem"), ["record"]),
    "no right to release": (by_report("DeleteItem"), ["release"]),
    "no right to tell": (by_report("Publish"), ["notify"]),
    "no ledger": (by_report("UpdateItem", "DeleteItem"), ["record", "release"]),
    "nothing at all": (lambda call: call.function == "ReportFailure", ["record", "release", "notify"]),
}


@pytest.mark.parametrize(("when", "not_done"), UNDONE.values(), ids=UNDONE)
@pytest.mark.parametrize("fault", [Fault.FORBIDDEN, Fault.THROTTLED, Fault.UNREACHED], ids=lambda fault: fault.name)
def test_a_report_that_cannot_be_made_whole_ends_with_the_first_error_and_names_what_is_missing(
    walk: Walk, account: Account, when: When, not_done: list[str], fault: Fault
) -> None:
    account.book(*five_members())
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
    walk.calls.stage(fault, when, ALWAYS)

    execution = walk.run(PAGES_OF_TWO)

    assert (execution.status, execution.error) == ("FAILED", "ConfigurationError")
    assert execution.report == execution.report | {"Error": "ConfigurationError", "Page": 2, "NotDone": not_done}
    assert execution.report["Message"].startswith("PutObject: ")
    assert len(account.told) == ("notify" not in not_done)
    assert (account.leases == []) is ("release" not in not_done)
    assert ("Outcome" in run_row(account)) is ("record" not in not_done)
    assert walk.pauses == []


def test_what_a_report_could_not_do_the_recorder_does(walk: Walk, account: Account) -> None:
    account.book(*five_members())
    walk.watched = True
    walk.calls.stage(Fault.FORBIDDEN, uploads_of(3))
    walk.calls.stage(Fault.FORBIDDEN, by_report("UpdateItem", "DeleteItem", "Publish"), ALWAYS)

    walk.run(PAGES_OF_TWO)

    assert account.leases == []
    assert run_row(account)["Outcome"] == {"S": "FAILED"}
    assert [subject for subject, _ in account.told] == ["Bookings of 2026-09-17T15:00:00Z not dispatched: FAILED"]


# The recorder


@pytest.mark.parametrize("status", ENDS)
@pytest.mark.parametrize("given", [PAGED, RESUME], ids=["a new run", "the run resumed"])
def test_when_an_execution_was_cut_off_and_that_is_noted_the_next_one_starts_at_once(
    walk: Walk, account: Account, status: str, given: Any
) -> None:
    execution = cut_off(walk, account, status)
    assert walk.run(given).output["Outcome"] == "AlreadyRunning"

    walk.record_end(execution)

    assert account.leases == []
    following = walk.run(given)
    assert following.output == following.output | {"Outcome": "Dispatched", "Waiting": 5}
    assert following.output["RunId"].endswith("Z-cut-off") is (given is RESUME)
    assert account.records == ["R1", "R2", "R3", "R4", "R5"]
    assert len(account.messages) == 5


def before_its_leases(walk: Walk) -> Execution:
    walk.calls.follow(every("GetParameters"), lambda _: walk.stop("early"))
    return walk.run(PAGED, "early")


def refused(walk: Walk) -> Execution:
    return walk.run({"PageSize": 0})


@pytest.mark.parametrize("ended", [before_its_leases, refused], ids=lambda ended: ended.__name__)
def test_the_end_of_an_execution_that_never_held_a_window_is_no_news(
    walk: Walk, account: Account, ended: Callable[[Walk], Execution]
) -> None:
    execution = ended(walk)
    before = account.everything, account.told

    walk.record_end(execution)

    assert execution.status != "SUCCEEDED"
    assert (account.everything, account.told) == before


def test_the_late_news_of_an_end_takes_nothing_from_the_execution_that_goes_on(walk: Walk, account: Account) -> None:
    execution = cut_off(walk, account, "ABORTED")
    walk.let_pass(1000)
    walk.calls.follow(reads_bookings, lambda _: walk.record_end(execution))

    following = walk.run(RESUME)

    assert following.output == following.output | {"Outcome": "Dispatched", "Waiting": 5, "Dispatched": 5}
    assert account.told == []
    assert run_row(account)["Outcome"] == {"S": "Dispatched"}


@pytest.mark.parametrize("operation", ["GetItem", "DeleteItem", "UpdateItem"])
@pytest.mark.parametrize("fault", [Fault.DIED_BEFORE, Fault.DIED_AFTER, Fault.THROTTLED], ids=lambda fault: fault.name)
def test_a_recorder_that_fails_does_its_work_when_it_is_told_again(
    walk: Walk, account: Account, operation: str, fault: Fault
) -> None:
    execution = cut_off(walk, account, "TIMED_OUT")

    def once_recording(call: Call) -> bool:
        return (call.function, call.operation) == ("RecordEnd", operation)

    walk.calls.stage(fault, once_recording)

    walk.record_end(execution)

    assert account.leases == []
    assert run_row(account)["Outcome"] == {"S": "TIMED_OUT"}
    assert 1 <= len(account.told) <= 2, "twice rather than never"


# As the README shows it


def as_an_example(text: str, execution: Execution) -> str:
    """The text with the names that another account, machine or moment would change."""
    name = execution.report["RunId"].split("-", 1)[1]
    arn = f"arn:aws:states:eu-west-1:123456789012:execution:dispatch:{name}"
    return text.replace(execution.context["Id"], arn).replace(execution.report["RunId"], f"20260917T160110Z-{name}")


def test_the_readme_shows_the_message_and_the_cause_of_a_failed_run(walk: Walk, account: Account) -> None:
    account.book(*worked_example())
    walk.calls.stage(Fault.FORBIDDEN, nth("PutObject", 2))

    execution = walk.run(PAGES_OF_TWO, "2026-09-17T16")

    assert (execution.status, execution.error) == ("FAILED", "ConfigurationError")
    [(subject, text)] = account.told
    message = as_an_example(f"Subject: {subject}\n\n{text}", execution)
    cause = as_an_example(json.dumps(execution.report, indent=2), execution)
    shown = README.read_text(encoding="utf-8")
    assert f"```text\n{message}\n```" in shown
    assert f"```json\n{cause}\n```" in shown
