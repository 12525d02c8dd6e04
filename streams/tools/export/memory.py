"""The memory that each process of an export asks for: in Kubernetes, in compose, with systemd."""

import math

from streams.collaboration.settings import CollaborationSettings
from streams.mesh.mesh import Mesh

MIB = 2**20
NODE = 192
"""The MiB of a node without its neighbours' releases. 130 MiB were measured
(docs/measurements/2026-11-23.md)."""
SCHEDULER, SCORER, FEEDER, LEARNER, OWNER = 128, 192, 192, 192, 512
"""The MiB of others, without vectors. An owner keeps a set of up to 32 MiB, and reads a larger one in
chunks."""
LEAST_LIMIT = 512


def of_node(mesh: Mesh, node: str) -> int:
    """Return the MiB that a node requests: for itself, and for neighbours' releases within the horizon."""
    vectors = 16 + mesh.settings.horizon * len(mesh.graph.neighbours(node)[0])
    return NODE + _of_vectors(mesh.settings.dimension, vectors)


def of_owner(settings: CollaborationSettings) -> int:
    """Return the MiB that an owner requests."""
    return OWNER + _of_vectors(settings.dimension, 32)


def of_learner(settings: CollaborationSettings) -> int:
    """Return the MiB that a learner requests."""
    return LEARNER + _of_vectors(settings.dimension, 16 * (2 + len(settings.owners)))


def limit(requested: int) -> int:
    """Return the MiB above which a process is ended."""
    return max(2 * requested, LEAST_LIMIT)


def _of_vectors(dimension: int, vectors: int) -> int:
    return math.ceil(8 * dimension * vectors / MIB)
