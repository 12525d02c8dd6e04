"""One simulated history: nodes, schedulers and a broker in virtual time, with faults.

Its watch passes the events to the oracle as plain values, and repeats steps for the oracle.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from hashlib import blake2b
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, NamedTuple

import numpy as np

from nodes.learner import Learner
from nodes.machine.events import BeforeStep, Decided, Notice, Report, Scored
from nodes.machine.journal import JournalRecord
from nodes.privacy.mechanism import Secret
from nodes.privacy.private import Private
from nodes.protocol import Noticed
from nodes.regret import LocalRegret
from nodes.values import BoolArray, Consensus, Decision, FloatArray, Observations
from streams.bus.memory import Faults
from streams.codec import Reason, Refused
from streams.codec.envelope import Envelope, SignedEnvelope
from streams.local.mesh import MeshParts
from streams.local.recorder import for_the_owner
from streams.records.decoder import SchemaDecoder
from streams.records.observed import observed
from streams.records.record import Decoder, RawRecord
from streams.simulation.bus import FaultyBroker
from streams.simulation.faults import FaultKind, InjectedFault
from streams.simulation.history import Reached, SimulatedHistory, Violation
from streams.simulation.journal import DiskJournal, FaultyJournal, SimulatedJournal
from streams.simulation.node import DataTopic, SimulatedNode
from streams.simulation.oracle.given import (
    Begun,
    Clock,
    Durable,
    FileFacts,
    HandedDecision,
    HandedSlot,
    Lost,
    RepeatedStep,
    Setup,
)
from streams.simulation.oracle.oracle import Oracle
from streams.simulation.oracle.releases import WatchedProcess
from streams.simulation.oracle.steps import NodeAccount
from streams.simulation.scheduler import SimulatedScheduler
from streams.simulation.stage import Scene
from topology.keyed import generator

_QUIET = {Notice.DUPLICATE, Notice.STALE}


class _Draws(NamedTuple):
    """A process's draws for its next record, and the number of its draws by kind and round."""

    drawn: list[tuple[str, int, float]]
    numbers: Counter[tuple[str, int]]


