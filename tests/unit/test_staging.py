import itertools
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.booking import Booking, Group, KeyOrder, RecordVersion, Route
from functions.domain.errors import InvalidToken
from functions.domain.staging import (
    ALL_BUCKETS,
    BUCKETS,
    StagedIndex,
    bounds_of,
    bucket_of,
    fold_key,
    group_of,
    pack,
    page_key,
    range_in,
    read_line,
    staged_line,
    unpack,
)
from functions.domain.task import Task, compose, message_group, object_body
from functions.domain.values import object_text, quote
from functions.domain.window import Instant
from tests.unit.fakes import window

GROUP = Group("1001", '"mem\\u00e9"', '"a\\tb"')
EPOCH = Instant(0, 0)
LOWEST, HIGHEST = Instant(-62_135_683_140, 0), Instant(253_402_387_199, 999_999_999)
"""The first and the last moment that an OrderTime can name, whatever its offset."""


def a_booking(
    key: KeyOrder = ("R1",), order_time: Instant = EPOCH, route: Route = Route.POINT, group: Group = GROUP
) -> Booking:
    version = RecordVersion(f'{{"RecordId":{quote(repr(key))}}}', "2026-09-17", "15:10:00Z")
    return Booking(group, route, order_time, key, version, f'{{"Note":"a\\tb\\n","Key":{quote(repr(key))}}}')


def numbers() -> st.SearchStrategy[Decimal]:
    """What DynamoDB's type N holds: 38 digits, exponents of -130 to 125, any of several spellings."""
    digits = st.text("0123456789", min_size=1, max_size=38)
    return st.builds(
        lambda sign, text, exponent: Decimal(f"{sign}{text}E{exponent}"),
        st.sampled_from(["", "-"]),
        digits,
        st.integers(-130, 88),
    ) | st.integers(-1000, 1000).map(lambda number: Decimal(number) / 8)


def keys() -> st.SearchStrategy[list[KeyOrder]]:
    """Some keys of one table: of one or two attributes, each of one type."""
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.text("a\t ~é\U0001f381", max_size=4)
    values: list[st.SearchStrategy[Any]] = [texts, st.binary(max_size=4), numbers()]
    kinds = [*((kind,) for kind in values), *itertools.product(values, values)]
    return st.one_of([st.lists(st.tuples(*kind), min_size=2, max_size=8) for kind in kinds])


def instants() -> st.SearchStrategy[Instant]:
    seconds = st.integers(LOWEST.seconds, HIGHEST.seconds) | st.integers(-3, 3)
    return st.builds(Instant, seconds, st.sampled_from([0, 1, 10, 999_999_999]))


@given(keys(), st.lists(instants(), min_size=1, max_size=3))
def test_lines_of_a_group_sort_as_its_task_is_composed(found: list[KeyOrder], moments: list[Instant]) -> None:
    bookings = [a_booking(key, moments[place % len(moments)]) for place, key in enumerate(found)]
    distinct = list({(booking.order_time, booking.key_order): booking for booking in bookings}.values())

    in_order = [read_line(line) for line in sorted(map(staged_line, distinct))]

    (composed,) = compose(distinct, window())
    assert [booking.document for booking in in_order] == list(composed.documents)
    assert [booking.version for booking in in_order] == list(composed.task.versions)


@given(keys(), instants())
def test_bookings_read_from_lines_are_composed_as_the_bookings_themselves(
    found: list[KeyOrder], moment: Instant
) -> None:
    bookings = list({key: a_booking(key, moment) for key in found}.values())

    (read,) = compose([read_line(staged_line(booking)) for booking in bookings], window())

    (composed,) = compose(bookings, window())
    assert read == composed


@given(numbers(), numbers())
def test_numbers_that_are_equal_have_one_text_and_others_sort_by_value(one: Decimal, other: Decimal) -> None:
    lines = [group_of_key(staged_line(a_booking((number,)))) for number in (one, other)]

    assert (lines[0] < lines[1]) is (one < other)
    assert (lines[0] == lines[1]) is (one == other)


def test_numbers_sort_by_value_where_one_begins_with_the_digits_of_another() -> None:
    in_order = (
        "-9.9E125 -105 -15 -10.5 -10 -1.5 -1.05 -1 -0.15 -0.1 -1E-130 0 1E-130 0.1 0.15 1 1.05 1.5 10 10.5 15 105 1E125"
    )
    lines = [group_of_key(staged_line(a_booking((Decimal(text),)))) for text in in_order.split()]

    assert lines == sorted(lines)
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("spellings", ["1 1.0 1.00 10E-1 0.1E1", "-1500 -15E2 -1.5E+3", "0 -0 0.00 0E5"])
def test_a_number_has_one_place_however_it_is_spelled(spellings: str) -> None:
    assert len({group_of_key(staged_line(a_booking((Decimal(text),)))) for text in spellings.split()}) == 1


def group_of_key(line: bytes) -> bytes:
    """The line's part that it sorts by, with the tab that ends it."""
    return b"\t".join(line.split(b"\t")[:3]) + b"\t"


@given(
    st.lists(st.text(min_size=1, max_size=5).map(quote), min_size=3, max_size=3),
    st.sampled_from(Route),
    instants(),
    st.dictionaries(st.text(max_size=3), st.text(max_size=5).map(lambda text: {"S": text}), max_size=3),
)
def test_a_line_holds_all_of_a_booking_and_its_key_in_a_form_that_sorts_the_same(
    ids: list[str], route: Route, moment: Instant, attributes: dict[str, dict[str, str]]
) -> None:
    version = RecordVersion(object_text({"Id": {"S": "a\tb"}}), "2026-09-17", "15:10:00.5Z")
    booking = Booking(Group(*ids), route, moment, ("a\tb",), version, object_text(attributes))

    line = staged_line(booking)

    assert line.isascii()
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")
    assert read_line(line)._replace(key_order=booking.key_order) == booking
    assert read_line(line).key_order == ("610962",)


