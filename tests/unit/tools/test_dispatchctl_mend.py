"""What the commands that look for differences and mend them say: lines, screens, JSON and next commands."""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from functions.adapters.ledger_table import approval_key
from functions.domain.booking import Group, RecordVersion, Route
from functions.domain.errors import InvalidInput
from functions.domain.reconcile import Difference
from functions.domain.redo import Redo
from functions.domain.run import Counts, Path
from functions.domain.task import Task
from functions.domain.window import Window
from functions.worker.task import Outcome
from tools.application import Application
from tools.deployment import Deployment
from tools.dispatchctl import approve as _approve  # noqa: F401 -- its import adds the command
from tools.dispatchctl import compare, reconcile, redo, why
from tools.dispatchctl import machines as waiting
from tools.dispatchctl.shell import CommandError, ExitCode, Target, app
from tools.dispatchctl.status import facts, overview_json
from tools.runs.machines import Ended
from tools.runs.overview import Flags, overview
from tools.runs.records import UnknownRunError
from tools.runs.redos import Question, execution_of, question_of
from tools.runs.redos import waiting as waiting_redos
from tools.runs.reports import Place, UnknownReportError, newest_with_missing, place_of
from tools.runs.why import Cause, DeadLetter, Grant, InTask, Met, SetAside, State, Story, Untouched

NARROW = 100
WINDOW = Window.starting("2026-09-17T15:00:00Z")
ACCOUNT = "123456789012"
MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:BookingtimeDispatcherSandbox-WorkflowRedo3A84EB5F"
EXECUTION = f"{MACHINE.replace('stateMachine', 'execution')}:4cc6c0b8-4ce0-4ff9-89c9-cda89c0268d6"
OUTPUTS = {
    "RedoStateMachineArn": MACHINE,
    "LedgerTableName": "ledger",
    "TaskDataBucketName": "bookingtimedispatchersandbox-storagetaskdatac1db5485b2a974a31c628",
    "PaginationEnabledParameter": "/BookingtimeDispatcher/Sandbox/BookingDispatcherPaginationEnabled",
}
PLACE = Place(bucket=OUTPUTS["TaskDataBucketName"], key="reports/2026-09-17/15/20260917T163000Z-hourly.json")
SAMPLE = {"Key": {"RecordId": "B00042"}, "BookingDateUTC": "2026-09-17", "BookingTimeUTC": "15:20:00Z"}
FOUND = dict.fromkeys((kind.value for kind in Difference), 0) | {"MissingInLedger": 3, "InDoubt": 1_234}
RECONCILED = reconcile.Reconciled(
    window=WINDOW,
    execution=EXECUTION,
    seconds=21.4,
    outcome="Differences",
    bookings=4_999_999,
    dispatched=4_999_996,
    counts=FOUND,
    report=PLACE,
    samples={"MissingInLedger": [SAMPLE] * 7, "OrphanObject": [{"Object": "tasks/2026-09-17/15/aa/aaaa.json"}]},
)
CLEAN = replace(RECONCILED, outcome="Clean", counts=dict.fromkeys(FOUND, 0), samples={})
COUNTS = Counts(pages=1, evaluated=3, waiting=3, dispatched=2, already_dispatched=1, groups=2, tasks=2)
QUESTION = Question(
    execution=EXECUTION,
    window=WINDOW,
    redo=Redo(PLACE.key, "list", 4, "Ann", "It arrived late."),
    counts=COUNTS,
    already_dispatched=1,
    no_longer_waiting=1,
    samples=('{"RecordId":"B00042"}',),
)


