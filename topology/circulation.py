"""How often to pass each edge of a directed graph so that as much enters each node as leaves it."""

from collections import deque

import numpy as np

from topology.graph import Graph, Neighbours, both_adjacencies, reach
from topology.plans import FloatArray


def circulation(graph: Graph) -> FloatArray:
    """Return whole numbers above 0, one an edge, shape (E,), with equal sums into and out of each node.

    Such numbers are a sum of directed cycles. Each edge is passed once; then, while more enters some node
    than leaves it, one more pass follows the shortest path from there to a node with more leaving.
    Raises ValueError for an edge that is on no directed cycle, naming it.
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
    """An edge lies on a cycle iff its two ends reach each other."""
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
    """Breadth first; there is one, since surpluses sum to 0 over nodes that all reach each other."""
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
