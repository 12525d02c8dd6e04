"""Estimates what a mesh would reach, from runs on made-up records: never on a node's own."""

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np

from nodes.privacy.clipping import clip
from nodes.sparse import dense
from nodes.values import FloatArray, Observations
from streams.mesh.errors import UsageError
from streams.mesh.file import MeshFile
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.privacy import NodeOverrides
from streams.tools.tuning.pilot import Pilot, Resampled
from streams.tools.tuning.public_records import from_file, made_up_by_schema
from streams.tools.tuning.trials import Setting, Trials

RUNS, CLEAR_RUNS = 6, 2
"""Runs with and without privacy."""
UNKNOWN_ROUNDS = 1_000
"""The rounds of a mesh without an end."""
MOST_ROUNDS, MOST_NUMBERS = 2_000, 20_000_000
"""The longest run, in rounds and in features read: so that an estimate takes seconds."""
MOST_FEATURES = 20_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """What `RUNS` runs reach: from `low` to `high`, and `open` on average without privacy.

    `measure`: the AUC of the last decisions on other made-up records, or the mean loss over all rounds. The
    runs have `rounds` rounds. `like`: the node whose schema the records follow; None: no schema was here.
    `noise`: its length in round 1 over that of the signal, the mean of the made-up records' clipped gradients
    at x_1; None without noise on gradients, or without records that stay the same.
    """

    measure: str
    low: float
    high: float
    open: float
    rounds: int
    like: str | None
    noise: float | None


def estimate(
    file: MeshFile, rounds: int | None = None, seed: int = 1, records: Path | None = None
) -> Estimate:
    """Run the mesh on made-up records, or public ones in a file, with simulated noise, and without privacy.

    Every node has the shared privacy settings, and every slot is full. Raises UsageError if there are no
    made-up records for the mesh's loss or dimension.
    """
    mesh = file.mesh
    if mesh.dimension > MOST_FEATURES:
        raise UsageError(f"--estimate: dimension is {mesh.dimension:,}: must be at most {MOST_FEATURES:,}")
    like, pilot = (
        made_up_by_schema(file, seed, "--estimate") if records is None else (None, from_file(file, records))
    )
    held_out = None
    if mesh.loss.signed and isinstance(pilot, Resampled):
        pilot, held_out = _halves(pilot)
    size = mesh.slots.size
    planned = rounds or mesh.rounds or UNKNOWN_ROUNDS
    simulated = min(planned, MOST_ROUNDS, max(1, MOST_NUMBERS // (len(mesh.nodes) * size * mesh.dimension)))

    def reached(settings: MeshSettings, runs: int) -> list[float]:
        trials = Trials(settings, pilot, simulated * size, 1, seed, held_out, file.code)
        losses = [replace(trials, seed=seed + k).loss(Setting.of(settings)) for k in range(runs)]
        return losses if held_out is None else [1.0 - loss for loss in losses]

    private = reached(mesh, RUNS)
    clear = reached(_without_privacy(mesh), CLEAR_RUNS)
    measure = "mean loss" if held_out is None else "AUC"
    return Estimate(measure, min(private), max(private), fmean(clear), simulated, like, _noise(file, pilot))


def _without_privacy(mesh: MeshSettings) -> MeshSettings:
    unlimited = mesh.privacy.model_copy(update={"budget": None})
    return mesh.model_copy(update={"privacy": unlimited.overridden(NodeOverrides(mechanism="none"))})


def _noise(file: MeshFile, pilot: Pilot) -> float | None:
    """Return the noise's length over the signal's."""
    mesh = file.mesh
    if not isinstance(pilot, Resampled) or mesh.privacy.mechanism == "none" or mesh.privacy.on != "gradient":
        return None
    trial_mesh = Mesh(Setting.of(mesh).applied(mesh), code=file.code)
    present = np.ones(pilot.labels.shape, np.bool_)
    start = trial_mesh.algorithm.observed(trial_mesh.algorithm.start)
    gradients = trial_mesh.loss.gradients(start, Observations(pilot.features, pilot.labels, present))
    clipped, _, _ = clip(dense(gradients), mesh.privacy.gradient_bound, mesh.privacy.norm)
    signal = clipped.mean(0)
    length = float(np.sqrt((signal * signal).sum()))
    return trial_mesh.node(min(mesh.nodes)).noise_length(1) / length if length else None


def _halves(pilot: Resampled) -> tuple[Resampled, tuple[FloatArray, FloatArray]]:
    """Return records to learn from, and others to score decisions on."""
    half = len(pilot.labels) // 2
    learnt = Resampled(pilot.features[:half], pilot.labels[:half])
    return learnt, (pilot.features[half:], pilot.labels[half:])
