"""Made-up texts of the shape of Reuters-21578, money-fx, which is no part of the project."""

import os
from pathlib import Path

import numpy as np

WORDS, TRAIN, TEST = 8_315, 7_770, 3_299
NAME = "reuters21578/reuters_moneyfx.npz"


def texts(count, words, seed=0):
    """CSR arrays of so many texts, rows of unit length, and labels: 7 % are +1, and share words."""
    random = np.random.default_rng(seed)
    labels = np.where(random.random(count) < 0.07, 1, -1).astype(np.int8)
    lengths = random.integers(10, 80, count)
    row = np.repeat(np.arange(count), lengths)
    word = (words * random.random(row.size) ** 3).astype(np.int64)  # some words are in many texts
    topic = (labels[row] > 0) & (random.random(row.size) < 0.3)
    word[topic] = random.integers(words // 8, words // 8 + 40, int(topic.sum()))
    row, word = np.divmod(np.unique(row * words + word), words)
    values = random.uniform(0.5, 1.5, row.size)
    values /= np.sqrt(np.bincount(row, values * values, count))[row]
    return {
        "data": values.astype(np.float32),
        "indices": word.astype(np.int32),
        "indptr": np.searchsorted(row, np.arange(count + 1)),
        "shape": np.array([count, words]),
        "y": labels,
    }


def stand_in(folder):
    """The environment in which money-fx.yaml finds such texts; they are written into the folder."""
    path = folder / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    split = np.repeat(np.array([0, 1], np.uint8), [TRAIN, TEST])
    np.savez(path, **texts(TRAIN + TEST, WORDS), split=split)
    return {"MIRRORMESH_DATA": str(folder)}


def real():
    """The environment in which it finds the real ones, where they are; None elsewhere."""
    folder = os.environ.get("MIRRORMESH_DATA")
    return None if folder is None or not (Path(folder) / NAME).exists() else {"MIRRORMESH_DATA": folder}
