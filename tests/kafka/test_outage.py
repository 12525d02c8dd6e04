"""The broker dies under the bus: late is allowed, lost, doubled or out of order is not."""

import os
import signal
import threading
import time

import pytest

from streams.bus.bus import Unreachable
from streams.bus.logs import wait_for
from streams.tools.broker.broker import start
from tests.support.brokers.topics import PATIENCE, bus_of, connection, fresh_topics, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_killed_broker_delays_records_and_loses_and_doubles_none(new_broker):
    broker = new_broker()
    at = connection(broker.address)
    (topic,) = fresh_topics(at, "a")
    bus = bus_of(at, topic)
    seen, acknowledged, failures = [], [], []
    reader = bus.subscribe(
        {topic: 0}, lambda _, *record: seen.append(record[:2]), lambda *failure: failures.append(failure)
    )
    values = [bytes([k]) for k in range(200)]

    def send(some):
        for value in some:
            bus.send(topic, value, lambda value=value: acknowledged.append(value))
            time.sleep(0.005)

    send(values[:100])
    os.kill(broker.pid, signal.SIGKILL)
    send(values[100:150])  # taken all the same
    with pytest.raises(Unreachable):
        bus.end(topic)
    start(broker.folder, broker.port)
    assert wait_for(at, threading.Event()) is not None
    send(values[150:])
    assert bus.flush(PATIENCE)
    until(lambda: len(seen) >= 200)
    assert list(bus.read(topic, 0)) == values
    assert sorted(acknowledged) == values  # in two threads: the reader's, and that of `flush`
    assert seen == list(enumerate(values))
    assert failures == []
    reader.close()
    bus.close()
