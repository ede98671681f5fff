"""Staged records and large objects on a real engine: streams in parts, reads in ranges, and nothing left behind."""

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from functions.adapters import multipart, pool, staging
from functions.adapters.multipart import PART_BYTES
from functions.adapters.staging import S3Staging
from functions.adapters.task_data import S3TaskData
from functions.domain.booking import Booking, Route
from functions.domain.errors import ConfigurationError, DispatcherError, LeaseLost, TransientError
from functions.domain.page import sort_out
from functions.domain.staging import ALL_BUCKETS, BUCKETS, StagedObject, staged_line
from functions.domain.task import NewTask, compose, compose_streamed, object_body
from tests.contract.staged import (
    WINDOW,
    Step,
    alter_answers,
    calls_of,
    composed,
    lost_answer,
    read_timeout,
    record,
    refusal,
    stage,
    uploaded,
)


@pytest.fixture
def staged(aws: Callable[[str], Any], bucket: str) -> S3Staging:
    return S3Staging(aws("s3"), bucket)


def bookings_of(members: Sequence[int], note: str = "") -> list[Booking]:
    items = [record(f"R{member}", MemberId={"N": str(member)}, Note={"S": note}) for member in members]
    bookings, bad = sort_out(items, ("RecordId",), "BookingDateUTC")
    assert not bad
    return bookings


def lines_of(members: Sequence[int], note: str = "") -> list[bytes]:
    return sorted(map(staged_line, bookings_of(members, note)))


def in_buckets(lines: Sequence[bytes], buckets: range) -> list[bytes]:
    return sorted(line for line in lines if int(line[:2], 16) in buckets)


def open_uploads(client: Any, bucket: str) -> list[Any]:
    found: list[Any] = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return found


@pytest.mark.parametrize("share", [ALL_BUCKETS, range(10), range(7, 8), range(100, BUCKETS), range(255, 256)], ids=str)
@pytest.mark.parametrize("pieces", [(100, 100), (1000, 5000), (16_384, 1 << 20)], ids=["cut lines", "some", "whole"])
def test_the_lines_of_some_buckets_are_read_in_order_of_all_objects_whatever_the_pieces(
    staged: S3Staging, monkeypatch: pytest.MonkeyPatch, share: range, pieces: tuple[int, int]
) -> None:
    monkeypatch.setattr(staging, "MIN_PIECE_BYTES", pieces[0])
    monkeypatch.setattr(staging, "MAX_PIECE_BYTES", pieces[1])
    monkeypatch.setattr(staging, "READ_BYTES", 5000)
    members = random.Random(4).sample(range(1000), 120)  # noqa: S311 -- a test's choice is no secret
    lines = [lines_of(members[start::5]) for start in range(5)]
    objects = [staged.write(f"staging/{place}", some) for place, some in enumerate(lines)]
    everything = list(itertools.chain.from_iterable(lines))

    assert list(staged.read(objects, share)) == in_buckets(everything, share)


def test_an_object_without_lines_in_the_buckets_costs_no_call(staged: S3Staging) -> None:
    one = lines_of([1])
    bucket = int(one[0][:2], 16)
    objects = [staged.write("staging/one", one), staged.write("staging/none", [])]
    calls = calls_of(staged.client)

    assert list(staged.read(objects, range(bucket))) == []
    assert list(staged.read([], ALL_BUCKETS)) == []
    assert calls == []
    assert list(staged.read(objects, ALL_BUCKETS)) == one
    assert [(call.params["Key"], call.params["Range"]) for call in calls] == [
        ("staging/one", f"bytes=0-{len(one[0]) - 1}")
    ]


