"""Redos on the real machine: what a report says is missing is dispatched, once, and only if it may be."""

import json
from collections.abc import Callable
from typing import Any, Final

import boto3
import pytest

from functions.domain.report import sealed
from tests.machine.faults import Call, Fault, every
from tests.machine.walk import (
    LEDGER,
    REGION,
    Account,
    Execution,
    FunctionError,
    InvokeError,
    State,
    Walk,
    booking,
    group_of,
    worked_example,
)
from tools.runs import redos as tool
from tools.runs.redos import NotWaitingError

TIME: Final = {"ExecuteTime": "2026-09-17T16:01:10Z"}
PAGED: Final = {**TIME, "PaginationEnabled": True, "PageSize": 2}
ZERO: Final = {"Dispatched": 0, "AlreadyDispatched": 0, "NoLongerWaiting": 0, "Tasks": 0}


@pytest.fixture
def report(walk: Walk, account: Account) -> State:
    """Of an hour that was dispatched, before a booking of it arrived."""
    account.book(*worked_example())
    walk.run(PAGED)
    account.book(booking("LATE", BookingTimeUTC="15:30:00Z"))
    return reported(walk)


def reported(walk: Walk) -> State:
    place: State = walk.reconcile(TIME).output["Report"]
    return place


def asked(report: State, **changes: object) -> State:
    return {"Report": report, "RequestedBy": "Ann", "Reason": "It arrived late.", **changes}


def done(execution: Execution, **counts: int) -> None:
    assert execution.status == "SUCCEEDED", execution.cause
    assert execution.output == {
        "Outcome": "Redone",
        "RunId": execution.output["RunId"],
        "WindowStart": "2026-09-17T15:00:00Z",
        "WindowEnd": "2026-09-17T16:00:00Z",
        **ZERO,
        "Missing": 1,
        **counts,
    }


def test_a_late_booking_is_found_and_redone_with_one_task_of_one_record_and_the_first_task_is_untouched(
    walk: Walk, account: Account, report: State
) -> None:
    before, objects = account.tasks, {key: account.read(key) for key in account.objects if key.startswith("tasks/")}
    walk.answer(approved=True, by="Bob")

    execution = walk.redo(asked(report))

    done(execution, Dispatched=1, Tasks=1)
    assert execution.visited == [
        *("Begin redo", "Plan redo", "Count missing", "More to count?", "Approval needed?", "Ask for approval"),
        *("Check approval", "Take leases", "Window free?", "Note repair", "Skip done pages", "More missing?"),
        *("Redo page", "More missing?", "Summarize run", "Record repair", "Window redone"),
    ]
    [new] = [task for task in account.tasks if task not in before]
    assert new.records == ("LATE",)
    assert [task for task in account.tasks if task != new] == before
    assert {key: account.read(key) for key in objects} == objects
    assert account.leases == []
    assert walk.reconcile(TIME).output["Outcome"] == "Clean"


def test_what_was_done_is_kept_with_who_asked_who_approved_when_and_why(
    walk: Walk, account: Account, report: State
) -> None:
    walk.answer(approved=True, by="Bob")

    output = walk.redo(asked(report)).output

    [row] = [row for row in account.ledger if row["Pk"]["S"] == "redo#2026-09-17T15:00:00Z"]
    repair = json.loads(row["Repair"]["S"])
    assert "ExpiresAt" not in row
    assert row["Sk"]["S"].startswith(f"{output['RunId']}#")
    assert output.items() <= repair.items()
    assert (repair["RequestedBy"], repair["ApprovedBy"], repair["Reason"]) == ("Ann", "Bob", "It arrived late.")
    assert (repair["Report"], repair["Before"]["Dispatched"], repair["After"]["Dispatched"]) == (report["Key"], 1, 1)
    assert repair["StartedAt"]


def test_the_request_says_what_would_be_dispatched_why_and_how_to_answer(
    walk: Walk, account: Account, report: State
) -> None:
    walk.answer(approved=True, by="Bob")
    execution = walk.redo(asked(report))

    [(subject, text)] = account.told
    assert subject == "Approve a redo of 2026-09-17T15:00:00Z?"
    for said in ("Ann", "It arrived late.", execution.context["Id"], "1 in 1 tasks of 1 groups", '"LATE"', "token"):
        assert said in text


