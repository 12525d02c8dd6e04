"""Accuracy of the SVM (Li et al. 2018, table 3): epsilon none, 1, 0.1, 0.01 at 1, 4 and 64 nodes.

Three quarters of the records train, split evenly over the nodes; accuracy and AUC on the last quarter, of a
node's last decision, mean over nodes and ten runs. The paper does not say here which set: Adult, its
categories as binary vectors, comes near its number without noise. lambda = 0.001. Ours, at the same pure
epsilon: the mechanism, slot size and step of the best accuracy on a pilot: every twentieth of the rows that
train, declared public and left out of all runs that are reported. `majority`: the larger class alone.
"""

from functools import partial

import numpy as np

from experiments.harness.dola import learned, records
from experiments.harness.dola_figures import RUNS, Case, chosen, grid, label, printed, pure, words
from experiments.harness.figures import Curve, draw, table
from experiments.harness.study import Study
from nodes.values import FloatArray

DATA, WEIGHT, NODES = "adult-binary", 0.001, (1, 4, 64)
PAPER = {
    None: (82.51, 74.64, 65.72),
    1.0: (82.51, 74.64, 65.72),
    0.1: (80.17, 70.86, 62.34),
    0.01: (75.69, 64.81, 50.36),
}
ROUNDS, STEPS, PILOT_RUNS = (4, 16, 64), (1.0, 3.0, 10.0, 30.0, 100.0), 2
"""What is tried: a node's stream in so many slots."""
FORMS = {"printed": "as printed", "ours": "ours"}
MEASURES = ("accuracy", "auc")
HEADER = (
    *("privacy", "nodes", "majority", "paper"),
    *(f"{form}_{measure}" for form in FORMS for measure in MEASURES),
    *("mechanism", "gradient_bound", "batch_size", "step_a"),
)


def main(study: Study) -> None:
    """Write dola-accuracy.csv; draw dola-accuracy-{printed,ours}."""
    steep = {"step": {"rule": "inverse", "a": 1 / WEIGHT}}
    out = records(DATA, quick=study.quick, held_out=True)[1]
    majority = float(max((out.labels > 0).mean(), (out.labels < 0).mean()))
    rows: list[list[object]] = []
    accuracies: dict[str, dict[str, list[FloatArray]]] = {form: {} for form in FORMS}
    for epsilon, papers in PAPER.items():
        for nodes, paper in zip(NODES, papers, strict=True):
            case = partial(_case, study, nodes)
            theirs = case(printed("laplace", epsilon) | steep)
            ours = theirs if epsilon is None else case(_ours(study, nodes, epsilon))
            found = study.repeated(learned, {"printed": theirs, "ours": ours}, RUNS)
            for form in FORMS:
                accuracies[form].setdefault(label(epsilon), []).append(found[form]["accuracy"][:, -1])
            figures = [float(found[form][measure][:, -1].mean()) for form in FORMS for measure in MEASURES]
            rows.append([label(epsilon), nodes, majority, paper / 100, *figures, *words(ours)])
    table(study.output, "dola-accuracy", HEADER, rows)
    flat = Curve(np.array(NODES, np.float64), np.full(len(NODES), majority))
    for form, said in FORMS.items():
        curves = {name: Curve.over(NODES, np.stack(runs, -1)) for name, runs in accuracies[form].items()}
        draw(
            study.output,
            f"dola-accuracy-{form}",
            curves | {"larger class alone": flat},
            title=f"Adult, categories as binary vectors: {said}",
            x="nodes",
            y="accuracy on held-out rows",
            scales=("log", "linear"),
            points=True,
        )


def _ours(study: Study, nodes: int, epsilon: float) -> Case:
    """Return what does best on the public part, drawn to as many records as a node is to learn from."""
    shared = _case(study, nodes, {"data": f"public {DATA}"})
    count = shared["checkpoints"][-1]
    rounds, steps, runs = (ROUNDS[:1], STEPS[:1], 1) if study.quick else (ROUNDS, STEPS, PILOT_RUNS)
    cases = {
        name: case | {"checkpoints": [count // case["batch"] * case["batch"]]}
        for name, case in grid(pure(epsilon), [count // number for number in rounds], steps).items()
    }
    return chosen(study, learned, cases, shared, by="accuracy", runs=runs)


def _case(study: Study, nodes: int, own: Case) -> Case:
    """Return the whole of a case: one pass over all records that train."""
    count = 1_280 if study.quick else len(records(DATA, quick=False, held_out=True)[0].labels)
    batch = own.get("batch", 1)
    return {
        "data": DATA,
        "quick": study.quick,
        "held_out": True,
        "nodes": nodes,
        "weight": WEIGHT,
        "checkpoints": [count // nodes // batch * batch],
    } | own
