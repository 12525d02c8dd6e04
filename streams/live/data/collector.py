"""Collects records into slots: Faust's loop adds them, other threads open slots, under a lock.

A slot closes when its last condition is met: in `open` if enough records wait, otherwise in the loop.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Protocol

from nodes.machine.events import OpenSlot, SlotClosed
from nodes.machine.journal import DataPosition
from nodes.machine.partition_slots import Backlog, OffsetSpan, PartitionSlots
from nodes.machine.slots import Arrival, ClosedSlot, LatePolicy, Place, Slots
from nodes.privacy.private import Private
from nodes.values import BoolArray, Observations
from streams.metrics.private import DataCounts
from streams.records.decoder import SchemaDecoder
from streams.records.faults import Fault, NotARecord
from streams.records.observed import observed, seated, slot_closed
from streams.records.record import Decoder
from streams.records.replay import ReplaySlots

CountFaults = Callable[[Sequence[Place], Sequence[Fault | None]], None]
"""Counts faults, given the places of records and the fault of each (None: the record decodes)."""
Placement = Callable[[Arrival[bytes]], Arrival[bytes] | NotARecord]
"""Returns a message with its record's time, or the reason that it is no record."""
AHEAD = 256
"""Records that may wait while no slot is open. With more, the loop would use up the machine's time."""
REFILL = 7 / 8
"""The loop is woken for more records at this share of them, as otherwise every round would wake it."""


class SlotLabels(Protocol):
    """Labels that come later than their records."""

    def ask(self, oldest: float) -> None:
        """Request the labels of records from this time on, for a slot that is due now.

        The request replaces earlier ones.
        """

    @property
    def is_read(self) -> bool:
        """Whether the labels of the last request are read."""

    @property
    def is_away(self) -> bool:
        """Whether the labels' broker does not answer now."""

    def fill(self, slot: ClosedSlot[bytes], observations: Observations) -> Observations:
        """Return a slot's records with their labels."""


