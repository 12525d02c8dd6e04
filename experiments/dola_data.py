"""Average regret against the data set (Li et al. 2018, figure 4): Diabetes, Covertype, Adult.

64 nodes on a random graph of mean degree 4, epsilon = 1; 500 records each.
As printed, at the lambda of the least hinge loss of each set, without privacy, and ours at the same
guarantee, with settings that a pilot on rows made up in each set's shape chose. dola-data.csv has
lambda, and how each ends.
"""

from experiments.harness.dola_figures import (
    WEIGHT,
    Case,
    approximate,
    banded,
    best_weight,
    checkpoints,
    measured,
    printed,
    pure,
    sketch,
    tuned,
)
from experiments.harness.figures import table
from experiments.harness.study import Study

SETS = ("diabetes", "covertype", "adult")
EPSILON = 1.0
HEADER = (
    *("form", "data", "lambda", "regret", "regret_p10", "regret_p90"),
    *("hinge", "hinge_p10", "hinge_p90"),
)


def main(study: Study) -> None:
    """Draw dola-data-{none,laplace,gaussian,laplace-ours,gaussian-ours}."""
    looks = checkpoints(study)
    words = {
        "none": "no privacy, lambda = 0.01",
        "laplace": "Algorithm 1 as printed, epsilon = 1",
        "gaussian": "Algorithm 2 as printed, epsilon = 1",
        "laplace-ours": "ours, epsilon = 1",
        "gaussian-ours": "ours, epsilon = 1, delta = 1e-6",
    }
    rows: list[list[object]] = []
    for name, title in words.items():
        cases: dict[str, Case] = {
            data.capitalize(): _case(study, name, data, looks) | {"data": data, "checkpoints": looks}
            for data in SETS
        }
        found = measured(study, cases)
        sketch(study, f"dola-data-{name}", found, f"64 nodes: {title}", looks=looks)
        for said, one in found.items():
            ends = [number for of in ("regret", "hinge") for number in banded(one[of][:, -1])]
            rows.append([name, said, cases[said].get("weight", WEIGHT), *ends])
    table(study.output, "dola-data", HEADER, rows)


def _case(study: Study, name: str, data: str, looks: list[int]) -> Case:
    match name:
        case "laplace-ours":
            return tuned(study, pure(EPSILON), data=data)
        case "gaussian-ours":
            return tuned(study, approximate(EPSILON), data=data)
        case "none":
            return printed("laplace", None)
    weight = best_weight(study, name, EPSILON, data=data, checkpoints=looks)
    return printed(name, EPSILON, weight)
