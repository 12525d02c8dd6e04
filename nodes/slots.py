"""Which records enter which slot: never a matter of their content.

`CountSlots`: the next h records by offset, one partition. `TimeSlots`: slot = floor((timestamp - start) /
period) + 1, the first h of its records by (timestamp, partition, offset). The shell adds records as they
arrive and asks `ready`; a slot by count taken before it is ready (`slot_timeout`) is empty: its records wait.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from nodes.journal import DataPosition

T = TypeVar("T")


class Arrival(NamedTuple, Generic[T]):
    """A record of the data topic; `timestamp` is Kafka's, in seconds. `value` is never looked at."""

    partition: int
    offset: int
    timestamp: float
    value: T


Place = tuple[int, int]
"""(partition, offset) of a record."""


class ClosedSlot(NamedTuple, Generic[T]):
    """The records of one slot, where the next one's start, and how many were dropped (private counts).

    `places` are those of the values.
    """

    round: int
    values: tuple[T, ...]
    position: DataPosition
    late: int = 0
    overfull: int = 0
    places: tuple[Place, ...] = ()


class Slots(Protocol[T]):
    """The slots of one node. One slot is open at a time."""

    def open(self, round: int) -> None:
        """Start the slot of that round."""

    def add(self, arrival: Arrival[T]) -> None:
        """Take a record in the order of its partition."""

    def ready(self, now: float) -> bool:
        """Whether the open slot is complete; `now` in seconds."""

    @property
    def waiting(self) -> int:
        """How many records wait for this slot or a later one."""

    def take(self) -> ClosedSlot[T]:
        """Close the open slot with what belongs to it."""


class CountSlots(Generic[T]):
    """Slots of `size` records by offset."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._round = 0
        self._waiting: deque[Arrival[T]] = deque()
        self._next: DataPosition = ()

    def open(self, round: int) -> None:
        """Start the slot of that round."""
        self._round = round

    def add(self, arrival: Arrival[T]) -> None:
        """Take the next record. Raises ValueError for a second partition."""
        if arrival.partition != 0:
            raise ValueError(f"partition {arrival.partition}: slots by count need a topic of one partition")
        self._waiting.append(arrival)

    def ready(self, now: float) -> bool:  # noqa: ARG002 # the same interface as slots by time
        """Whether `size` records are there."""
        return len(self._waiting) >= self._size

    @property
    def waiting(self) -> int:
        """How many records wait."""
        return len(self._waiting)

    def take(self) -> ClosedSlot[T]:
        """Close the slot: full, or empty where fewer than `size` records are there (they wait)."""
        if len(self._waiting) < self._size:
            position = ((0, self._waiting[0].offset),) if self._waiting else self._next
            return ClosedSlot(self._round, (), position)
        taken = [self._waiting.popleft() for _ in range(self._size)]
        self._next = ((0, taken[-1].offset + 1),)
        values = tuple([arrival.value for arrival in taken])
        return ClosedSlot(self._round, values, self._next, places=_places(taken))


class TimeSlots(Generic[T]):
    """Slots of `period` seconds from `start` on, of at most `size` records."""

    def __init__(self, size: int, start: float, period: float, grace: float) -> None:
        self._size, self._start, self._period, self._grace = size, start, period, grace
        self._round = 0
        self._waiting: list[Arrival[T]] = []
        self._next: dict[int, int] = {}
        self._late = 0

    def round_of(self, timestamp: float) -> int:
        """Return the slot of that timestamp; 0: before the start, or further away than there are numbers."""
        periods = (timestamp - self._start) / self._period
        return math.floor(periods) + 1 if 0 <= periods < math.inf else 0

    def open(self, round: int) -> None:
        """Start the slot of that round; records of earlier ones are dropped."""
        self._round = round
        self._drop(lambda arrival: self.round_of(arrival.timestamp) < round)

    def add(self, arrival: Arrival[T]) -> None:
        """Keep a record for its slot, or drop it if that one is closed."""
        self._next[arrival.partition] = max(self._next.get(arrival.partition, 0), arrival.offset + 1)
        if self.round_of(arrival.timestamp) < self._round:
            self._late += 1
        else:
            self._waiting.append(arrival)

    def ready(self, now: float) -> bool:
        """Whether the slot's end and the grace are over."""
        return now >= self._start + self._round * self._period + self._grace

    @property
    def waiting(self) -> int:
        """How many records wait for this slot or a later one."""
        return len(self._waiting)

    def take(self) -> ClosedSlot[T]:
        """Close the slot with the first `size` of its records; the rest are dropped."""
        mine = [a for a in self._waiting if self.round_of(a.timestamp) == self._round]
        mine.sort(key=lambda a: (a.timestamp, a.partition, a.offset))
        self._waiting = [a for a in self._waiting if self.round_of(a.timestamp) > self._round]
        position = dict(self._next)
        for arrival in self._waiting:
            position[arrival.partition] = min(position[arrival.partition], arrival.offset)
        late, self._late = self._late, 0
        taken = mine[: self._size]
        return ClosedSlot(
            self._round,
            tuple(arrival.value for arrival in taken),
            tuple(sorted(position.items())),
            late,
            len(mine) - len(taken),
            _places(taken),
        )

    def _drop(self, late: Callable[[Arrival[T]], bool]) -> None:
        kept = [arrival for arrival in self._waiting if not late(arrival)]
        self._late += len(self._waiting) - len(kept)
        self._waiting = kept


def _places(arrivals: list[Arrival[T]]) -> tuple[Place, ...]:
    return tuple([(arrival.partition, arrival.offset) for arrival in arrivals])