class SlotCollector:
    """The slots of one node process. `closed` gets each slot; `room` wakes the waiting task.

    `timeout`, for slots by count: seconds after which an open slot closes empty; None: never. `late`: the
    policy for records that wait (None: all are used). `faults` counts each record's fault. `placed`: returns
    a message with its record's time, with slots by time (None: each message is a record, at Kafka's time).
    `labels`: a complete slot waits for these until `labels_changed` (None: each record has its own label).
    `clock` is monotonic, for the time-out; `wall` gives seconds since 1970.
    """

    def __init__(
        self,
        slots: Callable[[], Slots[bytes]],
        decoder: Decoder,
        timeout: float | None,
        closed: Callable[[SlotClosed], None],
        room: Callable[[], None],
        late: LatePolicy | None = None,
        faults: CountFaults | None = None,
        placed: Placement | None = None,
        *,
        labels: SlotLabels | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._slots = ReplaySlots(seated(slots, decoder))
        self._decoder, self._closed, self._room = decoder, closed, room
        self._clock, self._wall = clock, wall
        self._timeout = math.inf if timeout is None or not self._slots.by_count else timeout
        self._opened: OpenSlot | None = None
        self._labels = labels
        self._unlabelled: tuple[OpenSlot, ClosedSlot[bytes]] | None = None  # complete except for its labels
        self._unplaced = False
        self._faults, self._placed = faults, placed
        self._backlog = None if late is None else Backlog(late)
        self._told: dict[int, int] = {}  # by partition, the offsets below which `faults` knows the records
        self._moved = False
        self._deadline = math.inf
        self._settled = -math.inf
        self._blocked = False
        self._counts = DataCounts()
        self._lock = Lock()

    @property
    def counts(self) -> Private[DataCounts]:
        """The counts so far."""
        return Private(replace(self._counts))

    @property
    def next(self) -> dict[int, int]:
        """The offset of each partition's next record."""
        with self._lock:
            return dict(self._slots.next)

    @property
    def blocked(self) -> bool:
        """Whether the records added last wait for room."""
        return self._blocked

    @property
    def unplaced(self) -> bool:
        """Whether the open slot waits for the topic's end, which gives its position or its late records."""
        return self._unplaced

    @property
    def sheds(self) -> bool:
        """Whether a late policy skips records that wait."""
        return self._backlog is not None

    @property
    def awaits_ends(self) -> bool:
        """Whether the open slot depends on the logs' ends, and the known ends are used up."""
        with self._lock:
            shares = self._open_shares()
            return shares is not None and shares.wants_ends

    @property
    def lacking(self) -> bool:
        """Whether the open slot waits for records of its share of a partition."""
        with self._lock:
            shares = self._open_shares()
            return shares is not None and shares.lacking

    def wants(self, partition: int) -> bool:
        """Return whether records of this partition are wanted.

        A partition that is far ahead waits for the others.
        """
        with self._lock:
            slots = self._slots.several
            return slots is None or slots.lacks(partition) or slots.ahead(partition) < AHEAD

    @property
    def uncounted(self) -> OffsetSpan | None:
        """The offsets whose records the late policy of the unplaced slot has not counted yet."""
        with self._lock:
            return self._missing() if self._unplaced else None

    def moved(self) -> bool:
        """Return whether a slot has begun beyond the records read, since the last call."""
        with self._lock:
            has_moved, self._moved = self._moved, False
        return has_moved

    @property
    def left(self) -> float:
        """Seconds until `expire` may have to close a slot empty."""
        with self._lock:
            is_open = self._opened is not None or self._unlabelled is not None
            return max(0.0, self._deadline - self._clock()) if is_open else self._timeout

    def over_in(self, now: float) -> float:
        """Return the seconds from `now` on until the open slot is over; infinite if records alone close it.

        Return 0 while the slot waits for the ends of the logs, or for records below them, and after it has
        begun beyond the records read, so that the reader must move there.
        """
        with self._lock:
            shares = self._open_shares()
            looks = shares is not None and (shares.wants_ends or shares.lacking)
            if self._moved or self._unplaced or looks:
                return 0.0
            return math.inf if self._opened is None else max(0.0, self._slots.over_at - now)

    def start(self, positions: Mapping[int, int], lost: int = 0) -> None:
        """Accept no record below these offsets. `lost` records had left the log before they were read."""
        with self._lock:
            if positions:
                self._slots.begin(positions)
            if self._backlog is not None:
                self._backlog.begin(positions)
            self._counts.lost += lost

    def open(self, opened: OpenSlot) -> None:
        """Open the slot, in place of one that is still open."""
        with self._lock:
            self._opened, self._unlabelled = opened, None
            unknown = False
            if self._backlog is not None:
                self._backlog.begin(dict(opened.position or ()))
                unknown = not self._backlog.has_ends or self._missing() is not None
            self._unplaced = opened.position is None or unknown
            self._deadline = self._clock() + self._timeout
            if opened.position is not None and not self._unplaced:
                self._begin(opened.round, opened.position)
            closed = self._complete()
        self._hand_on(closed)

    def place(self, ends: Mapping[int, int]) -> None:
        """Handle the topic's ends, looked up just now. An unplaced slot without a position starts there."""
        with self._lock:
            if self._backlog is not None and not (self._unplaced and self._missing()):
                self._backlog.look(ends)
            closed = self._start(tuple(sorted(ends.items())))
            if self._slots.several is not None and not self._unplaced:
                self._slots.several.look(ends)
                closed = closed or self._complete()
        self._hand_on(closed)

    def passed(self, offsets: Mapping[int, int]) -> None:
        """Note that all records below these offsets were added. The last offsets may hold no record."""
        with self._lock:
            if self._slots.several is not None:
                self._slots.several.passed(offsets)
            closed = self._complete()
        self._hand_on(closed)

    def count(self, partition: int, offsets: Sequence[int], end: int) -> None:
        """Record the offsets of a partition's next uncounted records, which are all below `end`."""
        with self._lock:
            if self._backlog is not None:
                self._backlog.count(partition, offsets, end)
            closed = self._start(None)
        self._hand_on(closed)

    def add(self, arrivals: Sequence[Arrival[bytes]], first: int = 0) -> tuple[int, bool]:
        """Add the records from index `first` on, by ascending offset, with the same effect as one by one.

        Return the index of the next record to add, and whether to wait for `room` before it.
        """
        blocked = False
        while first < len(arrivals) and not blocked:
            with self._lock:
                chunk = arrivals[first : first + self._at_once()]
                self._counts.records += self._slots.add_all(self._records(chunk), self._wall())
                closed = self._complete()
                blocked = self._blocked = self._full()
            first += len(chunk)
            if not self._slots.by_count:
                self._tell_arrived(chunk)
            if closed is not None:
                self._hand_on(closed)
        return first, blocked

    def _records(self, arrivals: Sequence[Arrival[bytes]]) -> Sequence[Arrival[bytes]]:
        """Return the records, at their own times; with slots by time, without messages that are no record."""
        if self._placed is None or self._slots.by_count:
            return arrivals
        records = []
        for arrival in arrivals:
            placed = self._placed(arrival)
            if isinstance(placed, NotARecord):
                self._counts.leave_out(placed, self._slots.pass_by(arrival))
            else:
                records.append(placed)
        return records

    def due(self, now: float) -> bool:
        """Return whether the open slot is over at `now`, and closes once all records up to now are added."""
        with self._lock:
            return self._opened is not None and not self._unplaced and self._slots.ready(now)

    def settle(self, moment: float) -> None:
        """Note that all records in the log at `moment` are added: slots over by then are complete."""
        with self._lock:
            self._settled = max(self._settled, moment)
            closed = self._complete()
        self._hand_on(closed)

    def expire(self) -> None:
        """Close the open slot empty if its time-out is over."""
        with self._lock:
            request = self._opened if self._unlabelled is None else self._unlabelled[0]
            if request is None or self._clock() < self._deadline:
                return
            empty = ClosedSlot[bytes](request.round, (), request.position or ())
            closed = empty if self._unplaced or self._unlabelled is not None else self._slots.take()
            self._opened, self._unplaced, self._unlabelled = None, False, None
        self._hand_on(closed)

    def labels_changed(self) -> None:
        """Close a slot that waits for labels if they are read; a slot by time, empty, if nobody answers."""
        with self._lock:
            if self._unlabelled is None or self._labels is None:
                return
            _, slot = self._unlabelled
            if not self._labels.is_read:
                if self._slots.by_count or not self._labels.is_away:
                    return
                self._counts.unlabelled += len(slot.values)
                slot = slot._replace(values=(), places=(), times=())
            self._unlabelled = None
        self._hand_on(slot)

    def _count_no_records(self, slot: ClosedSlot[bytes], observations: Observations) -> None:
        """Count the messages of a slot by count that are no record, and so no fault either."""
        if observations.present.all():
            return
        for value, present in zip(slot.values, observations.present.tolist(), strict=True):
            reason = None if present else self._no_record(value)
            if reason is not None:
                self._counts.malformed -= 1
                self._counts.leave_out(reason, 1)

    def _no_record(self, value: bytes) -> NotARecord | None:
        """Return why a message is no record; None if it may be one."""
        return self._decoder.no_record(value) if isinstance(self._decoder, SchemaDecoder) else None

    def _open_shares(self) -> PartitionSlots[bytes] | None:
        """Return the slots by count of several partitions, if one is open."""
        return None if self._opened is None else self._slots.several

    def _missing(self) -> OffsetSpan | None:
        """Return offsets whose number of waiting records is unknown and may exceed the limit."""
        if self._opened is None or self._opened.position is None:  # no records wait
            return None
        return None if self._backlog is None else self._backlog.uncounted

    def _start(self, ends: DataPosition | None) -> ClosedSlot[bytes] | None:
        """Begin the unplaced slot if its place is known (`ends` without a position); return it if full."""
        if self._opened is None or not self._unplaced or self._missing() is not None:
            return None
        position = self._opened.position if self._opened.position is not None else ends
        if position is None:
            return None
        self._unplaced = False
        self._begin(self._opened.round, position)
        return self._complete()

    def _begin(self, round: int, position: DataPosition) -> None:
        """Open the slot there, or later if too many records wait. Offsets may hold no record."""
        if self._backlog is not None:
            position, passed = self._backlog.pass_over(position)
            self._counts.skipped += passed
        offsets_before = dict(self._slots.next)
        self._slots.open(round, position)
        self._moved |= self._slots.next != offsets_before

    def _complete(self) -> ClosedSlot[bytes] | None:
        if self._opened is None or self._unplaced or not self._slots.ready(self._settled):
            return None
        request, self._opened = self._opened, None
        slot = self._slots.take()
        if self._labels is None:
            return slot
        self._unlabelled = request, slot
        self._labels.ask(self._slots.oldest(slot))
        return None

    def _full(self) -> bool:
        if self._opened is not None and not self._unplaced:
            return False
        return self._slots.waiting >= AHEAD if self._slots.by_count else self._slots.behind(self._wall())

    def _at_once(self) -> int:
        """Return how many records can be added before a slot closes or there is no more room."""
        if not self._slots.by_count:
            return 1
        is_open = self._opened is not None and not self._unplaced
        return max(1, self._slots.missing if is_open else AHEAD - self._slots.waiting)

    def _wants_more(self) -> bool:
        if not self._slots.by_count:  # these slots limit themselves, and no record may delay another
            return not self._full()
        is_open = self._opened is not None and not self._unplaced
        return is_open or self._slots.waiting <= REFILL * AHEAD

    def _tell_arrived(self, arrivals: Sequence[Arrival[bytes]]) -> None:
        """Report records of slots by time as they come, as which of them a full slot has would reveal a
        place.
        """
        for arrival in arrivals if self._faults is not None else ():
            decodes = self._decoder.decode(arrival.value) is not None
            self._tell_faults([(arrival.partition, arrival.offset)], [arrival.value], [decodes])

    def _tell_faults(
        self, places: Sequence[Place], values: Sequence[bytes], present: Sequence[bool] | BoolArray
    ) -> None:
        """Report records' faults, each once, although a slot from which nothing was learnt closes again."""
        if self._faults is None or not places:
            return
        untold_places, faults = list[Place](), list[Fault | None]()
        for (partition, offset), value, decodes in zip(places, values, present, strict=True):
            if offset >= self._told.get(partition, 0):
                self._told[partition] = offset + 1
                if decodes or self._no_record(value) is None:
                    untold_places.append((partition, offset))
                    faults.append(None if decodes else self._decoder.fault(value))
        if untold_places:
            self._faults(untold_places, faults)

    def _hand_on(self, slot: ClosedSlot[bytes] | None) -> None:
        """Pass on a closed slot, without the lock, and wake the task that waits for room."""
        if slot is not None:
            observations = observed(slot.values, self._decoder)
            if self._labels is not None and slot.values:
                observations = self._labels.fill(slot, observations)
            self._counts.close(slot, observations)
            self._count_no_records(slot, observations)
            self._closed(slot_closed(slot, observations, self._decoder))
            if self._slots.by_count:
                self._tell_faults(slot.places, slot.values, observations.present)
        with self._lock:
            woken = self._blocked and self._wants_more()
            self._blocked = self._blocked and not woken
        if woken:
            self._room()
