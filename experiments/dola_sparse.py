"""Accuracy against sparsity: Sparse DOLA (Li et al. 2018, Algorithm 3, figures 5a and 5b), by topology.

The paper's sets, Real-sim and RCV1, are not at hand: Reuters-21578, topic money-fx, 8,315 words, stands in
for both, so 5b's comparison of two sets is not reproduced. 64 nodes, one pass, steps 10/sqrt(t), thresholds
alpha_t rho for several rho; each node's last decision on the 3,299 held-out texts. All but 5.4 % of them are
of one class, so the AUC stands beside the accuracy. As printed: Laplace noise on the dual state, sensitivity
2 alpha_t sqrt(d) L. Ours at the same epsilon (delta = 1e-6): `gaussian` on slots of 30 texts, four rounds.
Three runs where there is noise (rounds of 64 x 8,315 numbers are slow), and where there is none, one.
"""

from typing import Any

import numpy as np

from experiments.harness.dola import NOTHING
from experiments.harness.dola_figures import DELTA
from experiments.harness.figures import Curve, draw, table
from experiments.harness.study import Study
from experiments.harness.texts import learned

DEGREES = (2, 4, 8)
RHOS = (0.0, 0.1, 0.3, 1.0)
EPSILON, RUNS = 1.0, 3
STEP = {"rule": "inverse-sqrt", "a": 10.0}
FORMS: dict[str, dict[str, Any]] = {
    "none": {"noise": NOTHING},
    "printed": {"noise": {"as": "printed-laplace", "epsilon": EPSILON}},
    "ours": {
        "noise": {"mechanism": "gaussian", "gradient_bound": 1.0, "epsilon": EPSILON, "delta": DELTA},
        "batch": 30,
    },
}
SCALES = {"none": 1.0, "printed": 100.0, "ours": 1.0}
"""rho is times this: thresholds must be as long as the noise to do anything."""


def main(study: Study) -> None:
    """Draw dola-sparse-{none,printed,ours}; write dola-sparse.csv, with the AUC."""
    rows: list[list[object]] = []
    for form, case in FORMS.items():
        curves = {}
        for degree in DEGREES:
            cases = {
                f"{rho * SCALES[form]:g}": {
                    "lasso": rho * SCALES[form],
                    "step": STEP,
                    "degree": degree,
                    "quick": study.quick,
                }
                | case
                | ({"nodes": 16, "batch": min(case.get("batch", 1), 10)} if study.quick else {})
                for rho in RHOS
            }
            found = study.repeated(learned, cases, 1 if form == "none" else RUNS)
            means = {rho: {name: float(of.mean()) for name, of in one.items()} for rho, one in found.items()}
            curves[f"mean degree {degree}"] = Curve(
                np.array([one["zeros"] for one in means.values()]),
                np.array([one["accuracy"] for one in means.values()]),
            )
            rows += [
                [form, degree, rho, one["zeros"], one["accuracy"], one["auc"]] for rho, one in means.items()
            ]
        draw(
            study.output,
            f"dola-sparse-{form}",
            curves,
            title=f"Reuters money-fx, 64 nodes, epsilon = {'none' if form == 'none' else 1}: {form}",
            x="share of zeros",
            y="accuracy",
            points=True,
        )
    header = ("form", "mean_degree", "rho", "zeros", "accuracy", "auc")
    table(study.output, "dola-sparse", header, rows)
