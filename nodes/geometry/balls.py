"""The L1, L2 and Linf balls around the origin, as constraints (see `nodes.geometry.constraints`)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from nodes.checks import at_least_one, positive
from nodes.values import FloatArray


def largest_mean(values: FloatArray, radius: float) -> FloatArray:
    """Return tau = max_k (v_1 + ... + v_k - radius)/k, v the values (..., d) in descending order; (..., 1).

    Duchi, Shalev-Shwartz, Singer, Chandra (2008), figure 1: the mean grows as long as the next v exceeds it,
    and no longer, so their search for rho is this maximum.
    """
    sums = np.add.accumulate(np.sort(values)[..., ::-1], -1)
    means = (sums - radius) / _counts(values.shape[-1])
    largest: FloatArray = np.maximum.reduce(means, -1, keepdims=True)
    return largest


@lru_cache(maxsize=16)
def _counts(dimension: int) -> FloatArray:
    return np.arange(1.0, dimension + 1.0)


@dataclass(frozen=True, slots=True)
class _Ball:
    """A ball around the origin: `dimension` d >= 1, `radius` > 0 and finite (ValueError otherwise)."""

    dimension: int
    radius: float

    def __post_init__(self) -> None:
        at_least_one("dimension", self.dimension)
        positive("radius", self.radius)


@dataclass(frozen=True, slots=True)
class L1Ball(_Ball):
    """The set ||x||_1 <= radius."""

    name: ClassVar[str] = "l1-ball"

    @property
    def reach(self) -> float:
        """The largest L2 norm of a member: radius, at the corners."""
        return self.radius

    def project(self, x: FloatArray) -> FloatArray:
        """Return the nearest member in L2, shape (..., d): a soft threshold (Duchi et al. 2008)."""
        magnitudes = np.abs(x)
        outside = np.add.reduce(magnitudes, -1, keepdims=True) > self.radius
        if not np.count_nonzero(outside):
            return x
        tau = np.where(outside, np.maximum(largest_mean(magnitudes, self.radius), 0.0), 0.0)
        shrunk: FloatArray = np.copysign(np.maximum(magnitudes - tau, 0.0), x)
        return shrunk

    def support(self, v: FloatArray) -> FloatArray:
        """Return radius ||v||_inf, shape (...)."""
        largest: FloatArray = self.radius * np.maximum.reduce(np.abs(v), -1)
        return largest


@dataclass(frozen=True, slots=True)
class L2Ball(_Ball):
    """The set ||x||_2 <= radius."""

    name: ClassVar[str] = "l2-ball"

    @property
    def reach(self) -> float:
        """The largest L2 norm of a member."""
        return self.radius

    def project(self, x: FloatArray) -> FloatArray:
        """Return the nearest member in L2, shape (..., d): points outside are scaled to the sphere."""
        norm = np.sqrt(np.add.reduce(x * x, -1, keepdims=True))
        if np.count_nonzero(norm <= self.radius) == norm.size:
            return x
        scaled: FloatArray = x * (self.radius / np.maximum(norm, self.radius))
        return scaled

    def support(self, v: FloatArray) -> FloatArray:
        """Return radius ||v||_2, shape (...)."""
        norm: FloatArray = self.radius * np.sqrt(np.add.reduce(v * v, -1))
        return norm


@dataclass(frozen=True, slots=True)
class LinfBall(_Ball):
    """The set ||x||_inf <= radius."""

    name: ClassVar[str] = "linf-ball"

    @property
    def reach(self) -> float:
        """The largest L2 norm of a member: radius sqrt(d), at the corners."""
        return self.radius * math.sqrt(self.dimension)

    def project(self, x: FloatArray) -> FloatArray:
        """Return the nearest member in L2, shape (..., d): each coordinate is clipped."""
        return np.minimum(np.maximum(x, -self.radius), self.radius)

    def support(self, v: FloatArray) -> FloatArray:
        """Return radius ||v||_1, shape (...)."""
        total: FloatArray = self.radius * np.add.reduce(np.abs(v), -1)
        return total
