"""The bus in one process: logs in memory, with faults on request.

Without faults every record is delivered once, in the order of the sends. With faults records come twice,
senders are slow, and a seed decides the order over topics. Order within a topic still holds, as on a broker.
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from streams.bus.bus import (
    NOWHERE,
    Bus,
    FailureHandler,
    OffsetOutOfRange,
    Reader,
    RecordHandler,
    Stored,
    TooLarge,
    UnknownTopic,
    check_position,
)
from topology.keyed import generator

Action = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults to plant.

    Attributes
    ----------
    seed : int
        The seed of the interleaving and the duplicates.
    duplicate : float
        Probability that a delivery is followed by an older record of its topic.
    latency : mapping of topic to seconds
        How long a record takes to reach the topic; it is lost if its sender dies meanwhile.
    slot_time : float
        Seconds that a slot takes to fill.
    crash_before : set of (node, n)
        The node's process dies before its n-th effect. Effects count from 1, over all processes of the node.
    restart_after : float
        Seconds from a crash to the restart.
    """

    seed: int = 0
    duplicate: float = 0.0
    latency: Mapping[str, float] = field(default_factory=dict)
    slot_time: float = 0.0
    crash_before: frozenset[tuple[str, int]] = frozenset()
    restart_after: float = 0.0


class Log:
    """One topic: its records, the first at offset `first`, and its readers."""

    def __init__(self, topic: str) -> None:
        self.topic, self.first = topic, 0
        self.records: list[Stored] = []
        self.readers: list[MemoryReader] = []

    @property
    def span(self) -> tuple[int, int]:
        """The offsets of the first record, and of the next."""
        return self.first, self.first + len(self.records)


class MemoryBroker:
    """Topics in memory, virtual time, and one delivery at a time. Processes use it through a `MemoryBus`."""

    def __init__(self, topics: Iterable[str], faults: Faults | None = None, largest: int = 2**20) -> None:
        self.now, self.largest = 0.0, largest
        self.logs: dict[str, Log] = {}
        self.create(topics)
        self._pending: deque[tuple[MemoryReader, Log] | Action] = deque()  # a delivery or an action each
        self._timers: list[tuple[float, int, Action]] = []
        self._timers_set = 0
        self.latency = faults.latency if faults else {}
        self._duplicate = faults.duplicate if faults else 0.0
        self._chance = generator("faults", faults.seed) if faults else None

    def create(self, topics: Iterable[str]) -> None:
        """Create the topics that are not there yet."""
        for topic in topics:
            self.logs.setdefault(topic, Log(topic))

    def append(self, log: Log, value: bytes, key: bytes) -> None:
        """Append a record and schedule its deliveries."""
        log.records.append(Stored(log.first + len(log.records), value, self.now, key, self.now))
        for reader in log.readers:
            self._pending.append((reader, log))

    def trim(self, topic: str, first: int) -> None:
        """Drop the records below `first`, as a broker's retention does."""
        log = self.logs[topic]
        del log.records[: max(0, first - log.first)]
        log.first = max(log.first, first)

    def subscribed(self, reader: "MemoryReader", log: Log) -> None:
        """Schedule deliveries of unread records to the reader, or of an error if the log lacks its offset."""
        log.readers.append(reader)
        unread_count = log.span[1] - reader.positions[log.topic]
        self._pending.extend([(reader, log)] * (unread_count if unread_count >= 0 else 1))

    def soon(self, action: Action) -> None:
        """Call `action` as one of the due deliveries."""
        self._pending.append(action)

    def after(self, seconds: float, action: Action) -> None:
        """Call `action` after that much virtual time."""
        self._timers_set += 1
        heapq.heappush(self._timers, (self.now + seconds, self._timers_set, action))

    def run(self) -> None:
        """Deliver until nothing is left."""
        while self.deliver():
            pass

    def deliver(self) -> bool:
        """Deliver one record, or let time pass to the next timer. Return false if there is neither."""
        while self._pending:
            if self._chance is not None:
                self._pending.rotate(-int(self._chance.integers(len(self._pending))))
            due = self._pending.popleft()
            if not isinstance(due, tuple):
                due()
                return True
            reader, log = due
            if reader.active:
                self._hand_over(reader, log)
                return True
        if self._timers:
            self.now, _, action = heapq.heappop(self._timers)
            action()
            return True
        return False

    def _hand_over(self, reader: "MemoryReader", log: Log) -> None:
        topic, records = log.topic, log.records
        offset = reader.positions[topic]
        if NOWHERE < offset < log.first and topic in reader.lossy:
            offset = reader.positions[topic] = log.first
        place = offset - log.first
        if 0 <= place < len(records):
            reader.take(topic, records[place])
            if self._chance is not None and self._chance.random() < self._duplicate and reader.active:
                reader.take(log.topic, records[int(self._chance.integers(place + 1))])
        elif offset != NOWHERE and place != len(records):  # else a handler had it delivered meanwhile
            reader.fail(topic)


