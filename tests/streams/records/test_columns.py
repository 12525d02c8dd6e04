"""Kinds of columns: what a value becomes, at and beyond its bounds."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.mesh.settings.schema import ColumnSettings
from streams.records.columns import cell

LOG = {"log": [0.01, 1000]}
BUCKETS = {"buckets": [0, 1.5, 10]}
SUMMER = "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"
"""The last second of winter time in Berlin, and the first of summer time."""


def features(settings, value):
    column = ColumnSettings.model_validate(settings)
    found = cell("x", column)(value)
    assert found is None or len(found) == column.width
    return found


def place(settings, value):
    found = features(settings, value)
    if found is None:
        return None
    assert sorted(found) == [0.0] * (len(found) - 1) + [1.0]
    return found.index(1.0)


def test_logarithms_go_from_0_at_the_lowest_to_1_at_the_highest():
    assert [features(LOG, x) for x in (0.01, 1000, "1000")] == [[0], [1], [1]]
    for x in (0.02, "1", 7, 999.0):
        (found,) = features(LOG, x)
        assert found == pytest.approx(math.log(float(x) / 0.01) / math.log(1e5), rel=1e-12)


def test_beyond_their_bounds_they_are_clipped_at_and_below_0_too():
    assert [features(LOG, x) for x in (0.009, 0, "-0.0", -5, -1e308, 5e-324)] == [[0]] * 6
    assert [features(LOG, x) for x in (1000.1, 1e308)] == [[1]] * 2


def test_a_bucket_holds_its_lower_edge():
    values = (-1e308, -1, "-1e-9", 0, "1.4", 1.5, 9.99, 10, 1e308)
    assert [place(BUCKETS, x) for x in values] == [0, 0, 0, 1, 1, 2, 2, 3, 3]
    assert [place({"buckets": [5]}, x) for x in (4, 5)] == [0, 1]


@pytest.mark.parametrize("settings", [LOG, BUCKETS], ids=["log", "buckets"])
@pytest.mark.parametrize(
    "value", [None, "", "much", "nan", math.nan, math.inf, "-inf", "1e999", True, [1], "1,5"]
)
def test_what_is_no_finite_number_is_malformed(settings, value):
    assert features(settings, value) is None


def test_hours_and_days_are_those_of_the_zone():
    """Noon of a Sunday in UTC; 0 is a Monday."""
    at = "2026-11-22T12:00:00Z"
    assert [place({"hour": zone}, at) for zone in ("UTC", "Asia/Kolkata", "Pacific/Auckland")] == [12, 17, 1]
    assert [place({"weekday": zone}, at) for zone in ("UTC", "Asia/Kolkata", "Pacific/Auckland")] == [6, 6, 0]


def test_they_follow_summer_time():
    assert [place({"hour": "Europe/Berlin"}, at) for at in SUMMER] == [1, 3]
    assert [place({"hour": "UTC"}, at) for at in SUMMER] == [0, 1]


def test_times_are_read_as_timestamp_reads_them():
    second = datetime(2026, 11, 22, 23, 59, 59, tzinfo=UTC).timestamp()
    for at in (second, str(second), f"{second:.0f}", "2026-11-23T00:59:59+01:00"):
        assert (place({"hour": "UTC"}, at), place({"weekday": "UTC"}, at)) == (23, 6)
    assert place({"hour": "UTC"}, -1) == 23
    assert place({"weekday": "UTC"}, -1) == 2


@pytest.mark.parametrize("kind", ["hour", "weekday"])
@pytest.mark.parametrize(
    "value",
    [
        *(None, "", "noon", True, [0], "nan", math.inf, "2026-11-22T12:00:00", "2026-13-01T00:00:00Z"),
        *(1e300, -1e300, 253402300800, -62135596801, "99999999999999999999", "9999-12-31T23:59:59-20:00"),
    ],
)
def test_no_time_one_without_a_zone_and_one_beyond_the_calendar_are_malformed(kind, value):
    assert features({kind: "UTC"}, value) is None


@given(st.floats() | st.integers() | st.text(max_size=30) | st.datetimes().map(str))
def test_whatever_the_value_is_its_features_are_in_0_and_1_or_none(value):
    for settings in (LOG, BUCKETS, {"hour": "Asia/Tokyo"}, {"weekday": "America/Lima"}):
        found = features(settings, value)
        assert found is None or all(0 <= one <= 1 for one in found)
