"""Measures how well a mesh tracks the target, for the demo."""

from dataclasses import dataclass

import numpy as np

from nodes.regret import network_regret
from nodes.values import FloatArray
from streams.local.run import LocalRun
from streams.mesh.file import MeshFile

EXAMPLE = "tracking-moving.yaml"
"""The mesh of the demo."""


@dataclass(frozen=True, slots=True, eq=False)
class Tracked:
    """One run: decisions (T, N, 2), errors ||x_t - target_t|| (T, N), and max over nodes of R_t/t (T,)."""

    name: str
    decisions: FloatArray
    errors: FloatArray
    regret: FloatArray

    @property
    def last(self) -> FloatArray:
        """The errors of the second half of the rounds, in which the mesh has long found the target."""
        return self.errors[len(self.errors) // 2 :]

    @property
    def final_error(self) -> float:
        """The mean error of all nodes over the second half."""
        return float(self.last.mean())

    @property
    def final_regret(self) -> float:
        """The largest network regret per round."""
        return float(self.regret[-1])


def distances(decisions: FloatArray, target: FloatArray) -> FloatArray:
    """Return the distances of decisions (..., N, 2) from the target (..., 2), shape (..., N)."""
    offsets = decisions - target[..., None, :]
    lengths: FloatArray = np.sqrt((offsets * offsets).sum(-1))
    return lengths


def tracked(name: str, file: MeshFile, local: LocalRun, target: FloatArray) -> Tracked:
    """Return the run's errors and regrets; `target` (T, 2) is the target's position in each round."""
    mesh, recorder = file.resolved, local.recorder
    decisions = recorder.decisions()
    observations = recorder.observations(file.mesh.slots.size)
    decisions = mesh.algorithm.observed(decisions)
    losses = [mesh.node(name).loss for name in recorder.nodes]
    regret = network_regret(losses, mesh.algorithm.observed_set, decisions, observations)
    rounds = np.arange(1, len(decisions) + 1)
    return Tracked(name, decisions, distances(decisions, target[: len(decisions)]), regret.max(1) / rounds)


def verdict(private: Tracked, open_: Tracked, alone: Tracked) -> tuple[str, str]:
    """Return a line on what privacy cost, and one on what neighbours brought."""
    worse = private.final_error > open_.final_error
    price = "Privacy costs accuracy" if worse else "Privacy costs no accuracy here"
    ratio = alone.final_error / private.final_error
    gain = (
        f"Without neighbours nobody finds it: the same private sensors are {ratio:.1f} times as far off."
        if ratio > 1
        else "Neighbours bring nothing here."
    )
    return f"{price}: an error of {private.final_error:.3f}, not {open_.final_error:.3f}.", gain
