"""Slots by count from several partitions: public numbers alone decide which records a slot takes.

The order in which a client reads partitions depends on the bytes of their records. If it decided the slots, a
longer record would move every later one. A slot depends instead on the ends of the partitions at a moment,
which the broker reports whatever the records hold.

The rule. With P the next offset of each partition and E its end as last looked up, a slot that still lacks
n records takes from each partition its share of the next n offsets of the E - P that wait: n (E - P)/sum(E
- P), rounded by largest remainder, ties to the lower partition. Offsets without a record, as markers of
transactions are, give none, and the slot takes its shares again until it is full. Only when nothing waits
below the ends are they looked up anew. Within a partition records come by offset.

Proof that nothing in a record decides where another lies: shares are a function of positions and ends.
Positions are sums of earlier shares, and how often shares are taken depends on how many offsets hold a
record. Ends, positions and which offsets hold records are counts, and public with slots by count. The bytes
of a record, and the time at which a client receives it, do not enter the rule: a record that has not arrived
yet is waited for. A look must request the ends of all partitions at once. The ends that fetches report would
be of different moments, which depend on how far each partition was fetched. The moment at which a look is
made is time, which no proof here covers.

Append times, where all partitions have them, do not order the slots. With them the order would still depend
on the moment of a look: ends are not looked up at one instant, each partition's leader has its own clock, and
append times may go back when the leader changes. So a record of a later or an idle partition may still arrive
with an append time before that of a taken record, and a reader that begins anew would find another order.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from nodes.machine.journal import DataPosition
from nodes.machine.slots import Arrival, ClosedSlot, LatePolicy, places, times

T = TypeVar("T")


def shares(waiting: Mapping[int, int], size: int) -> dict[int, int]:
    """Return how many of the next `size` offsets each partition gives, in order of partitions.

    `waiting`: its offsets below the end. All of them where no more than `size` wait. By largest remainder,
    ties to the lower partition; the sum is min(size, sum of `waiting`).
    """
    total = sum(waiting.values())
    if total <= size:
        return dict(sorted(waiting.items()))
    counts = {part: size * count // total for part, count in sorted(waiting.items())}
    rest = size - sum(counts.values())
    by_remainder = sorted(counts, key=lambda part: (-(size * waiting[part] % total), part))
    for part in by_remainder[:rest]:
        counts[part] += 1
    return counts


class PartitionSlots(Generic[T]):
    """Slots of `size` records by count, from several partitions, from `first` offsets on.

    The caller adds records in the order of each partition. Whenever `awaits_ends` it passes the partitions'
    ends to `look`. It passes to `passed` how far each partition was read, as its last offsets may hold no
    record.
    """

    def __init__(self, size: int, first: Mapping[int, int]) -> None:
        self._size, self._round = size, 0
        self._next = dict(first)  # where the open slot, or the next one, begins
        self._reached = dict(first)  # up to where the open slot has taken its records
        self._target = dict(first)  # the ends of the open slot's current shares
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
        """Store the partitions' ends, as looked up just now."""
        if not self.awaits_ends:  # otherwise the slots would depend on how often ends are looked up
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
        """Whether a look would bring records: some records are added that lie beyond the known ends."""
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
        return ClosedSlot(self._round, values, position, places=places(arrivals), times=times(arrivals))

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


# The records that a late policy passes over, of all partitions together. They depend on how many records wait
# in each partition, so the proof above holds here too. Offsets do not count records, as a transaction's
# marker has an offset, and compaction leaves some out. So if too many may wait by the offsets, the caller
# looks up which offsets hold a record. The ends stay fixed until all records below them are counted, as a
# busy topic would never be counted to its end.


class OffsetSpan(NamedTuple):
    """The offsets of a partition from `first` to before `end`."""

    partition: int
    first: int
    end: int


