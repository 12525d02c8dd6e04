"""Random decisions and records to try a loss on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nodes.losses.losses import Loss
from nodes.sparse import dense
from nodes.values import BoolArray, FloatArray, Observations


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws decisions (d,) and records of `width` features, with labels from `labels` (None: normal)."""

    dimension: int
    width: int
    labels: Sequence[float] | None
    rng: np.random.Generator

    def decision(self, *leading: int) -> FloatArray:
        """Return normal decisions, shape (*leading, d)."""
        return self.rng.normal(size=(*leading, self.dimension))

    def records(self, *shape: int) -> Observations:
        """Return records of that shape, all present, with features of norm about 1."""
        features = self.rng.normal(size=(*shape, self.width)) / np.sqrt(self.width)
        labels = self.rng.normal(size=shape) if self.labels is None else self.rng.choice(self.labels, shape)
        return Observations(features, labels, np.ones(shape, dtype=np.bool_))


_STEP = 2.0**-20
_COORDINATES = 32
_RECORDS = 20


def wrong_slopes(loss: Loss, draw: Draws) -> Iterator[str]:
    """Yield the first coordinate of a gradient that is not between the slopes on its two sides.

    At a kink any number between the two is right.
    """
    for scale in (0.1, 1.0, 3.0):
        x, o = scale * draw.decision(), draw.records(_RECORDS)
        at, gradients = loss.value(x, o), dense(loss.gradients(x, o))
        chosen = draw.rng.permutation(draw.dimension)[:_COORDINATES]
        left, right = np.empty((len(chosen), _RECORDS)), np.empty((len(chosen), _RECORDS))
        for k, j in enumerate(chosen.tolist()):
            move = np.zeros_like(x)
            move[j] = _STEP
            left[k] = (at - loss.value(x - move, o)) / _STEP
            right[k] = (loss.value(x + move, o) - at) / _STEP
        wrong = ~_between(left, right, gradients[:, chosen].T, np.abs(at))
        if wrong.any():
            k, i = np.argwhere(wrong)[0].tolist()
            bounds = f"slopes to the left and to the right are {left[k, i]:.6g} and {right[k, i]:.6g}"
            coordinate = f"coordinate {int(chosen[k])} is {gradients[i, chosen[k]]:.6g}"
            yield f"the gradient's {coordinate} where the value's {bounds}"
            return


def _between(left: FloatArray, right: FloatArray, middle: FloatArray, values: FloatArray) -> BoolArray:
    steepest = np.maximum(np.abs(left), np.abs(right)).max(0)
    slack = 1e-5 * steepest + 16.0 * np.finfo(np.float64).eps * (1.0 + values) / _STEP
    inside: BoolArray = (np.minimum(left, right) - slack <= middle) & (
        middle <= np.maximum(left, right) + slack
    )
    return inside
