"""One node of a mesh in one process: its journal, its data, and one process's life after the other."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec

from nodes.learner import Learner
from nodes.machine.events import Halt, OpenSlot, Report, StartDeadline
from nodes.machine.journal import JournalRecord, ReleaseMessage, is_outdated
from nodes.machine.machine import NodeMachine
from nodes.machine.membership import Identity
from nodes.machine.slots import Slots
from nodes.privacy.private import Private
from streams.bus.memory import Faults, MemoryBus, Subscription
from streams.codec import Refused, decode_release, encode_dead_letter
from streams.live.node_shell import NodeJournal, NodeShell, Ports
from streams.mesh.mesh import Surroundings
from streams.records.record import Decoder, RawRecord
from streams.records.slot_feed import DataLog, SlotFeed

P = ParamSpec("P")


class Crashed(Exception):
    """A planted fault: the node's process dies here."""


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What one node is made of."""

    learner: Learner
    slots: Callable[[], Slots[bytes]]
    decoder: Decoder
    records: Iterable[RawRecord]


class MemoryNode:
    """A node on the memory bus. `report` and `halted` are told what its machine says."""

    def __init__(
        self,
        name: str,
        parts: NodeParts,
        surroundings: Surroundings,
        bus: MemoryBus,
        faults: Faults,
        *,
        new_id: Callable[[], str],
        journal: NodeJournal,
        report: Callable[[str, Report], None],
    ) -> None:
        self.name = name
        self.refused: list[tuple[str, Refused]] = []
        self.starved = False
        self.journal = journal
        self._parts, self._mesh, self._bus, self._faults = parts, surroundings, bus, faults
        self._new_id, self._report = new_id, report
        self._data = DataLog(iter(parts.records))
        self._inherited = max((record.round for record in journal.records()), default=0)
        self._effects = 0
        self._edges: list[Subscription] = []
        self._topology: Subscription | None = None
        self._feed: SlotFeed | None = None
        self.shell: NodeShell | None = None

    @property
    def halted(self) -> bool:
        """Whether the machine is done."""
        return self.shell is not None and self.shell.machine.halted

    @property
    def dropped(self) -> Private[int]:
        """How many records entered no slot of this process."""
        return Private(0) if self._feed is None else self._feed.dropped

    @property
    def machine(self) -> NodeMachine:
        """The machine of the process that runs. Raises RuntimeError while none does."""
        if self.shell is None:
            raise RuntimeError(f"no process of {self.name} runs")
        return self.shell.machine

    def start(self) -> None:
        """Start a process: journal, then plans, then in-edges; a journal that is old gives way to another."""
        mesh, topics = self._mesh, self._mesh.topics
        if is_outdated(self.journal.records(), self.journal.instance, self._published()):
            self.journal.renew(self._new_id())
        journal = self.journal
        identity = Identity(self.name, topics.run, journal.instance, self._new_id())
        machine = NodeMachine(
            identity,
            self._parts.learner,
            mesh.expected,
            mesh.horizon,
            deadlines=mesh.round_timeout is not None,
        )
        ports = Ports(
            send=self._bus.send,
            open_slot=self._open_slot,
            start_deadline=self._start_deadline,
            report=partial(self._report, self.name),
            refused=self._refuse,
            halt=self._halt,
        )
        self.shell = NodeShell(
            machine,
            journal,
            topics,
            mesh.digest,
            mesh.expected,
            ports,
            self._before_effect if self._faults.crash_before else None,
        )
        self._feed = SlotFeed(self._data, self._parts.slots, self._parts.decoder)
        self._guarded(self._subscribe)(self.shell, self._records())

    def stop(self) -> None:
        """End the process here and now, as a kill would."""
        self.shell = None
        for subscription in [*self._edges, *([self._topology] if self._topology else [])]:
            self._bus.cancel(subscription)
        self._edges, self._topology = [], None

    def beat(self) -> None:
        """Send the heartbeat of this moment, if a process runs."""
        shell = self.shell
        if shell is not None and not shell.machine.halted:
            self._guarded(shell.beat)()

    def _subscribe(self, shell: NodeShell, records: tuple[JournalRecord, ...]) -> None:
        topics = self._mesh.topics
        first = records[-1].topology_position if records else 0
        plans = list(enumerate(self._bus.read(topics.topology, first), first))
        shell.start(records, plans)
        self._topology = self._bus.subscribe(
            topics.topology, first + len(plans), self._guarded(shell.plan_read)
        )
        positions = dict(records[-1].edge_positions) if records else {}
        read = self._guarded(shell.release_read)
        for source in self._mesh.expected:
            edge = topics.edge(source, self.name)
            self._edges.append(self._bus.subscribe(edge, positions.get(source, 0), partial(read, source)))

    def _records(self) -> tuple[JournalRecord, ...]:
        """Return the journal's records; positions on the bus of an earlier process are void."""
        records = self.journal.records()
        if records and records[-1].round == self._inherited:
            records = (*records[:-1], records[-1]._replace(topology_position=0, edge_positions=()))
        return records

    def _published(self) -> list[ReleaseMessage]:
        """Return all that this node's own edges hold."""
        topics, found = self._mesh.topics, []
        for target in self._mesh.targets:
            for value in self._bus.read(topics.edge(self.name, target), 0):
                with suppress(Refused):
                    found.append(decode_release(value, self._mesh.own))
        return found

    def _guarded(self, action: Callable[P, None]) -> Callable[P, None]:
        """Return `action`, done in the node's process: a planted crash ends it, a new one starts later."""
        if not self._faults.crash_before:
            return action

        def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                action(*args, **kwargs)
            except Crashed:
                self.stop()
                self._bus.after(self._faults.restart_after, self.start)

        return guarded

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
                self._guarded(shell.slot_closed)(slot)

        if self._faults.slot_time:
            self._bus.after(self._faults.slot_time, close)
        else:
            self._bus.soon(close)

    def _start_deadline(self, started: StartDeadline) -> None:
        shell = self.shell

        def passed() -> None:
            if shell is not None and self.shell is shell:
                self._bus.drain(self._edges)
            if shell is not None and self.shell is shell:  # it may have died in what it read
                self._guarded(shell.deadline_passed)(started.round)

        self._bus.after(0.0 if started.at_once else self._mesh.round_timeout or 0.0, passed)

    def _refuse(self, topic: str, value: bytes, refused: Refused) -> None:
        self.refused.append((topic, refused))
        letter = encode_dead_letter(topic, value, refused)
        self._bus.send(self._mesh.topics.dead_letters(self.name), letter)

    def _halt(self, halt: Halt) -> None:
        """Keep the process: its machine is done, and takes nothing more."""
