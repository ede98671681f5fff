"""The layout `packed` on the deployed application: from the queues to the grants and the reconcile, and back again."""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from functions.domain.pack import Layout
from tests.deployed.application import Application, Day, Task, everywhere
from tests.deployed.test_worker import granted
from tests.deployed.wire import Call, Fault
from tools.samples import worked_example
from tools.worker import Worker

WAYS: dict[str, dict[str, Any]] = {
    "paged": {"PageSize": 2},
    "full": {"PaginationEnabled": False},
    "lanes": {"PageSize": 2, "Slices": 2},
    "grouped": {"PageSize": 2, "Grouping": "window"},
}


@pytest.fixture(scope="module", autouse=True)
def packed(application: Application) -> Iterator[None]:
    application.lay_out(Layout.PACKED)
    yield
    application.lay_out(Layout.OBJECT)


@pytest.fixture
def day(application: Application) -> Day:
    """A day that is over, with the worked example's bookings from eight to nine."""
    day = application.past_day()
    for item in worked_example().bookings:
        hour = 8 + int(item["BookingTimeUTC"]["S"][:2]) - 15
        moved = {
            "RecordId": {"S": f"{item['RecordId']['S']}@{day.date}"},
            "BookingDateUTC": {"S": str(day.date)},
            "BookingTimeUTC": {"S": f"{hour:02}{item['BookingTimeUTC']['S'][2:]}"},
        }
        application.book({**item, **moved})
    return day


def packs(day: Day) -> list[str]:
    return day.application.keys(f"tasks/{day.date}/08/")


def assert_fits(task: Task) -> None:
    """The message names a pack by its content, and the very bytes of its task in it."""
    key, content = task.data["Key"], task.application.content(task.data["Key"])
    digest = hashlib.sha256(content).hexdigest()
    assert re.fullmatch(rf"tasks/[0-9-]{{10}}/08/{digest[:2]}/{digest}\.jsonl", key)
    assert task.content in content.splitlines()
    assert hashlib.sha256(task.content).hexdigest() == task.data["Sha256"]
    own = {name: value for name, value in task.data.items() if name not in {"Key", "Range", "Sha256"}}
    assert json.loads(task.content).items() >= own.items()


@pytest.mark.parametrize("given", WAYS.values(), ids=WAYS)
def test_the_worked_example_lies_in_packs_is_granted_in_order_and_reconciles_clean(
    worker: Worker, day: Day, given: dict[str, Any]
) -> None:
    output = day.run(8, **given).output

    assert output.items() >= {"Outcome": "Dispatched", "Dispatched": 4}.items()
    assert day.effects(8) == everywhere("R1", "R2", "R3", "R5")
    tasks = day.tasks(8)
    assert len(tasks) == output["Tasks"]
    for task in tasks:
        assert_fits(task)
    assert {task.data["Key"] for task in tasks} == {*packs(day)}
    assert len(packs(day)) == sum(bool(plan.tasks) for plan in day.application.plans(day.window(8)))

    with worker.working():
        worker.drain()

    assert sorted(granted(worker, day)) == ["R1", "R2", "R3", "R5"]
    execution = day.reconcile(8)
    assert execution.output.items() >= {"Outcome": "Clean", "DispatchedRecords": 4}.items()


def test_a_page_that_broke_off_goes_out_with_the_same_messages_by_a_run_in_the_other_layout(
    application: Application, day: Day
) -> None:
    refused: list[bytes] = []

    def refuse_sends(call: Call) -> Fault | None:
        if call.operation != "SendMessageBatch":
            return None
        refused.extend(entry["MessageBody"] for entry in call.request["Entries"])
        return Fault.FORBIDDEN

    with application.wire.reacting(refuse_sends):
        assert day.run(8).status == "FAILED"
    application.lay_out(Layout.OBJECT)
    try:
        output = day.run(8).output
    finally:
        application.lay_out(Layout.PACKED)

    assert output.items() >= {"Outcome": "Dispatched", "Dispatched": 4}.items()
    assert day.effects(8) == everywhere("R1", "R2", "R3", "R5")
    assert all("Range" in task.data for task in day.tasks(8))
    sent = {task.body["TaskId"]: task.body for task in day.tasks(8)}
    assert [sent[json.loads(body)["TaskId"]] for body in refused] == [json.loads(body) for body in refused]
    assert day.reconcile(8).output["Outcome"] == "Clean"


def test_both_layouts_stand_in_one_hour_and_reconcile_clean(application: Application, day: Day) -> None:
    day.run(8)
    application.lay_out(Layout.OBJECT)
    try:
        day.book("LATER", "08:30:00Z", "later")
        day.run(8)
    finally:
        application.lay_out(Layout.PACKED)

    assert sorted(key.rpartition(".")[2] for key in packs(day)) == ["json", "jsonl"]
    assert day.effects(8) == everywhere("LATER", "R1", "R2", "R3", "R5")
    assert day.reconcile(8).output["Outcome"] == "Clean"


def test_a_pack_that_no_plan_names_is_an_orphan(application: Application, day: Day) -> None:
    day.run(8)
    digest = hashlib.sha256(b"{}\n").hexdigest()
    orphan = f"tasks/{day.date}/08/{digest[:2]}/{digest}.jsonl"
    application.client("s3").put_object(Bucket=application.outputs["TaskDataBucketName"], Key=orphan, Body=b"{}\n")

    execution = day.reconcile(8)

    assert {name: count for name, count in execution.output["Counts"].items() if count} == {"OrphanObject": 1}
    report = json.loads(application.content(execution.output["Report"]["Key"]))
    assert report["Samples"]["OrphanObject"] == [{"Object": orphan}]
