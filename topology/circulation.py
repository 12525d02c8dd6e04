"""Circulations: a whole number on each edge, with equal sums into and out of each node."""

from collections import deque

import numpy as np

from topology.graph import Graph, Neighbours, both_adjacencies, reach
from topology.plans import FloatArray


def circulation(graph: Graph) -> FloatArray:
    """Return a positive circulation, shape (E,): a sum of directed cycles that covers every edge.

    Each edge is passed once. While more enters a node than leaves it, one more pass follows the shortest path
    from there to a node that more leaves than enters. Raises ValueError, naming the edge, for an edge on no
    directed cycle.
    """
    size = len(graph.nodes)
    along, against = both_adjacencies(graph.sources, graph.targets, size)
    _refuse_one_way(graph, along, against)
    passes = np.ones(graph.sources.size)
    more = np.bincount(graph.targets, minlength=size) - np.bincount(graph.sources, minlength=size)
    surplus = more.tolist()
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
        both = after & before
        if after != before:
            ends = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
            source, target = next((a, b) for a, b in ends if (a in both) != (b in both))
            raise ValueError(
                f"edge {graph.nodes[source]} -> {graph.nodes[target]} is on no directed cycle: every doubly "
                "stochastic weight on it is 0"
            )
        settled |= both


def _path_to_deficit(along: Neighbours, start: int, surplus: list[int]) -> list[tuple[int, int]]:
    """Return the shortest path to a deficit: it exists, as surpluses of a strong component sum to 0."""
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
