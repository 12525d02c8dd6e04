"""Simulated histories of a collaboration. Its roles run on the product's runner, in virtual time, under
faults.

Each process runs the code that it runs on a broker. Half of the histories append as a host does: records
arrive while an append is being made. So a process may die between an append and what follows it, and an
append may fail late.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial
from itertools import count
from typing import Any

import numpy as np

from nodes.collaboration.messages import (
    CollaborationNotice,
    QueryRecord,
    ReadSet,
    RecordSet,
    ResponseRecord,
    SetRead,
)
from nodes.privacy.mechanism import Sampler
from nodes.protocol import Noticed
from streams.bus.bus import Unreachable
from streams.bus.memory import Faults
from streams.codec import Refused
from streams.codec.envelope import PLAIN
from streams.collaboration.file import CollaborationFile
from streams.collaboration.local import LearnerMemory, OwnerMemory, collaboration_topics
from streams.collaboration.passes import Passes, fixed_sets
from streams.collaboration.roles import LearnerRole, OwnerRole, learner_start, owner_start
from streams.collaboration.settings import NoiseSettings
from streams.collaboration.wire import Collaboration, Wire
from streams.runtime.actions import Action, Ended, ProcessWorld, at_once, in_memory
from streams.runtime.runner import Host, Role, Runner, is_orderly
from streams.simulation.bus import Appends, FaultyBroker, FaultyBus, Killed, Link, PlannedCrash
from streams.simulation.collaboration_checks import CollaborationChecks
from streams.simulation.faults import ScheduledFault
from streams.simulation.history import Reached, SimulatedHistory, Violation
from streams.simulation.stage import CountedNoise
from streams.state.folder import JournalError
from topology.keyed import generator

QUERIES = (4, 9)
EVENTS = 8
"""The approximate number of events of one owner's part in a query, without faults."""
RETRY = 0.5
"""Seconds after which a process that could not continue starts again."""
PATIENCE = 120.0
"""Seconds after the end of the faults in which the collaboration must come to its end."""


class PartyKind(StrEnum):
    """A kind of fault."""

    CRASH = "crash"
    FULL_DISK = "full disk"
    CUT_OFF = "cut off"
    DEAF = "deaf"
    MUTE = "mute"
    DELAY = "delay"
    LOST = "lost messages"
    UNREADABLE = "set that cannot be read"


PartyFault = ScheduledFault[PartyKind]
"""A fault in a collaboration."""


@dataclass(frozen=True, slots=True)
class PartySetting:
    """The sizes and the times in seconds of one history.

    `timeout`: the time after which an owner is left out (None: never). `pass_time`: the longest pass over a
    set. `append_time`: the longest append in another thread (0: appends are done in the turn). `duplicate`:
    the share of deliveries that are followed by an older record (None: all records come once, in order).
    `fresh`: noise differs in each draw.
    """

    seed: int
    queries: int
    timeout: float | None
    pass_time: float
    append_time: float
    duplicate: float | None
    fresh: bool


@dataclass(frozen=True, eq=False)
class SimulatedCollaboration(Collaboration):
    """A collaboration whose noise differs in each draw, so that a check sees if an answer is drawn twice."""

    seed: int = 0

    def sampler(self, owner: str) -> Sampler:
        """Return the sampler of an owner's noise."""
        return CountedNoise(self.seed, owner)


@dataclass(frozen=True, slots=True)
class PartyScene:
    """What one history begins with."""

    setting: PartySetting
    file: CollaborationFile
    whole: Collaboration
    sets: dict[str, tuple[Passes, RecordSet]]
    faults: tuple[PartyFault, ...]


