"""The answer of a second person to a redo."""

from typing import Annotated

import typer

from functions.usecases.approval import Answer
from functions.usecases.window_input import validated
from tools.dispatchctl.redo import question_view
from tools.dispatchctl.shell import CommandError, ExitCode, app, application_of, screen
from tools.runs.machines import Machine, execution_arn
from tools.runs.redos import NotWaitingError, answer, question_of


@app.command()
def approve(
    context: typer.Context,
    execution: Annotated[str, typer.Argument(metavar="EXECUTION", help="The redo's execution: its ARN, or its name.")],
    *,
    by: Annotated[str, typer.Option(metavar="NAME", help="Who answers: somebody else than whoever asked.")],
    reject: Annotated[
        bool, typer.Option("--reject", help="Refuse it: the redo ends, and nothing is dispatched.")
    ] = False,
) -> None:
    """Approve a redo that waits for a second person, or reject it; what it would dispatch is shown first."""
    application = application_of(context)
    validated(Answer, {"Approved": not reject, "By": by})
    arn = execution_arn(application, Machine.REDO, execution)
    question = question_of(application, arn)
    if question is None:
        raise CommandError(f"{arn} has not asked for an approval", ExitCode.NOT_FOUND)
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
