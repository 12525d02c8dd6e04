"""The engine gives the releases of the mesh, bit for bit: all that a mesh file offers."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from nodes.learner import Engine
from nodes.privacy.exact import SimulatedSampler
from nodes.values import Mixing, mixed
from streams.local.run import LocalRun, mesh_parts
from streams.mesh.settings.algorithm import (
    AlgorithmSettings,
    ConstraintSettings,
    DynamicsSettings,
    LossSettings,
    MirrorMapSettings,
    StepSizeSettings,
)
from streams.mesh.settings.mesh import GraphSettings
from streams.mesh.settings.privacy import PrivacySettings
from tests.support.meshes.files import changed, loaded
from tests.support.meshes.following import FOLLOWING
from topology.graph import erdos_renyi, from_edges, star
from topology.keyed import generator
from topology.schedules import closing_rounds
from topology.weights import metropolis, permutations

MATRIX = [[0, 0.5, 0.25, 0.25], [0.5, 0, 0.25, 0.25], [0.25, 0.25, 0.5, 0], [0.25, 0.25, 0, 0.5]]
GAUSSIAN = {"mechanism": "gaussian", "delta": 1e-6}
MOVING = {
    "dynamics": {"model": "constant-velocity", "dimensions": 2, "period": 0.5},
    "constraint": {"reach": {"position": 0.8, "speed": 0.2}},  # near enough to be met
    "gains": [0.5, 0.2],
    "step_size": {"rule": "constant", "a": 1},
}
FASTER = {
    "dynamics": {"model": "constant-acceleration", "dimensions": 2, "period": 0.5},
    "constraint": {"box": {"lower": [-1, -1, -0.5, -0.5, -1, -1], "upper": [2, 2, 1, 1, 1, 1]}},
    "gains": [0.5, 0.2, 0.1],
}
ROTATED = {
    "name": "dola",
    "dynamics": {"matrix": [[0.8, -0.6, 0], [0.6, 0.8, 0.1], [0, 0, 1]]},
    "constraint": {"box": {"lower": -0.5, "upper": 1}},
    "mirror_map": {"mahalanobis": [2, 0.5, 1]},
    "observes": [2, 0],
}
SUMS = {"name": "class-sums", "mirror_map": None, "constraint": None, "step_size": None}
UNCLIPPED = {"gradient_bound": None}
CASES = {
    "dpdo-nc": {},
    "dola": {"algorithm": {"name": "dola", "regulariser": 0.1}},
    "gaussian": {"privacy": GAUSSIAN},
    "classic": {"privacy": GAUSSIAN | {"calibration": "classic"}},
    "sphere": {"privacy": {"mechanism": "l2-sphere"}, "slots": {"size": 3}},
    "bisr": {"privacy": {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 4}},
    "none": {"privacy": {"mechanism": "none", "gradient_bound": 10}},
    "parameters": {"privacy": {"on": "parameters", "norm": "l2"}},
    "batches": {"slots": {"size": 5}},
    "mahalanobis": {"algorithm": {"mirror_map": {"mahalanobis": [[2, 0.5], [0.5, 1]]}}},
    "diagonal": {
        "algorithm": {
            "mirror_map": {"mahalanobis": [2, 0.5]},
            "constraint": {"box": {"lower": 0, "upper": 1}},
        }
    },
    "entropy": {"algorithm": {"mirror_map": "entropy", "constraint": "simplex"}},
    "on-the-edge": {"algorithm": {"constraint": {"l2-ball": 0.3}}},
    "budget": {"privacy": {"budget": 7}},
    "growing": {"privacy": {"epsilon": {"total": 20, "rounds": 8, "schedule": "growing"}}},
    "directed": {"topology": {"graph": {"directed-edges": [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]]}}},
    "switching": {"topology": {"graph": "complete", "switching": 0.5}},
    "cycle": {"topology": {"graph": None, "cycle": ["ring", {"matrix": MATRIX}, "star"]}},
    "velocity": {"algorithm": MOVING, "dimension": 4, "rounds": 30},
    "public directions": FOLLOWING | {"rounds": 40},
    "public directions, switching": FOLLOWING | {"topology": {"graph": "complete", "switching": 0.5}},
    "acceleration": {
        "algorithm": FASTER,
        "dimension": 6,
        "privacy": {"mechanism": "l2-sphere"},
        "slots": {"size": 2},
    },
    "matrix": {"algorithm": ROTATED, "dimension": 3, "loss": "squared", "privacy": {"budget": 7}},
    "hinge": {"loss": "hinge", "slots": {"size": 2}, "topology": {"graph": {"grid": [2, 2]}}},
    "logistic": {
        "loss": "logistic",
        "class_weights": [1, 5],
        "algorithm": {"step_size": {"rule": "shifted-inverse", "a": 2, "b": 1}},
    },
    "weights within the clip": {
        "loss": "hinge",
        "class_weights": {"within": "clip", "weights": [1, 5]},
        "privacy": {"gradient_bound": 0.5},
    },
    "squared": {
        "loss": "squared",
        "algorithm": {"constraint": {"linf-ball": 0.2}, "step_size": {"rule": "constant", "a": 0.5}},
        "privacy": {"on": "parameters"},
    },
    "absolute": {"loss": "absolute", "algorithm": {"step_size": {"rule": "inverse", "a": 1}}},
    "huber": {"loss": {"huber": 0.3}, "topology": {"graph": {"erdos-renyi": {"p": 0.5}}}},
    "bearing": {"loss": "bearing"},
    "scaled": {"loss": {"squared": True, "bounds": [-1, 2]}},
    "range-difference": {"loss": {"range-difference": {"reference": [0, 0], "huber": 0.2}}},
    "linear": {
        "loss": "linear",
        "algorithm": {"mirror_map": "entropy", "constraint": "simplex"},
        "privacy": {"on": "parameters", "norm": "linf"},
        "topology": {"graph": {"edges": [["a", "b"], ["b", "c"], ["c", "d"]]}},
    },
    "softmax": {"loss": {"softmax": 3}, "dimension": 6, "slots": {"size": 2}},
    "own": {"loss": {"own": "tests.nodes.test_engine:Pinball"}},
    "sparse-dola": {
        "loss": "hinge",
        "algorithm": {"name": "sparse-dola", "constraint": {"l2-ball": 1}, "lasso": 0.1},
        "slots": {"size": 2},
    },
    "class-sums": {"loss": "hinge", "algorithm": SUMS, "privacy": UNCLIPPED, "slots": {"size": 2}},
    "class-sums-softmax": {
        "loss": {"softmax": 3},
        "dimension": 6,
        "algorithm": SUMS | {"signed": True},
        "privacy": UNCLIPPED | GAUSSIAN,
    },
    "moments": {
        "loss": "logistic",
        "algorithm": SUMS | {"name": "moments", "kappa": 1},
        "privacy": UNCLIPPED | {"mechanism": "gaussian-bisr", "delta": 1e-6, "bands": 4},
        "slots": {"size": 2},
    },
    "moments-none": {
        "loss": "hinge",
        "algorithm": SUMS | {"name": "moments"},
        "privacy": UNCLIPPED | {"mechanism": "none", "norm": "l2"},
    },
    "moments-once": {
        "loss": "hinge",
        "algorithm": SUMS | {"name": "moments"},
        "privacy": UNCLIPPED | GAUSSIAN | {"epsilon": 20},
        "slots": {"size": 20},
        "rounds": 1,
    },
    "sparse-records": {
        "loss": "logistic",
        "records": "libsvm",
        "algorithm": {"name": "sparse-dola", "constraint": {"l2-ball": 1}, "lasso": 0.1},
        "slots": {"size": 2},
    },
}


class Pinball:
    """A loss of a user's own."""

    def value(self, decision, observations):
        rest = observations.labels - (decision[..., None, :] * observations.features).sum(-1)
        return np.where(observations.present, np.maximum(0.9 * rest, -0.1 * rest), 0.0)

    def gradients(self, decision, observations):
        rest = observations.labels - (decision[..., None, :] * observations.features).sum(-1)
        return (np.where(rest > 0, -0.9, 0.1) * observations.present)[..., None] * observations.features


