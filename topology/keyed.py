"""Seeded randomness as a function of named keys: the same keys give the same stream, in any process."""

import hashlib

import numpy as np


def generator(*keys: int | str) -> np.random.Generator:
    """Return a generator that is a function of `keys` alone (Philox, keyed by their SHA-256).

    For schedules, data order and simulated noise. Never for noise that is to protect anybody.
    """
    digest = hashlib.sha256(repr(keys).encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))
