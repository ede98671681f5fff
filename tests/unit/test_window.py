from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.domain.window import Instant, Window, parse_instant

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def start_of(execute_time: str) -> str:
    return Window.before(parse_instant(execute_time)).start_text


@pytest.mark.parametrize(
    ("execute_time", "start"),
    [
        pytest.param("2026-09-17T16:01:10.6854808+08:00", "2026-09-17T07:00:00Z", id="the contract's task data"),
        pytest.param("2026-09-17T16:01:10Z", "2026-09-17T15:00:00Z", id="the contract's example in UTC"),
        pytest.param("2026-09-17T16:00:00Z", "2026-09-17T15:00:00Z", id="exactly on the hour"),
        pytest.param("2026-09-17T16:59:59.999999999Z", "2026-09-17T15:00:00Z", id="a nanosecond before the next hour"),
        pytest.param("2026-09-17T00:20:00+08:00", "2026-09-16T15:00:00Z", id="after local midnight, still yesterday"),
        pytest.param("2026-09-17T08:05:00.0000001+08:00", "2026-09-16T23:00:00Z", id="after UTC's midnight"),
        pytest.param("2026-03-01T08:10:00+08:00", "2026-02-28T23:00:00Z", id="over the end of February"),
        pytest.param("2028-03-01T00:30:00Z", "2028-02-29T23:00:00Z", id="over a leap day"),
        pytest.param("2027-01-01T08:00:00.0000000+08:00", "2026-12-31T23:00:00Z", id="over the end of the year"),
        pytest.param("2026-09-17T16:01:10-03:30", "2026-09-17T18:00:00Z", id="behind UTC by three and a half hours"),
        pytest.param("2026-09-17T16:01:10+05:45", "2026-09-17T09:00:00Z", id="ahead of UTC by a quarter more"),
        pytest.param("2026-09-17T16:01:10-00:00", "2026-09-17T15:00:00Z", id="the offset minus nought"),
        pytest.param("2026-09-17T16:01:10z", "2026-09-17T15:00:00Z", id="a small z"),
        pytest.param("1969-12-31T23:30:00Z", "1969-12-31T22:00:00Z", id="before 1970"),
    ],
)
def test_window_is_the_utc_hour_before_the_one_of_execute_time(
    execute_time: str, start: str, machine_zone: str
) -> None:
    assert start_of(execute_time) == start, f"on a machine in {machine_zone}"


@pytest.mark.parametrize("fraction", ["", ".6", ".685", ".6854808", ".685480800", ".000000001", ".999999999"])
def test_any_length_of_the_fraction_gives_the_same_window(fraction: str) -> None:
    assert start_of(f"2026-09-17T16:01:10{fraction}+08:00") == "2026-09-17T07:00:00Z"


@given(st.integers(0, 999_999_999), st.integers(1, 9))
def test_every_digit_of_the_fraction_counts(nanoseconds: int, digits: int) -> None:
    fraction = f"{nanoseconds:09}"[:digits]

    instant = parse_instant(f"2026-09-17T16:01:10.{fraction}Z")

    assert instant.nanoseconds == int(fraction) * 10 ** (9 - digits)
    assert instant.seconds == parse_instant("2026-09-17T16:01:10Z").seconds


