"""Who can be reached from whom over directed edges."""

from collections.abc import Iterable

from topology.plans import IntArray

Neighbours = list[list[int]]


def adjacency(edges: Iterable[tuple[int, int]], size: int) -> Neighbours:
    """Return, for each of `size` nodes, the nodes that its edges (source, target) lead to."""
    neighbours: Neighbours = [[] for _ in range(size)]
    for source, target in edges:
        neighbours[source].append(target)
    return neighbours


def both_adjacencies(sources: IntArray, targets: IntArray, size: int) -> tuple[Neighbours, Neighbours]:
    """Return the adjacency along the edges, and the one against them."""
    tails, heads = sources.tolist(), targets.tolist()
    return adjacency(zip(tails, heads, strict=True), size), adjacency(zip(heads, tails, strict=True), size)


def reach(neighbours: Neighbours, start: int) -> set[int]:
    """Return the nodes that can be reached from `start`, itself included. Linear in the edges."""
    seen = {start}
    waiting = [start]
    while waiting:
        for node in neighbours[waiting.pop()]:
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return seen


def strongly_connected(sources: IntArray, targets: IntArray, size: int) -> bool:
    """Return whether every one of `size` nodes reaches every other. Linear in the edges."""
    along, against = both_adjacencies(sources, targets, size)
    return size == 0 or (len(reach(along, 0)) == size and len(reach(against, 0)) == size)
