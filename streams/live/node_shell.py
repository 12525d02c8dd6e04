"""What every shell of a node does alike: bytes to events, effects in order. Time and threads are not here.

A broker's shell and the memory mesh differ in the `Ports` alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nodes.machine.events import (
    DeadlinePassed,
    Decided,
    Event,
    Evidence,
    Foreseen,
    Halt,
    Journal,
    Noticed,
    OpenSlot,
    PlanArrived,
    ReleaseArrived,
    Report,
    Scored,
    SendHeartbeat,
    SendRelease,
    SlotClosed,
    StartDeadline,
    Started,
    Stepped,
)
from nodes.machine.journal import JournalRecord
from nodes.machine.machine import NodeMachine
from nodes.privacy.mechanism import Secret
from streams.codec import (
    Expected,
    Reason,
    Refused,
    decode_plan,
    decode_release,
    encode_heartbeat,
    encode_release,
)
from streams.codec.topics import MeshTopics


class Appended(Protocol):
    """What a node's shell needs of a journal."""

    @property
    def carried(self) -> int:
        """The charged rounds of the lives before this one."""

    def secret(self) -> Secret | None:
        """Return what the mechanism must remember of the last round."""

    def append(self, record: JournalRecord, secret: Secret | None = None) -> None:
        """Keep `record` and `secret`, both or neither; durable when this returns."""


class NodeJournal(Appended, Protocol):
    """What a node's process needs of a journal."""

    @property
    def instance(self) -> str:
        """The journal's life."""

    @property
    def charged(self) -> int:
        """The charged rounds so far, those of earlier lives included."""

    def records(self) -> tuple[JournalRecord, ...]:
        """Return the last rounds, oldest first."""

    def renew(self, instance: str) -> None:
        """Begin a new life, without records, that goes on from what was charged."""

    def forget_secret(self) -> None:
        """Forget what the mechanism must remember: the run is over."""

    def close(self) -> None:
        """Let go of it."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a node's effects go.

    `send` takes (topic, bytes); `refused` takes (topic, bytes, reason): the dead letters of peers.
    """

    send: Callable[[str, bytes], None]
    open_slot: Callable[[OpenSlot], None]
    start_deadline: Callable[[StartDeadline], None]
    report: Callable[[Report], None]
    refused: Callable[[str, bytes, Refused], None]
    halt: Callable[[Halt], None]


class NodeShell:
    """One process's life of a node: its machine, its journal, its ports."""

    def __init__(
        self,
        machine: NodeMachine,
        journal: Appended,
        topics: MeshTopics,
        digest: bytes,
        expected: Mapping[str, Expected],
        ports: Ports,
        before_effect: Callable[[], None] | None = None,
    ) -> None:
        self.machine = machine
        self._journal = journal
        self._topics = topics
        self._digest = digest
        self._expected = expected
        self._ports = ports
        self._before_effect = before_effect
        self._effects: dict[type, Callable[[Any], None]] = dict.fromkeys(
            (Noticed, Decided, Foreseen, Stepped, Scored), ports.report
        ) | {
            Journal: self._append,
            SendRelease: self._send_release,
            OpenSlot: ports.open_slot,
            StartDeadline: ports.start_deadline,
            SendHeartbeat: self._send_heartbeat,
            Halt: ports.halt,
            Evidence: self._keep_evidence,
        }

    def start(self, records: tuple[JournalRecord, ...], plans: Iterable[tuple[int, bytes]]) -> None:
        """Start the machine with the journal's records and the plans (offset, bytes) read so far."""
        arrived = [plan for offset, value in plans if (plan := self._plan(offset, value)) is not None]
        self._handle(Started(records, tuple(arrived), self._journal.secret(), self._journal.carried))

    def plan_read(self, offset: int, value: bytes) -> None:
        """Take a record of the topology."""
        arrived = self._plan(offset, value)
        if arrived is not None:
            self._handle(arrived)

    def release_read(self, source: str, offset: int, value: bytes) -> None:
        """Take a record of the edge from `source`."""
        try:
            message = decode_release(value, self._expected[source])
        except Refused as refused:
            self._ports.refused(self._topics.edge(source, self.machine.identity.name), value, refused)
            return
        self._handle(ReleaseArrived(message, offset))

    def slot_closed(self, slot: SlotClosed) -> None:
        """Take the slot that `open_slot` asked for."""
        self._handle(slot)

    def deadline_passed(self, round: int) -> None:
        """Take the end of a deadline; every in-edge was read to its end since."""
        self._handle(DeadlinePassed(round))

    def beat(self) -> None:
        """Send the heartbeat of this moment."""
        self._send_heartbeat(SendHeartbeat(self.machine.heartbeat))

    def _plan(self, offset: int, value: bytes) -> PlanArrived | None:
        run = self.machine.identity.run
        try:
            return PlanArrived(decode_plan(value, run, self._digest), offset)
        except Refused as refused:
            self._ports.refused(self._topics.topology, value, refused)
            return None

    def _handle(self, event: Event) -> None:
        if self.machine.halted:
            return
        done, before = self._effects, self._before_effect
        for effect in self.machine.handle(event):
            if before is not None:
                before()
            done[type(effect)](effect)

    def _keep_evidence(self, effect: Evidence) -> None:
        edge = self._topics.edge(effect.message.source, self.machine.identity.name)
        for value in (effect.message._replace(release=effect.first), effect.message):
            self._ports.refused(edge, encode_release(value, self._digest), Refused(Reason.SECOND_VALUE))

    def _append(self, effect: Journal) -> None:
        self._journal.append(effect.record, effect.secret)

    def _send_release(self, effect: SendRelease) -> None:
        value = encode_release(effect.message, self._digest)
        for target in effect.targets:
            self._ports.send(self._topics.edge(effect.message.source, target), value)

    def _send_heartbeat(self, effect: SendHeartbeat) -> None:
        value = encode_heartbeat(effect.heartbeat, self._digest)
        self._ports.send(self._topics.progress(effect.heartbeat.node), value)
