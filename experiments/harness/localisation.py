"""The localisation example (Zhou, Li 2025, section 5) on the engine: its graphs, data, and network regret."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import numpy as np

from experiments.harness.meshes import fast, seeded, settings, slots
from experiments.harness.printed import Printed, PrintedStep
from experiments.harness.study import Measured
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Engine, Step
from nodes.losses.losses import RangeLoss
from nodes.privacy.exact import SimulatedSampler
from nodes.regret import NetworkSums, network_sums
from nodes.values import FloatArray, Observations
from streams.mesh.algorithm import constraint, step_size
from streams.mesh.algorithm import mirror_map as mirror_map_of
from streams.mesh.settings.mesh import MeshSettings
from streams.records.localisation import NOISE, sensor, target_path
from topology.keyed import generator
from topology.schedules import Copies

NODES = 6
PRINTED_STEP = 1 / 6
PRINTED_BOUND = 4.06
"""theta, which the authors do not print: no gradient in Omega is longer, whatever the target's coins.

The longest is that of sensor 2, nearest to the target, at the corner (0, -3): 4.364 - 0.313 (T = 5,000).
"""

OURS = {"mechanism": "l2-sphere", "gradient_bound": 1 / 128}
OURS_STEP = 128 / 3
"""What `mirrormesh tune --synthetic` proposes for these graphs at epsilon = 1 and T = 500."""

_OPEN = {"mechanism": "none", "norm": "l2", "gradient_bound": 1.0}


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


def our_runs(
    seed: int,
    *,
    rounds: int,
    runs: int,
    privacy: Mapping[str, Any] | None,
    step: float,
    algorithm: Mapping[str, Any] | None = None,
) -> Measured:
    """Return the sums of `Regrets` of runs side by side. `privacy` None: Algorithm 1 without noise.

    Each run has a target, measurements (of the seeds `seed`, `seed` + 1, ...) and noise of its own.
    """
    mesh = mesh_of(privacy or _OPEN | {"gradient_bound": 100.0}, step, algorithm)
    made = seeded(mesh, seed)
    schedule = Copies(made.schedule, runs)
    learner = made.node(min(mesh.nodes)).learner_with(SimulatedSampler(seed, schedule.graph.nodes))
    return _side_by_side(fast(Engine(learner, schedule)).steps, seed, rounds, runs)


def printed_runs(
    seed: int,
    *,
    rounds: int,
    runs: int,
    epsilon: float | None,
    mirror_map: Any = "euclidean",
    step: float = PRINTED_STEP,
    index: Literal["printed", "made"] = "printed",
    theta: float = PRINTED_BOUND,
) -> Measured:
    """Return the same of the algorithm as printed: nothing clipped; `index`: of the noise."""
    mesh = mesh_of(_OPEN, step, {"mirror_map": mirror_map})
    schedule = Copies(seeded(mesh, seed).schedule, runs)
    exact = mirror_step(mirror_map_of(mesh), constraint(mesh))
    printed = Printed(exact, step_size(mesh), RangeLoss(), schedule, theta, epsilon, seed, index)
    return _side_by_side(printed.steps, seed, rounds, runs)


def _side_by_side(
    steps: Callable[[Iterator[Observations]], Iterator[PrintedStep] | Iterator[Step]],
    seed: int,
    rounds: int,
    runs: int,
) -> Measured:
    data = [measured(seed + run, rounds) for run in range(runs)]
    together = slots(*(np.concatenate(parts, 1) for parts in zip(*data, strict=True)))
    decisions = np.stack([step.decision for step in steps(together)]).reshape(rounds, runs, NODES, 2)
    sums = [_sums(decisions[:, run].copy(), *one) for run, one in enumerate(data)]
    paid, gradients = (np.stack(parts) for parts in zip(*sums, strict=True))
    return {"paid": paid, "gradients": gradients}


def _sums(decisions: FloatArray, features: FloatArray, labels: FloatArray) -> NetworkSums:
    seen = Observations(features, labels, np.ones(labels.shape, dtype=np.bool_))
    return network_sums(RangeLoss(), decisions, seen)
