"""Constraints: the compact convex sets Omega in which decisions live.

Arrays are float64 with contiguous rows, shape (d,) or (..., d). A row gives the same bits alone or among
others. A result may be the argument itself: nobody writes into arrays here.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from nodes.checks import at_least_one, finite_array
from nodes.geometry.balls import L1Ball, L2Ball, LinfBall, largest_mean
from nodes.values import FloatArray

__all__ = ["Box", "Constraint", "L1Ball", "L2Ball", "LinfBall", "Simplex"]


class Constraint(Protocol):
    """A compact convex set of R^d."""

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
