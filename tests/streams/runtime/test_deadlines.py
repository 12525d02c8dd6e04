"""A source is given up only after the deadline, and after its edge was read to the end since."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.protocol import StartDeadline
from streams.bus.bus import Unreachable
from streams.runtime.actions import Loop
from streams.runtime.deadlines import PATIENCE, Deadlines, FetchClock, Patience

TIMEOUT = 0.05


class Broker:
    """Says where logs end, unless it is away; and is the reader, which has read up to `read`."""

    def __init__(self):
        self.logs, self.read, self.away, self.waiting = {"edge": 3}, 0, 0, []

    def ends(self, topics):
        if self.away:
            self.away -= 1
            raise Unreachable("away")
        return {topic: self.logs[topic] for topic in topics}

    def when_read(self, ends, action):
        self.waiting.append((ends, action))
        self.look()

    def look(self):
        for ends, action in self.waiting:
            if self.read >= ends["edge"]:
                action()


class Case:
    """Deadlines on a broker, in a loop."""

    def __init__(self, timeout=TIMEOUT, patience=None):
        self.broker, self.loop, self.passed = Broker(), Loop(), []
        self.began = time.monotonic()
        self.deadlines = Deadlines(
            self.loop,
            FetchClock(time.monotonic),
            self.broker,
            ["edge"],
            timeout,
            self.has_passed,
            patience,
        )
        self.deadlines.watch(self.broker)

    def has_passed(self, round):
        self.passed.append((round, time.monotonic() - self.began))
        self.loop.stop()

    def run(self, seconds=20.0):
        """Work for that long, or until one passes; return the rounds whose deadline has passed so far."""
        self.loop._running = True
        self.loop.after(seconds, self.loop.stop)
        self.loop.run()
        return [round for round, _ in self.passed]


@pytest.fixture
def case():
    return Case()


def test_the_edge_is_read_to_its_end_after_the_deadline(case):
    case.deadlines.start(StartDeadline(7))
    assert case.run(2 * TIMEOUT) == []  # not read yet
    case.broker.read = 3
    case.broker.look()
    assert case.run() == [7]


def test_it_passes_when_all_is_read(case):
    case.broker.read = 3
    case.deadlines.start(StartDeadline(7))
    assert case.run() == [7]
    assert case.passed[0][1] >= TIMEOUT


def test_it_starts_when_the_own_release_is_acknowledged(case):
    case.broker.read = 3
    case.deadlines.sent()
    case.deadlines.sent()
    case.deadlines.acknowledged()
    case.deadlines.start(StartDeadline(7))
    assert case.run(4 * TIMEOUT) == []
    case.deadlines.acknowledged()
    case.began = time.monotonic()
    assert case.run() == [7]
    assert case.passed[0][1] >= TIMEOUT


def test_at_once_is_no_time_but_still_reads_to_the_end(case):
    case.deadlines.start(StartDeadline(7, at_once=True))
    assert len(case.broker.waiting) == 1


def test_while_the_broker_is_away_nothing_passes(case):
    case.broker.read, case.broker.away = 3, 2
    case.deadlines.start(StartDeadline(7))
    assert case.run() == [7]
    assert case.broker.away == 0
    assert case.passed[0][1] >= 3 * TIMEOUT  # each time it was away it began anew


def test_a_cancelled_or_replaced_deadline_does_not_pass(case):
    case.broker.read = 3
    case.deadlines.start(StartDeadline(7))
    case.deadlines.start(StartDeadline(8))
    case.deadlines.cancel()
    assert case.run(3 * TIMEOUT) == []


class Ended:
    """A patience that ends when the test says so."""

    ended, left = False, 0.0


def test_where_patience_has_ended_it_passes_but_still_reads_to_the_end():
    patience = Ended()
    case = Case(timeout=60, patience=patience)
    case.deadlines.start(StartDeadline(7))
    assert case.run(2 * TIMEOUT) == []
    patience.ended = True
    assert case.run(4 * TIMEOUT) == []
    assert len(case.broker.waiting) == 1
    case.broker.read = 3
    case.broker.look()
    assert case.run() == [7]


def test_where_patience_has_ended_the_own_release_is_still_awaited():
    patience = Ended()
    patience.ended = True
    case = Case(timeout=60, patience=patience)
    case.broker.read = 3
    case.deadlines.sent()
    case.deadlines.start(StartDeadline(7))
    assert case.run(4 * TIMEOUT) == []
    case.deadlines.acknowledged()
    assert case.run() == [7]


# A clock that stands still while nothing can be fetched


class Hand:
    """A clock that is set by hand."""

    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def test_it_goes_with_the_beats_and_stands_still_without():
    hand = Hand()
    clock = FetchClock(hand)
    for _ in range(5):
        hand.time += 1.0
        clock.beat()
    assert clock.now() == 5.0
    hand.time += 1.0
    assert clock.now() == 6.0
    assert clock.going
    hand.time += 60.0
    assert clock.now() == 5.0 + PATIENCE
    assert not clock.going
    clock.beat()
    assert clock.now() == 5.0 + PATIENCE
    assert clock.going


def test_an_outage_alone_makes_nobody_silent():
    hand = Hand()
    clock = FetchClock(hand, silence=0.6)
    hand.time += 60.0
    assert abs(clock.now() - 0.3) < 1e-9
    clock.beat()
    hand.time += 1.0
    assert abs(clock.now() - 0.6) < 1e-9
    assert clock.going  # who asks whether the broker is there hears of no hiccup


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), max_size=20))
def test_it_never_goes_back_nor_faster_than_time(steps):
    hand = Hand()
    clock, shown = FetchClock(hand), 0.0
    for seconds, beat in steps:
        hand.time += seconds
        now = clock.now()
        assert shown <= now <= shown + seconds + 1e-9
        if beat:
            clock.beat()
        assert abs(clock.now() - now) < 1e-9
        shown = clock.now()


# How long a node waits for a few neighbours that are slower than the others


class Node:
    """Waits for what the test says, for so long."""

    held = done = False

    def __init__(self, limit):
        self.now = 0.0
        self.patience = Patience(limit, lambda: self.now, self)

    def wait(self, seconds, *, held=False, done=False):
        self.held, self.done = held, done
        self.now += seconds
        self.patience.look()
        return self.patience.ended


@pytest.fixture
def node():
    return Node(1.0)


def test_it_ends_after_the_limit_and_only_for_who_is_waited_for(node):
    assert not node.wait(0.9, held=True)
    assert node.wait(0.2, held=True)
    node.held = False
    assert not node.patience.ended


def test_other_time_restores_it_up_to_the_limit(node):
    node.wait(5, held=True)
    node.wait(0.5)
    assert not node.wait(0.4, held=True)
    assert node.wait(0.2, held=True)
    node.wait(60)
    assert not node.wait(0.9, held=True)
    assert node.wait(0.2, held=True)


def test_who_waits_for_less_than_half_of_its_time_waits_each_time(node):
    for _ in range(100):
        assert not node.wait(0.4, held=True)
        node.wait(0.6)


def test_the_time_without_a_plan_restores_nothing(node):
    node.wait(5, held=True)
    node.wait(60, done=True)
    assert node.wait(0.01, held=True)
