"""The exact sampler: discrete noise and coins from the operating system's entropy.

It is the only code under `nodes/` that is not a function of its arguments. Entropy is read at the draw and
used once: nothing is drawn ahead, so no memory holds the noise of a later release. The array that holds it is
overwritten; what Python and numpy have copied of it is freed, and not overwritten.

Guarantees
----------
`laplace`: P(k) is proportional to exp(-|k|/S) exactly for the float S (`nodes.privacy.discrete`), so a sum of
sensitivity D in L1 is released with epsilon = D/S. `gaussian`: P(k) is proportional to exp(-k^2/(2 S^2))
exactly. Assumed: the operating system's bits are fair and independent, and floats are those of IEEE 754.
Sums saturate at 2^62, which is a function of the sum: values are below 2^61 in magnitude.
`randomised`: a bit is N >= 0 or N >= 1, N discrete Laplace of scale S, the least float of at least 1/epsilon:
P(N >= 0) = 1/(1 + e^(-1/S)), P(N >= 1) = e^(-1/S) P(N >= 0), so their ratio is e^(1/S), at most e^epsilon.
`sphere`: each direction has its own generator with 128 fresh bits, so directions are exactly independent and
identically distributed; they are uniform only as far as numpy's generator and floats are.
"""

import os  # noqa: TID251 # the entropy of the exact sampler
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

import numpy as np

from nodes.decimals import rounded_up
from nodes.privacy.discrete import LARGEST, SMALLEST, gaussian, laplace
from nodes.privacy.endless import Words
from nodes.privacy.l2_sphere import directions
from nodes.privacy.ranges import RANGE
from nodes.values import BoolArray, FloatArray, IntArray, WordArray


class SamplerError(RuntimeError):
    """A draw failed. The text never shows the values."""


def entropy(count: int) -> WordArray:
    """Return that many words of 64 bits from the operating system, to be overwritten after their use."""
    return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)


@dataclass(slots=True, eq=False)
class ExactSampler:
    """Randomness that nobody can predict or repeat. `words`: where its bits come from."""

    words: Words = field(default=entropy, repr=False)
    simulated: bool = field(default=False, init=False)

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:  # noqa: ARG002 # no seed
        """Return `values` plus noise of that scale, same shape.

        Raises ValueError unless the scale is from 1e-5 to 2^56, SamplerError if a value is 2^61 or more.
        """
        return self._noisy(laplace, values, scale)

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:  # noqa: ARG002 # no seed
        """Return `values` plus noise of that scale, same shape. Raises as `laplace`."""
        return self._noisy(gaussian, values, scale)

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
        coins: BoolArray = noisy >= 0
        return coins

    def _noisy(
        self, draw: Callable[[int, float, Words], IntArray], values: IntArray, scale: float
    ) -> IntArray:
        if not SMALLEST <= scale <= LARGEST:
            raise ValueError(f"scale is {scale!r}: must be from {SMALLEST:g} to {LARGEST:g}")
        if values.size and not (values.min() > -RANGE // 2 and values.max() < RANGE // 2):
            raise SamplerError("a private value is too large for the exact sampler")
        noise = draw(values.size, scale, self.words).reshape(values.shape)
        sums: IntArray = np.clip(values + noise, -RANGE, RANGE)
        return sums
