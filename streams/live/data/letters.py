"""Letters about a node's records, for the owner of the data alone. They have place and reason, never a value.

The letters go to the dead-letter topic on the party's own broker, to which `feed` writes too. The letter of a
batch that is stored broken is {"topic": ..., "partition": 0, "offsets": [5, 9], "reason": ...}. Letters on
records that do not decode come from `streams.records.faults`.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from threading import Lock
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from streams.bus.bus import BusError
from streams.bus.connection import LOGGER, producer_settings
from streams.bus.logs import Logs
from streams.live.data.broken import Broken
from streams.log_events import LogEvent
from streams.mesh.errors import check_type, check_word, refused
from streams.mesh.file import MeshFile
from streams.mesh.settings.brokers import BrokerSettings
from streams.records.faults import FaultCounts, counts_of

_LARGEST = 1 << 16
"""Bytes of a letter."""
_SILENT = logging.getLogger("mirrormesh.letters")
_SILENT.disabled = True
_PARTING, _CONNECTING = 1.0, 5.0
"""Seconds to send the last letters: if no broker answers, and at most, as a busy broker is slow to
connect."""


class DataLetters:
    """Writes letters to a broker, without waiting for it. The first letter opens the connection.

    `addresses`: the topic of the letters by that of the records. A letter may be written twice.
    """

    def __init__(self, broker: BrokerSettings, addresses: dict[str, str]) -> None:
        self._broker, self._addresses = broker, addresses
        self._producer: Producer | None = None
        self._is_away = False
        self._lock = Lock()

    def write(self, topic: str, partition: int, broken: Broken) -> None:
        """Send the letter of a broken batch."""
        letter = {"topic": topic, "partition": partition, "offsets": [broken.first, broken.last]}
        if not self.send(topic, letter | {"reason": f"stored broken: {broken.error}"}):
            LOGGER.warning("%s: no dead letter could be written", topic, extra=LogEvent.OUTPUT_LOST.of())

    def send(self, topic: str, letter: Mapping[str, Any]) -> bool:
        """Send a letter on a topic of records; return whether it is on its way. From any thread.

        Neither this class nor the client logs anything, as the existence of a letter reveals something of a
        record.
        """
        value = json.dumps(letter).encode()
        try:
            with self._lock:
                if self._producer is None:
                    self._producer = Producer(self._settings(), logger=_SILENT)
                producer = self._producer
            producer.produce(self._addresses[topic], value, on_delivery=self._note_delivery)
            producer.poll(0)
        except (BufferError, KafkaException):  # the records are counted all the same
            return False
        return True

    def _settings(self) -> dict[str, Any]:
        # a producer that prevents duplicates would first ask the broker for a number
        quiet = {"enable.idempotence": False, "log_level": 0, "error_cb": self._note_error}
        return producer_settings(self._broker, _LARGEST) | quiet

    def _note_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 # librdkafka's name
            self._is_away = True  # until the producer accepts a letter

    def _note_delivery(self, error: KafkaError | None, _: object) -> None:
        self._is_away = self._is_away and error is not None

    def close(self) -> None:
        """Wait for letters that are on their way; wait longer while a broker may still be connecting."""
        if self._producer is not None:
            until = time.monotonic() + _CONNECTING
            while self._producer.flush(_PARTING) and not self._is_away and time.monotonic() < until:
                pass
            self._producer.purge()
            self._producer = None


def _names(names: Iterable[str]) -> Iterable[str]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise refused("names", names, "must be names of nodes, as a list")
    return names


def unread_records(file: MeshFile, names: Iterable[str] | None = None) -> dict[str, FaultCounts]:
    """Return what nodes could not read in this run, by node; without those whose letters cannot be read now.

    For the owner of the records alone. Own parts of the nodes must be here; `names` None: all that are.
    Raises UsageError for a wrong argument.
    """
    check_type("file", file, MeshFile, "must be what mirrormesh.load returns")
    node_names = list(file.nodes) if names is None else list(_names(names))
    for name in node_names:
        check_word("names", name, file.nodes)
    counts: dict[str, FaultCounts] = {}
    nodes_by_broker: dict[BrokerSettings, list[str]] = {}
    for name in node_names:
        nodes_by_broker.setdefault(file.brokers(name).data, []).append(name)
    for broker, nodes in nodes_by_broker.items():
        with closing(Logs(broker)) as logs:
            for name in nodes:
                topic = file.data_topics(name).dead_letters
                try:
                    logs.partitions([topic])  # this fails faster than a span if no broker answers
                    letters = logs.stored({topic: logs.span(topic)[0]})[topic]
                except BusError:
                    continue
                counts[name] = counts_of((letter.value for letter in letters), file.mesh.run)
    return counts
