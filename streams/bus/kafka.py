"""The bus on Apache Kafka, and what else a live process needs of its broker.

Threads: `send` from any; acknowledgements, records and failures come in the reader's thread, or where `flush`
is called. Questions (`span`, `end`, `read`, `stored`) block for up to three seconds, then raise Unreachable.
"""

from collections.abc import Callable, Iterable, Mapping

from streams.bus.bus import Bus, BusError, FailureHandler, RecordHandler, Stored, TooLarge, UnknownTopic
from streams.bus.logs import Logs
from streams.bus.reader import KafkaReader
from streams.bus.sender import Sender
from streams.mesh.settings.node import BrokerSettings


class KafkaBus(Bus):
    """Topics of one partition on one broker. Close it when done.

    Raises UnknownTopic, Denied for the first of `topics` that is not there, Unreachable where the broker is
    not. Create it half a second before the first send: that one waits so long for the producer's id.

    Parameters
    ----------
    broker : BrokerSettings
        How to reach it.
    topics : mapping of str to int
        All that will be sent to or read, each with the bytes of the longest value that it takes
        (TopicSpec.largest).
    """

    def __init__(self, broker: BrokerSettings, topics: Mapping[str, int]) -> None:
        self._broker, self._topics = broker, dict(topics)
        self._logs = Logs(broker)
        try:
            self._logs.partitions(self._topics)
        except BusError:
            self._logs.close()
            raise
        self._sender = Sender(broker, max(self._topics.values(), default=0))

    def send(
        self,
        topic: str,
        value: bytes,
        acknowledged: Callable[[], None] | None = None,
        key: bytes | None = None,
    ) -> None:
        """Append `value`, sent again until the broker has it; waits for nothing. Then do `acknowledged`.

        Order holds within a topic, but for what the broker refuses at first. Raises UnknownTopic, TooLarge.
        """
        self._check(topic)
        largest = self._topics[topic]
        if len(value) > largest:
            raise TooLarge(f"{len(value)} bytes for {topic}: at most {largest} are allowed")
        self._sender.send(topic, value, acknowledged, key)

    @property
    def waiting(self) -> int:
        """Records that were sent, and are not acknowledged yet."""
        return self._sender.waiting

    def serve(self) -> None:
        """Take the acknowledgements that are there: for a bus without a reader."""
        self._sender.serve()

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until every send is acknowledged, and return whether it is."""
        return self._sender.flush(seconds)

    def span(self, topic: str) -> tuple[int, int]:
        """Return the offset where the log begins, and the one that its next record will have."""
        self._check(topic)
        return self._logs.span(topic)

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the offset that each topic's next record will have.

        Raises Unreachable after half a second without an answer, or whatever else keeps one away.
        """
        return {topic: self._logs.end(topic) for topic in topics}

    def stored(self, offsets: Mapping[str, int]) -> dict[str, list[Stored]]:
        """Return each topic's records, with their offsets, from the one given to the end."""
        for topic in offsets:
            self._check(topic)
        return self._logs.stored(offsets)

    def subscribe(
        self, offsets: Mapping[str, int], record: RecordHandler, failed: FailureHandler
    ) -> KafkaReader:
        """Read these topics from now on (see KafkaReader). Close the reader before the bus."""
        for topic in offsets:
            self._check(topic)
        return KafkaReader(self._broker, offsets, record, failed, self._sender.serve)

    def close(self) -> None:
        """Let go of the broker. What is not acknowledged may or may not be in its log: `flush` before."""
        self._sender.close()
        self._logs.close()

    def _check(self, topic: str) -> None:
        if topic not in self._topics:
            raise UnknownTopic(f"no topic {topic}")
