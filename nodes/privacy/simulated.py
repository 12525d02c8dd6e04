"""Simulated noise: seeded, repeatable, and so no protection at all. For experiments, tests and demos.

Guarantees
----------
None: whoever knows the seed subtracts the noise. It has the right size, and it is a function of (seed, node,
round, d) alone: a restarted node, or one in another order of events, draws the same.
"""

from dataclasses import dataclass, field

import numpy as np

from nodes.values import FloatArray, IntArray
from topology.keyed import generator

_BLOCK = 64


@dataclass(slots=True, eq=False)
class SimulatedSampler:
    """A node's noise: numpy's Laplace, rounded to integers, drawn in blocks of 64 rounds; one is kept."""

    seed: int
    node: str
    simulated: bool = field(default=True, init=False)
    _number: int = field(default=-1, init=False, repr=False)
    _noise: FloatArray = field(default_factory=lambda: np.empty((_BLOCK, 0)), init=False, repr=False)

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values`, shape (d,), plus the node's noise of `round`; ValueError for other shapes."""
        if values.ndim != 1:
            raise ValueError(f"values are of shape {values.shape}: simulated noise is that of one node, (d,)")
        number, row = divmod(round, _BLOCK)
        if number != self._number or self._noise.shape[1] != values.size:
            random = generator("noise", self.seed, self.node, number)
            self._number, self._noise = number, random.laplace(size=(_BLOCK, values.size))
        noisy: IntArray = values + np.rint(self._noise[row] * scale).astype(np.int64)
        return noisy
