"""Mini-batches (Li et al. 2018, Algorithm 4, figures 6b, 6c): regret at epsilon = 0.01, and nodes' distance.

h = 1, 10, 100 records a slot, Diabetes, 64 nodes. As printed noise on the parameters is divided by h; ours
is the mechanism and step that the pilot chose for each h at the same pure epsilon.
"""

from experiments.harness.dola_figures import BATCHES, Case, measured, printed, pure, sketch, tuned
from experiments.harness.study import Study

EPSILON = 0.01


def main(study: Study) -> None:
    """Draw dola-batches{,-ours} and dola-apart{,-ours}."""
    batches = BATCHES[:2] if study.quick else BATCHES
    as_printed: dict[str, Case] = {
        f"h = {batch}": printed("laplace", EPSILON) | {"batch": batch} for batch in batches
    }
    ours = {f"h = {batch}": tuned(study, pure(EPSILON), batches=(batch,)) for batch in batches}
    for name, words, cases in (("", "Algorithm 4 as printed", as_printed), ("-ours", "ours", ours)):
        found = measured(study, cases)
        title = f"Diabetes, 64 nodes, epsilon = 0.01: {words}"
        sketch(study, f"dola-batches{name}", found, title)
        sketch(study, f"dola-apart{name}", found, title, of="apart", y="sum_i ||w_i - mean||^2")
