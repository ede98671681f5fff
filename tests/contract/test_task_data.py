"""Objects are written once under keys that derive from content: the bucket on a real engine, with staged faults."""

import concurrent.futures
import hashlib
import itertools
import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from functions.adapters import pool
from functions.adapters.task_data import S3TaskData
from functions.domain.booking import BadRecord
from functions.domain.budget import CALL_ATTEMPTS
from functions.domain.errors import ConfigurationError, DispatcherError, LeaseLost, TransientError
from functions.domain.pack import Layout, Pack
from functions.domain.run import Progress
from functions.domain.task import NewTask, Task, object_body
from tests.contract.staged import (
    Step,
    a_run,
    calls_of,
    composed,
    lost_answer,
    members,
    read_timeout,
    record,
    refusal,
    stage,
    uploaded,
)

SAFE_KEY = re.compile(r"[A-Za-z0-9!_.*'()/=-]+")
TWINS = ("\u00e9" * 300, "\u00e9" * 299 + "\u00e8")


def objects(task_data: S3TaskData) -> dict[str, bytes]:
    """All objects of the bucket."""
    listed = task_data.client.list_objects_v2(Bucket=task_data.bucket).get("Contents", ())
    return {
        each["Key"]: task_data.client.get_object(Bucket=task_data.bucket, Key=each["Key"])["Body"].read()
        for each in listed
    }


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(("a/../b", "x#y", "50%+1"), id="characters that break consoles and addresses"),
        pytest.param(("日本", "mem-\u00e9", "mem-e\u0301"), id="beyond ASCII"),
        pytest.param(("/", "..", "\\"), id="separators"),
        pytest.param((TWINS[0],) * 3, id="long"),
        pytest.param(("s\ufffe", "\u0001", "\U0001f381"), id="characters that other services refuse"),
    ],
)
def test_odd_ids_lead_to_safe_keys_and_are_whole_in_the_object(task_data: S3TaskData, ids: tuple[str, ...]) -> None:
    shop, member, engine = ids
    new = composed(record("R1", ShopId={"S": shop}, MemberId={"S": member}, PromotionEngineId={"S": engine}))
    uploaded(task_data, new)
    ((key, body),) = objects(task_data).items()
    assert key == new[0].task.object_key
    assert SAFE_KEY.fullmatch(key)
    assert not {"", ".", ".."} & set(key.split("/"))
    assert len(key.encode()) <= 1024
    content = json.loads(body)
    assert (content["ShopId"], content["MemberId"], content["PromotionEngineId"]) == ids
    assert (content["Bucket"], content["Key"]) == (task_data.bucket, key)


def test_long_ids_that_differ_in_their_last_character_have_two_objects(task_data: S3TaskData) -> None:
    uploaded(task_data, composed(*(record(f"R{n}", MemberId={"S": twin}) for n, twin in enumerate(TWINS))))
    assert {json.loads(body)["MemberId"] for body in objects(task_data).values()} == set(TWINS)


def test_uploading_again_writes_the_same_bytes_under_the_same_keys(task_data: S3TaskData) -> None:
    records = [record(f"R{n}", MemberId={"N": str(n % 3)}, Tags={"SS": ["b", "a"]}) for n in range(9)]
    uploaded(task_data, composed(*records))
    first = objects(task_data)
    uploaded(task_data, composed(*records))
    assert len(first) == 3
    assert objects(task_data) == first


def test_the_exact_bytes_are_read_back_and_no_checksum_stands_between(task_data: S3TaskData) -> None:
    new = composed(record("R1", Note={"S": "é" * 70_000}, Raw={"B": bytes(range(256))}))
    requests = stage(task_data.client, "PutObject", [])
    uploaded(task_data, new)
    body = bytes(range(256)) * 4096
    task_data.put_plan_body("plans/body", body)
    assert objects(task_data) == {
        new[0].task.object_key: object_body(new[0], task_data.bucket),
        "plans/body": body,
    }
    assert task_data.get_plan_body("plans/body") == body
    headers = " ".join(f"{name}: {value}" for request in requests for name, value in request.headers.items())
    assert not re.search("checksum|trailer|aws-chunked", headers, re.IGNORECASE)


def test_no_task_is_no_call(task_data: S3TaskData) -> None:
    calls = calls_of(task_data.client)
    uploaded(task_data, [])
    assert calls == []


