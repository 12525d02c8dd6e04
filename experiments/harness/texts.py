"""Long sparse rows: Reuters-21578, money-fx, and Sparse DOLA on them (Li et al. 2018, section 5)."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.harness.data import BROKEN, VARIABLE, Unavailable
from experiments.harness.dola import NOTHING, printed
from experiments.harness.meshes import engine, settings
from nodes.sparse import SparseRows
from nodes.values import FloatArray, Observations
from topology.keyed import generator

FILE = "reuters21578/reuters_moneyfx.npz"
TRAIN, TEST, POSITIVE = 7_770, 3_299, 717
WORDS = 8_315


class Texts(NamedTuple):
    """Rows of unit length, labels of +1 and -1, and how many of the rows are to learn from: the first."""

    rows: SparseRows
    labels: FloatArray
    train: int


def texts(*, quick: bool = False) -> Texts:
    """Return the texts; `quick`: made up. Unavailable where the file is missing or another one."""
    return _made_up(640, 256, 200) if quick else _read(os.environ.get(VARIABLE, ""))


@cache
def _read(root: str) -> Texts:
    source = "LASVM's data (Bottou): Reuters-21578, topic money-fx, for research use"
    if not root:
        raise Unavailable(f"reuters: set {VARIABLE} to a folder that holds {FILE}, from {source}")
    try:
        with (Path(root) / FILE).open("rb") as opened, np.load(opened) as file:
            rows = SparseRows(file["indptr"], file["indices"], file["data"], int(file["shape"][1]))
            labels, split = file["y"].astype(np.float64), file["split"]
    except OSError as error:
        raise Unavailable(f"reuters: cannot read {error.filename or FILE}; it is from {source}") from None
    except BROKEN:
        raise Unavailable(f"reuters: {Path(root) / FILE} is another file than {source}") from None
    found = (int((split == 0).sum()), int((split == 1).sum()), int((labels > 0).sum()))
    if found != (TRAIN, TEST, POSITIVE):
        raise Unavailable(
            f"reuters: {found} rows to learn from, held out, positive: another file than {source}"
        )
    return Texts(rows, labels, TRAIN)


@cache
def _made_up(train: int, test: int, words: int) -> Texts:
    random = generator("texts", 0)
    labels = np.where(random.random(train + test) < 0.1, 1.0, -1.0)
    rows = []
    for label in labels:
        among = words // 4 if label > 0 else words
        chosen = np.sort(random.choice(among, 10, replace=False))
        rows.append((chosen, np.full(10, 10**-0.5)))
    return Texts(SparseRows.of(rows, words), labels, train)


def learned(
    seed: int,
    *,
    noise: Mapping[str, Any],
    lasso: float,
    step: Mapping[str, Any],
    degree: float = 4.0,
    nodes: int = 64,
    batch: int = 1,
    quick: bool = False,
) -> dict[str, FloatArray]:
    """Return `accuracy`, `auc` on the held-out texts and `zeros`, the share of zeros: nodes' means, (1,).

    One pass of Sparse DOLA (Algorithm 3), each node's last decision. `noise` as for DOLA. The engine takes
    dense rows of many nodes: those of one round at a time are laid out.
    """
    found = texts(quick=quick)
    dimension = found.rows.dimension
    mesh = settings(
        nodes,
        dimension,
        algorithm={
            "name": "sparse-dola",
            "constraint": {"l2-ball": 1000},
            "step_size": dict(step),
            "lasso": lasso,
        },
        loss="hinge",
        slots={"by": "count", "size": batch},
        privacy=(NOTHING if "as" in noise else dict(noise)) | {"noise": "simulated"},
        topology={"graph": {"erdos-renyi": {"mean_degree": degree}}},
    )
    rounds = found.train // (nodes * batch)
    made = engine(mesh, seed)
    if "as" in noise:
        made = replace(made, learner=replace(made.learner, mechanism=printed(mesh, noise, rounds, seed)))
    decision = np.zeros((nodes, dimension))
    for taught in made.steps(_rounds(found, rounds, nodes, batch)):
        decision = taught.decision
    scores = _scores(found, decision)
    labels = found.labels[found.train :]
    right = np.where(scores > 0.0, 1.0, -1.0) == labels
    return {
        "accuracy": np.array([right.mean()]),
        "auc": np.array([np.mean([_auc(row, labels) for row in scores])]),
        "zeros": np.array([(decision == 0.0).mean()]),
    }


def _rounds(found: Texts, rounds: int, nodes: int, batch: int) -> Iterator[Observations]:
    """Yield a pass over the shuffled texts; all runs see one order."""
    order = generator("order", 0).permutation(found.train)[: rounds * nodes * batch]
    for chosen in order.reshape(rounds, nodes, batch):
        features = np.zeros((nodes, batch, found.rows.dimension))
        for place in np.ndindex(nodes, batch):
            part = slice(*found.rows.indptr[chosen[place] : chosen[place] + 2])
            features[place][found.rows.indices[part]] = found.rows.values[part]
        yield Observations(features, found.labels[chosen], np.ones((nodes, batch), np.bool_))


def _scores(found: Texts, decision: FloatArray) -> FloatArray:
    """Return each node's scores of the held-out texts, shape (N, texts)."""
    rows, first = found.rows, found.rows.indptr[found.train]
    places = rows.rows[first:] - found.train
    count = rows.shape[0] - found.train
    return np.stack(
        [np.bincount(places, one[rows.indices[first:]] * rows.values[first:], count) for one in decision]
    )


def _auc(scores: FloatArray, labels: FloatArray) -> float:
    """Return the chance that a positive text scores above another; equal scores count half."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts / 2
    positive = labels > 0
    count = int(positive.sum())
    return float((below[places[positive]].sum() - count * count / 2) / (count * (len(labels) - count)))
