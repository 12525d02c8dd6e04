"""The exact sampler: OpenDP's discrete Laplace, from the operating system's entropy.

The one place under `nodes/` that is not a function of its arguments. Noise is used once and dropped.

Guarantees
----------
P(k) is proportional to exp(-|k|/S) exactly for the float S (Canonne, Kamath, Steinke 2020, algorithm 2, in
rational arithmetic), so a sum of sensitivity D in L1 is released with epsilon = D/S. Draws that leave 64 bits
would saturate: private still, but biased; callers keep |values| + 64 S below 2^62.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import opendp.prelude as dp  # noqa: TID251 # the exact sampler is OpenDP's

from nodes.values import IntArray

_RANGE = 1 << 62


class SamplerError(RuntimeError):
    """A draw failed. The text never says on what."""


@dataclass(slots=True, eq=False)
class ExactSampler:
    """Discrete Laplace noise that nobody can predict or repeat; about 0.1 ms at d = 2, 0.6 ms at d = 55."""

    simulated: bool = field(default=False, init=False)
    _scale: float = field(default=0.0, init=False, repr=False)
    _measure: Callable[[list[int]], Any] | None = field(default=None, init=False, repr=False)

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:  # noqa: ARG002 # no seed
        """Return `values` plus noise of that scale, same shape.

        Raises ValueError for a scale that is not positive and finite, SamplerError where values leave
        62 bits or OpenDP refuses.
        """
        if not 0.0 < scale < float("inf"):
            raise ValueError(f"scale is {scale!r}: must be finite and above 0")
        if self._measure is None or scale != self._scale:
            self._measure, self._scale = _laplace_measure(scale), scale
        drawn = _drawn(self._measure, values.ravel().tolist())
        if drawn is None:
            raise SamplerError("the exact sampler failed on a private value")
        return np.array(drawn, dtype=np.int64).reshape(values.shape)


def _laplace_measure(scale: float) -> Callable[[list[int]], Any]:
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    measure: Callable[[list[int]], Any] = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    return measure


def _drawn(measure: Callable[[list[int]], Any], values: list[int]) -> list[int] | None:
    """Return the noisy values; None on any failure: OpenDP's errors print the value, so none gets out."""
    if any(abs(value) >= _RANGE for value in values):
        return None
    try:
        drawn: list[int] = measure(values)
    except Exception:  # noqa: BLE001 # its text and its context hold the private value
        return None
    return drawn
