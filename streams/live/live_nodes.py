"""Runs the nodes of a process on a broker: one loop, one reader, one bus; each node ends for itself."""

from collections import defaultdict
from collections.abc import Callable, Sequence

from streams.bus.bus import BusError
from streams.bus.kafka import KafkaBus
from streams.bus.reader import KafkaReader
from streams.live.live_node import LiveNode
from streams.runtime.liveness import Pulse
from streams.runtime.turns import Loop

LAST_BEAT = 1.0
"""Longest wait for the last heartbeats' acknowledgement, in seconds."""


class LiveNodes:
    """Runs the nodes whose loop is `loop` until it is stopped."""

    def __init__(self, nodes: Sequence[LiveNode], bus: KafkaBus, loop: Loop) -> None:
        self._nodes, self._bus, self._loop = tuple(nodes), bus, loop
        self._reader: KafkaReader | None = None
        self._hearers: defaultdict[str, list[tuple[int, LiveNode]]] = defaultdict(list)
        for node in self._nodes:
            for topic, offset in node.offsets.items():
                self._hearers[topic].append((offset, node))

    @property
    def pulse(self) -> Pulse:
        """The loop's signs of life."""
        return self._loop.pulse

    @property
    def reading(self) -> bool:
        """Whether the reader's thread is there, or not needed. From any thread."""
        reader = self._reader
        return reader is None or reader.alive

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Do `action` every `seconds` in the loop. Call it before `run`."""
        self._loop.every(seconds, action)

    def stop(self) -> None:
        """End `run` after the current transition. From any thread."""
        self._loop.stop()

    def run(self) -> None:
        """Work until `stop`."""
        offsets = {topic: min(offset for offset, _ in hearers) for topic, hearers in self._hearers.items()}
        lossy = {topic for node in self._nodes for topic in node.lossy}
        self._reader = reader = self._bus.subscribe(offsets, self._read, self._reading_failed, lossy=lossy)
        try:
            for node in self._nodes:
                node.begin(reader)
            self._loop.run()
            for node in self._nodes:
                node.leave()
            self._bus.flush(LAST_BEAT)
        finally:
            self._loop.stop()  # the reader may wait for it to begin
            self._reader = None
            reader.close()
            self._loop.pulse.rest()

    def _read(self, topic: str, offset: int, value: bytes, appended: float) -> None:
        for first, node in self._hearers[topic]:
            if offset >= first:
                node.read(topic, offset, value, appended)

    def _reading_failed(self, topic: str, error: BusError) -> None:
        hearers = self._hearers.get(topic)
        for node in self._nodes if hearers is None else [node for _, node in hearers]:
            node.reading_failed(topic, error)
