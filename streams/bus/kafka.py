"""The bus on Apache Kafka, with some further requests of live processes.

Threads: call `send` from any. Acknowledgements, records and failures come in the reader's thread, or in calls
of `flush`. Requests (`span`, `end`, `read`, `stored`) block for up to three seconds, then raise Unreachable.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from streams.bus.bus import Bus, BusError, FailureHandler, RecordHandler, Stored, TooLarge, UnknownTopic
from streams.bus.logs import Logs
from streams.bus.reader import KafkaReader
from streams.bus.sender import PacedSender, Sender
from streams.mesh.settings.brokers import BrokerSettings


class KafkaBus(Bus):
    """Topics of one partition on one broker. Close it when done.

    Raises UnknownTopic or Denied for the first of `topics` that is missing, Unreachable if the broker is.
    Create it half a second before the first send, which otherwise waits that long for the producer's id.

    Parameters
    ----------
    broker : BrokerSettings
        How to reach it.
    topics : mapping of str to int
        All topics to send to or subscribe to, each with the bytes of its longest value (TopicSpec.largest).
    paced : bool
        Whether records wait for each other while they are many (PacedSender).
    """

    def __init__(self, broker: BrokerSettings, topics: Mapping[str, int], *, paced: bool = False) -> None:
        self._broker, self._topics = broker, dict(topics)
        self._largest = max(self._topics.values(), default=0)
        self._logs = Logs(broker, self._largest)
        try:
            self._logs.partitions(self._topics)
        except BusError:
            self._logs.close()
            raise
        self._sender = PacedSender.of(broker, self._largest) if paced else Sender(broker, self._largest)

    def send(
        self,
        topic: str,
        value: bytes,
        acknowledged: Callable[[], None] | None = None,
        key: bytes | None = None,
    ) -> None:
        """Append `value`, repeated until the broker has it, without waiting. Then call `acknowledged`.

        Order holds within a topic, except for records refused at first. Raises UnknownTopic, TooLarge.
        """
        largest = self.largest(topic)
        if len(value) > largest:
            raise TooLarge(f"{len(value)} bytes for {topic}: at most {largest} are allowed")
        self._sender.send(topic, value, acknowledged, key)

    def largest(self, topic: str) -> int:
        """Return the bytes of the longest value that the topic takes. Raises UnknownTopic."""
        self._check(topic)
        return self._topics[topic]

    @property
    def waiting(self) -> int:
        """The number of records sent and not yet acknowledged."""
        return self._sender.waiting

    def serve(self) -> None:
        """Handle the available acknowledgements, for a bus without a reader."""
        self._sender.serve()

    def flush(self, seconds: float) -> bool:
        """Wait up to `seconds` until all sends are acknowledged, and return whether they are."""
        return self._sender.flush(seconds)

    def span(self, topic: str) -> tuple[int, int]:
        """Return the log's first offset, and that of its next record; of any topic of the broker."""
        return self._logs.span(topic)

    def ends(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the offset of each topic's next record.

        Raises Unreachable after half a second without an answer, or another error of the broker.
        """
        return {topic: self._logs.end(topic) for topic in topics}

    def stored(self, offsets: Mapping[str, int]) -> dict[str, list[Stored]]:
        """Return each topic's records from its offset to the end; of any topics of the broker."""
        return self._logs.stored(offsets)

    def subscribe(
        self,
        offsets: Mapping[str, int],
        record: RecordHandler,
        failed: FailureHandler,
        *,
        lossy: Collection[str] = (),
    ) -> KafkaReader:
        """Read these topics from now on (see KafkaReader). Close the reader before the bus."""
        for topic in offsets:
            self._check(topic)
        serve, largest = self._sender.serve, self._largest
        return KafkaReader(self._broker, offsets, record, failed, serve, largest=largest, lossy=lossy)

    def close(self) -> None:
        """Disconnect. Records not acknowledged may be lost: call `flush` before."""
        self._sender.close()
        self._logs.close()

    def _check(self, topic: str) -> None:
        if topic not in self._topics:
            raise UnknownTopic(f"no topic {topic}")
