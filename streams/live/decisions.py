"""Each round's decision, on the party's own data broker: what its application acts on."""

import json
import logging

from nodes.events import Decided
from streams.bus import BusError
from streams.kafka.bus import KafkaBus

LOGGER = logging.getLogger("mirrormesh.node")


class Decisions:
    """Writes decisions to `topic`: JSON with run, round and x, public values all. At least once, in order.

    A broker that takes none stops nothing: what does not fit the producer's queue is dropped, and said.
    """

    def __init__(self, bus: KafkaBus, topic: str, run: str) -> None:
        self._bus, self._topic, self._run = bus, topic, run

    def write(self, decided: Decided) -> None:
        """Write one decision."""
        value = {"run": self._run, "round": decided.round, "x": decided.decision.tolist()}
        try:
            self._bus.send(self._topic, json.dumps(value).encode())
            self._bus.serve()
        except BusError as error:
            LOGGER.warning("a decision was not written: %s", error)
