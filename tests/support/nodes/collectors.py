"""A collector of slots whose clocks stand still until they are moved."""

import numpy as np

from nodes.machine.slots import Arrival, CountSlots
from nodes.privacy.reveal import opened
from streams.live.data.collector import SlotCollector
from streams.records.faults import Fault


class Digits:
    """Record b"7" is the number 7."""

    dimension = 1

    def decode(self, value):
        return (np.array([float(value)]), 0.0) if value.isdigit() else None

    def fault(self, value):
        return Fault(None, "no digits")


def arrival(offset, timestamp=0.0, value=None, partition=0):
    return Arrival(partition, offset, timestamp, str(offset).encode() if value is None else value)


def seen(slot):
    return slot.round, opened(slot.observations).features.ravel().tolist(), slot.position


def position_of(slot):
    return slot[2][0][1]


class Side:
    """A collector, what it closed, and how often it made room; the clock stands until it is moved."""

    def __init__(self, slots=lambda: CountSlots(2), timeout=None, late=None, labels=None):
        self.slots, self.rooms, self.now, self.wall = [], 0, 100.0, 100.0
        self.faults = {}
        self.collector = SlotCollector(
            slots,
            Digits(),
            timeout,
            lambda slot: self.slots.append(seen(slot)),
            self._make_room,
            late,
            self._count,
            labels=labels,
            clock=lambda: self.now,
            wall=lambda: self.wall,
        )

    def _count(self, places, faults):
        assert not self.faults.keys() & set(places)  # each once
        self.faults |= dict(zip(places, faults, strict=True))

    def _make_room(self):
        self.rooms += 1

    def fill(self, first, end):
        return [self.collector.add([arrival(offset)])[1] for offset in range(first, end)]

    def place(self, end, records=None):
        """Tell the log's end, and then of the records at these offsets (None: at all), few at a time."""
        self.collector.place({0: end})
        while (span := self.collector.uncounted) is not None:
            behind = min(span.first + 7, span.end)
            some = range(span.first, behind)
            offsets = [k for k in some if records is None or k in records]
            self.collector.count(span.partition, offsets, behind)

    @property
    def counts(self):
        return opened(self.collector.counts)
