"""Fills slots from a stream of records. It can open a slot again."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import attrgetter

from nodes.machine.journal import DataPosition
from nodes.machine.partition_slots import PartitionSlots
from nodes.machine.slots import Arrival, ClosedSlot, CountSlots, Slots, TimeSlots

_PARTITION = attrgetter("partition")


class ReplaySlots:
    """Slots that can be opened again, at the position of the last slot opened or a later one.

    With slots by count, records from that position on are stored, as a slot from which nothing was learnt is
    read again. With slots by time none are stored, as the records of a slot are late for every later slot.
    """

    def __init__(self, slots: Callable[[], Slots[bytes]]) -> None:
        self._new_slots, self._slots = slots, slots()
        self._kept: dict[int, deque[Arrival[bytes]]] = {}
        self._position: DataPosition | None = None  # the start of the open slot, or else of the next
        self._round = 0
        self._log: dict[int, int] | None = None  # where the reading of several partitions began
        self.next: dict[int, int] = {}
        self.by_count = isinstance(self._slots, CountSlots)

    @property
    def missing(self) -> int:
        """With slots by count of one partition, the number of records until the slot is full."""
        return self._slots.missing if isinstance(self._slots, CountSlots) else 0

    @property
    def several(self) -> PartitionSlots[bytes] | None:
        """The slots by count of several partitions; None for one partition, and for slots by time."""
        return self._slots if isinstance(self._slots, PartitionSlots) else None

    @property
    def waiting(self) -> int:
        """The number of waiting records."""
        return self._slots.waiting

    def begin(self, offsets: Mapping[int, int]) -> None:
        """Skip all records below these offsets, which name all partitions that exist."""
        self.skip_ahead(offsets)
        if self.by_count and offsets.keys() != {0}:
            self._log = dict(offsets)
            self._slots = self._anew()
            self._slots.open(self._round)

    def skip_ahead(self, positions: Mapping[int, int]) -> None:
        """Skip all records below these offsets."""
        self.next |= {part: max(offset, self.next.get(part, 0)) for part, offset in positions.items()}

    def add(self, arrival: Arrival[bytes], now: float = math.inf) -> bool:
        """Add the next record of its partition; return False if it is not needed."""
        if arrival.offset < self.next.get(arrival.partition, 0):
            return False
        self._slots.add(arrival, now)
        self.next[arrival.partition] = arrival.offset + 1
        if self.by_count:
            self._kept.setdefault(arrival.partition, deque()).append(arrival)
        return True

    def pass_by(self, arrival: Arrival[bytes]) -> bool:
        """Skip a message that is no record, with slots by time; return False if it is not needed."""
        if arrival.offset < self.next.get(arrival.partition, 0) or not isinstance(self._slots, TimeSlots):
            return False
        self._slots.pass_by(arrival.partition, arrival.offset)
        self.next[arrival.partition] = arrival.offset + 1
        return True

    def add_all(self, arrivals: Sequence[Arrival[bytes]], now: float = math.inf) -> int:
        """Add ascending records of each partition as `add` does; return how many are needed."""
        slots = self._slots
        # records of one partition, in order: if the first is needed, all are
        needed = bool(arrivals) and arrivals[0].offset >= self.next.get(0, 0)
        if not isinstance(slots, CountSlots) or not needed or any(map(_PARTITION, arrivals)):
            return sum(self.add(arrival, now) for arrival in arrivals)
        slots.extend(arrivals)
        self._kept.setdefault(0, deque()).extend(arrivals)
        self.next[0] = arrivals[-1].offset + 1
        return len(arrivals)

    def open(self, round: int, position: DataPosition) -> None:
        """Open the slot of that round at that position."""
        self.skip_ahead(dict(position))
        is_other_place = position != self._position
        self._position, self._round = position, round
        if self.by_count:
            firsts = dict(position)
            for part, records in self._kept.items():
                while records and records[0].offset < firsts.get(part, 0):
                    records.popleft()
            if is_other_place:
                self._slots = self._anew()
                for arrival in chain.from_iterable(self._kept.values()):
                    self._slots.add(arrival)
        self._slots.open(round)

    def _anew(self) -> Slots[bytes]:
        """Return slots without a record that begin at the position."""
        slots = self._new_slots()
        if self._log is None or not isinstance(slots, CountSlots):
            return slots
        return PartitionSlots(slots.size, self._log | dict(self._position or ()))

    def oldest(self, slot: ClosedSlot[bytes]) -> float:
        """Return a time that no record of a slot precedes; with slots by time the start of its period."""
        if isinstance(self._slots, TimeSlots):
            return self._slots.begin(slot.round) - self._slots.delay
        return min(slot.times, default=math.inf)

    def behind(self, now: float) -> bool:
        """Return whether records must wait outside until a slot is opened; `now` in seconds."""
        return self._slots.behind(now)

    @property
    def over_at(self) -> float:
        """The time from which on the open slot accepts no record; infinite for slots by count."""
        return self._slots.over_at

    def ready(self, now: float) -> bool:
        """Return whether the open slot is complete; `now` in seconds."""
        return self._slots.ready(now)

    def take(self) -> ClosedSlot[bytes]:
        """Close the open slot; its position names every known partition."""
        closed = self._slots.take()
        self._position = tuple(sorted((dict(self._position or ()) | dict(closed.position)).items()))
        return closed._replace(position=self._position)
