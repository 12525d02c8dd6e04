"""Average regret against the data set (Li et al. 2018, figure 4): Diabetes, Covertype, Adult.

64 nodes on a random graph of mean degree 4, epsilon = 1; 44,800 records of each set, as Adult has no more.
As printed, without privacy, and ours at the same guarantee, with settings that a pilot on rows made up in
each set's shape chose.
"""

from experiments.harness.dola_figures import Case, approximate, measured, printed, pure, sketch, tuned
from experiments.harness.study import Study

SETS = ("diabetes", "covertype", "adult")
EPSILON = 1.0


def main(study: Study) -> None:
    """Draw dola-data-{none,laplace,gaussian,laplace-ours,gaussian-ours}."""
    looks = [10, 20] if study.quick else [100, 200, 300, 500, 700]
    words = {
        "none": "no privacy",
        "laplace": "Algorithm 1 as printed, epsilon = 1",
        "gaussian": "Algorithm 2 as printed, epsilon = 1",
        "laplace-ours": "ours, epsilon = 1",
        "gaussian-ours": "ours, epsilon = 1, delta = 1e-6",
    }
    for name, title in words.items():
        cases: dict[str, Case] = {
            data.capitalize(): _case(study, name, data) | {"data": data, "checkpoints": looks}
            for data in SETS
        }
        sketch(study, f"dola-data-{name}", measured(study, cases), f"64 nodes: {title}", looks=looks)


def _case(study: Study, name: str, data: str) -> Case:
    match name:
        case "laplace-ours":
            return tuned(study, pure(EPSILON), data=data)
        case "gaussian-ours":
            return tuned(study, approximate(EPSILON), data=data)
        case "none":
            return printed("laplace", None)
    return printed(name, EPSILON)