def names(settings):
    """What may be chosen of a kind: maps, sets, losses, graphs."""
    return {field.alias or name for name, field in settings.model_fields.items()} - {
        *getattr(settings, "beside", ())
    }


def words(annotation):
    """The words of a `Literal`, wherever it stands in the annotation."""
    return {annotation} if isinstance(annotation, str) else set().union(*map(words, get_args(annotation)))


OFFERED = {
    "algorithm": words(AlgorithmSettings.model_fields["name"].annotation),
    "step size": words(StepSizeSettings.model_fields["rule"].annotation),
    "mechanism": words(PrivacySettings.model_fields["mechanism"].annotation),
    "on": words(PrivacySettings.model_fields["on"].annotation),
    "norm": words(PrivacySettings.model_fields["norm"].annotation),
    "calibration": words(PrivacySettings.model_fields["calibration"].annotation),
    "map": names(MirrorMapSettings),
    "set": names(ConstraintSettings),
    "loss": names(LossSettings),
    "graph": names(GraphSettings),
    "motion": words(DynamicsSettings.model_fields["model"].annotation) | {"matrix"},
}


def chosen(mesh):
    """What a mesh has of everything that is offered."""
    algorithm, privacy, topology = mesh.algorithm, mesh.privacy, mesh.topology
    graphs = topology.cycle or [topology.graph]
    return {
        "algorithm": {algorithm.name},
        "step size": {algorithm.step_size.rule},
        "mechanism": {privacy.mechanism},
        "on": {privacy.on},
        "norm": {privacy.norm},
        "calibration": {privacy.calibration} - {None},
        "map": {algorithm.mirror_map.name},
        "set": {algorithm.constraint.name},
        "loss": {mesh.loss.name},
        "graph": {graph.name for graph in graphs},
        "motion": set() if algorithm.dynamics is None else {algorithm.dynamics.model or "matrix"},
    }


