"""Runs of a collaboration on records that may be looked at, many at once, with seeded noise.

The owners' weighted mean gradient is that of all records together, so one set stands for theirs.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from nodes.collaboration.cost import Cost
from nodes.collaboration.steps import QueryStage, QueryStep
from nodes.privacy.query import MechanismName
from nodes.values import FloatArray
from topology.keyed import generator


class Share(NamedTuple):
    """What an owner's noise adds to a coordinate of the weighted mean gradient: its law and deviation.

    `deviation` (...) has the leading axes of the runs, or is one number.
    """

    law: MechanismName
    deviation: FloatArray | float


def stages(
    cost: Cost, step: QueryStep, bound: float, shares: Mapping[str, Share], shape: tuple[int, ...], seed: int
) -> Iterator[QueryStage]:
    """Yield the stage after each query, arrays (*shape, d), of independent runs.

    Each record's gradient is clipped to `bound`, in L2 if any noise is Gaussian, otherwise in L1: in floats,
    where a mechanism has integers. The noise is drawn from generators of the seed and the owner's name.
    """
    order = 2 if any(share.law == "gaussian" for share in shares.values()) else 1
    sources = {name: generator("trial", seed, name) for name in shares}
    first = step.start()
    stage = first._replace(
        parameters=np.broadcast_to(first.parameters, (*shape, step.dimension)),
        average=np.broadcast_to(first.average, (*shape, step.dimension)),
    )
    for _ in range(step.queries):
        gradient = cost.clipped_gradient(stage.parameters, bound, order)
        for name, share in shares.items():
            gradient = gradient + _drawn(sources[name], share, gradient.shape)
        stage = step.advance(stage, gradient)
        yield stage


def _drawn(random: np.random.Generator, share: Share, shape: tuple[int, ...]) -> FloatArray:
    """Return noise of that deviation in each coordinate."""
    deviation = np.asarray(share.deviation)[..., None]
    if share.law == "gaussian":
        return np.asarray(deviation * random.standard_normal(shape))
    return np.asarray(deviation / np.sqrt(2.0) * random.laplace(size=shape))
