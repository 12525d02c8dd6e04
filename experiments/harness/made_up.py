"""Rows that are made up: in the shape of a set, or as in the papers' simulations."""

from typing import NamedTuple

import numpy as np

from experiments.harness.features import scaled
from nodes.values import FloatArray
from topology.keyed import generator


class Rows(NamedTuple):
    """`features` (n, p), each row of L2 norm at most 1, and `labels` (n,) of +1 and -1."""

    features: FloatArray
    labels: FloatArray


def made_up(count: int, columns: int, share: float, seed: int = 0) -> Rows:
    """Return rows like those of a coded set: columns in [0, 1], norm at most 1, labels of a noisy rule."""
    random = generator("made-up", seed, columns)
    features = scaled(random.random((count, columns)) ** random.integers(1, 6, columns))
    score = (features * random.normal(size=columns)).sum(-1) + 0.05 * random.normal(size=count)
    return Rows(features, np.where(score > np.quantile(score, 1 - share), 1.0, -1.0))


def unit_ball(count: int, dimension: int, seed: int) -> Rows:
    """Return rows uniform in the unit ball, labels the side of a random plane (the simulation of L0)."""
    random = generator("unit-ball", seed)
    directions = random.normal(size=(count, dimension))
    directions /= np.sqrt((directions * directions).sum(-1, keepdims=True))
    features = directions * random.random((count, 1)) ** (1 / dimension)
    return Rows(features, np.where((features * random.normal(size=dimension)).sum(-1) > 0.0, 1.0, -1.0))
