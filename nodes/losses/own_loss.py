"""Isolates a user's own loss: whatever the loss does, a record affects only its own gradient."""

from collections import Counter

import numpy as np

from nodes.contained import Contained, Containing
from nodes.losses.losses import Loss
from nodes.sparse import dense
from nodes.values import FloatArray, Observations

ANOTHER_SHAPE = "an answer of another shape"
"""Counted for an answer that is not an array of numbers of the right shape."""
OTHERS, MOST = "others", 16
"""A loss may raise as many types as there are records: after so many kinds all others count as one."""


class OwnLoss:
    """Calls a user's loss on one record at a time, with copies of its arguments.

    So the clip's proof holds whatever the loss does with its arguments: no gradient is made of two records,
    and nothing private gets into the public decision. A call that raises, or returns another shape, gives
    NaN, which the mechanism counts as broken. `failures` counts such calls by the exception's type, or
    `ANOTHER_SHAPE`, never by a message, which may hold data. Even so each is a bit of a record: the counts
    are for the owner alone. The isolation fails for a loss that keeps records between its calls. `contained`
    catches whatever a call raises; a shell passes its own, which lets through an exception that a signal
    handler raised meanwhile.
    """

    __slots__ = ("_contained", "_loss", "failures")

    def __init__(self, loss: Loss, contained: Containing = Contained) -> None:
        self._loss, self._contained = loss, contained
        self.failures = Counter[str]()

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the loss at the decision, shape (..., n); NaN where it has none."""
        return self._by_record("value", decision, observations, ())

    def gradients(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the gradients at the decision, shape (..., n, d); NaN where there is none."""
        return self._by_record("gradients", decision, observations, decision.shape[-1:])

    def predict(self, decision: FloatArray, features: FloatArray) -> FloatArray | None:
        """Return the answer of the loss's own `predict`, shape (..., n); None if it has none.

        `predict` is called for all records at once, as that is fast. If that fails, it is called for each
        record alone, and the answer is NaN for records on which it fails, so no record costs another one its
        prediction.
        """
        shape = features.shape[:-1]
        answer = self._answer("predict", (decision.copy(), features.copy()), shape)
        if answer is not None or not self._has("predict"):
            return answer
        columns = [np.zeros((*shape[:-1], 0))]
        for k in range(shape[-1]):
            record = features[..., k : k + 1, :].copy()
            guess = self._answer("predict", (decision.copy(), record), (*shape[:-1], 1))
            columns.append(np.full((*shape[:-1], 1), np.nan) if guess is None else guess)
        return np.concatenate(columns, -1)

    def _by_record(
        self,
        of: str,
        decision: FloatArray,
        observations: Observations,
        tail: tuple[int, ...],
    ) -> FloatArray:
        leading = np.broadcast_shapes(decision.shape[:-1], observations.labels.shape[:-1])
        shape, features = (*leading, 1, *tail), dense(observations.features)
        rows = [np.zeros((*leading, 0, *tail))]
        for k in range(observations.labels.shape[-1]):
            record = Observations(
                features[..., k : k + 1, :].copy(),
                observations.labels[..., k : k + 1].copy(),
                observations.present[..., k : k + 1].copy(),
            )
            answer = self._answer(of, (decision.copy(), record), shape) if record.present.any() else None
            rows.append(np.full(shape, np.nan) if answer is None else answer)
        present = observations.present.reshape(*observations.present.shape, *(1 for _ in tail))
        return np.where(present, np.concatenate(rows, len(leading)), 0.0)

    def _has(self, of: str) -> bool:
        """Return whether the loss has that method; also true if its lookup fails."""
        with self._contained(self._count):
            return getattr(self._loss, of, None) is not None
        return True

    def _answer(self, of: str, arguments: tuple[object, ...], shape: tuple[int, ...]) -> FloatArray | None:
        """Return the answer of its method `of`; None if it has none or fails. Its lookup is contained too."""
        with self._contained(self._count):
            method = getattr(self._loss, of, None)
            if method is None:
                return None
            answer = method(*arguments)
            array = answer if isinstance(answer, np.ndarray) else None
            if array is not None and array.shape == shape and np.can_cast(array.dtype, np.float64):
                return np.array(array, dtype=np.float64)
            self._count(ANOTHER_SHAPE)
        return None

    def _count(self, kind: str) -> None:
        has_entry = kind in self.failures or len(self.failures) < MOST
        self.failures[kind if has_entry else OTHERS] += 1


def failures(loss: Loss) -> dict[str, int]:
    """Return how many calls of a loss have failed, by kind; none of one that is not the user's own."""
    return dict(loss.failures) if isinstance(loss, OwnLoss) else {}
