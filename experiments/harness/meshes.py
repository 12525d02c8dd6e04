"""The shared part of a mesh, as in a mesh file, made into an engine; and the slots that it learns from."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from nodes.compiled import fastest
from nodes.learner import Engine
from nodes.privacy.exact import SimulatedSampler
from nodes.values import FloatArray, Observations
from streams.mesh.mesh import Mesh
from streams.mesh.settings.mesh import MeshSettings


def settings(nodes: int, dimension: int, **shared: Any) -> MeshSettings:
    """Return the settings of a mesh of so many nodes; `shared` as under `mesh` in a mesh file."""
    names = [node_name(number) for number in range(nodes)]
    common = {"name": "experiment", "run": "run", "nodes": names, "dimension": dimension}
    slots = {"by": "count", "size": 1}
    return MeshSettings.model_validate({"slots": slots} | common | shared)


def node_name(number: int) -> str:
    """Return the name of the node of that number, from 0."""
    return f"node-{number:04}"


def engine(mesh: MeshSettings, seed: int) -> Engine:
    """Return the engine of a mesh whose nodes are alike, under the noise and the schedule of `seed`."""
    return fast(numpy_engine(mesh, seed))


def numpy_engine(mesh: MeshSettings, seed: int) -> Engine:
    """Return the same, without compiled rounds: to measure it."""
    names = tuple(sorted(mesh.nodes))
    made = seeded(mesh, seed)
    return Engine(made.node(names[0]).learner_with(SimulatedSampler(seed, names)), made.schedule)


def fast(engine: Engine) -> Engine:
    """Return the engine, with compiled rounds where numba is installed: the same bits."""
    return fastest(engine, logging.getLogger("mirrormesh").warning)


def seeded(mesh: MeshSettings, seed: int) -> Mesh:
    """Return the mesh with another seed."""
    return Mesh(mesh.model_copy(update={"seed": seed}))


def slots(features: Iterable[FloatArray], labels: Iterable[FloatArray]) -> Iterator[Observations]:
    """Yield the slots of T features (N, h, p) and labels (N, h)."""
    for row, label in zip(features, labels, strict=True):
        yield Observations(row, label, np.ones(label.shape, dtype=np.bool_))


def dealt(
    features: FloatArray, labels: FloatArray, nodes: int, batch: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return rows (n, p), shuffled and dealt: features (T, N, h, p), labels (T, N, h). A rest is dropped."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(len(labels))
    rounds = len(labels) // (nodes * batch)
    chosen = order[: rounds * nodes * batch].reshape(rounds, nodes, batch)
    return features[chosen], labels[chosen]
