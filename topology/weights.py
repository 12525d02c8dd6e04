"""Doubly stochastic weights A: a_ij is the weight of node j's release in node i's mix (j -> i)."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from topology.graph import Graph, Neighbours, both_adjacencies, check_edges, reach
from topology.plans import TOLERANCE, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A sparse doubly stochastic matrix A. Immutable; freezes its arrays.

    a_ij = `values[k]` for i = `targets[k]` and j = `sources[k]`; all arrays have shape (E,), and indices are
    into `nodes` (in bytes order). Sorted by (target, source), no self-loops: a_ii = 1 - the rest of the row.
    Raises ValueError, with the row or column and its sum, for weights that are not doubly stochastic.
    """

    nodes: tuple[str, ...]
    sources: IntArray
    targets: IntArray
    values: FloatArray

    def __post_init__(self) -> None:
        check_edges(self.nodes, self.sources, self.targets)
        if self.values.shape != self.sources.shape:
            raise ValueError(
                f"values of shape {self.values.shape}: must be {self.sources.shape}, one an edge"
            )
        self.values.flags.writeable = False
        if not (self.values > 0).all():  # false for NaN too
            raise ValueError("a weight on an edge is not above 0: leave the edge out")
        size = len(self.nodes)
        rows = np.bincount(self.targets, self.values, size)
        if (rows > 1 + TOLERANCE).any():
            worst = int(rows.argmax())
            raise ValueError(
                f"row {self.nodes[worst]}: weights off the diagonal sum to {rows[worst]:.12g}: at most 1"
            )
        columns = np.bincount(self.sources, self.values, size) + (1 - rows)
        if (np.abs(columns - 1) > TOLERANCE).any():
            worst = int(np.abs(columns - 1).argmax())
            raise ValueError(f"column {self.nodes[worst]} sums to {columns[worst]:.12g}: must be 1")

    @property
    def graph(self) -> Graph:
        """The edges that the weights use, as a directed graph."""
        return Graph(self.nodes, self.sources, self.targets, directed=True)

    def dense(self) -> FloatArray:
        """Return the full matrix, shape (N, N). For reports and tests."""
        matrix = np.zeros((len(self.nodes), len(self.nodes)))
        matrix[self.targets, self.sources] = self.values
        np.fill_diagonal(matrix, 1 - matrix.sum(1))
        return matrix


def metropolis(graph: Graph) -> Weights:
    """Return a_ij = 1 / (1 + max(degree_i, degree_j)) on the edges of an undirected graph; symmetric.

    Every diagonal is positive. Xiao, Boyd and Lall, "A scheme for robust distributed sensor fusion based on
    average consensus", 2005, equation 7. Raises ValueError for a directed graph.
    """
    if graph.directed:
        raise ValueError("metropolis weights need an undirected graph; a directed one has permutations")
    return metropolis_on(graph.nodes, graph.sources, graph.targets)


def metropolis_on(nodes: tuple[str, ...], sources: IntArray, targets: IntArray) -> Weights:
    """Return Metropolis weights on edges given in both directions and in the order of `Graph`."""
    degrees = np.bincount(targets, minlength=len(nodes))
    values = 1.0 / (1.0 + np.maximum(degrees[sources], degrees[targets]))
    return Weights(nodes, sources, targets, values)


def permutations(graph: Graph) -> Weights:
    """Return weights for a directed graph: those of `directed_cycles`, which cover every edge.

    Raises ValueError, naming the edge, for an edge on no directed cycle: its weight would have to be 0.
    """
    return cycle_weights(graph.nodes, directed_cycles(graph))


def directed_cycles(graph: Graph) -> tuple[IntArray, ...]:
    """Return simple directed cycles that together pass each edge of a directed graph as `circulation` does.

    Each is the array of its nodes, from the first that the walk came back to. The rule is fixed: a walk from
    the first node with an edge left takes the first such edge at each node; where it meets itself, a cycle
    is closed and taken away (Veblen, 1912: a balanced graph is a sum of cycles). A balanced graph gives each
    edge to exactly one cycle. Raises ValueError, naming the edge, for an edge on no directed cycle.
    """
    remaining: list[list[int]] = [[] for _ in graph.nodes]
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), circulation(graph), strict=True)
    for source, target, passes in ends:
        remaining[source] += [target] * int(passes)
    cycles: list[IntArray] = []
    for first in range(len(remaining)):
        walk = [first]
        while remaining[walk[-1]]:
            following = remaining[walk[-1]].pop(0)
            if following in walk:
                start = walk.index(following)
                cycles.append(np.array(walk[start:]))
                del walk[start + 1 :]
            else:
                walk.append(following)
    return tuple(cycles)


