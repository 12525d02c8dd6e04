"""Shared by the mechanisms on gradients: their settings, and the noisy sum of a slot on a public grid."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import ClassVar, Literal, Self

from nodes.checks import at_least_one, positive
from nodes.privacy.clipping import Grid, to_grid, to_l2_grid
from nodes.privacy.mechanism import Band, Privatised, Sampler, Secret, Update
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.privacy.slot_sum import bounded_sum, checked
from nodes.sparse import Rows
from nodes.values import IntArray, Release


@dataclass(frozen=True, slots=True, eq=False)
class OnGradients:
    """The settings of a mechanism on gradients.

    Attributes
    ----------
    theta : float
        The bound that the clip enforces on each gradient, in the mechanism's norm.
    epsilon : Fraction
        That of one release, exactly, at `delta`.
    delta : float
        That of one release; 0: pure.
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
    def draw_cost(self) -> int:
        """The noisy integers that one release takes."""
        return self.dimension

    @property
    def audited(self) -> Self:
        """The mechanism itself: all its rounds are alike."""
        return self

    def with_sampler(self, sampler: Sampler) -> Self:
        """Return the same mechanism with another sampler."""
        return replace(self, sampler=sampler)


@dataclass(frozen=True, slots=True, eq=False)
class GridMechanism(OnGradients, ABC):
    """Integer noise of `scale` on the sum of a slot's gradients, each clipped in `norm` on `grid`."""

    norm: ClassVar[Literal["l1", "l2"]]
    grid: Grid = field(init=False)
    scale: float = field(init=False)

    def __post_init__(self) -> None:
        OnGradients.__post_init__(self)
        object.__setattr__(self, "grid", self._clip_grid())
        object.__setattr__(self, "scale", self._noise())

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
        rows = checked(opened(gradients), self.batch_size, self.dimension)
        total, clipped, broken = self._bounded_sum(rows)
        noisy, after = self._noised(round, total, secret)
        estimate = noisy * self.grid.step / self.batch_size
        return Privatised(Release(update(estimate)), Private(clipped), Private(broken), after)

    def _bounded_sum(self, gradients: Rows) -> tuple[IntArray, int, int]:
        to_points = to_grid if self.norm == "l1" else to_l2_grid
        return bounded_sum(gradients, self.theta, self.norm, partial(to_points, grid=self.grid))
