"""Each node's regret at epsilon = 5, in the localisation example (Zhou, Li 2025, figure 2).

R_T^i/T of the six sensors, means over runs: as printed; as printed but for the noise's index (alpha of the
step that made x_t, not of the next one: what epsilon = 5 of a release takes); and ours, of the whole stream.
"""

from experiments.harness.figures import Curve, draw
from experiments.harness.localisation import OURS, OURS_STEP, printed_regret, regret
from experiments.harness.study import Study
from nodes.values import FloatArray

ROUNDS, RUNS = 500, 50
EPSILON = 5.0
WORDS = {
    "printed": "as printed",
    "made": "as printed, noise of the step made",
    "ours": "randomised clipped gradients",
}


def main(study: Study) -> None:
    """Draw tracking-nodes, tracking-nodes-made and tracking-nodes-ours."""
    rounds = 60 if study.quick else ROUNDS
    printed = {index: {"rounds": rounds, "epsilon": EPSILON, "index": index} for index in ("printed", "made")}
    ours = {"ours": {"rounds": rounds, "privacy": OURS | {"epsilon": EPSILON}, "step": OURS_STEP}}
    found = study.repeated(printed_regret, printed, RUNS) | study.repeated(regret, ours, RUNS)
    for case, one in found.items():
        name = "tracking-nodes" if case == "printed" else f"tracking-nodes-{case}"
        draw(
            study.output,
            name,
            _curves(one["regret"]),
            title=f"Localisation, epsilon = {EPSILON:g}: {WORDS[case]}",
            x="rounds T",
            y="R_T^i / T",
            scales=("linear", "log"),
        )


def _curves(regrets: FloatArray) -> dict[str, Curve]:
    """Return a curve a node, of regrets (R, T, N)."""
    rounds, nodes = regrets.shape[1:]
    x = range(1, rounds + 1)
    return {f"sensor {number + 1}": Curve.over(x, regrets[:, :, number]) for number in range(nodes)}
