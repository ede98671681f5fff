"""The operator's answer to a redo: by the token in the ledger, and never to one that waits no more."""

import json
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from tools.runs.redos import NotWaitingError, answer

EXECUTION: Final = "arn:aws:states:eu-west-1:123456789012:execution:redo:one"


class Table:
    def __init__(self, *rows: dict[str, Any]) -> None:
        self._rows = rows

    def get_item(self, **request: Any) -> dict[str, Any]:
        found = [row for row in self._rows if request["Key"].items() <= row.items()]
        return {"Item": found[0]} if found else {}


class Machine:
    def __init__(self, code: str = "") -> None:
        self.answers: list[dict[str, Any]] = []
        self._code = code

    def send_task_success(self, **request: Any) -> None:
        if self._code:
            raise ClientError({"Error": {"Code": self._code, "Message": ""}}, "SendTaskSuccess")
        self.answers.append(request)


ROW: Final = {"Pk": {"S": f"approval#{EXECUTION}"}, "Sk": {"S": "token"}, "Token": {"S": "T"}}


def test_an_answer_is_handed_to_the_execution_by_its_token() -> None:
    machine = Machine()

    answer(Table(ROW), machine, "ledger", EXECUTION, approved=False, by="Bob")

    [sent] = machine.answers
    assert (sent["taskToken"], json.loads(sent["output"])) == ("T", {"Approved": False, "By": "Bob"})


def test_an_execution_that_never_asked_is_refused() -> None:
    with pytest.raises(NotWaitingError, match="has not asked"):
        answer(Table(), Machine(), "ledger", EXECUTION, approved=True, by="Bob")


@pytest.mark.parametrize("code", ["InvalidToken", "TaskDoesNotExist", "TaskTimedOut"])
def test_an_unknown_or_expired_token_is_refused(code: str) -> None:
    with pytest.raises(NotWaitingError, match="waits for no answer any more"):
        answer(Table(ROW), Machine(code), "ledger", EXECUTION, approved=True, by="Bob")
