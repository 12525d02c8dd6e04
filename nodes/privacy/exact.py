"""The exact sampler: OpenDP's discrete noise and coins, from the operating system's entropy.

With `opendp_calls`, through which it draws, it is the only code under `nodes/` that is not a function of its
arguments. Noise is used once and dropped.

Guarantees
----------
`laplace`: P(k) is proportional to exp(-|k|/S) exactly for the float S (Canonne, Kamath, Steinke 2020,
algorithm 2, in rational arithmetic), so a sum of sensitivity D in L1 is released with epsilon = D/S.
`gaussian`: P(k) is proportional to exp(-k^2/(2 S^2)) exactly (algorithm 3). Draws beyond 64 bits would
saturate: still private, but biased; callers keep |values| + 64 S below 2^62.
`randomised`: a bit is N >= 0 or N >= 1, N discrete Laplace of scale S, the least float of at least 1/epsilon:
P(N >= 0) = 1/(1 + e^(-1/S)), P(N >= 1) = e^(-1/S) P(N >= 0), so their ratio is e^(1/S), at most e^epsilon.
`sphere`: each direction has its own generator with 128 fresh bits, so directions are exactly independent and
identically distributed; they are uniform only as far as numpy's generator and floats are.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

import numpy as np
import opendp.prelude as dp  # noqa: TID251 # the exact sampler is OpenDP's

from nodes.decimals import rounded_up
from nodes.privacy.l2_sphere import directions
from nodes.privacy.opendp_calls import invoked
from nodes.privacy.ranges import RANGE
from nodes.values import BoolArray, FloatArray, IntArray


class SamplerError(RuntimeError):
    """A draw failed. The text never shows the values."""


@dataclass(slots=True, eq=False)
class ExactSampler:
    """Randomness that nobody can predict or repeat."""

    simulated: bool = field(default=False, init=False)
    _made_for: tuple[object, float] | None = field(default=None, init=False, repr=False)
    _measure: dp.Measurement | None = field(default=None, init=False, repr=False)

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:  # noqa: ARG002 # no seed
        """Return `values` plus noise of that scale, same shape.

        Raises ValueError unless the scale is positive and finite, SamplerError if values leave 62 bits or
        OpenDP refuses.
        """
        return self._noisy(_laplace_measure, values, scale)

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:  # noqa: ARG002 # no seed
        """Return `values` plus noise of that scale, same shape. Raises as `laplace`."""
        return self._noisy(_gaussian_measure, values, scale)

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:  # noqa: ARG002
        """Return directions (..., d) and numbers (...) on [0, 1), each pair from fresh entropy."""
        normals, numbers = np.empty((prod(shape[:-1]), shape[-1])), np.empty(prod(shape[:-1]))
        for k in range(numbers.size):
            fresh = np.random.Generator(np.random.PCG64())
            normals[k], numbers[k] = fresh.standard_normal(shape[-1]), fresh.random()
        return directions(normals).reshape(shape), numbers.reshape(shape[:-1])

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        """Return `bits`, each kept with probability 1/(1 + e^(-1/S)), 1/S at most epsilon. As `laplace`."""
        noisy = self.laplace(round, np.where(bits, 0, -1), rounded_up(1 / epsilon))
        kept: BoolArray = noisy >= 0
        return kept

    def _noisy(self, make: Callable[[float], dp.Measurement], values: IntArray, scale: float) -> IntArray:
        if not 0.0 < scale < float("inf"):
            raise ValueError(f"scale is {scale!r}: must be finite and above 0")
        if self._measure is None or self._made_for != (make, scale):
            self._measure, self._made_for = make(scale), (make, scale)
        inside = not values.size or (values.min() > -RANGE and values.max() < RANGE)
        drawn = invoked(self._measure, values.ravel()) if inside else None
        if drawn is None:
            raise SamplerError("the exact sampler failed on a private value")
        return drawn.reshape(values.shape)


def _laplace_measure(scale: float) -> dp.Measurement:
    return dp.m.make_laplace(_integers(), dp.l1_distance(T="i64"), scale=scale)


def _gaussian_measure(scale: float) -> dp.Measurement:
    return dp.m.make_gaussian(_integers(), dp.l2_distance(T="i64"), scale=scale)


def _integers() -> dp.Domain:
    dp.enable_features("contrib")
    return dp.vector_domain(dp.atom_domain(T="i64"))
