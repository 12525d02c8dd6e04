"""Shared by mechanisms with noise: their settings, and the noisy sum of a slot on a public grid.

Each gradient of a slot is clipped on its own, before the noise. With `features` the mechanism sums rows in
place of gradients. The features define what a row adds to the sum, its bound, and how far a replaced row
moves the sum. Sparse gradients give the same integers as dense ones: a coordinate that is not stored is 0,
and so is its grid point. The sum is dense, and so is the noise on it: the release does not show which
coordinates were stored.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np

from nodes.checks import TAIL, at_least_one, positive
from nodes.privacy.clipping import Grid, Norm, Totals, along_rows, clip, to_grid, to_l2_grid
from nodes.privacy.features import RowFeatures
from nodes.privacy.mechanism import Band, Privatised, Sampler, Secret, Update
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.sparse import Rows, SparseRows
from nodes.sparse import dense as as_array
from nodes.values import FloatArray, IntArray, Release


class Sampled:
    """A mechanism with one source of noise, independent in each round; its subclasses are dataclasses."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Any]]
    sampler: Sampler

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, and so protects nothing."""
        return self.sampler.simulated

    @property
    def band(self) -> Band | None:
        """None: each round's noise is independent."""
        return None

    @property
    def mu(self) -> float | None:
        """None: the noise is not Gaussian."""
        return None

    @property
    def audited(self) -> Self:
        """The mechanism itself: all its rounds are alike, or its steps move with their noise."""
        return self

    def with_sampler(self, sampler: Sampler) -> Self:
        """Return the same mechanism with another sampler."""
        return replace(self, sampler=sampler)


@dataclass(frozen=True, slots=True, eq=False)
class OnGradients(Sampled):
    """The settings of a mechanism on gradients.

    Attributes
    ----------
    theta : float
        The bound that the clip enforces on each gradient, in the mechanism's norm.
    epsilon : Fraction
        The epsilon of one release, exactly, at `delta`.
    delta : float
        The delta of one release; 0: pure.
    batch_size : int
        h, the fixed public number that sums are divided by.
    dimension : int
        d.
    sampler : Sampler
        The source of the noise.

    Raises ValueError for settings out of range, naming the setting and what is allowed.
    """

    theta: float
    epsilon: Fraction
    delta: float
    batch_size: int
    dimension: int
    sampler: Sampler
    release_slack: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        positive("theta", self.theta)
        at_least_one("batch_size", self.batch_size)

    @property
    def draw_cost(self) -> int:
        """The noisy integers that one release takes."""
        return self.dimension


