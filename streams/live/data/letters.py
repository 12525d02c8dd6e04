"""Dead letters of stored records that are broken: their topic and offsets, for the owner of the data alone.

{"topic": ..., "partition": 0, "offsets": [5, 9], "reason": ...}, in the topic of those that could not be fed
"""

import json
from typing import Any

from confluent_kafka import KafkaException, Producer

from streams.bus.connection import LOGGER, producer_settings
from streams.live.data.broken import Broken
from streams.mesh.settings.brokers import BrokerSettings

_LARGEST = 2_000
"""Bytes of a letter."""
_PARTING = 1.0
"""Seconds that the last letters have."""


class BrokenLetters:
    """Writes letters to a broker, without waiting for it; it connects with the first.

    `addresses`: the topic of the letters by that of the records. A letter may come twice.
    """

    def __init__(self, broker: BrokerSettings, addresses: dict[str, str]) -> None:
        self._broker, self._addresses = broker, addresses
        self._producer: Producer | None = None

    def write(self, topic: str, partition: int, broken: Broken) -> None:
        """Send the letter of a broken batch."""
        letter = {"topic": topic, "partition": partition, "offsets": [broken.first, broken.last]}
        value = json.dumps(letter | {"reason": f"stored broken: {broken.error}"}).encode()
        try:
            if self._producer is None:
                self._producer = Producer(self._settings(), logger=LOGGER)
            self._producer.produce(self._addresses[topic], value)
            self._producer.poll(0)
        except (BufferError, KafkaException):  # the records count all the same
            LOGGER.warning("%s: no dead letter could be written", topic)

    def _settings(self) -> dict[str, Any]:
        # a producer that prevents doubles asks the broker for a number first
        return producer_settings(self._broker, _LARGEST) | {"enable.idempotence": False}

    def close(self) -> None:
        """Give what is on its way a moment."""
        if self._producer is not None:
            self._producer.flush(_PARTING)
            self._producer.purge()
            self._producer = None
