"""Letters on a node's records, for the owner of the data alone: place and reason, never a value.

They go to the dead letters on the party's own broker, to which `feed` writes too. A batch that is stored
broken has a letter, {"topic": ..., "partition": 0, "offsets": [5, 9], "reason": ...}. Records that do not
decode have those of `streams.records.faults`.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from threading import Lock
from typing import Any

from confluent_kafka import KafkaException, Producer

from streams.bus.bus import BusError
from streams.bus.connection import LOGGER, producer_settings
from streams.bus.logs import Logs
from streams.live.data.broken import Broken
from streams.mesh.file import MeshFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.records.faults import FaultCounts, counts_of

_LARGEST = 1 << 16
"""Bytes of a letter."""
_SILENT = logging.getLogger("mirrormesh.letters")
_SILENT.disabled = True
_PARTING = 1.0
"""Seconds that the last letters have."""


class DataLetters:
    """Writes letters to a broker, without waiting for it; it connects with the first.

    `addresses`: the topic of the letters by that of the records. A letter may come twice.
    """

    def __init__(self, broker: BrokerSettings, addresses: dict[str, str]) -> None:
        self._broker, self._addresses = broker, addresses
        self._producer: Producer | None = None
        self._lock = Lock()

    def write(self, topic: str, partition: int, broken: Broken) -> None:
        """Send the letter of a broken batch."""
        letter = {"topic": topic, "partition": partition, "offsets": [broken.first, broken.last]}
        if not self.send(topic, letter | {"reason": f"stored broken: {broken.error}"}):
            LOGGER.warning("%s: no dead letter could be written", topic)

    def send(self, topic: str, letter: Mapping[str, Any]) -> bool:
        """Send a letter on a topic of records; return whether it is on its way. From any thread.

        Nothing is logged, by the client neither: that there is a letter tells something of a record.
        """
        value = json.dumps(letter).encode()
        try:
            with self._lock:
                if self._producer is None:
                    self._producer = Producer(self._settings(), logger=_SILENT)
                producer = self._producer
            producer.produce(self._addresses[topic], value)
            producer.poll(0)
        except (BufferError, KafkaException):  # the records count all the same
            return False
        return True

    def _settings(self) -> dict[str, Any]:
        # a producer that prevents doubles asks the broker for a number first
        return producer_settings(self._broker, _LARGEST) | {"enable.idempotence": False, "log_level": 0}

    def close(self) -> None:
        """Give what is on its way a moment."""
        if self._producer is not None:
            self._producer.flush(_PARTING)
            self._producer.purge()
            self._producer = None


def unread_records(file: MeshFile, names: Iterable[str]) -> dict[str, FaultCounts]:
    """Return the counts of this run by node; without the nodes whose letters cannot be read now.

    Their own parts must be here.
    """
    counts: dict[str, FaultCounts] = {}
    nodes_by_broker: dict[BrokerSettings, list[str]] = {}
    for name in names:
        nodes_by_broker.setdefault(file.brokers(name).data, []).append(name)
    for broker, nodes in nodes_by_broker.items():
        with closing(Logs(broker)) as logs:
            for name in nodes:
                topic = file.data_topics(name).dead_letters
                try:
                    logs.partitions([topic])  # faster than a span if nobody answers
                    letters = logs.stored({topic: logs.span(topic)[0]})[topic]
                except BusError:
                    continue
                counts[name] = counts_of((letter.value for letter in letters), file.mesh.run)
    return counts