class CollaborationStage:
    """Makes the scene of any seed from one mesh file, with simulated noise. Raises MeshFileError."""

    def __init__(self, file: CollaborationFile) -> None:
        self._file = replace(file, mesh=file.mesh.model_copy(update={"noise": NoiseSettings(simulated=1)}))
        self._variant = cache(self._with_queries)
        self._variant(QUERIES[0])

    @property
    def reachable(self) -> tuple[Reached, ...]:
        """What a set of many histories must reach besides the kinds of faults: nothing."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the processes."""
        return (self._file.mesh.learner, *sorted(self._file.mesh.owners))

    def scene(self, seed: int, keep: tuple[int, ...] | None = None) -> PartyScene:
        """Return the scene of a seed. Of its faults it has only those at the indices `keep`, if given."""
        random = generator("collaboration", seed)
        setting = PartySetting(
            seed,
            queries=int(random.integers(*QUERIES)),
            timeout=[None, 0.4, 2.0][int(random.integers(3))],
            pass_time=float(random.choice([0.0, 0.1, 0.6])),
            append_time=float(random.choice([0.0, 0.2])),
            duplicate=[None, 0.0, 0.3][int(random.integers(3))],
            fresh=bool(random.random() < 0.5),
        )
        file, sets = self._variant(setting.queries)
        faults = self._drawn(random, EVENTS * len(self.names) * setting.queries)
        if keep is not None:
            faults = tuple(fault for place, fault in enumerate(faults) if place in keep)
        collaboration = SimulatedCollaboration(file.mesh, seed=seed) if setting.fresh else file.resolved
        return PartyScene(setting, file, collaboration, sets, faults)

    def begin(
        self, seed: int, keep: tuple[int, ...] | None
    ) -> tuple["CollaborationPlay", tuple[PartyFault, ...]]:
        """Return the history of a seed before its first event, and its faults."""
        scene = self.scene(seed, keep)
        return CollaborationPlay(scene), scene.faults

    def _with_queries(self, queries: int) -> tuple[CollaborationFile, dict[str, tuple[Passes, RecordSet]]]:
        file = replace(self._file, mesh=self._file.mesh.model_copy(update={"queries": queries}))
        return file, fixed_sets(file, sorted(file.mesh.owners))

    def _drawn(self, random: np.random.Generator, events: int) -> tuple[PartyFault, ...]:
        """Return faults of some kinds, by time.

        Not all kinds are drawn, as some hide others (Groce et al. 2012).
        """
        faults = []
        for kind in PartyKind:
            share, fault_limit = (0.7, 12) if kind is PartyKind.CRASH else (0.3, 3)
            if random.random() < share:
                for _ in range(int(random.integers(1, fault_limit + 1))):
                    party, at = str(random.choice(self.names)), int(random.integers(events))
                    seconds = round(float(random.uniform(0.0, 4.0)), 2)
                    faults.append(PartyFault(at, kind, party, seconds, int(random.integers(1, 9))))
        return tuple(sorted(faults))


class SimulatedParty:
    """The processes of the learner or of an owner, one after another, on one journal."""

    def __init__(self, name: str, play: "CollaborationPlay") -> None:
        self.name, self.link = name, Link()
        self.done = self.starting = self.full = self.unreadable = False
        self._play = play
        self._host: Host | None = None
        self._bus: FaultyBus | None = None
        self._appends = Appends(play.broker)
        self._crash = PlannedCrash()

    def start(self) -> None:
        """Start a process unless one runs. If the broker does not answer, try again later."""
        if self._host is not None or self.starting:
            return
        broker = self._play.broker
        self.starting, self.done = True, False
        self._crash.forget()
        self._bus = bus = FaultyBus(broker, self.link)
        try:
            self.link.check()
            role = self._play.role(self.name, self._world(bus))
            self._host = Host([Runner(role, self._world(bus), self._ended, self._crash.effect)], bus)
            self._play.history.note(self.name, "starts")
            self._host.begin()
        except Unreachable:
            bus.close()
            broker.after(RETRY, self.start)
        finally:
            self.starting = False

    def crash_in(self, effects: int, restart_after: float) -> None:
        """Let the process die before one of its next effects (1: the next), and start a new one later."""
        self._crash.plan(effects, restart_after)

    def mend(self) -> None:
        """Let the journal be writable and the set be readable again."""
        self.full = self.unreadable = False

    def kill(self, why: str, restart_after: float) -> None:
        """End the process now. Of the appends that were being made some have reached the disk."""
        host, bus = self._host, self._bus
        self._host = None
        if host is None or bus is None:
            return
        self._play.history.note(self.name, "ends", why)
        host.close()
        self._appends.die()
        bus.close()
        self._play.broker.after(restart_after, self.start)

    def _world(self, bus: FaultyBus) -> ProcessWorld:
        broker, setting = self._play.broker, self._play.scene.setting
        world = in_memory(broker, bus)

        def elsewhere(work: Action) -> None:
            broker.after(setting.pass_time * self._play.share(), work)

        def append_later(append: Action) -> None:
            self._appends.begin(setting.append_time * self._play.share(), append)

        commits = append_later if setting.append_time else None
        return ProcessWorld(bus, world.actions, world.clock, elsewhere, commits)

    def _ended(self, error: Ended) -> None:
        if is_orderly(error):  # it ends when the broker has all its messages
            self._play.history.note(self.name, "done", str(error))
            self.done = True
            if self._host is not None:
                self._host.close()
            self._host = None
        else:
            self.kill(str(error), self._crash.restart_after if isinstance(error, Killed) else RETRY)