def test_records_set_aside_stand_typed_with_their_reasons_in_the_one_object_of_their_page_of_the_lane(
    task_data: S3TaskData,
) -> None:
    bad = [
        BadRecord("OrderTime: missing", {"RecordId": {"S": "R1"}, "Amount": {"N": "1.50"}, "Raw": {"B": b"\x00\xff"}}),
        BadRecord("ShopId: empty", {"RecordId": {"S": "R\u00e9"}, "ShopId": {"S": ""}, "Set": {"BS": [b"\x3c\xff"]}}),
    ]
    for _ in range(2):
        task_data.set_aside(a_run("run-1"), Progress(page=3, lane=7), bad)
    ((key, body),) = objects(task_data).items()
    assert key == "set-aside/2026-09-17/15/run-1/0007-000003.json"
    assert body.isascii()
    assert json.loads(body) == {
        "RunId": "run-1",
        "WindowStart": "2026-09-17T15:00:00Z",
        "Lane": 7,
        "Page": 3,
        "Records": [
            {
                "Reason": "OrderTime: missing",
                "Record": {"RecordId": {"S": "R1"}, "Amount": {"N": "1.50"}, "Raw": {"B": "AP8="}},
            },
            {
                "Reason": "ShopId: empty",
                "Record": {"RecordId": {"S": "R\u00e9"}, "ShopId": {"S": ""}, "Set": {"BS": ["PP8="]}},
            },
        ],
    }


def test_a_conflict_is_never_taken_for_a_written_object_and_passes_when_tried_again(
    task_data: S3TaskData, pauses: list[float]
) -> None:
    new = members(1)
    conflict = refusal("ConditionalRequestConflict", 409)
    stage(task_data.client, "PutObject", [conflict] * (2 * CALL_ATTEMPTS + 1))
    for _ in range(2):
        with pytest.raises(TransientError, match=r"^PutObject: ConditionalRequestConflict "):
            uploaded(task_data, new)
        assert objects(task_data) == {}
    uploaded(task_data, new)
    assert len(pauses) == 2 + 2 + 1
    assert objects(task_data) == {new[0].task.object_key: object_body(new[0], task_data.bucket)}


@pytest.mark.usefixtures("pauses")
def test_a_conflict_for_ever_is_a_failure_every_time(task_data: S3TaskData) -> None:
    stage(task_data.client, "PutObject", itertools.repeat(refusal("ConditionalRequestConflict", 409)))
    for _ in range(5):
        with pytest.raises(TransientError, match=r"^PutObject: ConditionalRequestConflict "):
            uploaded(task_data, members(1))
    assert objects(task_data) == {}


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(refusal("SlowDown", 503), TransientError, id="slow down"),
        pytest.param(refusal("InternalError", 500), TransientError, id="internal error"),
        pytest.param(read_timeout, TransientError, id="no answer in time"),
        pytest.param(refusal("AccessDenied", 403, "member-0"), ConfigurationError, id="no right to write"),
    ],
)
@pytest.mark.usefixtures("pauses")
def test_a_failed_upload_says_who_acts_and_holds_no_value_of_a_record(
    task_data: S3TaskData, step: Step, kind: type[DispatcherError]
) -> None:
    new = members(1)
    stage(task_data.client, "PutObject", itertools.repeat(step))
    with pytest.raises(DispatcherError, match=r"^PutObject: ") as raised:
        uploaded(task_data, new)
    assert type(raised.value) is kind
    assert not re.search(f"member-0|{new[0].task.task_id}", str(raised.value))


@pytest.mark.parametrize("step", [refusal("SlowDown", 503), lost_answer, read_timeout], ids=["slow", "lost", "silent"])
@pytest.mark.usefixtures("pauses")
def test_an_upload_that_fails_twice_and_then_succeeds_is_one_object(task_data: S3TaskData, step: Step) -> None:
    new = members(1)
    requests = stage(task_data.client, "PutObject", [step, step])
    uploaded(task_data, new)
    assert len(requests) == 3
    assert objects(task_data) == {new[0].task.object_key: object_body(new[0], task_data.bucket)}


def test_a_missing_bucket_is_a_configuration_error(task_data: S3TaskData) -> None:
    with pytest.raises(ConfigurationError, match=r"^PutObject: NoSuchBucket "):
        uploaded(replace(task_data, bucket="no-such-bucket"), members(1))


