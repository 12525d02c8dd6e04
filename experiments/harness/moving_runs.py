"""Meshes that follow a moving target: their settings, the search for them on one path, and runs on others."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from experiments.harness.meshes import fast, seeded, settings
from experiments.harness.moving_targets import KINDS, NODES, distances, path, slot
from experiments.harness.study import Measured
from nodes.algorithms import Constant, DynamicMirrorDescent, dpdo_nc
from nodes.dynamics import Dynamics, motion
from nodes.geometry.constraints import Box
from nodes.geometry.mirror_maps import Euclidean
from nodes.geometry.mirror_step import mirror_step
from nodes.learner import Engine, Learner
from nodes.losses.losses import RangeLoss
from nodes.privacy.exact import SimulatedSampler
from nodes.values import BoolArray, FloatArray, IntArray, Observations
from streams.mesh.settings.mesh import MeshSettings
from topology.graph import ring
from topology.schedules import Copies, FixedSchedule

S = TypeVar("S", bound=np.generic)

PILOT_SEED, PILOT_RUNS, PILOT_ROUNDS = 1_000_003, 6, 1_500
REACH = {"position": 2.0, "speed": 0.05}
THETAS = tuple(0.0025 * 2**k for k in range(6))
K1 = tuple(2.0**k for k in range(-4, 3))
RATIOS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""What is tried: clips, first gains, and second gains over first ones."""


class Tuned(NamedTuple):
    """A setting: clip and gains; k2 0: a plain step."""

    theta: float
    k1: float
    k2: float


def mesh_of(privacy: Mapping[str, Any], tuned: Tuned) -> MeshSettings:
    """Return the mesh: a ring of six with the range loss, and constant velocity or a plain step."""
    plain = {"constraint": {"linf-ball": REACH["position"]}, "step_size": {"rule": "constant", "a": tuned.k1}}
    moving = {
        "constraint": {"reach": REACH},
        "step_size": {"rule": "constant", "a": 1},
        "dynamics": {"model": "constant-velocity", "dimensions": 2, "period": 1},
        "gains": [tuned.k1, tuned.k2],
    }
    return settings(
        NODES,
        4 if tuned.k2 else 2,
        algorithm={"name": "dpdo-nc"} | (moving if tuned.k2 else plain),
        loss="range",
        privacy=dict(privacy) | {"noise": "simulated", "gradient_bound": tuned.theta},
        topology={"graph": "ring"},
    )


def followed(
    seed: int, *, privacy: Mapping[str, Any], velocity: bool, speed: float, rounds: int, runs: int
) -> Measured:
    """Tune on the eight, then run on other paths side by side: the setting, and each run's error (R,).

    The error is the root mean square over the second half and all nodes.
    """
    tuned = tune(privacy, speed, velocity=velocity, rounds=min(rounds, PILOT_ROUNDS))
    made = seeded(mesh_of(privacy, tuned), seed)
    schedule = Copies(made.schedule, runs)
    learner = made.node(min(made.settings.nodes)).learner_with(SimulatedSampler(seed, schedule.graph.nodes))
    targets = others(speed, rounds, runs)
    found = squares(fast(Engine(learner, schedule)), targets, distances(targets, seed), 1)
    return {"setting": np.array(tuned), "errors": np.sqrt(found.mean(1))}


def others(speed: float, rounds: int, runs: int) -> FloatArray:
    """Return the paths of the runs, shape (T, R, 2): of all kinds in turn, none the pilot's."""
    found = [path(KINDS[run % len(KINDS)], 1 + run, speed, rounds) for run in range(runs)]
    return np.stack(found, 1)


def pilots(speed: float, rounds: int) -> tuple[FloatArray, FloatArray]:
    """Return the path to tune on, once for each run, (T, R, 2), and its distances (T, R, N)."""
    targets = np.repeat(path("eight", 0, speed, rounds)[:, None], PILOT_RUNS, 1)
    return targets, distances(targets, PILOT_SEED)


def tune(privacy: Mapping[str, Any], speed: float, *, velocity: bool, rounds: int) -> Tuned:
    """Return the setting of the least error on the pilot, of all tried: they run side by side."""
    ratios = RATIOS if velocity else (0.0,)
    tried = [Tuned(theta, k1, ratio * k1) for theta, k1, ratio in product(THETAS, K1, ratios)]
    targets, measured = pilots(speed, rounds)
    found = squares(together(privacy, tried), targets, measured, len(tried))
    errors = found.reshape(len(tried), -1).mean(1)
    return tried[int(np.nan_to_num(errors, nan=np.inf).argmin())]


