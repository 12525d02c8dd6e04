"""`gaussian-bisr`: Gaussian noise, correlated over rounds, so that later rounds cancel part of it.

The mechanism is that of Kalinin, McKenna, Upadhyay, Lampert 2025. The noise of the t-th charged step is
sum_{k<w} r_k Z_{t-k}, with one new draw Z_t and the r of `nodes.privacy.bisr_coefficients`. The last w - 1
draws are secret state: whoever has them can subtract the noise from the releases that they went into.
`privatise` returns them as a private value, which must be journalled with the release and passed to the next
step. A step without this value begins a new band.

Guarantees
----------
Adjacency: event, as in `nodes.privacy.gaussian`. One observation is in one slot. It moves the sum G of that
one step by at most D = 2K in L2, in integers (for features, by their D).

*In real arithmetic.* G + C^-1 Z is a function of C G + Z. C G moves by at most s D, where s is the norm of
C's first column, however long the stream is. So with Z of scale sigma the whole stream is (epsilon, delta) as
one release of sensitivity s D is (Balle, Wang 2018), also for adaptively chosen data.

*In the integers that are drawn.* Z is discrete Gaussian on a grid that is 2^24 times finer than the
gradients' grid (for features, 2^`finer` times, here and below). In steps of the finer grid y_t = G_t + Z_t +
[sum_{k>=1} r_k Z_{t-k}], where [] is the nearest integer. (As r_1 = -1/2, y_t would show the parity of
Z_{t-1} without this rounding, and so the parity of G.) The release is made of y_t/2^24, rounded again, which
is post-processing.

For either of two neighbours each sequence y belongs to one sequence Z, as y_1, y_2, ... determine Z_1, Z_2,
... in turn. So no y is excluded for one of them. The two Z differ by h_t. Before the slot of the observation,
with number a, h_t is 0. From it on h is C applied to what the observation moved plus an error of at most 1 in
each coordinate of each step, for two roundings. So ||h_t|| <= c_{t-a} D + gain sqrt(d), and h_t is known
before Z_t is drawn. The stream is therefore an adaptive composition of discrete Gaussian releases. It is
(epsilon, delta) for sensitivity s D + gain sqrt(d T) over T steps and d T coordinates
(`nodes.accounting.releases`). The scale is computed for T = 2^40, which needs 0.01 % more noise at d = 1,000.

*For a unit* with a record in k releases, b rounds apart, of numbers a_1, a_2, ... that are known before the
first (`nodes.privacy.unit`): ||h_t|| is at most sum_i c_{t-a_i} D and the rounding, which is paid once as it
is for any slot. So s is the norm of the sum of k columns of C (`BandMatrix.unit_norm`). Each bound on ||h_t||
is known in advance, so the composition above holds unchanged.

Required: an exact sampler, one call a round, slots that do not shift, a public point at which the gradients
are taken, and a band with the draws of the steps before.

| case | what happens |
|---|---|
| no observation, or zero gradients | the release is made of noise alone |
| NaN, infinity, a norm that overflows | a zero gradient, counted as broken |
| n < h observations | the sum is still divided by h: a count would be another release |
| bands outside 1..1,024 (1: that of `gaussian`), w d above 2^26, delta outside [1e-300, 1) | ValueError |
| epsilon not in (1e-8, 1e5], or so small that draws leave 64 bits (0.001 at delta 1e-6) | ValueError |
| settings other than the band's | a new band begins: the old one is a stream that ended |
| a band of another shape | ValueError |

The estimate of the clipped gradients' sum / h is unbiased up to the grid, theta sqrt(d) 2^-19 an observation.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from nodes.accounting.calibration import analytic_scale, delta_in_range
from nodes.accounting.releases import BandComposition, Composition, DeltaBudget
from nodes.checks import TAIL, fits_memory, in_range, room_for_noise
from nodes.privacy.bisr_coefficients import BandMatrix, band_matrix
from nodes.privacy.clipping import Grid, l2_grid
from nodes.privacy.mechanism import Band, Secret
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.privacy.sampled import GridMechanism
from nodes.values import IntArray

FINER = 24
"""Draws are in steps of 2^-24 of the gradients' grid. For features their steps are as small as K/2^44."""

