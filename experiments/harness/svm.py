"""A linear SVM's loss, and what a run of many nodes has lost, reached and got right so far."""

from dataclasses import dataclass

import numpy as np

from experiments.harness.made_up import Rows
from nodes.losses.losses import Hinge
from nodes.sparse import dense
from nodes.values import FloatArray, Observations
from streams.local.scoring import auc


@dataclass(frozen=True, slots=True)
class RegularisedHinge:
    """max(0, 1 - y <w, x>) + weight/2 ||w||^2 (shapes: `nodes.losses.losses`); all records are present."""

    weight: float

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the loss, shape (..., n)."""
        norms: FloatArray = (decision * decision).sum(-1)[..., None]
        return Hinge().value(decision, observations) + 0.5 * self.weight * norms

    def gradients(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the gradients, shape (..., n, d)."""
        return dense(Hinge().gradients(decision, observations)) + self.weight * decision[..., None, :]


class MeanHinge:
    """F over the first `count` rows, and its gradient: two products with a matrix."""

    def __init__(self, weight: float, rows: Rows, count: int) -> None:
        self._weight = weight
        self._signed: FloatArray = rows.features[:count] * rows.labels[:count, None]

    def value(self, x: FloatArray) -> float:
        """Return F(x)."""
        hinge = np.maximum(0.0, 1.0 - self._signed @ x)
        return float(hinge.mean() + 0.5 * self._weight * (x * x).sum())

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return F's gradient at x, shape (d,)."""
        missed = (self._signed @ x < 1.0).astype(np.float64)
        slope: FloatArray = self._weight * x - missed @ self._signed / len(missed)
        return slope


class Tally:
    """Sums over the rounds so far, of runs side by side; each round's records are the next `size` rows."""

    def __init__(
        self, loss: RegularisedHinge, rows: Rows, held_out: Rows, size: int, runs: int, *, whole: bool
    ) -> None:
        self._loss, self._held_out, self._size, self._runs = loss, held_out, size, runs
        self._all = seen(rows, 0, len(rows.labels)) if whole else None
        self._rows = rows
        self._rounds = 0
        self._total: FloatArray = np.zeros(runs)
        self._hinge: FloatArray = np.zeros(runs)
        self._summed: FloatArray = np.zeros(1)

    def add(self, decisions: FloatArray) -> None:
        """Count a round: decisions (R N, d)."""
        part = slice(self._rounds * self._size, (self._rounds + 1) * self._size)
        self._rounds += 1
        first = self._by_run(decisions)[:, 0]
        margins = (first @ self._rows.features[part].T) * self._rows.labels[part]
        hinge = np.maximum(0.0, 1.0 - margins).mean(-1)
        self._hinge += hinge
        self._total += hinge + 0.5 * self._loss.weight * (first * first).sum(-1)
        self._summed = self._summed + decisions

    def scores(self, decisions: FloatArray) -> dict[str, FloatArray]:
        """Return what `experiments.harness.dola.together` gives, of now: shapes (R,)."""
        last, average = self._by_run(decisions), self._by_run(self._summed / self._rounds)
        gaps = last - last.mean(1, keepdims=True)
        scores: dict[str, FloatArray] = {
            "loss": self._total / self._rounds,
            "hinge": self._hinge / self._rounds,
            "apart": (gaps * gaps).sum((1, 2)),
        }
        if self._all is not None:
            for name, points in (("last", last), ("average", average)):
                scores[name] = np.array([self._loss.value(one, self._all).mean() for one in points[:, 0]])
        if len(self._held_out.labels):
            network = average.mean(1, keepdims=True)
            for suffix, points in (("", last), ("_average", average), ("_network", network)):
                found = [_classified(one, self._held_out, suffix) for one in points]
                scores |= {name: np.array([one[name] for one in found]) for name in found[0]}
        return scores

    def _by_run(self, decisions: FloatArray) -> FloatArray:
        return decisions.reshape(self._runs, -1, decisions.shape[-1])


def seen(rows: Rows, first: int, count: int) -> Observations:
    """Return so many rows, from the first on, as observations."""
    part = slice(first, first + count)
    return Observations(rows.features[part], rows.labels[part], np.ones(count, np.bool_))


def _classified(decisions: FloatArray, rows: Rows, suffix: str) -> dict[str, float]:
    """Return accuracy and AUC, means over the decisions (N, d)."""
    margins = decisions @ rows.features.T
    accuracy = (np.where(margins > 0.0, 1.0, -1.0) == rows.labels).mean()
    ranked = np.array([auc(one, rows.labels) for one in margins], np.float64).mean()
    return {f"accuracy{suffix}": float(accuracy), f"auc{suffix}": float(ranked)}