def squares(engine: Engine, targets: FloatArray, measured: FloatArray, copies: int) -> FloatArray:
    """Return the mean square error of each run's nodes over the second half, shape (copies R, N)."""
    total, half = np.zeros((copies * targets.shape[1], NODES)), len(targets) // 2
    observed = engine.learner.algorithm.observed
    for step, target in zip(engine.steps(_slots(measured, copies)), targets, strict=True):
        if step.round > half:
            at = observed(step.decision).reshape(*total.shape, 2)
            offsets = at - np.tile(target, (copies, 1))[:, None]
            total += (offsets * offsets).sum(-1)
    return total / (len(targets) - half)


def _slots(measured: FloatArray, copies: int) -> Iterator[Observations]:
    return (slot(one, copies) for one in measured)


def together(privacy: Mapping[str, Any], tried: list[Tuned]) -> Engine:
    """Return an engine that runs all settings side by side, under the mesh's mechanism of clip 1.

    Gradients come divided by a row's clip, and its gains are multiplied by it: the same releases, but for the
    grid. The set's metric is Euclidean here; it hardly binds.
    """
    rows = PILOT_RUNS * NODES
    mesh = seeded(mesh_of(privacy, Tuned(1.0, *tried[0][1:])), PILOT_SEED)
    names = Copies(mesh.schedule, PILOT_RUNS).graph.nodes
    one = mesh.node(min(mesh.settings.nodes)).learner_with(
        _Shared(len(tried), SimulatedSampler(PILOT_SEED, names))
    )
    thetas, k1, k2 = np.repeat(np.array(tried), rows, 0).T
    moving = tried[0].k2 > 0
    corner = np.repeat(list(REACH.values()) if moving else [REACH["position"]], 2)
    still = dpdo_nc(mirror_step(Euclidean(), Box(-corner, corner)), Constant(1.0))
    model = motion(2, 2, 1.0) if moving else Dynamics(np.eye(2))
    gains = np.stack((k1, k2) if moving else (k1,), 1) * thetas[:, None]
    blocks = np.einsum("rk,ij->rkij", gains, np.eye(2)).reshape(len(thetas), -1, 2)
    algorithm = DynamicMirrorDescent(still, model, (0, 1), blocks)
    learner = Learner(algorithm, _Scaled(thetas[:, None, None]), one.mechanism, one.ledger, 1)
    return fast(
        Engine(learner, Copies(FixedSchedule(ring(tuple(mesh.settings.nodes))), len(tried) * PILOT_RUNS))
    )


@dataclass(frozen=True, eq=False)
class _Scaled(RangeLoss):
    """The range loss over each row's clip."""

    thetas: FloatArray

    def gradients(self, decision: FloatArray, observations: Observations) -> FloatArray:
        found: FloatArray = RangeLoss.gradients(self, decision, observations) / self.thetas
        return found


class _Shared:
    """One noise for all settings, so that they differ by what they are alone."""

    simulated = True

    def __init__(self, copies: int, noise: SimulatedSampler) -> None:
        self._copies, self._noise = copies, noise

    def laplace(self, round: int, values: IntArray, scale: float) -> IntArray:
        nothing = np.zeros((len(values) // self._copies, *values.shape[1:]), np.int64)
        return values + self._tiled(self._noise.laplace(round, nothing, scale))

    def gaussian(self, round: int, values: IntArray, scale: float) -> IntArray:
        nothing = np.zeros((len(values) // self._copies, *values.shape[1:]), np.int64)
        return values + self._tiled(self._noise.gaussian(round, nothing, scale))

    def sphere(self, round: int, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
        found, numbers = self._noise.sphere(round, (shape[0] // self._copies, *shape[1:]))
        return self._tiled(found), self._tiled(numbers)

    def randomised(self, round: int, bits: BoolArray, epsilon: Fraction) -> BoolArray:
        same = np.zeros((len(bits) // self._copies, *bits.shape[1:]), np.bool_)
        flipped = self._noise.randomised(round, same, epsilon)
        return bits ^ self._tiled(flipped)

    def _tiled(self, values: NDArray[S]) -> NDArray[S]:
        return np.tile(values, (self._copies, *(1,) * (values.ndim - 1)))