@dataclass
class Account:
    """Of the services what these commands ask, staged."""

    objects: dict[str, tuple[datetime, Any]] = field(default_factory=dict)
    """By key: when each was written, and what it says."""
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    events: list[Mapping[str, Any]] = field(default_factory=list)
    """An execution's, newest first."""
    status: str = "RUNNING"
    """Of the redo's one execution."""

    @property
    def application(self) -> Application:
        application = Application(Deployment("", "eu-west-1", OUTPUTS))
        application.__dict__.update(stepfunctions=self, dynamodb=self, s3=self)
        return application

    def get_item(self, **request: Any) -> dict[str, Any]:
        found = [row for row in self.rows if request["Key"].items() <= row.items()]
        return {"Item": found[0]} if found else {}

    def get_object(self, **request: Any) -> dict[str, Any]:
        if request["Key"] not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": ""}}, "GetObject")
        return {"Body": io.BytesIO(json.dumps(self.objects[request["Key"]][1]).encode())}

    def get_paginator(self, operation: str) -> "Account":
        assert operation in {"list_objects_v2", "get_execution_history", "list_executions"}
        return self

    def describe_execution(self, *, executionArn: str) -> dict[str, str]:  # noqa: N803 - AWS's name
        if executionArn != EXECUTION:
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist", "Message": ""}}, "DescribeExecution")
        return {"status": self.status}

    def paginate(self, **request: Any) -> list[dict[str, Any]]:
        listed = [
            {"Key": key, "LastModified": written}
            for key, (written, _) in self.objects.items()
            if key.startswith(request.get("Prefix", ""))
        ]
        executions = [{"executionArn": EXECUTION}] * (request.get("statusFilter") in {None, self.status})
        return [{"Contents": listed, "events": self.events, "executions": executions}]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    account = Account()
    monkeypatch.setattr(Target, "application", lambda _: account.application)
    return account


def rendered(view: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=NARROW, color_system=None)
    with console.capture() as capture:
        console.print(view)
    return capture.get()


def one_line(text: str) -> str:
    """A screen without its line breaks: what was folded stands together again."""
    return "".join(line.strip() for line in text.splitlines())


def test_a_reconciles_screen_shows_every_class_its_samples_and_what_mends_them() -> None:
    said = rendered(reconcile.view(Account().application, RECONCILED))

    assert "found 1,237 differences in 2 classes." in said
    assert all(kind.value in said for kind in Difference)
    assert "Samples (6 of the report's 8)" in said
    assert PLACE.url in one_line(said)
    assert "B00042" in said
    assert [step.command for step in reconcile.next_commands(RECONCILED)] == [
        "dispatchctl redo 2026-09-17T15 --by NAME --reason TEXT",
        "dispatchctl resume 2026-09-17T15",
        "dispatchctl why RECORD",
    ]


def test_a_clean_hour_needs_nothing() -> None:
    assert "found no difference." in rendered(reconcile.view(Account().application, CLEAN))
    assert list(reconcile.next_commands(CLEAN)) == []


def test_an_hour_without_a_run_is_run_and_not_redone() -> None:
    nothing_ran = replace(RECONCILED, counts=FOUND | {"MissingHour": 1, "InDoubt": 0})

    assert [step.command for step in reconcile.next_commands(nothing_ran)] == [
        "dispatchctl run --hour 2026-09-17T15",
        "dispatchctl why RECORD",
    ]


def test_the_lines_of_a_range_fit_100_columns_whatever_differs() -> None:
    all_differ = replace(RECONCILED, counts=dict.fromkeys(FOUND, 9_999_999))

    lines = reconcile.line(all_differ).splitlines()

    assert all(len(line) <= NARROW for line in lines)
    assert all(kind.value in "".join(lines) for kind in Difference)


def test_a_range_is_added_up_by_class() -> None:
    told = reconcile.sum_text([CLEAN, RECONCILED, RECONCILED]).splitlines()

    assert told[0].split()[:3] == ["Together", "2", "differ"]
    assert reconcile.together([CLEAN, RECONCILED, RECONCILED])["InDoubt"] == 2_468


def test_a_sample_is_named_as_why_takes_it() -> None:
    assert reconcile.sample_text({"Key": {"Shop": "a", "Number": 7}}) == "a 7"
    assert reconcile.moment_of({"Key": {"RecordId": "R1"}}) == ""


