"""Network regret over many runs, by its definition and run by run (Zhou, Li 2025, Definition 1, Remark 1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from experiments.harness.figures import Curve, Scale, draw
from experiments.harness.study import Measured
from nodes.geometry.constraints import L1Ball
from nodes.values import FloatArray

OMEGA = L1Ball(2, 3.0)
AT = ("definition_1", "own_mean", "own_p10", "own_p90")
"""Regret by T: by definition, and of the runs' own the mean, the 10th and the 90th percentile."""
LARGEST = "largest $E[R_T^i]/T$ of a node (loss a round)"
BAND = "line: Definition 1; band: the runs' own regrets, 10 to 90 %"
_POINTS = 100


@dataclass(frozen=True)
class Regrets:
    """R runs of the localisation example: `paid` (R, T, N) and `gradients` (R, T, N, 2) of `NetworkSums`."""

    paid: FloatArray
    gradients: FloatArray

    @classmethod
    def of(cls, measured: Measured) -> "Regrets":
        """Return the runs that one call has measured side by side."""
        return cls(measured["paid"][0], measured["gradients"][0])

    @cached_property
    def by_definition(self) -> FloatArray:
        """E[R_T^i]/T: the maximum over x of the mean over runs (Definition 1, equation 2), shape (T, N)."""
        total = self.paid.mean(0) + OMEGA.support(-self.gradients.mean(0))
        return _a_round(total)

    @cached_property
    def own(self) -> FloatArray:
        """R_T^i/T of each run: the maximum over x inside the run (Remark 1, equation 3), shape (R, T, N).

        Its mean over runs is never below `by_definition`, since each run has an x of its own.
        """
        return _a_round(self.paid + OMEGA.support(-self.gradients))

    @property
    def largest(self) -> "Regrets":
        """The node whose regret by definition is largest, round by round: one node's sums."""
        worst = self.by_definition.argmax(-1)[None, :, None]
        return Regrets(
            np.take_along_axis(self.paid, worst, 2),
            np.take_along_axis(self.gradients, worst[..., None], 2),
        )

    @property
    def points(self) -> range:
        """A hundred numbers of rounds, the last among them."""
        rounds = self.paid.shape[1]
        step = -(-rounds // _POINTS)
        return range((rounds - 1) % step + 1, rounds + 1, step)

    def at(self, rounds: int) -> tuple[float, ...]:
        """Return what `AT` says, after T rounds, of the node whose regret by definition is largest."""
        return self.of_node(int(self.by_definition[rounds - 1].argmax()), rounds)

    def of_node(self, node: int, rounds: int) -> tuple[float, ...]:
        """Return what `AT` says, of a node."""
        own = self.own[:, rounds - 1, node]
        low, high = np.percentile(own, [10, 90])
        return float(self.by_definition[rounds - 1, node]), float(own.mean()), float(low), float(high)


def draw_largest(
    output: Path, name: str, found: Mapping[str, Regrets], title: str, scales: tuple[Scale, Scale]
) -> None:
    """Draw the largest regret of a node by definition, in the band of that node's own in each run."""
    curves = {label: _curve(regrets) for label, regrets in found.items()}
    rows = [[label, T, *regrets.at(T)] for label, regrets in found.items() for T in regrets.points]
    numbers = (("curve", "x", *AT), rows)
    title = f"{title}\n{BAND}"
    draw(output, name, curves, title=title, x="rounds T", y=LARGEST, scales=scales, numbers=numbers)


def _curve(regrets: Regrets) -> Curve:
    chosen = regrets.largest
    rounds = np.arange(1, chosen.paid.shape[1] + 1)
    return Curve.within(rounds, chosen.by_definition[:, 0], chosen.own[..., 0])


def _a_round(total: FloatArray) -> FloatArray:
    """Return regret by T of (..., T, N), a round."""
    average: FloatArray = total / np.arange(1, total.shape[-2] + 1)[:, None]
    return average