class Watch:
    """Translates the events of one history for its oracle."""

    def __init__(self, scene: Scene, history: SimulatedHistory) -> None:
        self.history, self._scene = history, scene
        decoders = {name: node.decoder for name, node in scene.parts.nodes.items()}
        self._repeated = RepeatedSteps(scene.again, decoders, scene.records, scene.labels)
        self.setup = setup_of(scene)
        self.oracle = Oracle(self.setup, self._repeated, history)
        self._processes: dict[SimulatedNode, WatchedProcess] = {}
        self._regrets: dict[WatchedProcess, LocalRegret] = {}
        self._draws: dict[WatchedProcess, _Draws] = {}
        self._folders: dict[SimulatedJournal, int] = {}
        self._numbers = count()

    def appended(self, topic: str, value: bytes) -> None:
        """Handle a new record of any topic."""
        self.oracle.appended(topic, value)

    def finish(self) -> None:
        """Check what can only be checked at the end."""
        self.oracle.finish()

    # ------------------------------------------------------------------------------------------- disks

    def folder(self, journal: SimulatedJournal) -> int:
        """Return the number of a journal's disk."""
        if journal not in self._folders:
            self._folders[journal] = next(self._numbers)
        return self._folders[journal]

    def copied(self, journal: SimulatedJournal, copy: SimulatedJournal) -> None:
        """Record that a disk was copied."""
        self.oracle.copied(self.folder(journal), self.folder(copy))

    def restored(self, journal: SimulatedJournal, behind: int) -> None:
        """Record that a journal has lost this many of its newest records."""
        self.oracle.restored(self.folder(journal), behind, len(journal.records()))

    # ---------------------------------------------------------------------------------------- a node's

    def started(self, node: SimulatedNode) -> None:
        """Record that a process has started."""
        journal, generation = node.journal, node.generation
        records = tuple(map(durable, journal.records()))
        start = Begun(node.name, self.folder(journal), generation, journal.instance, journal.carried, records)
        process = self._processes[node] = self.oracle.begun(start)
        self._repeated.secrets[process] = journal.secret()
        if any("joining as a new instance" in warning for warning in node.warnings):
            self.history.reached.add(Reached.RENEWED)

    def stopped(self, node: SimulatedNode, why: str, *, halted: bool = False) -> None:
        """Record that a process has ended. `halted`: its machine is done."""
        process = self._processes.get(node)
        self.history.note(node.name, "ends", why)
        if process is None:
            return
        if halted:
            self.oracle.halted(process)
        else:
            self._draws.pop(process, None)
            self.oracle.ended(self._processes.pop(node))

    def effect(self, node: SimulatedNode) -> None:
        """Note that an effect of this process follows.

        The noise drawn since the last effect is this process's.
        """
        noise = self._scene.noise[node.name]
        if noise.drawn:
            before = self._draws.get(self._processes[node])
            earlier = [] if before is None else before.drawn
            self._draws[self._processes[node]] = _Draws([*earlier, *noise.drawn], noise.draws.copy())
            noise.drawn.clear()

    def wished(self, node: SimulatedNode, leave_from: int | None) -> None:
        """Record that a process has learnt of its owner's wish to leave."""
        self.oracle.wished(self._processes[node], leave_from)

    def data_ended(self, node: SimulatedNode) -> None:
        """Record that a process has no more records for a slot."""
        self.oracle.data_ended(self._processes[node])

    def journalled(self, node: SimulatedNode, record: JournalRecord, secret: Secret | None) -> None:
        """Check a record that has become durable."""
        process, noise = self._processes[node], self._scene.noise[node.name]
        newest = noise.draws  # of all processes: others may have drawn during this append
        draws = self._draws.pop(process, None) or _Draws([], newest)
        noise.draws = draws.numbers
        try:
            self.oracle.durable(process, durable(record), draws.drawn)
        finally:
            noise.draws = newest
        self._repeated.secrets[process] = secret

    def sending(self, node: SimulatedNode, topic: str, value: bytes) -> None:
        """Check a record that a process sends."""
        self.oracle.sending(self._processes[node], topic, value)

    def refused(self, node: SimulatedNode, topic: str, refused: Refused) -> None:
        """Record that a peer's record was refused."""
        self.history.note(node.name, "refuses", f"{refused.reason.value} from {topic.split('.', 2)[-1]}")
        if refused.reason is Reason.SIGNATURE:
            self.history.reached.add(Reached.FORGED)
        elif refused.reason is not Reason.SECOND_VALUE:
            self.history.reached.add(Reached.POISON)

    def reached(self, reached: Reached) -> None:
        """Record an event of interest."""
        self.history.reached.add(reached)

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Handle a report of a machine."""
        process = self._processes[node]
        match report:
            case Decided():
                self.oracle.decided(process, HandedDecision(*report[:2], report.heard, report.edges))
            case BeforeStep(round=round, places=places):
                self._repeated.slots[process] = report
                offsets = tuple([offset for _, offset in for_the_owner(places)])
                self.oracle.slot(process, HandedSlot(round, offsets, *_labels_of(node, report)))
            case Scored():
                self._scored(process, report)
            case Noticed():
                self._noticed(node, process, report)

    def _scored(self, process: WatchedProcess, scored: Scored) -> None:
        regret = self._regrets.get(process)
        if regret is None:
            regret = self._regrets[process] = self._repeated.regret(process.name)
        regret.add(scored.gradient, scored.decision)
        gradient, total = for_the_owner(scored.gradient), for_the_owner(regret.value())
        self.oracle.scored(process, scored.round, gradient, scored.decision, total)

    def _noticed(self, node: SimulatedNode, process: WatchedProcess, noticed: Noticed[Notice]) -> None:
        notice, source, round = noticed
        if notice not in _QUIET:
            self.history.note(node.name, "notices", f"{notice}, {source} in {round}")
        if notice is Notice.GIVEN_UP:
            self.oracle.gave_up(process, source, round, node.looked_at)
        if notice is Notice.EVIDENCE:
            self.history.reached.add(Reached.EVIDENCE)
        if notice is Notice.LISTENED and self.oracle.excuses.partitions:
            self.history.reached.add(Reached.JOINED)


def _labels_of(node: SimulatedNode, slot: BeforeStep) -> tuple[tuple[float | None, ...], float]:
    """Return the labels of a slot's records that came later, if they did, and when they were read."""
    if node.labels is None:
        return (), 0.0
    observations = for_the_owner(slot.observations)
    pairs = zip(observations.labels.tolist(), observations.present.tolist(), strict=True)
    labels = tuple([label if present else None for label, present in pairs])
    return labels, node.labels.moments.get(slot.round, 0.0)


