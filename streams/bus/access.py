"""The topics that each process reads and writes: the rights that its credentials need, and no more."""

from collections.abc import Iterable
from dataclasses import dataclass

from streams.codec.topics import DataTopics, MeshTopics


@dataclass(frozen=True, slots=True)
class Access:
    """The rights that a process needs on a broker.

    `group`: the consumer group whose offsets it commits; `configs`: the topics whose settings it reads.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    group: str | None = None
    configs: tuple[str, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics, each once."""
        return tuple(dict.fromkeys((*self.reads, *self.writes)))


def node_on_mesh(topics: MeshTopics, node: str, sources: Iterable[str], targets: Iterable[str]) -> Access:
    """Return a node's rights on the mesh broker; it also reads its own messages."""
    own = [topics.edge(node, target) for target in targets]
    edges = [topics.edge(source, node) for source in sources]
    progress = topics.progress(node)
    return Access((topics.topology, progress, *edges, *own), (progress, topics.dead_letters(node), *own))


def node_on_data(node: str, group: str | None = None) -> Access:
    """Return a node's rights on its party's own broker."""
    topics = DataTopics(node)
    written = (topics.dead_letters, topics.predictions, topics.decisions, topics.spends)
    return Access((topics.records, topics.spends), written, group)


def feeder(node: str) -> Access:
    """Return a feed's rights on the party's own broker; it continues after the stored records."""
    topics = DataTopics(node)
    records, both = (topics.records,), (topics.records, topics.dead_letters)
    return Access(both, both, configs=records)


def scheduler(topics: MeshTopics, nodes: Iterable[str]) -> Access:
    """Return a scheduler's rights on the mesh broker."""
    beats = [topics.progress(node) for node in nodes]
    return Access((topics.topology, topics.scheduler, *beats), (topics.topology, topics.scheduler))
