"""Euclidean against Mahalanobis steps at epsilon = 5, in the localisation example (Zhou, Li 2025, figure 3).

Their phi = ||x||^2 and x'Qx are twice our generators, which is ours with half the step. They do not print Q;
ours is [[2, 0.5], [0.5, 1]]. max over nodes of the mean over runs of R_T^i/T: as printed, under both indices
of the noise, and ours.
"""

from typing import Any

from experiments.harness.figures import Curve, draw
from experiments.harness.localisation import (
    OURS,
    OURS_STEP,
    PRINTED_STEP,
    printed_regret,
    regret,
    worst_node,
)
from experiments.harness.study import Study

ROUNDS, RUNS = 500, 50
EPSILON = 5.0
MAPS: dict[str, Any] = {"||x||^2": "euclidean", "x'Qx": {"mahalanobis": [[2, 0.5], [0.5, 1]]}}
INDICES = {"printed": "", "made": ", noise of the step made"}


def main(study: Study) -> None:
    """Draw tracking-maps and tracking-maps-ours."""
    rounds = 60 if study.quick else ROUNDS
    printed = {
        f"{phi}{words}": {
            "rounds": rounds,
            "epsilon": EPSILON,
            "mirror_map": mirror_map,
            "step": PRINTED_STEP / 2,
            "index": index,
        }
        for phi, mirror_map in MAPS.items()
        for index, words in INDICES.items()
    }
    ours = {
        phi: {
            "rounds": rounds,
            "privacy": OURS | {"epsilon": EPSILON},
            "step": OURS_STEP / 2,
            "algorithm": {"mirror_map": mirror_map},
        }
        for phi, mirror_map in MAPS.items()
    }
    for name, measure, cases, words in (
        ("tracking-maps", printed_regret, printed, "as printed"),
        ("tracking-maps-ours", regret, ours, "randomised clipped gradients"),
    ):
        found = study.repeated(measure, cases, RUNS)
        x = range(1, rounds + 1)
        draw(
            study.output,
            name,
            {label: Curve.over(x, worst_node(one["regret"])) for label, one in found.items()},
            title=f"Localisation, epsilon = {EPSILON:g}: {words}",
            x="rounds T",
            y="max_i R_T^i / T",
            scales=("linear", "log"),
        )
