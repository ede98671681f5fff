"""The reader of the bookings index gives the same answers on two engines of DynamoDB; neither may be left out."""

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from functions.adapters.bookings import DynamoBookingIndex
from functions.domain.budget import CALL_ATTEMPTS
from functions.domain.cursor import Token, check_advance, check_token
from functions.domain.errors import (
    ConfigurationError,
    DispatcherError,
    DispatchFailed,
    IndexNotReady,
    InvalidToken,
    TransientError,
)
from functions.domain.lane import Range, ranges_of
from functions.domain.page import QueryPage
from functions.domain.run import Counts, Progress, Run
from functions.domain.values import Item, value_text
from functions.domain.window import Window
from functions.usecases.ports import Dispatch
from functions.usecases.reading import read_page, token_in
from tests.contract.staged import (
    INDEX,
    WINDOW,
    MakeIndex,
    Step,
    a_run,
    alter_answers,
    answer,
    calls_of,
    lost_answer,
    read_timeout,
    record,
    refusal,
    stage,
)

EIGHT: Final = ranges_of(Window(datetime(2026, 9, 17, 8, tzinfo=UTC)))[0]
FIFTEEN: Final = ranges_of(WINDOW)[0]
SEVEN_ROWS: Final = {
    **{f"late-{n}": "08:10:00Z" for n in range(5)},
    **{f"early-{n}": "08:05:00Z" for n in range(2)},
}
"""Five at one time and two at another, so that every small page ends among equal times."""


@pytest.fixture
def index(dynamodb: Any, make_index: MakeIndex) -> DynamoBookingIndex:
    """An empty index on each engine."""
    return make_index(dynamodb)


@pytest.fixture
def staged_index(aws: Callable[[str], Any], make_index: MakeIndex) -> DynamoBookingIndex:
    """An index for answers that no engine gives by itself."""
    return make_index(aws("dynamodb"))


def put(index: DynamoBookingIndex, *items: Item) -> None:
    for item in items:
        index.client.put_item(TableName=index.table_name, Item=item)


def put_seven(index: DynamoBookingIndex) -> None:
    put(index, *(record(name, time) for name, time in SEVEN_ROWS.items()))


def whole(window: Window) -> Range:
    """What the one lane of a run reads that is in one lane."""
    (keys,) = ranges_of(window)
    return keys


def pages(index: DynamoBookingIndex, keys: Range, size: int, token: Token | None = None) -> Iterator[QueryPage]:
    """The pages of a range as a lane reads them: each token is checked, and has been text in the machine's state."""
    for _ in range(40):
        page = index.query_page(keys, token, size)
        check_advance(token, page.next_token)
        yield page
        if page.next_token is None:
            return
        state = json.loads(json.dumps(page.next_token))
        token = check_token(state, keys, index.key_attributes, index.date_attribute)
    pytest.fail("the range did not end")


def lane_by_lane(index: DynamoBookingIndex, run: Run, size: int) -> list[list[str]]:
    """The records that each lane of a run reads, page by page and by the use cases' own reading."""
    dispatch = cast("Dispatch", SimpleNamespace(bookings=replace(index, shards=run.shards)))
    read: list[list[str]] = []
    for lane in range(len(run.ranges)):
        progress, found = Progress(lane=lane), list[str]()
        while progress.has_more:
            token = token_in(run, progress, index)
            page = read_page(replace(run, page_size=size), lane, token, dispatch.bookings)
            found += ids(page)
            progress = progress.after(Counts(pages=1), json.loads(json.dumps(page.next_token)))
            assert progress.page < 40
        read.append(found)
    return read


def ids(*read: QueryPage) -> list[str]:
    return [item["RecordId"]["S"] for page in read for item in page.items]


