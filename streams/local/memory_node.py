"""Runs one node of a mesh in one process: its journal, its data, and its processes one after another."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from nodes.learner import Learner
from nodes.machine.events import OpenSlot, Report, SlotClosed
from nodes.machine.journal import DataPosition
from nodes.machine.slots import Slots
from nodes.privacy.private import Private
from streams.bus.memory import Faults, MemoryBroker, MemoryBus
from streams.codec import Refused
from streams.live.node_role import NodeObserver, NodeRole
from streams.mesh.mesh import NodeContext
from streams.records.record import Decoder, RawRecord
from streams.records.slot_feed import DataLog, RecordCounts, SlotFeed
from streams.runtime.actions import Ended, at_once, in_memory
from streams.runtime.process import ProcessExit
from streams.runtime.runner import Host, Pending, Runner, is_orderly
from streams.state.folder import JournalError
from streams.state.memory_journal import NodeJournal
from topology.scheduler import heartbeat_period


class Crashed(ProcessExit):
    """A planted fault: the node's process dies here."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts of one node."""

    learner: Learner
    slots: Callable[[], Slots[bytes]]
    decoder: Decoder
    records: Iterable[RawRecord]


class MemorySlots:
    """Closes a process's slots from records in memory, each `seconds` of virtual time after it was opened.

    `closed` takes a slot in its turn. `starved`: too few records are left for a slot.
    """

    def __init__(
        self,
        feed: SlotFeed,
        broker: MemoryBroker,
        seconds: Callable[[int], float],
        closed: Callable[[SlotClosed], SlotClosed],
    ) -> None:
        self._feed, self._broker, self._seconds, self._closed = feed, broker, seconds, closed
        self.starved = False

    @property
    def counts(self) -> Private[RecordCounts]:
        """The counts of the records so far."""
        return self._feed.counts

    def open(self, opened: OpenSlot, pending: Pending) -> None:
        """Fill the slot, and answer with it once its time has passed."""
        slot = self._feed.close(opened)
        if slot is None:
            self.starved = True
            return
        answer = partial(pending.answer, partial(self._closed, slot))
        seconds = self._seconds(opened.round)
        if seconds:
            self._broker.after(seconds, answer)
        else:
            answer()


class _Told(NodeObserver):
    """Passes a node's reports on, and keeps what it has refused."""

    def __init__(self, report: Callable[[Report], None], refused: list[tuple[str, Refused]]) -> None:
        self._report, self._refused = report, refused

    def report(self, report: Report) -> None:
        """Pass it on."""
        self._report(report)

    def refused(self, topic: str, refused: Refused) -> None:
        """Keep it."""
        self._refused.append((topic, refused))


class MemoryNode:
    """A node on the memory bus. `report` gets its reports; `role` is that of its process, if any."""

    def __init__(
        self,
        name: str,
        parts: NodeParts,
        context: NodeContext,
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
        self.replaced = False
        self.journal = journal
        self._parts, self._mesh, self._broker, self._faults = parts, context, broker, faults
        self._new_id, self._told = new_id, _Told(partial(report, name), self.refused)
        self._data = DataLog(iter(parts.records))
        self._effects = 0
        self._leave_from: int | None = None
        self._bus = MemoryBus(broker)
        self._host: Host | None = None
        self._runner: Runner | None = None
        self._slots: MemorySlots | None = None
        self.role: NodeRole | None = None

    @property
    def halted(self) -> bool:
        """Whether the machine is done."""
        return self.role is not None and self.role.machine.halted

    @property
    def starved(self) -> bool:
        """Whether its source has ended."""
        return self._slots is not None and self._slots.starved

    @property
    def counts(self) -> Private[RecordCounts]:
        """The counts of this process's records."""
        return Private(RecordCounts()) if self._slots is None else self._slots.counts

    def unread(self, position: DataPosition) -> Private[int]:
        """Return the number of records from a position on. Reads what is left, up to `MOST_COUNTED`."""
        return Private(self._data.after(position[0][1] if position else 0))

    def start(self) -> None:
        """Start a process, the first or a later one."""
        mesh, broker, parts = self._mesh, self._broker, self._parts
        self._bus = bus = MemoryBus(broker)
        role = NodeRole(
            self.name,
            parts.learner,
            self.journal,
            mesh,
            self._new_id,
            self.warnings.append,
            lambda: self._leave_from,
        )
        role.recover(bus, at_once, alone=not bus.end(mesh.topics.progress(self.name)))
        feed = SlotFeed(self._data, parts.slots, parts.decoder)
        self._slots = slots = MemorySlots(feed, broker, lambda _: self._faults.slot_time, role.closed)
        beat = None if mesh.silence is None else heartbeat_period(mesh.silence)
        process = role.role(self._told, slots.open, clock=lambda: broker.now, beat=beat)
        runner = Runner(process, in_memory(broker, bus), partial(self._over, role), self._before_effect)
        self.role, self._runner, self._host = role, runner, Host([runner], bus)
        self._host.begin()

    def stop(self) -> None:
        """End the process here and now, as a kill would."""
        host, self._host, self.role = self._host, None, None
        if host is not None:
            host.close()
        self._bus.close()

    def leave(self, leave_from: int | None) -> None:
        """Handle the owner's wish that no plan names the node from that round on (None: any may)."""
        self._leave_from = leave_from
        if self.role is not None and self._runner is not None:
            for event in self.role.wish():
                self._runner.handle(event)

    def _before_effect(self, _: Any) -> None:
        self._effects += 1
        if (self.name, self._effects) in self._faults.crash_before:
            raise Crashed("a planted fault")

    def _over(self, role: NodeRole, error: Ended) -> None:
        """End like a live process, which is then restarted; a machine that is done is kept."""
        if isinstance(error, JournalError):
            raise error
        if is_orderly(error):
            return
        self.stop()
        if role.presence.replaced:
            self.replaced = True
            return
        if not isinstance(error, Crashed):
            self.warnings.append(str(error))
        self._broker.after(self._faults.restart_after, self.start)
