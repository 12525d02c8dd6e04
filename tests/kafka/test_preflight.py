import threading

import pytest
from kafka import TopicPartition

from streams.bus.bus import Unreachable
from streams.bus.logs import wait_for
from streams.bus.preflight import Outside, PreflightFailed, preflight
from streams.bus.provision import Admin
from streams.bus.rights import Access
from tests.support.brokers.topics import PATIENCE, bus_of, connection, fresh_topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def at(broker):
    return connection(broker.address)


@pytest.fixture
def topics(at):
    return fresh_topics(at, "a", "b")


def access(*topics):
    return Access(topics, topics)


def test_all_that_is_right_passes(at, topics):
    assert preflight(at, Access((topics[0],), (topics[1],), ("a-group",)), {topics[0]: {0: 0}}) == ()


def test_every_missing_topic_is_a_line(at, topics):
    with pytest.raises(PreflightFailed) as failed:
        preflight(at, access(topics[0], "gone", "lost"), {})
    assert failed.value.lines == (
        f"{at.servers}: no topic gone: run mirrormesh provision",
        f"{at.servers}: no topic lost: run mirrormesh provision",
    )


def test_a_topic_of_several_partitions_must_be_allowed(at, topics):
    name = f"{topics[0]}-wide"
    with Admin(at) as admin:
        admin._client.create_topics({name: {"num_partitions": 2}}, wait_for_metadata=True)
    with pytest.raises(PreflightFailed, match=f"{name}: has 2 partitions: must have one"):
        preflight(at, access(name), {})
    found = preflight(at, access(name), {name: {0: 0, 1: 1, 2: 0, 3: 5}}, several=(name,))
    assert found == (Outside(name, 1, 1, 0, 0), Outside(name, 3, 5, 0, 0))


def test_positions_outside_their_logs_are_told(at, topics):
    bus = bus_of(at, *topics)
    for _ in range(3):
        bus.send(topics[0], b"x")
    assert bus.flush(PATIENCE)
    bus.close()
    with Admin(at) as admin:
        admin._client.delete_records({TopicPartition(topics[0], 0): 2})
    positions = {topics[0]: {0: 1}, topics[1]: {0: 1}}
    assert preflight(at, access(*topics), positions) == (
        Outside(topics[0], 0, 1, 2, 3),
        Outside(topics[1], 0, 1, 0, 0),
    )
    assert preflight(at, access(*topics), {topics[0]: {0: 2}, topics[1]: {0: 0}}) == ()


def test_a_broker_that_is_not_there_is_no_failure_of_ours(topics, monkeypatch):
    monkeypatch.setattr("streams.bus.preflight.PATIENCE", 0.5)
    with pytest.raises(Unreachable):
        preflight(connection("127.0.0.1:1"), access(topics[0]), {})


def test_waiting_ends_with_the_cluster_or_when_it_is_stopped(at, monkeypatch):
    monkeypatch.setattr("streams.bus.logs.PATIENCE", 0.3)
    with Admin(at) as admin:
        assert wait_for(at, threading.Event()) == admin.cluster
    stopped = threading.Event()
    threading.Timer(0.5, stopped.set).start()
    assert wait_for(connection("127.0.0.1:1"), stopped) is None
