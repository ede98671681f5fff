"""`dispatchctl cost last` of a real run: priced by its counts, and its calls are those that went over the wire."""

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from tests.deployed.application import Application, Day
from tools.dispatchctl import cost as _cost  # noqa: F401 -- its import adds the command
from tools.dispatchctl.shell import app
from tools.workspace import Workspace

SENT = "SendMessageBatch"
"""Counted as an average: a batch that has room left is sent too."""

ON_THE_WIRE = {"ListObjectsV2": "GetObject", "DeleteObjects": "PostObject"}
"""Requests of the bucket itself, which the wire names like those of an object."""


@pytest.fixture
def day(application: Application) -> Day:
    """Forty bookings of ten groups."""
    day = application.past_day()
    for number in range(40):
        day.book(f"R{number}", f"08:{number:02}:00Z", str(number % 10))
    return day


@pytest.mark.parametrize(
    ("fields", "path", "tasks"),
    [
        ({"PageSize": 15}, "paged", 30),
        ({"PageSize": 15, "Grouping": "window"}, "grouped", 10),
        ({"PaginationEnabled": False}, "full", 10),
    ],
    ids=["paged", "grouped", "full"],
)
def test_the_calls_that_are_priced_are_those_that_were_made(
    fields: dict[str, object], path: str, tasks: int, day: Day, workspace: Workspace
) -> None:
    with day.application.wire.recording() as recorded:
        assert day.run(8, **fields).output["Tasks"] == tasks
        assert day.reconcile(8).output["Outcome"] == "Clean"

    environment = {"DISPATCHER_STATE_DIR": str(workspace.directory), "AWS_REGION": None}
    result = CliRunner().invoke(app, ["cost", "last", "--json"], env=environment)

    assert result.exit_code == 0, (result.output, result.exception)
    (bill,) = json.loads(result.output)["Bills"]
    assert (bill["Path"], bill["Bookings"], bill["Tasks"]) == (path, 40, tasks)
    made = Counter(call.operation for call in recorded)
    priced = {ON_THE_WIRE.get(operation, operation): 0 for operation in bill["Calls"]}
    for operation, count in bill["Calls"].items():
        priced[ON_THE_WIRE.get(operation, operation)] += round(count)
    assert {**priced, SENT: made[SENT]} == made
