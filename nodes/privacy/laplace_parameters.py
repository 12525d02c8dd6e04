"""`laplace`, on parameters: the papers' form, with noise on the value after the step.

Guarantees
----------
Adjacency: event, as in `nodes.privacy.laplace`, with one observation a slot. Let c = update(0), which is
public, and x = update(clipped gradient). x - c is clipped in integers to the L1 radius K of a public grid.
Whatever the step does, two observations give values that are at most 2K apart. So discrete Laplace noise of
scale S >= 2K/epsilon gives epsilon = 2K/S, delta = 0. The release is c + step * (integers), which is
post-processing.

Radius, grid and noise use alpha_t, where t is the round of the step that made x. With the next round's step
size, as the papers print it, epsilon would be alpha_t/alpha_{t+1} times the stated one.

The radius is so large that the clip leaves steps within the table's bound unchanged. No proof rests on the
table.

| mirror map, set, norm of the gradient's clip | radius in L1, half the sensitivity |
|---|---|
| Euclidean, any set, L2 | sqrt(d) alpha theta (Li et al. 2018; Zhou, Li 2025) |
| Euclidean, box or Linf ball, L1 | alpha theta: a coordinate moves by at most alpha times its own gradient |
| Mahalanobis diag(q), box or Linf ball, L2 | alpha theta sqrt(sum q_i^-2): likewise, Cauchy-Schwarz |
| Mahalanobis Q, otherwise, L2 | sqrt(d) alpha theta/lambda_min(Q) |
| entropy, simplex, Linf | 2 tanh(alpha theta/2): most for half the mass moved up and half down |

| case | what happens |
|---|---|
| no observation, or a zero gradient | x = c: the release is c and noise |
| NaN, infinity, a norm that overflows | x = c, counted as broken |
| a step that raises on the gradient, or returns no numbers | x = c, counted as broken |
| more than one observation a slot | ValueError: use `laplace` on gradients |
| epsilon out of range | ValueError, as in `nodes.privacy.laplace` |

With its noise the release may lie outside the set, so it is a biased estimate of the value within the set.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from nodes.accounting.releases import Composition, DeltaBudget, pure_composition
from nodes.algorithms import StepSize
from nodes.checks import positive
from nodes.geometry.constraints import Box, Constraint, LinfBall
from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis, MirrorMap
from nodes.privacy.clipping import Grid, Norm, clip, to_grid
from nodes.privacy.laplace import laplace_scale
from nodes.privacy.mechanism import Privatised, Sampler, Secret, Update
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.privacy.sampled import Sampled, dense
from nodes.sparse import Rows
from nodes.values import FloatArray, Release

_SLACK = 64
_LAST = 1 << 40
"""The last round that is checked. No round is later. As step sizes do not grow, all rounds fit if this one
and the first do."""


def step_radius(
    mirror_map: MirrorMap, constraint: Constraint, norm: Norm, alpha: float, theta: float
) -> float:
    """Return the largest L1 distance of a step from the zero-gradient step (the module's table).

    Raises ValueError for a combination that the table does not have.
    """
    reach = alpha * theta
    separable = isinstance(constraint, Box | LinfBall)
    match mirror_map, norm:
        case Entropy(), "linf":
            return 2.0 * math.tanh(reach / 2.0)
        case Euclidean(), "l1" if separable:
            return reach
        case Euclidean(), "l2":
            return reach * math.sqrt(constraint.dimension)
        case Mahalanobis(q=q), "l2" if separable and mirror_map.diagonal:
            return reach * math.hypot(*(1.0 / q).tolist())
        case Mahalanobis(), "l2":
            return reach * math.sqrt(constraint.dimension) / mirror_map.modulus
    raise ValueError(
        f"norm {norm} is not offered for noise on the parameters with this mirror map and set: "
        f"must be linf with entropy, l2 otherwise, or l1 with the Euclidean map on a box or Linf ball"
    )


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceParameters(Sampled):
    """Laplace noise on the step's result; the gradient of the slot's one observation is clipped to `theta`.

    Attributes
    ----------
    theta, norm
        The bound that the clip enforces, and its norm.
    epsilon : Fraction
        The epsilon of one release, exactly.
    mirror_map, constraint, step_size
        Those of the algorithm, for the radius; step sizes must not grow.
    sampler : Sampler
        The source of the noise.

    Raises ValueError for settings out of range, naming the setting and what is allowed.
    """

    theta: float
    norm: Norm
    epsilon: Fraction
    mirror_map: MirrorMap
    constraint: Constraint
    step_size: StepSize
    sampler: Sampler
    name: str = field(default="laplace on parameters", init=False)
    delta: float = field(default=0.0, init=False)
    batch_size: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        positive("theta", self.theta)
        self._calibrated(1)
        self._calibrated(_LAST)

    @property
    def dimension(self) -> int:
        """The length of a gradient and of a release."""
        return self.constraint.dimension

    @property
    def draw_cost(self) -> int:
        """The noisy integers that one release takes."""
        return self.dimension

    def composition(self, budget: DeltaBudget | None) -> Composition:
        """Return how releases compose; a slot holds one record."""
        return pure_composition("laplace", self.epsilon, budget)

    @property
    def release_slack(self) -> float:
        """64 scales of the largest noise (round 1) in every coordinate, in L2."""
        return _SLACK * math.sqrt(self.dimension) * self.noise_scale(1)

    def noise_scale(self, round: int) -> float:
        """Return the scale of a coordinate's noise on the parameters after the step of `round`."""
        _, grid, scale = self._calibrated(round)
        return scale * grid.step

    def privatise(
        self,
        round: int,
        gradients: Private[Rows],
        update: Update,
        secret: Secret | None = None,  # noqa: ARG002
    ) -> Privatised:
        """Return update(clipped gradient) + noise, gradients of shape (..., n, d), n <= 1.

        `update` uses the step size of the same `round`. Sparse gradients become dense.
        """
        rows = dense(opened(gradients), 1, self.dimension)
        bounded, clipped, broken = clip(rows, self.theta, self.norm)
        gradient = np.add.reduce(bounded, -2)
        zero_step = update(np.zeros_like(gradient))
        radius, grid, scale = self._calibrated(round)
        step, _, failed = clip(_moved(update, gradient, zero_step), radius, "l1")
        noisy = self.sampler.laplace(round, to_grid(step, grid), scale)
        return Privatised(Release(zero_step + noisy * grid.step), Private(clipped), Private(broken + failed))

    def _calibrated(self, round: int) -> tuple[float, Grid, float]:
        radius = step_radius(self.mirror_map, self.constraint, self.norm, self.step_size(round), self.theta)
        grid = Grid.of(radius, self.dimension)
        return radius, grid, laplace_scale(grid.radius, self.epsilon)


def _moved(update: Update, gradient: FloatArray, zero_step: FloatArray) -> FloatArray:
    """Return x - c, shape (..., d); NaN if the step fails on the private gradient."""
    with np.errstate(all="ignore"):
        try:
            return update(gradient) - zero_step
        except Exception:  # noqa: BLE001 # an error would show the gradient: update(0) did not fail
            return np.full_like(gradient, np.nan)
