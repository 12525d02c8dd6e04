"""Sparse DOLA (Li et al. 2018, section 5) on sparse rows: what it gets right, and how much of it is 0."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from experiments.harness.dola import hinge_mesh, noisy_engine
from experiments.harness.texts import Texts, texts
from nodes.values import FloatArray, Observations
from streams.local.scoring import auc
from topology.schedules import closing_rounds


def learned(
    seed: int,
    *,
    data: str,
    noise: Mapping[str, Any],
    lasso: float,
    step: Mapping[str, Any],
    degree: float = 4.0,
    nodes: int = 64,
    batch: int = 1,
    quick: bool = False,
) -> dict[str, FloatArray]:
    """Return `accuracy`, `auc` on the held-out rows and `zeros`, the share of zeros: nodes' means, (1,).

    One pass of Sparse DOLA (Algorithm 3), each node's last decision. `noise` as for DOLA. The engine takes
    dense rows of many nodes: those of one round at a time are laid out.
    """
    found = texts(data, quick=quick)
    dimension = found.rows.dimension
    algorithm = {
        "name": "sparse-dola",
        "constraint": {"l2-ball": 1000},
        "step_size": dict(step),
        "lasso": lasso,
    }
    mesh = hinge_mesh(nodes, dimension, degree, batch, noise, algorithm, seed=seed)
    rounds = len(found.order) // (nodes * batch)
    engine = noisy_engine(mesh, noise, rounds, seed)
    (last,) = deque(engine.steps(_rounds(found, rounds, nodes, batch)), maxlen=1)
    decision = engine.closed(last, closing_rounds(engine.schedule, rounds))
    scores = _scores(found, decision)
    labels = found.labels[found.held_out]
    right = np.where(scores > 0.0, 1.0, -1.0) == labels
    return {
        "accuracy": np.array([right.mean()]),
        "auc": np.array([[auc(row, labels) for row in scores]], np.float64).mean(-1),
        "zeros": np.array([(decision == 0.0).mean()]),
    }


def _rounds(found: Texts, rounds: int, nodes: int, batch: int) -> Iterator[Observations]:
    """Yield a pass over the rows to learn from."""
    for chosen in found.order[: rounds * nodes * batch].reshape(rounds, nodes, batch):
        features = np.zeros((nodes, batch, found.rows.dimension))
        for place in np.ndindex(nodes, batch):
            part = slice(*found.rows.indptr[chosen[place] : chosen[place] + 2])
            features[place][found.rows.indices[part]] = found.rows.values[part]
        yield Observations(features, found.labels[chosen], np.ones((nodes, batch), np.bool_))


def _scores(found: Texts, decision: FloatArray) -> FloatArray:
    """Return each node's scores of the held-out rows, shape (N, n)."""
    rows, count = found.rows, len(found.labels)
    asked = np.zeros(count, np.bool_)
    asked[found.held_out] = True
    kept = asked[rows.rows]
    which, words, values = rows.rows[kept], rows.indices[kept], rows.values[kept]
    return np.stack([np.bincount(which, one[words] * values, count)[found.held_out] for one in decision])
