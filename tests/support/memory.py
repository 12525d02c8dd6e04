"""The contract suite's view of the memory bus: topics a and b, and processes that use them."""

from streams.bus.memory import MemoryBus


class MemorySide:
    """As tests/support/kafka.py's KafkaSide."""

    def __init__(self, faults, largest):
        self.a, self.b = "a", "b"
        self.bus = MemoryBus([self.a, self.b], faults, largest=largest)
        self._readers = []

    def settle(self):
        """Deliver all there is to deliver."""
        self.bus.run()

    def subscribe(self, topic, offset, handler):
        """Read the topic from that offset on."""
        reader = self.bus.subscribe(topic, offset, handler)
        self._readers.append(reader)
        return reader

    def cancel(self, reader):
        """Stop that reader."""
        self._readers.remove(reader)
        self.bus.cancel(reader)

    def restart(self):
        """End the process: the bus outlives it."""
        self.close()

    def close(self):
        """End the process."""
        for reader in list(self._readers):
            self.cancel(reader)