def test_twice_the_same_report_is_once(walk: Walk, account: Account, report: State) -> None:
    walk.answer(approved=True, by="Bob")
    first = walk.redo(asked(report))
    sent, rows = account.messages, account.ledger

    second = walk.redo(asked(report))

    done(second, AlreadyDispatched=1)
    assert second.output["RunId"] == first.output["RunId"]
    assert second.visited[-2:] == ["Approval needed?", "Nothing left"]
    assert (account.messages, account.ledger) == (sent, rows)


def test_a_few_records_need_no_second_person_where_the_stack_is_so_configured(walk: Walk, report: State) -> None:
    walk.set("REDO_WITHOUT_APPROVAL", "1")

    execution = walk.redo(asked(report))

    done(execution, Dispatched=1, Tasks=1)
    assert "Ask for approval" not in execution.visited


def settled(account: Account) -> None:
    account.book(booking("LATE", BookingTimeUTC="15:30:00Z", RewardStatus="Rewarded"))


def moved(account: Account) -> None:
    account.book(booking("LATE", BookingTimeUTC="15:31:00Z"))


@pytest.mark.parametrize(
    "happens", [settled, moved, lambda account: account.cancel("LATE")], ids=["settled", "moved", "cancelled"]
)
def test_what_waits_no_longer_is_not_dispatched(
    walk: Walk, account: Account, report: State, happens: Callable[[Account], None]
) -> None:
    happens(account)
    sent = account.messages

    done(walk.redo(asked(report)), NoLongerWaiting=1)

    assert account.messages == sent


def test_what_a_run_dispatched_since_the_report_is_not_dispatched_again(
    walk: Walk, account: Account, report: State
) -> None:
    walk.run(PAGED)
    sent = account.messages

    done(walk.redo(asked(report)), AlreadyDispatched=1)

    assert account.messages == sent


@pytest.fixture
def five(walk: Walk, account: Account, monkeypatch: pytest.MonkeyPatch) -> State:
    """The report of an hour of five bookings that was not dispatched, which is redone in pages of two."""
    monkeypatch.setattr("functions.usecases.plan_redo.CHUNK", 2)
    account.book(*(booking(f"R{n}", **group_of(1, n, 1)) for n in range(1, 6)))
    return reported(walk)


def test_a_missing_hour_is_redone_page_by_page(walk: Walk, account: Account, five: State) -> None:
    walk.answer(approved=True, by="Bob")

    execution = walk.redo(asked(five))

    assert execution.visited.count("Redo page") == execution.visited.count("Count missing") == 3
    assert (execution.output["Dispatched"], account.records) == (5, [f"R{n}" for n in range(1, 6)])
    assert walk.reconcile(TIME).output["Outcome"] == "Clean"


def kept(account: Account) -> list[State]:
    """What is kept of the redos, in no order."""
    return [json.loads(row["Repair"]["S"]) for row in account.ledger if row["Pk"]["S"].startswith("redo#")]


def test_of_two_redos_of_a_report_side_by_side_one_has_dispatched_and_the_other_has_found_it_done(
    walk: Walk, account: Account, five: State
) -> None:
    walk.answer(approved=True, by="Bob", times=2)
    beside: list[Execution] = []

    def all_is_done_meanwhile(own: Callable[[], Any]) -> Any:
        beside.append(walk.redo(asked(five)))
        return own()

    walk.stand_in("CheckApproval", all_is_done_meanwhile)
    outer = walk.redo(asked(five))

    [inner] = beside
    done(inner, Missing=5, Dispatched=5, Tasks=5)
    done(outer, Missing=5, AlreadyDispatched=5)
    assert "Redo page" not in outer.visited
    assert sorted((repair["Dispatched"], repair["AlreadyDispatched"]) for repair in kept(account)) == [(0, 5), (5, 0)]
    assert account.records == [f"R{n}" for n in range(1, 6)]


