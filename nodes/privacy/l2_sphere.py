"""`l2-sphere`: each gradient becomes a random direction, biased towards it (Duchi, Jordan, Wainwright 2018).

Let g be one gradient, ||g||_2 <= theta. u is g/||g|| with probability 1/2 + ||g||/(2 theta), else -g/||g||. V
is uniform on the unit sphere. S = sign(<V, u>), with sign(0) = +1, is kept with probability e^epsilon/(1 +
e^epsilon), else flipped. The result is theta B S V with B = coth(epsilon/2) sqrt(pi)
Gamma((d+1)/2)/Gamma(d/2). Its mean is g. The slot's h draws are summed and divided by h.

Guarantees
----------
Adjacency: event. One record of a node is replaced or, with slots by time, added or removed.

One draw is a function of V, which the sampler makes without seeing data, and of one bit that passed an exact
coin of ratio at most e^epsilon. So one draw has epsilon, delta = 0. V, u and the coin for u's sign may be
inexact, as they affect the mean alone. -x is exact in floats, so both signs of every V occur for every
gradient.

A slot makes h draws whatever it contains, and one record is in one of them. If a record is added or removed,
the other records change places. The release does not depend on these places: the draws of all places are
independent and identically distributed, and their sum, in integers, has no order. So the release has epsilon.
The whole stream has it too, as each observation enters one slot.

Required: an exact sampler, one call a round, slots that do not shift, and a public point at which the
gradients are taken.

| case | what happens |
|---|---|
| no observation, n < h | zero gradients fill the empty places, and are randomised like any other |
| a zero gradient | S is a fair coin, as with any fixed u: the draw is uniform on its sphere |
| NaN, infinity, a norm that overflows | a zero gradient, counted as broken |
| a norm whose square is below the least float | treated as a zero gradient: a bias below theta 1e-50 |
| epsilon not in (1e-8, 1e5], or h d above 2^26 | ValueError |

The mean is unbiased up to V's rounding in the sum. The rounding is 2^-31 of a coordinate, and has mean 0 as V
is symmetric. At h > 8 d^2/(epsilon B)^2 `laplace` with the same L2 bound has less noise
(`laplace_is_better_above`).
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np

from nodes.accounting.releases import Composition, DeltaBudget, pure_composition
from nodes.checks import fits_memory, in_range
from nodes.privacy.clipping import Grid, clip
from nodes.privacy.mechanism import Privatised, Secret, Update
from nodes.privacy.private import Private
from nodes.privacy.reveal import opened
from nodes.privacy.sampled import OnGradients, dense
from nodes.sparse import Rows
from nodes.values import FloatArray, Release


def directions(normals: FloatArray) -> FloatArray:
    """Return `normals` (..., d), which may change, scaled to norm 1; a zero vector becomes the first axis."""
    sizes = np.sqrt(np.add.reduce(normals * normals, -1, keepdims=True))
    normals[..., :1] += sizes == 0.0
    unit: FloatArray = normals / np.where(sizes == 0.0, 1.0, sizes)
    return unit


_UNIT = 1 << 30


def sphere_radius(epsilon: Fraction, dimension: int) -> float:
    """Return B, the norm of the result for gradients of norm at most 1."""
    gammas = math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2)
    return math.sqrt(math.pi) * math.exp(gammas) / math.tanh(float(epsilon) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class L2Sphere(OnGradients):
    """Random directions in place of a slot's gradients, each clipped in L2 to `theta`.

    `epsilon` is that of one draw, and of one release; a slot makes h draws.
    """

    name: ClassVar[str] = "l2-sphere"
    delta: float = field(default=0.0, init=False)
    length: float = field(init=False)

    def __post_init__(self) -> None:
        OnGradients.__post_init__(self)
        Grid.of(self.theta, self.dimension)  # checks its ranges
        in_range(self.epsilon)
        fits_memory("batch_size", self.batch_size, self.dimension)
        object.__setattr__(self, "length", self.theta * sphere_radius(self.epsilon, self.dimension))

    @property
    def draw_cost(self) -> int:
        """The noisy integers that one release takes: one coin per direction."""
        return self.batch_size * (4 + self.dimension // 64)

    @property
    def laplace_is_better_above(self) -> float:
        """The batch size above which `laplace` has less noise at the same epsilon and L2 bound."""
        return 8 * (self.dimension * self.theta / (float(self.epsilon) * self.length)) ** 2

    def noise_scale(self, round: int) -> float:  # noqa: ARG002 # the same in every round
        """Return the root mean square of one coordinate of the mean of h directions of zero gradients."""
        return self.length / math.sqrt(self.dimension * self.batch_size)

    def composition(self, budget: DeltaBudget | None) -> Composition:
        """Return how releases compose if all h records of a slot may change."""
        return pure_composition("pure", self.batch_size * self.epsilon, budget)

    def privatise(
        self,
        round: int,
        gradients: Private[Rows],
        update: Update,
        secret: Secret | None = None,  # noqa: ARG002
    ) -> Privatised:
        """Return update(mean of h directions), gradients (..., n, d), n <= h; sparse ones become dense."""
        rows = dense(opened(gradients), self.batch_size, self.dimension)
        bounded, clipped, broken = clip(rows, self.theta, "l2")
        places = np.zeros((*rows.shape[:-2], self.batch_size, self.dimension))
        places[..., : rows.shape[-2], :] = bounded
        directions, fractions = self.sampler.sphere(round, places.shape)
        sizes = np.sqrt(np.add.reduce(places * places, -1))
        is_plus = fractions < 0.5 + sizes / (2 * self.theta)  # +u, not -u
        bits = (np.add.reduce(directions * places, -1) >= 0.0) == is_plus
        signs = np.where(self.sampler.randomised(round, bits, self.epsilon), 1, -1)
        points = np.rint(directions * _UNIT).astype(np.int64)
        total = np.add.reduce(points * signs[..., None], -2)
        estimate = total * (self.length / _UNIT / self.batch_size)
        return Privatised(Release(update(estimate)), Private(clipped), Private(broken))
