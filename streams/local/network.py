"""The network's regret of a run, which only a party that runs all nodes can know."""

import math

import numpy as np

from nodes.regret import network_regret
from streams.local.recorder import Recorder
from streams.mesh.file import MeshFile

MOST = 1 << 28
"""Numbers in all gradients, of each record at each node's decision: about a second's work."""


def largest_network_regret(file: MeshFile, recorder: Recorder) -> float | None:
    """Return the largest R_T^i/T of a node, over all nodes' losses, against one decision for the whole run.

    None where it would take long, of an own loss, and where it is no number.
    """
    mesh, rounds, batch_size = file.mesh, recorder.common_rounds, file.mesh.slots.size
    numbers = rounds * len(mesh.nodes) ** 2 * batch_size * mesh.dimension
    unknown = any(loss.own is not None for loss in file.resolved.losses)
    if rounds == 0 or numbers > MOST or unknown:
        return None
    algorithm = file.resolved.algorithm
    with np.errstate(all="ignore"):  # records may overflow
        regret = network_regret(
            [file.resolved.node(name).loss for name in recorder.nodes],
            algorithm.observed_set,
            algorithm.observed(recorder.decisions()),
            recorder.observations(batch_size),
        )
    largest = float(regret[-1].max()) / rounds
    return largest if math.isfinite(largest) else None
