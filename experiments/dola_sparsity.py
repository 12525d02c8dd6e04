"""Ranking against sparsity, Sparse DOLA (Li et al. 2018, Algorithm 3, figure 5a), by graph; and few nodes.

The paper's set, Real-sim, is not at hand: Reuters-21578, topic money-fx, its 1,000 commonest words, stands
in. All but 5.4 % of the texts are of one class, so the AUC is drawn; the accuracy stands in the table. By
graph: 64 nodes, mean degree 2, 4, 8, pairs on half of the time, without privacy, slots of 8, steps
80/sqrt(t). `few`: four nodes, epsilon = 8 and delta = 1e-6, mechanism, slot size and step of the best AUC at
rho = 0 on made-up texts, and the same settings without noise. One pass, thresholds alpha_t rho for eight rho,
each node's last decision on the held-out rows, ten runs.
"""

from experiments.dola_sparse import HEADER, PLAIN, TEXTS, Sparsity, sketch
from experiments.harness.dola import NOTHING
from experiments.harness.dola_figures import approximate
from experiments.harness.figures import table
from experiments.harness.study import Study

DEGREES = (2, 4, 8)
FEW_RHOS = (0.0, 0.005, 0.01, 0.02, 0.045, 0.08, 0.15, 0.3)


def main(study: Study) -> None:
    """Draw dola-sparsity-few and dola-sparsity-graphs; write dola-sparsity.csv."""
    done, nodes = Sparsity(study, []), 16 if study.quick else 64
    _few(done)
    graphs = {
        f"mean degree {degree}": done.curve("none", PLAIN, TEXTS, nodes=nodes, degree=degree)
        for degree in DEGREES
    }
    sketch(study, "dola-sparsity-graphs", graphs, f"Reuters money-fx, {nodes} nodes: no privacy")
    table(study.output, "dola-sparsity", HEADER, done.rows)


def _few(done: Sparsity) -> None:
    """Draw four nodes at an epsilon that leaves much of the model, and the same settings without noise."""
    ours = done.tuned(approximate(8.0), TEXTS, 4)
    plain = ours | {"noise": NOTHING}
    curves = {
        said: done.curve(form, case, TEXTS, nodes=4, rhos=FEW_RHOS)
        for form, said, case in (
            ("none", "no privacy", plain),
            ("epsilon-8", "ours, epsilon = 8, delta = 1e-6", ours),
        )
    }
    sketch(done.study, "dola-sparsity-few", curves, "Reuters money-fx, 4 nodes")
