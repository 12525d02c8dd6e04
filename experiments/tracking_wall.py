"""Following by public directions (`curvature: public`) beside a Kalman filter that sees all distances.

    python experiments/tracking_wall.py

The product's mesh, run by its engine with seeded noise: no prototype. Paths are those of
`experiments/curvature_rules.py`:

| path | what |
|---|---|
| wall | eight sensors in one wall, a target at rest, in motion, at rest; 3 % of the distances are missing |
| wall, echoes | the same; 5 % of the distances are 0 to 2 m too long, and each sensor is away once, for 4 s |
| eights 0.001, 0.003, 0.01 | six sensors around figures of eight, by the target's way in a round |

The wall's figure is the 95th percentile of a node's distance from the target, in metres from 10 s on, before
the round's distances are learnt from; that of eights the root mean square over the second half. The height of
the target is public and up to 3 cm wrong. The jerk is chosen on pilot paths: the largest whose error is at
most 1.15 times the least. A run is lost above 1, of eights above 0.1. 50 runs each. Writes tracking-wall.csv
and tracking-eights.csv, of which only the first is in the repository.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.curvature_rules import (
    FRESH,
    HEIGHT,
    JERKS,
    NEAR,
    PERIOD,
    PRESENCE,
    WALL,
    WALL_JERKS,
    scored,
    wall_paths,
)
from experiments.harness.figures import table
from experiments.harness.meshes import node_name, seeded
from experiments.harness.moving_runs import others, pilots
from experiments.harness.moving_targets import ERROR, distances, sensors
from experiments.harness.study import Measured, Study
from nodes.dynamics import motion
from nodes.following import Following, white_noise
from nodes.learner import Engine
from nodes.privacy.exact import SimulatedSampler
from nodes.values import BoolArray, FloatArray, Observations
from streams.mesh.settings.mesh import MeshSettings
from topology.keyed import generator
from topology.schedules import Copies

RUNS, GRAPHS, EPSILONS = 50, ("complete", "ring"), (4.0, 1.0)
TABLES = {
    "tracking-wall": ("wall", "wall, echoes"),
    "tracking-eights": ("eights 0.001", "eights 0.003", "eights 0.01"),
}
ECHOES, EXCESS, AWAY = 0.05, 2.0, round(4 / PERIOD)


@dataclass(frozen=True)
class Scene:
    """The public settings of a path: sensors (n, p), corner (4,), period, error, presence, height, jerks."""

    places: FloatArray
    high: tuple[float, ...]
    low: tuple[float, ...]
    period: float
    error: float
    presence: float
    height: float | None
    jerks: tuple[float, ...]


def scene(path: str) -> Scene:
    """Return that of a path."""
    if path.startswith("wall"):
        corners = (4.0, 3.0, 1.5, 1.5), (-4.0, -3.0, -1.5, -1.5)
        return Scene(WALL, *corners, PERIOD, 0.03, PRESENCE, HEIGHT, WALL_JERKS)
    corner = (2.0, 2.0, 0.05, 0.05)
    return Scene(sensors(), corner, tuple(-x for x in corner), 1.0, ERROR, 1.0, None, JERKS)


def traces(path: str, rounds: int, runs: int, seed: int | None) -> tuple[FloatArray, FloatArray]:
    """Return targets (T, R, 2 or 3) and distances (T, R, n), NaN where missing; seed None: the pilot's."""
    if not path.startswith("wall"):
        speed = float(path.split()[1])
        if seed is None:
            return pilots(speed, rounds // 2)
        targets = others(speed, rounds, runs)
        return targets, distances(targets, seed)
    targets, measured = wall_paths(8 if seed is None else runs, rounds, 1 if seed is None else 2 + seed)
    return targets, with_echoes(measured, seed) if path.endswith("echoes") else measured


def with_echoes(measured: FloatArray, seed: int | None) -> FloatArray:
    """Return distances (T, R, n) of which some are too long, and each sensor is away once."""
    random, (rounds, runs, nodes) = generator("uwb echoes", -1 if seed is None else seed), measured.shape
    hit = random.random(measured.shape) < ECHOES
    longer = measured + np.where(hit, random.uniform(0, EXCESS, measured.shape), 0)
    since = np.arange(rounds)[:, None, None] - random.integers(0, rounds, (runs, nodes))
    longer[(since >= 0) & (since < AWAY)] = np.nan
    return longer


def mesh_of(of: Scene, graph: str, epsilon: float, jerk: float) -> MeshSettings:
    """Return the mesh: as in a mesh file."""
    places = {node_name(k): {"place": place} for k, place in enumerate(of.places.tolist())}
    algorithm: dict[str, Any] = {
        "name": "dpdo-nc",
        "curvature": "public",
        "dynamics": {"model": "constant-velocity", "dimensions": 2, "period": of.period},
        "constraint": {"box": {"lower": list(of.low), "upper": list(of.high)}},
        "jerk": jerk,
        "error": of.error,
        "presence": of.presence,
    }
    if of.height is not None:
        algorithm["height"] = of.height
    shared = {
        "name": "wall",
        "run": "run",
        "nodes": places,
        "dimension": 4,
        "algorithm": algorithm,
        "loss": "range",
        "slots": {"by": "count", "size": 1},
        "privacy": {"mechanism": "l2-sphere", "epsilon": epsilon, "noise": "simulated"},
        "topology": {"graph": graph},
    }
    return MeshSettings.model_validate(shared)


def errors(mesh: MeshSettings, targets: FloatArray, measured: FloatArray, seed: int) -> FloatArray:
    """Return nodes' distances from the targets before each round's records, shape (T, R, n)."""
    rounds, runs, nodes = measured.shape
    whole = seeded(mesh, seed)
    copies = Copies(whole.schedule, runs)
    learner = whole.node(node_name(0)).learner_with(SimulatedSampler(seed, copies.graph.nodes))
    algorithm = whole.algorithm
    if not isinstance(algorithm, Following):
        raise TypeError("the mesh follows by gradients")
    side_by_side = replace(
        algorithm, place=np.tile(algorithm.place, (runs, 1)), response=np.tile(algorithm.response, runs)
    )
    engine = Engine(replace(learner, algorithm=side_by_side), copies)
    labels = measured.reshape(rounds, -1, 1)
    slots = (Observations(np.zeros((*row.shape, 0)), row, ~np.isnan(row)) for row in labels)
    far = np.empty(measured.shape)
    for t, step in enumerate(engine.steps(slots)):
        decisions = step.decision.reshape(runs, nodes, -1)[..., :2]
        far[t] = np.sqrt(((decisions - targets[t][:, None, :2]) ** 2).sum(-1))
    return far


def filtered(of: Scene, jerk: float, targets: FloatArray, measured: FloatArray) -> FloatArray:
    """Return the errors (T, R, 1) of an extended Kalman filter on all distances, cut at three deviations."""
    runs, f = measured.shape[1], motion(2, 2, of.period).matrix
    noise = white_noise(2, 2, of.period, jerk)
    high, low = np.array(of.high), np.array(of.low)
    x, p = np.tile((high + low) / 2, (runs, 1)), np.tile(np.diag((high - low) ** 2 / 12), (runs, 1, 1))
    above = () if of.height is None else (of.height,)
    far = np.empty((len(measured), runs, 1))
    for t, row in enumerate(measured):
        far[t, :, 0] = np.sqrt(((x[:, :2] - targets[t][:, :2]) ** 2).sum(-1))
        for k, place in enumerate(of.places):
            offset = np.concatenate((x[:, :2], np.broadcast_to(above, (runs, len(above)))), -1) - place
            length = np.sqrt((offset**2).sum(-1))
            h = np.concatenate((offset[:, :2] / length[:, None], np.zeros((runs, 2))), -1)
            ph = np.einsum("rij,rj->ri", p, h)
            s = np.einsum("ri,ri->r", h, ph) + of.error**2
            residual = row[:, k] - length
            counts: BoolArray = ~np.isnan(residual)
            gain = np.where(counts, 1 / s, 0.0)[:, None] * ph
            longest = 3 * np.sqrt(s)
            x = x + gain * np.where(counts, np.clip(residual, -longest, longest), 0.0)[:, None]
            p = p - gain[:, :, None] * ph[:, None, :]
        x = np.clip(x, low, high) @ f.T
        p = f @ p @ f.T + noise
    return far


def followed(seed: int, *, path: str, graph: str, epsilon: float, rounds: int, runs: int) -> Measured:
    """Choose the jerk on the pilot, then follow: jerk, and errors (R,). Epsilon 0: the Kalman filter."""
    of, moves, first = scene(path), float(not path.startswith("wall")), seed + FRESH

    def far(jerk: float, targets: FloatArray, measured: FloatArray, draw: int) -> FloatArray:
        if epsilon == 0:
            return scored(filtered(of, jerk, targets, measured), moves)
        return scored(errors(mesh_of(of, graph, epsilon, jerk), targets, measured, draw), moves)

    pilot = traces(path, rounds, runs, None)
    tried = [float(far(jerk, *pilot, first).mean()) for jerk in of.jerks]
    jerk = max(jerk for jerk, error in zip(of.jerks, tried, strict=True) if error <= NEAR * min(tried))
    return {"jerk": np.array(jerk), "errors": far(jerk, *traces(path, rounds, runs, first), first + 1)}


def main(study: Study) -> None:
    """Write tracking-wall.csv, then tracking-eights.csv."""
    for name, paths in TABLES.items():
        _write(study, name, paths)


def _write(study: Study, name: str, paths: tuple[str, ...]) -> None:
    runs = 3 if study.quick else RUNS
    cases = {
        f"{path} {graph} {epsilon}": {
            "path": path,
            "graph": graph,
            "epsilon": epsilon,
            "rounds": 200 if study.quick else 1_000 if path.startswith("wall") else 3_000,
            "runs": runs,
        }
        for path in paths
        for graph, epsilon in (
            *((graph, epsilon) for epsilon in EPSILONS for graph in GRAPHS),
            ("sees all", 0.0),
        )
    }
    measured = study.repeated(followed, cases, 1)
    rows = [_row(case, measured[label]) for label, case in cases.items()]
    columns = ["path", "epsilon", "graph", "jerk", "median", "p90", "largest", "lost"]
    table(study.output, name, columns, rows)


def _row(case: Mapping[str, Any], measured: Measured) -> list[object]:
    far = np.nan_to_num(measured["errors"][0], nan=math.inf)
    lost = int((far > (1.0 if case["path"].startswith("wall") else 0.1)).sum())
    middle, high = np.quantile(far, [0.5, 0.9])
    figures = [float(middle), float(high), float(far.max()), lost]
    return [case["path"], case["epsilon"] or "none", case["graph"], float(measured["jerk"][0]), *figures]


if __name__ == "__main__":
    main(Study(Path(__file__).with_name("results"), workers=2))