def test_a_question_says_what_would_be_dispatched_who_asks_and_why() -> None:
    said = rendered(redo.question_view(QUESTION, []))

    assert "would dispatch 2 records in 2 tasks of 2 groups." in said
    assert "4 = 2 to be dispatched + 1 dispatched since + 1 no longer waiting" in said
    assert "Ann" in said
    assert "It arrived late." in said


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("Redone", "dispatched 2 of 4 missing records in 2 tasks."),
        ("Stopped", "was stopped by the kill switch: 2 were dispatched."),
        ("AlreadyRunning", "Nothing was done for 2026-09-17 15:00 to 16:00 UTC: run holder works on it."),
    ],
)
def test_the_end_of_a_redo_is_told_in_a_sentence(outcome: str, said: str) -> None:
    output = {"Outcome": outcome, "RunId": "holder", "WindowStart": WINDOW.start_text, "Missing": 4, "Dispatched": 2}
    output |= {"AlreadyDispatched": 1, "NoLongerWaiting": 1, "Tasks": 2}

    assert said in rendered(redo.outcome_view(Account().application, ended(detail=output)))


def test_more_hours_than_anybody_means_are_reconciled_only_if_it_is_said(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    del account  # only that it stands
    done: list[Window] = []

    def reconciled(_: Application, window: Window, __: Mapping[str, Any]) -> reconcile.Reconciled:
        done.append(window)
        return CLEAN

    monkeypatch.setattr("tools.dispatchctl.reconcile._reconciled", reconciled)
    line = ["reconcile", "--from", "2026-09-01T00", "--to", "2026-09-09T08"]

    refused = CliRunner().invoke(app, line).exception

    assert isinstance(refused, CommandError)
    assert str(refused) == "--from: 201 hours are more than 200; --yes takes them all"
    assert (refused.code, done) == (ExitCode.USAGE, [])
    assert CliRunner().invoke(app, [*line, "--yes"]).exit_code == 0
    assert len(done) == 201

    late = CliRunner().invoke(app, ["reconcile", "--from", "2026-09-01T00", "--to", "2099-01-01T00", "--yes"]).exception
    assert isinstance(late, InvalidInput)
    assert str(late).startswith("--to: the window ends at 2099-01-01T01:00:00Z")
    assert len(done) == 201


def test_a_failed_execution_says_what_to_do_and_where_to_look() -> None:
    failed = ended(error="NotApproved", detail={"Message": 'rejected by "Bob"'})

    said = waiting.failure_text(Account().application, failed, "The redo")

    assert said.startswith('The redo failed: NotApproved: rejected by "Bob"\n')
    assert said.endswith(f"  where  {EXECUTION}")


def test_the_newest_report_with_anything_missing_is_redone(account: Account) -> None:
    prefix, at = "reports/2026-09-17/15/", datetime(2026, 9, 17, 17, tzinfo=UTC)
    for name, minute, report in (
        ("a.json", 1, {"Missing": {"Count": 1}}),
        ("b.json", 2, {"Missing": {"Count": 2}}),
        ("c.json", 3, {"Missing": None}),
        ("d-compare.json", 4, {"Missing": {"Count": 9}}),
        ("b-missing.jsonl", 5, []),
    ):
        account.objects[f"{prefix}{name}"] = (at + timedelta(minutes=minute), report)

    assert newest_with_missing(account.application, WINDOW).key == f"{prefix}b.json"
    with pytest.raises(UnknownReportError, match="it was not reconciled yet"):
        newest_with_missing(account.application, WINDOW.next)


def test_a_report_is_named_by_its_address_or_its_key(account: Account) -> None:
    assert place_of(account.application, PLACE.url) == PLACE
    assert place_of(account.application, PLACE.key) == PLACE
    with pytest.raises(InvalidInput, match=r"^REPORT: "):
        place_of(account.application, "elsewhere/report.json")


def ask(account: Account) -> None:
    """Let the account's execution wait for an approval."""
    count = {"Progress": {"Totals": COUNTS.to_state()}, "AlreadyDispatched": 1, "NoLongerWaiting": 1}
    state = {
        "Run": {"WindowStart": WINDOW.start_text},
        "Redo": QUESTION.redo.to_state(),
        "Count": count | {"Samples": list(QUESTION.samples)},
    }
    account.rows.append(approval_key(EXECUTION) | {"Token": {"S": "T"}})
    account.events += [
        {"type": "TaskScheduled"},
        {"stateEnteredEventDetails": {"name": "Ask for approval", "input": json.dumps(state)}},
    ]


def test_what_a_redo_asks_is_read_from_its_execution(account: Account) -> None:
    assert question_of(account.application, EXECUTION) is None
    ask(account)

    assert question_of(account.application, EXECUTION) == QUESTION


def answer_with(account: Account, answer: Mapping[str, Any] | None) -> None:
    """Let the account's execution leave its question with an answer, or without one."""
    output = json.dumps({"Answer": answer} if answer else {"Error": {}})
    left = {"name": "Ask for approval", "output": output}
    account.events.insert(0, {"timestamp": datetime(2026, 9, 17, 17, tzinfo=UTC), "stateExitedEventDetails": left})


def test_a_redo_waits_until_it_is_answered_or_has_ended(account: Account) -> None:
    assert list(waiting_redos(account.application)) == []
    ask(account)
    assert list(waiting_redos(account.application)) == [QUESTION]
    account.status = "ABORTED"
    assert list(waiting_redos(account.application)) == []
    account.status = "RUNNING"
    answer_with(account, {"Approved": True, "By": "Bob"})
    assert list(waiting_redos(account.application)) == []


@pytest.mark.parametrize(("window", "told"), [(None, [QUESTION]), (WINDOW, [QUESTION]), (WINDOW.next, [])])
def test_the_status_names_the_redos_that_wait_and_how_they_are_answered(
    monkeypatch: pytest.MonkeyPatch, window: Window | None, told: list[Question]
) -> None:
    for name in ("recent", "of_hour", "running", "queues"):
        monkeypatch.setattr(f"tools.runs.overview.{name}", lambda *_: [])
    monkeypatch.setattr("tools.runs.overview.waiting", lambda _: [QUESTION])
    monkeypatch.setattr("tools.runs.overview.flags", lambda _: Flags(stopped=False, path=Path.FULL, page_size=1))
    monkeypatch.setattr("tools.runs.overview._scheduled", lambda _: False)

    found = overview(Account().application, datetime(2026, 9, 17, 17, tzinfo=UTC), 20, window)

    assert found.redos == told
    name = EXECUTION.rpartition(":")[2]
    line = f"dispatchctl approve {name} --by YOU  # asked by Ann for 2026-09-17 15:00 to 16:00 UTC"
    assert [value for title, value in facts(found) if title == "Redo waits"] == [line] * len(told)
    assert overview_json(found)["RedosWaiting"] == list(map(redo.question_json, told))


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ({"Approved": True, "By": "Bob"}, "RUNNING", "it was approved by Bob at 2026-09-17 17:00:00 UTC"),
        ({"Approved": False, "By": "Bob"}, "FAILED", "it was rejected by Bob at 2026-09-17 17:00:00 UTC"),
        (None, "FAILED", "nobody has answered until 2026-09-17 17:00:00 UTC"),
    ],
)
def test_a_redo_that_was_answered_says_so_before_all_else(
    account: Account, answer: Mapping[str, Any] | None, status: str, said: str
) -> None:
    ask(account)
    answer_with(account, answer)
    account.status = status

    result = CliRunner().invoke(app, ["approve", EXECUTION, "--by", "Eve"])

    assert str(result.exception).endswith(f"waits for no answer any more: {said}")
    assert result.stdout == ""


