"""Each node's regret at epsilon = 5, in the localisation example (Zhou, Li 2025, figure 2).

E[R_T^i]/T of the six sensors by Definition 1: as printed; as printed but for the noise's index (alpha of the
step that made x_t, not of the next one: what epsilon = 5 of a release takes); and ours, of the whole stream.
The six lines are one on the page, so a second panel has how far each is from their mean.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from experiments.harness.expected_regret import AT, BAND, Regrets
from experiments.harness.figures import STYLE, Curve, add_line, save, table
from experiments.harness.labels import name_lines
from experiments.harness.localisation import OURS, OURS_STEP, our_runs, printed_runs
from experiments.harness.study import FEW, Study

ROUNDS, RUNS = 500, 200
EPSILON = 5.0
WORDS = {
    "printed": "as printed",
    "made": "as printed, noise of the step made",
    "ours": "randomised clipped gradients",
}


def main(study: Study) -> None:
    """Draw tracking-nodes, tracking-nodes-made and tracking-nodes-ours."""
    size = {"rounds": 60, "runs": FEW} if study.quick else {"rounds": ROUNDS, "runs": RUNS}
    printed = {index: size | {"epsilon": EPSILON, "index": index} for index in ("printed", "made")}
    ours = {"ours": size | {"privacy": OURS | {"epsilon": EPSILON}, "step": OURS_STEP}}
    found = study.repeated(printed_runs, printed, 1) | study.repeated(our_runs, ours, 1)
    for case, one in found.items():
        name = "tracking-nodes" if case == "printed" else f"tracking-nodes-{case}"
        regrets = Regrets.of(one)
        with plt.style.context(STYLE):
            save(study.output, name, _figure(regrets, f"Localisation, epsilon = {EPSILON:g}: {WORDS[case]}"))
        rows = [
            [f"sensor {node + 1}", T, *regrets.of_node(node, T)]
            for node in range(regrets.paid.shape[2])
            for T in regrets.points
        ]
        table(study.output, name, ("curve", "x", *AT), rows)


def _figure(regrets: Regrets, title: str) -> Figure:
    figure, (level, apart) = plt.subplots(2, sharex=True, figsize=(6.4, 6.4))
    middle = regrets.by_definition.mean(1)
    rounds = np.arange(1, len(middle) + 1)
    own = np.concatenate(regrets.own.transpose(2, 0, 1))
    add_line(level, "mean of six", Curve.within(rounds, middle, own))
    level.set(title=f"{title}\n{BAND}", yscale="log", ylabel="$E[R_T^i]/T$\n(loss a round)")
    name_lines(level)
    for node, regret in enumerate(regrets.by_definition.T):
        apart.plot(rounds, 100 * (regret / middle - 1), label=f"sensor {node + 1}")
    apart.set(xlabel="rounds T", ylabel="from their mean\n(%)")
    name_lines(apart)
    return figure
