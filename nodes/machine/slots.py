"""Puts records into slots, independent of their content.

`CountSlots` take the next h records by offset, from one partition; `nodes.machine.partition_slots` has
those from several, `nodes.machine.time_slots` slots by time. The shell adds records as they arrive, and
asks `ready`. A slot by count that is taken before it is ready (`slot_timeout`) is empty: its records wait.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from nodes.machine.journal import DataPosition

T = TypeVar("T")


class Arrival(NamedTuple, Generic[T]):
    """A record of the data topic; `timestamp` is Kafka's, in seconds. `value` is not read here."""

    partition: int
    offset: int
    timestamp: float
    value: T


Place = tuple[int, int]
"""(partition, offset) of a record."""


class ClosedSlot(NamedTuple, Generic[T]):
    """The records of one slot, where the next slot's begin, and how many were dropped (private counts).

    `places` are the places of the values. `read`: behind the last record that this slot or an earlier one may
    hold; (): the position.
    """

    round: int
    values: tuple[T, ...]
    position: DataPosition
    late: int = 0
    overfull: int = 0
    places: tuple[Place, ...] = ()
    early: int = 0
    read: DataPosition = ()


class Slots(Protocol[T]):
    """The slots of one node; one is open at a time."""

    def open(self, round: int) -> None:
        """Open the slot of that round."""

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:
        """Add a record in the order of its partition; `now` in seconds, infinite without a clock."""

    def behind(self, now: float) -> bool:
        """Return whether records must wait outside until a slot is opened, independent of their content."""

    def ready(self, now: float) -> bool:
        """Return whether the open slot is complete; `now` in seconds."""

    @property
    def over_at(self) -> float:
        """The time in seconds from which on the open slot is complete; infinite if its records alone tell."""

    @property
    def waiting(self) -> int:
        """The number of records that wait for this slot or a later one."""

    def take(self) -> ClosedSlot[T]:
        """Close the open slot with its records."""


class CountSlots(Generic[T]):
    """Slots of `size` records by offset."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._round = 0
        self._waiting: deque[Arrival[T]] = deque()
        self._next: DataPosition = ()

    def open(self, round: int) -> None:
        """Open the slot of that round."""
        self._round = round

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:  # noqa: ARG002 # as `ready`
        """Add the next record. Raises ValueError for a second partition: `PartitionSlots` take several."""
        if arrival.partition != 0:
            raise ValueError(f"partition {arrival.partition}: these slots take partition 0 alone")
        self._waiting.append(arrival)

    def extend(self, arrivals: Sequence[Arrival[T]]) -> None:
        """Add the next records, all of partition 0."""
        self._waiting.extend(arrivals)

    @property
    def missing(self) -> int:
        """The number of records until the slot is full."""
        return max(0, self.size - len(self._waiting))

    def behind(self, now: float) -> bool:  # noqa: ARG002 # as `ready`
        """Return False: `waiting` alone limits how many wait."""
        return False

    def ready(self, now: float) -> bool:  # noqa: ARG002 # the same interface as slots by time
        """Return whether `size` records are there."""
        return len(self._waiting) >= self.size

    @property
    def over_at(self) -> float:
        """Infinite: its records alone close a slot."""
        return math.inf

    @property
    def waiting(self) -> int:
        """The number of waiting records."""
        return len(self._waiting)

    def take(self) -> ClosedSlot[T]:
        """Close the slot: full, or empty if fewer than `size` records are there (they wait)."""
        if len(self._waiting) < self.size:
            position = ((0, self._waiting[0].offset),) if self._waiting else self._next
            return ClosedSlot(self._round, (), position)
        arrivals = [self._waiting.popleft() for _ in range(self.size)]
        self._next = ((0, arrivals[-1].offset + 1),)
        values = tuple([arrival.value for arrival in arrivals])
        return ClosedSlot(self._round, values, self._next, places=places(arrivals))


def places(arrivals: list[Arrival[T]]) -> tuple[Place, ...]:
    """Return the places of records."""
    return tuple([(arrival.partition, arrival.offset) for arrival in arrivals])
