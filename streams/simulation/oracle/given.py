"""The oracle's input as plain values: mesh files, processes, their journals, and faults."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import floor
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Clock(NamedTuple):
    """The clock of slots. The first slot begins at 0, and each lasts `period` seconds."""

    period: float

    def round_at(self, seconds: float) -> int:
        """Return the round whose slot includes this moment."""
        return floor(seconds / self.period) + 1


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One mesh file: its content as a tree, and the edges (source, target) that have a topic.

    `rounds`: the last one in which a node may learn by it.
    """

    tree: Mapping[str, Any]
    edges: frozenset[tuple[str, str]]
    rounds: int


class LabelFact(NamedTuple):
    """A readable label: when it came into the log, and its place and time there.

    `number`: what it says; None: it takes the label back.
    """

    came: float
    partition: int
    milliseconds: int
    number: float | None


class LabelFacts(NamedTuple):
    """The labels of one node's records, which come `after` them.

    `log`: by key, in the order in which they came. `keys`, `times`: of each record. `otherwise`: the label of
    a record without one. `closes`: when slot 0 by time would close, and the period; None: slots go by count.
    """

    after: float
    before: float
    otherwise: float
    keys: tuple[str | None, ...]
    times: tuple[float | None, ...]
    log: Mapping[str, tuple[LabelFact, ...]]
    closes: tuple[float, float] | None

    def label(self, offset: int, moment: float) -> float:
        """Return the label that counts for a record, of those in the log at that moment."""
        time = self.times[offset] or 0.0
        first, due = round((time - self.before) * 1e3), round((time + self.after) * 1e3)
        facts = self.log.get(self.keys[offset] or "", ())
        places = [
            (fact.milliseconds, fact.partition, place)
            for place, fact in enumerate(facts)
            if fact.came <= moment and first <= fact.milliseconds <= due
        ]
        number = facts[max(places)[2]].number if places else None
        return self.otherwise if number is None else number


@dataclass(frozen=True, slots=True)
class Setup:
    """The mesh of a history as plain values. Every party knows them.

    `files` are by generation. `bounds` are the L2 bounds of each node's releases. `node_keys` and
    `scheduler_keys` are public keys by name, None if messages are not signed. `edge_topics`: (source,
    targets) by topic. `topics`: the topic of an edge. `progress`: the node by topic. `labels`: those of nodes
    whose labels come later.
    """

    mesh: str
    run: str
    digest: bytes
    dimension: int
    horizon: int
    files: Mapping[int, FileFacts]
    bounds: Mapping[str, float]
    topology: str
    progress: Mapping[str, str]
    edge_topics: Mapping[str, tuple[str, tuple[str, ...]]]
    topics: Mapping[tuple[str, str], str]
    node_keys: Mapping[str, bytes] | None = None
    scheduler_keys: Mapping[str, bytes] | None = None
    clock: Clock | None = None
    labels: Mapping[str, LabelFacts] = field(default_factory=dict)


class Lost(NamedTuple):
    """A source that was given up in a round: its node, its life, and its weight in the plan."""

    source: str
    instance: str
    weight: float


class Durable(NamedTuple):
    """A journal's record when it became durable: the release `value` for `round`, made in the step of
    `stepped`.

    `offset`: the first record of the data topic that the next slot by count may read; None: the topic's end.
    """

    round: int
    stepped: int
    value: FloatArray
    exact: bool
    charged: int
    spent: float
    offset: int | None
    given_up: tuple[Lost, ...]
    corrected: tuple[tuple[int, str], ...]
    distrusted: tuple[tuple[str, str], ...]
    decisions: int
    mean: FloatArray | None


class Begun(NamedTuple):
    """A process at its start: its node, the folder of its disk, its mesh file, and what its
    journal contains.
    """

    node: str
    folder: int
    generation: int
    instance: str
    carried: int
    records: tuple[Durable, ...]


class HandedDecision(NamedTuple):
    """A node's decision: its point, and the values of other nodes from which it was made."""

    round: int
    point: FloatArray
    heard: tuple[FloatArray, ...]
    edges: tuple[str, ...]


class HandedSlot(NamedTuple):
    """A slot: the offsets of its records in the data topic.

    If labels come later, `labels` has those of the records, with None for an unreadable record. `moment` is
    the time at which the node read them.
    """

    round: int
    offsets: tuple[int, ...]
    labels: tuple[float | None, ...] = ()
    moment: float = 0.0


class RepeatedStep(NamedTuple):
    """A repeated step, with the noise that the process drew: the release, and the slot's mean gradient."""

    value: FloatArray
    gradient: FloatArray


class Repeated(Protocol):
    """Repeats the steps of a node's learner on values that the oracle gives."""

    def decide(self, name: str, round: int, consensus: FloatArray, share: float) -> FloatArray:
        """Return the decision for a consensus. `share` is the sum of squares of the consensus's weights."""

    def contain(self, name: str, values: FloatArray) -> FloatArray:
        """Return the values projected onto the set of releases."""

    def moves(self, name: str) -> bool:
        """Return whether the mesh has dynamics."""

    def carried(self, name: str, difference: FloatArray, times: int) -> FloatArray:
        """Return what a late release's difference is worth after this many rounds of the dynamics."""

    def moved(self, name: str, values: FloatArray, times: int) -> FloatArray:
        """Return the values after this many rounds of the mesh's dynamics; unchanged if it has none."""

    def start(self, name: str) -> FloatArray:
        """Return the first release."""

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

    def observed(self, name: str, point: FloatArray) -> FloatArray:
        """Return the coordinates that the loss sees."""

    def support(self, name: str, direction: FloatArray) -> float:
        """Return the largest product of a point of the observed set with a direction."""


@dataclass(slots=True)
class Excuses:
    """What the faults of a history excuse.

    `clones`: the number of copies made of a node's journal. Each copy may lead to two values for one round,
    in addition to those that were being sent when the newer process started. `liars`: nodes that forge
    records on their own topics. `forgotten`: topics that have lost acknowledged records. `rolled_back`: nodes
    whose journal was replaced by an older one. `broken`: nodes that remain broken. `ahead`: the largest round
    that a scheduler's clock has shown. `forged`: a stranger's records by topic, in a signed mesh: its own
    messages, and others' messages on topics where they do not belong. `partitions`: the current number of
    lost connections. `late_until`: the time from which schedulers and their records are on time again.
    `calm_at`: the time at which all other faults have stopped.
    """

    clones: Counter[str] = field(default_factory=Counter)
    liars: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    rolled_back: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    ahead: int = 0
    forged: set[tuple[str, bytes]] = field(default_factory=set)
    partitions: int = 0
    late_until: float = 0.0
    calm_at: float = float("inf")


def close(one: FloatArray, other: FloatArray) -> bool:
    """Return whether two arrays of public values are equal up to rounding."""
    return one.tobytes() == other.tobytes() or bool((np.abs(one - other) <= 1e-9 * (1 + np.abs(other))).all())
