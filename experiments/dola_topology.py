"""Average regret against the topology (Li et al. 2018, figures 3c and 3d).

Topologies 1, 2, 3 are sparse, medium and dense random graphs; the paper gives no numbers: here Erdos-Renyi
graphs of 64 nodes with mean degree 2, 4, 8, made connected. Diabetes, epsilon = 1, as `dola_privacy`; ours
has the settings that the pilot chose on degree 4. Without noise beside it: there the graph alone counts.
"""

from experiments.harness.dola_figures import Case, approximate, measured, printed, pure, sketch, tuned
from experiments.harness.study import Study

DEGREES = (2, 4, 8)
EPSILON = 1.0


def main(study: Study) -> None:
    """Draw dola-topology-{none,laplace,gaussian,laplace-ours,gaussian-ours}."""
    cases = {
        "none": (printed("laplace", None), "no privacy"),
        "laplace": (printed("laplace", EPSILON), "Algorithm 1 as printed, epsilon = 1"),
        "gaussian": (printed("gaussian", EPSILON), "Algorithm 2 as printed, epsilon = 1"),
        "laplace-ours": (tuned(study, pure(EPSILON)), "ours, epsilon = 1"),
        "gaussian-ours": (tuned(study, approximate(EPSILON)), "ours, epsilon = 1, delta = 1e-6"),
    }
    for name, (case, words) in cases.items():
        over: dict[str, Case] = {f"mean degree {degree}": case | {"degree": degree} for degree in DEGREES}
        sketch(study, f"dola-topology-{name}", measured(study, over), f"Diabetes, 64 nodes: {words}")
