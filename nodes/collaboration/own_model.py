"""An owner's own model: fitted to its own records without noise, and drawn to the collaboration's model.

With theta_star the model that the learner has learnt from all owners' noisy answers, an owner's own model is

    argmin over theta of (1/n) sum over its own n records of the loss + m/2 ||theta - theta_star||^2.

It is of use where the owner's records are few, so that their own model is poor, or of another kind than the
others', so that theta_star is. m is chosen by cross-validation on the owner's own records, between the owner
alone (m = 0) and theta_star (m = infinity). It is the largest m whose loss out of fold is within one standard
error of the least one (of the paired differences; Breiman et al. 1984, section 3.4.3), so that a few records
do not leave theta_star by chance.

Wu, Farokhi, Smith, Kaafar (2020, section V) propose that owners train models of their own, each as a learner
whose own part has no noise. Here the exact part comes after the last query and enters none: with theta_k,
theta_{k+1} and the answers between them, whoever reads the queries would compute the exact sum from the step.
What is made of exact sums is not private, and never sent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from nodes.alone import fits, least_squares, logistic
from nodes.losses.evaluation import curve_of
from nodes.losses.losses import Logistic, Loss, Scaled, Squared
from nodes.sparse import Rows, dense
from nodes.values import BoolArray, FloatArray, Observations

FOLDS = 10
GRID = tuple(10.0 ** (place / 2) for place in range(-14, 5))
"""The values of m between 0 and infinity, from 1e-7 to 100; curvatures of rows of norm 1 are at most 1."""


@dataclass(frozen=True, slots=True, eq=False)
class OwnModel:
    """The model `parameters` (d,), and the `pull` m that made it (infinity: theta_star itself).

    The other fields are mean losses on the owner's records. `near` is that of own models, `alone` that of
    models fitted to the own records alone and drawn to 0, and `star` that of theta_star. For `near` and
    `alone` each record is predicted by a model that had not seen it.
    """

    parameters: FloatArray
    pull: float
    near: float
    alone: float
    star: float


def serves(loss: Loss, columns: int) -> bool:
    """Return whether an own model is fitted for this loss of so many columns."""
    return isinstance(curve_of(loss), Squared | Logistic) and fits(columns)


@np.errstate(over="ignore")  # a far score has a loss of infinity, and loses
def own_model(loss: Loss, features: Rows, labels: FloatArray, star: FloatArray) -> OwnModel:
    """Fit records (n, d) with labels (n,), n at least 2, near `star` (d,).

    `loss`: one that `serves` is true of. Raises ValueError for fewer records.
    """
    if isinstance(loss, Scaled):
        labels, loss = loss.scaled(labels), loss.loss
    rows, pulls = dense(features), (*GRID, inf)
    if len(rows) < 2:
        raise ValueError(f"{len(rows)} records: must be at least 2")
    near, near_zero = (
        np.array([_out_of_fold(loss, rows, labels, centre, pull) for pull in pulls])
        for centre in (star, np.zeros_like(star))
    )
    means = near.mean(1)
    beyond_least = near - near[means.argmin()]
    errors = beyond_least.std(1, ddof=1) / np.sqrt(len(rows))
    place = int((beyond_least.mean(1) <= errors).nonzero()[0].max())
    theta = _fitted(loss, rows, labels, star, pulls[place])
    return OwnModel(
        theta, pulls[place], float(means[place]), float(near_zero.mean(1).min()), float(means[-1])
    )


def _fitted(loss: Loss, rows: FloatArray, labels: FloatArray, star: FloatArray, pull: float) -> FloatArray:
    if pull == inf:
        return star
    offsets, ridge = rows @ star, pull * len(rows)
    if isinstance(loss, Squared):
        return star + least_squares(rows, labels - offsets, ridge)
    return star + logistic(rows, labels, ridge, offsets)


def _out_of_fold(
    loss: Loss, rows: FloatArray, labels: FloatArray, star: FloatArray, pull: float
) -> FloatArray:
    """Return each record's loss, shape (n,)."""
    losses = np.empty(len(rows))
    for out in _folds(len(rows)):
        theta = _fitted(loss, rows[~out], labels[~out], star, pull)
        test_records = Observations(rows[out], labels[out], np.ones(int(out.sum()), np.bool_))
        losses[out] = loss.value(theta, test_records)
    return losses


def _folds(records: int) -> Iterator[BoolArray]:
    """Yield masks (n,) of up to ten folds; every record is in one."""
    places = np.arange(records) % min(FOLDS, records)
    for fold in range(min(FOLDS, records)):
        yield places == fold