def test_everything_that_a_mesh_file_offers_is_in_some_case(tmp_path):
    meshes = [meshed(tmp_path, changes).mesh for changes in CASES.values()]
    for kind, offered in OFFERED.items():
        assert offered, kind
        assert set().union(*(chosen(mesh)[kind] for mesh in meshes)) == offered, kind


def source(folder, name, kind, loss):
    """A file of records for a node, one of which cannot be read, and how they are read."""
    random, path = generator("records", name), folder / f"{name}.{kind}"
    rows, labels = random.uniform(-1, 1, (30, 2)).round(3), random.integers(0, 3, 30)
    rows[random.random((30, 2)) < 0.3] = 0.0
    if kind == "libsvm":
        lines = [
            " ".join([str(label), *(f"{k + 1}:{v}" for k, v in enumerate(row) if v)])
            for label, row in zip(labels, rows.tolist(), strict=True)
        ]
        lines[1] = "1 2:1 2:1"
        path.write_text("\n".join(lines) + "\n")
        return {"kind": kind, "path": path.name, "label": {"positive": [1, 2]}}
    lines = [f"{row[0]},{row[1]},{label}" for label, row in zip(labels, rows.tolist(), strict=True)]
    lines[1] = "0.5,none,1"
    path.write_text("\n".join(["one,two,y", *lines]) + "\n")
    label = {
        "hinge": {"positive": [1, 2]},
        "logistic": {"positive": [1, 2]},
        "softmax": {"classes": [0, 1, 2]},
    }
    schema = {
        "features": {column: {"bounds": [-1, 1]} for column in ("one", "two")},
        "label": {"column": "y"} | label.get(loss, {}),
    }
    return {"kind": kind, "path": path.name, "schema": schema}


def meshed(folder, changes):
    """The mesh file of a case; `records`: the kind of file that is read where the loss is not of ranges."""
    algorithm = changes.get("algorithm", {})
    tree = changed(**{key: value for key, value in changes.items() if key not in {"algorithm", "records"}})
    loss = changes.get("loss", "range")
    if loss != "range":
        kind, word = changes.get("records", "csv"), loss if isinstance(loss, str) else next(iter(loss))
        tree["nodes"] = {name: {"source": source(folder, name, kind, word)} for name in "abcd"}
    tree["mesh"]["algorithm"] |= algorithm
    for part in ("topology", "algorithm", "privacy"):  # None: not given
        tree["mesh"][part] = {key: value for key, value in tree["mesh"][part].items() if value is not None}
    return loaded(folder, tree)


