"""Regret against the privacy level, in the localisation example (Zhou, Li 2025, figure 1).

The largest E[R_T^i]/T of a node by Definition 1, against T, for epsilon 5, 1, 0.5 and without noise: as
printed (noise one step late, gradients not clipped; and with the noise of the step that made x_t), and ours
at the same epsilon of the whole stream. The runs' own regrets are the band.
"""

from collections.abc import Mapping

from experiments.harness.expected_regret import AT, Regrets, draw_largest
from experiments.harness.figures import table
from experiments.harness.localisation import (
    OURS,
    OURS_STEP,
    PRINTED_BOUND,
    PRINTED_STEP,
    our_runs,
    printed_runs,
)
from experiments.harness.study import FEW, Study

ROUNDS, RUNS = 500, 200
EPSILONS = (5.0, 1.0, 0.5)
SMALLER = 3.0
"""A theta that some gradients in Omega are longer than."""


def main(study: Study) -> None:
    """Draw tracking-regret, tracking-regret-made and tracking-regret-ours; write tracking-regret-theta."""
    size = {"rounds": 60, "runs": FEW} if study.quick else {"rounds": ROUNDS, "runs": RUNS}
    printed = {_label(epsilon): size | {"epsilon": epsilon} for epsilon in (None, *reversed(EPSILONS))}
    made = {label: case | {"index": "made"} for label, case in printed.items()}
    ours = {"no privacy": size | {"privacy": None, "step": PRINTED_STEP}} | {
        _label(epsilon): size | {"privacy": OURS | {"epsilon": epsilon}, "step": OURS_STEP}
        for epsilon in reversed(EPSILONS)
    }
    for name, measure, cases, words in (
        ("tracking-regret", printed_runs, printed, "as printed"),
        ("tracking-regret-made", printed_runs, made, "as printed, noise of the step made"),
        ("tracking-regret-ours", our_runs, ours, "randomised clipped gradients"),
    ):
        found = study.repeated(measure, cases, 1)
        regrets = {label: Regrets.of(one) for label, one in found.items()}
        draw_largest(study.output, name, regrets, f"Localisation, six sensors: {words}", ("linear", "log"))
    _thetas(study, size)


def _thetas(study: Study, size: Mapping[str, int]) -> None:
    """Write what the printed form gives under the theta that bounds a gradient, and under a smaller one."""
    cases = {
        (theta, epsilon): dict(size) | {"theta": theta, "epsilon": epsilon}
        for theta in (SMALLER, PRINTED_BOUND)
        for epsilon in EPSILONS
    }
    found = study.repeated(printed_runs, {f"{case}": how for case, how in cases.items()}, 1)
    rows = [
        [f"{theta:g}", f"{epsilon:g}", *Regrets.of(found[f"{theta, epsilon}"]).at(size["rounds"])]
        for theta, epsilon in cases
    ]
    table(study.output, "tracking-regret-theta", ("theta", "epsilon", *AT), rows)


def _label(epsilon: float | None) -> str:
    return "no privacy" if epsilon is None else f"epsilon = {epsilon:g}"
