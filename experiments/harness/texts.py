"""Long sparse rows: Reuters-21578, money-fx, or made up in its shape; Adult's rows beside it, d = 104."""

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.harness.data import BROKEN, VARIABLE, Unavailable
from experiments.harness.dola import records
from nodes.sparse import SparseRows
from nodes.values import FloatArray
from topology.keyed import generator

FILE = "reuters21578/reuters_moneyfx.npz"
TRAIN, TEST, POSITIVE, WORDS = 7_770, 3_299, 717, 8_315
LENGTH, TOPIC = 43, 200
"""Words of a text, and those that are the topic's own, where texts are made up."""
COMMON = 1_000


class Texts(NamedTuple):
    """Rows at most 1 long, labels of +1 and -1; which to learn from, in order, and which are held out."""

    rows: SparseRows
    labels: FloatArray
    order: NDArray[np.int64]
    held_out: NDArray[np.int64]


@cache
def texts(data: str, *, quick: bool = False) -> Texts:
    """Return reuters (`quick`: made up), `like reuters` (made up), or a set of `harness.dola.records`.

    `reuters-common`: only the 1,000 words that are in most texts, taken from the texts as the papers take
    what they scale by, outside every guarantee. Unavailable where the file is missing or another one. All
    runs see one order.
    """
    seed = int(data.startswith("like "))
    match data.removeprefix("like "):
        case "reuters":
            if quick:
                rows, labels, train = _made_up(640, 256, 200, 10, 50, seed)
            elif seed:
                rows, labels, train = _made_up(TRAIN, TEST, WORDS, LENGTH, TOPIC, seed)
            else:
                rows, labels, train = _read(os.environ.get(VARIABLE, ""))
            order = generator("order", 0).permutation(train)
            return Texts(rows, labels, order, np.arange(train, len(labels)))
        case "reuters-common":
            found = texts(data.removesuffix("-common"), quick=quick)
            return found._replace(rows=_common(found.rows))
    learnt, held_out = records(data, quick=quick, held_out=True)
    count = len(learnt.labels)
    return Texts(
        _stored(np.concatenate([learnt.features, held_out.features])),
        np.concatenate([learnt.labels, held_out.labels]),
        *np.split(np.arange(count + len(held_out.labels)), [count]),
    )


def _read(root: str) -> tuple[SparseRows, FloatArray, int]:
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
    return rows, labels, TRAIN


def _made_up(
    train: int, test: int, words: int, length: int, topic: int, seed: int
) -> tuple[SparseRows, FloatArray, int]:
    """Return texts of words drawn by Zipf's law, in one of 14 a third of them from the topic's own."""
    random = generator("texts", seed)
    labels = np.where(random.random(train + test) < 1 / 14, 1.0, -1.0)
    shares = 1.0 / np.arange(1, words + 1)
    among = np.cumsum(shares / shares.sum())
    own = random.permutation(words)[:topic]
    rows = []
    for label in labels:
        drawn = np.searchsorted(among, random.random(length)).astype(np.int64)
        if label > 0:
            drawn[: length // 3] = random.choice(own, length // 3)
        chosen, counts = np.unique(np.minimum(drawn, words - 1), return_counts=True)
        weights = (1.0 + np.log(counts)) * np.log1p(chosen)
        rows.append((chosen, weights / max(float(np.sqrt((weights * weights).sum())), 1e-12)))
    return SparseRows.of(rows, words), labels, train


def _common(rows: SparseRows) -> SparseRows:
    """Return the columns that are stored most often, at most COMMON of them."""
    counts = np.bincount(rows.indices, minlength=rows.dimension)
    kept = np.sort(np.argsort(-counts, kind="stable")[:COMMON])
    place = np.full(rows.dimension, -1)
    place[kept] = np.arange(len(kept))
    stays = place[rows.indices] >= 0
    lengths = np.bincount(rows.rows[stays], minlength=rows.shape[0])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return SparseRows(indptr, place[rows.indices[stays]], rows.values[stays], len(kept))


def _stored(features: FloatArray) -> SparseRows:
    """Return dense rows (n, d) as sparse ones."""
    rows, places = np.nonzero(features)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(features)))])
    return SparseRows(indptr, places, features[rows, places], features.shape[1])
