"""What the releases of `gaussian-bisr` cost together, where one node's whole stream may change.

All h records of every slot move their sums by h D, so the draws move by C (h D, h D, ...): over T steps by
h D sqrt(sum_{t<=T} (c_0 + ... + c_{t-1})^2), and by gain sqrt(d T) for rounding (`nodes.privacy.bisr`). A
node that begins a new band spends less than one that goes on: the sums grow with t.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from nodes.accounting.calibration import delta_in_range
from nodes.accounting.composition import gaussian_pair
from nodes.accounting.releases import most_within


class BandNorms(Protocol):
    """What C does to what moves (`nodes.privacy.bisr_coefficients`)."""

    @property
    def gain(self) -> float:
        """The sum of C's first column; rounded up."""

    def stream_norm(self, releases: int) -> float:
        """Return C times ones, for T releases, in L2; rounded up."""


@dataclass(frozen=True, slots=True)
class BandComposition:
    """Correlated Gaussian releases: one Gaussian as far as all draws move, by a bound that has a formula.

    `sensitivity` (L2, of all h records of a slot, without C) and `scale` are in the draws' steps, in
    `coordinates`.
    """

    matrix: BandNorms
    sensitivity: int
    scale: float
    coordinates: int
    delta: float
    words: str = field(default="composition of correlated Gaussian noise (analytic)", init=False)

    def __post_init__(self) -> None:
        delta_in_range(self.delta)

    def spent(self, charged: int, round: int | None = None) -> float:  # noqa: ARG002 # each costs the same
        """Return the epsilon at delta."""
        if not charged:
            return 0.0
        coordinates = self.coordinates * charged
        moved = self.sensitivity * self.matrix.stream_norm(charged)
        moved += self.matrix.gain * math.sqrt(coordinates)
        return gaussian_pair(moved, self.scale, coordinates, self.delta)

    def affordable(self, budget: Fraction) -> int:
        """Return the largest n, up to 2^40, that stays within the budget."""
        return most_within(self.spent, budget)