def test_a_redo_that_goes_on_with_a_stopped_one_counts_what_it_dispatches_itself(
    walk: Walk, account: Account, five: State
) -> None:
    walk.answer(approved=True, by="Bob", times=2)

    def then_stop(own: Callable[[], Any]) -> Any:
        progress = own()
        account.flag("Stop", "true")
        return progress

    walk.stand_in("RedoPage", then_stop)
    stopped = walk.redo(asked(five)).output
    account.flag("Stop", "false")
    execution = walk.redo(asked(five))

    assert stopped.items() >= {"Outcome": "Stopped", "Dispatched": 2, "AlreadyDispatched": 0, "Tasks": 2}.items()
    done(execution, Missing=5, Dispatched=3, AlreadyDispatched=2, Tasks=3)
    assert execution.visited.count("Redo page") == 2
    assert account.records == [f"R{n}" for n in range(1, 6)]


def test_a_page_whose_answer_was_lost_is_counted_by_the_redo_that_has_done_it(walk: Walk, report: State) -> None:
    walk.answer(approved=True, by="Bob")

    def lose_the_answer(own: Callable[[], Any]) -> Any:
        own()
        raise FunctionError("TransientError", "the answer was lost")

    walk.stand_in("RedoPage", lose_the_answer)

    done(walk.redo(asked(report)), Dispatched=1, Tasks=1)


# What is refused


def spoilt(account: Account, report: State, **changes: object) -> None:
    put(account, report["Key"], json.dumps(sealed({**account.read(report["Key"]), **changes})))


def put(account: Account, key: str, text: str) -> None:
    account.put(key, text.encode())


def altered(account: Account, report: State) -> None:
    put(account, report["Key"], json.dumps({**account.read(report["Key"]), "Outcome": "Clean"}))


def altered_list(account: Account, report: State) -> None:
    put(account, list_key(report), '[{"RecordId":"R9"},"2026-09-17","15:30:00Z"]\n')


def other_lines(account: Account, report: State) -> None:
    missing = account.read(report["Key"])["Missing"]
    spoilt(account, report, Missing={**missing, "Count": 2})


def list_key(report: State) -> str:
    return f"{report['Key'].removesuffix('.json')}-missing.jsonl"


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (altered, "Report.Sha256"),
        (altered_list, "Report.Missing.Sha256"),
        (other_lines, "Report.Missing.Count"),
        (lambda account, report: spoilt(account, report, Stack="Another"), "Report.Stack"),
        (lambda account, report: spoilt(account, report, WindowStart="2099-09-17T15:00:00Z"), "Report.WindowEnd"),
        (lambda account, report: spoilt(account, report, WindowStart="yesterday"), "Report.WindowStart"),
        (lambda account, report: spoilt(account, report, WindowStart="2026-09-17T14:00:00Z"), "Report.Missing"),
        (lambda account, report: spoilt(account, report, Missing=None), "Report.Missing"),
        (lambda account, report: spoilt(account, report, Missing={"Key": "tasks/x"}), "Report.Missing.Sha256"),
        (
            lambda account, report: spoilt(account, report, Missing={"Key": "x", "Sha256": "0" * 64, "Count": 1}),
            "Report.Missing.Key",
        ),
        (lambda account, report: spoilt(account, report, WindowStart="2026-09-31T15:00:00Z"), "Report.WindowStart"),
        (lambda account, report: spoilt(account, report, Counts={}), "Report.Counts.MissingInLedger"),
        (lambda account, report: spoilt(account, report, More=1), "Report.More"),
        (lambda account, report: put(account, report["Key"], "[]"), "Report"),
        (lambda account, report: put(account, report["Key"], "no JSON"), "Report"),
    ],
)
def test_a_report_that_is_not_what_it_was_or_of_another_stack_or_hour_is_refused_by_name(
    walk: Walk, account: Account, report: State, spoil: Callable[[Account, State], None], named: str
) -> None:
    spoil(account, report)
    before = account.everything

    refused(walk.redo(asked(report)), "InvalidInput", f"{named}: ")

    assert account.everything == before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"RequestedBy": ""}, "RequestedBy"),
        ({"RequestedBy": " "}, "RequestedBy"),
        ({"Reason": ""}, "Reason"),
        ({"Reason": None}, "Reason"),
        ({"Reason": "x" * 501}, "Reason"),
        ({"DryRun": True}, "DryRun"),
        ({"Report": {"Bucket": "task-data"}}, "Report.Key"),
        ({"Report": {"Bucket": "another", "Key": "reports/2026-09-17/15/x.json"}}, "Report.Bucket"),
        ({"Report": {"Bucket": "task-data", "Key": "tasks/2026-09-17/15/x.json"}}, "Report.Key"),
        ({"Report": {"Bucket": "task-data", "Key": "reports/2026-09-17/15/x.json"}}, "Report.Key"),
    ],
    ids=str,
)
def test_an_input_that_breaks_the_contract_is_refused_by_name(
    walk: Walk, account: Account, report: State, changes: State, named: str
) -> None:
    before = account.everything

    refused(walk.redo(asked(report, **changes)), "InvalidInput", f"{named}: ")

    assert account.everything == before


