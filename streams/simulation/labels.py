"""Simulates labels that come later: draws a topic of labels by a seed, and reads it.

The reader is `streams.live.data.labels` without its thread. It reads when a slot is due.
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple, cast

import numpy as np
from confluent_kafka import Consumer, TopicPartition

from nodes.machine.slots import ClosedSlot, Slots, TimeSlots
from nodes.values import Observations
from streams.live.data.labels import LaterLabels
from streams.mesh.settings.brokers import BrokerSettings
from streams.mesh.settings.labels import LaterLabelsSettings
from streams.mesh.settings.schema import LabelSettings
from streams.records.decoder import SchemaDecoder
from streams.records.record import RawRecord
from streams.simulation.bus import Link
from streams.simulation.oracle.given import LabelFact, LabelFacts

PARTITIONS = 2
EPOCH = 1_000.0
"""The Kafka time in seconds at which a history begins, with slots by count."""
AFTER = (0.15, 0.4, 1.0)
"""The waits, in seconds of a history, or in periods with slots by time."""
BEFORE = (0.0, 0.0, 0.5)
"""How much older than its record a label may be, in waits."""
COUNTS = (0, 0, 1, 1, 2, 4)
"""How many labels a record's key has."""
WITHDRAWALS, UNREADABLE = 0.2, 0.1
"""The shares of messages that take a label back, and of those that cannot be read."""


class LabelEntry(NamedTuple):
    """A message with a label. `came`: when it was appended to the log; `time`: its timestamp, in seconds."""

    came: float
    partition: int
    time: float
    key: str | None
    value: bytes | None


class LabelMessage:
    """An entry as a message, with the interface of the Kafka client's messages."""

    def __init__(self, entry: LabelEntry, offset: int) -> None:
        self._entry, self._offset = entry, offset

    def error(self) -> None:
        """Return None, as no message has an error."""
        return

    def partition(self) -> int:
        """Return the message's partition."""
        return self._entry.partition

    def offset(self) -> int:
        """Return the message's offset."""
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        """Return the timestamp's type and the timestamp in ms."""
        return 1, round(self._entry.time * 1_000)

    def key(self) -> bytes | None:
        """Return the message's key."""
        return None if self._entry.key is None else self._entry.key.encode()

    def value(self) -> bytes | None:
        """Return the message's value; None withdraws the label."""
        return self._entry.value


class LabelLog:
    """A topic of labels as of the moment `now`, with the interface of the Kafka client's consumer."""

    def __init__(self, entries: Sequence[LabelEntry]) -> None:
        self.logs: dict[int, list[LabelEntry]] = {part: [] for part in range(PARTITIONS)}
        for entry in sorted(entries, key=lambda entry: entry.came):
            self.logs[entry.partition].append(entry)
        self.now = 0.0
        self._next: dict[int, int] = {}

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:  # noqa: ARG002 # the client's
        """Return the topic's partitions."""
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=self.logs)})

    def offsets_for_times(
        self,
        parts: Sequence[TopicPartition],
        timeout: float,  # noqa: ARG002 # the client's
    ) -> list[TopicPartition]:
        """Return the first offsets whose timestamps are at or after these times, in ms."""
        return [TopicPartition(of.topic, of.partition, self._first(of.partition, of.offset)) for of in parts]

    def get_watermark_offsets(self, of: TopicPartition, timeout: float) -> tuple[int, int]:  # noqa: ARG002
        """Return the first offset of a partition, and the offset after its last."""
        return 0, len(self._log(of.partition))

    def assign(self, parts: Sequence[TopicPartition]) -> None:
        """Begin to read these partitions at these offsets."""
        self._next = {of.partition: of.offset for of in parts}

    def consume(self, count: int, timeout: float) -> list[LabelMessage]:  # noqa: ARG002 # the client's
        """Return all messages that were not read yet."""
        messages = []
        for part, first in self._next.items():
            log = self._log(part)
            messages += [LabelMessage(log[k], k) for k in range(first, len(log))]
            self._next[part] = len(log)
        return messages

    def _log(self, part: int) -> list[LabelEntry]:
        return [entry for entry in self.logs[part] if entry.came <= self.now]

    def _first(self, part: int, milliseconds: int) -> int:
        later = (k for k, entry in enumerate(self._log(part)) if entry.time * 1_000 >= milliseconds)
        return next(later, -1)


class LabelsInTurn(LaterLabels):
    """The reader of labels, on a log in memory. It reads when `read` is called."""

    def __init__(self, settings: LaterLabelsSettings, decoder: SchemaDecoder, log: LabelLog) -> None:
        broker = BrokerSettings(servers="simulated:9092")
        super().__init__(settings, broker, decoder, logging.getLogger("simulated"))
        self.log = log

    def start(self, changed: Callable[[], None]) -> None:
        """Prepare to read, as of the log's moment `now`. Nothing is read yet."""
        self.prepare(changed, self.log.now)

    def read(self) -> None:
        """Read until every request of the reader is answered."""
        while not self.is_read:
            self.turn(cast("Consumer", self.log))


@dataclass(frozen=True, slots=True)
class DrawnLabels:
    """The drawn labels of one node in one history. `slots` makes slots by time; None for slots by count."""

    settings: LaterLabelsSettings
    entries: tuple[LabelEntry, ...]
    facts: LabelFacts
    slots: Callable[[], Slots[bytes]] | None


