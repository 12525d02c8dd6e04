"""The localisation example (Zhou, Li 2025, section 5) on the engine: its graphs, data, and network regret."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.harness.meshes import engine, settings, slots
from nodes.losses import RangeLoss
from nodes.mirror_step import mirror_step
from nodes.printed import Printed
from nodes.regret import network_regret
from nodes.step_sizes import InverseSqrt
from nodes.values import FloatArray, Observations
from streams.mesh_file import build
from streams.sources.localisation import NOISE, sensor, target_path
from topology.keyed import generator

NODES = 6
PRINTED_STEP = 1 / 6
PRINTED_BOUND = 3.0
"""theta: the largest distance between a decision and what a sensor measures, about."""


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
    shared = privacy or {"mechanism": "none", "norm": "l2", "gradient_bound": 100.0}
    mesh = settings(
        NODES,
        2,
        algorithm=_algorithm(step) | dict(algorithm or {}),
        loss="range",
        privacy=dict(shared) | {"noise": "simulated"},
        topology=TOPOLOGY,
    )
    found = [step.decision for step in engine(mesh, seed).steps(slots(features, labels))]
    return {"regret": averaged(np.stack(found), features, labels)}


def printed_regret(
    seed: int,
    *,
    rounds: int,
    epsilon: float | None,
    mirror_map: Any = "euclidean",
    step: float = PRINTED_STEP,
) -> dict[str, FloatArray]:
    """Return R_t^i/t of the algorithm as printed, shape (T, N): misindexed noise, nothing clipped."""
    features, labels = measured(seed, rounds)
    mesh = settings(
        NODES,
        2,
        algorithm=_algorithm(step) | {"mirror_map": mirror_map},
        loss="range",
        privacy={"mechanism": "none", "gradient_bound": 1.0},
        topology=TOPOLOGY,
    )
    printed = Printed(
        mirror_step(build.mirror_map(mesh), build.constraint(mesh)),
        InverseSqrt(step),
        RangeLoss(),
        build.schedule(mesh, seed),
        PRINTED_BOUND,
        epsilon,
        seed,
    )
    found = [step.decision for step in printed.steps(slots(features, labels))]
    return {"regret": averaged(np.stack(found), features, labels)}


def averaged(decisions: FloatArray, features: FloatArray, labels: FloatArray) -> FloatArray:
    """Return the network regret over the rounds so far, shape (T, N)."""
    mesh = settings(
        NODES,
        2,
        algorithm=_algorithm(1.0),
        loss="range",
        privacy={"mechanism": "none", "gradient_bound": 1.0},
        topology=TOPOLOGY,
    )
    seen = Observations(features, labels, np.ones(labels.shape, dtype=np.bool_))
    total = network_regret(RangeLoss(), build.constraint(mesh), decisions, seen)
    average: FloatArray = total / np.arange(1, len(total) + 1)[:, None]
    return average


def worst_node(regrets: FloatArray) -> FloatArray:
    """Return the runs of the node whose mean over runs is largest, round by round: (R, T, N) to (R, T)."""
    worst = regrets.mean(0).argmax(-1)
    chosen: FloatArray = np.take_along_axis(regrets, worst[None, :, None], -1)[..., 0]
    return chosen


def _algorithm(step: float) -> dict[str, Any]:
    return {
        "name": "dpdo-nc",
        "constraint": {"l1-ball": 3},
        "step_size": {"rule": "inverse-sqrt", "a": step},
        "x_1": [0, 0],
    }
