"""Simulated noise: seeded and repeatable, and so no protection at all. For experiments, tests and demos.

Guarantees
----------
None: whoever knows the seed can subtract the noise. It has the right size, and depends on (seed, node, round,
shape) alone: a node draws the same after a restart, with another order of events, or as a row of an array
over nodes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from nodes.privacy.l2_sphere import directions
from nodes.values import BoolArray, FloatArray, IntArray
from topology.keyed import generator

_BLOCK = 64
_MOST = 1 << 16

_Shape = tuple[int, ...]
_Draw = Callable[[np.random.Generator, _Shape], FloatArray]
_Kept = tuple[int, _Shape, FloatArray]


@dataclass(slots=True, eq=False)
class SimulatedSampler:
    """Numpy's noise, rounded to integers, drawn in blocks of 64 rounds (of one, if rounds are large).

    `node`: the name of the node, or the names of several; values then have a first axis over the nodes.
    """

    seed: int
    node: str | tuple[str, ...]
    simulated: bool = field(default=True, init=False)
    _kept: dict[str, _Kept] = field(default_factory=dict, init=False, repr=False)

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values`, shape (d,), plus the node's noise of `round`; ValueError for other shapes."""
        draws = self._of_round("noise", _laplace, round, values.shape, 1)
        noisy: IntArray = values + np.rint(draws * scale).astype(np.int64)
        return noisy

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values`, shape (d,), plus the node's noise of `round`; ValueError for other shapes."""
        draws = self._of_round("gaussian", _normal, round, values.shape, 1)
        noisy: IntArray = values + np.rint(draws * scale).astype(np.int64)
        return noisy

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return the node's directions (h, d) and numbers (h,) of `round`; ValueError for other shapes."""
        numbers = self._of_round("sign", _uniform, round, shape[:-1], 1)
        return self._of_round("sphere", _directions, round, shape, 2), numbers

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        """Return `bits`, shape (h,), each kept or flipped by the node's coins of `round`."""
        turned = 1 / (1 + math.exp(min(float(epsilon), 700.0)))
        randomised: BoolArray = bits ^ (self._of_round("coin", _uniform, round, bits.shape, 1) < turned)
        return randomised

    def _of_round(self, kind: str, draw: _Draw, round: int, shape: _Shape, axes: int) -> FloatArray:
        block = _BLOCK if math.prod(shape[-axes:]) <= _MOST else 1
        number, row = divmod(round, block)
        block_of_rounds = self._kept.get(kind)
        if block_of_rounds is None or block_of_rounds[0] != number or block_of_rounds[1] != shape:
            block_of_rounds = self._kept[kind] = (
                number,
                shape,
                self._block(kind, draw, number, (block, *shape), axes),
            )
        draws: FloatArray = block_of_rounds[2][row]
        return draws

    def _block(self, kind: str, draw: _Draw, number: int, shape: _Shape, axes: int) -> FloatArray:
        nodes = (self.node,) if isinstance(self.node, str) else self.node
        over = () if isinstance(self.node, str) else (len(nodes),)
        if len(shape) - 1 != len(over) + axes or shape[1:-axes] != over:
            owner = "that of one node" if isinstance(self.node, str) else f"that of {len(nodes)} nodes"
            raise ValueError(
                f"values are of shape {shape[1:]}: simulated noise is {owner}, ({'h, d'[-axes:]},)"
            )
        rounds = np.empty((shape[0], len(nodes), *shape[-axes:]))
        for row, name in enumerate(nodes):
            rounds[:, row] = draw(generator(kind, self.seed, name, number), (shape[0], *shape[-axes:]))
        return rounds.reshape(shape)


def _laplace(random: np.random.Generator, shape: _Shape) -> FloatArray:
    return random.laplace(size=shape)


def _normal(random: np.random.Generator, shape: _Shape) -> FloatArray:
    return random.standard_normal(shape)


def _uniform(random: np.random.Generator, shape: _Shape) -> FloatArray:
    return random.random(shape)


def _directions(random: np.random.Generator, shape: _Shape) -> FloatArray:
    return directions(random.standard_normal(shape))
