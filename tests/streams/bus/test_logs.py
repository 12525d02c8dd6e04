"""Reaching a broker that is slow: a command waits while somebody listens, and not otherwise."""

import socket
from bisect import bisect_right
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.bus import logs
from streams.bus.bus import Unreachable
from streams.bus.diagnosis import SILENT
from streams.bus.logs import Gap
from streams.mesh.settings.brokers import BrokerSettings


@pytest.fixture
def attempts(monkeypatch):
    """Answer the third time; before, say in turn what is wrong."""
    told = []

    def made(*words):
        def reach(broker):
            told.append(broker)
            if len(told) <= len(words):
                raise Unreachable(f"{broker.servers}: {words[len(told) - 1]}")
            return "cluster"

        monkeypatch.setattr(logs, "reach", reach)
        return told

    return made


@pytest.fixture
def somebody():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield BrokerSettings(servers=f"127.0.0.1:{listening.getsockname()[1]}")


def test_a_broker_that_listens_and_is_slow_is_asked_again(attempts, somebody):
    told = attempts(SILENT, SILENT)
    assert logs.reach_busy(somebody) == "cluster"
    assert len(told) == 3


def test_it_is_not_asked_for_ever(attempts, somebody, monkeypatch):
    monkeypatch.setattr(logs, "LONG", -1.0)
    attempts(SILENT)
    with pytest.raises(Unreachable, match=SILENT):
        logs.reach_busy(somebody)


def test_where_nobody_listens_or_somebody_else_does_it_is_said_at_once(attempts, somebody):
    nobody = BrokerSettings(servers="127.0.0.1:1")
    for broker, words in ((nobody, SILENT), (somebody, "speaks HTTP: it is no Kafka broker")):
        told = attempts(words)
        with pytest.raises(Unreachable, match=words):
            logs.reach_busy(broker)
        assert len(told) == 1
        told.clear()


# The way around offsets that cannot be read: exact, and short


SIZES = st.lists(st.tuples(st.integers(1, 10**5), st.booleans()), min_size=1, max_size=8)


@given(first=st.integers(0, 10**9), sizes=SIZES)
def test_it_ends_with_the_first_offset_behind_the_batch_and_asks_for_few(first, sizes):
    """A log of batches of these sizes, readable or not; the first one is not."""
    starts = [first]
    for size, _ in sizes:
        starts.append(starts[-1] + size)
    bad = [True, *(unreadable for _, unreadable in sizes[1:])]
    gap, asked, over = Gap(first, first), 0, False
    while not over:
        asked += 1
        place = bisect_right(starts, gap.asked) - 1
        over = gap.unreadable(starts[place]) if place < len(bad) and bad[place] else gap.readable()
    assert gap.asked == starts[1]
    assert asked <= 2 * log2(sizes[0][0]) + 3


def test_a_record_alone_is_passed_at_once():
    gap = Gap(7, 7)
    assert (gap.asked, gap.readable()) == (8, True)


def test_the_rest_of_a_batch_is_a_gap_too():
    gap = Gap(7, 3)
    assert not gap.unreadable(3)
    assert gap.asked == 10


def test_offsets_without_a_record_before_another_bad_batch_are_behind_the_gap():
    gap = Gap(7, 7)
    assert (gap.unreadable(12), gap.asked) == (True, 8)


def test_a_log_that_changes_while_it_is_asked_ends_all_the_same():
    gap = Gap(0, 0)
    gap.unreadable(0)
    assert not gap.readable()  # 3 is behind it, and 2 is asked for
    for _ in range(5):
        gap.unreadable(0)  # and now nothing is as it was
    assert gap.asked > 3
    while not gap.readable():
        pass