@given(
    st.timedeltas(datetime(2, 1, 1, tzinfo=UTC) - EPOCH, datetime(9998, 12, 31, tzinfo=UTC) - EPOCH),
    st.integers(-(24 * 60 - 1), 24 * 60 - 1),
)
def test_window_agrees_with_datetime_arithmetic_at_every_offset(since_1970: timedelta, offset_minutes: int) -> None:
    moment = (EPOCH + since_1970).astimezone(timezone(timedelta(minutes=offset_minutes)))
    text = moment.isoformat()

    window = Window.before(parse_instant(text))

    assert parse_instant(text) == Instant((moment - EPOCH) // timedelta(seconds=1), moment.microsecond * 1000)
    assert window.start == (moment.astimezone(UTC) - timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    assert window.end - window.start == timedelta(hours=1)
    assert Window.starting(window.start_text) == window


OUTSIDE_THE_GRAMMAR = {
    "no offset": "2026-09-17T16:01:10.6854808",
    "a date alone": "2026-09-17",
    "seconds since 1970": "1789632070",
    "milliseconds since 1970": "1789632070000",
    "the old .NET spelling": "/Date(1789632070685)/",
    "the old .NET spelling with an offset": "/Date(1789632070685+0800)/",
    "a week date": "2026-W38-4T16:01:10Z",
    "the compact form": "20260917T160110Z",
    "a typographic minus": "2026-09-17T16:01:10\N{MINUS SIGN}08:00",
    "hour 24": "2026-09-17T24:00:00Z",
    "second 60": "2026-09-17T23:59:60Z",
    "minute 60": "2026-09-17T23:60:00Z",
    "no seconds": "2026-09-17T16:01Z",
    "a small t": "2026-09-17t16:01:10Z",
    "a blank for the T": "2026-09-17 16:01:10Z",
    "ten fractional digits": "2026-09-17T16:01:10.1234567890Z",
    "a point without digits": "2026-09-17T16:01:10.Z",
    "a comma for the point": "2026-09-17T16:01:10,5Z",
    "an offset without colon": "2026-09-17T16:01:10+0800",
    "an offset of hours only": "2026-09-17T16:01:10+08",
    "an offset of 24 hours": "2026-09-17T16:01:10+24:00",
    "an offset of 60 minutes": "2026-09-17T16:01:10+08:60",
    "an offset with seconds": "2026-09-17T16:01:10+08:00:00",
    "Z and an offset": "2026-09-17T16:01:10Z+08:00",
    "a blank before": " 2026-09-17T16:01:10Z",
    "a line end after": "2026-09-17T16:01:10Z\n",
    "digits of another script": "\N{FULLWIDTH DIGIT TWO}026-09-17T16:01:10Z",
    "a five-digit year": "12026-09-17T16:01:10Z",
    "30 February": "2026-02-30T16:01:10Z",
    "29 February of no leap year": "2027-02-29T16:01:10Z",
    "month 13": "2026-13-01T16:01:10Z",
    "year 0": "0000-01-01T16:01:10Z",
    "nothing": "",
}


@pytest.mark.usefixtures("machine_zone")
@pytest.mark.parametrize("text", OUTSIDE_THE_GRAMMAR.values(), ids=OUTSIDE_THE_GRAMMAR.keys())
def test_a_time_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected YYYY-MM-DDThh:mm:ss|no such date or time"):
        parse_instant(text)


@pytest.mark.parametrize(
    "execute_time",
    [
        pytest.param("0001-01-01T00:30:00Z", id="the hour before the first year"),
        pytest.param("0001-01-01T01:30:00Z", id="no hour beside the first one"),
        pytest.param("0001-01-01T00:30:00+23:59", id="an offset that leads before the first year"),
        pytest.param("9999-12-31T23:30:00Z", id="no hour beside the last one"),
        pytest.param("9999-12-31T23:30:00-23:59", id="an offset that leads behind the last year"),
    ],
)
def test_a_window_at_the_ends_of_time_is_refused_by_name(execute_time: str) -> None:
    with pytest.raises(ValueError, match="the hour lies outside the years 1 to 9999"):
        Window.before(parse_instant(execute_time))


@pytest.mark.parametrize(
    ("execute_time", "start"),
    [("0001-01-01T02:30:00Z", "0001-01-01T01:00:00Z"), ("9999-12-31T22:30:00Z", "9999-12-31T21:00:00Z")],
)
def test_the_first_and_the_last_window_can_be_served(execute_time: str, start: str) -> None:
    window = Window.before(parse_instant(execute_time))

    assert window.start_text == start
    assert window.previous.next == window.next.previous == window


@pytest.mark.parametrize(
    ("start", "date", "low", "high"),
    [
        pytest.param("2026-09-17T15:00:00Z", "2026-09-17", "15:00:00", "16:00:00Z", id="an hour of the day"),
        pytest.param("2026-09-17T00:00:00Z", "2026-09-17", "00:00:00", "01:00:00Z", id="the first hour"),
        pytest.param("2026-09-16T23:00:00Z", "2026-09-16", "23:00:00", "24:00:00Z", id="the hour before midnight"),
    ],
)
def test_query_range_is_one_date_and_never_reversed(start: str, date: str, low: str, high: str) -> None:
    window = Window.starting(start)

    assert (window.date, window.low, window.high) == (date, low, high)
    assert window.low < window.high


def test_window_before_midnight_comes_of_the_first_minutes_of_the_next_day() -> None:
    window = Window.before(parse_instant("2026-09-17T00:01:10Z"))

    assert (window.date, window.low, window.high) == ("2026-09-16", "23:00:00", "24:00:00Z")
    assert window.end_text == "2026-09-17T00:00:00Z"


@pytest.mark.parametrize("key", ["15:00:00.0000001Z", "15:00:00.5Z", "15:00:00Z", "15:59:59.9999999Z", "16:00:00Z"])
def test_a_key_with_a_fraction_in_the_first_second_is_not_lost(key: str) -> None:
    window = Window.starting("2026-09-17T15:00:00Z")

    assert window.low <= key <= window.high


def _windows_reading(date: str, key: str) -> set[str]:
    day = datetime.fromisoformat(f"{date}T00:00:00Z")
    windows = [Window(day + timedelta(hours=hour)) for hour in range(-2, 26)]
    return {each.start_text for each in windows if each.date == date and each.low <= key <= each.high}


@given(
    st.integers(0, 23),
    st.sampled_from(["00:00", "00:01", "30:00", "59:59"]),
    st.sampled_from(["", ".0000001", ".5", ".9999999"]),
)
def test_a_record_on_an_edge_is_known_to_be_read_by_both_its_windows(hour: int, rest: str, fraction: str) -> None:
    key = f"{hour:02}:{rest}{fraction}Z"

    reading = [each.start_text for each in Window.all_reading("2026-09-17", key)]

    assert reading == sorted(_windows_reading("2026-09-17", key))
    assert reading


@pytest.mark.parametrize(
    ("key", "hours"),
    [
        pytest.param("15:00:00Z", [14, 15], id="the sharp hour of the start"),
        pytest.param("15:00:00.5Z", [14, 15], id="the first second, which sorts before the sharp hour"),
        pytest.param("15:00:01Z", [15], id="the second second"),
        pytest.param("15:59:59.9Z", [15], id="the last second"),
        pytest.param("16:00:00Z", [15, 16], id="the sharp hour of the end"),
        pytest.param("16:00:00.5Z", [15, 16], id="the second behind the end"),
        pytest.param("00:00:00Z", [0], id="midnight, for it lies on one date only"),
        pytest.param("24:00:00Z", [23], id="no time of day, but within the last window's range"),
    ],
)
def test_windows_that_read_a_key(key: str, hours: list[int]) -> None:
    assert [each.start.hour for each in Window.all_reading("2026-09-17", key)] == hours


def test_midnight_is_no_edge_between_two_queries_for_it_lies_on_one_date_only() -> None:
    assert _windows_reading("2026-09-17", "00:00:00Z") == {"2026-09-17T00:00:00Z"}


def test_neighbouring_windows_share_an_edge() -> None:
    window = Window.starting("2026-09-17T15:00:00Z")

    assert window.edges == ("2026-09-17T15:00:00Z", "2026-09-17T16:00:00Z")
    assert window.previous.edges[1] == window.edges[0]
    assert window.next.edges[0] == window.edges[1]


@pytest.mark.parametrize(
    "text",
    ["2026-09-17T15:30:00Z", "2026-09-17T15:00:00", "2026-09-17T15:00:00+00:00", "2026-09-17", "15:00", ""],
)
def test_a_state_s_window_must_be_a_full_utc_hour(text: str) -> None:
    with pytest.raises(ValueError, match=r"full UTC hour|Invalid isoformat string"):
        Window.starting(text)