BREAKS_THE_LINE: Final = {
    "a line feed": "Ann\nApproved by: Bob",
    "a line feed at its end": "Ann\n",
    "a tab": "Ann\tBob",
    "an escape": "Ann\x1b[2K",
    "a delete": "Ann\x7f",
    "a next line": "Ann\x85",
    "a line separator": "Ann\u2028Bob",
}


@pytest.mark.parametrize("text", BREAKS_THE_LINE.values(), ids=BREAKS_THE_LINE)
@pytest.mark.parametrize("field", ["RequestedBy", "Reason"])
def test_a_text_that_is_not_one_line_is_refused_by_name_before_anything_is_read_or_written(
    walk: Walk, account: Account, report: State, field: str, text: str
) -> None:
    walk.answer(approved=True, by="Bob")
    before = account.everything

    execution = walk.redo(asked(report, **{field: text}))

    refused(execution, "InvalidInput", f"{field}: ")
    assert [call for call in walk.calls.made if call.function == "PlanRedo"] == []
    assert account.everything == before


@pytest.mark.parametrize(("field", "longest"), [("RequestedBy", 100), ("Reason", 500)])
def test_a_text_in_any_script_may_be_as_long_as_the_contract_says_and_no_longer(
    walk: Walk, account: Account, report: State, field: str, longest: int
) -> None:
    walk.answer(approved=True, by="Jörg")
    before = account.everything

    refused(walk.redo(asked(report, **{field: "字" * (longest + 1)})), "InvalidInput", f"{field}: ")
    assert [call for call in walk.calls.made if call.function == "PlanRedo"] == []
    assert account.everything == before
    done(walk.redo(asked(report, **{field: "字" * longest})), Dispatched=1, Tasks=1)


@pytest.mark.parametrize("by", [*BREAKS_THE_LINE.values(), "x" * 101], ids=[*BREAKS_THE_LINE, "too long"])
def test_an_approver_s_name_that_is_not_one_line_is_refused_by_name_before_anything_is_read_or_written(
    walk: Walk, account: Account, report: State, by: str
) -> None:
    before = unapproved(account)
    walk.answer(approved=True, by=by)

    execution = walk.redo(asked(report))

    refused(execution, "InvalidInput", "Answer.By: ")
    assert execution.visited[-2:] == ["Check approval", "Report failure"]
    assert [call for call in walk.calls.made if call.function == "CheckApproval"] == []
    assert unapproved(account) == before


def unapproved(account: Account) -> tuple[object, ...]:
    """Everything but the question."""
    rows = [row for row in account.ledger if not row["Pk"]["S"].startswith("approval#")]
    return rows, account.objects, account.messages


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ((False, "Bob"), ("NotApproved", 'rejected by "Bob"')),
        ((True, "Ann"), ("NotApproved", "whoever asked")),
        ((True, " ann "), ("NotApproved", "whoever asked")),
        ((True, ""), ("InvalidInput", "Answer.By: ")),
        (("yes", "Bob"), ("InvalidInput", "Answer.Approved: ")),
    ],
)
def test_without_another_person_s_approval_nothing_is_changed(
    walk: Walk, account: Account, report: State, answer: tuple[bool, str], refusal: tuple[str, str]
) -> None:
    before = unapproved(account)
    walk.answer(*answer)

    refused(walk.redo(asked(report)), *refusal)

    assert "RedoFailed" not in walk.log.getvalue()
    assert unapproved(account) == before


