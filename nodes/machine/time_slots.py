"""Slots by time: a record belongs to slot floor((timestamp - start)/period) + 1 only.

Each slot holds the first h of its records by (timestamp, partition, offset), so one record more or less
changes its own slot alone. The caller has the clock: no record moves it.
"""

import math
from bisect import insort
from typing import Generic, TypeVar

from nodes.machine.slots import Arrival, ClosedSlot, places

T = TypeVar("T")


class TimeSlots(Generic[T]):
    """Slots of `period` seconds from `start` on, with at most `size` records.

    `horizon` (H, in periods) limits early records: one dated more than that after the clock is dropped. None:
    no limit, for reading without a clock, or old records.
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
        """Return the slot of that timestamp; 0: before the start, or beyond the largest round."""
        periods = (timestamp - self._start) / self._period
        return math.floor(periods) + 1 if 0 <= periods < math.inf else 0

    def begin(self, round: int) -> float:
        """Return when the slot of that round begins."""
        return self._start + (round - 1) * self._period

    def end(self, round: int) -> float:
        """Return when the slot of that round ends."""
        return self._start + round * self._period

    def open(self, round: int) -> None:
        """Open the slot of that round; drop records of earlier ones."""
        self._round = round
        for passed in [number for number in self._waiting if number < round]:
            self._late += len(self._waiting.pop(passed))

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:
        """Keep a record for its slot; drop it if that is closed, too far ahead, or full of earlier ones."""
        self.pass_by(arrival.partition, arrival.offset)
        number = self.round_of(arrival.timestamp)
        if number < max(self._round, 1) or self._passed_over(number, now):
            self._late += 1
        elif arrival.timestamp > now + self._horizon * self._period:
            self._early += 1
        else:
            slot = self._waiting.setdefault(number, [])
            insort(slot, arrival, key=_order)
            if len(slot) > self._size:
                slot.pop()
                self._overfull += 1

    def pass_by(self, partition: int, offset: int) -> None:
        """Leave out what is no record, at that place."""
        self._next[partition] = max(self._next.get(partition, 0), offset + 1)

    def ready(self, now: float) -> bool:
        """Return whether the slot's end and the grace are over."""
        return now >= self.over_at

    @property
    def over_at(self) -> float:
        """The end of the open slot and its grace, in seconds."""
        return self.end(self._round) + self._grace

    def behind(self, now: float) -> bool:
        """Return whether the clock is more than H rounds ahead, so that new records would only pile up."""
        return self.round_of(now) > self._round + self._horizon

    @property
    def waiting(self) -> int:
        """The number of records that wait for this slot or a later one."""
        return sum(map(len, self._waiting.values()))

    def take(self) -> ClosedSlot[T]:
        """Close the slot with the first `size` of its records; the rest are dropped."""
        arrivals = self._waiting.pop(self._round, [])
        position = dict(self._next)
        for later_slot in self._waiting.values():
            for arrival in later_slot:
                position[arrival.partition] = min(position[arrival.partition], arrival.offset)
        late, early, overfull = self._late, self._early, self._overfull
        self._late = self._early = self._overfull = 0
        return ClosedSlot(
            self._round,
            tuple([arrival.value for arrival in arrivals]),
            tuple(sorted(position.items())),
            late,
            overfull,
            places(arrivals),
            early,
            tuple(sorted(self._next.items())),
        )

    def _passed_over(self, number: int, now: float) -> bool:
        """Return whether no plan will have that round, as nodes far behind the clock continue at its round.

        Plans lead by at most H, so 2H from the open slot on are safe; 2H more allow for differing clocks.
        """
        if not self._round or not math.isfinite(now):
            return False
        return self._round + 2 * self._horizon < number < self.round_of(now) - 2 * self._horizon


def _order(arrival: Arrival[T]) -> tuple[float, int, int]:
    return arrival.timestamp, arrival.partition, arrival.offset
