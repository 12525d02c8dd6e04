"""The figures of a process that scores, for the owner of the messages: they reveal something of the data."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException

from streams.bus.connection import LOGGER
from streams.metrics.catalogue import PrivateMetric
from streams.metrics.registry import PrivateRegistry
from streams.records.faults import Fault
from streams.runtime.process import Liveness, Pulse
from streams.tools.score.scorer import ModelVersion

EVERY: Final = 1.0
"""Seconds between two counts of the waiting messages."""
STILL: Final = 60.0
"""Seconds for which the loop may make no progress. A transaction has ended by then, or is void."""


@dataclass(slots=True)
class ScoreCounts:
    """Counts messages: scored, unreadable by fault, and without a record."""

    scored: int = 0
    unreadable: Counter[Fault] = field(default_factory=Counter)
    no_record: int = 0

    def add(self, outcomes: Iterable[bytes | Fault | None]) -> None:
        """Count a batch."""
        for outcome in outcomes:
            if outcome is None:
                self.no_record += 1
            elif isinstance(outcome, Fault):
                self.unreadable[outcome] += 1
            else:
                self.scored += 1


class ScoreFigures:
    """Shows what a process has scored. Its loop gives signs of life; `missing` and `stalled` are for probes.

    `counts`: the counts of committed scores. A scrape, in its own thread, only reads.
    """

    def __init__(self, registry: PrivateRegistry, counts: ScoreCounts) -> None:
        self.registry, self._pulse = registry, Pulse()
        self._lag: int | None = None
        self._version: ModelVersion | None = None
        self._looked = 0.0
        self._liveness = Liveness(STILL, {"the loop that scores": self._pulse}, {}, LOGGER)
        self._latency = registry.histogram(PrivateMetric.SCORE_LATENCY)
        registry.total(PrivateMetric.SCORES, lambda: counts.scored, "scored")
        registry.total(PrivateMetric.SCORES, lambda: sum(counts.unreadable.values()), "unreadable")
        registry.total(PrivateMetric.SCORES, lambda: counts.no_record, "no_record")
        registry.gauge(PrivateMetric.SCORE_LAG, lambda: self._lag)
        registry.gauge(PrivateMetric.SCORE_ROUND, lambda: self._version and self._version.round)
        registry.gauge(PrivateMetric.SCORE_MODEL, lambda: self._version and self._version.decided)

    def missing(self) -> str | None:
        """Return what the process waits for; None if it scores."""
        return "waiting for a decision" if self._version is None else None

    def stalled(self) -> str | None:
        """Return the part that makes no progress, if any."""
        return self._liveness.stalled()

    def beat(self) -> None:
        """Give a sign of life."""
        self._pulse.beat()

    def turn(self, consumer: Consumer, version: ModelVersion | None) -> None:
        """Record a turn of the loop: the model that scores, and once a second the number of
        waiting messages.
        """
        self._version = version
        now = time.monotonic()
        if now - self._looked >= EVERY:
            self._looked, self._lag = now, _waiting(consumer)

    def scored(self, batch: Sequence[Any]) -> None:
        """Record the age of each message of a batch, after its scores are written."""
        now, times = 1e3 * time.time(), [message.timestamp() for message in batch]
        ages = [now - moment for kind, moment in times if kind != TIMESTAMP_NOT_AVAILABLE]
        self._latency.observe_all(np.maximum(ages, 0.0) / 1e3)


def _waiting(consumer: Consumer) -> int | None:
    """Return the number of offsets behind the positions; None while the client does not know."""
    lag = 0
    try:
        for place in consumer.position(consumer.assignment()):
            first, end = consumer.get_watermark_offsets(place, cached=True)
            position = place.offset if place.offset >= 0 else first
            if end < 0 or position < 0:
                return None
            lag += max(0, end - position)
    except KafkaException:  # a partition has just been given back
        return None
    return lag
