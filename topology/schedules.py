"""Schedules: which edges are on in which round, with which weights. Pure functions of (round, members).

`members` are the full members of the round in bytes order. A schedule's graph holds the edges to provision:
every edge that may ever be on, in both directions, so that any members can get symmetric weights. (A directed
ring without one of its nodes has no doubly stochastic weights but the identity.)
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import Protocol

import numpy as np

from topology.graph import Graph, strongly_connected, union
from topology.keyed import generator
from topology.plans import MOST_CLOSING, TOLERANCE, FloatArray, IntArray
from topology.weights import (
    Weights,
    cycle_weights,
    directed_cycles,
    metropolis,
    metropolis_on,
    permutations,
)

CACHED = 16
"""The number of member sets whose round-independent results are cached."""


class Schedule(Protocol):
    """The interface that a scheduler needs."""

    @property
    def graph(self) -> Graph:
        """The provisioned edges: an undirected graph of all nodes and every edge that may ever be on."""
        ...

    def weights(self, round: int, members: tuple[str, ...]) -> Weights:
        """Return the weights among `members` in `round` (from 1), over provisioned edges only."""
        ...


@dataclass(frozen=True, eq=False)
class FixedSchedule:
    """The same graph or given weights in every round.

    An undirected graph gets Metropolis weights, a directed one permutations. While a node is missing,
    a directed graph and given weights give way to Metropolis weights over the members' provisioned pairs.
    Raises ValueError for a directed graph with an edge on no directed cycle.
    """

    content: Graph | Weights

    def __post_init__(self) -> None:
        self.whole  # noqa: B018 # computed now, so that loading refuses bad weights

    @cached_property
    def graph(self) -> Graph:
        """The provisioned edges, both ways."""
        return (self.content if isinstance(self.content, Graph) else self.content.graph).both_ways()

    @cached_property
    def whole(self) -> Weights:
        """The weights when all nodes are members."""
        if isinstance(self.content, Weights):
            return self.content
        return permutations(self.content) if self.content.directed else metropolis(self.content)

    def weights(self, round: int, members: tuple[str, ...]) -> Weights:  # noqa: ARG002 # part of the protocol
        """Return the weights among `members`."""
        return self.whole if members == self.graph.nodes else metropolis_among(self.graph, members)


@dataclass(frozen=True, eq=False)
class CycleSchedule:
    """Graphs or weights in turn; round 1 has the first.

    While a node is missing, an undirected graph gets Metropolis weights over its own pairs of members;
    directed graphs and given weights get them over all provisioned pairs. Raises ValueError for an empty
    cycle, and for graphs or weights that differ in their nodes.
    """

    contents: Sequence[Graph | Weights]

    def __post_init__(self) -> None:
        if not self.contents:
            raise ValueError("cycle: must name at least one graph or matrix")
        self.graph  # noqa: B018 # computed now, so that loading refuses bad graphs

    @cached_property
    def parts(self) -> tuple[FixedSchedule, ...]:
        """Each round of the cycle as a schedule of its own."""
        return tuple(map(FixedSchedule, self.contents))

    @cached_property
    def graph(self) -> Graph:
        """The provisioned edges: those of all parts, both ways."""
        return union([part.graph for part in self.parts])

    def weights(self, round: int, members: tuple[str, ...]) -> Weights:
        """Return the weights among `members` in `round`."""
        part = self.parts[(round - 1) % len(self.parts)]
        if members == self.graph.nodes:
            return part.whole
        symmetric = isinstance(part.content, Graph) and not part.content.directed
        return metropolis_among(part.graph if symmetric else self.graph, members)


@dataclass(frozen=True, eq=False)
class SwitchingSchedule:
    """Switches each pair of a graph on with `probability`, independently in each round.

    What is on depends on (seed, round) alone, not on the members. The pairs of an undirected graph that are
    on get Metropolis weights. Of a directed graph whole cycles are switched (`directed_cycles`), as single
    directed edges leave no doubly stochastic weights but those on the cycles among them: each cycle that is
    on has equal weights along its edges (`cycle_weights`). While a node is missing, a directed graph gives
    way to its pairs, both ways, each on with the same probability. Raises ValueError for a probability
    outside (0, 1], and for a directed graph with an edge on no directed cycle.
    """

    content: Graph
    probability: float
    seed: int

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ValueError(f"switching: probability {self.probability}: must be above 0, at most 1")
        self.cycles  # noqa: B018 # computed now, so that loading refuses bad graphs

    @cached_property
    def graph(self) -> Graph:
        """The provisioned edges, both ways."""
        return self.content.both_ways()

    @cached_property
    def cycles(self) -> tuple[IntArray, ...]:
        """The cycles that are switched, each as its nodes in turn; none of an undirected graph."""
        return directed_cycles(self.content) if self.content.directed else ()

    def weights(self, round: int, members: tuple[str, ...]) -> Weights:
        """Return the weights among `members` in `round`."""
        if self.cycles and members == self.graph.nodes:
            on = self._draws(round, len(self.cycles)) < self.probability
            return cycle_weights(members, [self.cycles[place] for place in on.nonzero()[0]])
        pairs, present, count = _pairs_among(self.graph, members)
        on = self._draws(round, count)[pairs] < self.probability
        return metropolis_on(members, present.sources[on], present.targets[on])

    def _draws(self, round: int, count: int) -> FloatArray:
        return generator("switching", self.seed, round).random(count)


@lru_cache(CACHED)
def metropolis_among(graph: Graph, members: tuple[str, ...]) -> Weights:
    """Return Metropolis weights over the edges of an undirected graph among `members`."""
    return metropolis(graph.among(members))


@lru_cache(CACHED)
def _pairs_among(graph: Graph, members: tuple[str, ...]) -> tuple[IntArray, Graph, int]:
    """Return the pair of each edge among `members`, those edges, and the number of all pairs."""
    low, high = np.minimum(graph.sources, graph.targets), np.maximum(graph.sources, graph.targets)
    keys, pairs = np.unique(low * len(graph.nodes) + high, return_inverse=True)
    chosen = set(members)
    is_member = np.array([name in chosen for name in graph.nodes], np.bool_)
    return pairs[is_member[graph.sources] & is_member[graph.targets]], graph.among(members), keys.size


class Copies:
    """The schedule of `runs` copies of the schedule `one`, with no edges between copies.

    Nodes are those of copy 0, then of copy 1, and so on, each in bytes order. Seeded noise depends on the
    name, so each copy has its own. Raises ValueError unless all nodes are members.
    """

    def __init__(self, one: Schedule, runs: int) -> None:
        graph = one.graph
        self._one, self._runs, self._inner = one, runs, graph.nodes
        self._names = tuple(f"{run:06}-{name}" for run in range(runs) for name in self._inner)
        self.graph = Graph(self._names, self._all(graph.sources), self._all(graph.targets))
        self._wide = lru_cache(CACHED)(self._widened)

    def weights(self, round: int, members: tuple[str, ...]) -> Weights:
        """Return the weights of `round`: one matrix, repeated for each copy."""
        if members != self._names:
            raise ValueError("copies of a mesh have all nodes in every round")
        return self._wide(self._one.weights(round, self._inner))

    def _widened(self, weights: Weights) -> Weights:
        values = np.tile(weights.values, self._runs)
        return Weights(self._names, self._all(weights.sources), self._all(weights.targets), values)

    def _all(self, places: IntArray) -> IntArray:
        first = np.arange(self._runs)[:, None] * len(self._inner)
        return (first + places).reshape(-1)


# Measures of how fast a schedule spreads what nodes learn, for reports before a run.

DENSE = 512
"""Largest number of nodes for which a mixing rate is computed."""


def window(schedule: Schedule, limit: int, starts: int) -> int | None:
    """Return the smallest B such that the union of any B consecutive rounds is strongly connected.

    It checks the windows that begin in rounds 1 to `starts`, with all nodes present. Returns None if a window
    of `limit` rounds is not connected.
    """
    edges = _Edges(schedule)
    width = 1
    for start in range(1, starts + 1):
        while not edges.connect(start, start + width):
            width += 1
            if width > limit:
                return None
    return width


class _Edges:
    """Caches the edges of each round as integer keys."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._nodes = schedule.graph.nodes
        self._keys: dict[int, IntArray] = {}

    def connect(self, start: int, end: int) -> bool:
        """Return whether the union of rounds start to end - 1 is strongly connected."""
        size = len(self._nodes)
        keys = np.unique(np.concatenate([self._of(number) for number in range(start, end)]))
        return strongly_connected(keys % size, keys // size, size)

    def _of(self, number: int) -> IntArray:
        if number not in self._keys:
            weights = self._schedule.weights(number, self._nodes)
            self._keys[number] = weights.targets * len(self._nodes) + weights.sources
        return self._keys[number]


def mixing_rate(schedule: Schedule, rounds: int, starts: int = 1) -> float | None:
    """Return the largest second singular value of A(s + rounds - 1) ... A(s), s = 1, ..., `starts`.

    All nodes are present. This bounds the share of the nodes' disagreement that is left after any of these
    windows: 0 is agreement, 1 is no progress (Nedic and Ozdaglar, 2009, section III). Returns None for more
    than 512 nodes.
    """
    nodes = schedule.graph.nodes
    if len(nodes) > DENSE:
        return None
    if len(nodes) == 1:
        return 0.0
    matrices = deque((schedule.weights(number, nodes).dense() for number in range(1, rounds)), rounds)
    worst = 0.0
    for last in range(rounds, rounds + starts):
        matrices.append(schedule.weights(last, nodes).dense())
        product = reduce(lambda before, after: after @ before, matrices)
        worst = max(worst, float(np.linalg.svd(product, compute_uv=False)[1]))
    return worst


def least_weight(schedule: Schedule, rounds: int) -> tuple[float, bool]:
    """Return the smallest positive weight of rounds 1 to `rounds`, and whether every diagonal is positive.

    All nodes are present. If a node's mix holds only others' releases, its a_ii is 0, up to rounding.
    """
    nodes = schedule.graph.nodes
    least, positive = 1.0, True
    for number in range(1, rounds + 1):
        weights = schedule.weights(number, nodes)
        own_weights = 1.0 - np.bincount(weights.targets, weights.values, len(nodes))
        is_positive = own_weights > TOLERANCE
        positive = positive and bool(is_positive.all())
        least = min(least, own_weights.min(initial=1.0, where=is_positive), weights.values.min(initial=1.0))
    return float(least), positive


# Closing rounds: what follows a run's last lesson, so that it goes out and is mixed.
#
# One is enough where a run has mixed for long: then the last lesson is a small part of what is known. In a
# run of fewer rounds than its graph needs to agree most of what is known is still where it was learnt.

APART = 0.05
"""The L2 distance of a row of weights from 1/N at which its node counts as agreed with all."""


def closing_rounds(schedule: Schedule, rounds: int | None) -> int:
    """Return the number of closing rounds after `rounds` rounds of learning (None: no end): from 1 to 64.

    It is the least c for which each row of A(rounds + c) ... A(rounds + 1) is nearer than 0.05 to 1/N, with
    all nodes present; 1 if the run has at least so many rounds, or its graph is not connected. Of more than
    512 nodes no product is made: it is 64 in a run of fewer rounds.
    """
    graph, nodes = schedule.graph, schedule.graph.nodes
    size = len(nodes)
    if rounds is None or rounds >= MOST_CLOSING or not strongly_connected(graph.sources, graph.targets, size):
        return 1
    if size > DENSE:
        return MOST_CLOSING
    product, needed = np.eye(size), 0
    while needed < MOST_CLOSING and np.linalg.norm(product - 1 / size, axis=1).max() >= APART:
        needed += 1
        product = schedule.weights(rounds + needed, nodes).dense() @ product
    return needed if rounds < needed else 1
