"""What one small reluctant party does to all, and what its influence by noise costs.

    MIRRORMESH_DATA=FOLDER python experiments/influence.py

The star is scenario 1 of figure 6 of Wu et al. 2020: an owner of 10,000 loans at epsilon 10, and two of 1,000
at 0.1. Its figure is psi by `weights: records` and by `weights: noise`.

The mesh is `tracking.yaml` with one of its six nodes at epsilon 0.02. Its figure is the network's regret a
round, where every node has the mesh's clip, and where that node's is shorter, as by default. It is run where
nodes are alike (they measure one target), and where that node's optimum lies elsewhere (a target at rest, of
which it measures distances that are too long). There `off` is the distance of the last quarter's mean
decision from the best one for all losses.

Five seeds each, simulated noise. Writes influence.csv: the median, the least and the largest of five.
"""

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml

from experiments.harness.figures import table
from experiments.harness.star import BOUND, QUERIES, cost, step
from experiments.harness.star_data import star
from experiments.harness.study import Measured, Study
from nodes.collaboration.forecast import Cost
from nodes.collaboration.steps import Terms, by_noise, by_records, weights
from nodes.losses.losses import Squared
from nodes.values import FloatArray
from streams.local.results import summarise
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.file import load
from streams.mesh.shipped import example_mesh
from streams.records.localisation import sensor
from topology.keyed import generator

RUNS = 5
SIZES, EPSILONS = (10_000, 1_000, 1_000), (10.0, 0.1, 0.1)
RELUCTANT, EPSILON = "west", Fraction(1, 50)
ROUNDS = 2_000
TARGET, LONGER, ERROR = (0.6, 0.3), 1.0, 0.05
"""Of the target at rest: its place, what the reluctant sensor measures too much, and all sensors' errors."""


