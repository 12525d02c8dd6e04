"""The role of a node: its machine, what it reads and sends, and where it continues.

It recovers from its journal and from the bus's logs (`start`). On a broker, in memory and in a simulation the
same code runs; a world differs in its bus and clock, and in how slots of records are closed.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from nodes.learner import Learner
from nodes.machine.events import (
    BeforeStep,
    Decided,
    Evidence,
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
from nodes.machine.machine import NodeMachine
from nodes.protocol import Identity, Noticed, Stepped
from streams.bus.bus import Bus, Stored
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
from streams.codec.topics import may_lose
from streams.live.start import NodeStart, Starter
from streams.mesh.mesh import NodeContext
from streams.runtime.actions import Action
from streams.runtime.deadlines import FetchClock, Patience
from streams.runtime.presence import Presence
from streams.runtime.process import Ask
from streams.runtime.runner import Arrived, BadMessage, Pending, Role
from streams.state.journal import NodeJournal
from topology.plans import Chain, Heartbeat, Plan

CATCH_UP = 1.0
"""The longest time, in seconds, for which work may be put off."""


class NodeObserver(Protocol):
    """Observes a node, one call at a time. Subclasses need not define calls that they ignore."""

    def report(self, report: Report) -> None:
        """Handle a report of the machine."""
        del report

    def began(self) -> None:
        """Note that the machine begins to handle an event."""
        return

    def catch_up(self) -> None:
        """Do the work that was put off."""
        return

    def entered(self) -> None:
        """Note that a round is entered."""
        return

    def closed(self) -> None:
        """Note that the round's slot is closed."""
        return

    def planned(self, last: Plan) -> None:
        """Note that plans up to that one were read."""
        del last

    def made_by(self, generation: int) -> None:
        """Handle the generation of the newest mesh file that a plan was made by."""
        del generation

    def wished(self, leave_from: int | None) -> None:
        """Handle the owner's wish that no plan names the node from that round on (None: any may)."""
        del leave_from

    def committed(self, seconds: float) -> None:
        """Handle the seconds that a record needed to become durable."""
        del seconds

    def sent(self) -> None:
        """Note that the broker has acknowledged a release; in the reader's thread."""
        return

    def received(self, source: str) -> None:
        """Note a record read from an in-edge."""
        del source

    def refused(self, topic: str, refused: Refused) -> None:
        """Note that a peer's record was refused."""
        del topic, refused


