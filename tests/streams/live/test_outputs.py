"""What the party's applications read is what was decided and predicted, to the last bit."""

import json
import logging
import struct
from collections import Counter, deque
from queue import SimpleQueue
from threading import Semaphore, Thread, current_thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.losses.losses import Softmax, Squared
from nodes.machine.events import BeforeStep, Decided
from nodes.privacy.private import Private
from nodes.values import Average, Decision, Observations
from streams.bus.bus import BusError
from streams.live import outputs
from streams.live.outputs import Decisions, Predictions, SharedBus

FINITE = st.floats(allow_nan=False, allow_infinity=False)
EDGES = [0.0, -0.0, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, 1e16, 1e21, 0.1, -1 / 3]


class Topic:
    """Keeps what is sent, as a bus whose broker always answers."""

    def __init__(self):
        self.values, self.keys = [], []

    def send(self, topic, value, acknowledged=None, key=None):
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


class Answering:
    """A bus that acknowledges in calls of `serve`, once it may; `refuses`: it takes nothing more."""

    def __init__(self):
        self.open, self.served, self.threads = deque(), Semaphore(0), Counter()
        self.refuses = False

    def send(self, topic, value, acknowledged, key):
        if self.refuses:
            raise BusError("full")
        self.open.append((topic, acknowledged))

    def serve(self, seconds=0.0):
        self.threads[current_thread().name] += 1
        assert sum(self.threads.values()) == 1, "two threads serve"
        try:
            if self.served.acquire(timeout=max(seconds, 1e-3)) and self.open:
                self.open.popleft()[1]()
        finally:
            self.threads.clear()


def test_of_nodes_that_share_a_bus_each_waits_for_its_own_and_one_serves_all(monkeypatch):
    monkeypatch.setattr(outputs, "WAIT", 600.0)
    bus = Answering()
    shared = SharedBus(bus)
    writers = [Predictions(shared, f"predictions.{k}", "run-1", Squared()) for k in range(8)]
    for writer in writers:
        writer.write(foreseen([[1.0]] * 3, [1.0]))
    settled = SimpleQueue()

    def settle(k):
        writers[k].settle()
        settled.put((k, sum(topic == f"predictions.{k}" for topic, _ in bus.open)))

    threads = [Thread(target=settle, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    assert settled.empty()
    bus.served.release(3)
    assert settled.get(timeout=600) == (0, 0)  # its three alone are there
    bus.served.release(21)
    for thread in threads:
        thread.join(600)
    assert sorted([(0, 0), *(settled.get_nowait() for _ in range(7))]) == [(k, 0) for k in range(8)]


def test_a_bus_that_takes_none_is_waited_for_once_and_again_when_it_has_them_all(monkeypatch, caplog):
    monkeypatch.setattr(outputs, "WAIT", 0.01)
    bus, times = Answering(), []
    writer = Predictions(shared := SharedBus(bus), "predictions.a", "run-1", Squared())
    wait = shared.wait

    def counted(is_done, seconds):
        times.append(seconds)
        return wait(is_done, seconds)

    monkeypatch.setattr(shared, "wait", counted)
    for waits in (1, 1, 1):
        writer.write(foreseen([[1.0]], [1.0]))
        writer.settle()
        assert len(times) == waits
    bus.served.release(3)
    while bus.open:
        writer.settle()
    writer.settle()
    writer.write(foreseen([[1.0]], [1.0]))
    bus.served.release(1)
    writer.settle()
    assert (len(times) >= 2, len(bus.open)) == (True, 0)
    bus.refuses = True
    with caplog.at_level(logging.WARNING):
        writer.write(foreseen([[1.0]], [1.0]))
    assert "not all written: full" in caplog.text
    before = len(times)
    writer.settle()  # what was refused is not waited for
    assert len(times) == before + 1
    assert not writer._behind
