import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.mesh.settings.mesh import MeshSettings
from streams.tools.feed.feed import Pace, most_ahead
from tests.support.meshes.files import changed

NEVER = math.inf


def fed(pace, timestamps, wall=1000.0, held_up=()):
    """When each record goes, from the start on; the feeder is held up before some: {index: seconds}."""
    now, went = 0.0, []
    for index, timestamp in enumerate(timestamps):
        now += dict(held_up).get(index, 0.0)
        now += pace.delay(timestamp, wall + now, 5000.0 + now)
        went.append(round(now, 6))
    return went


def test_full_speed_waits_for_nothing():
    assert fed(Pace(NEVER), [None, None, 5.0, 99_999.0]) == [0.0] * 4


def test_a_rate_is_so_many_a_second():
    assert fed(Pace(NEVER, rate=4.0), [None] * 5) == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_what_was_held_up_is_not_made_up_for_by_a_burst():
    went = fed(Pace(NEVER, rate=10.0), [None] * 6, held_up={2: 60.0})
    assert went == [0.0, 0.1, 60.1, 60.1, 60.2, 60.3]


@given(st.floats(0.1, 1e5), st.lists(st.floats(0, 3), min_size=1, max_size=50))
def test_no_second_has_more_than_the_rate_and_its_burst(rate, delays):
    went = fed(Pace(NEVER, rate=rate), [None] * len(delays), held_up=enumerate(delays))
    for first in went:
        assert sum(first <= at < first + 1.0 for at in went) <= rate * 1.1 + 2


def test_a_replay_keeps_the_intervals_of_the_past():
    pace = Pace(NEVER, by_timestamps=True, replay=True)
    assert fed(pace, [10.0, 11.5, None, 11.0, 13.0]) == [0.0, 1.5, 1.5, 1.5, 3.0]


def test_a_replay_of_the_future_waits_for_it():
    assert fed(Pace(NEVER, by_timestamps=True, replay=True), [1002.0, 1003.0]) == [2.0, 3.0]


def test_slots_by_time_get_each_record_at_its_time_and_the_past_at_once():
    assert fed(Pace(NEVER, by_timestamps=True), [10.0, 999.0, 1001.0, 1001.0]) == [0.0, 0.0, 1.0, 1.0]


def test_no_record_is_further_ahead_of_the_clock_than_the_topic_takes():
    assert fed(Pace(60.0), [1000.0, 1060.0, 1070.0]) == [0.0, 0.0, 10.0]


def test_with_slots_by_time_no_record_is_further_ahead_than_a_node_takes():
    slots = {"by": "time", "size": 1, "period": 2.0, "start": 0.0}
    mesh = changed(horizon=8)["mesh"]
    assert most_ahead(MeshSettings.model_validate(mesh), 1800.0) == 1800.0
    by_time = MeshSettings.model_validate(mesh | {"slots": slots})
    assert (most_ahead(by_time, 1800.0), most_ahead(by_time, 5.0)) == (8.0, 5.0)


@pytest.mark.parametrize("timestamp", [0.0, 1e300])
def test_times_far_away_are_no_trouble(timestamp):
    assert Pace(NEVER, by_timestamps=False).delay(timestamp, 1000.0, 0.0) == 0.0
