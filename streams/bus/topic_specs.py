"""The topics that a mesh file needs on each broker, and their settings. Sizes depend on the mesh alone.

Logs are cut by bytes, never by age, as a mesh may pause for a month. Spends are never cut. Kafka deletes
whole segments, and never the active one. So a log has at least `retention_bytes`, and up to about two
segments more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streams.codec import envelope, heartbeat, plans, vectors
from streams.codec.topics import DataTopics
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.settings.base import LONGEST_NAME
from streams.mesh.settings.files import LONGEST_LINE
from streams.mesh.settings.mesh import MeshSettings
from topology.graph import Graph

OVERHEAD = 1024
"""Largest size of a record besides its value, in bytes: headers of batch and record, a line number."""
ROOM = 2048
"""Bytes by which later versions of this program may make a message longer, in the topics of today."""
KIB, MIB = 2**10, 2**20
LEAST_SEGMENT = MIB
"""The smallest segment that Kafka 4 allows."""
LEAST_LIMIT = MIB + OVERHEAD
"""The smallest limit of a message in bytes: about Kafka's own default."""
KEPT_DATA = 2**30
"""Bytes kept in a data topic that we create: a feeder may run that far ahead of the mesh."""
PLANS, RELEASES = 4, 2
"""The copies of a plan, and of a release, in a log: from several schedulers, and from sends after a crash."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic and its limits in bytes. `owned`: the party's own stream, which may have other limits.

    `kind`: the name of all topics of its kind. `compacted`: it keeps the last record of each key for ever.
    `shared`: others write or read it, so no record may inflate in its readers. A few bytes of a compressed
    record may become hundreds of MiB, so the broker has to inflate it, and to refuse what is then above the
    limit. `timed`: its records have the broker's time, as no other clock is the same for all. `dated`: its
    records have their own times, which slots by time use.
    """

    name: str
    kind: str
    retention_bytes: int
    max_message_bytes: int = LEAST_LIMIT
    owned: bool = False
    compacted: bool = False
    shared: bool = False
    timed: bool = False
    dated: bool = False

    @property
    def largest(self) -> int:
        """The longest value that the topic allows, in bytes."""
        return self.max_message_bytes - OVERHEAD

    @property
    def segment_bytes(self) -> int:
        """A quarter of the kept bytes, at most 64 MiB, but at least the largest message."""
        quarter = min(max(self.retention_bytes // 4, LEAST_SEGMENT), 64 * MIB)
        return max(quarter, self.max_message_bytes)

    @property
    def configs(self) -> dict[str, str]:
        """The topic's settings for Kafka."""
        dated = {"message.timestamp.type": "CreateTime"} if self.dated else {}
        return (
            self.bounds
            | dated
            | {
                # compaction would lose releases, and with them rounds; deletion would lose spends
                "cleanup.policy": "compact" if self.compacted else "delete",
                "retention.ms": "-1",
                "retention.bytes": "-1" if self.compacted else str(self.retention_bytes),
                "segment.bytes": str(self.segment_bytes),
                "max.message.bytes": str(self.max_message_bytes),
            }
        )

    @property
    def bounds(self) -> dict[str, str]:
        """The settings that keep a shared topic's records and segments small, and its times right."""
        if not self.shared:
            return {}
        bounds = {
            "compression.type": "uncompressed",
            "max.message.bytes": str(self.max_message_bytes),
            "segment.bytes": str(self.segment_bytes),
        }
        return bounds | ({"message.timestamp.type": "LogAppendTime"} if self.timed else {})

    def narrow(self, configs: Mapping[str, str]) -> dict[str, str]:
        """Return the limits that an existing shared topic has too small, with what they must be."""
        if not self.shared:
            return {}
        limits = {key: self.configs[key] for key in ("max.message.bytes", "retention.bytes")}
        return {key: limit for key, limit in limits.items() if -1 < int(configs[key]) < int(limit)}

    def unbounded(self, configs: Mapping[str, str]) -> list[str]:
        """Return a line for each of these settings that an existing topic has looser."""
        return [
            f"{key} is {configs[key]}: must be {bound}"
            for key, bound in self.bounds.items()
            if key in configs and _is_looser(configs[key], bound)
        ]


def _is_looser(found: str, wanted: str) -> bool:
    return int(found) > int(wanted) if wanted.isdecimal() else found != wanted


@dataclass(frozen=True, slots=True)
class Sizes:
    """The longest messages of a mesh, in bytes; `plan`: a record of one plan."""

    release: int
    plan: int


def sizes(mesh: Mesh) -> Sizes:
    """Return the longest messages of a mesh."""
    names = [len(name) for name in mesh.graph.nodes]
    return _sizes(mesh, max(names), sum(names), len(names), mesh.graph.sources.size)


def roomy_sizes(mesh: Mesh) -> Sizes:
    """Return the longest messages of a mesh that parties with any names have joined.

    Its members and edges are the next powers of two, so who joins seldom changes a topic of the others.
    """
    members, edges = _power(len(mesh.graph.nodes)), _power(mesh.graph.sources.size)
    return _sizes(mesh, LONGEST_NAME, members * LONGEST_NAME, members, edges)


def _power(number: int) -> int:
    return max(16, 1 << (number - 1).bit_length())


def _sizes(mesh: Mesh, longest: int, total: int, members: int, edges: int) -> Sizes:
    """Return the longest messages for names of so many bytes: the longest, and all in a row."""
    run, record = len(mesh.settings.run), plans.RECORD_HEADER.size + plans.SIZE.size
    signed = envelope.OVERHEAD if mesh.envelope.signs else 0
    return Sizes(
        signed + vectors.HEADER.size + 2 + run + longest + 8 * mesh.settings.release_dimension,
        signed + record + plans.HEADER.size + 1 + run + total + members - 1 + 33 * members + 16 * edges,
    )


def shared_spec(
    name: str, kind: str, records: int, kept: int, longest: int, *, timed: bool = False
) -> TopicSpec:
    """Return a topic that keeps `records` of `kept` bytes, and allows no message above `longest` and ROOM.

    The limit is rounded up to a KiB.
    """
    max_bytes = -(-(longest + ROOM + OVERHEAD) // KIB) * KIB
    return TopicSpec(name, kind, max(records * (kept + OVERHEAD), MIB), max_bytes, shared=True, timed=timed)


def mesh_specs(mesh: Mesh) -> tuple[TopicSpec, ...]:
    """Return the topics of the mesh broker, with all edges that the schedule may ever switch on."""
    topics, graph, size, beat = mesh.topics, mesh.graph, roomy_sizes(mesh), heartbeat.LONGEST
    retained_rounds, plans_size = 4 * mesh.settings.horizon, max(size.plan, plans.TOGETHER)
    specs = [
        shared_spec(topics.topology, "topology", retained_rounds * PLANS, size.plan, plans_size, timed=True),
        shared_spec(topics.scheduler, "scheduler", retained_rounds, beat, beat, timed=True),
    ]
    longest_message = max(plans_size, size.release) + ROOM + OVERHEAD
    for node in graph.nodes:
        specs.append(shared_spec(topics.progress(node), "progress", retained_rounds, beat, beat, timed=True))
        specs.append(letters_spec(topics.dead_letters(node), "deadletter", longest_message, shared=True))
    kind = "edge" if topics.layout == "edges" else "outbox"
    specs += [
        shared_spec(topic, kind, retained_rounds * RELEASES, size.release, size.release)
        for topic in release_topics(mesh)
    ]
    return tuple(specs)


def data_specs(mesh: MeshSettings, node: str, source: str | None = None) -> tuple[TopicSpec, ...]:
    """Return the topics of a party's own broker, but not that of the records if others created it (`source`).

    The topics outlive runs, so a later run may need more room.
    """
    topics, retained_rounds = DataTopics(mesh.name, node, source), 4 * mesh.horizon
    record = LONGEST_LINE + OVERHEAD
    decision = 32 * mesh.dimension + OVERHEAD  # JSON: a number has at most 24 characters
    return (
        *((records_spec(topics, dated=mesh.slots.by == "time"),) if topics.source is None else ()),
        letters_spec(topics.dead_letters, "data-deadletter", record),
        TopicSpec(
            topics.predictions, "predictions", max(retained_rounds * mesh.slots.size * OVERHEAD, 16 * MIB)
        ),
        TopicSpec(
            topics.decisions, "decisions", max(retained_rounds * decision, MIB), max(decision, LEAST_LIMIT)
        ),
        spends_spec(topics),
    )


def spends_spec(topics: DataTopics) -> TopicSpec:
    """Return the topic of the spends on the data of a node or an owner."""
    return TopicSpec(topics.spends, "spends", MIB, compacted=True)


def records_spec(topics: DataTopics, *, dated: bool = False) -> TopicSpec:
    """Return the topic of the records of a node, or of an owner."""
    return TopicSpec(topics.records, "data", KEPT_DATA, LONGEST_LINE + OVERHEAD, owned=True, dated=dated)


def letters_spec(name: str, kind: str, limit: int, *, shared: bool = False) -> TopicSpec:
    """Return a topic of dead letters of messages of up to `limit` bytes: base64, with topic and reason."""
    letter = 4 * limit // 3 + 2 * OVERHEAD
    return TopicSpec(name, kind, 16 * letter, letter, shared=shared)


def release_topics(mesh: Mesh) -> tuple[str, ...]:
    """Return the topics of all releases: one an edge, or one a node that has a neighbour."""
    return tuple(dict.fromkeys(mesh.topics.edge(*edge) for edge in edges(mesh.graph)))


def edges(graph: Graph) -> Iterable[tuple[str, str]]:
    """Return every edge's (source, target)."""
    pairs = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    return ((graph.nodes[source], graph.nodes[target]) for source, target in pairs)


def topics_of(file: MeshFile, name: str | None) -> tuple[TopicSpec, ...]:
    """Return the topics of the mesh broker (None), or of a node's data broker."""
    return (
        mesh_specs(file.resolved)
        if name is None
        else data_specs(file.mesh, name, file.data_topics(name).source)
    )
