"""A broker in memory that delays, repeats and forgets."""

import heapq
from collections.abc import Callable, Iterable
from typing import Protocol

from streams.bus.memory import Action, Faults, Log, MemoryBroker, MemoryReader
from streams.simulation.link import Link

BEYOND = 1 << 40
"""An offset that no log reaches: a reader there learns that its records are gone."""


class Observer(Protocol):
    """Watches a broker."""

    def happens(self) -> None:
        """Announce the next event; faults begin here."""

    def appended(self, topic: str, value: bytes) -> None:
        """Handle a new record."""


class FaultyBroker(MemoryBroker):
    """A broker whose faults change while it runs. `survives` says of a dead process's send if it arrives."""

    def __init__(
        self, topics: Iterable[str], faults: Faults | None, observer: Observer, survives: Callable[[], bool]
    ) -> None:
        super().__init__(topics, faults)
        self.latency: dict[str, float] = {}
        self.survives = survives
        self.links: dict[MemoryReader, Link] = {}
        self._observer = observer

    def deliver(self) -> bool:
        """Do the next event. Return false if there is none."""
        self._observer.happens()
        return super().deliver()

    def append(self, log: Log, value: bytes, key: bytes) -> None:
        """Append a record and schedule its deliveries."""
        super().append(log, value, key)
        self._observer.appended(log.topic, value)

    def at(self, time: float, action: Action) -> None:
        """Do `action` at that virtual time."""
        self._timers_set += 1
        heapq.heappush(self._timers, (time, self._timers_set, action))

    def write(self, topic: str, value: bytes) -> None:
        """Append a forger's record, of any size."""
        self.append(self.logs[topic], value, b"")

    def calm(self) -> None:
        """Deliver everything once, without delay and in order."""
        self.latency, self._chance = {}, None

    def forget(self, topic: str, count: int) -> int:
        """Lose the last records of a topic, although acknowledged; return how many.

        A reader beyond the new end learns it, as a client does from the log's epochs.
        """
        log = self.logs[topic]
        count = min(count, len(log.records))
        del log.records[len(log.records) - count :]
        end = log.span[1]
        for reader in tuple(log.readers):
            if reader.positions[topic] > end:
                reader.positions[topic] = BEYOND
                self._pending.append((reader, log))
        return count

    def resume(self, reader: MemoryReader, topics: Iterable[str]) -> None:
        """Schedule again what a deaf reader has missed."""
        for topic in topics:
            log, position = self.logs[topic], reader.positions[topic]
            left = log.span[1] - position
            self._pending.extend([(reader, log)] * (left if left >= 0 else 1))

    def _hand_over(self, reader: MemoryReader, log: Log) -> None:
        link = self.links.get(reader)
        if link is None or not link.deaf:
            super()._hand_over(reader, log)
