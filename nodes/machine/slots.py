"""Which records enter which slot: never a matter of their content.

`CountSlots`: the next h records by offset, one partition; `nodes.machine.time_slots` has those by time. The
shell adds records as they arrive and asks `ready`; a slot by count taken before it is ready
(`slot_timeout`) is empty: its records wait.
"""

import math
from collections import deque
from typing import Generic, NamedTuple, Protocol, TypeVar

from nodes.machine.journal import DataPosition

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
    early: int = 0


class Slots(Protocol[T]):
    """The slots of one node. One slot is open at a time."""

    def open(self, round: int) -> None:
        """Start the slot of that round."""

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:
        """Take a record in the order of its partition; `now` in seconds, infinite without a clock."""

    def behind(self, now: float) -> bool:
        """Whether records are to wait where they are until a slot is opened: never a matter of theirs."""

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

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:  # noqa: ARG002 # as `ready`
        """Take the next record. Raises ValueError for a second partition."""
        if arrival.partition != 0:
            raise ValueError(f"partition {arrival.partition}: slots by count need a topic of one partition")
        self._waiting.append(arrival)

    def behind(self, now: float) -> bool:  # noqa: ARG002 # as `ready`
        """Return False: `waiting` alone says how many wait."""
        return False

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
        return ClosedSlot(self._round, values, self._next, places=places(taken))


def places(arrivals: list[Arrival[T]]) -> tuple[Place, ...]:
    """Return where records stand."""
    return tuple([(arrival.partition, arrival.offset) for arrival in arrivals])
