"""What the checks of a history share: what stood on the edges, which plans count, whom faults excuse."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from nodes.machine.journal import ReleaseMessage
from nodes.values import Release
from streams.codec import Refused, decode_heartbeat, decode_plans, decode_release
from streams.local.mesh import MeshParts
from streams.simulation.history import History
from topology.plans import Heartbeat, Plan, PlanRecord


class Stood(NamedTuple):
    """A value that stood on an edge, and since when."""

    release: Release
    time: float


Key = tuple[str, str, int, str]
"""Source, target, round, instance."""


@dataclass(slots=True)
class Facts:
    """What has happened so far. Faults tell here whom they excuse.

    `plans`: the valid ones of each round; there is more than one only if plans were lost.

    `clones`: copies made of a node's journal; each may lead to two values for one round. `liars`: nodes that
    forge records on their own topics. `forgotten`: topics that have lost acknowledged records. `rolled_back`:
    nodes whose journal was replaced by an older one. `ahead`: the round that a scheduler's clock has told.
    `forged`: what a stranger has written, in a signed mesh.
    """

    parts: MeshParts
    history: History
    plans: dict[int, list[Plan]] = field(default_factory=dict)
    clones: Counter[str] = field(default_factory=Counter)
    liars: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    rolled_back: set[str] = field(default_factory=set)
    ahead: int = 0
    forged: set[bytes] = field(default_factory=set)
    stepped: dict[str, int] = field(default_factory=dict)
    partitions: int = 0
    values: dict[Key, list[Stood]] = field(default_factory=dict)
    edges: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Name the edges: (source, targets) by topic."""
        for source in self.parts.nodes:
            for target in self.parts.surroundings(source).targets:
                topic = self.parts.topics.edge(source, target)
                known = self.edges.get(topic, (source, ()))[1]
                self.edges[topic] = source, (*known, target)

    def message(self, topic: str, value: bytes) -> ReleaseMessage | None:
        """Return the release in a record of an edge; None if readers refuse it."""
        source = self.edges[topic][0]
        try:
            return decode_release(self.parts.planner.of_node(value, source), self.parts.expected(source))
        except Refused:
            return None

    def record(self, value: bytes, appended: float) -> PlanRecord:
        """Return the plans in a record of the topology, as its readers do. Raises Refused."""
        parts = self.parts
        message = parts.planner.of_scheduler(value)
        return decode_plans(message, parts.topics.run, parts.digest, parts.clock, appended)

    def beat(self, name: str, value: bytes) -> Heartbeat:
        """Return a node's heartbeat. Raises Refused."""
        parts = self.parts
        return decode_heartbeat(parts.planner.of_node(value, name), parts.topics.run, name, parts.digest)

    def add(self, topic: str, message: ReleaseMessage) -> None:
        """Take a release that stands on an edge from now on."""
        for target in self.edges[topic][1]:
            stood = self.values.setdefault((message.source, target, message.round, message.instance), [])
            stood.append(Stood(message.release, self.history.now))

    def is_heard(self, key: Key, release: Release) -> bool:
        """Return whether a reader may take that value: the first one that stood there."""
        stood = self.values.get(key, [])
        topic = self.parts.topics.edge(key[0], key[1])
        allowed = stood if topic in self.forgotten else stood[:1]
        return any(release.tobytes() == one.release.tobytes() for one in allowed)

    def two_valued(self, round: int) -> set[str]:
        """Return the nodes of which two values for a round stood on edges: one of each copied journal."""
        if not self.clones:
            return set()
        values: dict[tuple[str, str], set[bytes]] = {}
        for (source, _, made_for, instance), stood in self.values.items():
            if source in self.clones and made_for == round:
                values.setdefault((source, instance), set()).update(one.release.tobytes() for one in stood)
        return {source for (source, _), found in values.items() if len(found) > 1}

    @property
    def counts_lost(self) -> bool:
        """Whether plans were lost, and with them how often they have named a node."""
        return self.parts.topics.topology in self.forgotten

    def is_forgotten(self, name: str) -> bool:
        """Return whether disk and broker have both lost releases of the node: then nobody knows of them."""
        edges = {topic for topic, (source, _) in self.edges.items() if source == name}
        return name in self.rolled_back and bool(edges & self.forgotten)
