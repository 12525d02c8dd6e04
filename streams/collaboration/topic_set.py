"""An owner's set of records that is a topic of its own broker: up to the ends that the first answer fixed."""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.bus.bus import OffsetOutOfRange, Unreachable
from streams.bus.connection import PATIENCE, consumer_settings
from streams.bus.errors import bus_error
from streams.bus.logs import SOON, Logs
from streams.codec.topics import DataTopics
from streams.mesh.file import CollaborationFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.node import FileSettings
from streams.records.passes import Passes
from streams.records.schema_files import file_decoder
from streams.records.sparse import LibsvmDecoder

Extent = tuple[tuple[str, int], ...]
_BATCH = 4096


class TopicSet:
    """The committed records of a topic, partition after partition.

    `fixed`: where they end; None: where they end now.
    """

    def __init__(self, broker: BrokerSettings, topic: str, fixed: Extent | None) -> None:
        self._broker, self._topic, self._fixed = broker, topic, fixed

    def extent(self) -> Extent:
        """Return the end of each partition. Raises BusError."""
        if self._fixed is None:
            logs = Logs(self._broker, committed=True)
            try:
                count = logs.partitions([self._topic])[self._topic]
                self._fixed = tuple(
                    (_name(partition), logs.span(self._topic, partition)[1]) for partition in range(count)
                )
            finally:
                logs.close()
        return self._fixed

    def values(self) -> Iterator[bytes]:
        """Yield all records in order. Raises BusError; OffsetOutOfRange if a log does not reach its end."""
        consumer = Consumer(consumer_settings(self._broker, committed=True) | {"log_level": 0})
        try:
            for partition, (_, end) in enumerate(self.extent()):
                yield from self._partition(consumer, partition, end)
        except KafkaException as error:
            raise bus_error(error.args[0], self._topic) from None
        finally:
            consumer.close()

    def _partition(self, consumer: Consumer, partition: int, end: int) -> Iterator[bytes]:
        place = TopicPartition(self._topic, partition)
        first, last = consumer.get_watermark_offsets(place, PATIENCE)
        if last < end:
            raise OffsetOutOfRange(self._topic, f"it ends at {last}, and the set at {end}: it was made anew")
        consumer.assign([TopicPartition(self._topic, partition, first)])
        position, until = first, time.monotonic() + PATIENCE
        while position < end:
            # it waits for that many, which there are not where offsets have no record
            messages = consumer.consume(min(_BATCH, end - position), SOON)
            if messages:
                until = time.monotonic() + PATIENCE
            elif time.monotonic() > until:
                raise Unreachable(f"{self._topic} cannot be read to its end")
            for message in messages:
                error, offset = message.error(), message.offset()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 # librdkafka's names of local errors
                    raise bus_error(error, self._topic)
                if error is None and offset is not None and offset < end:
                    yield message.value() or b""
                position = end if error is not None else (offset or 0) + 1


def topic_passes(file: CollaborationFile, owner: str, fixed: Extent | None) -> Passes:
    """Return the passes over the topic of an owner's own broker. Raises MeshFileError."""
    source, topic = file.own(owner).source, DataTopics(owner).records
    if isinstance(source, FileSettings):
        decoder = file_decoder(file, source, ("owners", owner, "source"))
        topic_set = TopicSet(file.brokers(owner).data, topic, fixed)
        return Passes(file, owner, decoder, topic_set.values, topic_set.extent)
    if source is None:
        raise file.refuse(("owners", owner, "source"), "missing: must be given to run the owner here")
    topic_set = TopicSet(file.brokers(owner).data, topic, fixed)
    return Passes(file, owner, LibsvmDecoder(source, file.dimension), topic_set.values, topic_set.extent)


def _name(partition: int) -> str:
    return f"partition {partition}"