_BITS = 20
_FINEST = 44
_MOST_STEPS = 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class GaussianBisr(GridMechanism):
    """Correlated Gaussian noise on the sums of the slots' gradients, each clipped in L2 to `theta`.

    `epsilon` and `delta`, in (0, 1), hold for the whole stream, for a record that is in one release, or for a
    unit with records in `releases` of them, `apart` rounds from each other or more. `bands`: w, the number
    of steps that use a draw. `privatise` begins a new band if there is no secret, or one of other settings.
    """

    name: ClassVar[str] = "gaussian-bisr"
    norm: ClassVar[Literal["l1", "l2"]] = "l2"
    bands: int = 16
    releases: int = field(default=1, kw_only=True)
    apart: int = field(default=1, kw_only=True)
    matrix: BandMatrix = field(init=False)

    @property
    def finer(self) -> int:
        """The bits by which a draw's step is finer than the grid's step: `FINER`, or fewer for features."""
        return FINER if self.features is None else max(1, _FINEST - self.grid.radius.bit_length())

    @property
    def basis(self) -> str:
        """The settings that all draws of one band share."""
        return f"{self.bands} bands, scale {self.scale!r}, grid {self.grid.step!r}, d {self.dimension}"

    @property
    def sensitivity(self) -> int:
        """The L2 distance by which one record or unit moves all draws, in steps: s D + gain sqrt(d T)."""
        distance = self.matrix.unit_norm(self.releases, self.apart) * (self.distance << self.finer)
        return math.ceil(distance + self.matrix.gain * math.sqrt(self.dimension * _MOST_STEPS))

    @property
    def mu(self) -> float:
        """The sensitivity over the draws' scale, rounded up."""
        return math.nextafter(self.sensitivity / self.scale, math.inf)

    @property
    def band(self) -> Band:
        """The matrix and the step of the grid that a release is rounded to."""
        return Band(self.matrix, self.grid.step / self.batch_size, self.finer)

    def composition(self, budget: DeltaBudget | None) -> Composition:
        """Return how releases compose if all h records of every slot may change."""
        delta = self.delta if budget is None else budget.delta
        distance = self.distance * self.batch_size << self.finer
        return BandComposition(self.matrix, distance, self.scale, self.dimension, delta)

    def noise_scale(self, round: int) -> float:  # noqa: ARG002 # the same in every round
        """Return the standard deviation of a coordinate's noise on the mean gradient, with a full band."""
        return math.ldexp(self.scale, -self.finer) * self.matrix.row_norm * self.grid.step / self.batch_size

    def _clip_grid(self) -> Grid:
        in_range(self.epsilon)
        delta_in_range(self.delta)
        object.__setattr__(self, "matrix", band_matrix(self.bands))
        return l2_grid(self.theta, self.dimension, _BITS)

    def _noise(self) -> float:
        fits_memory("bands", self.bands, self.dimension)
        room = room_for_noise(self.grid.radius << self.finer, self.batch_size)
        steps = self.dimension * _MOST_STEPS
        return analytic_scale(self.epsilon, self.delta, self.sensitivity, steps, room / TAIL)

    def _noised(self, round: int, total: IntArray, secret: Secret | None) -> tuple[IntArray, Secret | None]:
        points = total << self.finer
        noisy = self.sampler.gaussian(round, points, self.scale)
        draw = noisy - points
        band = self._checked_band(secret, draw)
        next_band = np.concatenate([draw[None], band])[: self.bands - 1]
        next_band.setflags(write=False)
        after = Secret(self.basis, Private(next_band)) if self.bands > 1 else None
        return self._rounded(noisy, band), after

    def _rounded(self, noisy: IntArray, band: IntArray) -> IntArray:
        """Return y/2^finer, rounded: integers of the gradients' grid."""
        rounded: IntArray = (noisy + self.matrix.mixed(band) + (1 << (self.finer - 1))) >> self.finer
        return rounded

    def _checked_band(self, secret: Secret | None, draw: IntArray) -> IntArray:
        if secret is None or secret.basis != self.basis:
            return np.empty((0, *draw.shape), dtype=np.int64)
        band = opened(secret.draws)
        if band.shape[1:] != draw.shape or len(band) >= self.bands or band.dtype != np.int64:
            raise ValueError(
                f"the secret state must be {self.bands - 1} draws or fewer, (..., {self.dimension})"
            )
        return band
