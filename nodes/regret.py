"""First-order regret: sum <g_t, x_t - x> against the best fixed x of the constraint, or against a path.

Points are in the coordinates that the loss sees: all of them, without dynamics.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from nodes.geometry.constraints import Constraint
from nodes.losses.evaluation import mean_gradient
from nodes.losses.losses import Loss
from nodes.privacy.private import Private
from nodes.sparse import dense
from nodes.values import Decision, FloatArray, Observations

_LARGEST = 1e100
_CHUNK = 1 << 20  # gradient entries held at a time
_UNKNOWN = Private[FloatArray | None](None)


class LocalRegret:
    """R_T = sum <g_t, x_t> + support(-sum g_t) of one node, exact, in O(d) memory; private, never stored.

    Counts from the creation of this object. A g_t that is not finite, or above 1e100 in L1, counts as 0.
    `dynamic` is the regret against a moving path, where records hold its points.
    """

    __slots__ = ("_constraint", "_dynamic", "_observed", "_sums")

    def __init__(
        self, constraint: Constraint, observed: Callable[[FloatArray], FloatArray] | None = None
    ) -> None:
        """`constraint`: the set of points that the loss sees; `observed`: that part of a decision."""
        self._constraint, self._observed = constraint, observed
        self._sums = Private((0.0, np.zeros(constraint.dimension)))
        self._dynamic = Private(0.0)

    @np.errstate(all="ignore")  # data may overflow, and a warning would show it
    def add(
        self,
        gradient_mean: Private[FloatArray],
        decision: Decision,
        truth: Private[FloatArray | None] = _UNKNOWN,
    ) -> None:
        """Add a round: g_t (m,), the slot's mean gradient before clipping, and the decision x_t (d,).

        `truth`: x*_t (m,), the point that would have been right in this round, if it is known.
        """
        observed: FloatArray = decision if self._observed is None else self._observed(decision)

        def added(sums: tuple[float, FloatArray], gradient: FloatArray) -> tuple[float, FloatArray]:
            if not _counts(gradient):
                return sums
            return sums[0] + float(np.add.reduce(gradient * observed)), sums[1] + gradient

        def paid(gradient: FloatArray, right: FloatArray | None) -> float:
            if right is None or not _counts(gradient):
                return 0.0
            regret = float(np.add.reduce(gradient * (observed - right)))
            return regret if abs(regret) <= _LARGEST else 0.0

        self._sums = self._sums.with_(gradient_mean, added)
        self._dynamic = self._dynamic.with_(gradient_mean.with_(truth, paid), lambda sum_, one: sum_ + one)

    def value(self) -> Private[float]:
        """Return R_T so far; 0 before the first round."""
        support = self._constraint.support
        return self._sums.map(lambda sums: float(sums[0] + support(-sums[1])))

    def dynamic(self) -> Private[float]:
        """Return sum <g_t, x_t - x*_t> over the rounds whose x*_t is known: against the path of minimisers.

        x*_t in place of a fixed x is the comparator of Hall, Willett 2013.
        """
        return self._dynamic


def _counts(gradient: FloatArray) -> bool:
    return bool(np.add.reduce(np.abs(gradient)) <= _LARGEST)


class NetworkSums(NamedTuple):
    """The sums that network regret is computed from, for every round and node.

    `paid`: sum_{s<=t} <grad f_s(x_s^i), x_s^i>, shape (T, N). `gradients`: sum_{s<=t} grad f_s(x_s^i), shape
    (T, N, d).
    """

    paid: FloatArray
    gradients: FloatArray


def network_sums(loss: Loss, decisions: FloatArray, observations: Observations) -> NetworkSums:
    """Return the sums over f_s = sum_j f_s^j, of `decisions` (T, N, d) and `observations` over (T, N, h).

    Needs all data in one place. f^j is the mean over the h records of node j's slot; a gradient that is not
    finite counts as 0.
    """
    rounds, _, dimension = decisions.shape
    features = dense(observations.features)
    nodes, batch_size = observations.labels.shape[1:]
    summed = np.empty(decisions.shape)
    chunk = max(1, _CHUNK // (nodes * decisions.shape[1] * batch_size * dimension))
    for first in range(0, rounds, chunk):
        part = slice(first, min(first + chunk, rounds))
        points = decisions[part]
        pooled = Observations(
            features[part].reshape(len(points), 1, nodes * batch_size, -1),
            observations.labels[part].reshape(len(points), 1, nodes * batch_size),
            observations.present[part].reshape(len(points), 1, nodes * batch_size),
        )
        summed[part] = mean_gradient(loss.gradients(points, pooled), batch_size)
    paid: FloatArray = np.add.accumulate((summed * decisions).sum(-1), 0)
    return NetworkSums(paid, np.add.accumulate(summed, 0, out=summed))


def sums_of_kinds(losses: Sequence[Loss], decisions: FloatArray, observations: Observations) -> NetworkSums:
    """Return the sums where node j's loss is `losses[j]`, in the order of the observations."""
    nodes: dict[int, list[int]] = {}
    for node, loss in enumerate(losses):
        nodes.setdefault(id(loss), []).append(node)
    if len(nodes) == 1:
        return network_sums(losses[0], decisions, observations)
    features, parts = dense(observations.features), []
    for alike in nodes.values():
        observations_alike = Observations(
            features[:, alike], observations.labels[:, alike], observations.present[:, alike]
        )
        parts.append(network_sums(losses[alike[0]], decisions, observations_alike))
    paid, gradients = (np.add.reduce(sums, 0) for sums in zip(*parts, strict=True))
    return NetworkSums(paid, gradients)


def network_regret(
    losses: Loss | Sequence[Loss], constraint: Constraint, decisions: FloatArray, observations: Observations
) -> FloatArray:
    """Return R_t^i = max over x of sum_{s<=t} <grad f_s(x_s^i), x_s^i - x>, shape (T, N).

    This is the regret of one run (Zhou, Li 2025, Remark 1, equation 3). Their Definition 1 is a mean over
    runs. `losses`: that of all nodes, or one for each.
    """
    kinds = losses if isinstance(losses, Sequence) else [losses] * observations.labels.shape[1]
    sums = sums_of_kinds(kinds, decisions, observations)
    regret: FloatArray = sums.paid + constraint.support(-sums.gradients)
    return regret
