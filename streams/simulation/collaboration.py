"""Simulated histories of a collaboration: its roles on the product's runner, in virtual time, under faults.

Each process runs what it runs on a broker. Half of the histories append as a host does, with the append under
way while records arrive, so that a process may die between an append and what follows it, and an append may
fail late.
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
"""About the events of one owner's part in a query, without faults."""
RETRY = 0.5
"""Seconds after which a process starts again that could not go on."""
PATIENCE = 120.0
"""Seconds in which all must be over once the faults have stopped."""


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
    """The sizes and times, in seconds, of one history.

    `timeout`: until an owner is left out (None: never). `pass_time`: the longest pass over a set.
    `append_time`: the longest append in another thread (0: appends are done in the turn). `duplicate`: the
    share of deliveries that an older record follows (None: all come once, in order). `fresh`: noise differs
    at each draw.
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
    """A collaboration whose noise differs at each draw, so that an answer that is drawn twice shows."""

    seed: int = 0

    def sampler(self, owner: str) -> Sampler:
        """Return the sampler of an owner's noise."""
        return CountedNoise(self.seed, owner)


@dataclass(frozen=True, slots=True)
class PartyScene:
    """One history before it begins."""

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
        """What many histories must reach, beside the kinds of faults: nothing."""
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the processes."""
        return (self._file.mesh.learner, *sorted(self._file.mesh.owners))

    def scene(self, seed: int, keep: tuple[int, ...] | None = None) -> PartyScene:
        """Return the scene of a seed; of its faults only those in the places `keep`, if given."""
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
        """Return some faults of some kinds, by time: some kinds hide others (Groce et al. 2012)."""
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
    """The processes of the learner or an owner, one after another, on one journal."""

    def __init__(self, name: str, play: "CollaborationPlay") -> None:
        self.name, self.link = name, Link()
        self.done = self.starting = self.full = self.unreadable = False
        self._play = play
        self._host: Host | None = None
        self._bus: FaultyBus | None = None
        self._appends = Appends(play.broker)
        self._crash = PlannedCrash()

    def start(self) -> None:
        """Start a process, unless one runs; again later if the broker does not answer."""
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
        """Let the process die before that effect from now (1: the next), and start again later."""
        self._crash.plan(effects, restart_after)

    def mend(self) -> None:
        """Let the journal be written again, and the set be read."""
        self.full = self.unreadable = False

    def kill(self, why: str, restart_after: float) -> None:
        """End the process here and now; of its appends under way some have reached the disk."""
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
        if is_orderly(error):  # it ends once the broker has all that it has sent
            self._play.history.note(self.name, "done", str(error))
            self.done = True
            if self._host is not None:
                self._host.close()
            self._host = None
        else:
            self.kill(str(error), self._crash.restart_after if isinstance(error, Killed) else RETRY)


class CollaborationPlay:
    """One history: the processes, the broker between them, the faults, and what is checked."""

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
        """Return whether something with probability 1/2 happens."""
        return self.share() < 0.5

    def share(self) -> float:
        """Return a number from 0 to 1."""
        return float(self._random.random())

    def role(self, name: str, world: ProcessWorld) -> Role:
        """Return the role of a new process, as the product makes it."""
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
        """Run the phase with faults, then the one in which all must come to an end. Raises Violation."""
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
        """Check what can be told at the end alone. Raises Violation."""
        self.checks.finish(
            everybody=self.scene.setting.timeout is None, same_noise=not self.scene.setting.fresh
        )

    def close(self) -> None:
        """Nothing to remove."""

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
        """Stop every fault; start every process once more, as its operator would."""
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
        """Read the set. Raises OSError where it cannot be read."""
        if self.party.unreadable:
            raise OSError("a planted fault")
        return self.passes.read(asked, wanted)


class _Disk:
    """A journal on a disk that may be full."""

    def __init__(self, journal: Any, play: CollaborationPlay, name: str) -> None:
        self.instance, self._journal, self._play, self._name = journal.instance, journal, play, name

    @property
    def records(self) -> Any:
        """As the journal's."""
        return self._journal.records

    def append(self, record: QueryRecord | ResponseRecord) -> None:
        """Append it. Raises JournalError if the disk is full."""
        if self._play.parties[self._name].full:
            raise JournalError("no space is left on the device")
        self._journal.append(record)
        self._play.checks.journalled(self._name, record)


@dataclass(frozen=True, slots=True)
class _Watcher:
    """Notes what an owner or the learner reports; a message that is refused is a violation."""

    play: CollaborationPlay
    name: str

    def answered(self, record: ResponseRecord) -> None:
        """Note it."""
        self.play.history.note(self.name, "answers", f"query {record.query}")

    def read(self, seconds: float, read: SetRead) -> None:
        """Ignored here."""

    def stepped(self, record: QueryRecord) -> None:
        """Note it."""
        self.play.history.note(self.name, "steps", f"query {record.number - 1}")

    def noticed(self, noticed: Noticed[CollaborationNotice]) -> None:
        """Raise Violation for what only a process that breaks the protocol can cause."""
        if noticed.notice in {
            CollaborationNotice.CHANGED,
            CollaborationNotice.EVIDENCE,
            CollaborationNotice.BEYOND,
            CollaborationNotice.FOREIGN,
        }:
            raise Violation(f"{self.name} finds that {noticed.peer} breaks the protocol: {noticed.notice}")

    def refused(self, *refused: str | Refused) -> None:
        """Raise Violation: nobody sends anything malformed.

        But an owner that a broker has cheated of a query refuses all that follow.
        """
        if not self.play.queries_lost:
            raise Violation(f"{self.name} refuses a message: {refused[-1]}")
