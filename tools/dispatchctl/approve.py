"""The answer of a second person to a redo."""

from typing import Annotated

import typer

from functions.usecases.approval import Answer
from functions.usecases.window_input import validated
from tools.dispatchctl.redo import question_view
from tools.dispatchctl.shell import CommandError, ExitCode, app, application_of, screen
from tools.dispatchctl.units import moment_text
from tools.runs.records import RUNNING
from tools.runs.redos import NotWaitingError, Question, answer, execution_of, question_of


@app.command()
def approve(
    context: typer.Context,
    execution: Annotated[
        str, typer.Argument(metavar="EXECUTION", help="The redo's execution (its first 8 letters do).")
    ],
    *,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who answers: somebody else than whoever asked.")],
    reject: Annotated[
        bool, typer.Option("--reject", help="Refuse it: the redo ends, and nothing is dispatched.")
    ] = False,
) -> None:
    """Approve a redo that waits for a second person, or reject it; what it would dispatch is shown first."""
    application = application_of(context)
    validated(Answer, {"Approved": not reject, "By": by})
    arn, status = execution_of(application, execution)
    question = question_of(application, arn)
    if question is None:
        raise CommandError(f"{arn} has not asked for an approval", ExitCode.NOT_FOUND)
    if question.given is not None or status != RUNNING:
        raise CommandError(f"{arn} waits for no answer any more: {_ended_text(question, status)}")
    if by.strip().casefold() == question.redo.requested_by.casefold():
        raise CommandError(f"--by: {by.strip()} has asked for this redo; somebody else must answer it", ExitCode.USAGE)
    screen().print(question_view(question, []))
    clients, ledger = (
        (application.dynamodb, application.stepfunctions),
        application.deployment.outputs["LedgerTableName"],
    )
    try:
        answer(*clients, ledger, arn, approved=not reject, by=by)
    except NotWaitingError as error:
        raise CommandError(str(error)) from None
    print(f"{'Rejected' if reject else 'Approved'} by {by.strip()}. The redo {'ends' if reject else 'goes on'}.")


def _ended_text(question: Question, status: str) -> str:
    """Why a redo waits no more: who has answered and when, as far as that is known."""
    given = question.given
    if given is None:
        return f"it has ended ({status})"
    if given.by is None:
        return f"nobody has answered until {moment_text(given.at)} UTC"
    return f"it was {'approved' if given.approved else 'rejected'} by {given.by} at {moment_text(given.at)} UTC"
