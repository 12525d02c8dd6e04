"""One node's own stream: collects its records, and passes slots to the machine's thread."""

import asyncio
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from nodes.machine.events import OpenSlot, SlotClosed
from nodes.machine.journal import DataPosition
from nodes.machine.partition_slots import DueRecords, OffsetSpan
from nodes.machine.slots import Arrival, LatePolicy, Place, Slots, TimeSlots
from nodes.privacy.private import Private
from streams.codec.topics import DataTopics
from streams.live.data.collector import SlotCollector
from streams.live.data.registry import RegistryWatch
from streams.live.data.start import DataFailed, Start
from streams.mesh.settings.node import TopicSettings
from streams.metrics.private import DataCounts, LabelCounts
from streams.records.decoder import SchemaDecoder
from streams.records.faults import Fault, FaultLetters, Letter
from streams.records.messages import TimedMessages
from streams.records.record import Decoder, WholeMessage

if TYPE_CHECKING:
    from streams.live.data.labels import LaterLabels


class DataStream:
    """The slots of one node process, from its data topic, which `DataStreams` reads.

    `timeout`: seconds after which an open slot by count closes empty; None: never. `late`: the policy for
    records that wait, with slots by count (None: all are used). `existing`: set if others made the topic,
    with the partitions that are read. `registry`: that of the schemas that records name. `labels`: the labels
    that come later than their records.
    """

    def __init__(
        self,
        topics: DataTopics,
        run: str,
        slots: Callable[[], Slots[bytes]],
        decoder: Decoder,
        timeout: float | None,
        late: LatePolicy | None = None,
        existing: TopicSettings | None = None,
        registry: RegistryWatch | None = None,
        *,
        labels: "LaterLabels | None" = None,
    ) -> None:
        self._labels = labels
        self._undue: DueRecords[bytes] | None = None
        if labels is not None and not isinstance(slots(), TimeSlots):
            self._undue = DueRecords(labels.settings.after)
        self._undue_firsts: Mapping[int, int] = {}  # another thread reads it, so it is replaced, not changed
        self._undue_changed = asyncio.Event()
        self._registry, self._keys = registry, existing is not None and bool(existing.record.of_keys)
        self._partitions = None if existing is None else existing.partitions
        self.whole = existing is not None and existing.reads_whole
        placed = None
        if existing is not None and isinstance(decoder, SchemaDecoder):
            placed = TimedMessages(decoder)
        self.topics, self.group = topics, topics.group(run)
        self.node, self.topic = topics.node, topics.records
        self.lagging: int | None = None
        self.floor: DataPosition = ()  # where a life begins, beyond the log's end perhaps
        self._faults = FaultLetters(self.topic, run, uuid.uuid4().hex, time.monotonic)
        self.send_letter: Callable[[Letter], bool] = lambda _: False
        """Sends a letter to the owner; until the topic is read there is none."""
        self._collector = SlotCollector(
            slots,
            decoder,
            timeout,
            self._hand_on,
            self._make_room,
            late,
            self._count_faults,
            placed,
            labels=labels,
            clock=time.monotonic if registry is None else registry.clock,
        )
        self._closed: Callable[[SlotClosed], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stir: Callable[[], None] = lambda: None
        self._room = asyncio.Event()
        self.over = False

    @property
    def counts(self) -> Private[DataCounts]:
        """The counts of records."""
        return self._collector.counts

    @property
    def label_counts(self) -> Private[LabelCounts]:
        """The counts of labels that come later."""
        return Private(LabelCounts()) if self._labels is None else self._labels.counts

    @property
    def lag(self) -> Private[int | None]:
        """The number of records in the log not read yet; None while unknown."""
        return Private(self.lagging)

    def open_slot(self, opened: OpenSlot) -> None:
        """Open a slot, in place of one still open. From any thread, also before the topic is read."""
        self._collector.open(opened)
        self._look_up()

    def end(self) -> None:
        """Accept no more records, as the node has ended while others continue. From any thread."""
        self.over = True
        self._make_room()

    def begin(
        self, position: DataPosition | None, closed: Callable[[SlotClosed], None], stir: Callable[[], None]
    ) -> Start:
        """Return where to read from. Call it in the loop that handles records.

        `closed` gets each slot. `stir` is called in the loop whenever `over_in` has become finite.
        """
        self._loop, self._closed, self._stir = asyncio.get_running_loop(), closed, stir
        if self._registry is not None:
            self._registry.start()
        if self._labels is not None:
            self._labels.start(self._collector.labels_changed)
        return Start(
            self.topic,
            position,
            self._collector,
            lambda: self.over,
            self.floor,
            self._partitions,
            None if self._undue is None else lambda: self._undue_firsts,
        )

    async def take(self, arrivals: Sequence[Arrival[bytes]]) -> None:
        """Add a fetch's records. Wait whenever there is no room for the next one. Raises DataFailed."""
        if self._registry is not None:
            await self._registry.ready(self._framed(arrivals), lambda: self.over)
            arrivals = [arrival._replace(value=self._registry.settled(arrival.value)) for arrival in arrivals]
        if self._undue is not None:
            self._undue.add(arrivals)
            self._undue_firsts = self._undue.firsts
            self._undue_changed.set()
            return
        await self._collect(arrivals)

    async def collect_due(self, taken: Callable[[], None]) -> None:
        """Add records as they become due, for ever. `taken` is called whenever some were added."""
        while self._undue is not None:
            await self._undue_changed.wait()
            self._undue_changed.clear()
            while arrivals := self._undue.due():
                await self._collect(arrivals)
                self._undue.drop(arrivals)
                self._undue_firsts = self._undue.firsts
                taken()
        await asyncio.Event().wait()

    @property
    def after(self) -> float | None:
        """The seconds after their timestamps at which records are due, with slots by count; None: at once."""
        return None if self._undue is None or self._labels is None else self._labels.settings.after

    def reach(self, firsts: Mapping[int, int], ends: Mapping[int, int], now: float) -> dict[int, int]:
        """Take up where each partition's log ends at `now`, and return where its due records end.

        `firsts`: for each partition the first offset of a record that is not yet due: it is younger than the
        `after` seconds for which records wait for their labels. Without such labels every record is due, and
        the result is `ends`.
        """
        if self._undue is None:
            return dict(ends)
        self._undue.reach(firsts, ends, now)
        self._undue_changed.set()
        positions = self._collector.next
        return {part: max(at, positions.get(part, 0)) for part, at in self._undue.limits.items()}

    def hold_up(self, firsts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Count the records held up by others: from the first one dated ahead in a partition to the end."""
        if self._undue is not None and self._labels is not None:
            limits = self._undue.limits
            counts = (max(0, end - max(firsts[part], limits.get(part, 0))) for part, end in ends.items())
            self._labels.hold_up(sum(counts))

    async def _collect(self, arrivals: Sequence[Arrival[bytes]]) -> None:
        place = 0
        while place < len(arrivals) and not self.over:
            try:
                place, blocked = self._collector.add(arrivals, place)
            except Exception as error:  # noqa: BLE001 # Faust would log its text, which may hold a record
                raise DataFailed(
                    f"{self.topic}: a record could not be taken: {type(error).__name__}"
                ) from None
            if blocked:
                await self._room.wait()
                self._room.clear()
        if self._collector.awaits_ends:
            self._stir()

    def _framed(self, arrivals: Sequence[Arrival[bytes]]) -> list[bytes]:
        """Return the bytes that may name a schema: messages, and their keys if keys are read."""
        messages = [arrival.value for arrival in arrivals]
        keys = [message.key or b"" for message in messages if isinstance(message, WholeMessage)]
        return messages + keys if self._keys else messages

    async def expire(self) -> None:
        """Close slots empty after their time-out, which stands still while a registry holds up records."""
        while not self.over:
            if self._registry is not None:
                await self._registry.flowing()
            await asyncio.sleep(self._collector.left)
            if self._registry is None or self._registry.flows:
                self._collector.expire()
        await asyncio.Event().wait()

    def awaits_ends(self, now: float) -> bool:
        """Return whether the open slot depends on the ends of the logs, as of `now`."""
        collector = self._collector
        return not self.over and (collector.unplaced or collector.awaits_ends or collector.due(now))

    def over_in(self, now: float) -> float:
        """Return the seconds from `now` on until ends must be looked up; infinite if none must."""
        return math.inf if self.over else self._collector.over_in(now)

    @property
    def sheds(self) -> bool:
        """Whether a late policy depends on the ends of the logs, so that they are looked up all the time."""
        return self._collector.sheds and not self.over

    def place(self, ends: dict[int, int]) -> bool:
        """Handle the topic's ends, all of one look-up and none from a fetch, and start an unplaced slot.

        Return whether a slot waited only for these ends.
        """
        waited = self._collector.unplaced or self._collector.awaits_ends
        self._collector.place(ends)
        self._look_up()
        return waited

    @property
    def lacking(self) -> bool:
        """Whether the open slot waits for records of its share of a partition."""
        return not self.over and self._collector.lacking

    def passed(self, offsets: Mapping[int, int]) -> None:
        """Record that all records below these offsets were added."""
        self._collector.passed(offsets)

    @property
    def uncounted(self) -> OffsetSpan | None:
        """The offsets whose records a late policy has not counted yet; None: there are none."""
        return None if self.over else self._collector.uncounted

    def count(self, partition: int, offsets: Sequence[int], end: int) -> None:
        """Record the offsets of a partition's next uncounted records, which are all below `end`."""
        self._collector.count(partition, offsets, end)

    def moved(self) -> bool:
        """Return whether a slot has begun beyond the records read, since the last call."""
        return self._collector.moved()

    def settle(self, moment: float) -> None:
        """Record that all records in the log at `moment` were added."""
        self._collector.settle(moment)

    def sum_up(self) -> None:
        """Send the letter that sums up unreadable records; stop the registry's and the labels' threads."""
        if self._registry is not None:
            self._registry.stop()
        if self._labels is not None:
            self._labels.stop()
        for letter in self._faults.summary():
            self.send_letter(letter)

    def _count_faults(self, places: Sequence[Place], faults: Sequence[Fault | None]) -> None:
        for letter in self._faults.count(places, faults):
            self.send_letter(letter)

    def _hand_on(self, slot: SlotClosed) -> None:
        if self._closed is not None and not self.over:  # before `begin` no records can close a slot
            self._closed(slot)

    def _make_room(self) -> None:
        self._call(self._room.set)

    def _look_up(self) -> None:
        if self.over_in(0.0) < math.inf:  # a slot by count seldom needs the loop, so that no round wakes it
            self._call(self._stir)

    def _call(self, action: Callable[[], None]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed, and nothing waits
                self._loop.call_soon_threadsafe(action)