@pytest.mark.parametrize(
    ("size", "sizes_read"),
    [
        (1, [1, 1, 1, 1, 1, 1, 1, 0]),
        (2, [2, 2, 2, 1]),
        (3, [3, 3, 1]),
        (7, [7, 0]),
        (1000, [7]),
    ],
)
def test_every_page_size_reads_each_row_once_and_an_exactly_full_last_page_is_followed_by_an_empty_one(
    index: DynamoBookingIndex, size: int, sizes_read: list[int]
) -> None:
    put_seven(index)
    read = list(pages(index, EIGHT, size))
    assert [len(page.items) for page in read] == sizes_read
    assert [page.evaluated_count for page in read] == sizes_read
    assert sorted(ids(*read)) == sorted(SEVEN_ROWS)
    times = [SEVEN_ROWS[name] for name in ids(*read)]
    assert times == sorted(times)


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param([{"RecordId": {"S": text}} for text in ("a", "b#/?", "日本", "é" * 1024)], id="S"),
        pytest.param([{"Number": {"N": text}} for text in ("-7", "0", "1.5", "12345678901234567890.12")], id="N"),
        pytest.param([{"Raw": {"B": raw}} for raw in (b"\x3c\xff", b"\x3d", b"\x00", b"PP8=")], id="B"),
        pytest.param([{"Id": {"S": "a"}, "Rev": {"N": text}} for text in ("-1", "2", "10", "9")], id="S and N"),
        pytest.param([{"Id": {"N": "1"}, "Rev": {"B": raw}} for raw in (b"\xff", b"\x00", b"=")], id="N and B"),
        pytest.param([{"Id": {"B": b"\xfe"}, "Rev": {"S": text}} for text in ("a", "é", "e\u0301")], id="B and S"),
    ],
)
def test_the_whole_token_is_handed_back_unchanged_after_it_was_text(
    dynamodb: Any, make_index: MakeIndex, keys: list[Item]
) -> None:
    names = keys[0]
    index = make_index(dynamodb, **{name: next(iter(value)) for name, value in names.items()})
    put(index, *({**record("R1"), **key} for key in keys))
    returned: list[Item] = []
    alter_answers(dynamodb, "Query", [lambda parsed: returned.append(parsed["LastEvaluatedKey"])] * len(keys))
    asked = calls_of(dynamodb)
    read = [{name: item[name] for name in names} for page in pages(index, FIFTEEN, 1) for item in page.items]
    assert sorted(read, key=repr) == sorted(keys, key=repr)
    assert all(set(key) == {"BookingDateUTC", "BookingTimeUTC", *names} for key in returned)
    assert [call.params.get("ExclusiveStartKey") for call in asked] == [None, *returned]


def test_a_token_whose_row_was_deleted_meanwhile_still_says_where_to_go_on(index: DynamoBookingIndex) -> None:
    put_seven(index)
    first = index.query_page(EIGHT, None, 3)
    index.client.delete_item(TableName=index.table_name, Key={"RecordId": first.items[-1]["RecordId"]})
    rest = list(pages(index, EIGHT, 3, first.next_token))
    assert sorted(ids(first, *rest)) == sorted(SEVEN_ROWS)


def test_one_megabyte_ends_a_page_before_its_size_does(engine: str, index: DynamoBookingIndex) -> None:
    put(index, *(record(f"R{n}", f"15:0{n}:00Z", Note={"S": "x" * 380_000}) for n in range(4)))
    fitting = 3 if engine == "dynalite" else 2  # dynalite still adds the row that crosses the limit
    first = index.query_page(FIFTEEN, None, 100)
    assert first.next_token is not None
    assert (len(first.items), first.evaluated_count) == (fitting, fitting)
    assert ids(first, *pages(index, FIFTEEN, 100, first.next_token)) == ["R0", "R1", "R2", "R3"]


@pytest.mark.parametrize(
    ("hour", "read"),
    [
        pytest.param(14, ["14:00:00Z", "14:59:59Z", "14:59:59.9Z", "15:00:00.5Z", "15:00:00Z"], id="14"),
        pytest.param(
            15,
            ["15:00:00.5Z", "15:00:00Z", "15:00:01Z", "15:59:59.9999999Z", "15:59:59Z", "16:00:00.5Z", "16:00:00Z"],
            id="15",
        ),
        pytest.param(16, ["16:00:00.5Z", "16:00:00Z", "16:00:01Z"], id="16"),
    ],
)
def test_a_window_reads_from_its_first_fraction_of_a_second_to_the_next_hour_inclusive(
    index: DynamoBookingIndex, hour: int, read: list[str]
) -> None:
    times = (
        *("13:59:59Z", "14:00:00Z", "14:59:59Z", "14:59:59.9Z", "15:00:00Z", "15:00:00.5Z", "15:00:01Z"),
        *("15:59:59Z", "15:59:59.9999999Z", "16:00:00.5Z", "16:00:00Z", "16:00:01Z"),
    )
    put(index, *(record(f"R{n}", time) for n, time in enumerate(times)))
    page = index.query_page(whole(Window(WINDOW.start.replace(hour=hour))), None, 1000)
    assert sorted(item["BookingTimeUTC"]["S"] for item in page.items) == sorted(read)


