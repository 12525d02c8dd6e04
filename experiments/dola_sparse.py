"""Accuracy against sparsity, Sparse DOLA (Li et al. 2018, Algorithm 3): figures 5a, by graph, 5b, by set.

The paper's sets, Real-sim and RCV1, are not at hand. 5a: Reuters-21578, topic money-fx, its 1,000 commonest
words (ten runs of all 8,315 at 64 nodes would take hours), on random graphs of mean degree 2, 4, 8. 5b:
beside it Adult, its categories as binary vectors, of whose 104 numbers 14 or fewer are not zero. 64 nodes,
one pass, thresholds alpha_t rho for several rho; each node's last decision on the held-out rows. All but
5.4 % of the texts are of one class, so the AUC stands beside the accuracy. As printed: Laplace noise on the
dual state, sensitivity 2 alpha_t sqrt(d) L, steps 10/sqrt(t). Ours at the same pure epsilon, and with delta:
mechanism, slot size and step of the best AUC at rho = 0 on a pilot, which is made-up texts, or the part of
Adult that is declared public. `few`: four nodes, epsilon = 8.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.harness.dola import NOTHING
from experiments.harness.dola_figures import RUNS, Case, approximate, chosen, grid, printed, pure, words
from experiments.harness.figures import Curve, draw, table
from experiments.harness.sparse import learned
from experiments.harness.study import Study
from nodes.values import FloatArray

DEGREES, RHOS, EPSILON = (2, 4, 8), (0.0, 0.15, 0.5), 1.0
STEP = {"rule": "inverse-sqrt", "a": 10.0}
BATCHES, STEPS = (8, 30, 120), (3.0, 30.0)
TEXTS, ADULT = "reuters-common", "adult-binary"
SETS = {TEXTS: "Reuters money-fx", ADULT: "Adult"}
SCALES = {"printed": {TEXTS: 100.0, ADULT: 300.0}}
"""rho is times this (Adult: else 3): thresholds must be as long as the noise to do anything."""
FORMS = {
    "none": "no privacy",
    "printed": "as printed, epsilon = 1",
    "ours": "ours, epsilon = 1",
    "ours-delta": "ours, epsilon = 1, delta = 1e-6",
}
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
        scale: float = 1.0,
        of: str = "accuracy",
    ) -> Curve:
        """Return `of` against the share of zeros, rho times `scale`."""
        shared = {"data": data, "nodes": nodes, "degree": degree, "quick": self.study.quick}
        cases = {f"{rho * scale:g}": shared | case | {"lasso": rho * scale} for rho in RHOS}
        found = self.study.repeated(learned, cases, RUNS)
        for rho, one in found.items():
            figures = [*_banded(one["accuracy"]), *_banded(one["auc"])]
            zeros = float(one["zeros"].mean())
            self.rows.append([form, data, nodes, degree, rho, zeros, *figures, *words(case)])
        x = [float(one["zeros"].mean()) for one in found.values()]
        return Curve.over(x, np.concatenate([one[of] for one in found.values()], -1))


def main(study: Study) -> None:
    """Draw dola-sparse-{none,printed,ours}, -data-..., and -few; write dola-sparse.csv, with the AUC."""
    done, nodes = Sparsity(study, []), 16 if study.quick else 64
    for form, said in FORMS.items():
        cases = {data: _case(done, form, data, nodes) for data in SETS}
        scales = SCALES.get(form, {TEXTS: 1.0, ADULT: 3.0})
        over = [4] if form == "ours-delta" else DEGREES
        graphs = {
            f"mean degree {degree}": done.curve(
                form, cases[TEXTS], TEXTS, nodes=nodes, degree=degree, scale=scales[TEXTS]
            )
            for degree in over
        }
        adult = done.curve(form, cases[ADULT], ADULT, nodes=nodes, scale=scales[ADULT])
        sets = {SETS[TEXTS]: graphs["mean degree 4"], SETS[ADULT]: adult}
        if len(graphs) > 1:
            _draw(study, form, graphs, f"Reuters money-fx, {nodes} nodes: {said}")
        _draw(study, f"data-{form}", sets, f"{nodes} nodes, mean degree 4: {said}")
    _few(done)
    table(study.output, "dola-sparse", HEADER, done.rows)


def _few(done: Sparsity) -> None:
    """Draw four nodes at an epsilon that leaves much of the model, and the same settings without noise."""
    ours = done.tuned(approximate(8.0), TEXTS, 4)
    plain = ours | {"noise": NOTHING}
    curves = {
        said: done.curve(form, case, TEXTS, nodes=4, scale=0.3, of="auc")
        for form, said, case in (
            ("none", "no privacy", plain),
            ("epsilon-8", "ours, epsilon = 8, delta = 1e-6", ours),
        )
    }
    _draw(done.study, "few", curves, "Reuters money-fx, 4 nodes", y="AUC")


def _case(done: Sparsity, form: str, data: str, nodes: int) -> Case:
    match form:
        case "ours":
            return done.tuned(pure(EPSILON), data, nodes)
        case "ours-delta":
            return done.tuned(approximate(EPSILON), data, nodes)
    return printed("laplace", None if form == "none" else EPSILON) | {"step": STEP}


def _draw(study: Study, name: str, curves: dict[str, Curve], title: str, y: str = "accuracy") -> None:
    draw(
        study.output,
        f"dola-sparse-{name}",
        curves,
        title=title,
        x="share of zeros",
        y=y,
        points=True,
    )


def _banded(runs: FloatArray) -> tuple[float, float, float]:
    low, high = np.percentile(runs, [10, 90])
    return float(runs.mean()), float(low), float(high)
