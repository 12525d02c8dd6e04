"""The localisation example (Zhou, Li 2025, section 5) on the engine: its graphs, data, and network regret."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from experiments.harness.meshes import engine, seeded, settings, slots
from experiments.harness.printed import Printed, PrintedStep
from nodes.engine import Engine, Step
from nodes.geometry.constraints import L1Ball
from nodes.geometry.mirror_step import mirror_step
from nodes.losses.losses import RangeLoss
from nodes.privacy.simulated import SimulatedSampler
from nodes.regret import network_regret
from nodes.values import FloatArray, Observations
from streams.mesh.algorithm import constraint, mirror_map, step_size
from streams.mesh.settings.mesh import MeshSettings
from streams.records.localisation import NOISE, sensor, target_path
from topology.keyed import generator
from topology.schedules import Copies, Schedule

NODES = 6
PRINTED_STEP = 1 / 6
PRINTED_BOUND = 3.0
"""theta: the largest distance between a decision and what a sensor measures, about."""

OURS = {"mechanism": "l2-sphere", "gradient_bound": 1 / 128}
OURS_STEP = 128 / 3
"""What `mirrormesh tune --synthetic` proposes for these graphs at epsilon = 1 and T = 500."""

_OPEN = {"mechanism": "none", "gradient_bound": 1.0}


def _matrices() -> list[Mapping[str, Any]]:
    before = 0.5 * (np.eye(NODES) + np.roll(np.eye(NODES), 1, 0))
    others = (np.ones((NODES, NODES)) - np.eye(NODES)) / (NODES - 1)
    alike = np.array([[1 / 3 if (i - j) % 2 == 0 else 0.0 for j in range(NODES)] for i in range(NODES)])
    return [{"matrix": matrix.tolist()} for matrix in (before, others, alike)]


TOPOLOGY = {"cycle": _matrices()}
"""A_1, A_2, A_3 in turn."""


def measured(seed: int, rounds: int) -> tuple[FloatArray, FloatArray]:
    """Return sensors' positions and distances of T rounds: features (T, N, 1, 2) and labels (T, N, 1)."""
    positions = np.array([sensor(number, NODES) for number in range(NODES)])
    offsets = target_path(seed, rounds)[:, None] - positions
    errors = generator("distances", seed).uniform(0.0, NOISE, (rounds, NODES))
    distances = np.sqrt((offsets * offsets).sum(-1)) + errors
    return np.broadcast_to(positions, (rounds, NODES, 2))[:, :, None], distances[..., None]


def regret(
    seed: int,
    *,
    rounds: int,
    privacy: Mapping[str, Any] | None,
    step: float,
    algorithm: Mapping[str, Any] | None = None,
) -> dict[str, FloatArray]:
    """Return R_t^i/t of every round and node, shape (T, N). `privacy` None: Algorithm 1 without noise."""
    features, labels = measured(seed, rounds)
    mesh = mesh_of(privacy or {"mechanism": "none", "norm": "l2", "gradient_bound": 100.0}, step, algorithm)
    found = [step.decision for step in engine(mesh, seed).steps(slots(features, labels))]
    return {"regret": averaged(np.stack(found), features, labels)}


def printed_regret(
    seed: int,
    *,
    rounds: int,
    epsilon: float | None,
    mirror_map: Any = "euclidean",
    step: float = PRINTED_STEP,
    index: Literal["printed", "made"] = "printed",
) -> dict[str, FloatArray]:
    """Return R_t^i/t of the algorithm as printed, shape (T, N): nothing clipped; `index`: of the noise."""
    features, labels = measured(seed, rounds)
    mesh = mesh_of(_OPEN, step, {"mirror_map": mirror_map})
    printed = _printed(mesh, seeded(mesh, seed).schedule, epsilon, seed, index)
    found = [step.decision for step in printed.steps(slots(features, labels))]
    return {"regret": averaged(np.stack(found), features, labels)}


def mesh_of(
    privacy: Mapping[str, Any], step: float, algorithm: Mapping[str, Any] | None = None
) -> MeshSettings:
    """Return the example's mesh, with simulated noise and step/sqrt(t)."""
    usual = {
        "name": "dpdo-nc",
        "constraint": {"l1-ball": 3},
        "step_size": {"rule": "inverse-sqrt", "a": step},
        "x_1": [0, 0],
    }
    return settings(
        NODES,
        2,
        algorithm=usual | dict(algorithm or {}),
        loss="range",
        privacy=dict(privacy) | {"noise": "simulated"},
        topology=TOPOLOGY,
    )


def regrets(seed: int, privacy: Mapping[str, Any], step: float, rounds: int, runs: int) -> FloatArray:
    """Return R_t^i/t of runs side by side, shape (R, T, N); targets of the seeds `seed`, `seed` + 1 ..."""
    mesh = mesh_of(privacy, step)
    made = seeded(mesh, seed)
    schedule = Copies(made.schedule, runs)
    learner = made.node(min(mesh.nodes)).learner_with(SimulatedSampler(seed, schedule.graph.nodes))
    return _side_by_side(Engine(learner, schedule).steps, seed, rounds, runs)


def printed_regrets(seed: int, epsilon: float | None, rounds: int, runs: int) -> FloatArray:
    """Return the same of the algorithm as printed."""
    mesh = mesh_of(_OPEN, PRINTED_STEP)
    printed = _printed(mesh, Copies(seeded(mesh, seed).schedule, runs), epsilon, seed, "printed")
    return _side_by_side(printed.steps, seed, rounds, runs)


def _printed(
    mesh: MeshSettings,
    schedule: Schedule,
    epsilon: float | None,
    seed: int,
    index: Literal["printed", "made"],
) -> Printed:
    step = mirror_step(mirror_map(mesh), constraint(mesh))
    return Printed(step, step_size(mesh), RangeLoss(), schedule, PRINTED_BOUND, epsilon, seed, index)


def _side_by_side(
    steps: Callable[[Iterator[Observations]], Iterator[PrintedStep] | Iterator[Step]],
    seed: int,
    rounds: int,
    runs: int,
) -> FloatArray:
    data = [measured(seed + run, rounds) for run in range(runs)]
    together = slots(*(np.concatenate(parts, 1) for parts in zip(*data, strict=True)))
    decisions = np.stack([step.decision for step in steps(together)]).reshape(rounds, runs, NODES, 2)
    return np.stack([averaged(decisions[:, run].copy(), *one) for run, one in enumerate(data)])


def averaged(decisions: FloatArray, features: FloatArray, labels: FloatArray) -> FloatArray:
    """Return the network regret over the rounds so far, shape (T, N)."""
    seen = Observations(features, labels, np.ones(labels.shape, dtype=np.bool_))
    total = network_regret(RangeLoss(), L1Ball(2, 3.0), decisions, seen)
    average: FloatArray = total / np.arange(1, len(total) + 1)[:, None]
    return average


def worst_node(regrets: FloatArray) -> FloatArray:
    """Return the runs of the node whose mean over runs is largest, round by round: (R, T, N) to (R, T)."""
    worst = regrets.mean(0).argmax(-1)
    chosen: FloatArray = np.take_along_axis(regrets, worst[None, :, None], -1)[..., 0]
    return chosen
