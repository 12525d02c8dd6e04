"""Runs one node of a mesh in one process: its journal, its data, and its processes one after another."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from nodes.learner import Learner
from nodes.machine.events import OpenSlot, Report
from nodes.machine.journal import DataPosition
from nodes.machine.slots import Slots
from nodes.privacy.private import Private
from nodes.protocol import Halt, StartDeadline
from streams.bus.bus import BusError, Reader
from streams.bus.memory import Faults, MemoryBroker, MemoryBus
from streams.codec import Refused, encode_dead_letter
from streams.codec.topics import may_lose
from streams.live.node_shell import NodeShell, Ports
from streams.live.start import Starter
from streams.mesh.mesh import Surroundings
from streams.records.record import Decoder, RawRecord
from streams.records.slot_feed import DataLog, RecordCounts, SlotFeed
from streams.state.memory_journal import NodeJournal

T = TypeVar("T")


def _at_once(question: Callable[[], T]) -> T:
    return question()


class Crashed(Exception):
    """A planted fault: the node's process dies here."""


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts of one node."""

    learner: Learner
    slots: Callable[[], Slots[bytes]]
    decoder: Decoder
    records: Iterable[RawRecord]


class MemoryNode:
    """A node on the memory bus. `report` gets its machine's reports."""

    def __init__(
        self,
        name: str,
        parts: NodeParts,
        surroundings: Surroundings,
        broker: MemoryBroker,
        faults: Faults,
        *,
        new_id: Callable[[], str],
        journal: NodeJournal,
        report: Callable[[str, Report], None],
    ) -> None:
        self.name = name
        self.refused: list[tuple[str, Refused]] = []
        self.warnings: list[str] = []
        self.starved = self.replaced = False
        self.journal = journal
        self._parts, self._mesh, self._broker, self._faults = parts, surroundings, broker, faults
        self._new_id, self._report = new_id, report
        self._data = DataLog(iter(parts.records))
        self._edges = {source: surroundings.topics.edge(source, name) for source in surroundings.expected}
        self._handlers: dict[str, Callable[[int, bytes], None]] = {}  # by topic
        self._effects = 0
        self._leave_from: int | None = None
        self._bus = MemoryBus(broker)
        self._reader: Reader | None = None
        self._feed: SlotFeed | None = None
        self.shell: NodeShell | None = None

    @property
    def halted(self) -> bool:
        """Whether the machine is done."""
        return self.shell is not None and self.shell.machine.halted

    @property
    def counts(self) -> Private[RecordCounts]:
        """The counts of this process's records."""
        return Private(RecordCounts()) if self._feed is None else self._feed.counts

    def unread(self, position: DataPosition) -> Private[int]:
        """Return the number of records from a position on. Reads what is left, up to `MOST_COUNTED`."""
        return Private(self._data.after(position[0][1] if position else 0))

    def start(self) -> None:
        """Start a process, the first or a later one."""
        mesh, self._bus = self._mesh, self._connect()
        no_progress = not self._bus.end(mesh.topics.progress(self.name))
        simulated = self._parts.learner.mechanism.simulated
        starter = Starter(
            self.name,
            self.journal,
            mesh,
            self._bus,
            self._new_id,
            simulated,
            self.warnings.append,
            self._leave_from,
        )
        start = starter.start(_at_once, alone=no_progress)
        self.shell = shell = NodeShell(
            start, self._parts.learner, self.journal, mesh, self._ports(), self._effects_watched()
        )
        self._handlers = {edge: partial(shell.release_read, source) for source, edge in self._edges.items()}
        self._handlers[mesh.topics.progress(self.name)] = self._own_beat_read
        for target in mesh.targets:
            self._handlers[mesh.topics.progress(target)] = partial(self._peer_beat_read, target)
        self._feed = SlotFeed(self._data, self._parts.slots, self._parts.decoder)
        lossy = may_lose(start.offsets, mesh.topics)
        self._reader = self._bus.subscribe(start.offsets, self._read, self._reading_failed, lossy=lossy)
        self._do(self.shell.start)

    def stop(self) -> None:
        """End the process here and now, as a kill would."""
        self.shell = None
        self._bus.close()

    def leave(self, leave_from: int | None) -> None:
        """Handle the owner's wish that no plan names the node from that round on (None: any may)."""
        self._leave_from, shell = leave_from, self.shell
        if shell is not None and not shell.machine.halted:
            self._do(shell.leave, leave_from)

    def beat(self) -> None:
        """Send the current heartbeat, if a process runs."""
        shell = self.shell
        if shell is not None and not shell.machine.halted:
            self._do(shell.beat)

    def _connect(self) -> MemoryBus:
        return MemoryBus(self._broker)

    def _ports(self) -> Ports:
        return Ports(
            append=self.journal.append,
            send=self._bus.send,
            open_slot=self._open_slot,
            start_deadline=self._start_deadline,
            report=partial(self._report, self.name),
            refused=self._refuse,
            halt=self._halt,
        )

    def _effects_watched(self) -> Callable[[], None] | None:
        return self._before_effect if self._faults.crash_before else None

    def _read(self, topic: str, offset: int, value: bytes, appended: float) -> None:
        if self.shell is None:
            return
        if topic == self._mesh.topics.topology:
            self._do(self.shell.plan_read, offset, value, appended)
        else:
            self._do(self._handlers[topic], offset, value)

    def _own_beat_read(self, offset: int, value: bytes) -> None:
        shell = self.shell
        if shell is not None and not shell.own_beat_read(offset, value) and shell.replaced:
            self.replaced = True
            self.stop()

    def _peer_beat_read(self, reader: str, _: int, value: bytes) -> None:
        if self.shell is not None and self.shell.may_accuse(value):
            self.shell.peer_beat_read(reader, value)

    def _reading_failed(self, topic: str, error: BusError) -> None:
        """End like a live process, which is then restarted."""
        self.warnings.append(f"{topic} cannot be read any more: {error}")
        self.stop()
        self._broker.after(self._faults.restart_after, self.start)

    def _do(self, action: Callable[..., None], *given: object) -> None:
        """Do it in the node's process; a planted crash ends the process, and another starts later."""
        try:
            action(*given)
        except Crashed:
            self.stop()
            self._broker.after(self._faults.restart_after, self.start)

    def _before_effect(self) -> None:
        self._effects += 1
        if (self.name, self._effects) in self._faults.crash_before:
            raise Crashed

    def _open_slot(self, opened: OpenSlot) -> None:
        shell, feed = self.shell, self._feed
        if shell is None or feed is None:
            return
        slot = feed.close(opened)
        if slot is None:
            self.starved = True
            return

        def close() -> None:
            if self.shell is shell:
                self._do(shell.slot_closed, slot)

        seconds = self._slot_seconds(opened.round)
        if seconds:
            self._broker.after(seconds, close)
        else:
            self._broker.soon(close)

    def _slot_seconds(self, _: int) -> float:
        """Return how long the slot of a round takes from now on."""
        return self._faults.slot_time

    def _start_deadline(self, started: StartDeadline) -> None:
        shell = self.shell

        def passed() -> None:
            if shell is not None and self.shell is shell and self._reader is not None:
                ends = {edge: self._bus.end(edge) for edge in self._edges.values()}
                self._reader.when_read(ends, partial(self._do, shell.deadline_passed, started.number))

        self._broker.after(0.0 if started.at_once else self._mesh.round_timeout or 0.0, passed)

    def _refuse(self, topic: str, value: bytes, refused: Refused) -> None:
        self.refused.append((topic, refused))
        letter = encode_dead_letter(topic, value, refused, self._broker.largest)
        self._bus.send(self._mesh.topics.dead_letters(self.name), letter)

    def _halt(self, halt: Halt) -> None:
        """Keep the process, although its machine is done and takes nothing more."""
