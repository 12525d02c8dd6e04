"""What mini-batches do to the variance (Li, Zhou 2015, arXiv 1505.06556, figure 2): h = 1, 5, off-line.

Disjoint batches over the whole set, and the average of the iterates as the model: F at it, less the least,
mean and band over 50 runs. 100,000 records in the unit ball, d = 10, 64 nodes, epsilon = 0.1 (the paper's
is not known to us). As printed, and ours with the step that the pilot chose for each h at the same epsilon.
"""

from experiments.harness.dola_figures import Case, checkpoints, least, measured, printed, pure, sketch, tuned
from experiments.harness.study import Study

DATA, BATCHES, EPSILON, RUNS = "unit-ball", (1, 5), 0.1, 50


def main(study: Study) -> None:
    """Draw dola-variance{,-ours}."""
    lowest = least(study, DATA, [64 * checkpoints(study)[-1]])
    as_printed: dict[str, Case] = {
        f"h = {batch}": printed("laplace", EPSILON) | {"batch": batch} for batch in BATCHES
    }
    ours = {f"h = {batch}": tuned(study, pure(EPSILON), data=DATA, batches=(batch,)) for batch in BATCHES}
    for name, words, cases in (("", "as printed", as_printed), ("-ours", "ours", ours)):
        found = measured(study, cases, data=DATA, runs=RUNS, whole=True)
        excess = {label: {"excess": one["average"] - lowest} for label, one in found.items()}
        title = f"Unit ball, 64 nodes, epsilon = 0.1: {words}"
        sketch(study, f"dola-variance{name}", excess, title, of="excess", y="F(average) - min F")
