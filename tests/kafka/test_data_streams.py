"""Several nodes' records through one Faust app: each at its own pace, and commits in its own group."""

import pytest

from nodes.machine.slots import CountSlots
from streams.live.data.stream import DataStream
from streams.live.data.streams import DataStreams
from tests.kafka.test_data_stream import committed
from tests.support.brokers.data_streams import DataTopic, Live, Numbers, numbers, running
from tests.support.brokers.topics import connection, until

pytestmark = pytest.mark.kafka

MANY = 40
"""Nodes of one process: a client that asks for each topic's leader by itself would take seconds."""


def test_one_that_takes_nothing_holds_up_no_other_and_each_group_has_its_offsets(broker, tmp_path):
    full, other, *_ = topics = [DataTopic(broker.address) for _ in range(MANY)]
    full.count_up(3000)
    nodes = [DataStream(topic.topics, "r", lambda: CountSlots(1), Numbers(), None) for topic in topics]
    streams = DataStreams(connection(broker.address), nodes, state=tmp_path, web=None)
    lives = [Live(node, streams) for node in nodes]
    with running(lives, dict.fromkeys((node.node for node in nodes), ())):
        until(lambda: lives[0].lag not in {None, 3000})  # it has read ahead, and waits
        other.count_up(3)
        assert lives[1].take(3)[0] == [0.0, 1.0, 2.0]
        assert lives[0].take(2)[0] == [0.0, 1.0]
        lives[0].stream.end()  # its node has ended: what it holds holds up nobody
        other.count_up(4, first=3)
        assert numbers(lives[1].slot(4, ((0, 3),))) == [3.0]
        until(lambda: committed(other) == ([4], []))
    assert lives[0].failed is None
