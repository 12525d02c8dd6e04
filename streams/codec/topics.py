"""The names of all topics, and of the consumer groups.

Names of a run's topics begin with `<mesh>.<run>.`, those on a party's own broker with their kind. No mesh may
have the name of a kind. So the names never clash on a shared broker, and no right on the prefix
`<mesh>.<run>.` covers any party's records.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

ID_PATTERN = "[a-z0-9-]+"
"""Allowed names of meshes, runs and nodes: without dots, so that topics stay distinct."""
LONGEST_TOPIC = 249
"""Kafka's limit on a topic's name, in characters."""
DATA_KINDS = ("data", "data-deadletter", "predictions", "decisions", "spends")
"""The kinds of topics on a party's own broker: their names' first parts."""
SCORE = "score"
"""The first part of the names of groups that score. A mesh of this name would have equal names of groups."""
RUN_KINDS = ("topology", "scheduler", "progress", "edge", "outbox", "deadletter", "query", "response")
"""The kinds of topics of a run: their names' third parts."""


Layout = Literal["edges", "outbox"]
"""The topics of releases: one for each edge, or one for each node (its outbox), which all its neighbours
read."""


@dataclass(frozen=True, slots=True)
class MeshTopics:
    """Topics of one run on the mesh broker. Raises ValueError for a bad id."""

    mesh: str
    run: str
    layout: Layout = "edges"

    def __post_init__(self) -> None:
        _joined(self.mesh, self.run)

    @property
    def topology(self) -> str:
        """The topic of plans. It has one partition, and the first valid plan of a round counts."""
        return self._name("topology")

    @property
    def scheduler(self) -> str:
        """The topic of the schedulers' own heartbeats, the clock by which silence is measured."""
        return self._name("scheduler")

    def progress(self, node: str) -> str:
        """Return the topic of a node's heartbeats."""
        return self._name("progress", node)

    def edge(self, source: str, target: str) -> str:
        """Return the topic of the releases that `source` sends to `target`."""
        if self.layout == "outbox":
            return self.outbox(source)
        return self._name("edge", source, target)

    def outbox(self, node: str) -> str:
        """Return the topic of all releases of a node, with `layout: outbox`, in place of edges."""
        return self._name("outbox", node)

    def dead_letters(self, node: str) -> str:
        """Return the topic of the messages that `node` refused."""
        return self._name("deadletter", node)

    @property
    def query(self) -> str:
        """A collaboration's queries: one partition; only the learner writes it."""
        return self._name("query")

    def response(self, owner: str) -> str:
        """Return the topic of an owner's responses to a collaboration's queries."""
        return self._name("response", owner)

    def _name(self, kind: str, *nodes: str) -> str:
        return _joined(self.mesh, self.run, kind, *nodes)


def edges_of(topics: MeshTopics, source: str) -> str | None:
    """Return the prefix that the topics of all releases of `source` have, and no other topic has.

    Return None if its releases are in one topic.
    """
    if topics.layout == "outbox":
        return None
    return _joined(topics.mesh, topics.run, "edge", source) + "."


def all_of(topics: MeshTopics) -> str:
    """Return the prefix of all topics of the run, and of no other topic."""
    return _joined(topics.mesh, topics.run) + "."


@dataclass(frozen=True, slots=True)
class DataTopics:
    """Topics on the party's own broker, shared by all runs of a mesh. Raises ValueError for a bad id."""

    mesh: str
    node: str
    source: str | None = None
    """The topic of the node's records, if others created it."""

    def __post_init__(self) -> None:
        if self.mesh in DATA_KINDS:
            raise ValueError(f"the mesh {self.mesh!r} is called like a kind of topic")
        _joined("data-deadletter", self.mesh, self.node)  # the longest

    @property
    def records(self) -> str:
        """The node's stream of records: private."""
        return self.source or _joined("data", self.mesh, self.node)

    @property
    def dead_letters(self) -> str:
        """The topic of letters on records that could not be fed or read, or are stored damaged: private."""
        return _joined("data-deadletter", self.mesh, self.node)

    @property
    def predictions(self) -> str:
        """Predictions on the node's own records: private."""
        return _joined("predictions", self.mesh, self.node)

    def group(self, run: str) -> str:
        """Return the consumer group. Its offsets show the party's tools how far the run has read."""
        return _joined(self.mesh, run, self.node)

    @property
    def spends(self) -> str:
        """The privacy spent on the records by each run of any mesh, newest per state folder: private."""
        return f"spends.{self.records}"

    @property
    def decisions(self) -> str:
        """Decisions for the party's own application, round by round."""
        return _joined("decisions", self.mesh, self.node)

    @property
    def all(self) -> tuple[str, ...]:
        """All of these topics, without the topic that others created."""
        records = (self.records,) if self.source is None else ()
        return *records, self.dead_letters, self.predictions, self.decisions, self.spends


@dataclass(frozen=True, slots=True)
class ScoreTopics:
    """What `score` reads and writes for a node, on the party's own broker; the party makes these topics."""

    mesh: str
    node: str
    input: str
    output: str

    @property
    def dead_letters(self) -> str:
        """The messages that could not be read."""
        return score_letters(self.output)

    @property
    def group(self) -> str:
        """Return the consumer group. Transactional ids begin with its name and a dot."""
        return f"{SCORE}.{self.mesh}.{self.node}.{self.input}"


def score_letters(output: str) -> str:
    """Return the topic of the messages that could not be scored; `output` is the topic of the scores."""
    return f"{output}.deadletter"


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


def may_lose(topics: Iterable[str], run: MeshTopics) -> frozenset[str]:
    """Return the topics of which a reader may miss records: all but the topology, where each plan counts."""
    return frozenset(topics) - {run.topology}
