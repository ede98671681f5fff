"""The question to a second person whether a redo may go on, and what the answer is worth."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, StringConstraints

from functions.domain.errors import NotApproved
from functions.domain.redo import MAX_REQUESTER, ONE_LINE, Redo
from functions.domain.run import Run, State
from functions.usecases.ports import Notifier, Repairs
from functions.usecases.window_input import validated

EXPIRED: Final = "nobody has answered within a day"


class Answer(BaseModel):
    """What comes back with the task token."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    Approved: bool
    By: Annotated[str, StringConstraints(pattern=ONE_LINE, max_length=MAX_REQUESTER)]


def ask_for_approval(  # noqa: PLR0913 -- what a person is told, by name
    run: Run, redo: Redo, count: State, *, execution: str, token: str, repairs: Repairs, notifier: Notifier
) -> None:
    """Note the token, then tell what would be dispatched; a repeated call does both again."""
    repairs.ask(execution, token)
    totals = count["Progress"]["Totals"]
    records = totals["Dispatched"]
    notifier.notify(
        f"Approve a redo of {run.window.start_text}?",
        "\n".join(
            [
                f"Window:       {run.window.start_text} to {run.window.end_text}",
                f"Report:       {redo.report_key}",
                f"Requested by: {redo.requested_by}",
                f"Reason:       {redo.reason}",
                f"Execution:    {execution}",
                "",
                f"Missing: {redo.missing}, of which are",
                f"- to be dispatched: {records} in {totals['Tasks']} tasks of {totals['Groups']} groups",
                f"- already dispatched: {count['AlreadyDispatched']}",
                f"- no longer waiting: {count['NoLongerWaiting']}",
                f"Records, for example: {', '.join(count['Samples'])}",
                "",
                "Answer within a day, as somebody else than the requester:",
                f"dispatchctl --stage STAGE approve {execution} --by NAME    (--reject refuses it)",
                f"Task token: {token}",
            ]
        ),
    )


def check_approval(redo: Redo, answer: Mapping[str, Any] | None) -> dict[str, str]:
    """Who approved the redo: `{"By"}`; without an answer it has expired.

    Raises:
        NotApproved: it was rejected, has expired, or whoever asked has answered.
        InvalidInput: the answer is none.
    """
    if answer is None:
        raise NotApproved(EXPIRED)
    given = validated(Answer, answer, "Answer")
    by = given.By.strip()
    if by.casefold() == redo.requested_by.casefold():
        raise NotApproved("whoever asked for a redo cannot answer it")
    if not given.Approved:
        raise NotApproved(f"rejected by {json.dumps(by)}")
    return {"By": by}
