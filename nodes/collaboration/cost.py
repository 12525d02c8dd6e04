"""The cost f on records that may be looked at: its value, its clipped gradient, and where it is least."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nodes.checks import not_negative, positive
from nodes.geometry.constraints import Constraint
from nodes.losses.losses import Loss
from nodes.values import FloatArray, Observations

_PATIENCE = 40
_BLOCK = 1 << 16
_NEAR, _FLAT = 1e-8, 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Cost:
    """f(theta) = eta/2 ||theta||^2 + the mean loss of records `features` (n, d), `labels` (n,).

    `loss` is one of the score alone; eta is the `regulariser`. Raises ValueError without records.
    """

    loss: Loss
    features: FloatArray
    labels: FloatArray
    regulariser: float = 0.0

    def __post_init__(self) -> None:
        not_negative("regulariser", self.regulariser)
        if self.features.ndim != 2 or not len(self.labels) == len(self.features) > 0:
            raise ValueError(f"features are of shape {self.features.shape}: must be (n, d), n >= 1")

    @property
    def dimension(self) -> int:
        """The dimension d."""
        return int(self.features.shape[1])

    def at(self, theta: FloatArray) -> FloatArray:
        """Return f, shape (...), of theta (..., d)."""
        total = sum(
            self.loss.value(*self._by_score(theta, rows)).sum((-2, -1)) for rows in self._blocks(theta)
        )
        lengths = np.add.reduce(theta * theta, -1)
        return np.asarray(total / len(self.labels) + 0.5 * self.regulariser * lengths)

    def clipped_gradient(self, theta: FloatArray, bound: float, order: int) -> FloatArray:
        """Return the mean of the records' loss gradients, each clipped to `bound` in L1 or L2 (..., d).

        `order` is 1 or 2. The regulariser's gradient is not in it. In floats: for simulations alone.
        """
        positive("bound", bound)
        norms = np.linalg.norm(self.features, order, axis=-1)
        limits = np.divide(bound, norms, out=np.full(len(norms), np.inf), where=norms > 0)
        total = np.zeros(theta.shape)
        for rows in self._blocks(theta):
            slopes, most = self._slopes(theta, rows), limits[rows]
            total += np.minimum(np.maximum(slopes, -most), most) @ self.features[rows]
        return total / len(self.labels)

    def least(self, constraint: Constraint | None, rounds: int = 3000) -> tuple[FloatArray, float]:
        """Return (theta*, f(theta*)) over the constraint, theta* (d,), by subgradient steps.

        Step lengths are Polyak's, towards a target below the best value so far that comes nearer whenever
        it is not reached (Goffin, Kiwiel 1999).
        """
        theta = self._start(constraint)
        best, value = theta, float(self.at(theta))
        gap, since = max(value, 1e-12), 0
        for _ in range(rounds):
            slopes = self._slopes(theta, slice(None))
            gradient = slopes @ self.features / len(self.labels) + self.regulariser * theta
            square = float(gradient @ gradient)
            if square <= _FLAT**2 * float(slopes @ slopes) or gap <= _NEAR * value:
                break
            now = float(self.at(theta))
            theta = _held(theta - (now - value + gap) / square * gradient, constraint)
            since += 1
            reached = float(self.at(theta))
            if reached < value - 0.5 * gap:
                since = 0
            if reached < value:
                best, value = theta, reached
            if since >= _PATIENCE:
                gap, since, theta = 0.5 * gap, 0, best
        return best, value

    def _start(self, constraint: Constraint | None) -> FloatArray:
        """Return the least-squares fit of the labels, or 0 if that is worse: where to begin."""
        n, d = self.features.shape
        system = self.features.T @ self.features / n + self.regulariser * np.eye(d)
        fitted = np.linalg.lstsq(system, self.features.T @ self.labels / n, rcond=None)[0]
        candidates = np.stack([_held(np.zeros(d), constraint), _held(fitted, constraint)])
        start: FloatArray = candidates[int(np.argmin(self.at(candidates)))]
        return start

    def _blocks(self, theta: FloatArray) -> Iterator[slice]:
        """Yield slices of the records, so few that what is computed of them stays in a cache."""
        size = max(1, _BLOCK // max(1, theta.size // self.dimension))
        return (slice(first, first + size) for first in range(0, len(self.labels), size))

    def _slopes(self, theta: FloatArray, rows: slice) -> FloatArray:
        """Return the loss's derivative in each record's score, shape (..., n)."""
        slopes = self.loss.gradients(*self._by_score(theta, rows))
        return np.asarray(slopes)[..., 0, 0]

    def _by_score(self, theta: FloatArray, rows: slice) -> tuple[FloatArray, Observations]:
        """Return the scores (..., n, 1), as decisions on records whose one feature is 1."""
        labels = self.labels[rows, None]
        scores = theta @ self.features[rows].T
        return scores[..., None], Observations(np.ones((1, 1)), labels, np.ones(labels.shape, np.bool_))


def _held(theta: FloatArray, constraint: Constraint | None) -> FloatArray:
    return theta if constraint is None else constraint.project(theta)