def test_what_is_held_of_all_objects_is_bounded_and_small_objects_are_one_call_each(
    staged: S3Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "READ_BYTES", 40_000)
    monkeypatch.setattr(staging, "MIN_PIECE_BYTES", 1000)
    large = [staged.write(f"staging/large-{n}", lines_of(range(n, 400, 4), "x" * 200)) for n in range(4)]
    small = [staged.write(f"staging/small-{n}", lines_of([n])) for n in range(4)]
    calls = calls_of(staged.client)

    list(staged.read(large, ALL_BUCKETS))
    sizes = [_length(call.params["Range"]) for call in calls]
    assert max(sizes) == 10_000
    assert sum(sizes) == sum(sum(one.sizes) for one in large)
    assert len(sizes) < 2 * sum(-(-sum(one.sizes) // 10_000) for one in large)

    calls.clear()
    list(staged.read(small, ALL_BUCKETS))
    assert len(calls) == 4


def test_what_is_half_read_is_filled_up_side_by_side_with_what_has_run_dry(
    staged: S3Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "READ_BYTES", 16 * 4000)
    monkeypatch.setattr(staging, "MIN_PIECE_BYTES", 1000)
    objects = [staged.write(f"staging/{n}", lines_of(range(n, 640, 16))) for n in range(16)]
    filled: list[int] = []

    def noting(work: Callable[[Any], None], pieces: list[Any]) -> None:
        filled.append(len(pieces))
        pool.each(work, pieces)

    monkeypatch.setattr(staging, "each", noting)

    assert len(list(staged.read(objects, ALL_BUCKETS))) == 640

    assert filled[0] == 16
    assert sum(filled) / len(filled) > 4


def test_a_line_longer_than_a_piece_is_read_whole(staged: S3Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "READ_BYTES", 1)
    monkeypatch.setattr(staging, "MIN_PIECE_BYTES", 100)
    lines = lines_of(range(5), "x" * 2000)

    assert list(staged.read([staged.write("staging/page", lines)], ALL_BUCKETS)) == lines


def _length(header: str) -> int:
    first, last = map(int, header.removeprefix("bytes=").split("-"))
    return last - first + 1


def test_an_object_above_one_part_is_written_in_parts_and_its_index_is_of_all_its_lines(
    staged: S3Staging, small_parts: int
) -> None:
    lines = lines_of(range(200))
    calls = calls_of(staged.client)

    written = staged.write("staging/large", iter(lines))

    assert [call.operation for call in calls] == [
        "CreateMultipartUpload",
        *["UploadPart"] * -(-sum(map(len, lines)) // (small_parts + len(lines[0]))),
        "CompleteMultipartUpload",
    ]
    assert (sum(written.lines), sum(written.sizes)) == (200, sum(map(len, lines)))
    assert list(staged.read([written], ALL_BUCKETS)) == lines


def test_an_object_of_exactly_one_part_and_an_empty_one_are_written_whole(
    staged: S3Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = lines_of(range(3))
    monkeypatch.setattr(multipart, "PART_BYTES", sum(map(len, lines)))

    exact = staged.write("staging/exact", lines)
    empty = staged.write("staging/empty", [])

    assert list(staged.read([exact, empty], ALL_BUCKETS)) == lines
    assert staged.client.head_object(Bucket=staged.bucket, Key="staging/empty")["ContentLength"] == 0


def test_writing_again_replaces_the_object(staged: S3Staging) -> None:
    staged.write("staging/page", lines_of(range(9)))
    again = staged.write("staging/page", lines_of(range(2)))
    assert list(staged.read([again], ALL_BUCKETS)) == lines_of(range(2))


def test_a_missing_object_is_a_configuration_error(staged: S3Staging) -> None:
    missing = StagedObject("staging/none", [1] * BUCKETS, [10] * BUCKETS)
    with pytest.raises(ConfigurationError, match=r"^GetObject: NoSuchKey "):
        staged.read([missing], ALL_BUCKETS)


@pytest.mark.usefixtures("pauses")
def test_a_piece_that_cannot_be_read_for_now_is_a_transient_error(staged: S3Staging) -> None:
    written = staged.write("staging/page", lines_of(range(3)))
    stage(staged.client, "GetObject", itertools.repeat(refusal("SlowDown", 503)))
    with pytest.raises(TransientError, match=r"^GetObject: SlowDown "):
        staged.read([written], ALL_BUCKETS)


def test_objects_are_deleted_a_thousand_at_a_time_and_one_that_is_not_there_is_no_error(staged: S3Staging) -> None:
    for n in range(3):
        staged.write(f"staging/{n}", lines_of([n]))
    calls = calls_of(staged.client)

    staged.delete(f"staging/{n}" for n in range(1001))

    assert [len(call.params["Delete"]["Objects"]) for call in calls] == [1000, 1]
    assert "Contents" not in staged.client.list_objects_v2(Bucket=staged.bucket)
    staged.delete([])
    assert len(calls) == 3, "no key was a call"


@pytest.mark.parametrize(
    ("code", "kind"), [("InternalError", TransientError), ("AccessDenied", ConfigurationError)], ids=str
)
def test_an_object_that_could_not_be_deleted_is_an_error_though_the_answer_is_200(
    staged: S3Staging, code: str, kind: type[DispatcherError]
) -> None:
    errors = [{"Key": "staging/secret", "Code": code, "Message": "staging/secret"}]
    alter_answers(staged.client, "DeleteObjects", [lambda parsed: parsed.update(Errors=errors)])
    with pytest.raises(DispatcherError, match=rf"^DeleteObjects: {code} ") as raised:
        staged.delete(["staging/secret"])
    assert type(raised.value) is kind
    assert "secret" not in str(raised.value)


def a_large_task(note: str = "x" * 500) -> NewTask:
    (new,) = composed(*(record(f"R{n:03}", Note={"S": note}) for n in range(100)))
    return new


def read_back(task_data: S3TaskData, new: NewTask) -> bytes:
    body: bytes = task_data.client.get_object(Bucket=task_data.bucket, Key=new.task.object_key)["Body"].read()
    return body


def test_a_task_above_eight_megabytes_is_uploaded_in_parts_of_that_size_and_is_the_same_object(
    task_data: S3TaskData,
) -> None:
    (new,) = composed(*(record(f"R{n:03}", Note={"S": "x" * 300_000}) for n in range(60)))
    calls = calls_of(task_data.client)
    parts = stage(task_data.client, "UploadPart", [])

    uploaded(task_data, [new])

    sizes = [int(part.headers["Content-Length"]) for part in parts]
    assert [call.params["PartNumber"] for call in calls if call.operation == "UploadPart"] == [1, 2, 3]
    assert all(PART_BYTES <= size < PART_BYTES + 310_000 for size in sizes[:-1])
    assert read_back(task_data, new) == object_body(new, task_data.bucket)
    begun = next(call.params for call in calls if call.operation == "CreateMultipartUpload")
    assert begun["ContentType"] == "application/json"


@pytest.mark.usefixtures("small_parts")
def test_documents_that_are_read_while_they_are_uploaded_give_the_same_object(
    task_data: S3TaskData, staged: S3Staging
) -> None:
    items = [record(f"R{n:03}", RewardType={"S": ("Point", "ECoupon")[n % 2]}) for n in range(300)]
    bookings, _ = sort_out(items, ("RecordId",), "BookingDateUTC")
    objects = [staged.write(f"staging/{n}", sorted(map(staged_line, bookings[n::3]))) for n in range(3)]

    class Documents:
        """Of one route, read anew each time."""

        def __init__(self, route: Route) -> None:
            self.route = route

        def __iter__(self) -> Iterator[str]:
            for line in staged.read(objects, ALL_BUCKETS):
                fields = line.decode().rstrip("\n").split("\t")
                if fields[3] == self.route.value:
                    yield fields[-1]

    streamed = compose_streamed(bookings, WINDOW, Documents)
    uploaded(task_data, streamed)

    held = compose(bookings, WINDOW)
    assert [new.task for new in streamed] == [new.task for new in held]
    assert [read_back(task_data, new) for new in streamed] == [object_body(new, task_data.bucket) for new in held]


@pytest.mark.usefixtures("small_parts")
def test_an_attempt_is_asked_before_every_call_and_what_it_stops_leaves_nothing_behind(task_data: S3TaskData) -> None:
    new = a_large_task()
    asked = 0

    def stop_at(last: int) -> Callable[[], None]:
        def before_each() -> None:
            nonlocal asked
            asked += 1
            if asked == last:
                raise LeaseLost("a later attempt has begun")

        return before_each

    seen = calls_of(task_data.client)
    uploaded(task_data, [new], stop_at(0))
    calls = asked
    assert calls == len(seen) > 2 + 5

    task_data.client.delete_object(Bucket=task_data.bucket, Key=new.task.object_key)
    for last in range(1, calls + 1):
        asked = 0
        with pytest.raises(LeaseLost):
            uploaded(task_data, [new], stop_at(last))
        assert asked == last
        assert open_uploads(task_data.client, task_data.bucket) == []
        assert "Contents" not in task_data.client.list_objects_v2(Bucket=task_data.bucket)


@pytest.mark.parametrize("operation", ["CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"])
@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(refusal("SlowDown", 503), TransientError, id="slow down"),
        pytest.param(read_timeout, TransientError, id="no answer in time"),
        pytest.param(refusal("AccessDenied", 403, "R001"), ConfigurationError, id="no right to write"),
    ],
)
@pytest.mark.usefixtures("pauses", "small_parts")
def test_a_failed_upload_in_parts_says_who_acts_and_is_aborted(
    task_data: S3TaskData, operation: str, step: Step, kind: type[DispatcherError]
) -> None:
    new = a_large_task()
    stage(task_data.client, operation, itertools.repeat(step))
    with pytest.raises(DispatcherError, match=rf"^{operation}: ") as raised:
        uploaded(task_data, [new])
    assert type(raised.value) is kind
    assert not re.search(f"R001|{new.task.task_id}", str(raised.value))
    assert open_uploads(task_data.client, task_data.bucket) == []


@pytest.mark.usefixtures("pauses", "small_parts")
def test_an_error_within_an_answer_200_to_the_completion_is_no_success(task_data: S3TaskData) -> None:
    stage(task_data.client, "CompleteMultipartUpload", itertools.repeat(refusal("InternalError", 200)))
    with pytest.raises(TransientError, match=r"^CompleteMultipartUpload: InternalError "):
        uploaded(task_data, [a_large_task()])


@pytest.mark.usefixtures("pauses", "small_parts")
def test_a_completion_whose_answer_is_lost_is_done_or_tried_anew_and_never_a_permanent_failure(
    task_data: S3TaskData,
) -> None:
    new = a_large_task()
    stage(task_data.client, "CompleteMultipartUpload", [lost_answer])
    for _ in range(2):
        try:
            uploaded(task_data, [new])
        except TransientError as error:
            assert str(error) == "CompleteMultipartUpload: the upload is gone"  # noqa: PT017 -- both ends are good
    assert read_back(task_data, new) == object_body(new, task_data.bucket)
    assert json.loads(read_back(task_data, new))["OrderCount"] == 100
