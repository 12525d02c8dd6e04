"""Slots by count from several partitions: public numbers alone decide which records a slot takes.

In which order a client reads partitions depends on the bytes of their records, so that order may decide
nothing: a record made longer would move every later one. A slot goes by the ends of the partitions at a
moment instead, which the broker tells whatever the records hold.

The rule. With P the next offset of each partition and E its end as last looked up, a slot that still lacks
n records takes from each partition its share of the next n offsets of the E - P that wait: n (E - P)/sum(E
- P), rounded by largest remainder, ties to the lower partition. Offsets without a record, as markers of
transactions are, give none, and the slot takes its shares again until it is full. Only when nothing waits
below the ends are they looked up anew. Within a partition records come by offset.

Proof that nothing in a record decides where another lies: shares are a function of positions and ends.
Positions are sums of earlier shares, and how often shares are taken depends on how many offsets hold a
record. Ends, positions and which offsets hold records are counts, and public with slots by count. The
bytes of a record, and when a client was given it, enter nowhere: a record that is not there yet is waited
for.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Generic, TypeVar

from nodes.machine.slots import Arrival, ClosedSlot, places

T = TypeVar("T")


def shares(waiting: Mapping[int, int], size: int) -> dict[int, int]:
    """Return how many of the next `size` offsets each partition gives, in order of partitions.

    `waiting`: its offsets below the end. All of them where no more than `size` wait. By largest remainder,
    ties to the lower partition; the sum is min(size, sum of `waiting`).
    """
    total = sum(waiting.values())
    if total <= size:
        return dict(sorted(waiting.items()))
    whole = {part: size * count // total for part, count in sorted(waiting.items())}
    rest = size - sum(whole.values())
    by_remainder = sorted(whole, key=lambda part: (-(size * waiting[part] % total), part))
    for part in by_remainder[:rest]:
        whole[part] += 1
    return whole


class PartitionSlots(Generic[T]):
    """Slots of `size` records by count, from several partitions, from `first` offsets on.

    The caller adds records in the order of each partition, tells with `look` where the partitions end
    whenever `awaits_ends`, and with `passed` how far each was read, as its last offsets may hold no record.
    """

    def __init__(self, size: int, first: Mapping[int, int]) -> None:
        self._size, self._round = size, 0
        self._next = dict(first)  # where the open slot, or the next one, begins
        self._reached = dict(first)  # up to where it has taken its records
        self._target = dict(first)  # up to where its present shares go
        self._read, self._ends = dict(first), dict(first)
        self._waiting: dict[int, deque[Arrival[T]]] = {part: deque() for part in first}
        self._slot: list[Arrival[T]] = []

    def open(self, round: int) -> None:
        """Open the slot of that round."""
        self._round = round

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:  # noqa: ARG002 # as `ready`
        """Add the next record of its partition."""
        self._waiting[arrival.partition].append(arrival)
        self.passed({arrival.partition: arrival.offset + 1})

    def passed(self, offsets: Mapping[int, int]) -> None:
        """Note that all records below these offsets were added."""
        for part, offset in offsets.items():
            if part in self._read:
                self._read[part] = max(offset, self._read[part])
        self._fill()

    def look(self, ends: Mapping[int, int]) -> None:
        """Take the partitions' ends, as looked up just now."""
        if not self.awaits_ends:  # else how often they are looked up would decide
            return
        for part, end in ends.items():
            self._ends[part] = max(end, self._ends[part])
        self._fill()

    @property
    def awaits_ends(self) -> bool:
        """Whether a slot that is not full has nothing left below the ends that are known."""
        return len(self._slot) < self._size and self._reached == self._target == self._ends

    @property
    def wants_ends(self) -> bool:
        """Whether looking them up brings records: some are here that lie beyond the ends that are known."""
        return self.awaits_ends and any(self._waiting.values())

    @property
    def lacking(self) -> bool:
        """Whether the slot waits for records of its shares."""
        return any(map(self.lacks, self._target))

    def lacks(self, partition: int) -> bool:
        """Return whether the slot waits for records of that partition."""
        return self._read[partition] < self._target[partition]

    def ahead(self, partition: int) -> int:
        """Return how many records of that partition wait for a later share."""
        return len(self._waiting[partition])

    def behind(self, now: float) -> bool:  # noqa: ARG002 # as `ready`
        """Return False: `waiting` alone limits how many wait."""
        return False

    def ready(self, now: float) -> bool:  # noqa: ARG002 # the same interface as slots by time
        """Return whether `size` records are there."""
        return len(self._slot) >= self._size

    @property
    def over_at(self) -> float:
        """Infinite: its records alone close a slot."""
        return math.inf

    @property
    def waiting(self) -> int:
        """The number of waiting records."""
        return len(self._slot) + sum(map(len, self._waiting.values()))

    def take(self) -> ClosedSlot[T]:
        """Close the slot: full, or empty if fewer than `size` records are there (they wait)."""
        if len(self._slot) < self._size:
            return ClosedSlot(self._round, (), tuple(sorted(self._next.items())))
        arrivals, self._slot = self._slot, []
        self._next = dict(self._reached)
        position = tuple(sorted(self._next.items()))
        self._fill()
        values = tuple([arrival.value for arrival in arrivals])
        return ClosedSlot(self._round, values, position, places=places(arrivals))

    def _fill(self) -> None:
        """Take the records of all shares that are read."""
        while len(self._slot) < self._size:
            if self.lacking:
                return
            for part, target in sorted(self._target.items()):
                records = self._waiting[part]
                while records and records[0].offset < target:
                    self._slot.append(records.popleft())
            self._reached = dict(self._target)
            missing = self._size - len(self._slot)
            unread = {part: end - self._reached[part] for part, end in self._ends.items()}
            if missing == 0 or not any(unread.values()):
                return
            for part, share in shares(unread, missing).items():
                self._target[part] += share