def test_a_redo_that_nobody_answers_within_a_day_is_not_approved_and_no_answer_counts_any_more(
    walk: Walk, account: Account, report: State
) -> None:
    before = unapproved(account)

    def a_day_later(own: Callable[[], Any]) -> Any:
        own()
        raise InvokeError(TimeoutError())

    walk.stand_in("AskForApproval", a_day_later)
    walk.stand_in("AskForApproval", a_day_later)
    execution = walk.redo(asked(report))

    refused(execution, "NotApproved", "nobody has answered within a day")
    with pytest.raises(NotWaitingError, match="waits for no answer any more"):
        approve(execution.context["Id"])
    assert unapproved(account) == before


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ((Fault.FORBIDDEN, "PutItem"), "ConfigurationError"),
        ((Fault.FORBIDDEN, "Publish"), "ConfigurationError"),
        ((Fault.DIED_BEFORE, "PutItem"), "DispatchFailed"),
        ((Fault.DIED_AFTER, "Publish"), "DispatchFailed"),
    ],
    ids=["no right to note the token", "no right to tell", "died at first", "died at last"],
)
def test_where_nobody_can_be_asked_the_redo_fails_by_name_and_nothing_is_changed(
    walk: Walk, account: Account, report: State, wrong: tuple[Fault, str], error: str
) -> None:
    before, (fault, operation) = unapproved(account), wrong
    walk.calls.stage(fault, lambda call: (call.function, call.operation) == ("AskForApproval", operation))

    execution = walk.redo(asked(report))

    assert (execution.status, execution.error) == ("FAILED", error), execution.cause
    assert execution.visited[-2:] == ["Ask for approval", "Report failure"]
    assert unapproved(account) == before
    assert account.told[-1][0] == f"Bookings of 2026-09-17T15:00:00Z not dispatched: {execution.report['Error']}"


def test_a_redo_whose_question_was_throttled_asks_again(walk: Walk, account: Account, report: State) -> None:
    walk.calls.stage(Fault.THROTTLED, every("Publish"))
    walk.stand_in("AskForApproval", lambda own: own())
    walk.answer(approved=True, by="Bob")

    done(walk.redo(asked(report)), Dispatched=1, Tasks=1)
    assert [subject for subject, _ in account.told] == ["Approve a redo of 2026-09-17T15:00:00Z?"]


def approve(execution: str) -> None:
    """Approve an execution as the tool does."""
    clients = boto3.client("dynamodb", region_name=REGION), boto3.client("stepfunctions", region_name=REGION)
    tool.answer(*clients, LEDGER, execution, approved=True, by="Bob")


def refused(execution: Execution, error: str, said: str) -> None:
    assert (execution.status, execution.error) == ("FAILED", error)
    assert execution.report["Message"].startswith(said)


# Whatever goes wrong on the way


def test_a_redo_that_failed_half_way_is_gone_on_with_by_a_redrive_and_sends_nothing_twice(
    walk: Walk, account: Account, report: State
) -> None:
    walk.answer(approved=True, by="Bob", times=2)
    walk.calls.stage(Fault.DIED_AFTER, every("SendMessageBatch"))
    failed = walk.redo(asked(report))
    assert (failed.status, account.leases) == ("FAILED", [])
    assert '"RedoFailed":[1' in walk.log.getvalue()

    done(walk.redrive(failed), Dispatched=1, Tasks=1)

    assert account.records.count("LATE") == 1
    assert walk.reconcile(TIME).output["Outcome"] == "Clean"