def durable(record: JournalRecord) -> Durable:
    """Return a journal's record as plain values."""
    position, average = record.data_position, record.average
    return Durable(
        record.round,
        record.stepped,
        record.release,
        record.exact,
        record.charged,
        record.epsilon_spent,
        None if position is None else position[0][1] if position else 0,
        tuple([Lost(*entry) for entry in record.given_up]),
        record.corrected,
        record.distrusted,
        0 if average is None else average.rounds,
        None if average is None else average.mean,
    )


def setup_of(scene: Scene) -> Setup:
    """Return the facts about a mesh for the oracle."""
    parts, topics = scene.parts, scene.parts.topics
    edges = {generation: _edges(files) for generation, (_, files) in scene.files.items()}
    every = sorted(set().union(*edges.values()))
    by_topic: dict[str, tuple[str, tuple[str, ...]]] = {}
    for source, target in every:
        topic = topics.edge(source, target)
        by_topic[topic] = source, (*by_topic.get(topic, (source, ()))[1], target)
    node_keys, scheduler_keys = _keys(parts.planner)
    clock = None if parts.clock is None else Clock(parts.clock.period)
    return Setup(
        topics.mesh,
        topics.run,
        parts.digest,
        next(iter(parts.nodes.values())).learner.algorithm.dimension,
        parts.horizon,
        {
            generation: FileFacts(tree, edges[generation], _last_round(scene.setting.rounds, tree, files))
            for generation, (tree, files) in scene.files.items()
        },
        {name: node.learner.release_bound for name, node in parts.nodes.items()},
        topics.topology,
        {topics.progress(name): name for name in parts.nodes},
        by_topic,
        {(source, target): topics.edge(source, target) for source, target in every},
        node_keys,
        scheduler_keys,
        clock,
        {name: labels.facts for name, labels in scene.labels.items()},
    )


def _last_round(rounds: int, tree: Mapping[str, Any], parts: MeshParts) -> int:
    """Return the last round in which a node may learn; by the product where the oracle has no formula."""
    facts = FileFacts(tree, frozenset(), rounds)
    accounts = [NodeAccount.of(facts, name) for name in parts.nodes]
    if not all(account.known for account in accounts):
        return parts.scheduler.rounds or rounds
    return min(rounds, max(rounds if account.last is None else account.last for account in accounts))


def _edges(parts: MeshParts) -> frozenset[tuple[str, str]]:
    return frozenset((name, target) for name in parts.nodes for target in parts.context(name).targets)


def _keys(envelope: Envelope) -> tuple[dict[str, bytes] | None, dict[str, bytes] | None]:
    if not isinstance(envelope, SignedEnvelope):
        return None, None
    return dict(envelope.nodes), dict(envelope.schedulers)