def test_a_redo_that_was_ended_while_it_waited_is_not_shown_as_a_question(account: Account) -> None:
    ask(account)
    account.status = "ABORTED"

    result = CliRunner().invoke(app, ["approve", EXECUTION, "--by", "Eve"])

    assert str(result.exception).endswith("waits for no answer any more: it has ended (ABORTED)")
    assert result.stdout == ""


@pytest.mark.parametrize("name", ["4cc6c0b", "4cc6c0b9", "nothing-like-it", f"{EXECUTION}x"])
def test_a_redo_that_is_not_known_is_said_to_be_unknown(account: Account, name: str) -> None:
    ask(account)

    result = CliRunner().invoke(app, ["approve", name, "--by", "Bob"])

    assert isinstance(result.exception, UnknownRunError)
    assert str(result.exception).startswith(f"no redo {name} is known")


@pytest.mark.parametrize("name", [EXECUTION, EXECUTION.rpartition(":")[2], "4cc6c0b8"])
def test_a_redo_is_found_by_the_beginning_of_its_name(account: Account, name: str) -> None:
    assert execution_of(account.application, name) == (EXECUTION, "RUNNING")


@pytest.mark.parametrize("by", ["Ann", " ann "])
def test_whoever_asked_cannot_answer_and_nothing_is_sent(account: Account, by: str) -> None:
    ask(account)

    result = CliRunner().invoke(app, ["approve", EXECUTION, "--by", by])

    assert isinstance(result.exception, CommandError)
    assert result.exception.code is ExitCode.USAGE
    assert "somebody else must answer it" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["redo", PLACE.key, "--by", " ", "--reason", "Late"], "RequestedBy: "),
        (["redo", PLACE.key, "--by", "Ann", "--reason", "x" * 501], "Reason: "),
        (["redo", "17.09.2026", "--by", "Ann", "--reason", "Late"], "REPORT: "),
        (["redo", "reports/clean.json", "--by", "Ann", "--reason", "Late"], "REPORT: "),
    ],
)
def test_a_redo_that_would_be_refused_is_not_started(account: Account, arguments: list[str], said: str) -> None:
    written = datetime(2026, 9, 17, 17, tzinfo=UTC)
    account.objects |= {PLACE.key: (written, {"Missing": {"Count": 1}}), "reports/clean.json": (written, {})}

    result = CliRunner().invoke(app, arguments)

    assert isinstance(result.exception, InvalidInput)
    assert str(result.exception).startswith(said)


