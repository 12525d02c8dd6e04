"""One release a node of class sums or moments, of any rows: what the rule's thresholds are chosen on.

Rows are scaled to L2 norm 1. The decision is that of the mean of the nodes' releases, what mixing tends to,
with simulated noise of the exact noise's size.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from experiments.harness.made_up import Rows
from nodes.discriminant import Discriminant, NearestMean, RidgeDiscriminant
from nodes.losses.losses import scores
from nodes.privacy.exact import SimulatedSampler
from nodes.privacy.features import HEIGHT, ClassSums, Moments
from nodes.privacy.gaussian import GaussianGradient
from nodes.privacy.laplace import LaplaceGradient
from nodes.privacy.private import Private
from nodes.values import FloatArray
from streams.local.scoring import auc
from topology.keyed import generator


class Form(NamedTuple):
    """An algorithm: class-sums (kappa None) or moments; its epsilon, and delta (None: pure)."""

    epsilon: float
    delta: float | None
    kappa: float | None = None
    entries: int | None = None


class Sets(NamedTuple):
    """The rows that nodes learn from, and those that they have not seen, without an intercept."""

    train: Rows
    test: Rows


def unit(features: FloatArray) -> FloatArray:
    """Return rows (n, d) of norm 1; a row of zeros stays."""
    sizes = np.linalg.norm(features, axis=1, keepdims=True)
    rows: FloatArray = features / np.where(sizes > 0.0, sizes, 1.0)
    return rows


def area(form: Form, sets: Sets, nodes: int, records: int, seed: int) -> float:
    """Return the AUC of one run on the rows not seen; the rows drawn and the noise come from the seed.

    Rows are drawn without replacement where there are enough.
    """
    features, labels = sets.train
    draws = generator("rows", seed)
    count = nodes * records
    order = draws.permutation(len(labels))[:count]
    if len(labels) < count:
        order = draws.integers(len(labels), size=count)
    places = order.reshape(nodes, records)
    rows = np.concatenate([unit(features)[places], (labels[places] > 0)[..., None]], -1)
    decide, mechanism = _parts(form, features.shape[1], records, seed, nodes)
    release = mechanism.privatise(1, Private(rows), lambda estimate: estimate).release.mean(0)
    decision = decide(release, np.array(mechanism.noise_scale(1) / math.sqrt(nodes)))
    seen, known = sets.test
    margins = scores(decision, np.concatenate([unit(seen), np.full((len(known), 1), HEIGHT)], 1))
    ranked = auc(margins, known)
    if ranked is None:
        raise ValueError("the rows not seen have one label alone")
    return ranked


def _parts(
    form: Form, columns: int, records: int, seed: int, nodes: int
) -> tuple[Discriminant, LaplaceGradient | GaussianGradient]:
    sampler = SimulatedSampler(seed, tuple(f"node-{k + 1}" for k in range(nodes)))
    common = 1.0, Fraction(form.epsilon)
    decide: Discriminant = NearestMean(columns, 2, intercept=True)
    if form.delta is None:
        sums = ClassSums(columns, 2, "l1", entries=form.entries or columns)
        return decide, LaplaceGradient(*common, records, sums.length, sampler, features=sums)
    if form.kappa is None:
        sums = ClassSums(columns, 2, "l2")
        return decide, GaussianGradient(*common, form.delta, records, sums.length, sampler, features=sums)
    moments = Moments(columns, form.kappa)
    decide = RidgeDiscriminant(columns, form.kappa, intercept=True)
    return decide, GaussianGradient(*common, form.delta, records, moments.length, sampler, features=moments)
