"""The mirror step argmin over x in Omega of D(x, z) + <s, x>, for the combinations that are offered.

The step is the Bregman projection onto Omega of the free step y, grad phi(y) = grad phi(z) - s. It has a
closed form, or takes a finite search, or one equation solved to the last bits (Zhou, Li 2025, Algorithm 1;
Beck, Teboulle 2003, eq. 3.11 for the entropy).

| mirror map | constraints offered |
|---|---|
| Euclidean | all |
| Mahalanobis, Q diagonal or full | L1, L2, Linf balls, box |
| entropy | simplex |
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from nodes.geometry.active_set import project_full_l1
from nodes.geometry.constraints import Box, Constraint, L1Ball, L2Ball, LinfBall, Simplex
from nodes.geometry.full_q import (
    Eigenbasis,
    project_diagonal_l1,
    project_diagonal_l2,
    project_full_box,
    project_full_l2,
)
from nodes.geometry.mirror_maps import Entropy, Euclidean, Mahalanobis, MirrorMap
from nodes.values import FloatArray

ENTROPY_FLOOR = 1e-12
"""Each coordinate is at least ENTROPY_FLOOR/d before renormalising: one at 0 could never grow again."""


class NotOffered(ValueError):
    """The mirror map and constraint have no exact step; the text names the combinations that do."""


@dataclass(frozen=True, slots=True, eq=False)
class MirrorStep:
    """A mirror step of one map on one set. Arrays as in `nodes.geometry.constraints`: (d,) or (..., d).

    `free` maps (z, s) to y, the step without the constraint. `onto` is the Bregman projection of y onto
    Omega. `start` is the point of Omega where phi is least, shape (d,), read-only.
    """

    mirror_map: MirrorMap
    constraint: Constraint
    free: Callable[[FloatArray, FloatArray], FloatArray]
    onto: Callable[[FloatArray], FloatArray]
    start: FloatArray

    def __call__(self, z: FloatArray, scaled_gradient: FloatArray) -> FloatArray:
        """Return argmin over x in Omega of D(x, z) + <scaled_gradient, x>, shape (..., d)."""
        return self.onto(self.free(z, scaled_gradient))

    def project(self, z: FloatArray) -> FloatArray:
        """Return the step with zero gradient, the Bregman projection of z onto Omega, shape (..., d)."""
        return self.onto(z)


def mirror_step(mirror_map: MirrorMap, constraint: Constraint) -> MirrorStep:
    """Return the step of that map on that set.

    Raises NotOffered, a ValueError, if there is none, and ValueError if the dimensions differ.
    """
    onto: Callable[[FloatArray], FloatArray]
    free: Callable[[FloatArray, FloatArray], FloatArray]
    match mirror_map, constraint:
        case Euclidean(), _:
            free, onto = np.subtract, constraint.project
        case Mahalanobis(), _:
            free, onto = _mahalanobis(mirror_map, constraint)
        case Entropy(), Simplex():
            onto = partial(_floored_simplex, constraint)
            free = partial(_multiplicative, onto)
        case _:
            raise _not_offered(mirror_map, constraint)
    # phi is least at 0 without the constraint; the entropy at equal coordinates, to which 0 is projected.
    start = onto(np.zeros(constraint.dimension))
    start.flags.writeable = False
    return MirrorStep(mirror_map, constraint, free, onto, start)


def _mahalanobis(
    mirror_map: Mahalanobis, constraint: Constraint
) -> tuple[Callable[[FloatArray, FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]:
    q = mirror_map.q
    match mirror_map.diagonal, constraint:
        case True, LinfBall() | Box():  # separable: each coordinate on its own
            onto = constraint.project
        case True, L1Ball():
            onto = partial(project_diagonal_l1, q, constraint.radius)
        case True, L2Ball():
            onto = partial(project_diagonal_l2, q, constraint.radius)
        case False, L1Ball():
            onto = partial(project_full_l1, q, constraint.radius)
        case False, L2Ball():
            onto = partial(project_full_l2, Eigenbasis.of(q), constraint.radius)
        case False, Box():
            onto = partial(project_full_box, q, constraint.lower, constraint.upper)
        case False, LinfBall():
            corner = np.full(constraint.dimension, constraint.radius)
            onto = partial(project_full_box, q, -corner, corner)
        case _:
            raise _not_offered(mirror_map, constraint)
    if mirror_map.dimension != constraint.dimension:
        raise ValueError(
            f"q has dimension {mirror_map.dimension}, the {constraint.name} {constraint.dimension}: "
            "must be the same"
        )
    inverse: FloatArray = 1.0 / q if mirror_map.diagonal else np.linalg.inv(q).astype(np.float64)
    return partial(_preconditioned, inverse), onto


def _preconditioned(inverse: FloatArray, z: FloatArray, s: FloatArray) -> FloatArray:
    """Return z - Q^-1 s, without BLAS."""
    offset: FloatArray = inverse * s if inverse.ndim == 1 else (inverse * s[..., None, :]).sum(-1)
    return z - offset


def _multiplicative(onto: Callable[[FloatArray], FloatArray], z: FloatArray, s: FloatArray) -> FloatArray:
    """Return z exp(-s), scaled to sum 1 (which is its Bregman projection), in logarithms."""
    logarithms = np.log(onto(z)) - s
    powers = np.exp(logarithms - np.maximum.reduce(logarithms, -1, keepdims=True))
    normalised: FloatArray = powers / np.add.reduce(powers, -1, keepdims=True)
    return normalised


def _floored_simplex(simplex: Simplex, y: FloatArray) -> FloatArray:
    """Return y, projected onto the simplex in L2 if it is outside, with the public floor, renormalised."""
    floored = np.maximum(simplex.project(y), ENTROPY_FLOOR / simplex.dimension)
    total: FloatArray = floored / np.add.reduce(floored, -1, keepdims=True)
    return total


def _not_offered(mirror_map: MirrorMap, constraint: Constraint) -> NotOffered:
    return NotOffered(
        f"{mirror_map.name} on the {constraint.name} is not offered; offered are: euclidean on l1-ball, "
        "l2-ball, linf-ball, box, simplex; entropy on simplex; mahalanobis, with a diagonal or a full q, on "
        "l1-ball, l2-ball, linf-ball, box"
    )
