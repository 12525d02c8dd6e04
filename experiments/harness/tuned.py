"""Settings that the rule of `mirrormesh tune` finds on a pilot, never on what is reported."""

from typing import NamedTuple

import numpy as np

from experiments.harness.study import Measured
from nodes.values import FloatArray
from streams.mesh.settings.mesh import MeshSettings
from streams.tools.tuning.pilot import Pilot
from streams.tools.tuning.trials import Setting, Trials, best, even_sizes, walk

PILOT_SEED = 1_000_003
"""Of pilots and of their noise; runs that are reported have small seeds."""


class Sought(NamedTuple):
    """How long the pilot's runs are, how many, and whether slot sizes are tried, which fit the records."""

    records: int
    runs: int
    sizes: bool
    labelled: tuple[FloatArray, FloatArray] | None = None


def found(mesh: MeshSettings, pilot: Pilot, sought: Sought) -> Measured:
    """Return the proposal as an array, for `Study.repeated`: walks from what the mesh says."""
    trials = Trials(mesh, pilot, sought.records, sought.runs, PILOT_SEED, sought.labelled)
    sizes = even_sizes(sought.records) if sought.sizes else None
    tried = walk(Setting.of(mesh), trials.measure, sizes=sizes, report=lambda _: None)
    chosen = best(tried)
    return {"setting": np.array([chosen.gradient_bound, chosen.step, chosen.size])}


def setting(measured: Measured) -> Setting:
    """Return the proposal of the first run."""
    bound, step, size = measured["setting"][0].tolist()
    return Setting(bound, step, int(size))
