"""What the party's applications read is what was decided and predicted, to the last bit."""

import json
import logging
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.losses.losses import Softmax, Squared
from nodes.machine.events import BeforeStep, Decided
from nodes.privacy.private import Private
from nodes.values import Average, Decision, Observations
from streams.live.outputs import Decisions, Predictions

FINITE = st.floats(allow_nan=False, allow_infinity=False)
EDGES = [0.0, -0.0, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, 1e16, 1e21, 0.1, -1 / 3]


class Topic:
    """Keeps what is sent, as a bus whose broker always answers."""

    def __init__(self):
        self.values, self.keys = [], []

    def send(self, topic, value, key=None):
        self.values.append(value)
        self.keys.append(key)

    def serve(self):
        pass

    def flush(self, seconds):
        return True


def bits(numbers):
    return [struct.pack("<d", number) for number in numbers]


def written(decision, slot=None):
    topic = Topic()
    begins = None if slot is None else lambda round: slot
    writer = Decisions(topic, "decisions.a", "run-1", begins, lambda: 1790000000.125, horizon=10)
    writer.write(Decided(7, Decision(decision), own=None, heard=None))
    return topic.values


@given(st.lists(FINITE, min_size=1), FINITE)
def test_a_decision_is_read_with_its_bits(numbers, slot):
    (value,) = written(np.array(numbers), slot)
    read = json.loads(value.decode("utf-8"))
    assert list(read) == ["run", "round", "x", "slot", "decided"]
    assert bits(read["x"]) == bits(numbers)
    assert bits([read["slot"], read["decided"]]) == bits([slot, 1790000000.125])
    assert (read["run"], read["round"]) == ("run-1", 7)


def test_decisions_at_the_edges_of_floats_and_those_that_are_views():
    for decision in (np.array(EDGES), np.array(EDGES)[::-1], np.array([EDGES, EDGES]).T[:, 0]):
        (value,) = written(decision)
        assert bits(json.loads(value)["x"]) == bits(decision.tolist())


def test_the_average_stands_with_every_tenth_decision_and_the_last():
    topic = Topic()
    writer = Decisions(topic, "decisions.a", "run-1", horizon=10, last=25)
    for round in range(1, 26):
        average = Average(round, np.array([round / 2]))
        writer.write(Decided(round, Decision(np.array([1.0])), own=None, heard=None, average=average))
    bodies = map(json.loads, topic.values)
    averages = {body["round"]: body["average"] for body in bodies if "average" in body}
    assert averages == {10: [5.0], 20: [10.0], 25: [12.5]}


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_decision_that_is_not_finite_is_not_written_as_null(number, caplog):
    with caplog.at_level(logging.WARNING):
        assert written(np.array([1.0, number])) == []
    assert "not finite" in caplog.text


def foreseen(features, decision):
    features = np.array(features)
    size = len(features)
    seen = Observations(features, np.zeros(size), np.ones(size, np.bool_))
    return BeforeStep(
        3, Decision(np.array(decision)), Private(seen), Private(tuple((0, k) for k in range(size)))
    )


@given(st.lists(FINITE, min_size=1, max_size=20))
def test_a_prediction_is_read_with_its_bits(numbers):
    topic = Topic()
    Predictions(topic, "predictions.a", "run-1", Squared()).write(
        foreseen([[number] for number in numbers], [1.0])
    )
    read = [json.loads(value) for value in topic.values]
    assert bits([value["prediction"] for value in read]) == bits(0.0 + number for number in numbers)
    assert topic.keys == [b"0:%d" % k for k in range(len(numbers))]


def test_a_class_of_half_a_character_is_read_as_it_is():
    topic = Topic()
    writer = Predictions(topic, "predictions.a", "run-1", Softmax(2), ("\ud800", "Ölbaum"))
    writer.write(foreseen([[1.0], [-1.0]], [1.0, -1.0]))
    read = [json.loads(value) for value in topic.values]
    assert [value["class"] for value in read] == ["\ud800", "Ölbaum"]
