"""Slots by time: slot = floor((timestamp - start)/period) + 1, and a record is of no other.

Each holds the first h of its records by (timestamp, partition, offset): one record more or less changes its
own slot alone. The clock is the caller's: no record moves it.
"""

import math
from bisect import insort
from typing import Generic, TypeVar

from nodes.machine.slots import Arrival, ClosedSlot, places

T = TypeVar("T")


class TimeSlots(Generic[T]):
    """Slots of `period` seconds from `start` on, of at most `size` records.

    `horizon` (H, in periods) bounds what is kept by the clock: a record dated more than that after it is
    early, and dropped. None: no bound, for what is read without a clock.
    """

    def __init__(
        self, size: int, start: float, period: float, grace: float, horizon: int | None = None
    ) -> None:
        self._size, self._start, self._period, self._grace = size, start, period, grace
        self._horizon = math.inf if horizon is None else horizon
        self._round = 0
        self._waiting: dict[int, list[Arrival[T]]] = {}  # the first `size` of each slot, in order
        self._next: dict[int, int] = {}
        self._late = self._early = self._overfull = 0

    def round_of(self, timestamp: float) -> int:
        """Return the slot of that timestamp; 0: before the start, or further away than there are numbers."""
        periods = (timestamp - self._start) / self._period
        return math.floor(periods) + 1 if 0 <= periods < math.inf else 0

    def open(self, round: int) -> None:
        """Start the slot of that round; records of earlier ones are dropped."""
        self._round = round
        for passed in [number for number in self._waiting if number < round]:
            self._late += len(self._waiting.pop(passed))

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:
        """Keep a record for its slot; drop it if that is closed, too far ahead, or full of earlier ones."""
        self._next[arrival.partition] = max(self._next.get(arrival.partition, 0), arrival.offset + 1)
        number = self.round_of(arrival.timestamp)
        if number < max(self._round, 1) or self._passed_over(number, now):
            self._late += 1
        elif arrival.timestamp > now + self._horizon * self._period:
            self._early += 1
        else:
            kept = self._waiting.setdefault(number, [])
            insort(kept, arrival, key=_order)
            if len(kept) > self._size:
                kept.pop()
                self._overfull += 1

    def ready(self, now: float) -> bool:
        """Whether the slot's end and the grace are over."""
        return now >= self._start + self._round * self._period + self._grace

    def behind(self, now: float) -> bool:
        """Whether the clock is more than H rounds ahead: what is read now would only lie about."""
        return self.round_of(now) > self._round + self._horizon

    @property
    def waiting(self) -> int:
        """How many records wait for this slot or a later one."""
        return sum(map(len, self._waiting.values()))

    def take(self) -> ClosedSlot[T]:
        """Close the slot with the first `size` of its records; the rest are dropped."""
        taken = self._waiting.pop(self._round, [])
        position = dict(self._next)
        for kept in self._waiting.values():
            for arrival in kept:
                position[arrival.partition] = min(position[arrival.partition], arrival.offset)
        late, early, overfull = self._late, self._early, self._overfull
        self._late = self._early = self._overfull = 0
        return ClosedSlot(
            self._round,
            tuple([arrival.value for arrival in taken]),
            tuple(sorted(position.items())),
            late,
            overfull,
            places(taken),
            early,
        )

    def _passed_over(self, number: int, now: float) -> bool:
        """Whether no plan will have that round: those who are so far behind the clock go on at its round.

        Plans lead by H at most, so from the open slot on two times H are safe; as many are left for clocks
        that differ.
        """
        if not self._round or not math.isfinite(now):
            return False
        return self._round + 2 * self._horizon < number < self.round_of(now) - 2 * self._horizon


def _order(arrival: Arrival[T]) -> tuple[float, int, int]:
    return arrival.timestamp, arrival.partition, arrival.offset