@dataclass(frozen=True, slots=True, eq=False)
class GridMechanism(OnGradients, ABC):
    """Integer noise of `scale` on the sum of a slot's gradients, each clipped in `norm` on `grid`.

    With `features` it is on the sum of what rows (..., n, width) add; `dimension` is the sum's length, and
    `theta` says nothing more than the features. A release then lies within K and 64 scales a coordinate.
    Raises ValueError for features of another norm or length.
    """

    norm: ClassVar[Literal["l1", "l2"]]
    features: RowFeatures | None = field(default=None, kw_only=True)
    grid: Grid = field(init=False)
    scale: float = field(init=False)

    def __post_init__(self) -> None:
        OnGradients.__post_init__(self)
        grid, features = self._clip_grid(), self.features
        if features is not None:
            if (features.norm, features.length) != (self.norm, self.dimension):
                fits = f"{self.norm} and {self.dimension}"
                raise ValueError(f"features of {features.norm} and length {features.length}: must be {fits}")
            grid = features.grid
        object.__setattr__(self, "grid", grid)
        object.__setattr__(self, "scale", self._noise())
        if features is not None:  # no set holds a release: its noise is in it
            slack = TAIL * self.noise_scale(1) * math.sqrt(self.dimension)
            object.__setattr__(self, "release_slack", slack)

    @property
    def distance(self) -> int:
        """The most, in steps, that the sum moves in `norm` if one record is replaced, added or removed."""
        return 2 * self.grid.radius if self.features is None else self.features.distance

    @property
    def width(self) -> int:
        """The length of a row that `privatise` takes."""
        return self.dimension if self.features is None else self.features.width

    @abstractmethod
    def _clip_grid(self) -> Grid:
        """Return the grid of the integer clip."""

    @abstractmethod
    def _noise(self) -> float:
        """Return the scale of the noise, in steps of the draws' grid."""

    @abstractmethod
    def _noised(self, round: int, total: IntArray, secret: Secret | None) -> tuple[IntArray, Secret | None]:
        """Return the noisy sum (..., d), in steps of the grid, and the state that the next step needs."""

    def noise_scale(self, round: int) -> float:  # noqa: ARG002 # the same in every round
        """Return the scale of one coordinate's noise on the slot's mean gradient."""
        return self.scale * self.grid.step / self.batch_size

    def privatise(
        self, round: int, gradients: Private[Rows], update: Update, secret: Secret | None = None
    ) -> Privatised:
        """Return update((sum of clipped gradients + noise)/h), gradients of shape (..., n, d), n <= h."""
        rows = checked(opened(gradients), self.batch_size, self.width)
        total, clipped, broken = self.bounded_sum(rows)
        estimate, after = self.estimated(round, total, secret)
        return Privatised(Release(update(estimate)), Private(clipped), Private(broken), after)

    def estimated(
        self, round: int, total: IntArray, secret: Secret | None = None
    ) -> tuple[FloatArray, Secret | None]:
        """Return (sum (..., d) + noise)/h, and the state that the next step needs: the draw of `round`."""
        noisy, after = self._noised(round, total, secret)
        return noisy * self.grid.step / self.batch_size, after

    def bounded_sum(self, gradients: Rows) -> tuple[IntArray, int, int]:
        """Return (sum (..., d) of the clipped gradients' grid points, number clipped, number broken)."""
        if self.features is not None:
            return self.features.summed(as_array(gradients))
        to_points = to_grid if self.norm == "l1" else to_l2_grid
        return bounded_sum(gradients, self.theta, self.norm, partial(to_points, grid=self.grid))


class ToPoints(Protocol):
    """Rounds to a public grid and clips again in integers: the clip that proofs rest on."""

    def __call__(self, vectors: FloatArray, *, totals: Totals = ...) -> IntArray:
        """Return the points; `totals` as for `nodes.privacy.clipping.to_grid`."""


def checked(gradients: Rows, batch_size: int, dimension: int) -> Rows:
    """Return the slot's gradients (..., n, d), contiguous rows or sparse; ValueError for other shapes."""
    shape = gradients.shape
    if len(shape) < 2 or shape[-1] != dimension or shape[-2] > batch_size:
        raise ValueError(f"gradients must be of shape (..., n <= {batch_size}, {dimension})")
    if isinstance(gradients, SparseRows):
        return gradients
    return np.ascontiguousarray(gradients, dtype=np.float64)


def dense(gradients: Rows, batch_size: int, dimension: int) -> FloatArray:
    """Return the gradients as `checked` does, as a dense array, for mechanisms that need whole rows."""
    return as_array(checked(gradients, batch_size, dimension))


def bounded_sum(gradients: Rows, theta: float, norm: Norm, to_points: ToPoints) -> tuple[IntArray, int, int]:
    """Return (sum (..., d) of the clipped gradients' grid points, number clipped, number broken)."""
    if isinstance(gradients, SparseRows):
        bounded, clipped, broken = clip(gradients, theta, norm)
        return bounded.counted(to_points(bounded.values, totals=bounded.totals)), clipped, broken
    rows, clipped, broken = clip(gradients, theta, norm)
    total: IntArray = np.add.reduce(to_points(rows, totals=along_rows), -2)
    return total, clipped, broken
