"""Average regret against the topology (Li et al. 2018, figures 3c and 3d).

Topologies 1, 2, 3 are sparse, medium and dense random graphs; the paper gives no numbers: here Erdos-Renyi
graphs of 64 nodes with mean degree 2, 4, 8, made connected, of which each pair is on half of the time.
Diabetes, epsilon = 1, as `dola_privacy`; ours has the settings that the pilot chose on degree 4. Without
noise beside it: there the graph alone counts.
"""

from experiments.harness.dola_figures import (
    Case,
    approximate,
    best_weight,
    measured,
    printed,
    pure,
    sketch,
    tuned,
)
from experiments.harness.study import Study

DEGREES = (2, 4, 8)
EPSILON = 1.0


def main(study: Study) -> None:
    """Draw dola-topology-{none,laplace,gaussian,laplace-ours,gaussian-ours}."""
    cases = {
        "none": (printed("laplace", None), "no privacy, lambda = 0.01"),
        **{
            form: (printed(form, EPSILON, weight), f"{said} as printed, epsilon = 1, lambda = {weight:g}")
            for form, said in (("laplace", "Algorithm 1"), ("gaussian", "Algorithm 2"))
            for weight in [best_weight(study, form, EPSILON)]
        },
        "laplace-ours": (tuned(study, pure(EPSILON)), "ours, epsilon = 1"),
        "gaussian-ours": (tuned(study, approximate(EPSILON)), "ours, epsilon = 1, delta = 1e-6"),
    }
    for name, (case, words) in cases.items():
        over: dict[str, Case] = {f"mean degree {degree}": case | {"degree": degree} for degree in DEGREES}
        sketch(study, f"dola-topology-{name}", measured(study, over), f"Diabetes, 64 nodes: {words}")
