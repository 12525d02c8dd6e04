"""Adult as `income.yaml` reads it: a part declared public and left out, the rest dealt to four nodes."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from experiments.harness.meshes import fast, seeded, settings
from nodes.learner import Engine
from nodes.losses.losses import Logistic, scores
from nodes.privacy.exact import SimulatedSampler
from nodes.sparse import dense
from nodes.values import FloatArray, Observations
from streams.local.scoring import auc
from streams.mesh.file import load
from streams.mesh.settings.mesh import MeshSettings
from streams.mesh.settings.node import FileSettings
from streams.mesh.shipped import example_mesh
from streams.records.sources import decoded, held_out
from streams.tools.tuning.pilot import plain_model
from streams.tools.tuning.trials import Setting
from topology.keyed import generator
from topology.schedules import Copies, closing_rounds

NODES = 4
PUBLIC = 0.05
"""The share of the training rows that is declared public: for tuning alone."""


class Adult(NamedTuple):
    """Features (n, 48) and labels (n,) of each part."""

    pilot: tuple[FloatArray, FloatArray]
    train: tuple[FloatArray, FloatArray]
    test: tuple[FloatArray, FloatArray]


@cache
def adult() -> Adult:
    """Return the parts; which rows are public is a function of a seed of its own."""
    file = load(example_mesh("income.yaml"))
    source = file.own("bank-1").source
    if not isinstance(source, FileSettings):
        raise TypeError("income.yaml reads no file")
    whole = source.model_copy(update={"take": None, "shuffle": False})
    rows, labels = decoded(file, whole, ("nodes", "bank-1", "source"))
    features = dense(rows)
    order = generator("public part", 0).permutation(len(labels))
    test, test_labels = held_out(file)
    public, rest = np.split(order, [int(PUBLIC * len(labels))])
    return Adult(
        (features[public], labels[public]), (features[rest], labels[rest]), (dense(test), test_labels)
    )


def mesh(privacy: Mapping[str, Any], size: int) -> MeshSettings:
    """Return four nodes on a ring with the set of `income.yaml`, step a = 1, before tuning."""
    return settings(
        NODES,
        48,
        algorithm={
            "name": "dpdo-nc",
            "constraint": {"l2-ball": 10},
            "step_size": {"rule": "inverse-sqrt", "a": 10.0},
        },
        loss="hinge",
        slots={"by": "count", "size": size},
        privacy=dict(privacy),
        topology={"graph": "ring"},
    )


def one_pass(
    mesh: MeshSettings, chosen: Setting, runs: int, records: int, seed: int
) -> dict[str, FloatArray]:
    """Return AUC and accuracy of each run, shape (R,), on the test rows; so many records a node, once.

    Of the mean of the nodes' decisions in the last closing round; `_averaged`: of the mean of their decisions
    over all rounds of learning.
    """
    mesh = chosen.applied(mesh)
    made = seeded(mesh, seed)
    schedule = Copies(made.schedule, runs)
    learner = made.node(min(mesh.nodes)).learner_with(SimulatedSampler(seed, schedule.graph.nodes))
    total, rounds = np.zeros((runs, mesh.dimension)), 0
    engine = fast(Engine(learner, schedule))
    for step in engine.steps(_dealt(seed, runs, chosen.size, records)):
        total, rounds = total + _means(step.decision, runs), rounds + 1
    last = engine.closed(step, closing_rounds(made.schedule, rounds))
    return _scored(_means(last, runs), "") | _scored(total / rounds, "_averaged")


def _means(decisions: FloatArray, runs: int) -> FloatArray:
    """Return the mean of each run's nodes, (R, d)."""
    means: FloatArray = decisions.reshape(runs, NODES, -1).mean(1)
    return means


def pilot_alone() -> float:
    """Return the AUC of a plain model of the public part on the test rows: what it reaches without a mesh."""
    parts = adult()
    alone = plain_model(Logistic(), "signs", parts.pilot, parts.test)
    if alone is None or alone.auc is None:
        raise ValueError("the public part has one label alone")
    return alone.auc


def _dealt(seed: int, runs: int, size: int, records: int) -> Iterator[Observations]:
    """Yield slots (R N, h, p): each run has an order of its own."""
    features, labels = adult().train
    rounds = min(len(labels) // NODES, records) // size
    orders = [generator("order", seed, run).permutation(len(labels)) for run in range(runs)]
    present = np.ones((runs * NODES, size), np.bool_)
    for round in range(rounds):
        part = slice(round * NODES * size, (round + 1) * NODES * size)
        chosen = np.concatenate([order[part].reshape(NODES, size) for order in orders])
        yield Observations(features[chosen], labels[chosen], present)


def _scored(decisions: FloatArray, suffix: str) -> dict[str, FloatArray]:
    features, labels = adult().test
    margins = [scores(decision, features) for decision in decisions]
    return {
        f"auc{suffix}": np.array([auc(one, labels) for one in margins], np.float64),
        f"accuracy{suffix}": np.array([(np.where(one > 0, 1.0, -1.0) == labels).mean() for one in margins]),
    }