def test_the_last_window_of_a_day_ends_at_24_00_of_its_own_date(index: DynamoBookingIndex) -> None:
    put(
        index,
        record("before", "22:59:59Z", "2026-09-16"),
        record("first", "23:00:00Z", "2026-09-16"),
        record("last", "23:59:59.9Z", "2026-09-16"),
        record("midnight", "00:00:00Z", "2026-09-17"),
    )
    asked = calls_of(index.client)
    last = Window(datetime(2026, 9, 16, 23, tzinfo=UTC))
    assert ids(index.query_page(whole(last), None, 1000)) == ["first", "last"]
    assert ids(index.query_page(whole(last.next), None, 1000)) == ["midnight"]
    assert [call.params["ExpressionAttributeValues"] for call in asked] == [
        {":date": {"S": "2026-09-16"}, ":low": {"S": "23:00:00"}, ":high": {"S": "24:00:00Z"}},
        {":date": {"S": "2026-09-17"}, ":low": {"S": "00:00:00"}, ":high": {"S": "01:00:00Z"}},
    ]


SHARD: Final = "2026-09-17#3"


def test_a_shard_of_a_date_is_read_as_a_date_is_and_its_token_is_handed_back_unchanged(
    index: DynamoBookingIndex,
) -> None:
    put(index, *(record(name, time, SHARD) for name, time in SEVEN_ROWS.items()))
    for other in ("2026-09-17", "2026-09-17#0", "2026-09-17#30", "2026-09-16#3"):
        put(index, record(f"of {other}", "08:05:00Z", other))
    keys = EIGHT._replace(date_key=SHARD)
    asked = calls_of(index.client)
    read = list(pages(index, keys, 3))
    assert [len(page.items) for page in read] == [3, 3, 1]
    assert sorted(ids(*read)) == sorted(SEVEN_ROWS)
    assert [page.next_token and page.next_token["BookingDateUTC"] for page in read] == [{"S": SHARD}] * 2 + [None]
    assert all(call.params["ExpressionAttributeValues"][":date"] == {"S": SHARD} for call in asked)


def test_the_shards_of_a_date_together_are_its_rows_each_once(index: DynamoBookingIndex) -> None:
    rows = {f"R{number:02}": f"15:{number:02}:00Z" for number in range(24)}
    put(index, *(record(name, time, f"2026-09-17#{int(name[1:]) % 4}") for name, time in rows.items()))
    run = replace(a_run(), slices=3, shards=5)
    read = lane_by_lane(index, run, 2)
    assert len(read) == 15
    assert [read[shard * 3][0] for shard in range(4)] == ["R00", "R01", "R02", "R03"]
    assert read[-3:] == [[], [], []]
    assert sorted(itertools.chain(*read)) == sorted(rows)


def test_the_partition_key_may_have_another_name(dynamodb: Any, make_index: MakeIndex) -> None:
    index = make_index(dynamodb, date_attribute="BookingDateShard")
    put(index, *(record(name, time, BookingDateShard={"S": SHARD}) for name, time in SEVEN_ROWS.items()))
    put(index, record("without it", "08:05:00Z"))
    read = list(pages(index, EIGHT._replace(date_key=SHARD), 3))
    assert sorted(ids(*read)) == sorted(SEVEN_ROWS)
    assert [set(page.next_token or ()) for page in read[:2]] == [{"RecordId", "BookingDateShard", "BookingTimeUTC"}] * 2


BOUNDARY_SECOND: Final = {f"sharp-{number:02}": "15:20:00Z" for number in range(9)}
"""Many bookings at the second at which two of three slices meet."""
AROUND: Final = {
    "fraction before": "15:19:59.9999999Z",
    "second before": "15:19:59Z",
    "at the text": "15:20:00",
    "first fraction": "15:20:00.0000001Z",
    "last fraction": "15:20:00.999Z",
    "second behind": "15:20:01Z",
    "start": "15:00:00",
    "first": "15:00:00Z",
    "last": "16:00:00Z",
}


@pytest.mark.parametrize(
    ("slices", "shards", "size"),
    [(1, 0, 2), (3, 0, 1), (3, 0, 2), (3, 0, 5), (3, 0, 1000), (3, 2, 2), (3, 2, 1000), (120, 0, 2)],
)
def test_slices_together_are_exactly_the_window_however_its_pages_end(
    index: DynamoBookingIndex, slices: int, shards: int, size: int
) -> None:
    rows = BOUNDARY_SECOND | AROUND
    outside = {"before": "14:59:59.9Z", "behind": "16:00:00Z0", "behind too": "16:00:01Z"}
    for number, (name, time) in enumerate((rows | outside).items()):
        put(index, record(name, time, f"2026-09-17#{number % shards}" if shards else "2026-09-17"))
    read = lane_by_lane(index, replace(a_run(), slices=slices, shards=shards), size)
    assert len(read) == slices * max(shards, 1)
    assert sorted(itertools.chain(*read)) == sorted(rows)


