"""The JSON Schemas of the contract are those of the models, and the models are what is really sent."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from functions.domain.pack import Layout
from functions.domain.report import record_of
from functions.domain.run import Path as RunPath
from functions.usecases.compare_paths import compare_paths
from functions.usecases.report_contract import RecordSample
from functions.worker.contract import (
    PackedHeader,
    TaskHeader,
    TaskMessage,
    TaskObject,
    UnworkableTask,
    read_header,
    read_json,
)
from tests.unit.fakes import DAY, World, a_run, booking, walk, worked_example
from tests.unit.reconciling import STACK, Reconciler, a_reconcile, after_the_hour
from tools.samples import generated_hour
from tools.schemas import DIALECT, SCHEMAS, documents


@pytest.mark.parametrize(("path", "text"), documents().items(), ids=[path.name for path in documents()])
def test_the_files_are_what_the_models_say(path: Path, text: str) -> None:
    assert path.read_text(encoding="ascii") == text, "run `make schemas`"
    assert json.loads(text)["$schema"] == DIALECT


def test_no_file_lies_there_that_no_model_has() -> None:
    assert {*SCHEMAS.iterdir()} == documents().keys()


@pytest.mark.usefixtures("either_layout")
@pytest.mark.parametrize("path", [RunPath.PAGED, RunPath.FULL, RunPath.GROUPED])
def test_every_message_and_object_that_is_sent_is_as_the_models_say(world: World, path: RunPath) -> None:
    generated = [
        {**one, "BookingDateUTC": {"S": DAY}, "BookingTimeUTC": {"S": f"15{one['BookingTimeUTC']['S'][2:]}"}}
        for one in generated_hour().bookings[:300]
    ]
    odd = booking("odd", ShopId={"N": "1.50"}, MemberId="\u00e9\u4e8c", Data={"B": b"\x00\xff"}, Tags={"SS": ["b"]})
    world.index.put(*worked_example(), odd, *generated)

    walk(world, world.begun(a_run(path=path)))

    assert len(world.queues.messages) > 50
    for message in world.queues.messages:
        told, _ = read_json(TaskMessage, message.body, "message")
        header = read_header(told.Data)
        content, of_object = read_json(TaskObject, world.body(message), "object")
        assert told.TaskId == message.task["TaskId"]
        assert isinstance(header, PackedHeader) is (world.layout is Layout.PACKED)
        place = {"Key", "Range", "Sha256"} if isinstance(header, PackedHeader) else set()
        of_message = {
            name: value for name, value in json.loads(told.Data, parse_float=Decimal).items() if name not in place
        }
        assert {name: of_object[name] for name in of_message} == of_message
        assert len(content.Orders) == header.OrderCount


def test_every_report_that_is_written_is_as_the_models_say() -> None:
    """The fake that keeps the reports holds each of them against its model; here is one of each kind."""
    world = after_the_hour(*worked_example(), booking("ODD", "15:3:00Z"), booking("LOST", BookingTimeUTC=None))
    reconciler = Reconciler(world)
    report = reconciler.written(reconciler.run(a_reconcile(audit_table=True)))
    compare_paths(replace(a_run(path=RunPath.PAGED, page_size=2), dry_run=True), STACK, world.index, reconciler.reports)

    assert [len(report["Samples"][kind]) for kind in ("MissingInLedger", "Unreachable", "MissingHour")] == [4, 2, 0]
    assert sorted(key.rpartition("-")[2] for key in reconciler.reports.objects) == [
        "1.json",
        "compare.json",
        "missing.jsonl",
    ]
    for spoilt in ({**report, "More": 1}, {**report, "Counts": {}}, {**report, "WindowStart": f"{DAY}T15:30:00Z"}):
        with pytest.raises(ValidationError):
            reconciler.reports.write("reports/x.json", [json.dumps(spoilt).encode()])


@pytest.mark.parametrize("key", ['{"Id":7,"Tenant":1.50}', '{"Id":12345678901234567890}', '{"Id":"PP8="}'])
def test_a_sample_has_a_record_s_key_whatever_its_types_are(key: str) -> None:
    sample = record_of(f'[{key},"{DAY}","15:10:00Z"]')

    assert RecordSample.model_validate(sample).model_dump() == sample


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": NaN}', "it: no JSON"),
        ("[" * 100_000, "it: no JSON"),
        ('{"JobName": "RewardPoint", "TaskId": "x", "Data": "{}"}', "it.TaskId: string_pattern_mismatch"),
        ('{"JobName": "Reward", "TaskId": "x", "Data": "{}"}', "it.JobName: literal_error"),
    ],
    ids=["no number", "too deep", "no id", "no job"],
)
def test_what_is_otherwise_is_refused_by_field_and_without_its_value(text: str, reason: str) -> None:
    with pytest.raises(UnworkableTask) as refused:
        read_json(TaskMessage, text, "it")

    assert str(refused.value) == reason


def test_a_number_keeps_its_digits() -> None:
    header: dict[str, Any] = {"WindowStart": "2026-09-17T15:00:00Z", "WindowEnd": "2026-09-17T16:00:00Z"}
    text = json.dumps({**header, "Bucket": "b", "Key": "k", "OrderCount": 1, "ShopId": 1, "PromotionEngineId": 2})
    digits = "12345678901234567890.123456789012345678"

    read, _ = read_json(TaskHeader, f'{text[:-1]},"MemberId":{digits}}}', "Data")

    assert str(read.MemberId) == digits
