"""Which topics a mesh file needs on which broker, and how each is kept. Sizes follow from the mesh alone.

Logs are cut by bytes, never by age: a mesh may stand still for a month. What was spent is never cut. Kafka
drops whole segments, and never the one that is written to, so a log holds at least `retention_bytes`, and
about two segments more.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from streams.codec import heartbeat, plan, release
from streams.codec.topics import DataTopics
from streams.mesh.mesh import Mesh
from streams.mesh.settings.files import LONGEST_LINE
from streams.mesh.settings.mesh import MeshSettings
from topology.graph import Graph

OVERHEAD = 1024
"""Bytes that a record takes beside its value, at most: its batch's header, its own, a line number."""
MIB = 2**20
LEAST_SEGMENT = MIB
"""Kafka 4 takes none smaller."""
LEAST_LIMIT = MIB + OVERHEAD
"""Bytes of the largest message, at least: about Kafka's own default."""
KEPT_DATA = 2**30
"""Bytes of a data topic that we made, at least: a feeder may run that far ahead of the mesh."""
_PLANS, _RELEASES = 4, 2  # how often a record may be in its log: several schedulers, sends after a crash


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic and how it is kept, in bytes. `owned`: the party's own stream, whose limits are its own affair.

    `kind` is how all topics of its kind are called. `compacted`: the last record of each key, kept for ever.
    """

    name: str
    kind: str
    retention_bytes: int
    max_message_bytes: int = LEAST_LIMIT
    owned: bool = False
    compacted: bool = False

    @property
    def largest(self) -> int:
        """The longest value that may be sent to it, in bytes."""
        return self.max_message_bytes - OVERHEAD

    @property
    def segment_bytes(self) -> int:
        """A quarter of what is kept, at least the largest message: 64 MiB at most unless that is larger."""
        quarter = min(max(self.retention_bytes // 4, LEAST_SEGMENT), 64 * MIB)
        return max(quarter, self.max_message_bytes)

    @property
    def configs(self) -> dict[str, str]:
        """The topic's settings, in Kafka's words."""
        return {
            # a compacted log would lose releases, and with them rounds; a cut one what was spent
            "cleanup.policy": "compact" if self.compacted else "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1" if self.compacted else str(self.retention_bytes),
            "segment.bytes": str(self.segment_bytes),
            "max.message.bytes": str(self.max_message_bytes),
        }


@dataclass(frozen=True, slots=True)
class Sizes:
    """The longest messages of a mesh, in bytes."""

    release: int
    plan: int

    @property
    def limit(self) -> int:
        """What every topic of the mesh side takes, overhead included."""
        return max(LEAST_LIMIT, max(self.release, self.plan, heartbeat.LONGEST) + OVERHEAD)


def sizes(mesh: Mesh) -> Sizes:
    """Return how long the messages of a mesh get."""
    names, run = [len(name) for name in mesh.graph.nodes], len(mesh.settings.run)
    members, edges = len(names), mesh.graph.sources.size
    return Sizes(
        release.HEADER.size + 2 + run + max(names) + 8 * mesh.settings.dimension,
        plan.HEADER.size + 1 + run + sum(names) + members - 1 + 33 * members + 16 * edges,
    )


def mesh_specs(mesh: Mesh) -> tuple[TopicSpec, ...]:
    """Return the topics of the mesh broker: edges are those that the schedule may ever switch on."""
    topics, graph, size = mesh.topics, mesh.graph, sizes(mesh)
    limit, kept = size.limit, 4 * mesh.settings.horizon

    def spec(name: str, kind: str, rounds: int, longest: int) -> TopicSpec:
        return TopicSpec(name, kind, max(rounds * (longest + OVERHEAD), MIB), limit)

    specs = [
        spec(topics.topology, "topology", kept * _PLANS, size.plan),
        spec(topics.scheduler, "scheduler", kept, heartbeat.LONGEST),
    ]
    for node in graph.nodes:
        specs.append(spec(topics.progress(node), "progress", kept, heartbeat.LONGEST))
        specs.append(_letters(topics.dead_letters(node), "deadletter", limit))
    for source, target in edges(graph):
        specs.append(spec(topics.edge(source, target), "edge", kept * _RELEASES, size.release))
    return tuple(specs)


def data_specs(mesh: MeshSettings, node: str) -> tuple[TopicSpec, ...]:
    """Return the topics of a party's own broker. They outlive runs, so a later run may ask for more."""
    topics, kept = DataTopics(node), 4 * mesh.horizon
    record = LONGEST_LINE + OVERHEAD
    decision = 32 * mesh.dimension + OVERHEAD  # JSON: a number has 24 characters at most
    return (
        TopicSpec(topics.records, "data", KEPT_DATA, record, owned=True),
        _letters(topics.dead_letters, "data-deadletter", record),
        TopicSpec(topics.predictions, "predictions", max(kept * mesh.slots.size * OVERHEAD, 16 * MIB)),
        TopicSpec(topics.decisions, "decisions", max(kept * decision, MIB), max(decision, LEAST_LIMIT)),
        TopicSpec(topics.spends, "spends", MIB, compacted=True),
    )


def _letters(name: str, kind: str, limit: int) -> TopicSpec:
    """Return a topic of letters about messages of up to `limit` bytes: base64, with a topic and a reason."""
    letter = 4 * limit // 3 + 2 * OVERHEAD
    return TopicSpec(name, kind, 16 * letter, letter)


def edges(graph: Graph) -> Iterable[tuple[str, str]]:
    """Return every edge's (source, target)."""
    pairs = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    return ((graph.nodes[source], graph.nodes[target]) for source, target in pairs)
