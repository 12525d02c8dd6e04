"""Every topic name. The mesh side stands under `<mesh>.<run>.`, so a run never reads another's records.

Mesh names have three parts or more and data names two, so they cannot meet on a shared broker.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

ID_PATTERN = "[a-z0-9-]+"
"""What meshes, runs and nodes may be called: no dots, so that names cannot run into each other."""
LONGEST_TOPIC = 249
"""Kafka's limit on a topic's name, in characters."""


@dataclass(frozen=True, slots=True)
class MeshTopics:
    """Topics on the shared broker, of one run of one mesh. Raises ValueError for an id that is not one."""

    mesh: str
    run: str

    def __post_init__(self) -> None:
        _joined(self.mesh, self.run)

    @property
    def topology(self) -> str:
        """Plans: one partition, the first valid plan of a round wins."""
        return self._name("topology")

    @property
    def scheduler(self) -> str:
        """The schedulers' own beats: the clock by which silence is measured."""
        return self._name("scheduler")

    def progress(self, node: str) -> str:
        """Return the topic of a node's heartbeats."""
        return self._name("progress", node)

    def edge(self, source: str, target: str) -> str:
        """Return the topic of the releases that `target` hears from `source`."""
        return self._name("edge", source, target)

    def dead_letters(self, node: str) -> str:
        """Return the topic of what `node` refused of its peers."""
        return self._name("deadletter", node)

    def _name(self, kind: str, *nodes: str) -> str:
        return _joined(self.mesh, self.run, kind, *nodes)


@dataclass(frozen=True, slots=True)
class DataTopics:
    """Topics on the party's own broker. They belong to no run. Raises ValueError for a bad id."""

    node: str

    def __post_init__(self) -> None:
        _joined("data", self.node)

    @property
    def records(self) -> str:
        """The node's stream of records: private."""
        return _joined("data", self.node)

    @property
    def dead_letters(self) -> str:
        """Records that could not be fed: private."""
        return _joined("data-deadletter", self.node)

    @property
    def predictions(self) -> str:
        """Predictions on the node's own records: private."""
        return _joined("predictions", self.node)

    @property
    def group(self) -> str:
        """The consumer group whose committed offsets tell the party's own tools how far the node has read.

        Faust names it as its app, and that is named as the topic.
        """
        return self.records

    @property
    def spends(self) -> str:
        """What each run of any mesh has spent on the records, the last word of each state folder: private."""
        return _joined("spends", self.node)

    @property
    def decisions(self) -> str:
        """What the party's own application acts on, round by round."""
        return _joined("decisions", self.node)


@lru_cache(maxsize=65536)
def _joined(*parts: str) -> str:
    for part in parts:
        if re.fullmatch(ID_PATTERN, part) is None:
            raise ValueError(f"the id {part!r} must match {ID_PATTERN}")
    topic = ".".join(parts)
    if len(topic) > LONGEST_TOPIC:
        raise ValueError(
            f"the topic {topic} has {len(topic)} characters: at most {LONGEST_TOPIC} are allowed"
        )
    return topic
