"""Seeded randomness: the same keys give the same stream in every process."""

import hashlib
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray


class _Key(ISeedSequence):
    """The key of a Philox generator.

    `Philox(key=...)` gives the same stream, but reads entropy that it does not use.
    """

    __slots__ = ("_words",)

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint64]:  # noqa: ARG002 # Philox wants two of 64 bits
        """Return the two words of the key."""
        return self._words


def generator(*keys: int | str) -> np.random.Generator:
    """Return a generator that depends on `keys` alone (Philox, keyed by their SHA-256).

    For schedules, data order and simulated noise; never for noise that must protect data.
    """
    digest = hashlib.sha256(repr(keys).encode()).digest()
    key: Any = _Key(np.frombuffer(digest, "<u8", 2))  # numpy's types allow only its own seeds
    return np.random.Generator(np.random.Philox(key))
