"""A user's own loss, made safe: whatever it does, one record speaks in one gradient alone."""

from collections.abc import Callable

import numpy as np

from nodes.contained import Contained, Containing
from nodes.losses.losses import Loss
from nodes.sparse import dense
from nodes.values import FloatArray, Observations

ANOTHER_SHAPE = "an answer of another shape"
"""What is told of an answer that is no array of numbers of the right shape."""


class OwnLoss:
    """Asks a user's loss for one record at a time, with copies of its arguments.

    So the clip's proof holds whatever the loss does with its arguments: no gradient is made of two records,
    and nothing private gets into the public decision. What raises, or is of another shape, is NaN, so that
    the mechanism counts it as broken. `tell` gets the exception's type, or `ANOTHER_SHAPE`, never a message:
    that may hold data. A loss that keeps records between its calls is beyond any such help. Each call is
    `contained`, whatever it raises: a shell's own lets out what a signal's handler has raised meanwhile.
    """

    __slots__ = ("_contained", "_loss", "_tell")

    def __init__(self, loss: Loss, tell: Callable[[str], None], contained: Containing = Contained) -> None:
        self._loss, self._tell, self._contained = loss, tell, contained

    def value(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the loss at the decision, shape (..., n); NaN where it has none."""
        return self._by_record("value", decision, observations, ())

    def gradients(self, decision: FloatArray, observations: Observations) -> FloatArray:
        """Return the gradients at the decision, shape (..., n, d); NaN where there is none."""
        return self._by_record("gradients", decision, observations, decision.shape[-1:])

    def predict(self, decision: FloatArray, features: FloatArray) -> FloatArray | None:
        """Return what the loss's own `predict` says, shape (n,); None where it has none, or fails."""
        return self._answer("predict", (decision.copy(), features.copy()), features.shape[:-1])

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
            one = Observations(
                features[..., k : k + 1, :].copy(),
                observations.labels[..., k : k + 1].copy(),
                observations.present[..., k : k + 1].copy(),
            )
            answer = self._answer(of, (decision.copy(), one), shape) if one.present.any() else None
            rows.append(np.full(shape, np.nan) if answer is None else answer)
        present = observations.present.reshape(*observations.present.shape, *(1 for _ in tail))
        return np.where(present, np.concatenate(rows, len(leading)), 0.0)

    def _answer(self, of: str, arguments: tuple[object, ...], shape: tuple[int, ...]) -> FloatArray | None:
        """Return what its method `of` says; None where it has none, or fails; asking is a call, too."""
        with self._contained(self._tell):
            method = getattr(self._loss, of, None)
            if method is None:
                return None
            answer = method(*arguments)
            array = answer if isinstance(answer, np.ndarray) else None
            if array is not None and array.shape == shape and np.can_cast(array.dtype, np.float64):
                return np.array(array, dtype=np.float64)
            self._tell(ANOTHER_SHAPE)
        return None