@pytest.mark.parametrize("moment", [LOWEST, Instant(-1, 999_999_999), Instant(0, 0), HIGHEST])
def test_every_order_time_has_a_place_of_one_width(moment: Instant) -> None:
    line = staged_line(a_booking(order_time=moment))

    assert len(line.split(b"\t")[1]) == 21
    assert line.split(b"\t")[1].isdigit()
    assert read_line(line).order_time == moment


def test_a_bucket_is_the_first_byte_of_the_groups_hash_so_a_group_lies_in_one() -> None:
    digest = message_group(GROUP)

    assert bucket_of(GROUP) == bytes.fromhex(digest)[0]
    assert {group_of(staged_line(a_booking((key,), route=route))) for key in "ab" for route in Route} == {
        digest.encode()
    }
    assert Task("id", Route.POINT, GROUP, window(), ()).message_group == digest


def lines_of(members: int) -> list[bytes]:
    return sorted(staged_line(a_booking(group=Group("1", str(member), "3"))) for member in range(members))


@given(st.integers(0, 40), st.integers(0, BUCKETS), st.integers(0, BUCKETS))
def test_the_index_says_where_the_lines_of_any_buckets_lie(members: int, one: int, other: int) -> None:
    buckets = range(min(one, other), max(one, other))
    lines = lines_of(members)
    index = StagedIndex()

    content = b"".join(index.noting(lines))

    staged = index.of("key")
    extent = staged.extent(buckets)
    wanted = [line for line in lines if int(line[:2], 16) in buckets]
    assert content[extent.start : extent.stop] == b"".join(wanted)
    assert sum(staged.lines[buckets.start : buckets.stop]) == len(wanted)
    assert staged.extent(ALL_BUCKETS) == range(len(content))


@pytest.mark.parametrize("scale", [0, 1, 5_000_000_000], ids=["empty", "small", "beyond 32 bits"])
def test_an_index_is_packed_small_and_unpacked_as_it_was(scale: int) -> None:
    index = StagedIndex()
    assert list(index.noting(lines_of(1000))) == lines_of(1000)
    staged = index.of("staging/key")
    sizes = [size * scale for size in staged.sizes]

    packed = pack(type(staged)("staging/key", staged.lines, sizes))

    unpacked = unpack("staging/key", packed)
    assert (unpacked.key, list(unpacked.lines), list(unpacked.sizes)) == ("staging/key", list(staged.lines), sizes)
    assert len(packed) < 2500


@given(
    st.lists(st.integers(0, 50) | st.sampled_from([0, 0, 500]), min_size=BUCKETS, max_size=BUCKETS),
    st.integers(1, 2000),
)
def test_shares_of_the_buckets_are_all_of_them_once_and_of_about_equal_size(lines: list[int], target: int) -> None:
    bounds = bounds_of(lines, target)

    assert [bucket for share in bounds for bucket in share] == list(ALL_BUCKETS)
    sizes = [sum(lines[share.start : share.stop]) for share in bounds]
    assert len(bounds) == 1 or 0 not in sizes
    assert max(sizes) < target + max(lines) + 1
    assert len(bounds) <= -(-sum(lines) // target) or bounds == [ALL_BUCKETS]


@pytest.mark.parametrize("lines", [[0] * BUCKETS, [1] * BUCKETS, [0] * 255 + [BUCKETS]])
def test_an_hour_within_the_target_has_one_share(lines: list[int]) -> None:
    assert bounds_of(lines, BUCKETS) == [ALL_BUCKETS]


def test_many_records_are_shared_out_evenly() -> None:
    assert [len(share) for share in bounds_of([100] * BUCKETS, 1600)] == [16] * 16


def test_a_staged_pages_key_says_what_it_holds_and_a_folds_key_only_where_it_belongs() -> None:
    one, other = lines_of(1), lines_of(2)

    keys = [page_key("run-1", window(), 3, 17, lines) for lines in (one, other, one)]

    assert keys[0] == keys[2] != keys[1]
    assert all(key.startswith("staging/2026-09-17/15/run-1/0003-000017-") for key in keys)
    assert fold_key("run-1", window(), 1002) == "staging/2026-09-17/15/run-1/fold-1002"


def test_a_token_names_a_range_without_its_end() -> None:
    assert range_in({"From": {"N": "10"}, "To": {"N": "20"}, "After": {"S": "ab"}}) == range(10, 20)


@pytest.mark.parametrize(
    "token",
    [
        None,
        {},
        [],
        {"From": {"N": "0"}},
        {"From": {"N": "0"}, "To": {"S": "1"}},
        {"From": {"N": "0"}, "To": {"N": "x"}},
        {"From": 0, "To": 1},
        {"From": {"N": "2"}, "To": {"N": "2"}},
        {"From": {"N": "-1"}, "To": {"N": "2"}},
    ],
)
def test_another_token_is_refused(token: object) -> None:
    with pytest.raises(InvalidToken, match=r"^Token: "):
        range_in(token)


def test_a_document_is_in_the_object_as_it_was_staged() -> None:
    booking = a_booking()

    (new,) = compose([read_line(staged_line(booking))], window())

    assert object_body(new, "bucket").decode().endswith(f'"Orders":[{booking.document}]}}')