@dataclass(slots=True)
class ProcessLabels:
    """The labels as one process of a node reads them. `moments`: when each round's labels were read."""

    drawn: DrawnLabels
    reader: LabelsInTurn
    link: Link
    clock: Callable[[], float]
    moments: dict[int, float] = field(default_factory=dict)

    @classmethod
    def begin(
        cls, drawn: DrawnLabels, decoder: SchemaDecoder, link: Link, clock: Callable[[], float]
    ) -> "ProcessLabels":
        """Return the labels of a process that has just started and has read none."""
        reader = LabelsInTurn(drawn.settings, decoder, LabelLog(drawn.entries))
        if drawn.slots is None:  # slots by time have no moment before the first one closes
            reader.log.now = EPOCH + clock()
            reader.start(lambda: None)
            reader.turn(cast("Consumer", reader.log))
        return cls(drawn, reader, link, clock)

    @property
    def waits(self) -> bool:
        """Whether slots wait for labels that cannot be read; otherwise they close empty."""
        return self.drawn.slots is None

    def due(self, slot: ClosedSlot[bytes]) -> float:
        """Return when the last record of a slot is due, by the clock of the history."""
        times = slot.times if self.drawn.slots is None else ()
        return max((moment + self.drawn.settings.after - EPOCH for moment in times), default=0.0)

    def fill(self, slot: ClosedSlot[bytes], observations: Observations) -> Observations | None:
        """Return a slot's records with their labels; None while the labels cannot be read."""
        if not self.link.whole:
            return None
        moment = self._moment(slot.round)
        self.moments[slot.round] = self.reader.log.now = moment
        self.reader.ask(min(slot.times))
        self.reader.read()
        return self.reader.fill(slot, observations)

    def _moment(self, round: int) -> float:
        """Return the Kafka time at which a slot closes."""
        if self.drawn.slots is None:
            return EPOCH + self.clock()
        slots = self.drawn.slots()
        slots.open(round)
        return slots.over_at


# Draws the times of records, and the topic of their labels.


def dated(records: Sequence[RawRecord], period: float) -> tuple[RawRecord, ...]:
    """Return the records of slots by count with times that are `period` seconds apart, to the millisecond."""
    return tuple([RawRecord(value, EPOCH + round(k * period, 3)) for k, (value, _) in enumerate(records)])


def drawn_labels(
    settings: LaterLabelsSettings,
    decoder: SchemaDecoder,
    records: Sequence[RawRecord],
    slots: Callable[[float], Slots[bytes]],
    random: np.random.Generator,
) -> DrawnLabels:
    """Draw a wait, and labels for these records. `slots` makes a node's slots for a wait in seconds."""
    empty = slots(0.0)
    period = empty.end(1) - empty.begin(1) if isinstance(empty, TimeSlots) else 1.0
    after = round(float(random.choice(AFTER)) * period, 3)
    before = round(float(random.choice(BEFORE)) * after, 3)
    settings = settings.model_copy(update={"after": after, "before": before})
    keys = tuple([decoder.key(record.value) for record in records])
    times = tuple([record.timestamp for record in records])
    firsts = {key: time for key, time in reversed(list(zip(keys, times, strict=True))) if key and time}
    labels = [
        _drawn(settings, decoder.schema.label, key, first, random)
        for key, first in firsts.items()
        for _ in range(int(random.choice(COUNTS)))
    ]
    labels.sort(key=lambda label: label.entry.came)
    closes = None
    if isinstance(empty, TimeSlots):
        empty.open(0)
        closes = empty.over_at, period
    return DrawnLabels(
        settings,
        tuple([label.entry for label in labels]),
        LabelFacts(
            after,
            before,
            _number(decoder.schema.label, settings.otherwise),
            keys,
            times,
            {key: tuple(facts) for key, facts in _by_key(labels).items()},
            closes,
        ),
        partial(slots, after) if closes is not None else None,
    )


class _Drawn(NamedTuple):
    """A label's message in the log, and the fact that it states; None if the message is unreadable."""

    entry: LabelEntry
    fact: LabelFact | None


def _drawn(
    settings: LaterLabelsSettings, label: LabelSettings, key: str, first: float, random: np.random.Generator
) -> _Drawn:
    """Draw a label for a key; `first`: the time of the key's first record, in seconds."""
    due, early = first + settings.after, settings.before + settings.after / 4
    time = first - early + float(random.random()) * (1.5 * settings.after + early)
    time = round(float(random.choice([time, time, time, due, due + 0.001])), 3)
    append_time = time + float(random.choice([0.0, 0.0, 1.0])) * float(random.random()) * settings.after
    kind, part, number = float(random.random()), int(random.integers(PARTITIONS)), None
    value: bytes | None = b"["
    if kind < WITHDRAWALS:
        value = None
    elif kind >= WITHDRAWALS + UNREADABLE:
        text = settings.value.constant or _word(settings, label, random)
        value = json.dumps({settings.value.column or "": text}).encode()
        number = _number(label, text)
    entry = LabelEntry(append_time, part, time, key, value)
    return _Drawn(entry, None if value == b"[" else LabelFact(append_time, part, round(time * 1_000), number))


def _by_key(drawn: Sequence[_Drawn]) -> dict[str, list[LabelFact]]:
    """Return the facts of each key, in the order in which they are read."""
    facts: dict[str, list[LabelFact]] = {}
    for entry, fact in drawn:
        if fact is not None and entry.key is not None:
            facts.setdefault(entry.key, []).append(fact)
    return facts


def _word(settings: LaterLabelsSettings, label: LabelSettings, random: np.random.Generator) -> str:
    words = (*(label.classes or ()), *(label.positive or ()), *(label.negative or ()))
    if not words:
        return f"{float(random.random()):.3f}"
    return str(random.choice([*words, settings.otherwise]))


def _number(label: LabelSettings, text: str) -> float:
    if label.classes is not None:
        return float(label.classes.index(text))
    if label.positive is not None:
        return 1.0 if text in label.positive else -1.0
    return float(text)
