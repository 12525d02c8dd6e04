"""What a process that scores shows of itself: counts, what waits, latencies, and its model."""

import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, TopicPartition
from prometheus_client import generate_latest

from streams.metrics.registry import PrivateRegistry
from streams.records.faults import Fault
from streams.tools.score import figures
from streams.tools.score.figures import ScoreCounts, ScoreFigures
from streams.tools.score.scorer import ModelVersion
from tests.support.nodes.metrics import promtool_says, shown

VERSION = ModelVersion("run-1", 12, np.zeros(2), 1_000.0)


class Reader:
    """A consumer of two partitions: (first offset, end) and the position of each."""

    def __init__(self, *partitions):
        self.partitions = partitions

    def assignment(self):
        return [TopicPartition("t", number) for number in range(len(self.partitions))]

    def position(self, places):
        return [TopicPartition("t", place.partition, self.partitions[place.partition][2]) for place in places]

    def get_watermark_offsets(self, place, *, cached):
        assert cached
        return self.partitions[place.partition][:2]


def message(milliseconds, kind=TIMESTAMP_CREATE_TIME):
    return SimpleNamespace(timestamp=lambda: (kind, milliseconds))


@pytest.fixture
def made():
    counts = ScoreCounts()
    return counts, ScoreFigures(PrivateRegistry(mesh="m", node="a"), counts)


def value(made, name, *labels):
    return shown(made[1].registry)[f"mirrormesh_{name}", *labels]


def test_messages_are_counted_by_what_became_of_them(made):
    made[0].add([b"{}", None, Fault(None, "why"), b"{}"])
    outcomes = {name: value(made, "scored_messages_total", name) for name in ("scored", "unreadable")}
    assert outcomes == {"scored": 2, "unreadable": 1}
    assert value(made, "scored_messages_total", "no_record") == 1
    assert made[0].unreadable == Counter({Fault(None, "why"): 1})


def test_what_waits_is_what_lies_behind_the_positions(made, monkeypatch):
    assert math.isnan(value(made, "score_lag_messages"))
    made[1].turn(Reader((0, 10, 4), (5, 20, -1001)), VERSION)  # of the second nothing is read yet
    assert value(made, "score_lag_messages") == 6 + 15
    made[1].turn(Reader((0, 100, 4)), VERSION)
    assert value(made, "score_lag_messages") == 21  # looked at once a second
    monkeypatch.setattr(figures, "EVERY", 0.0)
    made[1].turn(Reader((0, 100, 4)), VERSION)
    assert value(made, "score_lag_messages") == 96
    made[1].turn(Reader((-1001, -1001, 4)), VERSION)
    assert math.isnan(value(made, "score_lag_messages"))  # the client has not heard of the end


def test_the_model_has_a_round_and_a_time_and_until_there_is_one_it_is_waited_for(made):
    assert made[1].missing() == "waiting for a decision"
    assert math.isnan(value(made, "score_model_round"))
    made[1].turn(Reader(), VERSION)
    assert made[1].missing() is None
    assert (value(made, "score_model_round"), value(made, "score_model_timestamp_seconds")) == (12, 1_000)
    made[1].turn(Reader(), VERSION._replace(decided=None))
    assert math.isnan(value(made, "score_model_timestamp_seconds"))


def test_latencies_go_by_messages_times_and_one_of_the_future_is_none(made, monkeypatch):
    monkeypatch.setattr(figures.time, "time", lambda: 100.0)
    batch = [message(99_997), message(98_000), message(200_000), message(0, TIMESTAMP_NOT_AVAILABLE)]
    made[1].scored(batch)
    counts = {le: value(made, "score_latency_seconds_bucket", le) for le in ("0.001", "0.005", "2.0", "+Inf")}
    assert counts == {"0.001": 1, "0.005": 2, "2.0": 3, "+Inf": 3}
    assert value(made, "score_latency_seconds_sum") == pytest.approx(2.003)


def test_a_loop_that_stands_still_is_told(made, monkeypatch):
    assert made[1].stalled() is None
    made[1].beat()
    assert made[1].stalled() is None
    made[1]._pulse._last -= figures.STILL + 1
    assert "the loop that scores" in made[1].stalled()


def test_prometheus_finds_nothing_wrong(made):
    made[1].turn(Reader((0, 10, 4)), VERSION)
    assert promtool_says(generate_latest(made[1].registry.collected).decode()) == ""
