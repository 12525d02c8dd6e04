"""Topics of a test's own on a real broker, and waiting for what a broker does in its own time."""

import time
import uuid

from streams.bus.kafka import KafkaBus
from streams.bus.provision import Admin
from streams.bus.topic_specs import MIB, TopicSpec
from streams.mesh.settings.brokers import BrokerSettings

PATIENCE = 300.0
"""Seconds after which a test gives up waiting: a busy machine is no failure."""


def connection(address):
    """The settings of a broker without passwords."""
    return BrokerSettings(servers=address)


def fresh_topics(broker, *kinds):
    """Topics that no other test knows, one a kind."""
    mark = uuid.uuid4().hex[:12]
    specs = [TopicSpec(f"test-{mark}.{kind}", kind, MIB) for kind in kinds]
    with Admin(broker) as admin:
        admin.create(specs)
    return [spec.name for spec in specs]


def bus_of(broker, *topics):
    """A bus that knows these topics."""
    return KafkaBus(broker, dict.fromkeys(topics, 2**20))


def until(condition, seconds=PATIENCE):
    """Wait for it to be true; fail when it is not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