class CollaborationPlay:
    """One history: the processes, the broker between them, the faults, and the checks."""

    def __init__(self, scene: PartyScene) -> None:
        self.scene, setting = scene, scene.setting
        self.wire, mesh = Wire(scene.whole, PLAIN), scene.file.mesh
        self._random = generator("collaboration chance", setting.seed)
        duplicate = setting.duplicate
        disorder = None if duplicate is None else Faults(setting.seed, duplicate=duplicate)
        topics = collaboration_topics(self.wire.topics, mesh.learner, mesh.owners)
        self.broker = FaultyBroker(topics, disorder, self, self.chance)
        self.history = SimulatedHistory(lambda: self.broker.now)
        ids = count(1)
        self._new_id: Callable[[], str] = lambda: f"{next(ids):032x}"
        self._learner = LearnerMemory(self._new_id())
        self._owners = {name: OwnerMemory(self._new_id()) for name in sorted(mesh.owners)}
        self.checks = CollaborationChecks(scene.file, self.wire, self._learner.kept, self._owners)
        self.parties = {name: SimulatedParty(name, self) for name in (mesh.learner, *self._owners)}
        self._due = list(scene.faults)
        self._calmed = self.queries_lost = False

    def chance(self) -> bool:
        """Return True with probability 1/2."""
        return self.share() < 0.5

    def share(self) -> float:
        """Return a random number from 0 to 1."""
        return float(self._random.random())

    def role(self, name: str, world: ProcessWorld) -> Role:
        """Return the role of a new process, made by the product's code."""
        wire, file, boot = self.wire, self.scene.file, self._new_id()
        watcher = _Watcher(self, name)
        if name == file.mesh.learner:
            learner = LearnerRole(file, wire, _Disk(self._learner, self, name), boot)
            learner.presence.hello(world.bus, at_once)
            offsets = learner_start(self._learner, wire, world.bus)
            return learner.role(offsets, watcher, timeout=self.scene.setting.timeout)
        passes, records = self.scene.sets[name]
        owner = OwnerRole(file, name, wire, _Disk(self._owners[name], self, name), boot)
        owner.presence.hello(world.bus, at_once)
        start = owner_start(self._owners[name], name, wire, world.bus)
        return owner.role(start, records, _FaultyPasses(passes, self.parties[name]), world, watcher)

    def to_the_end(self) -> None:
        """Run the phase with faults, then the phase in which the collaboration must come to its end.

        Raises Violation.
        """
        setting = self.scene.setting
        calm_at = EVENTS * len(self.parties) * setting.queries
        latest = 0.0
        for party in self.parties.values():
            party.start()
        while not (self._calmed and all(party.done for party in self.parties.values())):
            if not self._calmed and (
                self.history.events >= calm_at or all(party.done for party in self.parties.values())
            ):
                self._calm()
                latest = self.broker.now + PATIENCE
            if self._calmed and self.broker.now > latest:
                waiting = [name for name, party in self.parties.items() if not party.done]
                raise Violation(f"the faults have stopped, and it does not go on: {', '.join(waiting)}")
            self.broker.deliver()

    def finish(self) -> None:
        """Check what can only be checked at the end. Raises Violation."""
        self.checks.finish(
            everybody=self.scene.setting.timeout is None, same_noise=not self.scene.setting.fresh
        )

    def close(self) -> None:
        """Do nothing, as there is nothing to remove."""

    # ----------------------------------------------------------------------------- what the broker tells

    def happens(self) -> None:
        """Begin the faults that are due."""
        self.history.events += 1
        while self._due and self._due[0].at < self.history.events:
            self._strike(self._due.pop(0))

    def appended(self, topic: str, value: bytes) -> None:
        """Check a new record."""
        self.checks.appended(topic, value)

    # ------------------------------------------------------------------------------------------- faults

    def _strike(self, fault: PartyFault) -> None:
        party, topics = self.parties[fault.who], self.wire.topics
        if self._calmed:
            return
        if party.starting:
            self.broker.after(0.2, partial(self._strike, fault))
            return
        self.history.note("adversary", fault.kind, f"{fault.who}, {fault.seconds:g} s, {fault.amount}")
        own_topic = topics.query if fault.who == self.scene.file.mesh.learner else topics.response(fault.who)
        match fault.kind:
            case PartyKind.CRASH:
                party.crash_in(fault.amount, fault.seconds)
            case PartyKind.FULL_DISK:
                party.full = True
                self.broker.after(fault.seconds, party.mend)
            case PartyKind.UNREADABLE:
                party.unreadable = True
                self.broker.after(fault.seconds, party.mend)
            case PartyKind.DELAY:
                self.broker.latency[own_topic] = fault.amount / 10
                self.broker.after(fault.seconds, partial(self._on_time, own_topic))
            case PartyKind.LOST:
                self.queries_lost |= own_topic == topics.query
                self.broker.forget(own_topic, fault.amount)
            case _:
                self._cut(party, fault)

    def _on_time(self, topic: str) -> None:
        self.broker.latency.pop(topic, None)

    def _cut(self, party: SimulatedParty, fault: PartyFault) -> None:
        deaf, mute = fault.kind is not PartyKind.MUTE, fault.kind is not PartyKind.DEAF
        party.link.cut(deaf=deaf, mute=mute)
        self.broker.after(fault.seconds, lambda: party.link.heal(deaf=deaf, mute=mute))

    def _calm(self) -> None:
        """Stop every fault. Start every process once more, as its operator would."""
        self._calmed = True
        self.history.note("adversary", "stops")
        self.broker.calm()
        for party in self.parties.values():
            party.mend()
            party.link.heal(deaf=True, mute=True)
        for party in self.parties.values():
            party.kill("its operator starts it again", 0.0)
            party.start()


