"""Runs of a learner with three owners, as Wu et al. 2020 have them in section 4: T = 100, 100 runs.

The engine's steps, and the owners' noise from a seeded sampler of the mechanism's law. Gradients are clipped
in floats, where an owner has integers. A run is of all owners together: the weighted mean of their gradients
is that of their records together.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from experiments.harness.star_data import star
from experiments.harness.study import Measured, Study
from nodes.collaboration.forecast import Cost, Share, stages
from nodes.collaboration.steps import Averaged, QueryStep, StronglyConvex
from nodes.geometry.constraints import L2Ball
from nodes.losses.losses import Hinge, Squared
from nodes.values import FloatArray

QUERIES, RUNS, OWNERS = 100, 100, 3
RADIUS = 1e4
"""Of the ball of Algorithm 2: so large that it hardly matters, as in the paper."""
BOUND = {"loans": 50.0, "cards": 6.0}
"""Xi, in L1: no loan's gradient at theta = 0 but few is longer, and no transaction's is."""
STEP = {"loans": 5.0, "cards": 1.0}
"""c_1; and rho is T^2 times it, or the steps of Algorithm 1 would go nowhere."""
SIZES = {"loans": (1_000, 2_000, 5_000, 10_000), "cards": (250, 500, 1_000, 2_000)}
"""n_l: a tenth of the paper's, and less, as our sets are parts of the paper's."""
EPSILONS = (0.1, 1.0, 10.0)
NO_CLIP = 1e100
Case = Mapping[str, Any]


def case(
    name: str, sizes: Sequence[int], epsilons: Sequence[float], algorithm: int = 2, **more: Any
) -> dict[str, Any]:
    """Return the arguments of `measured`: owners' sizes and epsilons, one each."""
    return {"name": name, "sizes": list(sizes), "epsilons": list(epsilons), "algorithm": algorithm, **more}


def alike(name: str, size: int, epsilon: float, algorithm: int = 2, **more: Any) -> dict[str, Any]:
    """Return a case of three owners alike."""
    return case(name, [size] * OWNERS, [epsilon] * OWNERS, algorithm, **more)


def step(name: str, dimension: int, algorithm: int) -> QueryStep:
    """Return Algorithm 1 or 2 with our settings for a set."""
    regulariser = 1.0 if name == "cards" else 0.0
    if algorithm == 1:
        return StronglyConvex(dimension, QUERIES, STEP[name] * QUERIES**2, regulariser)
    return Averaged(L2Ball(dimension, RADIUS), QUERIES, STEP[name], regulariser)


@cache
def cost(name: str, records: int, *, quick: bool, public: bool = False) -> tuple[Cost, float]:
    """Return f on the first so many records of the owners' (or of the public part), and its least value."""
    held = star(name, quick=quick)
    features, labels = (part[:records] for part in (held.public if public else held.rest))
    loss, eta = (Hinge(), 1.0) if name == "cards" else (Squared(), 0.0)
    made = Cost(loss, features, labels, eta)
    return made, made.least(None)[1]


def noises(sizes: Sequence[int], epsilons: Sequence[float], bound: float, queries: int) -> FloatArray:
    """Return the deviation of each owner's part in a coordinate of the weighted mean answer (Theorem 1)."""
    deviations: FloatArray = np.sqrt(8.0) * bound * queries / (np.array(epsilons, np.float64) * sum(sizes))
    return deviations


def measured(
    seed: int,
    *,
    name: str,
    sizes: Sequence[int],
    epsilons: Sequence[float],
    algorithm: int,
    quick: bool,
    clipped: bool = True,
    runs: int = RUNS,
    whole: bool = False,
) -> Measured:
    """Return psi of the last model, shape (1, runs); `whole`: of the model after each query, (T, runs).

    Not `clipped`: as printed, where Xi is assumed: the noise is the same, and the guarantee does not hold.
    """
    sizes = [size // 10 for size in sizes] if quick else list(sizes)
    made, least = cost(name, sum(sizes), quick=quick)
    whose = f"{name}, {sizes}, {epsilons}, {algorithm}"  # other cases have other noise
    shares = {
        f"owner-{k} of {whose}": Share("laplace", float(deviation))
        for k, deviation in enumerate(noises(sizes, epsilons, BOUND[name], QUERIES), 1)
        if deviation > 0
    }
    limit = BOUND[name] if clipped else NO_CLIP
    steps = stages(made, step(name, made.dimension, algorithm), limit, shares, (runs,), seed)
    kept = list(steps) if whole else deque(steps, maxlen=1)
    return {"psi": np.stack([made.at(stage.average) for stage in kept]) / least - 1}


def psi(study: Study, cases: Mapping[str, Case]) -> dict[str, FloatArray]:
    """Return psi of each case, shape (1, runs), or (T, runs) of a whole one."""
    runs = 8 if study.quick else RUNS
    whole = {label: {**one, "quick": study.quick, "runs": runs} for label, one in cases.items()}
    return {label: found["psi"][0] for label, found in study.repeated(measured, whole, 1).items()}