def test_a_comparisons_screen_shows_the_gate_the_paths_and_what_is_split() -> None:
    said = rendered(compare.view(Account().application, compared()))

    assert said.startswith("The gate passed: with pages, 2,000 groups of 2026-09-17 15:00 to 16:00 UTC would be split")
    assert row(said, "SplitShare") == ["SplitShare", "29.41%", "none:", "for", "information", "yes"]
    assert row(said, "Tasks ") == ["Tasks", "1,000,000", "1,002,000", "1,000,000"]
    assert row(said, "Groups that become") == [*["Groups", "that", "become", "several", "tasks"], "-", "2,000", "0"]
    assert "Split by pages, by a record of each group (5 of the report's 9)" in one_line(said)
    assert PLACE.url in one_line(said)


def test_a_gate_that_was_not_passed_names_no_way_to_turn_paging_on() -> None:
    failed = compared(Gate="Failed")

    assert "The gate was NOT passed" in rendered(compare.view(Account().application, failed))
    assert list(compare.next_commands(Account().application, failed)) == []


def test_what_comes_next_is_for_the_application_that_was_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.command_line._typed", {"stage": "Sandbox", "profile": "mine"})
    account = Account().application
    stopped = {"Outcome": "Stopped", "WindowStart": WINDOW.start_text, "RunId": "RUN", "Missing": 3, "Tasks": 0}
    stopped |= dict.fromkeys(("Dispatched", "AlreadyDispatched", "NoLongerWaiting"), 0)
    paged, reconciled = compare.next_commands(replace(account, account=boto3.Session()), compared())

    assert paged.command.startswith("aws --profile mine ssm put-parameter ")
    assert reconciled.command == "dispatchctl --stage Sandbox --profile mine reconcile"
    for step in (*why.next_commands(told()), *reconcile.next_commands(RECONCILED)):
        assert step.command.startswith("dispatchctl --stage Sandbox --profile mine ")
    assert "dispatchctl --stage Sandbox --profile mine stop --clear" in rendered(
        redo.outcome_view(account, ended(detail=stopped))
    )
    with pytest.raises(UnknownRunError, match="`dispatchctl --stage Sandbox --profile mine status` lists"):
        execution_of(Account().application, "none")


