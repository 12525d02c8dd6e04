"""Copies of a mesh side by side as one wide mesh: the engine computes many runs at once."""

from functools import lru_cache

import numpy as np

from topology.graph import Graph
from topology.plans import IntArray
from topology.schedules import CACHED, Schedule
from topology.weights import Weights


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
