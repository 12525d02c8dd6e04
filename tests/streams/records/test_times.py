"""Times as text, of a format and of a zone: decided here, by hand and by Python's own reader."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.mesh.settings.schema import DIRECTIVES, SchemaSettings, TimestampSettings
from streams.records.decoder import SchemaDecoder, json_fields
from streams.records.notation import FILE
from streams.records.times import PARTS, moments

BERLIN = "Europe/Berlin"


def read(text, form=None, zone=None):
    keys = {"column": "at"} | ({"format": form} if form else {}) | ({"zone": zone} if zone else {})
    return moments(FILE, TimestampSettings.model_validate(keys))(text)


def utc(*parts):
    return datetime(*parts, tzinfo=UTC).timestamp()


def test_every_letter_of_a_format_has_a_meaning():
    assert set(PARTS) == set(DIRECTIVES)


GERMAN, AMERICAN = "%d.%m.%Y %H:%M", "%m/%d/%Y %I:%M %p"
TEXTS = {
    ("31.01.2026 12:30", GERMAN, BERLIN): utc(2026, 1, 31, 11, 30),
    ("1.7.2026 0:05", GERMAN, BERLIN): utc(2026, 6, 30, 22, 5),
    (" 31.01.2026 12:30\t", GERMAN, BERLIN): utc(2026, 1, 31, 11, 30),
    ("01/31/2026 12:05 AM", AMERICAN, "America/New_York"): utc(2026, 1, 31, 5, 5),
    ("01/31/2026 12:05 pm", AMERICAN, "America/New_York"): utc(2026, 1, 31, 17, 5),
    ("01/31/2026 11:05 PM", AMERICAN, "UTC"): utc(2026, 1, 31, 23, 5),
    ("20260131", "%Y%m%d", "UTC"): utc(2026, 1, 31),
    (20260131, "%Y%m%d", "UTC"): utc(2026, 1, 31),
    ("31-Jan-26 10:00:00.25", "%d-%b-%y %H:%M:%S.%f", "UTC"): utc(2026, 1, 31, 10, 0, 0, 250_000),
    ("31-jan-69", "%d-%b-%y", "UTC"): utc(1969, 1, 31),
    ("31-JAN-68", "%d-%b-%y", "UTC"): utc(2068, 1, 31),
    ("May 3, 2026", "%B %d, %Y", "UTC"): utc(2026, 5, 3),
    ("2026-01-31 10:00 +0130", "%Y-%m-%d %H:%M %z", None): utc(2026, 1, 31, 8, 30),
    ("2026-01-31 10:00 -01:30", "%Y-%m-%d %H:%M %z", None): utc(2026, 1, 31, 11, 30),
    ("2026-01-31 10:00 Z", "%Y-%m-%d %H:%M %z", None): utc(2026, 1, 31, 10),
    ("100% 2026-1-31", "100%% %Y-%m-%d", "UTC"): utc(2026, 1, 31),
    ("2026-01-31T12:00:00", None, BERLIN): utc(2026, 1, 31, 11),
    ("2026-01-31", None, BERLIN): utc(2026, 1, 30, 23),
    ("2026-01-31T12:00:00Z", None, BERLIN): utc(2026, 1, 31, 12),
    ("1700000000", None, BERLIN): 1.7e9,
}
NO_TIMES = [
    *[(text, GERMAN, BERLIN) for text in ("30.02.2026 12:30", "31.01.2026", "31.01.26 12:30", "1700000000")],
    *[(text, GERMAN, BERLIN) for text in ("31.01.2026 24:00", "31.01.2026 12:60", "31.13.2026 12:00", "")],
    *[(text, GERMAN, BERLIN) for text in ("31.01.2026  12:30", "31.01.2026\n12:30", "31-01-2026 12:30", "x")],
    *[(value, GERMAN, BERLIN) for value in (None, True, [], {}, 1.5, "\u0663\u0661.01.2026 12:30")],
    *[(text, AMERICAN, "UTC") for text in ("01/31/2026 0:05 AM", "01/31/2026 13:05 PM", "01/31/2026 1:05")],
    ("31-MAI-26", "%d-%b-%y", "UTC"),
    ("30-\u017fep-26", "%d-%b-%y", "UTC"),  # a long s
    ("2026-01-31 10:00 +25:00", "%Y-%m-%d %H:%M %z", None),
]


def test_a_time_is_what_its_format_and_zone_say():
    for (text, form, zone), seconds in TEXTS.items():
        assert read(text, form, zone) == seconds, (text, form)
    for text, form, zone in NO_TIMES:
        assert read(text, form, zone) is None, (text, form)


def test_what_clocks_that_are_moved_do():
    """A time that is there twice is the first; one that is not there is as much later as clocks move."""
    form = "%d.%m.%Y %H:%M"
    assert read("25.10.2026 02:30", form, BERLIN) == utc(2026, 10, 25, 0, 30)
    assert read("25.10.2026 03:00", form, BERLIN) == utc(2026, 10, 25, 2)
    assert read("29.03.2026 02:30", form, BERLIN) == utc(2026, 3, 29, 1, 30)
    assert read("29.03.2026 03:30", form, BERLIN) == utc(2026, 3, 29, 1, 30)
    assert read("2026-03-29T02:30:00", None, BERLIN) == utc(2026, 3, 29, 1, 30)
    assert read("2026-10-04T02:15:00", None, "Australia/Lord_Howe") == utc(2026, 10, 3, 15, 45)


@given(
    st.integers(86_400, 2**32).map(lambda at: datetime.fromtimestamp(at, UTC).replace(tzinfo=None)),
    st.sampled_from(["%d.%m.%Y %H:%M:%S", "%Y%m%dT%H%M%S", "%m/%d/%y %I:%M:%S %p", "%d %b %Y %H:%M:%S"]),
    st.sampled_from(["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe"]),
)
def test_a_time_is_read_as_python_writes_it(at, form, zone):
    text = at.strftime(form)
    at = at if "%Y" in form else datetime.strptime(text, form)  # noqa: DTZ007 # its zone follows
    assert read(text, form, zone) == at.replace(tzinfo=ZoneInfo(zone)).timestamp()


REFUSED = {
    "%d.%m %H:%M": "must have a year",
    "%Y-%m-%d %Q": "%Q is not known",
    "%Y-%m-%d %": "% is not known",
    "%Y-%m-%d %d": "%d stands there twice",
    "%Y-%m-%d %I": "must have hours",
    "%Y-%m-%d %H %p": "must have hours",
    "%Y-%m-%d %b": "must have a year",
    "%Y-%m-%d": "missing: times of a format without %z need",
}


@pytest.mark.parametrize("form", REFUSED)
def test_a_format_that_cannot_be_is_refused(form):
    with pytest.raises(ValueError, match=REFUSED[form]):
        TimestampSettings.model_validate({"column": "at", "format": form})


def test_a_format_goes_with_a_zone_in_one_place_and_without_a_unit():
    for more in ({"zone": "UTC", "unit": "ms"}, {"zone": "CEST"}, {"format": "%Y-%m-%d %z", "zone": "UTC"}):
        with pytest.raises(ValueError, match=r"zone|unit"):
            TimestampSettings.model_validate({"column": "at", "format": "%Y-%m-%d"} | more)


def test_numbers_that_are_equal_and_spelt_differently_are_read_one_by_one():
    """At once each distinct value is read once: a record must not be read by how another one spells it."""
    timed = {"hour": "UTC", "format": "%Y%m%d%H", "zone": "UTC"}
    tree = {"features": {"t": timed, "x": "number"}, "label": {"column": "y"}}
    read = SchemaDecoder(SchemaSettings.model_validate(tree), json_fields)
    others = [b'{"t": 20240101%02d, "x": 1, "y": 1}' % hour for hour in range(1, 9)]
    odd = b'{"t": 2024010112.0, "x": 1, "y": 1}'
    for first in (b"12", b"11"):
        values = [b'{"t": 20240101%s, "x": 1, "y": 1}' % first, *others, odd]
        assert read.decode_each(values)[-1] is None is read.decode(odd)


def test_blanks_around_a_time_of_iso_are_no_part_of_it():
    at = "2026-01-31T12:00:00Z"
    for text in (at, f" {at}", f"{at}\t ", f" \t{at} "):
        assert moments(FILE)(text) == datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
    for text in (f"\n{at}", f"\u00a0{at}", "", " "):
        assert moments(FILE)(text) is None