def test_whoever_is_to_approve_a_redo_is_told_where_and_brings_a_profile_of_their_own(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.command_line._typed", {})
    monkeypatch.setattr("tools.dispatchctl.redo.start", lambda *_: EXECUTION)
    monkeypatch.setattr("tools.dispatchctl.redo.waited", lambda *given: given[3]())
    account.objects[PLACE.key] = (datetime(2026, 9, 17, 17, tzinfo=UTC), {"Missing": {"Count": 3}})
    ask(account)
    typed = ["--stage", "Sandbox", "--region", "eu-west-1", "--profile", "mine"]

    said = CliRunner().invoke(app, [*typed, "redo", PLACE.key, "--by", "Ann", "--reason", "Late", "--no-wait"]).output

    assert f"dispatchctl --stage Sandbox --region eu-west-1 approve {EXECUTION.rpartition(':')[2]} --by ANOTHER" in said


def test_the_command_that_turns_paging_on_speaks_to_the_embedded_aws_and_no_account() -> None:
    local = replace(Account().application, deployment=Deployment("http://127.0.0.1:4566", "eu-west-1", OUTPUTS))
    account = replace(local, account=boto3.Session(region_name="eu-west-1"))

    assert [
        next(iter(compare.next_commands(each, compared()))).command.split(" --overwrite")[0]
        for each in (local, account)
    ] == [
        "aws --endpoint-url http://127.0.0.1:4566 ssm put-parameter",
        "aws ssm put-parameter",
    ]


@pytest.mark.parametrize("cause", list(Cause), ids=list(Cause))
def test_each_cause_is_told_in_a_sentence_of_its_own(cause: Cause) -> None:
    untouched = Untouched(cause=cause, window=WINDOW, run_id="RUN", outcome="Stopped", detail="DETAIL")

    assert why.reason(untouched).endswith((".", "that."))
    assert "None" not in why.reason(untouched)
    assert "{" not in why.reason(untouched)


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"grant": Grant(granted_at="then", granted_for="T")}, State.GRANTED),
        ({"dead_letter": DeadLetter(reason="object: no JSON")}, State.DEAD),
        ({"grant": Grant(finished_at="then", outcomes={"Rebooked": 1})}, State.SETTLED),
        ({}, State.SENT),
        ({"sent": False}, State.IN_DOUBT),
        ({"sent": False, "on_queue": True}, State.SENT),
    ],
)
def test_a_task_says_what_its_record_has_come_to(facts: dict[str, Any], state: State) -> None:
    story = told(tasks=(replace(in_task(), **facts),))

    assert story.state is state
    assert rendered(why.view(story)).startswith(why.VERDICTS[state][:NARROW].split(":")[0])


def test_of_several_tasks_the_one_that_was_granted_counts() -> None:
    granted = replace(in_task(), grant=Grant(granted_at="then", granted_for="T"))

    assert told(tasks=(in_task(), granted)).state is State.GRANTED


def test_a_booking_that_is_bad_data_is_to_be_mended_first() -> None:
    late = Untouched(cause=Cause.NOT_READ, window=WINDOW, run_id="RUN", outcome="Dispatched")
    story = told(fault="MemberId: empty", untouched=(late,))

    assert [step.command for step in why.next_commands(story)] == [
        "dispatchctl run --hour 2026-09-17T15",
        "dispatchctl why B00042 --hour OLDHOUR",
    ]
    assert "mended" in next(why.next_commands(story)).why


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"grant": Grant(granted_at="then", granted_for="T")}, "Dispatched and granted, and deleted since."),
        ({"grant": Grant(finished_at="then", outcomes={"Gone": 1})}, "Dispatched and not granted, and deleted since."),
        ({"sent": False}, "Perhaps dispatched, and deleted since."),
    ],
)
def test_a_deleted_booking_is_told_by_what_it_had_come_to(facts: dict[str, Any], said: str) -> None:
    story = told(deleted=True, moment=None, hours=(), tasks=(replace(in_task(), **facts),))

    assert why.verdict(story) == said


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, 'Not dispatched: only the status "WaitToReward" waits for a reward.'),
        ({"set_aside": True}, "Not dispatched: it was set aside as bad data."),
    ],
)
def test_a_moved_booking_is_told_with_its_earlier_task(facts: dict[str, Any], said: str) -> None:
    moved = "2026-09-17T15:40:00Z"
    aside = SetAside(met=replace(met(), moment=moved), reason="OrderTime: missing", file="s3://bucket/file")
    story = told(
        moment=moved,
        tasks=(in_task(),),
        set_aside=(aside,) if facts else (),
        untouched=() if facts else (Untouched(cause=Cause.NOT_WAITING),),
    )

    assert why.verdict(story) == (
        "Dispatched as it was booked for 2026-09-17T15:20:00Z, and moved since:"
        f" as it stands now, it is {said[0].lower()}{said[1:]}"
    )


