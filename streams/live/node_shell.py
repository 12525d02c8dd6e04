"""The shared shell of a node: bytes to events, effects carried out in order, without time or threads.

On a broker and on the memory bus only the `Ports` differ.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from nodes.learner import Learner
from nodes.machine.events import (
    Decided,
    Effect,
    Event,
    Evidence,
    Foreseen,
    Journal,
    LeaveAsked,
    Notice,
    OpenSlot,
    PlanArrived,
    ReleaseArrived,
    Report,
    Scored,
    SendHeartbeat,
    SendRelease,
    SlotClosed,
    Started,
)
from nodes.machine.journal import JournalRecord
from nodes.machine.machine import NodeMachine
from nodes.privacy.mechanism import Secret
from nodes.protocol import DeadlinePassed, Halt, Noticed, StartDeadline, Stepped
from streams.codec import (
    Reason,
    Refused,
    accuses,
    decode_heartbeat,
    decode_plans,
    decode_release,
    encode_heartbeat,
    encode_release,
)
from streams.live.start import MeshStart
from streams.mesh.mesh import Surroundings
from streams.state.memory_journal import NodeJournal
from topology.plans import Chain, Heartbeat

Later = Callable[[Callable[[], None]], None]
"""Takes what follows once an effect is done, and does it then; the node takes no event before."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The functions that carry out a node's effects.

    `append` makes a record and its secret durable before it returns, unless it returns a `Later`. `send`
    takes (topic, bytes). `refused` takes (topic, bytes, reason), for the dead letters of peers.
    """

    append: Callable[[JournalRecord, Secret | None], Later | None]
    send: Callable[[str, bytes], None]
    open_slot: Callable[[OpenSlot], None]
    start_deadline: Callable[[StartDeadline], None]
    report: Callable[[Report], None]
    refused: Callable[[str, bytes, Refused], None]
    halt: Callable[[Halt], None]


class NodeShell:
    """The shell of one node process: its machine, its journal, its ports."""

    def __init__(
        self,
        start: MeshStart,
        learner: Learner,
        journal: NodeJournal,
        mesh: Surroundings,
        ports: Ports,
        before_effect: Callable[[], None] | None = None,
    ) -> None:
        deadlines = mesh.round_timeout is not None
        self.machine = NodeMachine(
            start.who, learner, mesh.expected, mesh.horizon, deadlines=deadlines, isolates=mesh.isolates
        )
        self.replaced = False
        self.generation = 0  # of the newest mesh file that a plan was made by
        self._begin, self._journal = start, journal
        self._topics, self._digest, self._expected = mesh.topics, mesh.digest, mesh.expected
        self._envelope, self._clock = mesh.envelope, mesh.clock
        self._ports, self._before_effect = ports, before_effect
        self._hello: int | None = None  # its offset on the own progress, once read
        self._earlier = set(start.earlier)
        self._chain = Chain(whole=not start.plans and start.offsets[mesh.topics.topology] == 0)
        self._waiting: deque[Event] = deque()
        self._busy = False
        self._effects: dict[type, Callable[[Any], Later | None]] = dict.fromkeys(
            (Noticed, Decided, Foreseen, Stepped, Scored), ports.report
        ) | {
            Journal: lambda effect: ports.append(effect.record, effect.secret),
            SendRelease: self._send_release,
            OpenSlot: ports.open_slot,
            StartDeadline: ports.start_deadline,
            SendHeartbeat: self._send_heartbeat,
            Halt: ports.halt,
            Evidence: self._keep_evidence,
        }

    def start(self) -> None:
        """Send journalled releases that were never sent, and start the machine."""
        start = self._begin
        for topic, value in start.unsent:
            self._ports.send(topic, value)
        plans = [
            plan
            for stored in start.plans
            for plan in self.plans_of(stored.offset, stored.value, stored.appended)
        ]
        secret, carried = self._journal.secret(), self._journal.carried
        self._handle(Started(start.records, tuple(plans), secret, carried, start.leave_from))

    def plan_read(self, offset: int, value: bytes, appended: float = inf) -> None:
        """Take a record of the topology; `appended` as in Stored."""
        self.take_plans(self.plans_of(offset, value, appended))

    def plans_of(self, offset: int, value: bytes, appended: float) -> tuple[PlanArrived, ...]:
        """Return the plans of a record of the topology, for `take_plans`; none if it is void, or refused."""
        identity = self.machine.identity
        try:
            signed = self._envelope.of_scheduler(value)
            record = decode_plans(signed, identity.run, self._digest, self._clock, appended)
        except Refused as refused:
            self._ports.refused(self._topics.topology, value, refused)
            return ()
        if not self._chain.take(record):
            self._ports.report(Noticed(Notice.PLAN_IGNORED, identity.name, record.plans[0].round))
            return ()
        self.generation = max(self.generation, record.last.generation)
        return tuple([PlanArrived(plan, offset) for plan in record.plans])

    def take_plans(self, plans: Iterable[PlanArrived]) -> None:
        """Take what `plans_of` has returned."""
        for arrived in plans:
            self._handle(arrived)

    def release_read(self, source: str, offset: int, value: bytes) -> None:
        """Take a record of the edge from `source`."""
        try:
            message = decode_release(self._envelope.of_node(value, source), self._expected[source])
        except Refused as refused:
            self._ports.refused(self._topics.edge(source, self.machine.identity.name), value, refused)
            return
        self._handle(ReleaseArrived(message, offset))

    def slot_closed(self, slot: SlotClosed) -> None:
        """Take the slot requested by `open_slot`."""
        self._handle(slot)

    def deadline_passed(self, round: int) -> None:
        """Take the end of a deadline; every in-edge was read to its end after it."""
        self._handle(DeadlinePassed(round))

    def leave(self, leave_from: int | None) -> None:
        """Take the owner's wish that no plan names the node from that round on (None: any may)."""
        self._handle(LeaveAsked(leave_from))

    def own_beat_read(self, offset: int, value: bytes) -> bool:
        """Take a record of the own progress, in one thread only; return whether this process sent it.

        Sets `replaced` if a newer process of this node has sent a hello after this one's.
        """
        identity = self.machine.identity
        try:
            beat = self._beat_of(value, identity.name)
        except Refused:
            return False
        is_own = beat.boot == identity.boot
        if is_own and self._hello is None:
            self._hello = offset  # or that of a later heartbeat: a broker may have lost the hello
        elif not is_own and beat.hello and beat.boot not in self._earlier:
            if self._hello is None:
                self._earlier.add(beat.boot)  # it says hello twice, and the second may come after this one's
            self.replaced |= self._hello is not None and offset > self._hello
        return is_own

    def may_accuse(self, value: bytes) -> bool:
        """Return whether a heartbeat may be one for `peer_beat_read`; most are not. From any thread."""
        return accuses(self._envelope.unverified(value))

    def peer_beat_read(self, reader: str, value: bytes) -> None:
        """Take a heartbeat of a node that hears this one: it may have two values of its for a round."""
        identity = self.machine.identity
        try:
            beat = self._beat_of(value, reader)
        except Refused:
            return  # schedulers count it
        if identity.instance in beat.accused:
            self._ports.report(Noticed(Notice.ACCUSED, reader, beat.stepped))

    def beat(self) -> None:
        """Send the current heartbeat."""
        self._send_heartbeat(SendHeartbeat(self.machine.heartbeat))

    def _beat_of(self, value: bytes, node: str) -> Heartbeat:
        """Return a node's heartbeat. Raises Refused."""
        run = self.machine.identity.run
        return decode_heartbeat(self._envelope.of_node(value, node), run, node, self._digest)

    def _handle(self, event: Event) -> None:
        """Handle an event once the effects of the one before are done."""
        self._waiting.append(event)
        if not self._busy:
            self._go_on()

    def _go_on(self) -> None:
        while self._waiting and not self.machine.halted:
            if not self._carry_out(iter(self.machine.handle(self._waiting.popleft()))):
                return
        self._waiting.clear()

    def _carry_out(self, effects: Iterator[Effect]) -> bool:
        """Return whether all effects are done; the rest follows a `Later`."""
        handlers, before = self._effects, self._before_effect
        for effect in effects:
            if before is not None:
                before()
            later = handlers[type(effect)](effect)
            if later is not None:
                self._busy = True
                later(partial(self._follow, effects))
                return False
        return True

    def _follow(self, effects: Iterator[Effect]) -> None:
        self._busy = False
        if self._carry_out(effects):
            self._go_on()

    def _keep_evidence(self, effect: Evidence) -> None:
        edge = self._topics.edge(effect.message.source, self.machine.identity.name)
        for value in (effect.message._replace(release=effect.first), effect.message):
            self._ports.refused(edge, encode_release(value, self._digest), Refused(Reason.SECOND_VALUE))

    def _send_release(self, effect: SendRelease) -> None:
        value = self._envelope.sealed(encode_release(effect.message, self._digest))
        for topic in dict.fromkeys(self._topics.edge(effect.message.source, to) for to in effect.targets):
            self._ports.send(topic, value)

    def _send_heartbeat(self, effect: SendHeartbeat) -> None:
        value = self._envelope.sealed(encode_heartbeat(effect.heartbeat, self._digest))
        self._ports.send(self._topics.progress(effect.heartbeat.node), value)
