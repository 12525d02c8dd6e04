"""Measures of how far and how fast a schedule spreads what nodes learn: for reports before a run."""

from collections import deque
from functools import reduce

import numpy as np

from topology.graph import strongly_connected
from topology.plans import TOLERANCE, IntArray
from topology.schedules import Schedule

DENSE = 512
"""Largest number of nodes for which a mixing rate is computed."""


def window(schedule: Schedule, limit: int, starts: int) -> int | None:
    """Return the smallest B such that the union of any B rounds in a row is strongly connected.

    Checks the windows that begin in rounds 1 to `starts`, with all nodes present. Returns None if a window of
    `limit` rounds is not connected.
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

    With all nodes present; a_ii of a node that hears only others is 0, up to rounding.
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