class Backlog:
    """Where slots by count begin under a late policy, over all partitions together."""

    def __init__(self, late: LatePolicy) -> None:
        self._late = late
        self._firsts: dict[int, int] = {}  # the first offset at which the open slot may begin
        self._ends: Mapping[int, int] | None = None  # as last looked up
        self._waiting: dict[int, deque[int]] = {}  # the offsets of records from there to `_counted`
        self._counted: dict[int, int] = {}
        self._passed: dict[int, int] = {}  # the records below were passed over

    def begin(self, positions: Mapping[int, int]) -> None:
        """Note that no slot begins below these offsets."""
        for part, offset in positions.items():
            self._firsts[part] = max(offset, self._first(part))

    def look(self, ends: Mapping[int, int]) -> None:
        """Store the ends of the logs, as looked up just now."""
        self._ends = dict(ends)

    @property
    def has_ends(self) -> bool:
        """Whether the ends were looked up."""
        return self._ends is not None

    @property
    def uncounted(self) -> OffsetSpan | None:
        """Offsets to be counted, as it is unknown how many hold a record, and too many may; None: none."""
        ends = self._ends or {}
        if sum(end - self._first(part) for part, end in ends.items()) <= self._late.most:
            return None
        spans = (
            OffsetSpan(part, max(self._first(part), self._counted.get(part, 0)), end)
            for part, end in ends.items()
        )
        return next((span for span in spans if span.first < span.end), None)

    def count(self, partition: int, offsets: Sequence[int], end: int) -> None:
        """Add the offsets of a partition's next uncounted records, which are all below `end`."""
        self._waiting.setdefault(partition, deque()).extend(offsets)
        self._counted[partition] = end

    def pass_over(self, position: DataPosition) -> tuple[DataPosition, int]:
        """Return where a slot that could begin at `position` does, and how many records are newly passed."""
        self.begin(dict(position))
        for part, offsets in self._waiting.items():
            while offsets and offsets[0] < self._first(part):
                offsets.popleft()
        skips = self._skips()
        begins, newly_passed = dict(position), 0
        for part, count in skips.items():
            offsets = self._waiting[part]
            if count:
                begins[part] = offsets[count] if count < len(offsets) else self._counted[part]
                before = self._passed.get(part, 0)
                newly_passed += sum(
                    offset >= before for offset, _ in zip(offsets, range(count), strict=False)
                )
                self._passed[part] = max(begins[part], before)
        return tuple(sorted(begins.items())), newly_passed

    def _first(self, partition: int) -> int:
        return self._firsts.get(partition, 0)

    def _skips(self) -> dict[int, int]:
        """Return how many of the waiting records of each partition a slot passes over."""
        waiting = {part: len(offsets) for part, offsets in self._waiting.items()}
        return shares(waiting, self._late.begin(0, sum(waiting.values())))


# Keeps records back until they are due: a fixed time after they came, whatever they hold.
#
# A record of slots by count whose label comes later is learnt from `after` seconds after its timestamp,
# Kafka's own, taken as the largest of its partition so far. Below the first offset of a partition whose
# timestamp is at least T, and at no other offset, is the largest timestamp so far below T. The broker looks
# that offset up by a time (`offsets_for_times`), whether timestamps are in order or not. So with T = now -
# after it is the end of what is due, and slots by count of due records are slots by count of logs that end
# there.
#
# Proof that nothing in a record decides where another lies: the slots' own proof is for any ends. These
# ends go by timestamps and by when they are looked up, and timestamps are public with slots by count. So
# are counts. No record's content, and no label, enters them.
#
# A record that is dated ahead by D delays the later records of its partition by at most D. The delay is also
# at most `after`, as records below an end of the log that was known `after` ago are due too: they were in the
# log by then. Such ends are known only since the process started, and to 1/64 of `after`.
#
# A due record has the largest timestamp of its partition since the reading began, and until `after` from
# there its labels count. A reader who begins anew may know less of it, where records are dated back.

_LOOKS = 64
"""The ends that are remembered in the course of `after`."""


class DueRecords(Generic[T]):
    """The records of one node that were read before they are due, in the order of each partition.

    Records are added as they are read; `reach` tells how far they are due.
    """

    def __init__(self, after: float) -> None:
        self._after = after
        self._records: dict[int, deque[Arrival[T]]] = {}
        self._largest: dict[int, float] = {}
        self._ends: deque[tuple[float, Mapping[int, int]]] = deque()
        self.limits: dict[int, int] = {}
        """The offsets of each partition below which records are due; they never go back."""

    def add(self, arrivals: Iterable[Arrival[T]]) -> None:
        """Add the next records of their partitions, each with the largest timestamp so far from here on."""
        for arrival in arrivals:
            part = arrival.partition
            largest = max(arrival.timestamp, self._largest.get(part, -math.inf))
            self._largest[part] = largest
            self._records.setdefault(part, deque()).append(arrival._replace(timestamp=largest))

    def reach(self, firsts: Mapping[int, int], ends: Mapping[int, int], now: float) -> None:
        """Store the ends of the logs at `now`, and the first offsets whose times are from now - after on."""
        if not self._ends or now - self._ends[-1][0] >= self._after / _LOOKS:
            self._ends.append((now, dict(ends)))
        while len(self._ends) > 1 and self._ends[1][0] <= now - self._after:
            self._ends.popleft()
        moment, ends_then = self._ends[0]
        for part, first in firsts.items():
            end = ends_then.get(part, 0) if moment <= now - self._after else 0
            self.limits[part] = max(first, end, self.limits.get(part, 0))

    @property
    def firsts(self) -> dict[int, int]:
        """The offset of the first waiting record of each partition that has one."""
        return {part: records[0].offset for part, records in self._records.items() if records}

    def due(self) -> Sequence[Arrival[T]]:
        """Return the due records of one partition that has any. They stay until `drop`."""
        for part, records in sorted(self._records.items()):
            limit = self.limits.get(part, 0)
            due = [arrival for arrival in records if arrival.offset < limit]
            if due:
                return due
        return ()

    def drop(self, arrivals: Sequence[Arrival[T]]) -> None:
        """Drop records that were taken: the first of their partition."""
        for arrival in arrivals:
            self._records[arrival.partition].popleft()
