"""Made-up decisions and records, to try a loss on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nodes.values import FloatArray, Observations


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws decisions (d,) and records of `width` features; `labels` None: normal ones, else out of these."""

    dimension: int
    width: int
    labels: Sequence[float] | None
    rng: np.random.Generator

    def decision(self, *leading: int) -> FloatArray:
        """Return normal decisions, shape (*leading, d)."""
        return self.rng.normal(size=(*leading, self.dimension))

    def records(self, *shape: int) -> Observations:
        """Return records of that shape, all present, with features of a length about 1."""
        features = self.rng.normal(size=(*shape, self.width)) / np.sqrt(self.width)
        labels = self.rng.normal(size=shape) if self.labels is None else self.rng.choice(self.labels, shape)
        return Observations(features, labels, np.ones(shape, dtype=np.bool_))