def test_uploads_run_sixteen_side_by_side_within_the_clients_connections(
    task_data: S3TaskData, caplog: pytest.LogCaptureFixture
) -> None:
    together = threading.Barrier(pool.THREADS, timeout=20)

    def wait_for_all(_: AWSPreparedRequest) -> AWSResponse | None:
        together.wait()
        return None

    new = members(10 * pool.THREADS)
    stage(task_data.client, "PutObject", [wait_for_all] * len(new))
    with caplog.at_level(logging.WARNING):
        uploaded(task_data, new)
    assert set(objects(task_data)) == {each.task.object_key for each in new}
    assert caplog.records == []


def test_the_first_failing_upload_starts_no_later_one(task_data: S3TaskData, monkeypatch: pytest.MonkeyPatch) -> None:
    new = members(10 * pool.THREADS)
    failing = new[4].task.object_key
    together = threading.Barrier(pool.THREADS, timeout=20)
    failure_seen = threading.Event()

    def fail_or_wait(request: AWSPreparedRequest) -> AWSResponse | None:
        together.wait()
        if str(request.url).endswith(failing):
            return refusal("AccessDenied", 403)(request)
        assert failure_seen.wait(20)
        return None

    def wait_and_tell(*arguments: Any, wait: Callable[..., Any] = concurrent.futures.wait, **options: Any) -> Any:
        waited = wait(*arguments, **options)
        failure_seen.set()
        return waited

    monkeypatch.setattr(pool, "wait", wait_and_tell)
    requests = stage(task_data.client, "PutObject", [fail_or_wait] * pool.THREADS)
    with pytest.raises(ConfigurationError, match=r"^PutObject: AccessDenied "):
        uploaded(task_data, new)
    under_way = {each.task.object_key for each in new[: pool.THREADS]}
    assert {str(request.url).partition(f"{task_data.bucket}/")[2] for request in requests} == under_way
    assert set(objects(task_data)) == under_way - {failing}


# --- packed


@pytest.fixture
def packing(task_data: S3TaskData) -> S3TaskData:
    return replace(task_data, layout=Layout.PACKED)


def read_range(task_data: S3TaskData, new: NewTask, placed: dict[str, Task]) -> bytes:
    """What S3 gives for the extent of a task, which its digest fits."""
    extent = placed[new.task.task_id].extent
    assert extent is not None
    where = f"bytes={extent.start}-{extent.start + extent.length - 1}"
    body: bytes = task_data.client.get_object(Bucket=task_data.bucket, Key=extent.key, Range=where)["Body"].read()
    assert sha256(body) == extent.sha256
    return body


def test_all_tasks_of_a_plan_are_one_object_and_each_is_read_by_its_range(packing: S3TaskData) -> None:
    new = composed(
        *(record(f"R{n}", MemberId={"S": f"m\u00e9{n}"}, Raw={"B": bytes(range(n, 256))}) for n in range(30))
    )
    calls = calls_of(packing.client)
    placed = {task.task_id: task for task in uploaded(packing, new)}

    assert [(call.operation, call.params["ContentType"]) for call in calls] == [("PutObject", "application/x-ndjson")]
    ((key, content),) = objects(packing).items()
    assert key == f"tasks/2026-09-17/15/{sha256(content)[:2]}/{sha256(content)}.jsonl"
    assert SAFE_KEY.fullmatch(key)
    assert content.splitlines() == [object_body(one, packing.bucket) for one in new]
    for one in new:
        assert read_range(packing, one, placed) == object_body(one, packing.bucket)
        assert replace(placed[one.task.task_id], extent=None) == one.task


def test_no_new_task_is_no_pack(packing: S3TaskData) -> None:
    calls = calls_of(packing.client)
    assert list(uploaded(packing, [])) == []
    assert calls == []


def test_packing_again_writes_the_same_bytes_under_the_same_key_and_other_bytes_elsewhere(packing: S3TaskData) -> None:
    for _ in range(2):
        uploaded(packing, composed(record("R1"), record("R2", MemberId={"N": "7"})))
    first = objects(packing)
    assert len(first) == 1
    uploaded(packing, composed(record("R1", Note={"S": "later"}), record("R2", MemberId={"N": "7"})))
    assert len(objects(packing)) == 2
    assert first.items() <= objects(packing).items()


def test_a_pack_is_uploaded_beside_what_is_done_meanwhile_and_is_there_behind_it(packing: S3TaskData) -> None:
    """An attempt makes its plan ready meanwhile, of tasks that know where their bodies will lie."""
    new, meanwhile_done = members(2), threading.Event()

    def before_each() -> None:
        assert meanwhile_done.wait(10)

    with packing.uploading(new, before_each) as placed:
        assert objects(packing) == {}
        meanwhile_done.set()
    assert set(objects(packing)) == {task.key for task in placed}


