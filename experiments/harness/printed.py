"""DPDO-NC as its authors print it (Zhou, Li 2025, Algorithm 1), to reproduce their figures.

x_{t+1} = argmin over x in Omega of D(x, z_t) + <alpha_t grad f_t(x_t), x>, with the gradient at the private,
un-noised x_t, and q_t = x_t + Laplace(sigma_t)^d, sigma_t = 2 sqrt(d) alpha_t theta/(omega epsilon).
Gradients are not clipped, and alpha_t is one step late: x_t was made with alpha_{t-1}. So epsilon is not that
of the stream, and no live node does this. `index`: the noise of the step that made x_t instead.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from nodes.algorithms import StepSize
from nodes.geometry.mirror_step import MirrorStep
from nodes.losses.evaluation import mean_gradient, slot_gradients
from nodes.losses.losses import Loss
from nodes.values import Decision, FloatArray, Mixing, Observations, Release
from topology.keyed import generator
from topology.schedules import CACHED, Schedule


class PrintedStep(NamedTuple):
    """One round of all nodes: `decision` x_t, private here, and `releases` q_t, each (N, d)."""

    round: int
    decision: Decision
    releases: Release


@dataclass(frozen=True, slots=True)
class Printed:
    """All nodes of a schedule, in bytes order. `epsilon` None: no noise; noise comes from `seed`.

    `theta` is the bound on a gradient's L2 norm that the authors assume, and that nothing enforces. `index`:
    noise of round t with alpha_t (`printed`), or with the alpha_{t-1} that made x_t (`made`), x_1 public.
    """

    step: MirrorStep
    step_size: StepSize
    loss: Loss
    schedule: Schedule
    theta: float
    epsilon: float | None
    seed: int
    index: Literal["printed", "made"] = "printed"

    def steps(self, slots: Iterable[Observations]) -> Iterator[PrintedStep]:
        """Yield the rounds 1, 2, ..., one a slot: observations with features (N, n, p)."""
        nodes = self.schedule.graph.nodes
        mixing = lru_cache(CACHED)(Mixing)  # as in the engine
        decision = Decision(np.tile(self.step.start, (len(nodes), 1)))
        for round, observations in enumerate(slots, 1):
            releases = Release(decision + self._noise(round, decision.shape))
            yield PrintedStep(round, decision, releases)
            consensus = mixing(self.schedule.weights(round, nodes))(releases)
            size = observations.labels.shape[-1]
            gradient = mean_gradient(slot_gradients(self.loss, decision, observations), size)
            decision = Decision(self.step(consensus, self.step_size(round) * gradient))

    def noise_scale(self, round: int) -> float:
        """Return sigma_t of one coordinate."""
        made = round if self.index == "printed" else round - 1
        if self.epsilon is None or made == 0:
            return 0.0
        dimension, modulus = self.step.constraint.dimension, self.step.mirror_map.modulus
        return 2 * math.sqrt(dimension) * self.step_size(made) * self.theta / (modulus * self.epsilon)

    def _noise(self, round: int, shape: tuple[int, ...]) -> FloatArray:
        drawn: FloatArray = generator("printed", self.seed, round).laplace(size=shape)
        return self.noise_scale(round) * drawn
