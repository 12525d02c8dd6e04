"""Assigns records to slots, independent of their content.

`CountSlots` take the next h records by offset from one partition, and `nodes.machine.partition_slots` from
several. `TimeSlots` are slots by time. The shell adds records as they arrive, and asks `ready`. A slot by
count that is taken before it is ready (`slot_timeout`) is empty, and its records wait for the next. Where a
stream has an end, its last slot by count holds the records that are left.
"""

import math
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, Protocol, TypeVar

from nodes.machine.journal import DataPosition
from nodes.privacy.unit import has_seat

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

    `places` are the places of the values. `read`: the offsets after the last record that this slot or an
    earlier one may hold; (): the same as the position. `times`: the timestamps of the values.
    """

    round: int
    values: tuple[T, ...]
    position: DataPosition
    late: int = 0
    overfull: int = 0
    places: tuple[Place, ...] = ()
    early: int = 0
    read: DataPosition = ()
    times: tuple[float, ...] = ()


class Slots(Protocol[T]):
    """The slots of one node; one is open at a time."""

    def open(self, round: int) -> None:
        """Open the slot of that round."""

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:
        """Add a record in the order of its partition; `now` in seconds, infinite without a clock."""

    def behind(self, now: float) -> bool:
        """Return whether no record may be added until a slot is opened, independent of their content."""

    def ready(self, now: float) -> bool:
        """Return whether the open slot is complete; `now` in seconds."""

    @property
    def over_at(self) -> float:
        """The time in seconds from which on the open slot is complete; infinite if only records decide."""

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
        self._ended = False

    def open(self, round: int) -> None:
        """Open the slot of that round."""
        self._round = round

    def end(self) -> None:
        """Note that no record is to come: the last slot has the records that are left, if there are any."""
        self._ended = True

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:  # noqa: ARG002 # as `ready`
        """Add the next record. Raises ValueError unless it is of partition 0, the only one read."""
        if arrival.partition != 0:
            raise ValueError(f"partition {arrival.partition}: these slots accept partition 0 only")
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
        """Return whether `size` records are there, or the last ones of a stream that has ended."""
        return len(self._waiting) >= (1 if self._ended else self.size)

    @property
    def over_at(self) -> float:
        """Infinite: its records alone close a slot."""
        return math.inf

    @property
    def waiting(self) -> int:
        """The number of waiting records."""
        return len(self._waiting)

    def take(self) -> ClosedSlot[T]:
        """Close the slot: empty, and its records wait, if it is not `ready`."""
        if not self.ready(math.inf):
            position = ((0, self._waiting[0].offset),) if self._waiting else self._next
            return ClosedSlot(self._round, (), position)
        arrivals = [self._waiting.popleft() for _ in range(min(self.size, len(self._waiting)))]
        self._next = ((0, arrivals[-1].offset + 1),)
        values = tuple([arrival.value for arrival in arrivals])
        return ClosedSlot(self._round, values, self._next, places=places(arrivals), times=times(arrivals))


def places(arrivals: list[Arrival[T]]) -> tuple[Place, ...]:
    """Return the places of records."""
    return tuple([(arrival.partition, arrival.offset) for arrival in arrivals])


def times(arrivals: list[Arrival[T]]) -> tuple[float, ...]:
    """Return the times of records."""
    return tuple([arrival.timestamp for arrival in arrivals])


# Slots by time: a record belongs to slot floor((timestamp - start)/period) + 1 only.
#
# Each slot holds the first h of its records by (timestamp, partition, offset), so one record more or less
# changes its own slot alone. The caller passes the clock, which no record moves.
#
# With a delay a record belongs to the slot of timestamp + delay. The delay is one public number, so this is
# the same stream with all timestamps moved alike: what holds of slots without a delay holds of it.
#
# With a privacy unit a slot holds the first h of one record a unit: the earliest of each unit that has a seat
# in it (`nodes.privacy.unit`). The bound comes before the limit of h, as behind it one unit could empty every
# slot. A unit's earliest record only moves forward as records arrive, so what was dropped as beyond the first
# h stays beyond them.


class TimeSlots(Generic[T]):
    """Slots of `period` seconds from `start` on, with at most `size` records.

    `horizon` (H, in periods) limits early records: one dated more than that after the clock is dropped. None:
    no limit, for reading without a clock, or old records. `delay`: seconds that all records wait.
    """

    def __init__(
        self,
        size: int,
        start: float,
        period: float,
        grace: float,
        horizon: int | None = None,
        delay: float = 0.0,
    ) -> None:
        self._size, self._start, self._period, self._grace = size, start, period, grace
        self.delay = delay
        self._horizon = math.inf if horizon is None else horizon
        self._round = 0
        self._waiting: dict[int, list[Arrival[T]]] = {}  # the first `size` of each slot, in order
        self._next: dict[int, int] = {}
        self._seated: dict[int, dict[int, Arrival[T]]] = {}  # by slot and unit, the records that wait
        self._late = self._early = self._overfull = 0
        self.apart = 0
        """The rounds between two seats of a unit; 0: without units."""
        self.unit_of: Callable[[T], int | None] = lambda _: None
        """Returns the number of a record's unit; None if it cannot be read."""

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
            self._seated.pop(passed, None)

    def add(self, arrival: Arrival[T], now: float = math.inf) -> None:
        """Keep a record for its slot; drop it if that is closed, too far ahead, or full of earlier ones."""
        self.pass_by(arrival.partition, arrival.offset)
        number = self.round_of(arrival.timestamp + self.delay)
        if number < max(self._round, 1) or self._passed_over(number, now):
            self._late += 1
        elif arrival.timestamp > now + self._horizon * self._period:
            self._early += 1
        elif not self.apart or self._seat(arrival, number):
            slot = self._waiting.setdefault(number, [])
            insort(slot, arrival, key=_order)
            if len(slot) > self._size:
                last = slot.pop()
                self._overfull += 1
                if self.apart:
                    seated = self._seated[number]
                    seated.pop(next(unit for unit, record in seated.items() if record is last))

    def _seat(self, arrival: Arrival[T], number: int) -> bool:
        """Return whether a record has its unit's seat in that slot, in place of a later one."""
        unit = self.unit_of(arrival.value)
        if unit is None or not has_seat(unit, number, self.apart):
            return False
        seated = self._seated.setdefault(number, {})
        before = seated.get(unit)
        if before is not None and _order(before) <= _order(arrival):
            return False
        if before is not None:
            self._waiting[number].remove(before)
        seated[unit] = arrival
        return True

    def pass_by(self, partition: int, offset: int) -> None:
        """Pass over the place, which holds no record."""
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
        self._seated.pop(self._round, None)
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
            times(arrivals),
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


# Policies of a node that has fallen behind: which waiting records it passes over, with slots by count.
#
# A policy depends on the number of waiting records alone, which is public. Contents are never read.


@dataclass(frozen=True, slots=True)
class LatePolicy:
    """Begins a slot of `size` records further on where too many wait.

    `drop-oldest`: of more than `most` the newest `most` are left. `sample`: while k times `most` wait, with k
    of 2 or more, each slot is the last of k: about one record in k is learnt from, evenly.

    Raises ValueError unless `most` is at least `size`.
    """

    kind: Literal["drop-oldest", "sample"]
    most: int
    size: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.most:
            raise ValueError(f"most is {self.most}: must be at least {self.size}, the records of a slot")

    def begin(self, first: int, end: int) -> int:
        """Return the number of the record at which a slot begins that could begin with number `first`.

        `end`: the number of the next record to come. Offsets do not count records: a transaction's marker has
        one, and compaction leaves some out.
        """
        waiting = end - first
        if waiting <= self.most:
            return first
        if self.kind == "drop-oldest":
            return end - self.most
        return first + (waiting // self.most - 1) * self.size
