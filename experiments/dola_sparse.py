"""Accuracy against sparsity by data set, Sparse DOLA (Li et al. 2018, Algorithm 3, figure 5b).

The paper's sets, Real-sim and RCV1, are not at hand: Reuters-21578, topic money-fx, its 1,000 commonest words
(ten runs of all 8,315 at 64 nodes would take hours), and Adult, its categories as binary vectors. 64 nodes of
mean degree 4, whose pairs are on half of the time; one pass, thresholds alpha_t rho for eight rho; each
node's last decision on the held-out rows. All but 5.4 % of the texts are of one class, so the AUC is drawn,
and the accuracy stands in the table. Without privacy and as printed: slots of 8, steps 80/sqrt(t); as
printed: Laplace noise on the dual state, sensitivity 2 alpha_t sqrt(d) L/h. Ours at the same pure epsilon:
mechanism, slot size and step of the best AUC at rho = 0 on a pilot, which is made-up texts, or the part of
Adult that is declared public.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.harness.dola import NOTHING
from experiments.harness.dola_figures import (
    RUNS,
    Case,
    banded,
    chosen,
    grid,
    printed,
    pure,
    words,
)
from experiments.harness.figures import Curve, draw, table
from experiments.harness.sparse import learned
from experiments.harness.study import Study

EPSILON = 1.0
RHOS = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3)
PLAIN: Case = {"noise": NOTHING, "step": {"rule": "inverse-sqrt", "a": 80.0}, "batch": 8}
BATCHES, STEPS = (8, 30, 120), (3.0, 30.0)
TEXTS, ADULT = "reuters-common", "adult-binary"
SETS = {TEXTS: "Reuters money-fx", ADULT: "Adult"}
SCALES = {
    ("none", TEXTS): 1.0,
    ("none", ADULT): 5.0,
    ("printed", TEXTS): 200.0,
    ("printed", ADULT): 200.0,
    ("ours", TEXTS): 10.0,
    ("ours", ADULT): 2.0,
}
"""rho is times this: thresholds must be as long as the noise to do anything."""
FORMS = {"none": "no privacy", "printed": "as printed, epsilon = 1", "ours": "ours, epsilon = 1"}
HEADER = (
    *("form", "data", "nodes", "mean_degree", "rho", "zeros", "accuracy", "accuracy_p10", "accuracy_p90"),
    *("auc", "auc_p10", "auc_p90", "mechanism", "gradient_bound", "batch_size", "step_a"),
)


@dataclass
class Sparsity:
    """Runs over several rho, and what they came to: `rows` of dola-sparse.csv."""

    study: Study
    rows: list[list[object]]

    def tuned(self, mechanisms: list[Any], data: str, nodes: int) -> Case:
        """Return what ranks the pilot's held-out rows best, without a lasso."""
        quick = self.study.quick
        cases = grid(mechanisms, BATCHES[:1] if quick else BATCHES, STEPS[:1] if quick else STEPS)
        shared = {
            "data": f"public {data}" if data == ADULT else f"like {data}",
            "nodes": nodes,
            "lasso": 0.0,
            "quick": quick,
        }
        return chosen(self.study, learned, cases, shared, by="auc")

    def curve(
        self,
        form: str,
        case: Case,
        data: str,
        *,
        nodes: int,
        degree: int = 4,
        rhos: Sequence[float] = RHOS,
        scale: float = 1.0,
    ) -> Curve:
        """Return the AUC against the share of zeros, rho times `scale`."""
        shared = {"data": data, "nodes": nodes, "degree": degree, "quick": self.study.quick}
        asked = rhos[::3] if self.study.quick else rhos
        cases = {f"{rho * scale:g}": shared | case | {"lasso": rho * scale} for rho in asked}
        found = self.study.repeated(learned, cases, RUNS)
        for rho, one in found.items():
            figures = [*banded(one["accuracy"]), *banded(one["auc"])]
            zeros = float(one["zeros"].mean())
            self.rows.append([form, data, nodes, degree, rho, zeros, *figures, *words(case)])
        x = [float(one["zeros"].mean()) for one in found.values()]
        return Curve.over(x, np.concatenate([one["auc"] for one in found.values()], -1))


def main(study: Study) -> None:
    """Draw dola-sparse-data-{none,printed,ours}; write dola-sparse.csv."""
    done, nodes = Sparsity(study, []), 16 if study.quick else 64
    for form, said in FORMS.items():
        sets = {
            name: done.curve(
                form, _case(done, form, data, nodes), data, nodes=nodes, scale=SCALES[form, data]
            )
            for data, name in SETS.items()
        }
        sketch(study, f"dola-sparse-data-{form}", sets, f"{nodes} nodes, mean degree 4: {said}")
    table(study.output, "dola-sparse", HEADER, done.rows)


def _case(done: Sparsity, form: str, data: str, nodes: int) -> Case:
    if form == "ours":
        return done.tuned(pure(EPSILON), data, nodes)
    return PLAIN | {"noise": printed("laplace", None if form == "none" else EPSILON)["noise"]}


def sketch(study: Study, name: str, curves: dict[str, Curve], title: str) -> None:
    """Draw the AUC against the share of zeros."""
    draw(
        study.output,
        name,
        curves,
        title=title,
        x="share of zeros",
        y="AUC on held-out rows",
        points=True,
    )