@dataclass(frozen=True, slots=True)
class _FaultyPasses:
    """Passes over a set that sometimes cannot be read."""

    passes: Passes
    party: SimulatedParty

    def read(self, asked: ReadSet, wanted: Callable[[], bool]) -> SetRead | None:
        """Read the set. Raises OSError if it cannot be read now."""
        if self.party.unreadable:
            raise OSError("a planted fault")
        return self.passes.read(asked, wanted)


class _Disk:
    """A journal on a disk that may be full."""

    def __init__(self, journal: Any, play: CollaborationPlay, name: str) -> None:
        self.instance, self._journal, self._play, self._name = journal.instance, journal, play, name

    @property
    def records(self) -> Any:
        """Return the journal's records."""
        return self._journal.records

    def append(self, record: QueryRecord | ResponseRecord) -> None:
        """Append the record. Raises JournalError if the disk is full."""
        if self._play.parties[self._name].full:
            raise JournalError("no space is left on the device")
        self._journal.append(record)
        self._play.checks.journalled(self._name, record)


@dataclass(frozen=True, slots=True)
class _Watcher:
    """Notes what an owner or the learner reports. A refused message is a violation."""

    play: CollaborationPlay
    name: str

    def answered(self, record: ResponseRecord) -> None:
        """Record that an owner has answered."""
        self.play.history.note(self.name, "answers", f"query {record.query}")

    def read(self, seconds: float, read: SetRead) -> None:
        """Do nothing."""

    def stepped(self, record: QueryRecord) -> None:
        """Record that the learner has stepped."""
        self.play.history.note(self.name, "steps", f"query {record.number - 1}")

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Raise Violation for a report that only a process that breaks the protocol can cause."""
        if noticed.notice in {
            CollaborationNotice.CHANGED,
            CollaborationNotice.EVIDENCE,
            CollaborationNotice.BEYOND,
            CollaborationNotice.FOREIGN,
        }:
            raise Violation(f"{self.name} finds that {noticed.peer} breaks the protocol: {noticed.notice}")

    def refused(self, *refused: str | Refused) -> None:
        """Raise Violation, as no process sends a malformed message.

        There is an exception: an owner from which the broker has lost a query refuses all later ones.
        """
        if not self.play.queries_lost:
            raise Violation(f"{self.name} refuses a message: {refused[-1]}")
