"""DOLA's noise as its authors print it (Li et al. 2018, Algorithms 1, 2 and 4), to reproduce their figures.

Guarantees
----------
None that holds on a computer, and no mesh file names these: floats on no grid, from a simulated sampler. The
bound L = theta on a gradient's L2 norm is assumed, as in the paper, and nothing enforces it. In real
arithmetic, with L right, adjacency event (one record of a node replaced), alpha_t that of the step itself:

    Algorithms 1, 4   Laplace(2 alpha_t sqrt(d) L/(h epsilon)) on the parameters: epsilon of one record
    Algorithm 2       J_t N(0, 1) on the gradient,
                      J_t^2 = 4 alpha_t^2 d L^2 T log(T/delta) log(1/delta)/epsilon^2

J_t holds alpha_t and d although the noise is multiplied by alpha_t again and the sensitivity 2L is in L2: so
epsilon is not what is stated, and differs from round to round: `PrintedGaussian.mu` says what it is.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from nodes.accounting.releases import DeltaBudget
from nodes.algorithms import StepSize
from nodes.losses.evaluation import mean_gradient
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.mechanism import Privatised, Secret, Update
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.sparse import Rows
from nodes.values import FloatArray, Release

_FINE = float(1 << 20)


@dataclass(frozen=True, slots=True, eq=False)
class PrintedLaplace:
    """Laplace noise on the parameters that the step makes of a slot's mean gradient, h = `batch_size`."""

    theta: float
    epsilon: Fraction
    batch_size: int
    dimension: int
    step_size: StepSize
    sampler: SimulatedSampler
    name: str = field(default="laplace as printed", init=False)
    delta: float = field(default=0.0, init=False)
    simulated: bool = field(default=True, init=False)
    band: None = field(default=None, init=False)
    audited: None = field(default=None, init=False)
    release_slack: float = field(default=math.inf, init=False)

    def composition(self, budget: DeltaBudget | None) -> None:
        """Return None."""

    def noise_scale(self, round: int) -> float:
        """Return the scale of one coordinate's noise on the parameters that the step of `round` makes."""
        sensitivity = 2.0 * self.step_size(round) * math.sqrt(self.dimension) * self.theta / self.batch_size
        return sensitivity / float(self.epsilon)

    def privatise(
        self,
        round: int,
        gradients: Private[Rows],
        update: Update,
        secret: Secret | None = None,  # noqa: ARG002
    ) -> Privatised:
        """Return update(mean gradient) + noise, gradients (..., n, d), n <= h."""
        stepped = update(mean_gradient(opened(gradients), self.batch_size))
        return Privatised(Release(stepped + self.noise(round, stepped.shape)), Private(0), Private(0))

    def noise(self, round: int, shape: tuple[int, ...]) -> FloatArray:
        """Return the noise on what the step of `round` makes, shape (..., d)."""
        drawn = self.sampler.laplace(round, np.zeros(shape, dtype=np.int64), _FINE) / _FINE
        return self.noise_scale(round) * drawn


@dataclass(frozen=True, slots=True, eq=False)
class PrintedGaussian:
    """Gaussian noise of the printed J_t on a slot's gradient, over `rounds` rounds T; h = 1."""

    theta: float
    epsilon: Fraction
    delta: float
    rounds: int
    dimension: int
    step_size: StepSize
    sampler: SimulatedSampler
    name: str = field(default="gaussian as printed", init=False)
    simulated: bool = field(default=True, init=False)
    band: None = field(default=None, init=False)
    audited: None = field(default=None, init=False)
    release_slack: float = field(default=0.0, init=False)

    def composition(self, budget: DeltaBudget | None) -> None:
        """Return None."""

    def noise_scale(self, round: int) -> float:
        """Return J_t, the standard deviation of one coordinate's noise on the gradient of `round`."""
        logs = math.log(self.rounds / self.delta) * math.log(1.0 / self.delta)
        spread = math.sqrt(self.dimension * self.rounds * logs)
        return 2.0 * self.step_size(round) * self.theta * spread / float(self.epsilon)

    def mu(self, round: int) -> float:
        """Return 2L/J_t: one release of `round` is mu-Gaussian private, so one record of that round is."""
        return 2.0 * self.theta / self.noise_scale(round)

    def privatise(
        self,
        round: int,
        gradients: Private[Rows],
        update: Update,
        secret: Secret | None = None,  # noqa: ARG002
    ) -> Privatised:
        """Return update(gradient + noise), gradients (..., n, d), n <= 1."""
        mean = mean_gradient(opened(gradients), 1)
        drawn = self.sampler.gaussian(round, np.zeros(mean.shape, dtype=np.int64), _FINE) / _FINE
        return Privatised(Release(update(mean + self.noise_scale(round) * drawn)), Private(0), Private(0))