class NodeRole:
    """Makes the role of one process of the node `name`: call `recover`, then `role`.

    `new_id` returns ids of processes and lives. `warn` logs a line for the operator. `leave_from` returns the
    first round without the node, if its owner wants it to leave; it is called before each heartbeat and plan.
    """

    start: NodeStart
    machine: NodeMachine
    _observer: NodeObserver

    def __init__(
        self,
        name: str,
        learner: Learner,
        journal: NodeJournal,
        mesh: NodeContext,
        new_id: Callable[[], str],
        warn: Callable[[str], None],
        leave_from: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.name, self.generation = name, 0  # of the newest mesh file that a plan was made by
        self._learner, self._journal, self._mesh = learner, journal, mesh
        self._new_id, self._warn, self._leave_from = new_id, warn, leave_from
        self._leaving: int | None = None
        self._has_machine = False

    @property
    def run_over(self) -> bool:
        """Whether the newest plan ends the run."""
        last = self._chain.last
        return last is not None and last.ended

    # ----------------------------------------------------------------------------------------- its start

    def recover(self, bus: Bus, ask: Ask, *, alone: bool = False) -> None:
        """Say hello, so that an older process of the node ends, and find where to continue.

        `alone`: no process of the node was ever on this bus. Raises BusError, JournalError.
        """
        mesh, journal = self._mesh, self._journal
        identity = Identity(self.name, mesh.topics.run, journal.instance, self._new_id())
        self._leaving = self._leave_from()  # told in the hello: else a node that has left is let in again
        records = journal.records()
        beat = Heartbeat(
            identity.run,
            identity.name,
            identity.instance,
            identity.boot,
            records[-1].stepped if records else 0,
            leave_from=self._leaving,
        )
        topic = mesh.topics.progress(self.name)
        self.presence = Presence(
            identity, "node", topic, mesh.digest, partial(self._beat, beat), mesh.envelope
        )
        if not alone:
            self.presence.hello(bus, ask)
        simulated = self._learner.mechanism.simulated
        starter = Starter(self.name, journal, mesh, bus, self._new_id, simulated, self._warn)
        self.start = starter.start(identity, ask)
        self.presence.renew(self.start.who)
        self.machine = NodeMachine(
            self.start.who,
            self._learner,
            mesh.expected,
            mesh.horizon,
            deadlines=mesh.round_timeout is not None,
            isolates=mesh.isolates,
        )
        self._has_machine = True
        self._chain = Chain(whole=not self.start.plans and self.start.offsets[mesh.topics.topology] == 0)

    def _beat(self, first: Heartbeat) -> Heartbeat:
        return self.machine.heartbeat if self._has_machine else first

    def role(
        self,
        observer: NodeObserver,
        open_slot: Callable[[OpenSlot, Pending], None],
        *,
        clock: Callable[[], float],
        beat: float | None,
        written: Action = lambda: None,
    ) -> Role:
        """Return the role that continues at `start`. `open_slot` opens a slot, which `closed` answers.

        `clock`: the world's clock. `beat`: as in `Role`; None: the role has no timers, as no peer gives the
        node up. `written`: as in `Role`.
        """
        self._observer = observer
        fetch_clock = FetchClock(clock, self._mesh.silence, beats=beat is not None)
        limit = self._mesh.lag_limit
        mesh, topics, start = self._mesh, self._mesh.topics, self.start
        sources = {topics.edge(source, self.name): source for source in mesh.expected}
        readers = {topics.progress(target): target for target in mesh.targets}
        refused: list[BadMessage] = []
        plans = tuple(plan for record in start.plans for plan in self._taken(record, refused))
        reports = (Noticed, Decided, BeforeStep, Stepped, Scored)

        def entered(opened: OpenSlot, pending: Pending) -> None:
            observer.entered()
            open_slot(opened, pending)

        return Role(
            machine=self.machine,
            first=Started(start.records, plans, self._journal.secret(), self._journal.carried, self._leaving),
            presence=self.presence,
            beat=beat,
            clock=fetch_clock,
            offsets=start.offsets,
            lossy=may_lose(start.offsets, topics),
            decode={topics.topology: self._planned}
            | {topic: partial(self._released, source) for topic, source in sources.items()}
            | {topic: partial(self._accused, reader) for topic, reader in readers.items()},
            send={SendRelease: self._releases, SendHeartbeat: self._heartbeat},
            keep={Journal: lambda effect: self._journal.append(effect.record, effect.secret)},
            later={OpenSlot: entered},
            timers=() if beat is None else ((CATCH_UP, self._catch_up), (beat, self.wish)),
            report=dict.fromkeys(reports, observer.report),
            evidence={Evidence: self._evidence},
            unsent=start.unsent,
            refusals=refused,
            peers=tuple(sources),
            timeout=mesh.round_timeout,
            settles=(Decided,),
            patience=None if limit is None else Patience(limit, fetch_clock.now, self.machine),
            letters=topics.dead_letters(self.name),
            floods=dict.fromkeys(readers, self._may_accuse),
            before=observer.began,
            written=written,
            kept=lambda _, seconds: observer.committed(seconds),
            refused=observer.refused,
            acknowledged=observer.sent,
        )

    def closed(self, slot: SlotClosed) -> SlotClosed:
        """Return the slot for `Pending.answer`, in the role's turn."""
        self._observer.closed()
        return slot

    # -------------------------------------------------------------------------------------- what it reads

    def _taken(self, record: Stored, refused: list[BadMessage]) -> tuple[PlanArrived, ...]:
        """Return the plans of a record that was read at the start."""
        try:
            return self._plans_of(record.offset, record.value, record.appended)
        except Refused as reason:
            refused.append(BadMessage(self._mesh.topics.topology, record.value, reason))
            return ()

    def _planned(self, read: Arrived) -> Iterable[LeaveAsked | PlanArrived]:
        plans = self._plans_of(*read)
        # the wish first, so that no plan of its last rounds is missed; no record of a flood is worth that
        return (*self.wish(), *plans) if plans else ()

    def _plans_of(self, offset: int, value: bytes, appended: float) -> tuple[PlanArrived, ...]:
        """Return the plans of a record of the topology; none if it is void. Raises Refused."""
        signed = self._mesh.envelope.of_scheduler(value)
        record = decode_plans(signed, self._mesh.topics.run, self._mesh.digest, self._mesh.clock, appended)
        if not self._chain.take(record):
            self._observer.report(Noticed(Notice.PLAN_IGNORED, self.name, record.plans[0].round))
            return ()
        self.generation = max(self.generation, record.last.generation)
        self._observer.planned(record.last)
        self._observer.made_by(self.generation)
        return tuple([PlanArrived(plan, offset) for plan in record.plans])

    def _released(self, source: str, read: Arrived) -> tuple[ReleaseArrived]:
        mesh = self._mesh
        self._observer.received(source)
        message = decode_release(mesh.envelope.of_node(read.value, source), mesh.expected[source])
        return (ReleaseArrived(message, read.offset),)

    def _may_accuse(self, value: bytes) -> bool:
        return accuses(self._mesh.envelope.unverified(value))

    def _accused(self, reader: str, read: Arrived) -> tuple[()]:
        """Handle a heartbeat from a downstream neighbour. It may report conflicting releases of this one."""
        mesh = self._mesh
        try:
            signed = mesh.envelope.of_node(read.value, reader)
            beat = decode_heartbeat(signed, mesh.topics.run, reader, mesh.digest)
        except Refused:
            return ()  # schedulers count it
        if self.machine.identity.instance in beat.accused:
            self._observer.report(Noticed(Notice.ACCUSED, reader, beat.stepped))
        return ()

    def wish(self) -> tuple[LeaveAsked, ...]:
        """Return the owner's wish to leave, or to stay, if it has changed."""
        leave_from = self._leave_from()
        if leave_from == self._leaving or self.machine.halted:
            return ()
        self._leaving = leave_from
        self._observer.wished(leave_from)
        return (LeaveAsked(leave_from),)

    def _catch_up(self) -> tuple[()]:
        self._observer.catch_up()
        return ()

    # -------------------------------------------------------------------------------------- what it sends

    def _releases(self, effect: SendRelease) -> Iterator[tuple[str, bytes]]:
        value = self._mesh.envelope.sealed(encode_release(effect.message, self._mesh.digest))
        edge = partial(self._mesh.topics.edge, effect.message.source)
        for topic in dict.fromkeys(map(edge, effect.targets)):  # an outbox is one topic for all targets
            yield topic, value

    def _heartbeat(self, effect: SendHeartbeat) -> tuple[tuple[str, bytes]]:
        value = self._mesh.envelope.sealed(encode_heartbeat(effect.heartbeat, self._mesh.digest))
        return ((self.presence.topic, value),)

    def _evidence(self, effect: Evidence) -> Iterator[BadMessage]:
        edge = self._mesh.topics.edge(effect.message.source, self.name)
        for value in (effect.message._replace(release=effect.first), effect.message):
            yield BadMessage(edge, encode_release(value, self._mesh.digest), Refused(Reason.SECOND_VALUE))
