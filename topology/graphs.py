"""Builders of graphs: explicit edges, complete, ring, star, grid, Erdos-Renyi.

`nodes` come in the order of the mesh file: a ring goes round in that order, a star's hub is the first.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise

import numpy as np

from topology.graph import Graph, adjacency, from_indices, reach
from topology.keyed import generator

__all__ = ["Graph", "complete", "erdos_renyi", "from_edges", "grid", "ring", "star"]


def from_edges(nodes: Sequence[str], edges: Iterable[tuple[str, str]], *, directed: bool = False) -> Graph:
    """Return the graph with these (source, target) edges; duplicates count once.

    Raises ValueError for a node named twice, an edge between unknown nodes, a self-loop.
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
    """Return the ring; in a directed one each node hears the node before it."""
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

    The graph depends on `seed` and the order of `nodes` alone. It is made connected: one more edge links a
    random node of each component to one of the next (Erdos and Renyi, 1959, leave it unconnected).
    Raises ValueError unless exactly one of `mean_degree` and `p` is given, with a probability in [0, 1].
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