def test_slices_meet_between_two_seconds_and_what_lies_at_the_text_there_is_the_earlier_ones(
    index: DynamoBookingIndex,
) -> None:
    put(index, *(record(name, time) for name, time in (BOUNDARY_SECOND | AROUND).items()))
    for size in (1, 1000):
        first, second, third = lane_by_lane(index, replace(a_run(), slices=3), size)
        assert set(first) == {"start", "first", "fraction before", "second before", "at the text"}
        assert set(second) == {*BOUNDARY_SECOND, "first fraction", "last fraction", "second behind"}
        assert third == ["last"]


def test_a_slice_whose_bookings_all_lie_at_the_text_where_it_begins_is_empty_on_every_page(
    index: DynamoBookingIndex,
) -> None:
    put(index, *(record(f"R{number}", "15:20:00") for number in range(5)))
    for size in (1, 2, 5):
        first, *others = lane_by_lane(index, replace(a_run(), slices=3), size)
        assert sorted(first) == [f"R{number}" for number in range(5)]
        assert others == [[], []]


def test_the_slices_of_a_days_last_hour_end_at_24_00_of_its_own_date(index: DynamoBookingIndex) -> None:
    times = {"first": "23:00:00Z", "cut": "23:30:00", "second": "23:30:00Z", "last": "23:59:59.9Z", "leap": "24:00:00Z"}
    put(index, *(record(name, time) for name, time in times.items()), record("midnight", "00:00:00Z", "2026-09-18"))
    late = Window(WINDOW.start.replace(hour=23))
    halves = [["first", "cut"], ["second", "last", "leap"]]
    assert lane_by_lane(index, replace(a_run(window=late), slices=2), 2) == halves
    assert lane_by_lane(index, replace(a_run(window=late.next), slices=2), 2) == [["midnight"], []]


def test_a_row_that_lacks_a_key_of_the_index_is_never_seen(index: DynamoBookingIndex) -> None:
    whole = record("whole")
    for missing in ("BookingDateUTC", "BookingTimeUTC"):
        put(index, {name: value for name, value in record(missing).items() if name != missing})
    put(index, whole)
    page = index.query_page(FIFTEEN, None, 1000)
    assert (page.items, page.evaluated_count) == ([whole], 1)


def test_numbers_come_back_with_every_digit_and_in_one_spelling(index: DynamoBookingIndex) -> None:
    spelled = {
        "100": "100",
        "1.5": "1.5",
        "0.1": "0.1",
        "12345678901234567890.12": "12345678901234567890.12",
        "0.1000000000000000055511151231257827021": "0.1000000000000000055511151231257827021",
        "1.50": "1.5",
        "1E+3": "1000",
        "-0": "0",
    }
    put(index, *(record(text, Amount={"N": text}) for text in spelled))
    read = index.query_page(FIFTEEN, None, 1000).items
    assert {item["RecordId"]["S"]: value_text(item["Amount"]) for item in read} == spelled


def test_an_empty_window_is_one_empty_page_without_a_token(index: DynamoBookingIndex) -> None:
    page = index.query_page(FIFTEEN, None, 1000)
    assert (list(page.items), page.next_token, page.evaluated_count) == ([], None, 0)


def test_every_page_asks_the_same_by_placeholders_only_and_never_for_consistent_reads(
    index: DynamoBookingIndex,
) -> None:
    put_seven(index)
    asked = calls_of(index.client)
    list(pages(index, EIGHT, 3))
    first, *others = (call.params for call in asked)
    assert set(first) == {
        *("TableName", "IndexName", "Limit", "KeyConditionExpression"),
        *("ExpressionAttributeNames", "ExpressionAttributeValues"),
    }
    assert re.fullmatch("(#[a-z]+|:[a-z]+|AND|BETWEEN|[ =])+", first["KeyConditionExpression"])
    assert len(others) == 2
    for params in others:
        del params["ExclusiveStartKey"]
        assert params == first


def test_the_evaluated_count_is_the_scanned_count_and_not_the_number_of_items(
    staged_index: DynamoBookingIndex,
) -> None:
    token = {"RecordId": {"S": "R9"}, "BookingDateUTC": {"S": "2026-09-17"}, "BookingTimeUTC": {"S": "15:59:00Z"}}
    answers = [
        answer(200, Count=1, ScannedCount=5, Items=[record("R1")]),
        answer(200, Count=0, ScannedCount=4, Items=[], LastEvaluatedKey=token),
        answer(200, Count=0, ScannedCount=3),
    ]
    stage(staged_index.client, "Query", answers)
    read = [staged_index.query_page(FIFTEEN, None, 1000) for _ in answers]
    assert [(page.evaluated_count, len(page.items), page.next_token) for page in read] == [
        (5, 1, None),
        (4, 0, token),
        (3, 0, None),
    ]


