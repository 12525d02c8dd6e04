"""Topics of a test's own on a real broker, and waiting for what a broker does in its own time."""

import itertools
import time
import uuid

from streams.bus.admin import Admin
from streams.bus.kafka import KafkaBus
from streams.bus.topic_specs import MIB, TopicSpec
from streams.mesh.settings.node import BrokerSettings

PATIENCE = 120.0
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


class KafkaSide:
    """The contract suite's view of Kafka: topics a and b, and processes that use them."""

    def __init__(self, address, largest):
        self._broker, self._largest = connection(address), largest
        self.a, self.b = fresh_topics(self._broker, "a", "b")
        self._readers = {}
        self._names = itertools.count()
        self.bus = self._process()

    def _process(self):
        return KafkaBus(self._broker, dict.fromkeys((self.a, self.b), self._largest))

    def settle(self):
        """Wait until every send is there and every reader has read it."""
        assert self.bus.flush(PATIENCE)
        for topic, reader in self._readers.values():
            end = self.bus.end(topic)
            until(lambda reader=reader, topic=topic, end=end: reader.position(topic) >= end)

    def subscribe(self, topic, offset, handler):
        """Read the topic from that offset on."""

        def failed(topic, error):
            raise AssertionError(f"{topic}: {error}")

        name = next(self._names)
        reader = self.bus.subscribe({topic: offset}, lambda _, at, value: handler(at, value), failed)
        self._readers[name] = (topic, reader)
        return name

    def cancel(self, name):
        """Stop that reader."""
        self._readers.pop(name)[1].close()

    def restart(self):
        """End the process, and start another one."""
        self.close()
        self.bus = self._process()

    def close(self):
        """End the process."""
        for name in list(self._readers):
            self.cancel(name)
        self.bus.close()
