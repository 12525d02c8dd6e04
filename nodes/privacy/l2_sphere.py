"""Directions: vectors on the unit sphere, from normal draws."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from nodes.checks import at_least_one, positive
from nodes.privacy.clipping import Grid, clip
from nodes.privacy.mechanism import Privatised, Sampler, Update
from nodes.privacy.private import Private
from nodes.privacy.ranges import fits_memory, in_range
from nodes.privacy.reveal import opened
from nodes.privacy.slot_sum import dense
from nodes.sparse import Rows
from nodes.values import FloatArray, Release


def directions(normals: FloatArray) -> FloatArray:
    """Return `normals` (..., d), not kept, each scaled to norm 1; a zero vector becomes the first axis."""
    sizes = np.sqrt(np.add.reduce(normals * normals, -1, keepdims=True))
    normals[..., :1] += sizes == 0.0
    unit: FloatArray = normals / np.where(sizes == 0.0, 1.0, sizes)
    return unit


_UNIT = 1 << 30


def sphere_radius(epsilon: Fraction, dimension: int) -> float:
    """Return B, the length of what a gradient of norm at most 1 becomes."""
    gammas = math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2)
    return math.sqrt(math.pi) * math.exp(gammas) / math.tanh(float(epsilon) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class L2Sphere:
    """Random directions in place of a slot's gradients, each clipped in L2 to `theta`.

    Attributes
    ----------
    theta : float
        The L2 bound that the clip enforces.
    epsilon : Fraction
        Of one draw and of one release.
    batch_size : int
        h: how many draws a slot makes, and what their sum is divided by; fixed and public.
    dimension : int
        d.
    sampler : Sampler
        Where directions and coins come from.

    Raises ValueError for settings out of range, naming which and what is allowed.
    """

    theta: float
    epsilon: Fraction
    batch_size: int
    dimension: int
    sampler: Sampler
    name: str = field(default="l2-sphere", init=False)
    delta: float = field(default=0.0, init=False)
    release_slack: float = field(default=0.0, init=False)
    length: float = field(init=False)

    def __post_init__(self) -> None:
        positive("theta", self.theta)
        at_least_one("batch_size", self.batch_size)
        Grid.of(self.theta, self.dimension)  # for its ranges
        in_range(self.epsilon)
        fits_memory("batch_size", self.batch_size, self.dimension)
        object.__setattr__(self, "length", self.theta * sphere_radius(self.epsilon, self.dimension))

    @property
    def simulated(self) -> bool:
        """Whether the coins are seeded, and so protect nothing."""
        return self.sampler.simulated

    @property
    def laplace_is_better_above(self) -> float:
        """The batch size above which `laplace` has less noise at the same epsilon and L2 bound."""
        return 8 * (self.dimension * self.theta / (float(self.epsilon) * self.length)) ** 2

    def noise_scale(self, round: int) -> float:  # noqa: ARG002 # the same in every round
        """Return the root mean square of one coordinate of what zero gradients become."""
        return self.length / math.sqrt(self.dimension * self.batch_size)

    def privatise(
        self,
        round: int,
        gradients: Private[Rows],
        update: Update,
    ) -> Privatised:
        """Return update(mean of h directions), gradients (..., n, d), n <= h; sparse ones made dense."""
        rows = dense(opened(gradients), self.batch_size, self.dimension)
        held, clipped, broken = clip(rows, self.theta, "l2")
        places = np.zeros((*rows.shape[:-2], self.batch_size, self.dimension))
        places[..., : rows.shape[-2], :] = held
        directions, fractions = self.sampler.sphere(round, places.shape)
        sizes = np.sqrt(np.add.reduce(places * places, -1))
        same = fractions < 0.5 + sizes / (2 * self.theta)  # +u, not -u
        bits = (np.add.reduce(directions * places, -1) >= 0.0) == same
        signs = np.where(self.sampler.randomised(round, bits, self.epsilon), 1, -1)
        points = np.rint(directions * _UNIT).astype(np.int64)
        total = np.add.reduce(points * signs[..., None], -2)
        estimate = total * (self.length / _UNIT / self.batch_size)
        return Privatised(Release(update(estimate)), Private(clipped), Private(broken))
