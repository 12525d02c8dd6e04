"""Constraints: the convex sets Omega in which decisions live, compact but for `Space`.

Arrays are float64 with contiguous rows, shape (d,) or (..., d). A row gives the same bits alone or among
others. A result may be the argument itself, as no function here writes into arrays.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np

from nodes.checks import at_least_one, finite_array, positive
from nodes.values import FloatArray

# The L1, L2 and Linf balls around the origin, as constraints (see `nodes.geometry.constraints`).


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


__all__ = ["Box", "Constraint", "L1Ball", "L2Ball", "LinfBall", "Simplex"]


class Constraint(Protocol):
    """A convex set of R^d."""

    name: ClassVar[str]

    @property
    def dimension(self) -> int:
        """The dimension d."""

    @property
    def reach(self) -> float:
        """The largest L2 norm of a member."""

    def project(self, x: FloatArray) -> FloatArray:
        """Return the nearest member in L2, shape (..., d); a member comes back unchanged."""

    def support(self, v: FloatArray) -> FloatArray:
        """Return max over members m of <v, m>, shape (...)."""


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """The set lower <= x <= upper, both of shape (d,), finite, lower <= upper (ValueError otherwise)."""

    name: ClassVar[str] = "box"

    lower: FloatArray
    upper: FloatArray

    def __post_init__(self) -> None:
        lower, upper = finite_array("lower", self.lower), finite_array("upper", self.upper)
        if lower.ndim != 1 or lower.size == 0 or lower.shape != upper.shape:
            raise ValueError(f"lower has shape {lower.shape}, upper {upper.shape}: must be one (d,), d >= 1")
        above = np.flatnonzero(lower > upper)
        if above.size:
            i = int(above[0])
            raise ValueError(f"lower[{i}] is {lower[i]}, upper[{i}] is {upper[i]}: must be lower <= upper")
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @property
    def dimension(self) -> int:
        """The dimension d."""
        return self.lower.size

    @property
    def reach(self) -> float:
        """The largest L2 norm of a member: that of the farthest corner."""
        return math.hypot(*np.maximum(np.abs(self.lower), np.abs(self.upper)).tolist())

    def project(self, x: FloatArray) -> FloatArray:
        """Return the nearest member in L2, shape (..., d): each coordinate is clipped."""
        return np.minimum(np.maximum(x, self.lower), self.upper)

    def support(self, v: FloatArray) -> FloatArray:
        """Return sum_k max(v_k lower_k, v_k upper_k), shape (...)."""
        total: FloatArray = np.add.reduce(np.maximum(v * self.lower, v * self.upper), -1)
        return total


@dataclass(frozen=True, slots=True)
class Space:
    """All of R^d, for unconstrained decisions; `dimension` d >= 1 (ValueError otherwise)."""

    name: ClassVar[str] = "space"

    dimension: int

    def __post_init__(self) -> None:
        at_least_one("dimension", self.dimension)

    @property
    def reach(self) -> float:
        """The largest L2 norm of a member: infinite."""
        return math.inf

    def project(self, x: FloatArray) -> FloatArray:
        """Return x."""
        return x

    def support(self, v: FloatArray) -> FloatArray:
        """Return 0 where v is 0, else infinity, shape (...)."""
        return np.where(np.logical_or.reduce(v != 0.0, -1), np.inf, 0.0)


@dataclass(frozen=True, slots=True)
class Simplex:
    """The probability simplex: x >= 0, sum x = 1; `dimension` d >= 1 (ValueError otherwise)."""

    name: ClassVar[str] = "simplex"

    dimension: int

    def __post_init__(self) -> None:
        at_least_one("dimension", self.dimension)

    @property
    def reach(self) -> float:
        """The largest L2 norm of a member: 1, at the corners."""
        return 1.0

    def project(self, x: FloatArray) -> FloatArray:
        """Return the nearest member in L2, shape (..., d): shifted, then cut at 0 (Duchi et al. 2008).

        A sum within rounding of 1 (4 d ulp) counts as 1.
        """
        rounding = 4 * self.dimension * np.finfo(np.float64).eps
        off = np.abs(np.add.reduce(x, -1, keepdims=True) - 1.0) > rounding
        outside = off | (np.minimum.reduce(x, -1, keepdims=True) < 0.0)
        if not np.count_nonzero(outside):
            return x
        tau = np.where(outside, largest_mean(x, 1.0), 0.0)
        return np.maximum(x - tau, 0.0)

    def support(self, v: FloatArray) -> FloatArray:
        """Return max_k v_k, shape (...)."""
        largest: FloatArray = np.maximum.reduce(v, -1)
        return largest