def in_memory(file):
    """What a mesh on the memory bus has released after each round, decided and seen: (T, N, ...) each.

    And the decisions of its last closing round (N, d).
    """
    local = LocalRun(mesh_parts(file))
    local.to_round(file.mesh.rounds)
    local.finish()
    histories = local.recorder.nodes.values()
    releases = np.array([[record.release for record in history.records] for history in histories])
    return (
        releases.swapaxes(0, 1),
        local.recorder.decisions(),
        local.recorder.observations(file.mesh.slots.size),
        local.recorder.last_decisions(),
    )


def engine(file, cls=SimulatedSampler):
    """The engine of a mesh file."""
    names = tuple(sorted(file.mesh.nodes))
    sampler = cls(file.mesh.seed, names)
    learner = replace(file.resolved.node(names[0]).learner_with(sampler), algorithm=file.resolved.algorithm)
    return Engine(learner, file.resolved.schedule)


def slots(observations):
    """The slots of the rounds."""
    return (type(observations)(*(part[t] for part in observations)) for t in range(len(observations.labels)))


@pytest.mark.parametrize("case", CASES)
def test_releases_and_decisions_are_those_of_the_mesh(tmp_path, case):
    file = meshed(tmp_path, CASES[case])
    releases, decisions, observations, closed = in_memory(file)
    steps = list(engine(file).steps(slots(observations)))
    assert len(steps) == file.resolved.last_round(file.mesh.rounds)
    for t, step in enumerate(steps):
        assert step.lesson.release.tobytes() == releases[t].tobytes()
        assert step.decision.tobytes() == np.ascontiguousarray(decisions[t]).tobytes()
    if len(steps) > 1:
        assert steps[-1].releases.tobytes() == releases[-2].tobytes()
    rounds = closing_rounds(file.resolved.schedule, len(steps))
    assert engine(file).closed(steps[-1], rounds).tobytes() == np.ascontiguousarray(closed).tobytes()
    assert closed.tobytes() != np.ascontiguousarray(decisions[-1]).tobytes()


def test_other_noise_is_other_releases(tmp_path):
    file = meshed(tmp_path, {})
    releases, _, observations, _ = in_memory(file)
    other = replace(file, mesh=file.mesh.model_copy(update={"seed": 1}))
    steps = list(engine(other).steps(slots(observations)))
    assert steps[0].lesson.release.tobytes() != releases[0].tobytes()


@pytest.mark.parametrize("dimension", [1, 2, 17, 2000])
@pytest.mark.parametrize("graph", ["sparse", "star", "directed", "alone"])
def test_every_row_has_the_bits_of_one_node_alone(graph, dimension):
    names = tuple(f"n-{k:02}" for k in range(23))
    graphs = {
        "sparse": lambda: metropolis(erdos_renyi(names, 3, mean_degree=4)),
        "star": lambda: metropolis(star(names)),
        "directed": lambda: permutations(
            from_edges(names, list(zip(names, names[1:] + names[:1], strict=True)), directed=True)
        ),
        "alone": lambda: metropolis(from_edges(names, [])),
    }
    weights = graphs[graph]()
    values = generator("mixing", dimension).normal(size=(len(names), dimension))
    values[:, ::3] = -0.0
    mixing = Mixing(weights)
    found, shares = mixing(values), mixing.shares
    for i, name in enumerate(names):
        row = [
            (names[j], weight, values[j])
            for j, target, weight in zip(
                weights.sources, weights.targets, weights.values.tolist(), strict=True
            )
            if target == i
        ]
        rest = 0.0
        for _, weight, _ in row:
            rest += weight
        own_weight = max(0.0, 1.0 - rest)
        assert found[i].tobytes() == mixed([*row, (name, own_weight, values[i])]).tobytes()
        squares = [(source, weight, np.array(weight)) for source, weight, _ in row]
        assert shares[i] == mixed([*squares, (name, own_weight, np.array(own_weight))])
