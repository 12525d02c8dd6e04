"""The cost of `gaussian-bisr` releases at stream level, where a node's whole stream may change.

All h records of every slot move their sums by h D, so the draws move by C (h D, h D, ...): over T steps by
h D sqrt(sum_{t<=T} (c_0 + ... + c_{t-1})^2), and by gain sqrt(d T) for rounding (`nodes.privacy.bisr`). The
sums grow with t, so a node that begins a new band spends less than one that goes on.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from nodes.accounting.calibration import delta_in_range
from nodes.accounting.composition import gaussian_pair
from nodes.accounting.releases import most_within


class BandNorms(Protocol):
    """The norms of C (`nodes.privacy.bisr_coefficients`)."""

    @property
    def gain(self) -> float:
        """The sum of C's first column, rounded up."""

    def stream_norm(self, releases: int) -> float:
        """Return the L2 norm of C times ones for T releases, rounded up."""


@dataclass(frozen=True, slots=True)
class BandComposition:
    """Correlated Gaussian releases, as one Gaussian with the sensitivity of all draws together.

    `sensitivity` (L2, of all h records of a slot, without C) and `scale` are in the draws' steps, over
    `coordinates` coordinates.
    """

    matrix: BandNorms
    sensitivity: int
    scale: float
    coordinates: int
    delta: float
    words: str = field(default="composition of correlated Gaussian noise (analytic)", init=False)

    def __post_init__(self) -> None:
        delta_in_range(self.delta)

    def spent(self, charged: int, round: int | None = None) -> float:  # noqa: ARG002 # all cost the same
        """Return the epsilon at delta."""
        if not charged:
            return 0.0
        coordinates = self.coordinates * charged
        moved = self.sensitivity * self.matrix.stream_norm(charged)
        moved += self.matrix.gain * math.sqrt(coordinates)
        return gaussian_pair(moved, self.scale, coordinates, self.delta)

    def affordable(self, budget: Fraction) -> int:
        """Return the largest n, up to 2^40, within the budget."""
        return most_within(self.spent, budget)
