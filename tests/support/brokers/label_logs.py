"""A topic of labels in memory, by librdkafka's interface, and a reader of it without a thread."""

import logging
from types import SimpleNamespace
from typing import NamedTuple

from confluent_kafka import TopicPartition

from streams.live.data.labels import LaterLabels
from tests.support.brokers.topics import connection


class LabelEntry(NamedTuple):
    """A message with a label: when it came into the log, where, its own time in seconds, and what it has."""

    came: float
    partition: int
    time: float
    key: str | None
    value: bytes | None


class _Message:
    def __init__(self, entry, offset):
        self._entry, self._offset = entry, offset

    def error(self):
        return None

    def partition(self):
        return self._entry.partition

    def offset(self):
        return self._offset

    def timestamp(self):
        return 1, round(self._entry.time * 1_000)

    def key(self):
        return None if self._entry.key is None else self._entry.key.encode()

    def value(self):
        return self._entry.value


class LabelLog:
    """A log of two partitions, as it is at the moment `now`, and its consumer."""

    def __init__(self, entries):
        self.logs = {0: [], 1: []}
        for entry in sorted(entries, key=lambda entry: entry.came):
            self.logs[entry.partition].append(entry)
        self.now, self._next = 0.0, {}

    def _there(self, part):
        return [entry for entry in self.logs[part] if entry.came <= self.now]

    def list_topics(self, topic, timeout):
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=self.logs)})

    def offsets_for_times(self, parts, timeout):
        return [TopicPartition(of.topic, of.partition, self._since(of.partition, of.offset)) for of in parts]

    def _since(self, part, milliseconds):
        later = (k for k, entry in enumerate(self._there(part)) if entry.time * 1_000 >= milliseconds)
        return next(later, -1)

    def get_watermark_offsets(self, of, timeout):
        return 0, len(self._there(of.partition))

    def assign(self, parts):
        self._next = {of.partition: of.offset for of in parts}

    def consume(self, count, timeout):
        messages = []
        for part, first in self._next.items():
            there = self._there(part)
            messages += [_Message(there[k], k) for k in range(first, len(there))]
            self._next[part] = len(there)
        return messages


class LabelsInTurn(LaterLabels):
    """Labels of a log in memory, which are read when a test says so."""

    def __init__(self, settings, decoder, log):
        super().__init__(settings, connection("nowhere:1"), decoder, logging.getLogger("test"))
        self.log = log

    def start(self, changed):
        self._changed = changed

    def read(self):
        """Read until all is answered that was asked."""
        while not self.is_read:
            self._turn(self.log)
