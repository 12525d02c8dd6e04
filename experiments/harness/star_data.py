"""The collaboration's data: loans with an interest rate, and card transactions (Wu et al. 2020, section 4).

Subsets of the paper's; the rows are not shipped. Each has a part that is declared public: it gives scales and
principal components, and is the forecast's pilot; no owner has any of it.
"""

import csv
import gzip
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.harness.data import BROKEN, VARIABLE, Unavailable
from nodes.values import FloatArray
from topology.keyed import generator

COMPONENTS = 10
"""The principal components of a loan."""
QUICK_ROWS = 3_000


class Star(NamedTuple):
    """Features (n, d) and labels (n,) of the public part, and of the rest in an order drawn once."""

    public: tuple[FloatArray, FloatArray]
    rest: tuple[FloatArray, FloatArray]


class _Set(NamedTuple):
    file: str
    rows: int
    public: int
    made: Callable[[Sequence[dict[str, str]], int], Star]
    source: str


def star(name: str, *, quick: bool = False) -> Star:
    """Return a set; Unavailable where it is missing or another one. `quick`: made-up rows, no file."""
    return _quick(name) if quick else _star(name, os.environ.get(VARIABLE, ""))


@cache
def _star(name: str, root: str) -> Star:
    known = STARS[name]
    if not root:
        raise Unavailable(f"{name}: set {VARIABLE} to a folder that holds {known.file}, from {known.source}")
    try:
        with gzip.open(Path(root) / known.file, "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        if len(rows) != known.rows:
            raise ValueError
        return known.made(rows, known.public)
    except OSError as error:
        missing = error.filename or known.file
        raise Unavailable(f"{name}: cannot read {missing}; it is from {known.source}") from None
    except BROKEN:
        raise Unavailable(f"{name}: {known.file} is another file than that from {known.source}") from None


@cache
def _quick(name: str) -> Star:
    random = generator("star", name)
    features = random.normal(size=(QUICK_ROWS, COMPONENTS)) / np.sqrt(COMPONENTS)
    scores = features @ random.normal(size=COMPONENTS) + 0.5 * random.normal(size=QUICK_ROWS)
    labels = scores if name == "loans" else np.where(scores > 1.5, 1.0, -1.0)
    return _split(features, labels, QUICK_ROWS // 3)


def _split(features: FloatArray, labels: FloatArray, public: int) -> Star:
    order = generator("star order", len(labels)).permutation(len(labels))
    features, labels = features[order], labels[order]
    return Star((features[:public], labels[:public]), (features[public:], labels[public:]))


def _loans(rows: Sequence[dict[str, str]], public: int) -> Star:
    """Categories become whole numbers; ten components of the scaled columns; the rate in percentage points.

    The model has no constant, so the rate is that above the public part's mean.
    """
    left_out = {"bank_id", "member_id", "application_type", "int_rate", "total_payment"}
    columns = [_numbers([row[name] for row in rows]) for name in rows[0] if name not in left_out]
    rates = 100 * np.array([float(row["int_rate"]) for row in rows])
    star = _split(np.stack(columns, -1), rates, public)
    known = star.public[0]
    means, scales = known.mean(0), np.maximum(known.std(0), 1e-12)
    _, _, directions = np.linalg.svd((known - means) / scales, full_matrices=False)
    turn = directions[:COMPONENTS].T / np.sqrt(COMPONENTS)
    level = star.public[1].mean()
    return Star(*(((part - means) / scales @ turn, labels - level) for part, labels in star))


def _cards(rows: Sequence[dict[str, str]], public: int) -> Star:
    """Components as published, without the time, the amount scaled, and a constant; norms at most 1."""
    names = [name for name in rows[0] if name not in {"Time", "Class"}]
    features = np.array([[float(row[name]) for name in names] for row in rows])
    labels = np.where(np.array([row["Class"] for row in rows]) == "1", 1.0, -1.0)
    star = _split(features, labels, public)
    means, scales = star.public[0].mean(0), np.maximum(star.public[0].std(0), 1e-12)

    def scaled(part: FloatArray) -> FloatArray:
        whole = np.concatenate([(part - means) / scales, np.ones((len(part), 1))], -1)
        lengths = np.sqrt((whole * whole).sum(-1, keepdims=True))
        held: FloatArray = whole / np.maximum(lengths, 1.0)
        return held

    return Star(*((scaled(part), labels) for part, labels in star))


def _numbers(column: Sequence[str]) -> FloatArray:
    try:
        return np.array(column, np.float64)
    except ValueError:
        _, places = np.unique(np.array(column), return_inverse=True)
        return np.asarray(places, np.float64)


STARS = {
    "loans": _Set(
        *("lendingclub/lendingclub_2007_2011.csv.gz", 38_576, 8_576, _loans),
        source="LendingClub, loans of 2007 to 2011",
    ),
    "cards": _Set(
        *("creditcard/creditcard_head7972.csv.gz", 7_972, 1_972, _cards),
        source="Kaggle (Credit Card Fraud Detection)",
    ),
}
