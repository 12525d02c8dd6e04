"""Noise of a simulated history: another one at each draw, and the same when the history is run again."""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

from nodes.privacy.exact import SimulatedSampler
from nodes.values import BoolArray, FloatArray, IntArray


@dataclass(eq=False, slots=True)
class CountedNoise:
    """Seeded noise that differs at each draw, so that a release that is drawn twice shows.

    With `again` it repeats that source's newest draws. `draws` counts the draws by kind and round;
    `drawn` has each as (kind, round, scale), since it was emptied last.
    """

    seed: int
    node: str
    again: "CountedNoise | None" = None
    simulated: bool = field(default=True, init=False)
    draws: Counter[tuple[str, int]] = field(default_factory=Counter, init=False)
    drawn: list[tuple[str, int, float]] = field(default_factory=list, init=False)

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values` plus the noise of the next draw in `round`."""
        return self._next("laplace", round, scale).laplace(round, values, scale)

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        """Return `values` plus the noise of the next draw in `round`."""
        return self._next("gaussian", round, scale).gaussian(round, values, scale)

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        """Return the directions and numbers of the next draw in `round`."""
        return self._next("sphere", round).sphere(round, shape)

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        """Return `bits`, kept or flipped by the coins of the next draw in `round`."""
        return self._next("coin", round, float(epsilon)).randomised(round, bits, epsilon)

    def _next(self, kind: str, round: int, scale: float = 0.0) -> SimulatedSampler:
        key = kind, round
        if self.again is None:
            self.draws[key] += 1
            self.drawn.append((kind, round, scale))
        number = (self.again or self).draws[key]
        return SimulatedSampler(self.seed, f"{self.node} {number}")
