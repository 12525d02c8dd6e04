"""One simulated history: nodes, schedulers and a broker in virtual time, with faults."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from streams.bus.memory import Faults
from streams.simulation.bus import FaultyBroker
from streams.simulation.faults import FaultKind, InjectedFault
from streams.simulation.history import SimulatedHistory, Violation
from streams.simulation.journal import DiskJournal, FaultyJournal, SimulatedJournal
from streams.simulation.node import DataTopic, SimulatedNode
from streams.simulation.scheduler import SimulatedScheduler
from streams.simulation.stage import Scene
from streams.simulation.watch import Watch
from topology.keyed import generator

MOST_EVENTS = 60_000
"""Events after which a history counts as one that never ends."""
MEMORY = Path("/dev/shm")  # noqa: S108 # a folder of our own is made in it
"""Where files are in memory, on Linux."""


class World:
    """The processes of one history. `nodes`: the newest process of each name; `strike` begins a fault."""

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
        """Do the next event. Raises Violation if there is none, or there were too many."""
        if not self.broker.deliver():
            raise Violation("nothing is left to do, and the run has not ended")
        if self.history.events > MOST_EVENTS:
            raise Violation(f"{MOST_EVENTS} events, and no end")

    def new_id(self) -> str:
        """Return an id that this history has not had."""
        return f"{next(self._ids):032x}"

    def new_journal(self, name: str) -> SimulatedJournal:
        """Return an empty journal of the node's new life."""
        setting = self.scene.setting
        journal: SimulatedJournal = FaultyJournal(self.new_id(), setting.horizon)
        if setting.on_disks:
            self._disks += 1
            chance = generator("disk", setting.seed, self._disks)
            mesh = self.scene.files[self.generation][1].context(name)
            journal = DiskJournal(name, mesh, self.new_id, self._new_folder, chance)
        return journal

    def close(self) -> None:
        """Remove the journals' files."""
        for journal in self._journals:
            journal.remove()
        if self._folder is not None:
            self._folder.cleanup()

    def add(self, name: str, journal: SimulatedJournal) -> SimulatedNode:
        """Add a process of the node beside the one that is there, on that journal; it is the newest."""
        node, before = self._node(name, journal), self.nodes.get(name)
        if before is not None:
            _, parts = self.scene.files[before.generation]
            node.use_file(parts.context(name), before.generation)
            node.leave(before.leave_from)
        self.nodes[name] = node
        self.processes.append(node)
        return node

    def add_scheduler(self, generation: int | None = None) -> SimulatedScheduler:
        """Add a scheduler, with the mesh file of that generation; None: the newest one that is there."""
        _, parts = self.scene.files[self.generation if generation is None else generation]
        number = len(self.schedulers) + 1
        name = f"scheduler {number}"
        self.schedulers.append(SimulatedScheduler(name, parts, self.broker, self.history, number))
        return self.schedulers[-1]

    def take_newer_file(self) -> list[str]:
        """Switch to the newest mesh file; return the nodes that it adds."""
        self.generation = max(self.scene.files)
        added = [name for name in self.scene.parts.nodes if name not in self.nodes]
        for name in added:
            self.add(name, self.new_journal(name))
        return added

    # ------------------------------------------------------------------------------- the broker's observer

    def happens(self) -> None:
        """Count an event; begin the faults that are due."""
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
        )

    def _append_time(self) -> float:
        longest = self.scene.setting.append_time
        return longest and longest * float(self.chance.random())
