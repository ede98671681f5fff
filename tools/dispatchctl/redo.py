"""What a reconcile found missing, dispatched once a second person approves."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from functions.domain.errors import InvalidInput
from functions.domain.window import Window, utc_text
from functions.usecases.plan_redo import RedoInput
from functions.usecases.window_input import check_closed, validated
from tools.application import Application
from tools.command_line import NAME
from tools.deployment import STAGE as EMBEDDED
from tools.dispatchctl.machines import waited
from tools.dispatchctl.outcome import Next, facts_grid, hours_text, where
from tools.dispatchctl.shell import AsJson, CommandError, ExitCode, Target, app, application_of, screen, show, target_of
from tools.dispatchctl.units import count_text, seconds_text, some
from tools.runs.machines import Ended, Machine, start
from tools.runs.records import hour_of
from tools.runs.redos import Question, question_of
from tools.runs.reports import Place, UnknownReportError, newest_with_missing, place_of, read_report

REDONE: Final = "Redone"


class _Asked(Exception):
    """The redo has asked for an approval."""

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.question = question


@app.command()
def redo(  # noqa: PLR0913 -- a command's options are its arguments
    context: typer.Context,
    report: Annotated[
        str,
        typer.Argument(
            metavar="REPORT|HOUR",
            help="A reconcile's report as s3://bucket/key or key, or an hour: its newest one with anything missing.",
        ),
    ],
    *,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who asks for it.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever approves it, and to be kept.")],
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the answer and the end, or only until it is asked.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Dispatch exactly what a reconcile's report lists as missing and still waits, once a second person approves.

    Exit code 4: it was stopped, or another run works on the hour.
    """
    application = application_of(context)
    try:
        place = _place(application, report)
    except UnknownReportError as error:
        raise CommandError(str(error), ExitCode.NOT_FOUND) from None
    given = {"Report": place.to_input(), "RequestedBy": by, "Reason": reason}
    validated(RedoInput, given)
    execution = start(application, Machine.REDO, given)
    title = f"The redo of {place.key}"
    question: Question | None = None
    ended: Ended | None = None
    try:
        ended = waited(application, execution, title, lambda: _raise_question(application, execution))
    except _Asked as asked:
        question = asked.question
        step = _approving(target_of(context), execution)
        (Console(stderr=True) if as_json else screen()).print(question_view(asked.question, [step]))
        if wait:
            ended = waited(application, execution, title)
    if as_json:
        show(to_json(execution, place, question, ended), lambda: "", as_json=True)
    elif ended is not None:
        show({}, lambda: outcome_view(application, ended), as_json=False)
    if ended is not None and ended.detail["Outcome"] != REDONE:
        raise typer.Exit(ExitCode.FINDINGS)


def _raise_question(application: Application, execution: str) -> None:
    """End the waiting when the redo asks; it is told without a sign of life beside it."""
    question = question_of(application, execution)
    if question is not None:
        raise _Asked(question)


def _place(application: Application, text: str) -> Place:
    """The report that is meant; it is there, and lists something as missing.

    Raises:
        UnknownReportError: it is not there.
        InvalidInput: it is none of a reconcile, or lists nothing.
    """
    window = _hour(text)
    if window is not None:
        check_closed(window, utc_text(datetime.now(UTC)), "HOUR")
        return newest_with_missing(application, window)
    place = place_of(application, text)
    if not read_report(application, place).get("Missing"):
        raise InvalidInput(f"REPORT: {place.url} lists nothing as missing")
    return place


def _hour(text: str) -> Window | None:
    """The hour that a text names; None where it has the form of a report's place."""
    try:
        return hour_of(text, "REPORT")
    except InvalidInput:
        if "/" in text:
            return None
        raise


def _approving(target: Target, execution: str) -> Next:
    """How a second person approves it, whose environment and profile may be other ones."""
    named = {} if target.stage == EMBEDDED else {"stage": target.stage, "region": target.region}
    options = "".join(f" --{name} {value}" for name, value in named.items() if value)
    return Next(
        command=f"{NAME}{options} approve {execution.rpartition(':')[2]} --by ANOTHER",
        why="by somebody else, within a day; --reject refuses it",
    )


def question_view(question: Question, steps: list[Next]) -> RenderableType:
    """What would be dispatched, who wants that and why."""
    counts, asked = question.counts, question.redo
    facts = {
        "Report": asked.report_key,
        "Asked by": asked.requested_by,
        "Reason": asked.reason,
        "Missing": (
            f"{count_text(asked.missing)} = {count_text(counts.dispatched)} to be dispatched"
            f" + {count_text(question.already_dispatched)} dispatched since"
            f" + {count_text(question.no_longer_waiting)} no longer waiting"
        ),
        "Records": ", ".join(question.samples) + (" ..." if counts.dispatched > len(question.samples) else ""),
        "Execution": question.execution.rpartition(":")[2],
    }
    says = (
        f"The redo of {hours_text(question.window)} would dispatch {some(counts.dispatched, 'record')} in"
        f" {some(counts.tasks, 'task')} of {some(counts.groups, 'group')}."
    )
    return Group(Text(says), Text(), facts_grid(facts, steps), Text())


def outcome_view(application: Application, ended: Ended) -> RenderableType:
    """What a redo did."""
    output, hour = ended.detail, hours_text(Window.starting(ended.detail["WindowStart"]))
    missing, tasks = some(output["Missing"], "missing record"), some(output["Tasks"], "task")
    outcome = output["Outcome"]
    if outcome == "AlreadyRunning":
        says = f"Nothing was done for {hour}: run {output['RunId']} works on it."
        step = Next.of(f"show {output['RunId']} --follow", "watch that; then redo again")
    elif outcome == "Stopped":
        says = f"The redo of {hour} was stopped by the kill switch: {count_text(output['Dispatched'])} were dispatched."
        step = Next.of("stop --clear", "let runs go on; then redo the same report again")
    else:
        says = f"The redo of {hour} dispatched {count_text(output['Dispatched'])} of {missing} in {tasks}."
        step = Next.of(f"reconcile {output['WindowStart'][:13]}", "see that nothing is missing any more")
    facts = {
        "Outcome": outcome,
        "Missing": (
            f"{count_text(output['Missing'])}: {count_text(output['Dispatched'])} dispatched now,"
            f" {count_text(output['AlreadyDispatched'])} before,"
            f" {count_text(output['NoLongerWaiting'])} no longer waiting"
        ),
        "Run": output["RunId"],
        "Took": seconds_text(ended.seconds),
        "Where": where(application, ended.execution),
    }
    return Group(Text(says), Text(), facts_grid(facts, [step]))


def to_json(execution: str, place: Place, question: Question | None, ended: Ended | None) -> dict[str, Any]:
    """The same for machines."""
    return {
        "Execution": execution,
        "Report": place.to_input(),
        "Question": question and question_json(question),
        "Output": ended and dict(ended.detail),
    }


def question_json(question: Question) -> dict[str, Any]:
    """What would be dispatched, for machines."""
    return {
        "Execution": question.execution,
        "WindowStart": question.window.start_text,
        "WindowEnd": question.window.end_text,
        **question.redo.to_state(),
        "Dispatched": question.counts.dispatched,
        "Tasks": question.counts.tasks,
        "Groups": question.counts.groups,
        "AlreadyDispatched": question.already_dispatched,
        "NoLongerWaiting": question.no_longer_waiting,
        "Samples": list(question.samples),
    }