def cycle_weights(nodes: tuple[str, ...], cycles: Sequence[IntArray]) -> Weights:
    """Return A = I + sum_c (P_c - I) / (k + 1), with P_c the permutation of `nodes` along the cycle c.

    P_c leaves the other nodes in place; k is the largest number of cycles through one node. Positive on every
    edge of a cycle and on the diagonal, rows and columns sum to 1, so a convex combination of permutations
    (Birkhoff, 1946). On a directed ring: (I + P) / 2.
    """
    size = len(nodes)
    sources = np.concatenate([*cycles, np.empty(0, np.intp)])
    targets = np.concatenate([*(np.roll(cycle, -1) for cycle in cycles), np.empty(0, np.intp)])
    through = np.bincount(targets, minlength=size).max(initial=0)
    edges, passes = np.unique(targets * size + sources, return_counts=True)
    return Weights(nodes, edges % size, edges // size, passes / (1.0 + through))


def fixed(nodes: Sequence[str], matrix: ArrayLike) -> Weights:
    """Return the given matrix as weights: row i, column j is a_ij (j -> i), both in the order of `nodes`.

    A zero diagonal is kept. Raises ValueError, naming the row, column or entry and its value, for a matrix
    that is not square, does not fit `nodes`, or is not doubly stochastic.
    """
    dense = np.array(matrix, np.float64)
    size = len(nodes)
    if dense.shape != (size, size):
        raise ValueError(f"matrix of shape {dense.shape}: must be {(size, size)}, one row a node")
    if not (dense >= 0).all():  # false for NaN too
        row, column = np.argwhere(~(dense >= 0))[0]
        raise ValueError(
            f"row {nodes[row]}, column {nodes[column]}: {dense[row, column]:g}: must be 0 or above"
        )
    for axis, word in ((1, "row"), (0, "column")):
        sums = dense.sum(axis)
        if not (np.abs(sums - 1) <= TOLERANCE).all():  # false for infinity too
            worst = int(np.abs(sums - 1).argmax())
            raise ValueError(f"{word} {nodes[worst]} sums to {sums[worst]:.12g}: must be 1")
    order = sorted(range(size), key=nodes.__getitem__)
    dense = dense[np.ix_(order, order)]
    np.fill_diagonal(dense, 0.0)
    targets, sources = dense.nonzero()
    return Weights(tuple(nodes[k] for k in order), sources, targets, dense[targets, sources])


def circulation(graph: Graph) -> FloatArray:
    """Return a positive circulation, shape (E,): a sum of directed cycles that covers every edge.

    Each edge is passed once. Then, while a node has more passes in than out, one more pass follows the
    shortest path from it to a node that has more out than in. Raises ValueError for an edge on no cycle, and
    names the edge.
    """
    size = len(graph.nodes)
    along, against = both_adjacencies(graph.sources, graph.targets, size)
    _refuse_one_way(graph, along, against)
    passes = np.ones(graph.sources.size)
    imbalance = np.bincount(graph.targets, minlength=size) - np.bincount(graph.sources, minlength=size)
    surplus = imbalance.tolist()
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    edge = {pair: k for k, pair in enumerate(ends)}
    for start in range(size):
        while surplus[start] > 0:
            path = _path_to_deficit(along, start, surplus)
            surplus[start] -= 1
            surplus[path[-1][1]] += 1
            for step in path:
                passes[edge[step]] += 1
    return passes


def _refuse_one_way(graph: Graph, along: Neighbours, against: Neighbours) -> None:
    """Raise ValueError for an edge on no cycle: one whose two ends do not reach each other."""
    settled: set[int] = set()
    for node in range(len(graph.nodes)):
        if node in settled:
            continue
        after, before = reach(along, node), reach(against, node)
        component = after & before
        if after != before:
            ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
            source, target = next((a, b) for a, b in ends if (a in component) != (b in component))
            raise ValueError(
                f"edge {graph.nodes[source]} -> {graph.nodes[target]} is on no directed cycle: every doubly "
                "stochastic weight on it is 0"
            )
        settled |= component


def _path_to_deficit(along: Neighbours, start: int, surplus: list[int]) -> list[tuple[int, int]]:
    """Return the shortest path to a deficit. There is one, as surpluses of a strong component sum to 0."""
    came_from = {start: start}
    waiting = deque([start])
    node = start
    while surplus[node] >= 0:
        node = waiting.popleft()
        for following in along[node]:
            if following not in came_from:
                came_from[following] = node
                waiting.append(following)
    path = []
    while node != start:
        path.append((came_from[node], node))
        node = came_from[node]
    return path[::-1]