def star_psi(seed: int, *, form: str, quick: bool) -> Measured:
    """Return psi of one run of scenario 1, the weights by that form: plain steps over the three owners."""
    sizes = [size // 10 for size in SIZES] if quick else list(SIZES)
    whole, least = cost("loans", sum(sizes), quick=quick)
    features, labels = star("loans", quick=quick).rest
    bound, steps = BOUND["loans"], step("loans", whole.dimension, 2)
    ends = np.cumsum(sizes)
    owners = [
        Cost(Squared(), features[end - size : end], labels[end - size : end])
        for end, size in zip(ends, sizes, strict=True)
    ]
    scales = [2 * bound * QUERIES / (n * epsilon) for n, epsilon in zip(sizes, EPSILONS, strict=True)]
    weigh = by_noise(whole.dimension, bound) if form == "noise" else by_records
    influence = np.array([weigh(Terms(n, 2**0.5 * b)) for n, b in zip(sizes, scales, strict=True)])
    shares = weights(influence, np.ones(len(sizes), np.bool_))
    random, stage = generator("influence", seed), steps.start()
    for _ in range(QUERIES):
        gradient = np.zeros(whole.dimension)
        for share, owner, scale in zip(shares, owners, scales, strict=True):
            answer = owner.clipped_gradient(stage.parameters, bound, 1)
            gradient += share * (answer + random.laplace(scale=scale, size=whole.dimension))
        stage = steps.advance(stage, gradient)
    return {"value": np.array(float(whole.at(stage.average)) / least - 1)}


def mesh_regret(seed: int, *, own: Mapping[str, float], elsewhere: bool, rounds: int) -> Measured:
    """Return the network's regret a round; `own`: what the reluctant node has otherwise."""
    path = example_mesh("tracking.yaml")
    tree = yaml.safe_load(path.read_text())
    mesh = tree["mesh"]
    mesh["nodes"] = {name: dict(own) if name == RELUCTANT else {} for name in mesh["nodes"]}
    mesh["privacy"]["noise"], mesh["rounds"], mesh["seed"] = "simulated", rounds, seed
    with TemporaryDirectory() as folder:
        if elsewhere:
            tree["nodes"] = {
                name: {"source": source} for name, source in _at_rest(Path(folder), mesh, seed).items()
            }
        (Path(folder) / "mesh.yaml").write_text(yaml.safe_dump(tree))
        file = load(Path(folder) / "mesh.yaml")
        local = LocalRun(mesh_parts(file))
        local.mesh.run()
        local.mesh.close()
        regret = summarise(file, local.recorder, None).network_regret
    found = {"value": np.array(regret)}
    if elsewhere:
        decisions = local.recorder.decisions()
        late = decisions[-(rounds // 4) :].mean((0, 1))
        found["off"] = np.array(float(np.linalg.norm(late - _best(len(mesh["nodes"])))))
    return found


def _at_rest(folder: Path, mesh: Mapping[str, Any], seed: int) -> dict[str, dict[str, object]]:
    """Write what six sensors measure of a target at rest; return their sources."""
    sources: dict[str, dict[str, object]] = {}
    names = list(mesh["nodes"])
    for number, name in enumerate(names):
        x, y = sensor(number, len(names))
        distance = float(np.hypot(TARGET[0] - x, TARGET[1] - y)) + LONGER * (name == RELUCTANT)
        noise = generator("at rest", seed, name).normal(scale=ERROR, size=int(mesh["rounds"]))
        lines = [f"{x!r},{y!r},{distance + error!r}" for error in noise.tolist()]
        (folder / f"{name}.csv").write_text("\n".join(["x,y,z", *lines]) + "\n")
        schema = {"features": {"x": "number", "y": "number"}, "label": {"column": "z"}}
        sources[name] = {"kind": "csv", "path": f"{name}.csv", "schema": schema}
    return sources


def _best(sensors: int) -> FloatArray:
    """Return the decision of least loss for all sensors together, by small steps down the gradient."""
    places = np.array([sensor(number, sensors) for number in range(sensors)])
    names = list(yaml.safe_load(example_mesh("tracking.yaml").read_text())["mesh"]["nodes"])
    measured = np.linalg.norm(np.array(TARGET) - places, axis=1)
    measured[names.index(RELUCTANT)] += LONGER
    x = np.array(TARGET)
    for _ in range(20_000):
        apart = x - places
        lengths = np.linalg.norm(apart, axis=1)
        x = x - 0.01 * ((lengths - measured) / lengths) @ apart / sensors
    return np.asarray(x)


CLIPPED: dict[str, dict[str, float]] = {
    "all at epsilon 1": {},
    "one at 0.02, the mesh's clip": {"epsilon": float(EPSILON), "gradient_bound": 0.5},
    "one at 0.02, its own clip": {"epsilon": float(EPSILON)},
}


def main(study: Study) -> None:
    """Write influence.csv."""
    rounds = 60 if study.quick else ROUNDS
    cases = {
        (kind, label): {"own": own, "elsewhere": kind == "elsewhere", "rounds": rounds}
        for kind in ("alike", "elsewhere")
        for label, own in CLIPPED.items()
    }
    stars = {
        ("star", f"weights: {form}"): {"form": form, "quick": study.quick} for form in ("records", "noise")
    }
    names = {" ".join(case): case for case in (*stars, *cases)}
    runs = study.repeated(star_psi, {" ".join(case): one for case, one in stars.items()}, RUNS)
    runs |= study.repeated(mesh_regret, {" ".join(case): one for case, one in cases.items()}, RUNS)
    rows = [
        [kind, label, measure, *_spread(values)]
        for name, (kind, label) in names.items()
        for measure, values in _measures(kind, runs[name])
    ]
    table(study.output, "influence", ["scenario", "case", "measure", "median", "least", "largest"], rows)


def _measures(kind: str, run: Measured) -> list[tuple[str, FloatArray]]:
    first = "psi" if kind == "star" else "regret/T"
    return [(first, run["value"]), *([("off", run["off"])] if "off" in run else [])]


def _spread(values: FloatArray) -> list[float]:
    return [float(np.median(values)), float(values.min()), float(values.max())]


if __name__ == "__main__":
    main(Study(Path(__file__).with_name("results"), workers=1))
