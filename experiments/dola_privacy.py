"""Average regret against the privacy level: DOLA's Algorithms 1 and 2 (Li et al. 2018, figures 3a and 3b).

Diabetes, 64 nodes on a random graph of mean degree 4 whose pairs are on half of the time, hinge loss, steps
1/(lambda t); the regret of one node per record, against the best fixed SVM of the records so far. As printed
(Laplace noise on the parameters; Gaussian noise J_t inside the step), at w_t and at the lambda of the least
hinge loss at epsilon = 1 (dola-lambda); and ours at the same (epsilon, delta) of one record, at its decision.
The paper's J_t is not calibrated: dola-privacy-true.csv says what it protects in truth, and
dola-privacy-tuned.csv what the pilot, on made-up rows, chose for ours; dola-privacy-ends.csv how they end.
"""

from fractions import Fraction

import numpy as np

from experiments.harness.data import SETS
from experiments.harness.dola_figures import (
    DELTA,
    EPSILONS,
    WEIGHT,
    Case,
    approximate,
    banded,
    best_weight,
    checkpoints,
    label,
    measured,
    plain,
    printed,
    pure,
    sketch,
    tuned,
    words,
)
from experiments.harness.dola_printed import PrintedGaussian
from experiments.harness.figures import table
from experiments.harness.study import Measured, Study
from nodes.accounting.calibration import gaussian_epsilon
from nodes.algorithms import Inverse
from nodes.privacy.exact import SimulatedSampler

FORMS = {
    "laplace": (pure, "Algorithm 1", "ours, pure epsilon"),
    "gaussian": (approximate, "Algorithm 2", f"ours, delta = {DELTA:g}"),
}
ENDS = (
    *("form", "privacy", "lambda", "regret", "regret_p10", "regret_p90"),
    *("hinge", "hinge_p10", "hinge_p90"),
)


def main(study: Study) -> None:
    """Draw dola-privacy-{laplace,gaussian}{,-ours}; write -tuned, -ends and -true."""
    chosen: list[list[object]] = []
    ends: list[list[object]] = []
    weights = {}
    for form, (mechanisms, theirs, ours) in FORMS.items():
        weight = weights[form] = best_weight(study, form, 1.0)
        as_printed: dict[str, Case] = {label(None): printed(form, None, weight)}
        as_ours = {label(None): plain()}
        for epsilon in EPSILONS:
            as_printed[label(epsilon)] = printed(form, epsilon, weight)
            as_ours[label(epsilon)] = tuned(study, mechanisms(epsilon))
            chosen.append([form, epsilon, *words(as_ours[label(epsilon)])])
        titles = {"": f"{theirs} as printed, lambda = {weight:g}", "-ours": ours}
        for (name, title), cases in zip(titles.items(), (as_printed, as_ours), strict=True):
            found = measured(study, cases)
            sketch(study, f"dola-privacy-{form}{name}", found, f"Diabetes, 64 nodes: {title}")
            ends += [
                [f"{form}{name}", said, cases[said].get("weight", WEIGHT), *_end(one)]
                for said, one in found.items()
            ]
    header = ("form", "epsilon", "mechanism", "gradient_bound", "batch_size", "step_a")
    table(study.output, "dola-privacy-tuned", header, chosen)
    table(study.output, "dola-privacy-ends", ENDS, ends)
    table(study.output, "dola-privacy-true", *_true(study, weights["gaussian"]))


def _end(one: Measured) -> list[float]:
    """Return the mean of the last regret, its band, and the same of the hinge loss."""
    return [number for name in ("regret", "hinge") for number in banded(one[name][:, -1])]


def _true(study: Study, weight: float) -> tuple[tuple[str, ...], list[list[object]]]:
    """Return what the printed J_t protects at delta: one record of the first and last round, and a stream."""
    rounds = checkpoints(study)[-1]
    rows: list[list[object]] = []
    for epsilon in EPSILONS:
        sampler, alpha = SimulatedSampler(0, "node"), Inverse(1 / weight)
        dimension, share = SETS["diabetes"].columns, Fraction(str(epsilon))
        mechanism = PrintedGaussian(1.0, share, DELTA, rounds, dimension, alpha, sampler)
        mus = np.array([mechanism.mu(round) for round in range(1, rounds + 1)])
        whole = float(np.sqrt((mus * mus).sum()))
        true = [gaussian_epsilon(float(mu), DELTA) for mu in (mus[0], mus[-1], whole)]
        rows.append([epsilon, *true])
    return ("stated", "record_of_round_1", "record_of_round_T", "whole_stream_of_a_node"), rows
