"""The answer to a redo that waits for a second person's approval.

python -m tools.approve --execution ARN --approve|--reject --by NAME [--ledger TABLE]

Without --ledger the execution is one of the embedded AWS; with it, one of the AWS that the environment's credentials
are of, and TABLE is the stack's output LedgerTableName.
"""

import argparse
import json
import sys
from typing import Any, Final

import boto3
from botocore.exceptions import ClientError

from functions.adapters.ledger_table import approval_key
from tools.application import Application, NotDeployedError
from tools.command import leave

NOT_WAITING: Final = ("InvalidToken", "TaskDoesNotExist", "TaskTimedOut")


class NotWaitingError(RuntimeError):
    """The execution waits for no answer; the message says which one."""


def answer(  # noqa: PLR0913 -- where it goes, and what a person says
    dynamodb: Any, stepfunctions: Any, ledger: str, execution: str, *, approved: bool, by: str
) -> None:
    """Hand the answer to the execution, by the token that it left in the ledger; it is judged there.

    Raises:
        NotWaitingError: it never asked, has its answer, or has ended.
    """
    row = dynamodb.get_item(TableName=ledger, Key=approval_key(execution), ConsistentRead=True).get("Item")
    if row is None:
        raise NotWaitingError(f"{execution} has not asked for an approval.")
    output = json.dumps({"Approved": approved, "By": by})
    try:
        stepfunctions.send_task_success(taskToken=row["Token"]["S"], output=output)
    except ClientError as error:
        if error.response["Error"]["Code"] not in NOT_WAITING:
            raise
        raise NotWaitingError(f"{execution} waits for no answer any more.") from None


def main() -> int:
    """Answer as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--execution", required=True, metavar="ARN")
    verdict = parser.add_mutually_exclusive_group(required=True)
    verdict.add_argument("--approve", action="store_true")
    verdict.add_argument("--reject", action="store_true")
    parser.add_argument("--by", required=True, metavar="NAME")
    parser.add_argument("--ledger", metavar="TABLE")
    given = parser.parse_args()
    dynamodb: Any
    stepfunctions: Any
    try:
        if given.ledger:
            dynamodb, stepfunctions, ledger = boto3.client("dynamodb"), boto3.client("stepfunctions"), given.ledger
        else:
            application = Application.deployed()
            dynamodb, stepfunctions = application.dynamodb, application.stepfunctions
            ledger = application.deployment.outputs["LedgerTableName"]
        answer(dynamodb, stepfunctions, ledger, given.execution, approved=given.approve, by=given.by)
    except (NotDeployedError, NotWaitingError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{'Approved' if given.approve else 'Rejected'} by {given.by}; the execution says whether that counts.")
    return 0


if __name__ == "__main__":
    leave(main, interrupted="the execution goes on waiting, if it was not answered yet.")
