"""Mini-batches (Li et al. 2018, Algorithm 4, figures 6b, 6c): regret at the levels of 3a, nodes' distance.

Diabetes, 64 nodes, epsilon none, 1, 0.1, 0.01; the paper does not print h: ours is 10, and 1 and 100 stand
beside it at 0.01. As printed, noise on the parameters divided by h, at the lambda of dola-privacy-laplace;
ours is the mechanism and step that the pilot chose for each h at the same pure epsilon.
"""

from experiments.harness.dola_figures import (
    BATCHES,
    EPSILONS,
    Case,
    best_weight,
    label,
    measured,
    plain,
    printed,
    pure,
    sketch,
    tuned,
)
from experiments.harness.study import Study

SIZE, STRICT = 10, 0.01
APART = "sum_i ||w_i - mean||^2"


def main(study: Study) -> None:
    """Draw dola-batches{,-ours}, dola-apart{,-ours} over epsilon, dola-batches-sizes{,-ours} over h."""
    weight = best_weight(study, "laplace", 1.0)

    def theirs(epsilon: float | None, batch: int) -> Case:
        return printed("laplace", epsilon, weight) | ({} if batch == 1 else {"batch": batch})

    def ours(epsilon: float | None, batch: int) -> Case:
        return (
            plain() | {"batch": batch} if epsilon is None else tuned(study, pure(epsilon), batches=(batch,))
        )

    for name, words, case in (
        ("", f"Algorithm 4 as printed, lambda = {weight:g}", theirs),
        ("-ours", "ours", ours),
    ):
        found = measured(study, {label(epsilon): case(epsilon, SIZE) for epsilon in (None, *EPSILONS)})
        title = f"Diabetes, 64 nodes, h = {SIZE}: {words}"
        sketch(study, f"dola-batches{name}", found, title)
        sketch(study, f"dola-apart{name}", found, title, of="apart", y=APART)
        sizes = BATCHES[:2] if study.quick else BATCHES
        found = measured(study, {f"h = {batch}": case(STRICT, batch) for batch in sizes})
        sketch(study, f"dola-batches-sizes{name}", found, f"Diabetes, 64 nodes, epsilon = 0.01: {words}")
