"""Tries a setting on a pilot: the mean online loss of every node's decisions on all nodes' records."""

import math
from collections import deque
from dataclasses import dataclass
from itertools import tee
from statistics import fmean
from typing import NamedTuple

import numpy as np

from nodes.engine import Engine
from nodes.losses.losses import Loss, scores
from nodes.privacy.simulated import SimulatedSampler
from nodes.sparse import dense
from nodes.values import FloatArray, Observations
from streams.local.ranking import ranking
from streams.mesh.mesh import Mesh
from streams.mesh.plugins import NO_CODE, Code
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import NodeOverrides
from streams.tools.tuning.pilot import Pilot
from topology.schedules import Copies

LOOKED_AT = 16
"""About how many records score the decisions of a run's round: some of each node."""


@dataclass(frozen=True, order=True)
class Setting:
    """A proposal: theta, the step size's a, and h; `tilt` multiplies k2/k1 of gains, and k3/k2 too."""

    gradient_bound: float
    step: float
    size: int
    tilt: float = 1.0

    @classmethod
    def of(cls, mesh: MeshSettings) -> "Setting":
        """Return the mesh file's own setting."""
        return cls(mesh.privacy.gradient_bound, mesh.algorithm.step_size.a, mesh.slots.size)

    def applied(self, mesh: MeshSettings) -> MeshSettings:
        """Return the mesh with this setting, for nodes without overrides and with simulated noise.

        Raises ValueError if no mesh file may have it: noise on parameters needs one record a slot.
        """
        privacy = {"gradient_bound": self.gradient_bound, "noise": "simulated"}
        step_size = mesh.algorithm.step_size.model_copy(update={"a": self.step})
        gains = tilted(mesh.algorithm.gains, self.tilt)
        return MeshSettings.model_validate(
            dict(mesh)
            | {
                "nodes": {
                    name: NodeOverrides(loss=node.loss, key=node.key) for name, node in mesh.nodes.items()
                },
                "privacy": mesh.privacy.model_copy(update=privacy),
                "algorithm": mesh.algorithm.model_copy(update={"step_size": step_size, "gains": gains}),
                "slots": mesh.slots.model_copy(update={"size": self.size}),
            }
        )


def tilted(gains: tuple[float, ...] | None, tilt: float) -> tuple[float, ...] | None:
    """Return gains with each over the one before it multiplied by `tilt`: more of the velocity, or less."""
    return None if gains is None else tuple(gain * tilt**k for k, gain in enumerate(gains))


class Measured(NamedTuple):
    """A trial's result: what is to be least, and the ranking's AUPRC if records are ranked."""

    loss: float
    auprc: float | None = None


@dataclass(frozen=True, slots=True)
class Trials:
    """The trial of a setting: `runs` runs, in each of which a node learns from the given number of records.

    `labelled`: records (n, p) with labels (n,) of both signs, to score by ranking them instead.
    `code`: what of the user's code may run.
    """

    mesh: MeshSettings
    pilot: Pilot
    records: int
    runs: int
    seed: int
    labelled: tuple[FloatArray, FloatArray] | None = None
    code: Code = NO_CODE

    def loss(self, setting: Setting) -> float:
        """Return what is to be least, as `measure` does."""
        return self.measure(setting).loss

    def measure(self, setting: Setting) -> Measured:
        """Return the mean loss over runs, rounds and nodes; infinite if the records fill no slot.

        It is also infinite if no mesh file may have the setting, such as a round above the budget. Each round
        scores decisions before they learn from its records, as on a live mesh. With `labelled` it is 1 - AUC
        of the nodes' mean last decision, averaged over runs. All settings use the same seeds.
        """
        rounds, nodes = self.records // setting.size, len(self.mesh.nodes)
        if not rounds:
            return Measured(math.inf)
        try:
            engine = self._engine(setting)
        except ValueError:
            if setting == Setting.of(self.mesh):
                raise
            return Measured(math.inf)
        slots = self.pilot.slots(rounds, nodes, setting.size, self.runs, self.seed)
        if self.labelled is not None:
            (last,) = deque(engine.steps(slots), maxlen=1)
            decisions = engine.learner.algorithm.observed(last.decision)
            return _ranked(decisions.reshape(self.runs, nodes, -1).mean(1), *self.labelled)
        learnt, scored = tee(slots)
        loss, observed = engine.learner.loss, engine.learner.algorithm.observed
        total = sum(
            _mean_loss(loss, observed(step.decision), slot, self.runs)
            for step, slot in zip(engine.steps(learnt), scored, strict=True)
        )
        return Measured(total / rounds if math.isfinite(total) else math.inf)

    def _engine(self, setting: Setting) -> Engine:
        mesh = Mesh(setting.applied(self.mesh).model_copy(update={"seed": self.seed}), code=self.code)
        schedule = Copies(mesh.schedule, self.runs)
        sampler = SimulatedSampler(self.seed, schedule.graph.nodes)
        return Engine(mesh.node(min(self.mesh.nodes)).learner_with(sampler), schedule)


@np.errstate(all="ignore")  # for steps that are far too large
def _mean_loss(loss: Loss, decisions: FloatArray, slot: Observations, runs: int) -> float:
    """Return the mean loss of decisions (R N, d) at records of all nodes of their run."""
    nodes = len(decisions) // runs
    first = slice(max(1, LOOKED_AT // nodes))
    features, labels, present = dense(slot.features)[:, first], slot.labels[:, first], slot.present[:, first]
    pooled = Observations(
        features.reshape(runs, 1, -1, features.shape[-1]),
        labels.reshape(runs, 1, -1),
        present.reshape(runs, 1, -1),
    )
    return float(loss.value(decisions.reshape(runs, nodes, -1), pooled).mean())


def _ranked(decisions: FloatArray, features: FloatArray, labels: FloatArray) -> Measured:
    """Return the means over decisions (R, d) of 1 - AUC and AUPRC; infinite if all labels have one sign."""
    rankings = [
        ranked for ranked in (ranking(scores(decision, features), labels) for decision in decisions) if ranked
    ]
    if not rankings:
        return Measured(math.inf)
    return Measured(
        1.0 - fmean(ranked.auc for ranked in rankings), fmean(ranked.auprc for ranked in rankings)
    )