class RepeatedSteps:
    """Repeats the steps of the learners of one history.

    `slots` and `secrets` are each process's last ones. `labelled` are the nodes whose labels come later.
    """

    def __init__(
        self,
        learners: Mapping[str, Learner],
        decoders: Mapping[str, Decoder],
        records: Mapping[str, tuple[RawRecord, ...]],
        labelled: Collection[str],
    ) -> None:
        self._learners, self._decoders, self._records = learners, decoders, records
        self._labelled = labelled
        self.slots: dict[object, BeforeStep] = {}
        self._seats: dict[tuple[str, str], set[int]] = {}  # by node and unit: the rounds that it was in
        self.secrets: dict[object, Secret | None] = {}

    def decide(self, name: str, round: int, consensus: FloatArray, share: float) -> FloatArray:
        """Return the decision for a consensus. `share` is the sum of squares of the consensus's weights."""
        return self._learners[name].algorithm.decide(round, Consensus(consensus), share)

    def contain(self, name: str, values: FloatArray) -> FloatArray:
        """Return the values projected onto the set of releases."""
        return self._learners[name].algorithm.contain(values)

    def moves(self, name: str) -> bool:
        """Return whether the mesh has dynamics."""
        return self._learners[name].algorithm.dynamics is not None

    def moved(self, name: str, values: FloatArray, times: int) -> FloatArray:
        """Return the values after this many rounds of the dynamics; unchanged if there are none."""
        dynamics = self._learners[name].algorithm.dynamics
        return values if dynamics is None else dynamics.moved(values, times)

    def carried(self, name: str, difference: FloatArray, times: int) -> FloatArray:
        """Return what a late release's difference is worth after this many rounds of the dynamics."""
        dynamics = self._learners[name].algorithm.dynamics
        return difference if dynamics is None else dynamics.carried(difference, times)

    def start(self, name: str) -> FloatArray:
        """Return the first release."""
        return self._learners[name].algorithm.start

    def learn(
        self,
        process: object,
        name: str,
        round: int,
        consensus: FloatArray,
        point: FloatArray,
        charged: int,
        span: tuple[int, int] | None,
    ) -> RepeatedStep:
        """Return the step with the noise that was drawn last.

        `span` gives the records of the slot; None: the records that the process read.
        """
        observations = self.slots[process].observations
        offsets = [offset for _, offset in for_the_owner(self.slots[process].places)]
        if span is not None:
            offsets = list(range(*span))
        counts = self._counted(name, round, offsets)
        learnt = for_the_owner(self.slots[process].counts)
        if span is None and (learnt is None) != (counts is None):
            raise Violation(f"{name} learns in round {round} as if records had other units")
        if span is not None:
            observations = self._read(name, span, observations if name in self._labelled else None)
        learner = self._learners[name]
        lesson = learner.learn(
            round,
            Consensus(consensus),
            Decision(point),
            observations,
            charged,
            self.secrets[process],
            Private(counts),
        )
        return RepeatedStep(lesson.release, for_the_owner(lesson.gradient))

    def observed(self, name: str, point: FloatArray) -> FloatArray:
        """Return the coordinates that the loss sees."""
        return self._learners[name].algorithm.observed(point)

    def support(self, name: str, direction: FloatArray) -> float:
        """Return the largest product of a point of the observed set with a direction."""
        return float(self._learners[name].algorithm.observed_set.support(direction))

    def regret(self, name: str) -> LocalRegret:
        """Return the regret of a node without scores."""
        algorithm = self._learners[name].algorithm
        return LocalRegret(algorithm.observed_set, algorithm.observed)

    def _counted(self, name: str, round: int, offsets: list[int]) -> BoolArray | None:
        """Return which records of a step count, and check the rounds of their units; None without units."""
        decoder = self._decoders[name]
        bound = decoder.bound if isinstance(decoder, SchemaDecoder) else None
        if bound is None or not isinstance(decoder, SchemaDecoder):
            return None
        records = [self._records[name][offset] for offset in offsets]
        units = [decoder.text(record.value, bound.column) for record in records]
        order = sorted(range(len(offsets)), key=lambda k: (records[k].timestamp or 0.0, offsets[k]))
        counts, counted_units = np.zeros(len(offsets), np.bool_), set[str]()
        for k in order:
            unit = units[k]
            if not unit or unit.isspace() or unit in counted_units:
                continue
            number = int.from_bytes(blake2b(unit.encode(), digest_size=8).digest(), "big")
            if (number + round) % bound.apart == 0:
                counts[k] = True
                counted_units.add(unit)
                rounds = self._seats.setdefault((name, unit), set())
                rounds.add(round)
                if any(0 < abs(round - earlier) < bound.apart for earlier in rounds):
                    raise Violation(f"{name} learns from a unit in rounds that are not {bound.apart} apart")
        return counts

    def _read(
        self, name: str, span: tuple[int, int], labelled: Private[Observations] | None
    ) -> Private[Observations]:
        """Return these records; their labels are those of `labelled` if given, which are checked apart."""
        values = tuple([record.value for record in self._records[name][slice(*span)]])
        observations = observed(values, self._decoders[name])
        if labelled is not None:
            observations = observations._replace(labels=for_the_owner(labelled).labels)
        return Private(observations)


MOST_EVENTS = 60_000
"""The number of events after which a history counts as endless."""
MEMORY = Path("/dev/shm")  # noqa: S108 # a folder of our own is made in it
"""A folder whose files are in memory, on Linux."""


