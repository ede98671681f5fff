"""The JSON Schemas of the contract are those of the models, and the models are what is really sent."""

import json
from pathlib import Path
from typing import Any

import pytest

from functions.domain.run import Path as RunPath
from functions.worker.contract import TaskHeader, TaskMessage, TaskObject, UnworkableTask, read_json
from tests.unit.fakes import DAY, World, a_run, booking, walk, worked_example
from tools.samples import generated_hour
from tools.schemas import DIALECT, SCHEMAS, documents


@pytest.mark.parametrize(("path", "text"), documents().items(), ids=[path.name for path in documents()])
def test_the_files_are_what_the_models_say(path: Path, text: str) -> None:
    assert path.read_text(encoding="ascii") == text, "run `make schemas`"
    assert json.loads(text)["$schema"] == DIALECT


def test_no_file_lies_there_that_no_model_has() -> None:
    assert {*SCHEMAS.iterdir()} == documents().keys()


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
        header, of_message = read_json(TaskHeader, told.Data, "Data")
        content, of_object = read_json(TaskObject, world.task_data.objects[header.Key], "object")
        assert told.TaskId == message.task["TaskId"]
        assert {name: of_object[name] for name in of_message} == of_message
        assert len(content.Orders) == header.OrderCount


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