def test_an_upload_has_ended_when_what_was_done_meanwhile_is_seen_to_have_failed(packing: S3TaskData) -> None:
    failed = threading.Event()

    def before_each() -> None:
        assert failed.wait(10)

    def fail() -> None:
        failed.set()
        raise ConfigurationError("no plan")

    with pytest.raises(ConfigurationError, match="no plan"), packing.uploading(members(2), before_each):
        fail()
    assert len(objects(packing)) == 1


@pytest.mark.parametrize("layout", Layout)
def test_an_upload_that_fails_is_seen_behind_what_is_done_meanwhile(task_data: S3TaskData, layout: Layout) -> None:
    done = []
    with (
        pytest.raises(ConfigurationError, match="PutObject"),
        replace(task_data, layout=layout, bucket="no-such-bucket").uploading(members(2), lambda: None),
    ):
        done.append("meanwhile")
    assert done == ["meanwhile"]


@pytest.mark.usefixtures("small_parts")
def test_a_large_pack_is_uploaded_in_parts_and_what_an_attempt_stops_leaves_nothing_behind(packing: S3TaskData) -> None:
    new = composed(*(record(f"R{n:03}", MemberId={"N": str(n % 9)}, Note={"S": "x" * 500}) for n in range(100)))
    calls = calls_of(packing.client)
    asked = itertools.count(1)

    def before_each() -> None:
        next(asked)

    placed = {task.task_id: task for task in uploaded(packing, new, before_each)}
    assert next(asked) - 1 == len(calls) > 2 + 5
    assert {call.operation for call in calls} == {"CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"}
    assert [read_range(packing, one, placed) for one in new] == [object_body(one, packing.bucket) for one in new]
    (key,) = objects(packing)
    packing.client.delete_object(Bucket=packing.bucket, Key=key)

    def stopped() -> None:
        if next(again) == 4:
            raise LeaseLost("a later attempt has begun")

    again = itertools.count(1)
    with pytest.raises(LeaseLost):
        uploaded(packing, new, stopped)
    assert objects(packing) == {}
    assert "Uploads" not in packing.client.list_multipart_uploads(Bucket=packing.bucket)


@pytest.mark.usefixtures("small_parts")
def test_a_task_whose_documents_are_streamed_lies_alone_beside_the_pack(packing: S3TaskData) -> None:
    held, large = composed(record("R1")), composed(record("R2", MemberId={"N": "9"}))
    streamed = [replace(one, documents=_Anew(one.documents)) for one in large]

    first, second = uploaded(packing, [*held, *streamed])

    assert (first.extent is not None, second.extent) == (True, None)
    assert objects(packing) == {
        first.key: object_body(held[0], packing.bucket) + b"\n",
        second.object_key: object_body(large[0], packing.bucket),
    }


class _Anew:
    """Documents that are no sequence."""

    def __init__(self, documents: Iterable[str]) -> None:
        self._documents = documents

    def __iter__(self) -> Iterator[str]:
        return iter(self._documents)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(refusal("SlowDown", 503), TransientError, id="slow down"),
        pytest.param(read_timeout, TransientError, id="no answer in time"),
        pytest.param(refusal("AccessDenied", 403, "member-0"), ConfigurationError, id="no right to write"),
    ],
)
@pytest.mark.usefixtures("pauses")
def test_a_pack_that_could_not_be_written_says_who_acts(
    packing: S3TaskData, step: Step, kind: type[DispatcherError]
) -> None:
    stage(packing.client, "PutObject", itertools.repeat(step))
    with pytest.raises(DispatcherError, match=r"^PutObject: ") as raised:
        uploaded(packing, members(3))
    assert type(raised.value) is kind
    assert "member-0" not in str(raised.value)
    assert objects(packing) == {}


@pytest.mark.parametrize("step", [refusal("SlowDown", 503), lost_answer, read_timeout], ids=["slow", "lost", "silent"])
@pytest.mark.usefixtures("pauses")
def test_a_pack_that_fails_twice_and_then_succeeds_is_one_object(packing: S3TaskData, step: Step) -> None:
    new = members(3)
    stage(packing.client, "PutObject", [step, step])
    uploaded(packing, new)
    pack = Pack.of(new, packing.bucket)
    assert objects(packing) == {pack.key: b"".join(pack.pieces())}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
