"""Regret against the privacy level, in the localisation example (Zhou, Li 2025, figure 1).

max over nodes of the mean over runs of R_T^i/T, against T, for epsilon 5, 1, 0.5 and without noise: as
printed (noise one step late, gradients not clipped), and ours at the same epsilon of the whole stream.
"""

import numpy as np

from experiments.harness.figures import Curve, draw
from experiments.harness.localisation import PRINTED_STEP, printed_regret, regret, worst_node
from experiments.harness.study import Study

ROUNDS, RUNS = 500, 50
EPSILONS = (5.0, 1.0, 0.5)
OURS = {"mechanism": "laplace", "gradient_bound": 0.5}
OURS_STEP = 0.5


def main(study: Study) -> None:
    """Draw tracking-regret and tracking-regret-ours."""
    rounds = 60 if study.quick else ROUNDS
    x = np.arange(1, rounds + 1)
    printed = {
        _label(epsilon): {"rounds": rounds, "epsilon": epsilon} for epsilon in (None, *reversed(EPSILONS))
    }
    ours = {"no privacy": {"rounds": rounds, "privacy": None, "step": PRINTED_STEP}} | {
        _label(epsilon): {"rounds": rounds, "privacy": OURS | {"epsilon": epsilon}, "step": OURS_STEP}
        for epsilon in reversed(EPSILONS)
    }
    for name, measure, cases, words in (
        ("tracking-regret", printed_regret, printed, "as printed"),
        ("tracking-regret-ours", regret, ours, "noise on clipped gradients"),
    ):
        found = study.repeated(measure, cases, RUNS)
        curves = {label: Curve.over(x, worst_node(one["regret"])) for label, one in found.items()}
        draw(
            study.output,
            name,
            curves,
            title=f"Localisation, six sensors: {words}",
            x="rounds T",
            y="max_i R_T^i / T",
            scales=("linear", "log"),
        )


def _label(epsilon: float | None) -> str:
    return "no privacy" if epsilon is None else f"epsilon = {epsilon:g}"
