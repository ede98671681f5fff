"""The README's own words: what `make run` shows, the inputs by hand, whose each error is."""

import json
import re
import stat

from functions.domain.errors import ERRORS_BY_NAME
from tests.deployed.application import Application
from tests.deployed.conftest import Make
from tools.workspace import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")

EXAMPLE = "2026-09-17T15:00:00Z"
GENERATED = "2026-09-18T09:00:00Z"


def row(printed: str, label: str) -> list[str]:
    """The two columns of a line of the printed summary."""
    (line,) = [line for line in printed.splitlines() if line.strip().startswith(label)]
    return line.split()[-2:]


def test_make_run_dispatches_both_samples_and_again_it_makes_no_task(application: Application, make: Make) -> None:
    printed = make("run")

    assert row(printed, "Bookings evaluated") == ["5", "10,000"]
    assert row(printed, "Window from") == [EXAMPLE, GENERATED]
    assert row(printed, "set aside") == ["0", "20"]
    waiting, dispatched, sent = (
        int(row(printed, label)[1].replace(",", "")) for label in ("Bookings waiting", "dispatched now", "Tasks sent")
    )
    tasks = application.tasks(GENERATED)
    assert waiting == dispatched + 20
    assert dispatched == sum(task.data["OrderCount"] for task in tasks)
    assert sent == len(tasks) == len(application.keys("tasks/2026-09-18/09/"))
    planned = [record for plan in application.plans(GENERATED) for record in plan.members]
    assert dispatched == len(planned) == len(set(planned))
    # Where the worker's tests have emptied the queues, the example's tasks are not sent again.
    example = '"RecordId": "R2"' if application.tasks(EXAMPLE) else "somebody has received them"
    assert example in printed
    for place in ("TaskDataBucketName", "PointTaskQueueUrl", "LedgerTableName", "DispatchStateMachineArn"):
        assert application.outputs[place] in printed

    again = make("run")

    assert row(again, "dispatched before") == ["4", row(printed, "dispatched now")[1]]
    assert row(again, "Tasks sent") == ["0", "0"]
    assert len(application.tasks(GENERATED)) == sent


def test_each_input_by_hand_runs_the_hour_beside_it(application: Application) -> None:
    inputs = re.findall(r"^\| `(\{.*?\})` \| (.*) \|$", README, re.MULTILINE)
    runs = [application.run({**json.loads(text), "DryRun": True}) for text, _ in inputs]

    said = [re.findall(r"(\d\d:00) (?:to|UTC)", hour) for _, hour in inputs]
    done = [[run.output[edge][11:16] for edge in ("WindowStart", "WindowEnd")] for run in runs]
    assert said == [[], *done[1:]]
    assert done[0][1] == f"{runs[0].started:%H}:00"
    assert len(runs) == 3


def test_each_error_name_is_told_who_acts() -> None:
    rows = re.findall(r"^\| (`[A-Z].*?) \| \S", README, re.MULTILINE)

    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(ERRORS_BY_NAME)


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"

    assert script.stat().st_mode & stat.S_IXUSR
    assert "make test" in script.read_text(encoding="utf-8").splitlines()
