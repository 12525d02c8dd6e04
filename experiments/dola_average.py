"""From regret to stochastic optimisation (Li et al. 2018, Theorems 9 and 10, figure 6a): the running average.

F over all of Diabetes, less its least value, at a node's last decision and at the average of its decisions so
far. 64 nodes; without privacy, as printed at epsilon = 1, and ours at epsilon = 1.
"""

from experiments.harness.dola import records
from experiments.harness.dola_figures import Case, least, measured, printed, pure, sketch, tuned
from experiments.harness.study import Study

EPSILON = 1.0


def main(study: Study) -> None:
    """Draw dola-average."""
    cases: dict[str, Case] = {
        "no privacy": printed("laplace", None),
        "as printed": printed("laplace", EPSILON),
        "ours": tuned(study, pure(EPSILON)),
    }
    found = measured(study, cases, whole=True)
    count = len(records("diabetes", quick=study.quick)[0].labels)
    lowest = least(study, "diabetes", [count])
    both = {
        f"{label}, {words}": {"excess": one[of] - lowest}
        for label, one in found.items()
        for of, words in (("last", "last"), ("average", "average"))
    }
    title = "Diabetes, 64 nodes, epsilon = 1: one node's decision as a model"
    sketch(study, "dola-average", both, title, of="excess", y="F(w) - min F")
