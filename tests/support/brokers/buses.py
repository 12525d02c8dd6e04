"""What the contract suite needs of a bus beside the bus: topics, waiting, and processes that end."""

from streams.bus.kafka import KafkaBus
from streams.bus.memory import MemoryBroker, MemoryBus
from tests.support.brokers.topics import PATIENCE, connection, fresh_topics, until


class Side:
    """Topics a and b, and one process's bus after the other. `wait` lets things happen until it is true."""

    def __init__(self, a, b, connect, wait):
        self.a, self.b, self._connect, self._wait = a, b, connect, wait
        self.bus, self._readers = connect(), []

    def subscribe(self, offsets, record, failed=None):
        """Read the topics until the process ends; what fails fails the test, unless `failed` takes it."""

        def fail(topic, error):
            raise AssertionError(f"{topic}: {error}")

        self._readers.append((self.bus.subscribe(offsets, record, failed or fail), tuple(offsets)))
        return self._readers[-1][0]

    def settle(self, *but):
        """Wait until every send is there, and every reader but these has read it."""
        assert self.bus.flush(PATIENCE)
        read = []
        asked = [(reader, topics) for reader, topics in self._readers if reader not in but]
        for reader, topics in asked:
            reader.when_read({topic: self.bus.end(topic) for topic in topics}, lambda: read.append(1))
        self.until(lambda: len(read) == len(asked))

    def until(self, condition):
        """Let things happen until it is true."""
        self._wait(condition)

    def cancel(self, reader):
        """Stop that reader."""
        self._readers = [entry for entry in self._readers if entry[0] is not reader]
        reader.close()

    def restart(self):
        """End the process, and start another one."""
        self.close()
        self.bus = self._connect()

    def close(self):
        """End the process."""
        for reader, _ in self._readers:
            reader.close()
        self._readers = []
        self.bus.close()


def kafka_side(address, largest):
    """On a real broker."""
    broker = connection(address)
    a, b = fresh_topics(broker, "a", "b")
    return Side(a, b, lambda: KafkaBus(broker, dict.fromkeys((a, b), largest)), until)


def memory_side(faults, largest):
    """In memory."""
    broker = MemoryBroker(["a", "b"], faults, largest)

    def wait(condition):
        broker.run()
        assert condition(), "waited in vain"

    return Side("a", "b", lambda: MemoryBus(broker), wait)
