"""The printed form over lambda, which the paper does not print (Li et al. 2018, figures 3a, 3b): Diabetes.

Of lambda are made the steps 1/(lambda t), the noise, F and its set: so regrets at two lambdas are those of
two problems, and the hinge loss per record, which is the paper's loss, stands beside them. Algorithms 1 and
2 without privacy and at epsilon 1, 0.1, 0.01, measured at w_t. 64 nodes, 500 records each, ten runs.
"""

import numpy as np

from experiments.harness.dola_figures import EPSILONS, LAMBDAS, REGRET, label, measured, printed
from experiments.harness.figures import Curve, draw
from experiments.harness.study import Study

FORMS = {"laplace": "Algorithm 1", "gaussian": "Algorithm 2"}
MEASURES = {"regret": REGRET, "hinge": "hinge loss of a node per record"}


def main(study: Study) -> None:
    """Draw dola-lambda-{laplace,gaussian}-{regret,hinge}."""
    for form, said in FORMS.items():
        ends = {
            label(epsilon): measured(
                study, {f"{weight:g}": printed(form, epsilon, weight) for weight in LAMBDAS}
            )
            for epsilon in (None, *EPSILONS)
        }
        for measure, y in MEASURES.items():
            curves = {
                name: Curve.over(LAMBDAS, np.stack([one[measure][:, -1] for one in found.values()], -1))
                for name, found in ends.items()
            }
            if measure == "hinge":
                curves["w = 0"] = Curve(np.array(LAMBDAS), np.ones(len(LAMBDAS)))
            draw(
                study.output,
                f"dola-lambda-{form}-{measure}",
                curves,
                title=f"Diabetes, 64 nodes: {said} as printed, over lambda",
                x="lambda",
                y=y,
                scales=("log", "auto"),
                points=True,
            )
