"""What `mirrormesh run` and `mirrormesh demo` show of the example meshes, over ten runs with exact noise.

    python experiments/examples.py

Ten runs of each example as it is shipped: its own seed, so runs differ in the noise alone. Those of tracking
have 500 rounds, the demo, whose target keeps moving, its 2,000. Of each figure the median, the least and the
largest. `off`: the distance between what is learnt and the target, at the end; `regret`: the largest of the
nodes' own, a round. The demo's errors are means over the second half. `money-fx` is left out where its data
are not here. Writes examples.csv.
"""

import os
from pathlib import Path

import numpy as np

from experiments.harness.data import VARIABLE
from experiments.harness.figures import table
from experiments.harness.study import Measured, Study
from experiments.harness.texts import FILE as TEXTS
from streams.local.results import Summary
from streams.local.run import LocalRun, mesh_parts, without_neighbours, without_privacy
from streams.mesh.file import MeshFile, load
from streams.mesh.shipped import example_mesh
from streams.records.localisation import target_path
from streams.terminal.demo import EXAMPLE, Tracked, tracked
from streams.tools.model.writing import run

RUNS = 10
TRACKED, DEMO_ROUNDS = 500, 2_000
"""Rounds of an example of tracking, and of the demo."""
TRACKING = ("tracking", "tracking-paper", "tracking-mahalanobis", "tracking-switching")
OTHERS = (
    "income",
    "income-gaussian",
    "income-moments",
    "forest-cover",
    "emergency-visits",
    "emergency-sums",
    "experts",
)
DEMO = {"": lambda file: file, "_open": without_privacy, "_alone": without_neighbours}


def example(seed: int, *, name: str, rounds: int | None) -> Measured:  # noqa: ARG001 # of the run: noise is exact
    """Return what a run of an example prints: figures by name."""
    file = load(example_mesh(f"{name}.yaml"))
    summary = run(file, rounds=rounds).summary
    found = _scored(summary)
    if name in TRACKING or name == "experts":
        found["regret"] = max(node.regret for node in summary.nodes)
    if name in TRACKING:
        target = target_path(file.mesh.seed, summary.rounds, file.mesh.target)[-1]
        found["off"] = float(np.linalg.norm(np.array(summary.decision) - target))
    return {figure: np.array(value) for figure, value in found.items()}


def demo(seed: int, *, rounds: int) -> Measured:  # noqa: ARG001 # as above
    """Return a demo's errors and network regrets, and how many times as far off the sensors are alone."""
    file = load(example_mesh(EXAMPLE))
    found: dict[str, float] = {}
    for suffix, changed in DEMO.items():
        one = _tracked(changed(file), rounds)
        found |= {f"error{suffix}": one.final_error, f"regret{suffix}": one.final_regret}
    found["times"] = found["error_alone"] / found["error"]
    return {figure: np.array(value) for figure, value in found.items()}


def main(study: Study) -> None:
    """Write examples: example, figure, median, least, largest."""
    rounds = dict.fromkeys(TRACKING, TRACKED) | dict.fromkeys(OTHERS)
    if (Path(os.environ.get(VARIABLE, "")) / TEXTS).is_file():
        rounds["money-fx"] = None
    cases = {name: {"name": name, "rounds": number} for name, number in rounds.items()}
    found = study.repeated(example, cases, RUNS)
    found |= study.repeated(demo, {"demo": {"rounds": DEMO_ROUNDS}}, RUNS)
    rows = [
        [name, figure, float(np.median(values)), float(values.min()), float(values.max())]
        for name, figures in found.items()
        for figure, values in figures.items()
    ]
    table(study.output, "examples", ("example", "figure", "median", "least", "largest"), rows)


def _scored(summary: Summary) -> dict[str, float]:
    """Return accuracy, AUC and the share of zeros, where there are any."""
    score = summary.score
    if score is None:
        return {}
    figures = {"accuracy": score.accuracy, "majority": score.majority, "auc": score.auc}
    known = {name: value for name, value in figures.items() if value is not None}
    return known | ({"zeros": summary.zeros} if summary.zeros else {})


def _tracked(file: MeshFile, rounds: int) -> Tracked:
    local = LocalRun(mesh_parts(file, rounds=rounds))
    local.mesh.run()
    local.finish()
    return tracked("", file, local, target_path(file.mesh.seed, rounds, file.mesh.target))


if __name__ == "__main__":
    main(Study(Path(__file__).with_name("results"), workers=1))