@pytest.mark.parametrize("facts", [{"granted_at": "then", "granted_for": "T"}, {"finished_at": "then", "outcomes": {}}])
def test_what_a_worker_has_settled_it_is_not_said_to_skip(facts: dict[str, Any]) -> None:
    settled = replace(in_task(), grant=Grant(**facts), skipped=Outcome.NOT_WAITING)

    assert "skips" not in why.verdict(told(tasks=(settled,)))


def test_nothing_of_a_long_story_is_cut() -> None:
    aside = SetAside(met=met(), reason="OrderTime: missing", file="s3://" + "bucket/" * 30)
    story = told(key='{"RecordId":"' + "x" * 300 + '"}', tasks=(in_task(),), set_aside=(aside,))

    said = one_line(rendered(why.view(story)))

    assert "x" * 300 in said
    assert aside.file in said
    assert in_task().task.task_id in said
    assert "…" not in said


def ended(*, error: str | None = None, detail: Mapping[str, Any]) -> Ended:
    began = datetime(2026, 9, 17, 17, tzinfo=UTC)
    return Ended(execution=EXECUTION, started=began, ended=began, error=error, detail=detail)


def row(said: str, title: str) -> list[str]:
    [line] = [line for line in said.splitlines() if line.startswith(f"{title} ")]
    return line.split()


def compared(**output: Any) -> compare.Compared:
    none = dict.fromkeys(compare.DIFFERENCES, 0)
    figures = {"Tasks": 1_000_000, "Groups": 900_000, "Records": 5_000_000, "LargestGroup": 10, "MostParts": 1}
    paths = {
        "Full": figures,
        "Paged": {**figures, "Tasks": 1_002_000, "Differences": {**none, "Split": 2_000}},
        "Grouped": {**figures, "Differences": none},
    }
    checks = [
        {"Name": "Records", "Figure": 5_000_000, "Threshold": "at least 1", "Passed": True},
        {"Name": "SplitShare", "Figure": 0.2941, "Threshold": "none: for information", "Passed": True},
    ]
    return compare.Compared(
        window=WINDOW,
        execution=EXECUTION,
        seconds=2.5,
        output={"Outcome": "Differences", **paths, "Gate": "Passed", "Report": PLACE.to_input(), **output},
        report={
            "Coverage": {"Pages": 5_000, "Evaluated": 5_000_000, "Waiting": 5_000_000, "SetAside": 0},
            "Settings": {"PageSize": 1000, "Slices": 1, "Shards": 0, "SetAsideLimit": 100},
            "Gate": {"Checks": checks, "StopConditions": ["A run fails."], "WayBack": "Set it to false."},
            "Samples": {"Paged": {"Split": [SAMPLE] * 9}},
        },
    )


def met() -> Met:
    return Met(window=WINDOW, run_id="20260917T160110Z-hourly", lane=0, page=3, moment="2026-09-17T15:20:00Z")


def in_task() -> InTask:
    version = RecordVersion('{"RecordId":"B00042"}', "2026-09-17", "15:20:00Z")
    return InTask(
        met=met(),
        task=Task("a" * 64, Route.POINT, Group("1", "2", "3"), WINDOW, (version,)),
        object=f"s3://bucket/tasks/2026-09-17/15/aa/{'a' * 64}.json",
        ledger="plan#2026-09-17T15:00:00Z#20260917T160110Z-hourly / row#0000#000003",
        sent=True,
        finished=datetime(2026, 9, 17, 16, 2, tzinfo=UTC),
        on_queue=False,
        dead_letter=None,
        grant=None,
        skipped=None,
    )


def told(**facts: Any) -> Story:
    story = Story(
        key='{"RecordId":"B00042"}',
        values=("B00042",),
        deleted=False,
        booked={"RewardStatus": '"WaitToReward"', "BookingDateUTC": '"2026-09-17"', "BookingTimeUTC": '"15:20:00Z"'},
        moment="2026-09-17T15:20:00Z",
        hours=(WINDOW,),
        fault=None,
        searched=(WINDOW.previous, WINDOW, WINDOW.next),
        named=(),
        tasks=(),
        set_aside=(),
        staged=(),
        untouched=(),
    )
    return replace(story, **facts)
