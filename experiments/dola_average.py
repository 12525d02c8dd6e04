"""From regret to stochastic optimisation (Li et al. 2018, Theorems 9 and 10, figure 6a): the running average.

F over all of Diabetes, less its least value, at a node's last point and at the average of its points so far.
64 nodes; without privacy and as printed at epsilon = 1 at w_t, at the lambda of the least hinge loss at
epsilon = 1; and ours at epsilon = 1 at its decisions, lambda = 0.01, with no privacy beside it: F is another.
"""

from experiments.harness.dola_figures import (
    WEIGHT,
    best_weight,
    excess,
    measured,
    plain,
    printed,
    pure,
    sketch,
    tuned,
)
from experiments.harness.study import Study

EPSILON = 1.0
FORMS = {"no privacy": None, "as printed": EPSILON}


def main(study: Study) -> None:
    """Draw dola-average{,-ours}."""
    weight = best_weight(study, "laplace", EPSILON)
    for name, chosen, cases in (
        ("", weight, {form: printed("laplace", epsilon, weight) for form, epsilon in FORMS.items()}),
        ("-ours", WEIGHT, {"no privacy": plain(), "ours": tuned(study, pure(EPSILON))}),
    ):
        found = measured(study, cases, whole=True)
        both = {
            f"{label}, {words}": {"excess": excess(study, "diabetes", one[of], chosen)}
            for label, one in found.items()
            for of, words in (("last", "last"), ("average", "average"))
        }
        title = f"Diabetes, 64 nodes, epsilon = 1, lambda = {chosen:g}: one node's point as a model"
        sketch(study, f"dola-average{name}", both, title, of="excess", y="F(w) - min F (loss)")