@pytest.mark.parametrize("missing", [{"index_name": "no-such-index"}, {"table_name": "no-such-table"}], ids=str)
def test_a_missing_table_or_index_is_a_configuration_error(index: DynamoBookingIndex, missing: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^Query bookings: "):
        replace(index, **missing).query_page(FIFTEEN, None, 1000)


WHOLE_TOKEN: Final[Token] = {
    "RecordId": {"S": "secret-record"},
    "BookingDateUTC": {"S": "2026-09-17"},
    "BookingTimeUTC": {"S": "15:30:00Z"},
}


@pytest.mark.parametrize(
    "token",
    [
        pytest.param({name: WHOLE_TOKEN[name] for name in ("RecordId", "BookingTimeUTC")}, id="an attribute missing"),
        pytest.param({**WHOLE_TOKEN, "BookingTimeUTC": {"S": "18:00:00Z"}}, id="behind the window"),
        pytest.param({**WHOLE_TOKEN, "BookingDateUTC": {"S": "2026-09-16"}}, id="another date"),
    ],
)
def test_a_token_that_dynamodb_does_not_take_is_an_invalid_token(index: DynamoBookingIndex, token: Token) -> None:
    put(index, record("secret-record"))
    with pytest.raises(InvalidToken, match=r"^Query bookings: ValidationException \(request [\w-]+\)$"):
        index.query_page(FIFTEEN, token, 1000)


@pytest.mark.parametrize(
    ("step", "kind", "message"),
    [
        pytest.param(
            refusal("ValidationException", 400, f"Cannot read from backfilling global secondary index: {INDEX}"),
            IndexNotReady,
            "Query bookings: ValidationException",
            id="backfilling",
        ),
        pytest.param(
            refusal("ValidationException", 400, "The provided starting key is invalid: secret-record does not match"),
            InvalidToken,
            "Query bookings: ValidationException",
            id="start key of another type",
        ),
        pytest.param(
            refusal("ValidationException", 400, "One or more parameter values were invalid: secret-record"),
            DispatchFailed,
            "Query bookings: ValidationException",
            id="another validation error",
        ),
        pytest.param(
            refusal("AccessDeniedException", 400, "User secret-record is not authorized"),
            ConfigurationError,
            "Query bookings: AccessDeniedException",
            id="no right to read",
        ),
        pytest.param(
            refusal("ProvisionedThroughputExceededException", 400, "secret-record"),
            TransientError,
            "Query bookings: ProvisionedThroughputExceededException",
            id="throttled for ever",
        ),
        pytest.param(
            refusal("InternalServerError", 500, "secret-record"),
            TransientError,
            "Query bookings: InternalServerError",
            id="unavailable for ever",
        ),
        pytest.param(read_timeout, TransientError, "Query bookings: ReadTimeoutError", id="no answer in time"),
    ],
)
def test_a_failed_query_says_who_acts_and_holds_no_value_of_a_record(
    staged_index: DynamoBookingIndex, pauses: list[float], step: Step, kind: type[DispatcherError], message: str
) -> None:
    requests = stage(staged_index.client, "Query", itertools.repeat(step))
    with pytest.raises(kind) as raised:
        staged_index.query_page(FIFTEEN, WHOLE_TOKEN, 1000)
    assert type(raised.value) is kind
    assert str(raised.value).startswith(message)
    assert "secret-record" not in str(raised.value)
    assert (raised.value.__cause__, raised.value.__suppress_context__) == (None, True)
    assert len(requests) == (CALL_ATTEMPTS if kind is TransientError else 1)
    assert len(pauses) == len(requests) - 1


@pytest.mark.parametrize(
    "step",
    [refusal("ProvisionedThroughputExceededException"), refusal("ThrottlingException"), read_timeout, lost_answer],
    ids=["throughput exceeded", "throttled", "no answer in time", "answer lost"],
)
def test_a_page_that_fails_twice_and_then_succeeds_is_read_once(
    staged_index: DynamoBookingIndex, pauses: list[float], step: Step
) -> None:
    put_seven(staged_index)
    requests = stage(staged_index.client, "Query", [step, step])
    page = staged_index.query_page(EIGHT, None, 1000)
    assert sorted(ids(page)) == sorted(SEVEN_ROWS)
    assert (len(requests), len(pauses)) == (3, 2)
