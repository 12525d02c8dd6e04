"""Euclidean against Mahalanobis steps at epsilon = 5, in the localisation example (Zhou, Li 2025, figure 3).

Their phi = ||x||^2 and x'Qx are twice our generators, which is ours with half the step. They do not print Q;
ours is [[2, 0.5], [0.5, 1]]. The largest E[R_T^i]/T of a node by Definition 1: as printed, under both indices
of the noise, and ours. The runs' own regrets are the band.
"""

from typing import Any

from experiments.harness.expected_regret import Regrets, draw_largest
from experiments.harness.localisation import OURS, OURS_STEP, PRINTED_STEP, our_runs, printed_runs
from experiments.harness.study import FEW, Study

ROUNDS, RUNS = 500, 200
EPSILON = 5.0
MAPS: dict[str, Any] = {"||x||^2": "euclidean", "x'Qx": {"mahalanobis": [[2, 0.5], [0.5, 1]]}}


def main(study: Study) -> None:
    """Draw tracking-maps, tracking-maps-made and tracking-maps-ours."""
    size = {"rounds": 60, "runs": FEW} if study.quick else {"rounds": ROUNDS, "runs": RUNS}
    printed = {
        phi: size | {"epsilon": EPSILON, "mirror_map": mirror_map, "step": PRINTED_STEP / 2}
        for phi, mirror_map in MAPS.items()
    }
    made = {phi: case | {"index": "made"} for phi, case in printed.items()}
    ours = {
        phi: size
        | {
            "privacy": OURS | {"epsilon": EPSILON},
            "step": OURS_STEP / 2,
            "algorithm": {"mirror_map": mirror_map},
        }
        for phi, mirror_map in MAPS.items()
    }
    for name, measure, cases, words in (
        ("tracking-maps", printed_runs, printed, "as printed"),
        ("tracking-maps-made", printed_runs, made, "as printed, noise of the step made"),
        ("tracking-maps-ours", our_runs, ours, "randomised clipped gradients"),
    ):
        found = study.repeated(measure, cases, 1)
        regrets = {label: Regrets.of(one) for label, one in found.items()}
        title = f"Localisation, epsilon = {EPSILON:g}: {words}"
        draw_largest(study.output, name, regrets, title, ("linear", "log"))
