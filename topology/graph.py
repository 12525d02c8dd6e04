"""Graphs: nodes, directed edges, reachability, and the builders of usual graphs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np

from topology.keyed import generator
from topology.plans import IntArray

Neighbours = list[list[int]]


def adjacency(edges: Iterable[tuple[int, int]], size: int) -> Neighbours:
    """Return the targets of each of `size` nodes, from edges (source, target)."""
    neighbours: Neighbours = [[] for _ in range(size)]
    for source, target in edges:
        neighbours[source].append(target)
    return neighbours


def both_adjacencies(sources: IntArray, targets: IntArray, size: int) -> tuple[Neighbours, Neighbours]:
    """Return the adjacency along the edges and the one against them."""
    tails, heads = sources.tolist(), targets.tolist()
    return adjacency(zip(tails, heads, strict=True), size), adjacency(zip(heads, tails, strict=True), size)


def reach(neighbours: Neighbours, start: int) -> set[int]:
    """Return the nodes reachable from `start`, itself included. Linear in the edges."""
    reached = {start}
    waiting = [start]
    while waiting:
        for node in neighbours[waiting.pop()]:
            if node not in reached:
                reached.add(node)
                waiting.append(node)
    return reached


def strongly_connected(sources: IntArray, targets: IntArray, size: int) -> bool:
    """Return whether each of `size` nodes reaches every other. Linear in the edges."""
    along, against = both_adjacencies(sources, targets, size)
    return size == 0 or (len(reach(along, 0)) == size and len(reach(against, 0)) == size)


NAME = re.compile(r"[a-z0-9-]+")
"""Allowed names of nodes and runs."""


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in the bytes order of their names, and edges between them. Immutable; freezes its arrays.

    Edge k goes from `nodes[sources[k]]` to `nodes[targets[k]]`; both arrays have shape (E,), sorted by
    (target, source), distinct, without self-loops. An undirected graph holds both directions of each pair.
    Raises ValueError otherwise.
    """

    nodes: tuple[str, ...]
    sources: IntArray
    targets: IntArray
    directed: bool = False

    def __post_init__(self) -> None:
        if not self.nodes:
            raise ValueError("nodes: a graph has at least one")
        for name in self.nodes:
            if not NAME.fullmatch(name):
                raise ValueError(f"node {name!r}: a name is made of a-z, 0-9 and -")
        check_edges(self.nodes, self.sources, self.targets)
        if not self.directed:
            size = len(self.nodes)
            if not np.array_equal(np.sort(self.sources * size + self.targets), self._keys):
                raise ValueError("an undirected graph holds both directions of each pair")

    @property
    def _keys(self) -> IntArray:
        return self.targets * len(self.nodes) + self.sources

    @cached_property
    def index(self) -> dict[str, int]:
        """The position of each node."""
        return {name: position for position, name in enumerate(self.nodes)}

    @cached_property
    def into(self) -> tuple[tuple[str, ...], ...]:
        """For each node, the sources of the edges into it, in bytes order."""
        rows: list[list[str]] = [[] for _ in self.nodes]
        for source, target in zip(self.sources.tolist(), self.targets.tolist(), strict=True):
            rows[target].append(self.nodes[source])
        return tuple(map(tuple, rows))

    def neighbours(self, node: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the sources of the edges into a node, and the targets of those out of it, in bytes order.

        Raises KeyError for an unknown node.
        """
        place = self.index[node]
        targets = self.targets[self.sources == place].tolist()
        return self.into[place], tuple(self.nodes[target] for target in targets)

    def both_ways(self) -> "Graph":
        """Return the undirected graph with every edge of this one in both directions."""
        return self if not self.directed else from_indices(self.nodes, self.sources, self.targets)

    def among(self, members: tuple[str, ...]) -> "Graph":
        """Return the subgraph of `members` (in bytes order).

        Raises ValueError for a member that is not a node.
        """
        if members == self.nodes:
            return self
        unknown = [name for name in members if name not in self.index]
        if unknown:
            raise ValueError(f"member {unknown[0]!r}: not a node of the graph")
        place = np.full(len(self.nodes), -1, np.int64)
        place[[self.index[name] for name in members]] = np.arange(len(members))
        sources, targets = place[self.sources], place[self.targets]
        inside = (sources >= 0) & (targets >= 0)
        return Graph(members, sources[inside], targets[inside], self.directed)


def check_edges(nodes: tuple[str, ...], sources: IntArray, targets: IntArray) -> None:
    """Check and freeze the edges of a `Graph` or `Weights`. Raises ValueError."""
    if list(nodes) != sorted(set(nodes)):
        raise ValueError(f"nodes {list(nodes)}: must be distinct and in bytes order")
    size = len(nodes)
    if not sources.shape == targets.shape == (sources.size,):
        raise ValueError(f"sources {sources.shape} and targets {targets.shape}: must be of one shape (E,)")
    sources.flags.writeable = targets.flags.writeable = False
    if not sources.size:
        return
    if min(sources.min(), targets.min()) < 0 or max(sources.max(), targets.max()) >= size:
        raise ValueError(f"an edge names a node outside 0..{size - 1}")
    keys = targets * size + sources
    if (keys[1:] <= keys[:-1]).any() or (sources == targets).any():
        raise ValueError("edges must be distinct, sorted by (target, source), without self-loops")


def from_indices(
    nodes: tuple[str, ...], sources: IntArray, targets: IntArray, *, directed: bool = False
) -> Graph:
    """Return the graph with these edges, given in any order; an undirected one gets both directions."""
    if not directed:
        sources, targets = np.concatenate((sources, targets)), np.concatenate((targets, sources))
    keys = np.unique(targets * len(nodes) + sources)
    return Graph(nodes, keys % len(nodes), keys // len(nodes), directed)


def union(graphs: Sequence[Graph]) -> Graph:
    """Return the undirected graph with the edges of all `graphs`.

    Raises ValueError unless all have the same nodes.
    """
    nodes = graphs[0].nodes
    for graph in graphs:
        if graph.nodes != nodes:
            raise ValueError(f"nodes {list(graph.nodes)}: must be {list(nodes)}, as in the first graph")
    sources = np.concatenate([graph.sources for graph in graphs])
    return from_indices(nodes, sources, np.concatenate([graph.targets for graph in graphs]))


# Builders of graphs: explicit edges, complete, ring, star, grid, Erdos-Renyi.
#
# `nodes` come in the order of the mesh file: a ring has them in that order, and a star's hub is the first
# node.

__all__ = ["Graph", "complete", "erdos_renyi", "from_edges", "grid", "ring", "star"]


def from_edges(nodes: Sequence[str], edges: Iterable[tuple[str, str]], *, directed: bool = False) -> Graph:
    """Return the graph with these (source, target) edges; duplicates count once.

    Raises ValueError for a node named twice, an edge between unknown nodes, or a self-loop.
    """
    ordered = tuple(sorted(nodes))
    index = {name: position for position, name in enumerate(ordered)}
    pairs = []
    for source, target in edges:
        for name in (source, target):
            if name not in index:
                raise ValueError(f"edge {source} -> {target}: {name!r} is not a node")
        if source == target:
            raise ValueError(f"edge {source} -> {target}: a node has no edge to itself")
        pairs.append((index[source], index[target]))
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    return from_indices(ordered, ends[:, 0], ends[:, 1], directed=directed)


def complete(nodes: Sequence[str]) -> Graph:
    """Return the graph in which all nodes are neighbours."""
    return from_edges(nodes, combinations(nodes, 2))


def ring(nodes: Sequence[str], *, directed: bool = False) -> Graph:
    """Return the ring; in a directed ring each node receives from the node before it."""
    edges = [*pairwise(nodes), (nodes[-1], nodes[0])] if len(nodes) > 1 else []
    return from_edges(nodes, edges, directed=directed)


def star(nodes: Sequence[str]) -> Graph:
    """Return the star around the first node."""
    return from_edges(nodes, [(hub, leaf) for hub in nodes[:1] for leaf in nodes[1:]])


def grid(nodes: Sequence[str], rows: int, columns: int) -> Graph:
    """Return the grid, filled row by row. Raises ValueError unless rows * columns is the number of nodes."""
    if rows < 1 or columns < 1 or rows * columns != len(nodes):
        raise ValueError(f"grid {rows} x {columns}: must hold the {len(nodes)} nodes exactly")
    across = [(k, k + 1) for k in range(len(nodes)) if (k + 1) % columns]
    down = [(k, k + columns) for k in range(len(nodes) - columns)]
    return from_edges(nodes, [(nodes[a], nodes[b]) for a, b in across + down])


def erdos_renyi(
    nodes: Sequence[str], seed: int, *, mean_degree: float | None = None, p: float | None = None
) -> Graph:
    """Return a random graph: each pair is an edge with probability p, or mean_degree / (N - 1).

    The graph depends on `seed` and the order of `nodes` alone. It is made connected: an additional edge links
    a random node of each component to a random node of the next component (Erdos and Renyi, 1959, leave the
    graph unconnected). Raises ValueError unless exactly one of `mean_degree` and `p` is given, with a
    probability in [0, 1].
    """
    if (mean_degree is None) == (p is None):
        raise ValueError("erdos-renyi: give either mean_degree or p")
    size = len(nodes)
    chance = p if p is not None else (mean_degree or 0.0) / max(size - 1, 1)
    if not 0 <= chance <= 1:
        raise ValueError(f"erdos-renyi: the probability of an edge is {chance:g}: must be from 0 to 1")
    draws = generator("erdos-renyi", seed)
    # Row by row: all pairs of 4,096 nodes at once would take a quarter of a gigabyte.
    neighbours = [row + 1 + np.flatnonzero(draws.random(size - 1 - row) < chance) for row in range(size)]
    edges = [(row, int(column)) for row, columns in enumerate(neighbours) for column in columns]
    parts = _components(edges, size)
    for part, following in pairwise(parts):
        edges.append((int(draws.choice(part)), int(draws.choice(following))))
    return from_edges(nodes, [(nodes[a], nodes[b]) for a, b in edges])


def _components(edges: list[tuple[int, int]], size: int) -> list[list[int]]:
    neighbours = adjacency([*edges, *((b, a) for a, b in edges)], size)
    reached: set[int] = set()
    parts = []
    for node in range(size):
        if node not in reached:
            part = reach(neighbours, node)
            reached |= part
            parts.append(sorted(part))
    return parts
