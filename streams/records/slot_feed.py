"""Feeds a node's records from its source into slots, in one process."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import inf

import numpy as np

from nodes.machine.events import OpenSlot, SlotClosed
from nodes.machine.journal import DataPosition
from nodes.machine.slots import Arrival, ClosedSlot, CountSlots, Slots, TimeSlots
from nodes.privacy.private import Private
from nodes.values import Observations
from streams.records.decoder import SchemaDecoder
from streams.records.faults import NO_TIME, Fault, FaultCounts
from streams.records.observed import kept_back, observed, seated, slot_closed
from streams.records.record import Decoder, RawRecord

MOST_COUNTED = 1_000_000
"""The most records of a source that are read only to count them."""


@dataclass(slots=True)
class RecordCounts:
    """Counts of one process: the records that it read, with their faults, and those that entered no slot.

    `read` has all records up to the end of the last slot closed, whether they are in a slot or not. `untimed`
    records have no readable time, which is a fault too. `late` records are before the first slot. `overfull`
    ones were more than their slot can have. `learnt`: the readable records that entered a slot.
    """

    read: FaultCounts = field(default_factory=FaultCounts)
    untimed: int = 0
    late: int = 0
    overfull: int = 0
    learnt: int = 0


class DataLog:
    """A node's data topic in memory.

    It is read lazily from its source, and kept from the last journalled position.
    """

    has_end = True
    """Whether no more records come after the last one, so that it ends the last slot by count."""

    def __init__(self, records: Iterator[RawRecord]) -> None:
        self._records = records
        self._kept: deque[RawRecord] = deque()
        self._first = 0

    @property
    def end(self) -> int:
        """The offset after the last record read."""
        return self._first + len(self._kept)

    def read(self, offset: int) -> RawRecord | None:
        """Return the record at `offset`, which must not be trimmed; None if the source has ended."""
        place = offset - self._first
        while place >= len(self._kept):
            record = next(self._records, None)
            if record is None:
                return None
            self._kept.append(record)
        return self._kept[place]

    def read_on(self, offset: int, count: int) -> list[RawRecord]:
        """Return up to `count` records from `offset` on, which must not be trimmed."""
        place = offset - self._first
        self._kept.extend(islice(self._records, max(0, place + count - len(self._kept))))
        return list(islice(self._kept, place, place + count))

    def trim(self, offset: int) -> None:
        """Drop the records below `offset`, also those that are not read yet."""
        while self._kept and self._first < offset:
            self._kept.popleft()
            self._first += 1
        if self._first < offset:
            deque(islice(self._records, offset - self._first), maxlen=0)
            self._first = offset

    def after(self, offset: int) -> int:
        """Return the number of records from `offset` on. It reads at most `MOST_COUNTED` + 1 more."""
        return self.end - offset + sum(1 for _ in islice(self._records, MOST_COUNTED + 1))


class SlotFeed:
    """Closes the slots of one node process, without a clock.

    For slots by time the records are in order of time, those without one first; empty slots close too. The
    last slot by count is short if the slots' size does not divide the records. How many there are is public
    with slots by count, and whatever they hold, each lies in the slot that its place gives it.
    """

    def __init__(self, log: DataLog, slots: Callable[[], Slots[bytes]], decoder: Decoder) -> None:
        self._log, self._new_slots, self._decoder = log, seated(slots, decoder), decoder
        self._slots = self._new_slots()
        self._at: int | None = None
        self._read_to = 0  # the slot of the last record, by time
        self._unsettled: list[tuple[int, int, bytes]] = []  # by time: (slot, offset, value)
        self._position: DataPosition | None = None  # after the last slot closed
        self._counts = RecordCounts()

    @property
    def counts(self) -> Private[RecordCounts]:
        """The counts so far."""
        return Private(self._counts)

    def close(self, opened: OpenSlot) -> SlotClosed | None:
        """Close the opened slot and return it; None if the source has no records left for it."""
        records = self.take(opened)
        return None if records is None else self.closed(*records)

    def closed(self, slot: ClosedSlot[bytes], observations: Observations) -> SlotClosed:
        """Return a slot from `take` in the machine's form."""
        return slot_closed(slot, observations, self._decoder)

    def emptied(self, slot: ClosedSlot[bytes]) -> SlotClosed:
        """Return a slot from `take` without its records."""
        return self.closed(slot._replace(values=(), places=(), times=()), observed((), self._decoder))

    def take(self, opened: OpenSlot) -> tuple[ClosedSlot[bytes], Observations] | None:
        """Close the opened slot, and return its records; None if the source has no records left for it."""
        first = self._offset(opened.position)
        if self._at is None or opened.position != self._position:  # nothing was learnt from this slot
            self._slots, self._read_to = self._new_slots(), 0
            self._at = first
            self._unsettled.clear()
        self._log.trim(first)
        self._slots.open(opened.round)
        if isinstance(self._slots, CountSlots):
            records = self._log.read_on(self._at, self._slots.missing)
            self._slots.extend([_arrival(self._at + k, record) for k, record in enumerate(records)])
            self._at += len(records)
            if self._slots.missing and self._log.has_end:
                self._slots.end()
        while not self._complete(opened.round):
            record = self._log.read(self._at)
            if record is None:
                if isinstance(self._slots, TimeSlots):
                    break
                return None
            arrival = _arrival(self._at, record)
            self._slots.add(arrival)
            if isinstance(self._slots, TimeSlots):
                self._read_to = self._slots.round_of(arrival.timestamp + self._slots.delay)
                if record.timestamp is None:
                    self._untimed(record.value)
                else:
                    self._unsettled.append((self._read_to, self._at, record.value))
            self._at += 1
        closed = self._slots.take()
        self._position = closed.position
        observations = observed(closed.values, self._decoder)
        self._count(closed, observations)
        self._count_dropped(closed)
        return closed, observations

    def _count(self, closed: ClosedSlot[bytes], observations: Observations) -> None:
        counts, present = self._counts, observations.present
        counts.late += closed.late
        counts.overfull += closed.overfull
        readable, withheld = int(np.count_nonzero(present)), kept_back(closed, self._decoder)
        counts.learnt += readable if withheld is None else int(np.count_nonzero(present & ~withheld))
        if readable == len(closed.values):
            counts.read.records += len(closed.values)
            return
        for value, is_present in zip(closed.values, present.tolist(), strict=True):
            counts.read.add(None if is_present else self._decoder.fault(value))

    def _count_dropped(self, closed: ClosedSlot[bytes]) -> None:
        """Count the faults of records by time that are in no slot, up to this slot.

        If records tie in an overfull slot, their places decide which of them the slot has. So the count
        includes the others. Otherwise the count, and with it the exit code, would reveal a place.
        """
        if not self._unsettled:  # with slots by count there are none
            return
        entered = {offset for _, offset in closed.places}
        settled = [record for record in self._unsettled if record[0] <= closed.round]
        self._unsettled = self._unsettled[len(settled) :]  # they are in order of time
        for _, offset, value in settled:
            if offset not in entered:
                decoder = self._decoder
                self._counts.read.add(None if decoder.decode(value) is not None else decoder.fault(value))

    def _untimed(self, value: bytes) -> None:
        self._counts.untimed += 1
        self._counts.late -= 1  # its slot counts it there too
        decoder = self._decoder
        fault = decoder.time_fault(value) if isinstance(decoder, SchemaDecoder) else None
        self._counts.read.add(fault or Fault(None, NO_TIME))

    def _complete(self, round: int) -> bool:
        if isinstance(self._slots, TimeSlots):
            return self._read_to > round
        return self._slots.ready(inf)

    def _offset(self, position: DataPosition | None) -> int:
        if position is None:
            return self._log.end
        return position[0][1] if position else 0


def _arrival(offset: int, record: RawRecord) -> Arrival[bytes]:
    """Return the record at this place. A record without a time is before every slot."""
    return Arrival(0, offset, -inf if record.timestamp is None else record.timestamp, record.value)
