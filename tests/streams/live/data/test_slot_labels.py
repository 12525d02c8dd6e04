"""Slots that wait for labels which come later: until they are read, and what happens while nobody answers."""

import numpy as np
import pytest

from nodes.machine.events import OpenSlot
from nodes.machine.slots import CountSlots, TimeSlots
from tests.support.nodes.collectors import Side, arrival


class Labels:
    """Labels that are read, or cannot be, when a test says so."""

    def __init__(self):
        self.questions, self.is_read, self.is_away, self.filled = [], False, False, []

    def ask(self, oldest):
        self.questions.append(oldest)
        self.is_read = False

    def fill(self, slot, observations):
        self.filled.append((slot.round, slot.times))
        return observations._replace(features=observations.features + 0.5, labels=np.ones(len(slot.values)))


def by_time():
    return TimeSlots(9, start=100.0, period=10.0, grace=2.0, horizon=8, delay=50.0)


def answer(side, labels, *, read=True, away=False):
    labels.is_read, labels.is_away = read, away
    side.collector.labels_changed()


@pytest.fixture
def labels():
    return Labels()


def test_a_slot_by_count_waits_until_its_labels_are_read_however_long_nobody_answers(labels):
    side = Side(labels=labels)
    side.collector.open(OpenSlot(1, ()))
    side.collector.add([arrival(0, 7.0), arrival(1, 5.0)])
    assert labels.questions == [5.0]
    for _ in range(3):
        answer(side, labels, read=False, away=True)
    assert side.slots == []
    answer(side, labels)
    assert side.slots == [(1, [0.5, 1.5], ((0, 2),))]
    assert labels.filled == [(1, (7.0, 5.0))]
    answer(side, labels)
    assert len(side.slots) == 1


def test_a_slot_whose_time_is_over_before_its_labels_are_read_is_empty_and_its_records_wait(labels):
    side = Side(timeout=5.0, labels=labels)
    side.collector.open(OpenSlot(1, ((0, 0),)))
    side.fill(0, 2)
    side.now += 5.0
    assert side.collector.left == 0.0
    side.collector.expire()
    assert side.slots == [(1, [], ((0, 0),))]
    answer(side, labels)
    assert len(side.slots) == 1  # the question is void
    side.collector.open(OpenSlot(2, ((0, 0),)))
    answer(side, labels)
    assert side.slots[1:] == [(2, [0.5, 1.5], ((0, 2),))]


def test_a_slot_in_place_of_one_that_waits_has_its_records(labels):
    side = Side(labels=labels)
    side.collector.open(OpenSlot(1, ()))
    side.fill(0, 2)
    side.collector.open(OpenSlot(2, ((0, 0),)))
    assert len(labels.questions) == 2
    answer(side, labels)
    assert side.slots == [(2, [0.5, 1.5], ((0, 2),))]


def test_an_answer_for_a_slot_that_was_given_up_hands_on_nothing(labels):
    side = Side(labels=labels)
    side.collector.open(OpenSlot(1, ()))
    side.fill(0, 2)
    side.collector.open(OpenSlot(2, ((0, 2),)))
    answer(side, labels)
    assert side.slots == []


def test_records_wait_outside_while_a_slot_waits_for_labels(labels):
    side = Side(labels=labels)
    side.collector.open(OpenSlot(1, ()))
    assert any(side.fill(0, 1_000))
    assert side.collector.blocked


def test_a_slot_by_time_that_nobody_answers_closes_empty_and_is_counted(labels):
    side = Side(by_time, labels=labels)
    side.collector.open(OpenSlot(1, ()))
    side.collector.add([arrival(0, 51.0), arrival(1, 52.0)])
    side.collector.settle(112.0)
    answer(side, labels, read=False)
    assert side.slots == []
    answer(side, labels, read=False, away=True)
    assert side.slots == [(1, [], ((0, 2),))]
    assert labels.filled == []
    assert side.counts.unlabelled == 2
    side.collector.open(OpenSlot(2, ((0, 2),)))
    side.collector.settle(122.0)
    answer(side, labels)
    assert side.slots[1:] == [(2, [], ((0, 2),))]


@pytest.mark.parametrize("times", [[], [51.0], [59.0, 51.0, 57.0]])
def test_what_a_slot_by_time_asks_does_not_go_by_its_records(labels, times):
    side = Side(by_time, labels=labels)
    side.collector.open(OpenSlot(1, ()))
    side.collector.add([arrival(offset, at) for offset, at in enumerate(times)])
    side.collector.settle(112.0)
    assert labels.questions == [50.0]


def test_without_labels_a_slot_waits_for_nothing():
    side = Side(lambda: CountSlots(1))
    side.collector.labels_changed()
    side.collector.open(OpenSlot(1, ()))
    side.fill(0, 1)
    assert side.slots == [(1, [0.0], ((0, 1),))]