class MemoryReader(Reader):
    """A reader of some topics. Its own handlers may close it, unlike those of other buses."""

    def __init__(
        self,
        broker: MemoryBroker,
        offsets: Mapping[str, int],
        record: RecordHandler,
        failed: FailureHandler,
        lossy: Collection[str] = (),
    ) -> None:
        self.active, self.positions, self.lossy = True, dict(offsets), frozenset(lossy)
        self._record, self._failed = record, failed
        self._awaited: list[tuple[Mapping[str, int], Action]] = []
        self._logs = [broker.logs[topic] for topic in offsets]
        for log in self._logs:
            broker.subscribed(self, log)

    @property
    def alive(self) -> bool:
        """Whether the reader still reads."""
        return self.active

    def when_read(self, ends: Mapping[str, int], action: Action) -> None:
        """Call `action` once all records below these offsets were handed on; at once if they were."""
        self._awaited.append((ends, action))
        self._do_awaited()

    def close(self) -> None:
        """Stop handing on records. Repeating it is harmless."""
        if self.active:
            self.active = False
            for log in self._logs:
                log.readers.remove(self)

    def take(self, topic: str, record: Stored) -> None:
        """Hand on a record: the next, or an older one again."""
        self._record(topic, record.offset, record.value, record.appended)
        if record.offset == self.positions[topic]:
            self.positions[topic] += 1
            if self._awaited and self.active:
                self._do_awaited()

    def fail(self, topic: str) -> None:
        """Report that the log does not hold the next record."""
        self.positions[topic] = NOWHERE
        self._failed(topic, OffsetOutOfRange(topic, "the position is not inside the log"))

    def _do_awaited(self) -> None:
        waiting, self._awaited = self._awaited, []
        for ends, action in waiting:
            if all(self.positions[topic] >= end for topic, end in ends.items()):
                action()
            else:
                self._awaited.append((ends, action))


class MemoryBus(Bus):
    """One process's access to a broker in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker, self._closed = broker, False
        self._readers: list[MemoryReader] = []
        self.waiting = 0

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics."""
        return tuple(self._broker.logs)

    def send(
        self, topic: str, value: bytes, acknowledged: Action | None = None, key: bytes | None = None
    ) -> None:
        """Append `value` (after the topic's latency). Raises UnknownTopic, TooLarge."""
        broker = self._broker
        log = broker.logs.get(topic) or self._log(topic)
        if len(value) > broker.largest:
            raise TooLarge(f"{len(value)} bytes for {topic}: at most {broker.largest} are allowed")
        latency = broker.latency.get(topic, 0.0) if broker.latency else 0.0
        self.waiting += 1
        if latency:
            broker.after(latency, partial(self._land, log, value, acknowledged, key or b""))
        else:
            self._land(log, value, acknowledged, key or b"")

    def largest(self, topic: str) -> int:
        """Return the length in bytes of the longest value that the topic allows. Raises UnknownTopic."""
        self._log(topic)
        return self._broker.largest

    def flush(self, seconds: float) -> bool:
        """Let virtual time pass until all sends are acknowledged, and return whether they are."""
        until = self._broker.now + seconds
        if self.waiting:
            self._broker.after(seconds, lambda: None)  # stop at the deadline, so that no later timer fires
        while self.waiting and self._broker.now < until and self._broker.deliver():
            pass
        return not self.waiting

    def span(self, topic: str) -> tuple[int, int]:
        """Return the log's first offset, and that of its next record. Raises UnknownTopic."""
        return self._log(topic).span

    def stored(self, offsets: Mapping[str, int]) -> dict[str, list[Stored]]:
        """Return each topic's records from its offset on. Raises UnknownTopic, OffsetOutOfRange."""
        for topic, offset in offsets.items():
            check_position(topic, offset, self.span(topic))
        logs = {topic: self._log(topic) for topic in offsets}
        return {topic: log.records[offsets[topic] - log.first :] for topic, log in logs.items()}

    def subscribe(
        self,
        offsets: Mapping[str, int],
        record: RecordHandler,
        failed: FailureHandler,
        *,
        lossy: Collection[str] = (),
    ) -> MemoryReader:
        """Hand on these topics' records, one per call of the broker's `deliver`. Raises UnknownTopic."""
        for topic in offsets:
            self._log(topic)
        self._readers.append(MemoryReader(self._broker, offsets, record, failed, lossy))
        return self._readers[-1]

    def close(self) -> None:
        """End like a killed process: pending sends are lost, and nothing more is read."""
        self._closed = True
        for reader in self._readers:
            reader.close()

    def _log(self, topic: str) -> Log:
        try:
            return self._broker.logs[topic]
        except KeyError:
            raise UnknownTopic(f"no topic {topic}") from None

    def _land(self, log: Log, value: bytes, acknowledged: Action | None, key: bytes) -> None:
        if self._closed:
            return
        self.waiting -= 1
        self._broker.append(log, value, key)
        if acknowledged is not None:
            acknowledged()