class World:
    """The processes of one history. `nodes` has the newest process of each name. `strike` begins a fault."""

    def __init__(self, scene: Scene, strike: Callable[[InjectedFault], None]) -> None:
        self.scene, self._strike = scene, strike
        self.history = SimulatedHistory(lambda: self.broker.now)
        setting = scene.setting
        self.watch = Watch(scene, self.history)
        self.excuses = self.watch.oracle.excuses
        self.edges = self.watch.setup.edge_topics
        self.chance = generator("chance", setting.seed)
        self.broker = FaultyBroker(self._topics(), self._disorder(), self, self._survives)
        self._ids = count(1)
        self.data = {name: DataTopic(records) for name, records in scene.records.items()}
        self.generation, (_, first) = next(iter(scene.files.items()))
        self._journals: list[SimulatedJournal] = []
        self._folder: TemporaryDirectory[str] | None = None
        self._disks = 0
        self.nodes = {name: self._node(name, self.new_journal(name)) for name in first.nodes}
        self.processes = list(self.nodes.values())
        if setting.hosted:
            host, guest, *_ = self.processes
            host.process.take(guest)
        self.schedulers = [SimulatedScheduler("scheduler", first, self.broker, self.history, 1)]
        self._due = list(reversed(scene.faults))

    def begin(self) -> None:
        """Start all processes."""
        for scheduler in self.schedulers:
            scheduler.start()
        for node in self.processes:
            node.process.start()

    def advance(self) -> None:
        """Handle the next event. Raises Violation if there is none, or if there were too many."""
        if not self.broker.deliver():
            raise Violation("nothing is left to do, and the run has not ended")
        if self.history.events > MOST_EVENTS:
            raise Violation(f"{MOST_EVENTS} events, and no end")

    def new_id(self) -> str:
        """Return an id that this history has not had."""
        return f"{next(self._ids):032x}"

    def new_journal(self, name: str) -> SimulatedJournal:
        """Return an empty journal for a new life of the node."""
        setting = self.scene.setting
        journal: SimulatedJournal = FaultyJournal(self.new_id(), setting.horizon)
        if setting.on_disks:
            self._disks += 1
            chance = generator("disk", setting.seed, self._disks)
            mesh = self.scene.files[self.generation][1].context(name)
            journal = DiskJournal(name, mesh, self.new_id, self._new_folder, chance)
        return journal

    def close(self) -> None:
        """Remove the files of the journals."""
        for journal in self._journals:
            journal.remove()
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, name: str, journal: SimulatedJournal) -> SimulatedNode:
        """Add a process of the node on this journal, beside the one that runs. It is the newest."""
        node, before = self._node(name, journal), self.nodes.get(name)
        if before is not None:
            _, parts = self.scene.files[before.generation]
            node.use_file(parts.context(name), before.generation)
            node.leave(before.leave_from)
        self.nodes[name] = node
        self.processes.append(node)
        return node

    def add_scheduler(self, generation: int | None = None) -> SimulatedScheduler:
        """Add a scheduler with the mesh file of this generation; None: the newest file in use."""
        _, parts = self.scene.files[self.generation if generation is None else generation]
        number = len(self.schedulers) + 1
        name = f"scheduler {number}"
        self.schedulers.append(SimulatedScheduler(name, parts, self.broker, self.history, number))
        return self.schedulers[-1]

    def take_newer_file(self) -> list[str]:
        """Switch to the newest mesh file. Return the nodes that it adds."""
        self.generation = max(self.scene.files)
        added = [name for name in self.scene.parts.nodes if name not in self.nodes]
        for name in added:
            self.add(name, self.new_journal(name))
        return added

    # ------------------------------------------------------------------------------- the broker's observer

    def happens(self) -> None:
        """Count an event, and begin the faults that are due."""
        history = self.history
        history.events += 1
        while self._due and self._due[-1].at <= history.events:
            self._strike(self._due.pop())

    def appended(self, topic: str, value: bytes) -> None:
        """Handle a new record."""
        self.watch.appended(topic, value)

    # ---------------------------------------------------------------------------------------------- parts

    def _topics(self) -> list[str]:
        parts = self.scene.parts
        topics, names = parts.topics, tuple(parts.nodes)
        owned = [topic for name in names for topic in (topics.progress(name), topics.dead_letters(name))]
        return [topics.topology, topics.scheduler, *owned, *self.edges]

    def _disorder(self) -> Faults | None:
        for fault in self.scene.faults:
            if fault.kind is FaultKind.DISORDER:
                return Faults(self.scene.setting.seed, duplicate=fault.amount / 100)
        return None

    def _survives(self) -> bool:
        return bool(self.chance.random() < 0.5)

    def _new_folder(self) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        return Path(mkdtemp(dir=self._folder.name))

    def _node(self, name: str, journal: SimulatedJournal) -> SimulatedNode:
        _, parts = self.scene.files[self.generation]
        self._journals.append(journal)
        return SimulatedNode(
            name,
            parts.nodes[name],
            parts.context(name),
            self.broker,
            self.data[name],
            journal,
            slot_time=self.scene.setting.slot_time,
            new_id=self.new_id,
            watcher=self.watch,
            generation=self.generation,
            append_time=self._append_time,
            labels=self.scene.labels.get(name),
        )

    def _append_time(self) -> float:
        longest = self.scene.setting.append_time
        return longest and longest * float(self.chance.random())