def test_a_redo_that_failed_when_all_was_sent_is_gone_on_with_by_another_which_keeps_what_was_done(
    walk: Walk, account: Account, report: State
) -> None:
    walk.answer(approved=True, by="Bob", times=2)
    walk.calls.stage(Fault.FORBIDDEN, finishes_a_plan)
    assert (walk.redo(asked(report)).status, account.records.count("LATE")) == ("FAILED", 1)
    assert walk.reconcile(TIME).output["Counts"]["InDoubt"] == 1

    done(walk.redo(asked(report)), Dispatched=1, Tasks=1)

    kept = [json.loads(row["Repair"]["S"]) for row in account.ledger if row["Pk"]["S"].startswith("redo#")]
    assert sorted((repair["Outcome"], repair["ApprovedBy"]) for repair in kept) == [("Begun", "Bob"), ("Redone", "Bob")]
    assert account.records.count("LATE") == 1
    assert walk.reconcile(TIME).output["Outcome"] == "Clean"


def test_a_redo_whose_end_could_not_be_kept_has_kept_before_it_began_who_asked_who_approved_and_why(
    walk: Walk, account: Account, report: State
) -> None:
    walk.answer(approved=True, by="Bob")
    walk.calls.stage(
        Fault.FORBIDDEN, lambda call: call.function == "RecordRepair" and bool(account.records.count("LATE"))
    )
    failed = walk.redo(asked(report))
    assert (failed.status, account.records.count("LATE")) == ("FAILED", 1)

    done(walk.redrive(failed), AlreadyDispatched=1)

    [row] = [row for row in account.ledger if row["Pk"]["S"] == "redo#2026-09-17T15:00:00Z"]
    repair = json.loads(row["Repair"]["S"])
    assert repair["Outcome"] == "Begun"
    assert (repair["RequestedBy"], repair["ApprovedBy"], repair["Reason"]) == ("Ann", "Bob", "It arrived late.")
    assert (repair["Before"]["Dispatched"], repair["After"]["Dispatched"]) == (1, 0)


def finishes_a_plan(call: Call) -> bool:
    writes = call.request.get("TransactItems", ())
    return any(":true" in write.get("Update", {}).get("ExpressionAttributeValues", {}) for write in writes)


def test_a_redo_that_failed_is_no_run_that_a_dispatch_resumes(walk: Walk, account: Account, report: State) -> None:
    walk.answer(approved=True, by="Bob")
    walk.calls.stage(Fault.DIED_BEFORE, every("SendMessageBatch"))
    assert walk.redo(asked(report)).status == "FAILED"

    execution = walk.run({**PAGED, "Resume": True})

    assert (execution.status, execution.output["Path"]) == ("SUCCEEDED", "paged")
    assert account.records.count("LATE") == 1


def test_the_kill_switch_stops_a_redo_which_is_gone_on_with_by_another_of_the_report(
    walk: Walk, account: Account, report: State
) -> None:
    walk.answer(approved=True, by="Bob", times=2)
    account.flag("Stop", "true")
    stopped = walk.redo(asked(report))
    account.flag("Stop", "false")

    assert (stopped.output["Outcome"], stopped.output["Dispatched"]) == ("Stopped", 0)
    done(walk.redo(asked(report)), Dispatched=1, Tasks=1)


def test_while_a_run_holds_the_window_a_redo_touches_nothing(walk: Walk, account: Account, report: State) -> None:
    walk.answer(approved=True, by="Bob")
    ran: list[Execution] = []

    def meanwhile(own: Callable[[], Any]) -> Any:
        walk.answer(approved=True, by="Bob")
        ran.append(walk.redo(asked(report)))
        return own()

    walk.stand_in("RedoPage", meanwhile)
    done(walk.redo(asked(report)), Dispatched=1, Tasks=1)

    [second] = ran
    assert (second.output["Outcome"], second.output["Dispatched"]) == ("AlreadyRunning", 0)
    assert account.records.count("LATE") == 1
    assert [row["Pk"]["S"] for row in account.ledger].count("redo#2026-09-17T15:00:00Z") == 1


def test_a_person_is_told_of_a_failed_redo_that_another_redo_goes_on(
    walk: Walk, account: Account, report: State
) -> None:
    walk.answer(approved=False, by="Bob")
    walk.redo(asked(report))

    subject, text = account.told[-1]
    assert subject == "Bookings of 2026-09-17T15:00:00Z not dispatched: NotApproved"
    assert "start a new execution with the same input" in text
    assert "Resume" not in text
