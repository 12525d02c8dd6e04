"""Seeded randomness: the same keys give the same stream in every process."""

import hashlib

import numpy as np


def generator(*keys: int | str) -> np.random.Generator:
    """Return a generator that depends on `keys` alone (Philox, keyed by their SHA-256).

    For schedules, data order and simulated noise; never for noise that must protect data.
    """
    digest = hashlib.sha256(repr(keys).encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
