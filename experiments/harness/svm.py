"""A linear SVM's loss, and what a run of many nodes has lost, reached and got right so far."""

from dataclasses import dataclass

import numpy as np

from experiments.harness.made_up import Rows
from nodes.losses.losses import Hinge
from nodes.sparse import dense
from nodes.values import FloatArray, Observations
from streams.local.ranking import auc


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


class Tally:
    """Sums over the rounds so far; each round's records are the next `size` of the rows."""

    def __init__(self, loss: RegularisedHinge, rows: Rows, held_out: Rows, size: int, *, whole: bool) -> None:
        self._loss, self._held_out, self._size = loss, held_out, size
        self._all = seen(rows, 0, len(rows.labels)) if whole else None
        self._rows = rows
        self._rounds, self._total = 0, 0.0
        self._summed: FloatArray = np.zeros(1)

    def add(self, decisions: FloatArray) -> None:
        """Count a round: decisions (N, d)."""
        these = seen(self._rows, self._rounds * self._size, self._size)
        self._rounds += 1
        self._total += float(self._loss.value(decisions[0], these).mean())
        self._summed = self._summed + decisions

    def scores(self, decisions: FloatArray) -> dict[str, float]:
        """Return what `experiments.harness.dola.learned` gives, of now."""
        average = self._summed / self._rounds
        gaps = decisions - decisions.mean(0)
        scores = {
            "loss": self._total / self._rounds,
            "apart": float((gaps * gaps).sum()),
        }
        if self._all is not None:
            scores["last"] = float(self._loss.value(decisions[0], self._all).mean())
            scores["average"] = float(self._loss.value(average[0], self._all).mean())
        if len(self._held_out.labels):
            scores |= _classified(decisions, self._held_out, "")
            scores |= _classified(average, self._held_out, "_average")
        return scores


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
